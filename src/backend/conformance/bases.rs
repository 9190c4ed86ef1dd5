//! Bases of deltas.

use super::Shorthand as _;
use super::{Factory, all_series, checkpoint, opened, session};
use crate::backend::{BackendExt, BaseRef, CheckpointEntry, Encoding, PutOptions, PutOutcome, Usage};
use crate::codec::delta::{self, Reference};
use crate::types::id::CheckpointId;
use crate::types::time::Timestamp;

pub fn a_delta_needs_its_base_and_the_last_one_deletes_it(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  for series in all_series() {
    let ids: Vec<_> = (0..4)
      .map(|number| checkpoint(&format!("cp-1-00000{number}")))
      .collect();
    let (base, other_base) = (&ids[0], &ids[3]);
    let bytes = |base: &CheckpointId| {
      let reference = Reference {
        key: base.clone(),
        bytes: 4,
        checksum: 0,
        is_same: true,
      };
      delta::compose(&reference, "{}", b"")
    };
    let write = |id: &CheckpointId, base: &CheckpointId, known, added| {
      let base_ref = BaseRef {
        id: base,
        known,
        added,
        fingerprint: None,
      };
      let write = PutOptions {
        base: Some(base_ref),
        ..PutOptions::new(Encoding::Delta)
      };
      match backend.put_checkpoint(&series, id, &bytes(base), &write).unwrap() {
        PutOutcome::Stored { size, .. } => Some(size),
        PutOutcome::BaseIsGone => None,
        other => unreachable!("without a precondition, on a backend with locks: {other:?}"),
      }
    };
    let read = |base| backend.read(&s, series.base(base), u64::MAX).unwrap();

    assert_eq!(write(&ids[1], base, 4, b""), None, "the base is missing");
    assert!(backend.checkpoints(&series).unwrap().is_empty());
    assert_eq!(write(&ids[0], base, 0, b"base"), Some(bytes(base).len() as u64));
    assert_eq!(write(&ids[1], base, 5, b"more"), None, "the base is shorter");
    assert!(write(&ids[1], base, 4, b" and more").is_some());
    assert_eq!(read(base).unwrap(), b"base and more");
    assert!(write(&ids[2], base, 4, b"").is_some());
    // A new base of the same name never replaces one that checkpoints are based on.
    assert!(
      write(&ids[2], base, 0, b"base").is_some(),
      "the existing base continues it"
    );
    assert_eq!(read(base).unwrap(), b"base and more");
    assert_eq!(
      write(&ids[2], base, 0, b"basx and more"),
      None,
      "the existing base differs"
    );
    assert_eq!(read(base).unwrap(), b"base and more");
    assert_eq!(backend.sized_bases(&series).unwrap(), [(base.clone(), 13)]);
    assert_eq!(backend.checkpoints(&series).unwrap().len(), 3);
    assert_eq!(backend.delete_unused_bases(&series).unwrap(), 0);

    // The base outlives the checkpoint that it was created for.
    assert!(backend.remove(&s, series.item(&ids[0], Encoding::Delta)).unwrap());
    assert!(read(base).is_some());
    let deleted = CheckpointEntry::new(ids[1].clone(), Encoding::Delta, Timestamp::default);
    backend.delete_surplus(&series, &deleted, None).unwrap();
    assert!(read(base).is_some());
    assert!(write(&ids[3], other_base, 0, b"other").is_some());
    assert!(backend.remove(&s, series.item(&ids[2], Encoding::Delta)).unwrap());
    assert_eq!((read(base), read(other_base).is_some()), (None, true));
    assert_eq!(write(&ids[2], base, 4, b""), None, "the base was deleted");

    // A crash may leave a base without deltas.
    backend.put(&s, series.base(base), b"orphan").unwrap();
    assert_eq!(backend.delete_unused_bases(&series).unwrap(), 6);
    assert_eq!(backend.sized_bases(&series).unwrap(), [(other_base.clone(), 5)]);
    let usage = backend.usage_of(&s).unwrap();
    assert!(usage.total_bytes >= 5 + bytes(other_base).len() as u64);
  }
  backend.delete_any(&s).unwrap();
  assert_eq!(backend.usage_of(&s).unwrap(), Usage::default());
  assert!(backend.sized_bases(&s.into()).unwrap().is_empty());
}
