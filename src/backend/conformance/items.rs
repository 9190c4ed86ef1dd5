//! Documents and task results, and what applies to all items and sessions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::Shorthand as _;
use super::{Factory, checkpoint, opened, session};
use crate::backend::{BackendExt, CheckpointPage, Document, Encoding, Item, RetentionScope, Usage};
use crate::types::error::{Code, Error};
use crate::types::id::TaskId;

pub fn a_missing_item_is_none_and_not_an_error(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("missing");
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
    backend
      .list_for_retention(&(&s).into(), RetentionScope::Beyond(0))
      .unwrap(),
    CheckpointPage::default()
  );
  assert!(backend.sessions_with_checkpoint(&id).unwrap().is_empty());
  assert_eq!(backend.usage_of(&s).unwrap(), Usage::default());
  backend.remove(&s, Item::TASK_TREE).unwrap();
  backend.sync_deletes(&(&s).into()).unwrap();
  backend.delete_any(&s).unwrap();
  assert!(backend.saved_sessions().unwrap().is_empty());
}

pub fn put_replaces_an_item_and_read_returns_it(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let (task, id, other) = (
    TaskId::parse("task 1").unwrap(),
    checkpoint("foreign"),
    checkpoint("other"),
  );
  let items = [
    Item::SESSION,
    Item::TASK_TREE,
    Item::TaskResult(&task),
    Item::Checkpoint(None, &id, Encoding::Json),
    Item::Checkpoint(None, &other, Encoding::Gzip),
  ];
  for item in items {
    backend.put(&s, item, b"first, longer").unwrap();
    let text = item.to_string();
    assert_eq!(backend.put(&s, item, &text).unwrap(), text.len() as u64);
  }
  for item in items {
    assert_eq!(
      backend.read(&s, item, u64::MAX).unwrap().unwrap(),
      item.to_string().as_bytes()
    );
    assert!(backend.name_of(&s, item).ends_with(&item.to_string()));
  }
}

pub fn put_state_replaces_both_documents(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  for content in [b"one", b"two"] {
    backend.put_state(&s, content, content).unwrap();
    assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap().unwrap(), content);
    assert_eq!(backend.read(&s, Item::TASK_TREE, u64::MAX).unwrap().unwrap(), content);
  }
}

pub fn delete_removes_one_item_and_delete_session_all(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, other) = (session("s"), session("other"));
  let (one, two) = (checkpoint("cp-1-000000"), checkpoint("cp-2-000000"));
  for id in [&one, &two] {
    backend
      .put(&s, Item::Checkpoint(None, id, Encoding::Json), b"{}")
      .unwrap();
  }
  backend.put(&s, Item::SESSION, b"{}").unwrap();
  backend.put(&other, Item::SESSION, b"{}").unwrap();

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

  backend.delete_any(&s).unwrap();
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap(), None);
  assert!(backend.checkpoints(&(&s).into()).unwrap().is_empty());
  assert_eq!(backend.saved_sessions().unwrap(), [other]);
}

pub fn usage_counts_every_byte(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let (id, other, task) = (
    checkpoint("cp-1-000000"),
    checkpoint("cp-2-000000"),
    TaskId::parse("t").unwrap(),
  );
  backend.put(&s, Item::SESSION, b"12345").unwrap();
  backend.put(&s, Item::TaskResult(&task), b"12").unwrap();
  backend
    .put(&s, Item::Checkpoint(None, &id, Encoding::Json), b"123")
    .unwrap();
  backend
    .put(&s, Item::Checkpoint(None, &other, Encoding::Gzip), b"1234")
    .unwrap();
  let usage = backend.usage_of(&s).unwrap();
  assert_eq!((usage.total_bytes, usage.checkpoints, usage.results), (14, 2, 1));
}

