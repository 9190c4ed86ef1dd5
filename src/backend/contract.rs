//! What every backend must do. A new backend runs this suite before anything else.

use std::thread;

use super::{
  Arrival, Backend, Change, CheckpointEntry, Content, Document, Encoding, Footing, Item, Peek, Put, Receive, Series,
  Surplus, Wanted, supply_of,
};
use crate::error::{Code, Error};
use crate::format::delta::{self, Reference};
use crate::id::{AgentId, CheckpointId, SessionId, TaskId};

type Factory<'a> = &'a dyn Fn(u32) -> Box<dyn Backend>;

/// Runs every clause on a backend of its own; `new_backend` is told how many earlier versions it keeps.
pub fn run(new_backend: impl Fn(u32) -> Box<dyn Backend>) {
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
  agents_have_rows_of_their_own(new_backend);
  a_pinned_checkpoint_is_not_retired_and_not_counted(new_backend);
  an_update_sees_what_is_there_and_no_other_comes_between(new_backend);
  as_many_earlier_versions_stay_as_are_wanted(new_backend);
  a_session_is_founded_whole_or_not_at_all(new_backend);
  a_delta_needs_its_key_and_the_key_goes_with_the_last_one(new_backend);
  what_a_session_is_founded_with_has_its_place(new_backend);
  a_supply_that_fails_leaves_nothing(new_backend);
  simultaneous_writers_never_mix(new_backend);
}

fn opened(new_backend: Factory<'_>) -> Box<dyn Backend> {
  let backend = new_backend(0);
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
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap(), None);
  assert_eq!(
    backend
      .read(&s, Item::Checkpoint(None, &id, Encoding::Gzip), u64::MAX)
      .unwrap(),
    None
  );
  assert!(backend.checkpoints(&(&s).into()).unwrap().is_empty());
  assert_eq!(
    backend.surplus(&(&s).into(), Wanted::Beyond(0)).unwrap(),
    Surplus::default()
  );
  assert!(backend.sessions_with_checkpoint(&id).unwrap().is_empty());
  assert_eq!(backend.usage(&s).unwrap(), super::Usage::default());
  backend.remove(&s, Item::TASK_TREE).unwrap();
  backend.confirm_retired(&(&s).into()).unwrap();
  backend.delete_session(&s).unwrap();
  assert!(backend.sessions().unwrap().is_empty());
}

fn what_was_written_is_read_back_and_replaced(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let (task, id) = (TaskId::parse("task 1").unwrap(), checkpoint("foreign"));
  let items = [
    Item::SESSION,
    Item::TASK_TREE,
    Item::TaskResult(&task),
    Item::Checkpoint(None, &id, Encoding::Json),
    Item::Checkpoint(None, &id, Encoding::Gzip),
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
    let peeked = backend.peek(&(&s).into(), &entries, head, tail).unwrap();
    peeked.into_iter().map(Result::unwrap).collect::<Vec<_>>()
  };
  assert_eq!(peek(3, 2), [None, None, None]);
  backend
    .write(&s, Series::from(&s).item_of(&entries[0]), b"0123456789")
    .unwrap();
  backend.write(&s, Series::from(&s).item_of(&entries[2]), b"").unwrap();
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
    assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap().unwrap(), content);
    assert_eq!(backend.read(&s, Item::TASK_TREE, u64::MAX).unwrap().unwrap(), content);
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
    backend.write(&session(id), Item::SESSION, b"{}").unwrap();
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
      .write(&s, Item::Checkpoint(None, &checkpoint(id), encoding), b"{}")
      .unwrap();
  }
  let listed = backend.checkpoints(&(&s).into()).unwrap();
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
    let surplus = backend.surplus(&(&s).into(), Wanted::Beyond(keep)).unwrap();
    assert_eq!(surplus.newest.as_ref(), listed.first());
    assert_eq!(surplus.entries, listed[keep.min(5)..], "{keep}");
  }
  assert_eq!(backend.surplus(&(&s).into(), Wanted::All).unwrap().entries, listed);
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
    .write(&session("b"), Item::Checkpoint(None, &id, Encoding::Gzip), b"x")
    .unwrap();
  backend
    .write(&session("a"), Item::Checkpoint(None, &id, Encoding::Json), b"x")
    .unwrap();
  backend
    .write(
      &session("c"),
      Item::Checkpoint(None, &checkpoint("cp-2-000000"), Encoding::Json),
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
    backend
      .write(&s, Item::Checkpoint(None, id, Encoding::Json), b"{}")
      .unwrap();
  }
  backend.write(&s, Item::SESSION, b"{}").unwrap();
  backend.write(&other, Item::SESSION, b"{}").unwrap();

  assert!(
    backend
      .remove(&s, Item::Checkpoint(None, &one, Encoding::Json))
      .unwrap()
  );
  assert!(
    !backend
      .remove(&s, Item::Checkpoint(None, &one, Encoding::Json))
      .unwrap()
  );
  assert!(
    !backend
      .remove(&s, Item::Checkpoint(None, &one, Encoding::Gzip))
      .unwrap()
  );
  let left = backend.checkpoints(&(&s).into()).unwrap();
  assert_eq!(left.iter().map(|entry| &entry.id).collect::<Vec<_>>(), [&two]);

  backend.delete_session(&s).unwrap();
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap(), None);
  assert!(backend.checkpoints(&(&s).into()).unwrap().is_empty());
  assert_eq!(backend.sessions().unwrap(), [other]);
}

