//! Labels, which change together with the checkpoints.

use std::thread;

use super::Shorthand as _;
use super::{Factory, checkpoint, opened, session, stored, write_if};
use crate::backend::{
  BackendExt, CheckpointEntry, DocumentUpdate, Item, Newest, Precondition, PutOptions, PutOutcome, Series,
};
use crate::types::error::Error;

pub fn labels_change_atomically(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let series = Series::from(&s);
  let refused = backend.update_labels(&s, 100, &mut |old, entries| {
    assert!(old.is_none() && entries.is_empty());
    Err(Error::invalid_argument("no"))
  });
  assert!(refused.is_err());
  assert!(
    backend.all_sessions().unwrap().is_empty(),
    "a change that is rejected creates no session"
  );
  for number in 0..3 {
    let id = checkpoint(&format!("cp-1-00000{number}"));
    backend
      .put_checkpoint(&series, &id, b"content", &write_if(&Precondition::None))
      .unwrap();
  }
  // Each of several writers appends to the labels of those before it.
  thread::scope(|scope| {
    for letter in b'a'..=b'h' {
      let (backend, s) = (&backend, &s);
      scope.spawn(move || {
        let append = &mut |old: Option<Vec<u8>>, entries: &[CheckpointEntry]| {
          assert_eq!(entries.len(), 3);
          Ok(Some(DocumentUpdate {
            document: Some([old.unwrap_or_default(), vec![letter]].concat()),
            relies_on: None,
          }))
        };
        backend.update_labels(s, 100, append).unwrap();
      });
    }
  });
  let mut labels = backend.read(&s, Item::LABELS, 100).unwrap().unwrap();
  labels.sort_unstable();
  assert_eq!(labels, b"abcdefgh");
  let remove = &mut |_: Option<Vec<u8>>, _: &[CheckpointEntry]| {
    Ok(Some(DocumentUpdate {
      document: None,
      relies_on: None,
    }))
  };
  for _ in 0..2 {
    backend.update_labels(&s, 100, remove).unwrap();
    assert_eq!(backend.read(&s, Item::LABELS, 100).unwrap(), None);
  }
}

pub fn labels_change_only_with_a_checkpoint_that_is_stored(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let series = Series::from(&s);
  let precondition = Precondition::Newest(Newest::default());
  let put = |id: &str, content: &[u8], label: &[u8]| {
    let labels = |_: Option<Vec<u8>>, _: &[CheckpointEntry]| Ok(label.to_vec());
    let write = PutOptions {
      labels: Some(&labels),
      ..write_if(&precondition)
    };
    backend
      .put_checkpoint(&series, &checkpoint(id), &content, &write)
      .unwrap()
  };
  let labels = || backend.read(&s, Item::LABELS, 100).unwrap().unwrap();
  assert_eq!(put("cp-2-000000", b"one", b"first"), stored(3));
  assert_eq!(labels(), b"first");
  // Another writer has stored a checkpoint with the same id, or a newer one.
  for (id, content) in [("cp-2-000000", b"two"), ("cp-1-000000", b"one")] {
    let outcome = put(id, content, b"second");
    assert!(matches!(outcome, PutOutcome::Behind(_)), "{id}: {outcome:?}");
    assert_eq!(labels(), b"first", "{id}");
  }
  assert_eq!(put("cp-3-000000", b"three", b"third"), stored(5));
  assert_eq!(labels(), b"third");
}
