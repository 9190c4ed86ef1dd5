//! Restoring the newest checkpoint that is whole.

use std::collections::VecDeque;
use std::error::Error as _;
use std::{io, iter};

use super::restore::Source;
use super::{Damaged, Restored, Spelling, Store, StoredCheckpoint};
use crate::backend::{BackendExt, CheckpointEntry, Series};
use crate::checkpoint::reset::Resets;
use crate::store::create::MAX_ATTEMPTS;
use crate::types::error::{Code, Error, Result, system_code};
use crate::types::id::{CheckpointId, SessionId};

#[derive(Debug, Clone)]
pub struct RecoverRequest {
  pub session: SessionId,
  pub resets: Resets,
  pub include_state: bool,
  /// Move what is damaged aside.
  pub quarantine: bool,
  /// Only say what would be done.
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
  /// Where it was moved to.
  pub moved_to: Option<String>,
}

/// A recovery under way: what was passed over, and what there is still to try.
#[derive(Debug)]
pub struct Recovery {
  request: RecoverRequest,
  waiting: VecDeque<CheckpointEntry>,
  pub passed_over: Vec<PassedOver>,
  /// How often a checkpoint was read again because others took its place meanwhile.
  repeats: u32,
}

/// How far a recovery came.
#[derive(Debug)]
pub enum RecoverOutcome {
  Recovered {
    checkpoint: CheckpointId,
    restored: Restored,
    passed_over: Vec<PassedOver>,
  },
  /// There is no whole checkpoint; the error says so.
  NothingWhole(Error, Vec<PassedOver>),
  /// The next one has to be respelt by the engine before it can be judged.
  NeedsRespelling(Recovery, StoredCheckpoint),
}

impl Store {
  pub fn recover(&self, request: RecoverRequest) -> Result<RecoverOutcome> {
    let waiting = self.backend.checkpoints(&request.series())?.into();
    self.go_on(Recovery {
      request,
      waiting,
      passed_over: Vec::new(),
      repeats: 0,
    })
  }

  /// Goes on after the engine has respelt a suspect, or has found that it cannot.
  pub fn recover_respelled(
    &self,
    mut recovery: Recovery,
    suspect: &StoredCheckpoint,
    respelled: Result<String>,
  ) -> Result<RecoverOutcome> {
    let judged = respelled.and_then(|text| suspect.check_respelled(&text).map(|()| text));
    match judged {
      Ok(text) => self.recovered(recovery, suspect, &text),
      Err(error) => {
        if let Some(entry) = recovery.waiting.pop_front() {
          self.pass_over(&mut recovery, &entry, error, Some(&suspect.text))?;
        }
        self.go_on(recovery)
      }
    }
  }

  fn go_on(&self, mut recovery: Recovery) -> Result<RecoverOutcome> {
    while let Some(entry) = recovery.waiting.front().cloned() {
      let series = recovery.request.series();
      let read = |encoding| self.readable(&series, &entry.id, encoding);
      match self.in_its_encoding(&series, &entry.id, &[entry.encoding], read) {
        Ok(Some(stored)) if stored.spelling == Spelling::Suspect => {
          return Ok(RecoverOutcome::NeedsRespelling(recovery, stored));
        }
        Ok(Some(stored)) => {
          let text = stored.compact_text();
          return self.recovered(recovery, &stored, &text);
        }
        // It went away after it was listed.
        Ok(None) => drop(recovery.waiting.pop_front()),
        Err(error) if is_about_us(&error) => return Err(error),
        Err(error) => {
          recovery.waiting.pop_front();
          self.pass_over(&mut recovery, &entry, error, None)?;
        }
      }
    }
    let session = &recovery.request.session;
    let message = match recovery.passed_over.len() {
      0 => format!("Session {session} has no checkpoint to recover from"),
      count => format!("None of the {count} checkpoints of session {session} is whole"),
    };
    Ok(RecoverOutcome::NothingWhole(
      Error::new(Code::NotFound, message),
      recovery.passed_over,
    ))
  }

  fn recovered(&self, recovery: Recovery, stored: &StoredCheckpoint, text: &str) -> Result<RecoverOutcome> {
    let RecoverRequest {
      session,
      resets,
      include_state,
      is_dry_run,
      ..
    } = &recovery.request;
    let document = stored.document(text)?;
    let source = Source {
      session,
      document: &document,
      path: &stored.path,
      validates: true,
      is_dry_run: *is_dry_run,
    };
    let restored = self.restore_document(&source, *resets, *include_state)?;
    Ok(RecoverOutcome::Recovered {
      checkpoint: stored.id.clone(),
      restored,
      passed_over: recovery.passed_over,
    })
  }