fn usage_counts_every_byte(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let (id, task) = (checkpoint("cp-1-000000"), TaskId::parse("t").unwrap());
  backend.write(&s, Item::SESSION, b"12345").unwrap();
  backend.write(&s, Item::TaskResult(&task), b"12").unwrap();
  backend
    .write(&s, Item::Checkpoint(None, &id, Encoding::Json), b"123")
    .unwrap();
  backend
    .write(&s, Item::Checkpoint(None, &id, Encoding::Gzip), b"1234")
    .unwrap();
  let usage = backend.usage(&s).unwrap();
  assert_eq!((usage.total_bytes, usage.checkpoints, usage.results), (14, 2, 1));
}

/// Every read in the middle of it sees one whole write, and two items written together end up of one kind.
fn agents_have_rows_of_their_own(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, id) = (session("s"), checkpoint("cp-1-000000"));
  let of = |agent: &str| Series {
    session: s.clone(),
    agent: Some(AgentId::parse(agent).unwrap()),
  };
  let series = [of("a"), of("b"), (&s).into()];
  assert!(backend.agents(&s).unwrap().is_empty());
  for (number, series) in series.iter().enumerate() {
    let bytes = number.to_string();
    backend.write(&s, series.item(&id, Encoding::Json), &bytes).unwrap();
  }
  let names: Vec<_> = backend.agents(&s).unwrap().iter().map(ToString::to_string).collect();
  assert_eq!(names, ["a", "b"]);
  assert_eq!(
    (
      backend.usage(&s).unwrap().checkpoints,
      backend.usage(&s).unwrap().agent_checkpoints
    ),
    (1, 2)
  );
  let surplus = backend.surplus(&series[0], Wanted::Beyond(0)).unwrap();
  assert_eq!(surplus.entries.len(), 1);
  assert!(backend.retire(&series[0], &surplus.entries[0]).unwrap());
  assert!(!backend.retire(&series[0], &surplus.entries[0]).unwrap());
  backend.confirm_retired(&series[0]).unwrap();
  backend.give_back_space().unwrap();
  for (number, series) in series.iter().enumerate() {
    let read = backend.read(&s, series.item(&id, Encoding::Json), u64::MAX).unwrap();
    let expected = (number > 0).then(|| number.to_string().into_bytes());
    assert_eq!(read, expected, "{series}");
    assert_eq!(backend.checkpoints(series).unwrap().len(), usize::from(number > 0));
    let peeked = backend.peek(series, &surplus.entries, 1, 1).unwrap();
    assert_eq!(peeked[0].as_ref().unwrap().is_some(), number > 0);
  }
  let only = vec![s.clone()];
  assert_eq!(backend.sessions_with_checkpoint(&id).unwrap(), only);
  assert_eq!(backend.places().unwrap(), only);
  backend.delete_session(&s).unwrap();
  assert!(backend.agents(&s).unwrap().is_empty() && backend.places().unwrap().is_empty());
}

