//! Reading both ends of a checkpoint.

use super::{Factory, checkpoint, opened, session};
use crate::backend::{BackendExt, CheckpointEntry, Encoding, Peek, Series};
use crate::types::time::Timestamp;

/// The sizes lie around those of the columns of an SQL backend.
pub fn peek_returns_both_ends_of_checkpoints_of_any_size(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let series = Series::from(session("s"));
  for (number, size) in [0, 2047, 2048, 2049, 3072, 3073, 100_000].into_iter().enumerate() {
    let entry = CheckpointEntry::new(
      checkpoint(&format!("cp-{number}-000000")),
      Encoding::Json,
      Timestamp::default,
    );
    let bytes: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let item = series.item_of(&entry);
    backend.put(&series.session, item, &bytes).unwrap();
    let read = backend.read(&series.session, item, u64::MAX).unwrap();
    assert_eq!(read.unwrap(), bytes, "{size}");
    for (head, tail) in [(0, 0), (2048, 1024), (2049, 1), (1, 1025), (200_000, 200_000)] {
      let peeked = backend
        .peek_in(&series, std::slice::from_ref(&entry), head, tail)
        .unwrap();
      let peeked: Vec<_> = peeked.into_iter().map(Result::unwrap).collect();
      assert_eq!(peeked, [Some(Peek::of(&bytes, head, tail))], "{size}: {head}, {tail}");
    }
  }
}
