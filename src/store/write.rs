//! Writing one checkpoint: its content in each encoding, and the outcome.

use std::io::{self, Write};

use super::{LaidOut, Saved, Store, not_composed};
use crate::backend::{
  CheckpointEntry, Content, Encoding, Precondition, PutOptions, PutOutcome, RetentionAnswer, Series,
};
use crate::checkpoint::compose::NewCheckpoint;
use crate::codec::gzip;
use crate::codec::zstd::{self, SkippableFrame};
use crate::types::error::{Error, Result};
use crate::types::id::CheckpointId;

/// A new checkpoint, composed while it is written.
pub(super) struct CheckpointContent<'a> {
  pub checkpoint: NewCheckpoint<'a>,
  pub encoding: Encoding,
}

impl Content for CheckpointContent<'_> {
  fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
    if self.encoding == Encoding::Json {
      return self.checkpoint.write_laid_out(out);
    }
    let (text, info) = self.checkpoint.compact()?;
    ComposedContent {
      text: &text,
      note: &info.to_note(),
      encoding: self.encoding,
    }
    .write_to(out)
  }
}

/// A checkpoint whose text is in memory.
struct ComposedContent<'a> {
  /// Compact JSON.
  text: &'a str,
  /// The info for lists.
  note: &'a str,
  encoding: Encoding,
}

impl Content for ComposedContent<'_> {
  fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
    match self.encoding {
      Encoding::Json => LaidOut(self.text).write_to(out),
      Encoding::Gzip => out.write_all(&gzip::compress(self.text.as_bytes(), self.note)),
      // `write_delta` writes deltas. A checkpoint that cannot be a delta is stored whole.
      Encoding::Zstd | Encoding::Delta => out.write_all(&packed(self.text, self.note)),
    }
  }
}

/// The bytes of a checkpoint as zstd: the info for lists, then compact JSON.
pub(super) fn packed(text: &str, note: &str) -> Vec<u8> {
  [SkippableFrame::Note.frame(note), zstd::whole(text.as_bytes())].concat()
}

/// The result of an attempt to write a checkpoint.
pub(super) enum WriteOutcome {
  Stored(Saved, Option<RetentionAnswer>),
  /// Another writer has stored this one, which is newer.
  Behind(CheckpointEntry),
  /// The checkpoint to be replaced does not exist.
  Missing,
  /// A delta cannot be stored at this time.
  NoDelta,
}

impl Store {
  /// Writes a new checkpoint. One that cannot be stored as a delta is stored whole, as zstd.
  pub(super) fn write_checkpoint(
    &self,
    series: &Series,
    id: &CheckpointId,
    content: &CheckpointContent<'_>,
    put: &PutOptions<'_>,
  ) -> Result<WriteOutcome> {
    if put.encoding != Encoding::Delta {
      return self.write_whole(series, id, content, put);
    }
    let (text, info) = content.checkpoint.compact().map_err(not_composed)?;
    let note = info.to_note();
    match self.write_delta(series, id, &text, &note, put)? {
      WriteOutcome::NoDelta => {}
      outcome => return Ok(outcome),
    }
    let whole = ComposedContent {
      text: &text,
      note: &note,
      encoding: Encoding::Zstd,
    };
    let put = PutOptions {
      encoding: Encoding::Zstd,
      ..put.clone()
    };
    self.write_whole(series, id, &whole, &put)
  }

  /// Writes a checkpoint in exactly this encoding. `text` is compact JSON, `note` the info for lists.
  pub(super) fn write_text(
    &self,
    series: &Series,
    id: &CheckpointId,
    text: &str,
    note: &str,
    encoding: Encoding,
    precondition: Precondition,
  ) -> Result<WriteOutcome> {
    let put = PutOptions {
      precondition,
      ..PutOptions::new(encoding)
    };
    if encoding == Encoding::Delta {
      return self.write_delta(series, id, text, note, &put);
    }
    self.write_whole(series, id, &ComposedContent { text, note, encoding }, &put)
  }

  /// Writes a checkpoint that has no base.
  fn write_whole(
    &self,
    series: &Series,
    id: &CheckpointId,
    content: &dyn Content,
    put: &PutOptions<'_>,
  ) -> Result<WriteOutcome> {
    let outcome = self.backend.put_checkpoint(series, id, content, put)?;
    self.write_outcome(series, id, put.encoding, outcome)
  }

  /// What the outcome of the backend means. A conflict is an error.
  pub(super) fn write_outcome(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
    outcome: PutOutcome,
  ) -> Result<WriteOutcome> {
    Ok(match outcome {
      PutOutcome::Stored { size, retention, .. } => {
        let saved = Saved {
          path: self.backend.name_of(&series.session, series.item(id, encoding)),
          size_bytes: size,
        };
        WriteOutcome::Stored(saved, retention)
      }
      PutOutcome::Conflict(newest) => return Err(conflict(series, newest)),
      PutOutcome::Behind(newest) => WriteOutcome::Behind(newest),
      PutOutcome::Missing => WriteOutcome::Missing,
      PutOutcome::BaseIsGone | PutOutcome::BaseNotLocked => WriteOutcome::NoDelta,
    })
  }
}

/// The error if the newest checkpoint is not the expected parent.
fn conflict(series: &Series, newest: Option<CheckpointId>) -> Error {
  Error::conflict(&format!("The newest checkpoint of {series}"), newest.map(String::from))
}
