//! Comparing two checkpoints of any sessions and encodings.

use super::Store;
use crate::checkpoint::diff::{Side, diff};
use crate::types::error::Result;
use crate::types::id::{CheckpointId, SessionId};

impl Store {
  /// The differences of two checkpoints: a `CheckpointDiff`, as JSON.
  pub fn diff(&self, a: &(SessionId, CheckpointId), b: &(SessionId, CheckpointId)) -> Result<String> {
    let read = |(session, id): &(SessionId, CheckpointId)| {
      let verified = self.verify_checkpoint(&session.into(), id)?;
      verified.map_err(|damaged| *damaged.error)
    };
    let (stored_a, stored_b) = (read(a)?, read(b)?);
    Ok(diff(
      Side {
        session: &a.0,
        checkpoint: &a.1,
        document: &stored_a.document(&stored_a.text)?,
      },
      Side {
        session: &b.0,
        checkpoint: &b.1,
        document: &stored_b.document(&stored_b.text)?,
      },
    ))
  }
}