  /// Only what is certainly damaged is moved: a disk that refuses to read, or a newer version, may come round. A checkpoint that was
  /// replaced by a whole one meanwhile is looked at again. `suspect` is the text that the engine has found to be damaged.
  fn pass_over(
    &self,
    recovery: &mut Recovery,
    entry: &CheckpointEntry,
    error: Error,
    suspect: Option<&str>,
  ) -> Result<()> {
    let series = recovery.request.series();
    let is_damaged = matches!(error.code, Code::Corrupt | Code::ChecksumMismatch);
    let moves = recovery.request.quarantine && !recovery.request.is_dry_run;
    let mut moved_to = None;
    if moves && is_damaged {
      match self.move_aside(&series, entry, suspect)? {
        Aside::Moved(name) => moved_to = Some(name),
        Aside::Changed if recovery.repeats < MAX_ATTEMPTS => {
          recovery.repeats += 1;
          // In the encoding that it has now; nothing if it is gone.
          if let Some(entry) = self.backend.find(&series, &entry.id)? {
            recovery.waiting.push_front(entry);
          }
          return Ok(());
        }
        Aside::Changed => {}
      }
    }
    let damaged = self.damaged(&series, entry, error);
    recovery.passed_over.push(PassedOver { damaged, moved_to });
    Ok(())
  }

  /// Moves the bytes aside that are damaged, and no others.
  fn move_aside(&self, series: &Series, entry: &CheckpointEntry, suspect: Option<&str>) -> Result<Aside> {
    let is_damage = |error: &Error| matches!(error.code, Code::Corrupt | Code::ChecksumMismatch);
    let bytes = match self.backend.read(&series.session, series.item_of(entry), u64::MAX) {
      Ok(None) => return Ok(Aside::Changed),
      Ok(bytes) => bytes,
      // It is not even the bytes of a checkpoint.
      Err(error) if is_damage(&error) => None,
      Err(error) => return Err(error),
    };
    // Judged again, after the bytes were read: those that are moved are these, or none.
    let is_damaged = match self.readable(series, &entry.id, entry.encoding) {
      Ok(stored) => stored.is_some_and(|stored| suspect == Some(&*stored.text)),
      Err(error) => is_damage(&error),
    };
    if !is_damaged {
      return Ok(Aside::Changed);
    }
    let moved = self.backend.quarantine(series, entry, bytes.as_deref())?;
    Ok(moved.map_or(Aside::Changed, Aside::Moved))
  }
}

/// What became of a damaged checkpoint that was to be moved aside.
enum Aside {
  /// It has that name now.
  Moved(String),
  /// Other bytes took its place, or it is gone.
  Changed,
}

/// Whether a refusal says something about this process or its connection, not about the file: going on to an older
/// checkpoint would throw away progress that is still there.
pub(super) fn is_about_us(error: &Error) -> bool {
  use io::ErrorKind as Kind;
  // Of a delta, the refusal may be about its key.
  let mut causes = iter::successors(error.source(), |&cause| cause.source());
  let cause = causes.find_map(|cause| cause.downcast_ref::<io::Error>());
  matches!(error.code, Code::Io | Code::Busy)
    && cause.is_some_and(|cause| {
      let kinds = [
        Kind::PermissionDenied,
        Kind::OutOfMemory,
        Kind::TimedOut,
        Kind::Interrupted,
        Kind::ResourceBusy,
        Kind::StaleNetworkFileHandle,
        Kind::ConnectionRefused,
        Kind::ConnectionReset,
        Kind::ConnectionAborted,
        Kind::NotConnected,
        Kind::HostUnreachable,
        Kind::NetworkUnreachable,
        Kind::BrokenPipe,
      ];
      kinds.contains(&cause.kind()) || matches!(system_code(cause), Some("EMFILE" | "ENFILE"))
    })
}

#[cfg(test)]
mod tests {
  use std::path::Path;

  use super::*;

  #[test]
  fn a_refusal_of_the_system_is_about_us_whether_it_is_of_a_checkpoint_or_of_its_key() {
    let refusal = |kind: io::ErrorKind| Error::io("read", Path::new("x.key.zst"), kind.into());
    let for_want_of = |key: Error| Error::new(key.code, "it cannot be read without its key").because(key);
    for kind in [
      io::ErrorKind::PermissionDenied,
      io::ErrorKind::TimedOut,
      io::ErrorKind::ConnectionReset,
    ] {
      assert!(is_about_us(&refusal(kind)));
      assert!(is_about_us(&for_want_of(refusal(kind))));
    }
    assert!(!is_about_us(&for_want_of(refusal(io::ErrorKind::InvalidData))));
    assert!(!is_about_us(&for_want_of(Error::corrupt("x.key.zst", "it is missing"))));
  }
}
