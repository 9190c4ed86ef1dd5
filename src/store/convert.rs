//! Converting checkpoints to another encoding.

use std::io;

use super::info::kind_of;
use super::{Damaged, Store, StoredCheckpoint};
use crate::backend::{BackendExt, CheckpointEntry, Encoding, Maintenance, Precondition, Series, SessionFilter};
use crate::checkpoint::summary::Info;
use crate::store::write::WriteOutcome;
use crate::types::error::{Code, Error, Result};
use crate::types::id::SessionId;
use crate::types::progress::{Control, Meter, Phase};

/// The result of a conversion.
#[derive(Debug)]
pub struct Converted {
  pub session: SessionId,
  pub encoding: Encoding,
  pub converted: usize,
  /// Checkpoints that were in that encoding already.
  pub unchanged: usize,
  /// Checkpoints that were not converted, and why.
  pub skipped: Vec<Damaged>,
  pub bytes_before: u64,
  pub bytes_after: u64,
}

impl Store {
  /// Stores every checkpoint of a session and of its agents in that encoding, one by one. Each exists at every instant, in the old
  /// encoding or in the new one, so an interrupted conversion can be repeated.
  pub fn convert(&self, session: &SessionId, encoding: Encoding, control: &Control) -> Result<Converted> {
    let mut meter = Meter::new(control, Phase::Convert);
    if !self.backend.sessions(SessionFilter::All)?.contains(session) {
      return Err(Error::no_session(session));
    }
    let bytes = || self.backend.usage_of(session).map(|usage| usage.total_bytes);
    let mut converted = Converted {
      session: session.clone(),
      encoding,
      converted: 0,
      unchanged: 0,
      skipped: Vec::new(),
      bytes_before: bytes()?,
      bytes_after: 0,
    };
    let mut all_series = self.agent_series(session)?;
    all_series.push(session.into());
    for series in &all_series {
      // Oldest first, as they were created: each differs little from the one before.
      let entries = self.backend.checkpoints(series)?;
      meter.expect(entries.len());
      for entry in entries.iter().rev() {
        meter.check()?;
        if entry.encoding == encoding {
          converted.unchanged += 1;
          meter.done(0);
          continue;
        }
        match self.convert_one(series, entry, encoding) {
          Ok(Some(bytes)) => {
            converted.converted += 1;
            meter.done(bytes);
          }
          // It was deleted concurrently.
          Ok(None) => meter.done(0),
          Err(error) if is_about_one_checkpoint(&error) => {
            converted.skipped.push(self.damaged(series, entry, error));
            meter.done(0);
          }
          Err(error) => return Err(error),
        }
      }
      self.backend.maintain(Maintenance::DeleteUnusedBases(series))?;
      // The metadata is that of the old encoding.
      self.retention_metadata.forget(session);
    }
    self.backend.maintain(Maintenance::Vacuum)?;
    converted.bytes_after = bytes()?;
    Ok(converted)
  }

  /// Stores one checkpoint in another encoding, and returns its size in bytes; `None` if it does not exist any more. The write
  /// requires that it exists: a checkpoint that is deleted concurrently stays deleted, and of two conversions the last one wins.
  fn convert_one(&self, series: &Series, entry: &CheckpointEntry, encoding: Encoding) -> Result<Option<u64>> {
    let Some(stored) = self.read_checkpoint(series, &entry.id, entry.encoding)? else {
      return Ok(None);
    };
    let (matches, text) = stored.check_as_stored()?;
    if !matches {
      return Err(Error::new(
        Code::ChecksumMismatch,
        format!(
          "The checksums of {} do not match its stored form, so it was not converted",
          stored.path
        ),
      ));
    }
    let info = Info::of_document(kind_of(series), &stored.document(&text)?);
    let info = info.map_err(|error| Error::corrupt(&stored.path, error).because(error))?;
    let note = info.to_note();
    let save = |encoding| self.write_text(series, &entry.id, &text, &note, encoding, Precondition::Exists);
    let saved = match save(encoding)? {
      WriteOutcome::Stored(saved, _) => saved,
      WriteOutcome::NoDelta => return Err(no_delta(&stored.path)),
      WriteOutcome::Missing | WriteOutcome::Behind(_) => return Ok(None),
    };
    let back = self.read_checkpoint(series, &entry.id, encoding);
    // `None`: it was deleted, or converted again.
    if matches!(&back, Ok(None)) || back.as_ref().is_ok_and(|back| is_text(back.as_ref(), &text)) {
      return Ok(Some(saved.size_bytes));
    }
    // The text is still in memory: store it in the old encoding again.
    save(entry.encoding)?;
    let message = format!(
      "{} does not hold what was just written to it. The checkpoint was stored in its old encoding again",
      saved.path
    );
    let error = Error::new(Code::Io, message);
    Err(match back {
      Err(cause) => error.because(cause),
      Ok(_) => error,
    })
  }
}

fn is_text(stored: Option<&StoredCheckpoint>, text: &str) -> bool {
  stored.is_some_and(|stored| stored.compact_text() == text)
}

fn no_delta(path: &str) -> Error {
  let message = format!("{path} cannot become a delta: its base is locked. Convert the session again");
  Error::new(Code::Busy, message).because(io::Error::from(io::ErrorKind::ResourceBusy))
}

/// Whether an error is about one checkpoint, so that the next one may be converted.
fn is_about_one_checkpoint(error: &Error) -> bool {
  matches!(
    error.code,
    Code::Corrupt | Code::ChecksumMismatch | Code::NewerVersion | Code::TooLarge
  )
}
