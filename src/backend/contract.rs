//! What every backend must do. A new backend runs this suite before anything else.

use super::{Backend, CheckpointEntry, Encoding, Item, Peek, Surplus};
use crate::id::{CheckpointId, SessionId, TaskId};

type Factory<'a> = &'a dyn Fn() -> Box<dyn Backend>;

/// Runs every clause on a backend of its own.
pub fn run(new_backend: impl Fn() -> Box<dyn Backend>) {
  let new_backend: Factory<'_> = &new_backend;
  what_is_missing_is_none_and_no_error(new_backend);
  what_was_written_is_read_back_and_replaced(new_backend);
  a_peek_shows_both_ends(new_backend);
  session_and_tree_are_written_together(new_backend);
  only_sessions_with_a_session_document_are_listed(new_backend);
  checkpoints_are_listed_newest_first(new_backend);
  a_checkpoint_is_found_in_every_session_that_holds_it(new_backend);
  removing_takes_one_item_and_deleting_takes_all(new_backend);
  usage_counts_every_byte(new_backend);
  simultaneous_writers_never_mix(new_backend);
}

fn opened(new_backend: Factory<'_>) -> Box<dyn Backend> {
  let backend = new_backend();
  backend.initialize().unwrap();
  backend.initialize().unwrap();
  backend
}

fn session(id: &str) -> SessionId {
  SessionId::parse(id).unwrap()
}

fn checkpoint(id: &str) -> CheckpointId {
  CheckpointId::parse(id).unwrap()
}

fn what_is_missing_is_none_and_no_error(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("nobody");
  let id = checkpoint("cp-1-000000");
  assert_eq!(backend.read(&s, Item::Session, u64::MAX).unwrap(), None);
  assert_eq!(
    backend
      .read(&s, Item::Checkpoint(&id, Encoding::Gzip), u64::MAX)
      .unwrap(),
    None
  );
  assert!(backend.checkpoints(&s).unwrap().is_empty());
  assert_eq!(backend.surplus(&s, 0).unwrap(), Surplus::default());
  assert!(backend.sessions_with_checkpoint(&id).unwrap().is_empty());
  assert_eq!(backend.usage(&s).unwrap(), super::Usage::default());
  backend.remove(&s, Item::TaskTree).unwrap();
  backend.delete_session(&s).unwrap();
  assert!(backend.sessions().unwrap().is_empty());
}

fn what_was_written_is_read_back_and_replaced(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let (task, id) = (TaskId::parse("task 1").unwrap(), checkpoint("foreign"));
  let items = [
    Item::Session,
    Item::TaskTree,
    Item::TaskResult(&task),
    Item::Checkpoint(&id, Encoding::Json),
    Item::Checkpoint(&id, Encoding::Gzip),
  ];
  for item in items {
    backend.write(&s, item, b"first, longer").unwrap();
    let text = item.to_string();
    assert_eq!(backend.write(&s, item, &text).unwrap(), text.len() as u64);
  }
  for item in items {
    assert_eq!(
      backend.read(&s, item, u64::MAX).unwrap().unwrap(),
      item.to_string().as_bytes()
    );
    assert!(backend.name_of(&s, item).ends_with(&item.to_string()));
  }
}

fn a_peek_shows_both_ends(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let entry = |id| CheckpointEntry::new(checkpoint(id), Encoding::Json, || 0);
  let entries = [entry("cp-1-000000"), entry("cp-2-000000"), entry("cp-3-000000")];
  let peek = |head, tail| {
    let peeked = backend.peek(&s, &entries, head, tail).unwrap();
    peeked.into_iter().map(Result::unwrap).collect::<Vec<_>>()
  };
  assert_eq!(peek(3, 2), [None, None, None]);
  backend.write(&s, entries[0].item(), b"0123456789").unwrap();
  backend.write(&s, entries[2].item(), b"").unwrap();
  for (head, tail, first, last) in [(3, 2, "012", "89"), (20, 9, "0123456789", "123456789"), (0, 0, "", "")] {
    let whole = |head: &str, tail: &str, size| {
      let (head, tail) = (head.into(), tail.into());
      Some(Peek { head, tail, size })
    };
    assert_eq!(peek(head, tail), [whole(first, last, 10), None, whole("", "", 0)]);
  }
}

fn session_and_tree_are_written_together(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  for content in [b"one", b"two"] {
    backend.write_state(&s, content, content).unwrap();
    assert_eq!(backend.read(&s, Item::Session, u64::MAX).unwrap().unwrap(), content);
    assert_eq!(backend.read(&s, Item::TaskTree, u64::MAX).unwrap().unwrap(), content);
  }
}

fn only_sessions_with_a_session_document_are_listed(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  for id in ["b", "a", "c"] {
    backend.create_session(&session(id)).unwrap();
    backend.create_session(&session(id)).unwrap();
  }
  assert!(backend.sessions().unwrap().is_empty());
  for id in ["c", "a"] {
    backend.write(&session(id), Item::Session, b"{}").unwrap();
  }
  assert_eq!(backend.sessions().unwrap(), [session("a"), session("c")]);
}