fn a_pinned_checkpoint_is_not_retired_and_not_counted(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, series) = (session("s"), Series::from(session("s")));
  let ids: Vec<_> = (1..=4)
    .map(|number| checkpoint(&format!("cp-{number}-000000")))
    .collect();
  assert!(!backend.set_pinned(&series, &ids[0], true).unwrap());
  for id in &ids {
    backend.write(&s, series.item(id, Encoding::Json), b"{}").unwrap();
  }
  let surplus = |keep| {
    let entries = backend.surplus(&series, Wanted::Beyond(keep)).unwrap().entries;
    entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>()
  };
  assert_eq!(surplus(2), [ids[1].clone(), ids[0].clone()]);
  assert!(!backend.set_pinned(&series, &checkpoint("cp-9-000000"), true).unwrap());
  for _ in 0..2 {
    assert!(backend.set_pinned(&series, &ids[0], true).unwrap());
  }
  assert_eq!(surplus(2), [ids[1].clone()]);
  assert_eq!(surplus(0).len(), 3);
  assert_eq!(backend.surplus(&series, Wanted::All).unwrap().entries.len(), 4);
  let pinned = backend.checkpoints(&series).unwrap().pop().unwrap();
  assert!(pinned.is_pinned && pinned.id == ids[0]);
  assert!(!backend.retire(&series, &pinned).unwrap());
  assert_eq!(backend.usage(&s).unwrap().pinned, 1);
  assert!(backend.set_pinned(&series, &ids[0], false).unwrap());
  assert_eq!(surplus(2).len(), 2);
  assert!(backend.retire(&series, &pinned).unwrap());
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 3);
  // Who deletes it by name means it.
  backend.set_pinned(&series, &ids[3], true).unwrap();
  assert!(backend.remove(&s, series.item(&ids[3], Encoding::Json)).unwrap());
  backend.write(&s, series.item(&ids[3], Encoding::Json), b"{}").unwrap();
  assert!(!backend.checkpoints(&series).unwrap()[0].is_pinned);
}

fn an_update_sees_what_is_there_and_no_other_comes_between(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let update = |change: &mut Change<'_>| backend.update(&s, Document::Labels, u64::MAX, change);
  update(&mut |old| Ok(old)).unwrap();
  assert_eq!(backend.read(&s, Item::LABELS, u64::MAX).unwrap(), None);
  let refused = update(&mut |_| Err(Error::invalid_argument("no")));
  assert_eq!(refused.unwrap_err().code, Code::InvalidArgument);
  thread::scope(|scope| {
    for _ in 0..4 {
      scope.spawn(|| {
        for _ in 0..10 {
          let longer = |old: Option<Vec<u8>>| Ok(Some([old.unwrap_or_default(), b"x".to_vec()].concat()));
          update(&mut { longer }).unwrap();
        }
      });
    }
  });
  assert_eq!(backend.read(&s, Item::LABELS, u64::MAX).unwrap().unwrap().len(), 40);
  update(&mut |_| Ok(None)).unwrap();
  assert_eq!(backend.read(&s, Item::LABELS, u64::MAX).unwrap().unwrap().len(), 40);
}