pub fn update_document_is_atomic(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let update = |change: &mut dyn FnMut(Option<Vec<u8>>) -> crate::types::error::Result<Option<Vec<u8>>>| {
    backend.update(&s, Document::Labels, u64::MAX, change)
  };
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

pub fn documents_keep_as_many_earlier_versions_as_configured(new_backend: Factory<'_>) {
  let backend = new_backend(2);
  backend.open().unwrap();
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
  backend.put(&s, Item::SESSION, b"1").unwrap();
  assert_eq!(versions(Document::Session), ["1", "", "", ""]);
  backend.put(&s, Item::SESSION, b"2").unwrap();
  backend.put_state(&s, b"3", b"t1").unwrap();
  assert_eq!(versions(Document::Session), ["3", "2", "1", ""]);
  assert_eq!(versions(Document::TaskTree), ["t1", "", "", ""]);
  backend
    .update(&s, Document::Session, u64::MAX, &mut |_| Ok(Some(b"4".to_vec())))
    .unwrap();
  backend.put_state(&s, b"5", b"t2").unwrap();
  assert_eq!(versions(Document::Session), ["5", "4", "3", ""]);
  assert_eq!(versions(Document::TaskTree), ["t2", "t1", "", ""]);
  for _ in 0..2 {
    backend.put(&s, Item::LABELS, b"l").unwrap();
  }
  assert_eq!(versions(Document::Labels), ["l", "", "", ""]);
  backend.delete_any(&s).unwrap();
  assert_eq!(versions(Document::Session), ["", "", "", ""]);
}

pub fn put_state_if_replaces_nothing_without_confirmation(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let state = || [Item::SESSION, Item::TASK_TREE].map(|item| backend.read(&s, item, u64::MAX).unwrap());
  backend.put_state(&s, b"old", b"tree").unwrap();
  let before = (state(), backend.usage_of(&s).unwrap());
  assert!(!backend.put_state_if(&s, b"new", b"new", &|| false).unwrap());
  assert_eq!((state(), backend.usage_of(&s).unwrap()), before);
  assert!(backend.put_state_if(&s, b"new", b"tree 2", &|| true).unwrap());
  assert_eq!(state(), [Some(b"new".to_vec()), Some(b"tree 2".to_vec())]);
}

pub fn concurrent_writers_replace_both_documents_together(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let contents: Vec<Vec<u8>> = (0..8u8).map(|writer| vec![writer; 20_000]).collect();
  backend.put(&s, Item::SESSION, &contents[0]).unwrap();
  thread::scope(|scope| {
    for content in &contents {
      let (backend, s, contents) = (&backend, &s, &contents);
      scope.spawn(move || {
        for _ in 0..5 {
          backend.put_state(s, content, content).unwrap();
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

pub fn delete_session_deletes_only_if_the_document_is_accepted(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, id) = (session("s"), checkpoint("cp-1-000001"));
  let delete_if = |accepted: &[u8]| {
    let mut seen = None;
    let deleted = backend.delete_if(&s, 100, &mut |document| {
      seen = Some(document.map(<[u8]>::to_vec));
      Ok(document == Some(accepted))
    });
    (deleted.unwrap().is_some(), seen.flatten())
  };
  assert_eq!(delete_if(b"old"), (false, None), "the session is missing");
  backend.put(&s, Item::SESSION, b"new").unwrap();
  let item = Item::Checkpoint(None, &id, Encoding::Json);
  backend.put(&s, item, b"{}").unwrap();
  assert_eq!(delete_if(b"old"), (false, Some(b"new".to_vec())));
  assert_eq!(backend.read(&s, item, 100).unwrap().as_deref(), Some(&b"{}"[..]));
  let refused = backend.delete_if(&s, 100, &mut |_| Err(Error::invalid_argument("no")));
  assert_eq!(refused.unwrap_err().code, Code::InvalidArgument);
  let refused = backend.delete_if(&s, 2, &mut |_| Ok(true));
  assert_eq!(refused.unwrap_err().code, Code::TooLarge);
  assert_eq!(delete_if(b"new"), (true, Some(b"new".to_vec())));
  assert!(backend.all_sessions().unwrap().is_empty());
  assert_eq!(backend.read(&s, item, 100).unwrap(), None);
  assert_eq!(delete_if(b"new"), (false, None), "the session was deleted");
}

/// A session is deleted as soon as its document says so, while a writer works on it.
pub fn writes_after_a_deletion_go_to_a_new_session(new_backend: Factory<'_>) {
  const ROUNDS: usize = 40;
  let backend = opened(new_backend);
  let (s, id) = (session("s"), checkpoint("cp-1-000001"));
  let item = Item::Checkpoint(None, &id, Encoding::Json);
  let is_done = AtomicBool::new(false);
  thread::scope(|scope| {
    scope.spawn(|| {
      while !is_done.load(Ordering::Relaxed) {
        let deleted = backend.delete_if(&s, 100, &mut |document| Ok(document == Some(b"over")));
        deleted.unwrap();
      }
    });
    for round in 0..ROUNDS {
      backend.put(&s, Item::SESSION, b"over").unwrap();
      backend.put(&s, Item::SESSION, b"active").unwrap();
      backend.put(&s, item, b"{}").unwrap();
      backend.put_state(&s, b"over", b"tree").unwrap();
      let revived = backend.update(&s, Document::Session, 100, &mut |_| Ok(Some(b"active".to_vec())));
      revived.unwrap();
      let document = backend.read(&s, Item::SESSION, 100).unwrap();
      assert_eq!(document.as_deref(), Some(&b"active"[..]), "round {round}");
      backend.put(&s, item, b"{}").unwrap();
      assert!(backend.read(&s, item, 100).unwrap().is_some(), "round {round}");
    }
    is_done.store(true, Ordering::Relaxed);
  });
}
