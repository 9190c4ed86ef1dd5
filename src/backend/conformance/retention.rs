//! What retention may delete.

use super::Shorthand as _;
use super::{Factory, all_series, checkpoint, opened, session, write_if};
use crate::backend::{BackendExt, Encoding, Precondition, RetentionScope, Series};

pub fn retention_neither_deletes_nor_counts_pinned_checkpoints(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, series) = (session("s"), Series::from(session("s")));
  let ids: Vec<_> = (1..=4)
    .map(|number| checkpoint(&format!("cp-{number}-000000")))
    .collect();
  assert!(!backend.set_pinned(&series, &ids[0], true).unwrap());
  for id in &ids {
    backend.put(&s, series.item(id, Encoding::Json), b"{}").unwrap();
  }
  let in_scope = |keep| {
    let entries = backend
      .list_for_retention(&series, RetentionScope::Beyond(keep))
      .unwrap()
      .entries;
    entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>()
  };
  assert_eq!(in_scope(2), [ids[1].clone(), ids[0].clone()]);
  assert!(!backend.set_pinned(&series, &checkpoint("cp-9-000000"), true).unwrap());
  for _ in 0..2 {
    assert!(backend.set_pinned(&series, &ids[0], true).unwrap());
  }
  assert_eq!(in_scope(2), [ids[1].clone()]);
  assert_eq!(in_scope(0).len(), 3);
  assert_eq!(
    backend
      .list_for_retention(&series, RetentionScope::All)
      .unwrap()
      .entries
      .len(),
    4
  );
  let pinned = backend.checkpoints(&series).unwrap().pop().unwrap();
  assert!(pinned.is_pinned && pinned.id == ids[0]);
  assert!(!backend.delete_surplus(&series, &pinned, None).unwrap());
  assert_eq!(backend.usage_of(&s).unwrap().pinned, 1);
  assert!(backend.set_pinned(&series, &ids[0], false).unwrap());
  assert_eq!(in_scope(2).len(), 2);
  assert!(backend.delete_surplus(&series, &pinned, None).unwrap());
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 3);
  // `DeleteMode::Always` deletes a pinned checkpoint too.
  backend.set_pinned(&series, &ids[3], true).unwrap();
  assert!(backend.remove(&s, series.item(&ids[3], Encoding::Json)).unwrap());
  backend.put(&s, series.item(&ids[3], Encoding::Json), b"{}").unwrap();
  assert!(!backend.checkpoints(&series).unwrap()[0].is_pinned);
}

pub fn retention_never_deletes_the_newest_checkpoint(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  for series in all_series() {
    let ids = ["cp-1-000000", "cp-2-000000", "cp-2-000001"].map(checkpoint);
    for id in &ids {
      backend
        .put_checkpoint(&series, id, b"content", &write_if(&Precondition::None))
        .unwrap();
    }
    let entries = backend.checkpoints(&series).unwrap();
    assert!(!backend.delete_surplus(&series, &entries[0], None).unwrap());
    // Retention may decide on a list that is out of date.
    assert!(backend.remove(&series.session, series.item_of(&entries[0])).unwrap());
    assert!(!backend.delete_surplus(&series, &entries[1], None).unwrap());
    assert!(backend.delete_surplus(&series, &entries[2], None).unwrap());
    backend.sync_deletes(&series).unwrap();
    let left: Vec<_> = backend.checkpoints(&series).unwrap();
    assert_eq!(left, [entries[1].clone()]);
  }
}
