//! Restoring the newest checkpoint that is whole.

use std::collections::VecDeque;

use super::restore::RestoreSource;
use super::{Damaged, Restored, Store, StoredCheckpoint};
use crate::backend::{BackendExt, CheckpointEntry, Series};
use crate::checkpoint::reset::Resets;
use crate::store::create::MAX_ATTEMPTS;
use crate::types::error::{Code, Error, Result};
use crate::types::id::{CheckpointId, SessionId};

#[derive(Debug, Clone)]
pub struct RecoverRequest {
  pub session: SessionId,
  pub resets: Resets,
  pub include_state: bool,
  /// Whether damaged checkpoints are moved to the quarantine.
  pub quarantine: bool,
  /// Whether nothing is changed, but only reported.
  pub is_dry_run: bool,
}

impl RecoverRequest {
  fn series(&self) -> Series {
    (&self.session).into()
  }
}

/// A checkpoint that was not restored because it is not whole.
#[derive(Debug)]
pub struct PassedOver {
  pub damaged: Damaged,
  /// Its name in the quarantine.
  pub moved_to: Option<String>,
}

#[derive(Debug)]
pub enum RecoverOutcome {
  Recovered {
    checkpoint: CheckpointId,
    restored: Restored,
    passed_over: Vec<PassedOver>,
  },
  /// There is no whole checkpoint; the error says so.
  NoneWhole(Error, Vec<PassedOver>),
}

/// The outcome of a quarantine.
enum Quarantined {
  /// The checkpoint has this name now.
  Moved(String),
  /// Other bytes have replaced the damaged ones, or the checkpoint was deleted.
  Changed,
}

impl Store {
  /// Restores the newest checkpoint that is whole, or reports which one it would restore.
  pub fn recover(&self, request: &RecoverRequest) -> Result<RecoverOutcome> {
    let series = request.series();
    let mut waiting: VecDeque<_> = self.backend.checkpoints(&series)?.into();
    let mut passed_over = Vec::new();
    let mut repeats = 0;
    while let Some(entry) = waiting.pop_front() {
      let read = |encoding| self.readable(&series, &entry.id, encoding);
      let error = match self.in_current_encoding(&series, &entry.id, &[entry.encoding], read) {
        Ok(Some(stored)) => {
          let restored = self.restore_verified(request, &stored)?;
          return Ok(RecoverOutcome::Recovered {
            checkpoint: stored.id,
            restored,
            passed_over,
          });
        }
        // It was deleted after it was listed.
        Ok(None) => continue,
        // Falling back to an older checkpoint would lose progress that is still stored.
        Err(error) if error.is_environmental() => return Err(error),
        Err(error) => error,
      };
      let mut moved_to = None;
      if request.quarantine && !request.is_dry_run && is_damage(&error) {
        match self.quarantine_damaged(&series, &entry)? {
          Quarantined::Moved(name) => moved_to = Some(name),
          // Read it again, in the encoding that it has now.
          Quarantined::Changed if repeats < MAX_ATTEMPTS => {
            repeats += 1;
            if let Some(entry) = self.backend.find(&series, &entry.id)? {
              waiting.push_front(entry);
            }
            continue;
          }
          Quarantined::Changed => {}
        }
      }
      let damaged = self.damaged(&series, &entry, error);
      passed_over.push(PassedOver { damaged, moved_to });
    }
    let session = &request.session;
    let message = match passed_over.len() {
      0 => format!("Session {session} has no checkpoint to recover from"),
      count => format!("None of the {count} checkpoints of session {session} is whole"),
    };
    Ok(RecoverOutcome::NoneWhole(
      Error::new(Code::NotFound, message),
      passed_over,
    ))
  }

  fn restore_verified(&self, request: &RecoverRequest, stored: &StoredCheckpoint) -> Result<Restored> {
    let source = RestoreSource {
      session: &request.session,
      document: &stored.document(&stored.text)?,
      path: &stored.path,
      is_validated: true,
      resets: request.resets,
      include_state: request.include_state,
    };
    let plan = source.plan()?;
    if !request.is_dry_run {
      self.commit_restore(&plan, &|| true)?;
    }
    Ok(plan.restored)
  }

  /// Moves a checkpoint to the quarantine if its bytes are certainly damaged: a disk that refuses to read may recover, and a newer
  /// version can be read by an update.
  fn quarantine_damaged(&self, series: &Series, entry: &CheckpointEntry) -> Result<Quarantined> {
    let bytes = match self.backend.read(&series.session, series.item_of(entry), u64::MAX) {
      Ok(None) => return Ok(Quarantined::Changed),
      Ok(bytes) => bytes,
      // Not even its bytes can be read.
      Err(error) if is_damage(&error) => None,
      Err(error) => return Err(error),
    };
    // Verify again after reading the bytes: exactly these are moved, or none.
    match self.readable(series, &entry.id, entry.encoding) {
      Err(error) if is_damage(&error) => {}
      _ => return Ok(Quarantined::Changed),
    }
    let moved = self.backend.quarantine(series, entry, bytes.as_deref())?;
    Ok(moved.map_or(Quarantined::Changed, Quarantined::Moved))
  }
}

fn is_damage(error: &Error) -> bool {
  matches!(error.code, Code::Corrupt | Code::ChecksumMismatch)
}