fn as_many_earlier_versions_stay_as_are_wanted(new_backend: Factory<'_>) {
  let backend = new_backend(2);
  backend.initialize().unwrap();
  let s = session("s");
  let versions = |document| {
    let items = [
      Item::Document(document),
      Item::Previous(document, 1),
      Item::Previous(document, 2),
      Item::Previous(document, 3),
    ];
    let read = items.map(|item| backend.read(&s, item, u64::MAX).unwrap());
    read.map(|bytes| bytes.map_or_else(String::new, |bytes| String::from_utf8(bytes).unwrap()))
  };
  backend.write(&s, Item::SESSION, b"1").unwrap();
  assert_eq!(versions(Document::Session), ["1", "", "", ""]);
  backend.write(&s, Item::SESSION, b"2").unwrap();
  backend.write_state(&s, b"3", b"t1").unwrap();
  assert_eq!(versions(Document::Session), ["3", "2", "1", ""]);
  assert_eq!(versions(Document::TaskTree), ["t1", "", "", ""]);
  backend
    .update(&s, Document::Session, u64::MAX, &mut |_| Ok(Some(b"4".to_vec())))
    .unwrap();
  backend.write_state(&s, b"5", b"t2").unwrap();
  assert_eq!(versions(Document::Session), ["5", "4", "3", ""]);
  assert_eq!(versions(Document::TaskTree), ["t2", "t1", "", ""]);
  for _ in 0..2 {
    backend.write(&s, Item::LABELS, b"l").unwrap();
  }
  assert_eq!(versions(Document::Labels), ["l", "", "", ""]);
  backend.delete_session(&s).unwrap();
  assert_eq!(versions(Document::Session), ["", "", "", ""]);
}

fn a_session_is_founded_whole_or_not_at_all(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, id) = (session("s"), checkpoint("cp-1-000000"));
  let items: [(Item<'_>, &dyn Content); 2] = [
    (Item::Checkpoint(None, &id, Encoding::Json), &b"cp"),
    (Item::SESSION, &b"document"),
  ];
  backend.create_session(&s).unwrap();
  assert!(backend.found(&s, &mut supply_of(&items)).unwrap());
  assert_eq!(backend.sessions().unwrap().len(), 1);
  assert_eq!(backend.checkpoints(&(&s).into()).unwrap().len(), 1);
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap().unwrap(), b"document");
  backend.write(&s, Item::SESSION, b"changed").unwrap();
  assert!(!backend.found(&s, &mut supply_of(&items)).unwrap());
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap().unwrap(), b"changed");
  for (number, item) in [Item::TASK_TREE, Item::TaskResult(&TaskId::parse("t").unwrap())]
    .into_iter()
    .enumerate()
  {
    let other = session(&format!("other-{number}"));
    backend.write(&other, item, b"mine").unwrap();
    assert!(!backend.found(&other, &mut supply_of(&items)).unwrap());
    assert_eq!(backend.read(&other, item, u64::MAX).unwrap().unwrap(), b"mine");
    assert_eq!(backend.read(&other, Item::SESSION, u64::MAX).unwrap(), None);
  }
  let race = session("race");
  let founders = thread::scope(|scope| {
    let found = || {
      backend
        .found(&race, &mut supply_of(&[(Item::SESSION, &b"document")]))
        .unwrap()
    };
    let founders: Vec<_> = (0..4).map(|_| scope.spawn(found)).collect();
    founders
      .into_iter()
      .filter_map(|founder| founder.join().unwrap().then_some(()))
      .count()
  });
  assert_eq!(founders, 1);
}

