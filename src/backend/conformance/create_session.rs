//! Creating sessions, empty or with all their items.

use std::thread;

use super::Shorthand as _;
use super::{Factory, checkpoint, opened, session};
use crate::backend::{BackendExt, Content, Document, Encoding, Item, ItemSink, NewItem, Series, source_of};
use crate::types::error::{Code, Error};
use crate::types::id::{AgentId, TaskId};
use crate::types::time::Timestamp;

pub fn saved_sessions_are_those_with_a_session_document(new_backend: Factory<'_>) {
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

pub fn create_session_stores_all_items_or_none(new_backend: Factory<'_>) {
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
  let created = thread::scope(|scope| {
    let create = || {
      backend
        .create_session_with(&race, &mut source_of(&[(Item::SESSION, &b"document")]))
        .unwrap()
    };
    let creators: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
    let results = creators.into_iter().map(|creator| creator.join().unwrap());
    results.filter(|is_created| *is_created).count()
  });
  assert_eq!(created, 1);
}

pub fn create_session_keeps_order_pins_and_versions(new_backend: Factory<'_>) {
  let backend = new_backend(3);
  backend.open().unwrap();
  let (s, a, task) = (session("s"), AgentId::parse("a").unwrap(), TaskId::parse("t").unwrap());
  let (old, young, own) = (checkpoint("old"), checkpoint("young"), checkpoint("cp-1-000000"));
  let new = |item| NewItem {
    item,
    content: &b"bytes",
    is_pinned: false,
    made_at: None,
  };
  let mut source = |sink: &mut ItemSink<'_>| {
    // Items may come in any order: the time of a checkpoint decides its position.
    sink(NewItem {
      made_at: Some(Timestamp::from_millis(9_000)),
      ..new(Item::Checkpoint(None, &young, Encoding::Gzip))
    })?;
    sink(NewItem {
      made_at: Some(Timestamp::from_millis(4_000)),
      is_pinned: true,
      ..new(Item::Checkpoint(None, &old, Encoding::Json))
    })?;
    sink(NewItem {
      is_pinned: true,
      ..new(Item::Checkpoint(Some(&a), &own, Encoding::Json))
    })?;
    sink(new(Item::Checkpoint(None, &own, Encoding::Json)))?;
    sink(new(Item::TaskResult(&task)))?;
    sink(new(Item::LABELS))?;
    for (back, content) in [(2, b"2"), (0, b"0"), (1, b"1")] {
      sink(NewItem {
        content,
        ..new(Item::version(Document::Session, back))
      })?;
    }
    Ok(())
  };
  assert!(backend.create_session_with(&s, &mut source).unwrap());
  let entries = backend.checkpoints(&(&s).into()).unwrap();
  let seen: Vec<_> = entries
    .iter()
    .map(|entry| (entry.id.as_str(), entry.made_at.as_millis(), entry.is_pinned))
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
    "the oldest version is deleted first"
  );
  assert_eq!(version(4), None);
}

pub fn a_failing_source_leaves_no_session(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let failed = backend.create_session_with(&s, &mut |sink| {
    source_of(&[(Item::SESSION, &b"document"), (Item::TASK_TREE, &b"tree")])(sink)?;
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