fn checkpoints_are_listed_newest_first(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let made = [
    ("cp-mwima86h-000002", Encoding::Json),
    ("cp-mwima86i-000000", Encoding::Gzip),
    ("cp-mwima86h-00000z", Encoding::Gzip),
    ("cp-1-000000", Encoding::Json),
    ("foreign", Encoding::Json),
  ];
  for (id, encoding) in made {
    backend
      .write(&s, Item::Checkpoint(&checkpoint(id), encoding), b"{}")
      .unwrap();
  }
  let listed = backend.checkpoints(&s).unwrap();
  let ids: Vec<_> = listed
    .iter()
    .map(|entry| entry.id.as_str())
    .filter(|id| *id != "foreign")
    .collect();
  assert_eq!(
    ids,
    [
      "cp-mwima86i-000000",
      "cp-mwima86h-00000z",
      "cp-mwima86h-000002",
      "cp-1-000000"
    ]
  );
  assert_eq!(listed.len(), 5);
  for keep in [0, 1, 4, 5, 9, usize::MAX] {
    let surplus = backend.surplus(&s, keep).unwrap();
    assert_eq!(surplus.newest.as_ref(), listed.first());
    assert_eq!(surplus.entries, listed[keep.min(5)..], "{keep}");
  }
  assert!(
    listed
      .iter()
      .all(|entry| made.contains(&(entry.id.as_str(), entry.encoding)))
  );
}

fn a_checkpoint_is_found_in_every_session_that_holds_it(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let id = checkpoint("cp-1-000000");
  backend
    .write(&session("b"), Item::Checkpoint(&id, Encoding::Gzip), b"x")
    .unwrap();
  backend
    .write(&session("a"), Item::Checkpoint(&id, Encoding::Json), b"x")
    .unwrap();
  backend
    .write(
      &session("c"),
      Item::Checkpoint(&checkpoint("cp-2-000000"), Encoding::Json),
      b"x",
    )
    .unwrap();
  assert_eq!(
    backend.sessions_with_checkpoint(&id).unwrap(),
    [session("a"), session("b")]
  );
}

fn removing_takes_one_item_and_deleting_takes_all(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, other) = (session("s"), session("other"));
  let (one, two) = (checkpoint("cp-1-000000"), checkpoint("cp-2-000000"));
  for id in [&one, &two] {
    backend.write(&s, Item::Checkpoint(id, Encoding::Json), b"{}").unwrap();
  }
  backend.write(&s, Item::Session, b"{}").unwrap();
  backend.write(&other, Item::Session, b"{}").unwrap();

  assert!(backend.remove(&s, Item::Checkpoint(&one, Encoding::Json)).unwrap());
  assert!(!backend.remove(&s, Item::Checkpoint(&one, Encoding::Json)).unwrap());
  assert!(!backend.remove(&s, Item::Checkpoint(&one, Encoding::Gzip)).unwrap());
  let left = backend.checkpoints(&s).unwrap();
  assert_eq!(left.iter().map(|entry| &entry.id).collect::<Vec<_>>(), [&two]);

  backend.delete_session(&s).unwrap();
  assert_eq!(backend.read(&s, Item::Session, u64::MAX).unwrap(), None);
  assert!(backend.checkpoints(&s).unwrap().is_empty());
  assert_eq!(backend.sessions().unwrap(), [other]);
}

fn usage_counts_every_byte(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let (id, task) = (checkpoint("cp-1-000000"), TaskId::parse("t").unwrap());
  backend.write(&s, Item::Session, b"12345").unwrap();
  backend.write(&s, Item::TaskResult(&task), b"12").unwrap();
  backend
    .write(&s, Item::Checkpoint(&id, Encoding::Json), b"123")
    .unwrap();
  backend
    .write(&s, Item::Checkpoint(&id, Encoding::Gzip), b"1234")
    .unwrap();
  let usage = backend.usage(&s).unwrap();
  assert_eq!((usage.total_bytes, usage.checkpoints, usage.results), (14, 2, 1));
}

/// Every read in the middle of it sees one whole write, and two items written together end up of one kind.
fn simultaneous_writers_never_mix(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let contents: Vec<Vec<u8>> = (0..8u8).map(|writer| vec![writer; 20_000]).collect();
  backend.write(&s, Item::Session, &contents[0]).unwrap();
  std::thread::scope(|scope| {
    for content in &contents {
      let (backend, s, contents) = (&backend, &s, &contents);
      scope.spawn(move || {
        for _ in 0..5 {
          backend.write_state(s, content, content).unwrap();
          let read = backend.read(s, Item::Session, u64::MAX).unwrap().unwrap();
          assert!(contents.contains(&read));
        }
      });
    }
  });
  assert_eq!(
    backend.read(&s, Item::Session, u64::MAX).unwrap(),
    backend.read(&s, Item::TaskTree, u64::MAX).unwrap()
  );
}
