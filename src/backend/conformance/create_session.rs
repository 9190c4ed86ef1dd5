//! Sessions that come as a whole.

use std::thread;

use super::Shorthand as _;
use super::{Factory, checkpoint, opened, session};
use crate::backend::{BackendExt, Content, Document, Encoding, Item, ItemSink, NewItem, Series, source_of};
use crate::types::error::{Code, Error};
use crate::types::id::{AgentId, TaskId};

pub fn only_sessions_with_a_session_document_are_listed(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  for id in ["b", "a", "c"] {
    backend.create_empty(&session(id)).unwrap();
    backend.create_empty(&session(id)).unwrap();
  }
  assert!(backend.saved_sessions().unwrap().is_empty());
  for id in ["c", "a"] {
    backend.put(&session(id), Item::SESSION, b"{}").unwrap();
  }
  assert_eq!(backend.saved_sessions().unwrap(), [session("a"), session("c")]);
}

pub fn a_session_is_founded_whole_or_not_at_all(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, id) = (session("s"), checkpoint("cp-1-000000"));
  let items: [(Item<'_>, &dyn Content); 2] = [
    (Item::Checkpoint(None, &id, Encoding::Json), &b"cp"),
    (Item::SESSION, &b"document"),
  ];
  backend.create_empty(&s).unwrap();
  assert!(backend.create_session_with(&s, &mut source_of(&items)).unwrap());
  assert_eq!(backend.saved_sessions().unwrap().len(), 1);
  assert_eq!(backend.checkpoints(&(&s).into()).unwrap().len(), 1);
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap().unwrap(), b"document");
  backend.put(&s, Item::SESSION, b"changed").unwrap();
  assert!(!backend.create_session_with(&s, &mut source_of(&items)).unwrap());
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap().unwrap(), b"changed");
  for (number, item) in [Item::TASK_TREE, Item::TaskResult(&TaskId::parse("t").unwrap())]
    .into_iter()
    .enumerate()
  {
    let other = session(&format!("other-{number}"));
    backend.put(&other, item, b"mine").unwrap();
    assert!(!backend.create_session_with(&other, &mut source_of(&items)).unwrap());
    assert_eq!(backend.read(&other, item, u64::MAX).unwrap().unwrap(), b"mine");
    assert_eq!(backend.read(&other, Item::SESSION, u64::MAX).unwrap(), None);
  }
  let race = session("race");
  let founders = thread::scope(|scope| {
    let found = || {
      backend
        .create_session_with(&race, &mut source_of(&[(Item::SESSION, &b"document")]))
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

pub fn what_a_session_is_founded_with_has_its_place(new_backend: Factory<'_>) {
  let backend = new_backend(3);
  backend.open().unwrap();
  let (s, a, task) = (session("s"), AgentId::parse("a").unwrap(), TaskId::parse("t").unwrap());
  let (old, young, own) = (checkpoint("old"), checkpoint("young"), checkpoint("cp-1-000000"));
  let arrival = |item| NewItem {
    item,
    content: &b"bytes",
    is_pinned: false,
    made_at: None,
  };
  let mut supply = |receive: &mut ItemSink<'_>| {
    // In no order: what comes first is not older for it.
    receive(NewItem {
      made_at: Some(9_000),
      ..arrival(Item::Checkpoint(None, &young, Encoding::Gzip))
    })?;
    receive(NewItem {
      made_at: Some(4_000),
      is_pinned: true,
      ..arrival(Item::Checkpoint(None, &old, Encoding::Json))
    })?;
    receive(NewItem {
      is_pinned: true,
      ..arrival(Item::Checkpoint(Some(&a), &own, Encoding::Json))
    })?;
    receive(arrival(Item::Checkpoint(None, &own, Encoding::Json)))?;
    receive(arrival(Item::TaskResult(&task)))?;
    receive(arrival(Item::LABELS))?;
    for (back, content) in [(2, b"2"), (0, b"0"), (1, b"1")] {
      receive(NewItem {
        content,
        ..arrival(Item::version(Document::Session, back))
      })?;
    }
    Ok(())
  };
  assert!(backend.create_session_with(&s, &mut supply).unwrap());
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
  backend.put(&s, Item::SESSION, b"new").unwrap();
  assert_eq!(backend.versions(&s, Document::Session).unwrap(), 3);
  assert_eq!(
    [version(1).unwrap(), version(2).unwrap(), version(3).unwrap()],
    [b"0", b"1", b"2"]
  );
  backend.put(&s, Item::SESSION, b"newer").unwrap();
  assert_eq!(version(1).unwrap(), b"new");
  assert_eq!(
    [version(2).unwrap(), version(3).unwrap()],
    [b"0", b"1"],
    "of those that came in, the oldest goes first"
  );
  assert_eq!(version(4), None);
}

pub fn a_supply_that_fails_leaves_nothing(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let failed = backend.create_session_with(&s, &mut |receive| {
    source_of(&[(Item::SESSION, &b"document"), (Item::TASK_TREE, &b"tree")])(receive)?;
    Err(Error::new(Code::Corrupt, "no more"))
  });
  assert_eq!(failed.unwrap_err().code, Code::Corrupt);
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap(), None);
  assert!(backend.all_sessions().unwrap().is_empty());
  assert!(
    backend
      .create_session_with(&s, &mut source_of(&[(Item::SESSION, &b"document")]))
      .unwrap()
  );
}
