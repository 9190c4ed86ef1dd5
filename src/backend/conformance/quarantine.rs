//! Moving damaged checkpoints to `damaged/`.

use super::{Factory, checkpoint, opened, session};
use crate::backend::conformance::Shorthand as _;
use crate::backend::{BackendExt, CheckpointEntry, Encoding, Series};
use crate::types::time::Timestamp;

pub fn quarantine_moves_a_checkpoint_only_while_its_bytes_match(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, series) = (session("s"), Series::from(session("s")));
  let entry = CheckpointEntry::new(checkpoint("cp-1-000000"), Encoding::Json, Timestamp::default);
  let item = series.item_of(&entry);
  let bytes = [b'x'; 9000];
  let mut replaced = bytes;
  replaced[5000] = b'y';
  assert_eq!(backend.quarantine(&series, &entry, Some(&bytes)).unwrap(), None);
  // The second one must not replace the first, which has the same name.
  for count in 1..=2 {
    backend.put(&s, item, &bytes).unwrap();
    assert_eq!(backend.quarantine(&series, &entry, Some(&replaced)).unwrap(), None);
    assert_eq!(backend.read(&s, item, u64::MAX).unwrap().unwrap(), bytes);
    let name = backend.quarantine(&series, &entry, Some(&bytes)).unwrap().unwrap();
    assert!(
      name.contains("damaged") && name.contains(&item.file_name()) && name.contains(s.as_str()),
      "{name}"
    );
    assert_eq!(backend.read(&s, item, u64::MAX).unwrap(), None);
    let usage = backend.usage_of(&s).unwrap();
    assert_eq!((usage.total_bytes, usage.checkpoints), (count * 9000, 0));
  }
  backend.delete_any(&s).unwrap();
  assert_eq!(backend.usage_of(&s).unwrap().total_bytes, 0);
}
