//! What changed between two checkpoints, wherever and however they are stored.

use super::{Spelling, Store, StoredCheckpoint};
use crate::checkpoint::diff::{Side, diff};
use crate::types::error::Result;
use crate::types::id::{CheckpointId, SessionId};

#[derive(Debug)]
pub struct Difference {
  /// A JSON object: the `CheckpointDiff` of the declarations.
  pub text: String,
  /// Those of the two that may be damaged or only spelt in another way. It is by meaning that they were compared, so the
  /// text holds if the engine finds them whole, and is worth nothing otherwise.
  pub suspects: Vec<StoredCheckpoint>,
}

impl Store {
  pub fn diff(&self, a: &(SessionId, CheckpointId), b: &(SessionId, CheckpointId)) -> Result<Difference> {
    let read = |(session, id): &(SessionId, CheckpointId)| {
      let verified = self.verify_checkpoint(&session.into(), id)?;
      verified.map_err(|damaged| *damaged.error)
    };
    let (stored_a, stored_b) = (read(a)?, read(b)?);
    let text = diff(
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
    );
    let suspects = [stored_a, stored_b].into_iter();
    Ok(Difference {
      text,
      suspects: suspects.filter(|stored| stored.spelling == Spelling::Suspect).collect(),
    })
  }
}