fn a_delta_needs_its_key_and_the_key_goes_with_the_last_one(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let agent = AgentId::parse("a").unwrap();
  for series in [
    Series::from(&s),
    Series {
      session: s.clone(),
      agent: Some(agent),
    },
  ] {
    let ids: Vec<_> = (0..4)
      .map(|number| checkpoint(&format!("cp-1-00000{number}")))
      .collect();
    let (key, other_key) = (&ids[0], &ids[3]);
    let bytes = |key: &CheckpointId| {
      let reference = Reference {
        key: key.clone(),
        bytes: 4,
        checksum: 0,
        is_same: true,
      };
      delta::compose(&reference, "{}", b"")
    };
    let write = |id: &CheckpointId, key: &CheckpointId, known, added| {
      let footing = Footing {
        key,
        known,
        added,
        seen: None,
      };
      match backend.write_delta(&series, id, footing, &bytes(key)).unwrap() {
        Put::Stored { size, .. } => Some(size),
        Put::KeyIsGone => None,
        Put::Unguarded => unreachable!("there are locks here"),
      }
    };
    let read = |key| backend.read(&s, series.key(key), u64::MAX).unwrap();

    assert_eq!(write(&ids[1], key, 4, b""), None, "there is no key");
    assert!(backend.checkpoints(&series).unwrap().is_empty());
    assert_eq!(write(&ids[0], key, 0, b"key!"), Some(bytes(key).len() as u64));
    assert_eq!(write(&ids[1], key, 5, b"more"), None, "the key is shorter");
    assert!(write(&ids[1], key, 4, b" and more").is_some());
    assert_eq!(read(key).unwrap(), b"key! and more");
    assert!(write(&ids[2], key, 4, b"").is_some());
    // Somebody who brings it here again may have seen less of it; what is damaged gives way.
    assert!(write(&ids[2], key, 0, b"key!").is_some());
    assert_eq!(read(key).unwrap(), b"key! and more");
    backend.write(&s, series.key(key), b"kex! and more").unwrap();
    assert!(write(&ids[2], key, 0, b"key! and more").is_some());
    assert_eq!(read(key).unwrap(), b"key! and more");
    assert_eq!(backend.keys(&series).unwrap(), [(key.clone(), 13)]);
    assert_eq!(backend.checkpoints(&series).unwrap().len(), 3);
    assert_eq!(backend.remove_unused_keys(&series).unwrap(), 0);

    // The one that it was made for is not needed for it.
    assert!(backend.remove(&s, series.item(&ids[0], Encoding::Delta)).unwrap());
    assert!(read(key).is_some());
    let retired = CheckpointEntry::new(ids[1].clone(), Encoding::Delta, || 0);
    backend.retire(&series, &retired).unwrap();
    assert!(read(key).is_some());
    assert!(write(&ids[3], other_key, 0, b"other").is_some());
    assert!(backend.remove(&s, series.item(&ids[2], Encoding::Delta)).unwrap());
    assert_eq!((read(key), read(other_key).is_some()), (None, true));
    assert_eq!(write(&ids[2], key, 4, b""), None, "it is gone");

    // What an interruption may leave.
    backend.write(&s, series.key(key), b"orphan").unwrap();
    assert_eq!(backend.remove_unused_keys(&series).unwrap(), 6);
    assert_eq!(backend.keys(&series).unwrap(), [(other_key.clone(), 5)]);
    let usage = backend.usage(&s).unwrap();
    assert!(usage.total_bytes >= 5 + bytes(other_key).len() as u64);
  }
  backend.delete_session(&s).unwrap();
  assert_eq!(backend.usage(&s).unwrap(), super::Usage::default());
  assert!(backend.keys(&s.into()).unwrap().is_empty());
}

fn what_a_session_is_founded_with_has_its_place(new_backend: Factory<'_>) {
  let backend = new_backend(3);
  backend.initialize().unwrap();
  let (s, a, task) = (session("s"), AgentId::parse("a").unwrap(), TaskId::parse("t").unwrap());
  let (old, young, own) = (checkpoint("old"), checkpoint("young"), checkpoint("cp-1-000000"));
  let arrival = |item| Arrival {
    item,
    content: &b"bytes",
    is_pinned: false,
    made_at: None,
  };
  let mut supply = |receive: &mut Receive<'_>| {
    // In no order: what comes first is not older for it.
    receive(Arrival {
      made_at: Some(9_000),
      ..arrival(Item::Checkpoint(None, &young, Encoding::Gzip))
    })?;
    receive(Arrival {
      made_at: Some(4_000),
      is_pinned: true,
      ..arrival(Item::Checkpoint(None, &old, Encoding::Json))
    })?;
    receive(Arrival {
      is_pinned: true,
      ..arrival(Item::Checkpoint(Some(&a), &own, Encoding::Json))
    })?;
    receive(arrival(Item::Checkpoint(None, &own, Encoding::Json)))?;
    receive(arrival(Item::TaskResult(&task)))?;
    receive(arrival(Item::LABELS))?;
    for (back, content) in [(2, b"2"), (0, b"0"), (1, b"1")] {
      receive(Arrival {
        content,
        ..arrival(Item::version(Document::Session, back))
      })?;
    }
    Ok(())
  };
  assert!(backend.found(&s, &mut supply).unwrap());
  let entries = backend.checkpoints(&(&s).into()).unwrap();
  let seen: Vec<_> = entries
    .iter()
    .map(|entry| (entry.id.as_str(), entry.made_at, entry.is_pinned))
    .collect();
  assert_eq!(
    seen,
    [("young", 9_000, false), ("old", 4_000, true), ("cp-1-000000", 1, false)]
  );
  let of_agent = Series {
    session: s.clone(),
    agent: Some(a),
  };
  let entries = backend.checkpoints(&of_agent).unwrap();
  assert_eq!(entries.iter().map(|entry| entry.is_pinned).collect::<Vec<_>>(), [true]);
  assert_eq!(backend.results(&s).unwrap(), [task]);
  let version = |back| {
    backend
      .read(&s, Item::version(Document::Session, back), u64::MAX)
      .unwrap()
  };
  assert_eq!(backend.versions(&s, Document::Session).unwrap(), 2);
  assert_eq!(backend.versions(&s, Document::TaskTree).unwrap(), 0);
  assert_eq!(
    [version(0).unwrap(), version(1).unwrap(), version(2).unwrap()],
    [b"0", b"1", b"2"]
  );
  backend.write(&s, Item::SESSION, b"new").unwrap();
  assert_eq!(backend.versions(&s, Document::Session).unwrap(), 3);
  assert_eq!(
    [version(1).unwrap(), version(2).unwrap(), version(3).unwrap()],
    [b"0", b"1", b"2"]
  );
  backend.write(&s, Item::SESSION, b"newer").unwrap();
  assert_eq!(version(1).unwrap(), b"new");
  assert_eq!(
    [version(2).unwrap(), version(3).unwrap()],
    [b"0", b"1"],
    "of those that came in, the oldest goes first"
  );
  assert_eq!(version(4), None);
}

fn a_supply_that_fails_leaves_nothing(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let failed = backend.found(&s, &mut |receive| {
    supply_of(&[(Item::SESSION, &b"document"), (Item::TASK_TREE, &b"tree")])(receive)?;
    Err(Error::new(Code::Corrupt, "no more"))
  });
  assert_eq!(failed.unwrap_err().code, Code::Corrupt);
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap(), None);
  assert!(backend.places().unwrap().is_empty());
  assert!(
    backend
      .found(&s, &mut supply_of(&[(Item::SESSION, &b"document")]))
      .unwrap()
  );
}

fn simultaneous_writers_never_mix(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let contents: Vec<Vec<u8>> = (0..8u8).map(|writer| vec![writer; 20_000]).collect();
  backend.write(&s, Item::SESSION, &contents[0]).unwrap();
  thread::scope(|scope| {
    for content in &contents {
      let (backend, s, contents) = (&backend, &s, &contents);
      scope.spawn(move || {
        for _ in 0..5 {
          backend.write_state(s, content, content).unwrap();
          let read = backend.read(s, Item::SESSION, u64::MAX).unwrap().unwrap();
          assert!(contents.contains(&read));
        }
      });
    }
  });
  assert_eq!(
    backend.read(&s, Item::SESSION, u64::MAX).unwrap(),
    backend.read(&s, Item::TASK_TREE, u64::MAX).unwrap()
  );
}
