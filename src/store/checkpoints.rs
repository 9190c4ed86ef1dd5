//! Finding, reading, listing and deleting checkpoints.

use std::borrow::Cow;
use std::slice;

use super::create::MAX_ATTEMPTS;
use super::{Store, into_text};
use crate::backend::{BackendExt, CheckpointEntry, Encoding, Series, time_in_id};
use crate::codec::gzip::{self, InflateError};
use crate::codec::zstd::{self, FrameError};
use crate::json::layout::compact;
use crate::types::error::{Error, Result};
use crate::types::id::CheckpointId;
use crate::types::time::Timestamp;

/// A checkpoint as it is stored, decompressed but not parsed.
#[derive(Debug, Clone)]
pub struct StoredCheckpoint {
  pub id: CheckpointId,
  pub path: String,
  pub text: String,
  /// Whether the text has no white space between its tokens.
  pub(super) is_compact: bool,
  /// The bytes that it takes up in the backend.
  pub size_bytes: u64,
  /// Whether its checksums were verified.
  pub is_verified: bool,
  pub is_of_agent: bool,
  /// The bytes of an agent's checkpoint. Verifying it moves them from the text to here.
  pub context: Option<Vec<u8>>,
  /// The label that was set after its creation, as JSON; `null` if its label was removed.
  pub label: Option<String>,
}

impl StoredCheckpoint {
  /// The report of a checkpoint whose damage was found after it was read.
  #[must_use]
  pub fn into_damaged(self, error: Error) -> Damaged {
    Damaged {
      made_at: time_in_id(self.id.as_str()),
      id: self.id,
      path: self.path,
      error: Box::new(error),
    }
  }

  /// The text without white space.
  pub(super) fn compact_text(&self) -> Cow<'_, str> {
    if self.is_compact {
      Cow::Borrowed(&self.text)
    } else {
      Cow::Owned(compact(&self.text))
    }
  }
}

/// A checkpoint that exists, but cannot be read.
#[derive(Debug)]
pub struct Damaged {
  pub id: CheckpointId,
  pub path: String,
  /// Its position in the order of the series, if it is known.
  pub made_at: Option<Timestamp>,
  pub error: Box<Error>,
}

/// A page of the checkpoints of a series, newest first, none of which has been read.
#[derive(Debug)]
pub struct CheckpointList {
  pub series: Series,
  pub entries: Vec<CheckpointEntry>,
  /// The number of checkpoints on all pages, readable or not.
  pub total: usize,
  /// The end of this page, for pages by cursor, if another one follows.
  pub cursor: Option<String>,
  /// The checkpoints that are known to be damaged.
  pub damaged: Vec<Damaged>,
}

impl Store {
  /// A page of the checkpoints of a series; `limit` 0 means all.
  pub fn list(&self, series: &Series, limit: usize, offset: usize) -> Result<CheckpointList> {
    let mut entries = self.backend.checkpoints(series)?;
    let total = entries.len();
    entries.drain(..offset.min(total));
    if limit > 0 {
      entries.truncate(limit);
    }
    Ok(CheckpointList {
      series: series.clone(),
      entries,
      total,
      cursor: None,
      damaged: Vec::new(),
    })
  }

  /// A checkpoint of a list, verified; `None` if it was deleted since.
  pub fn read_entry(&self, series: &Series, entry: &CheckpointEntry) -> Option<Result<StoredCheckpoint, Damaged>> {
    let read = self.in_current_encoding(series, &entry.id, &[entry.encoding], |encoding| {
      self.readable(series, &entry.id, encoding)
    });
    Some(read.transpose()?.map_err(|error| self.damaged(series, entry, error)))
  }

  /// A checkpoint. A large one is not verified.
  pub fn checkpoint(&self, series: &Series, id: &CheckpointId) -> Result<Option<StoredCheckpoint>> {
    self.in_current_encoding(series, id, &Encoding::ALL, |encoding| {
      self.verified_if_small(series, id, encoding)
    })
  }

  /// The newest checkpoint. A large one is not verified.
  pub fn latest_checkpoint(&self, series: &Series) -> Result<Option<StoredCheckpoint>> {
    loop {
      let entries = self.backend.checkpoints(series)?;
      for entry in &entries {
        let found = self.in_current_encoding(series, &entry.id, &[entry.encoding], |encoding| {
          self.verified_if_small(series, &entry.id, encoding)
        });
        // Skip checkpoints that were deleted since they were listed.
        if let Some(found) = found? {
          return Ok(Some(found));
        }
      }
      // If retention has deleted all of the list, there are newer ones: list again.
      if entries.is_empty() {
        return Ok(None);
      }
    }
  }

  pub fn delete_checkpoint(&self, series: &Series, id: &CheckpointId) -> Result<()> {
    self.backend.remove(&series.session, series.item(id, Encoding::Json))?;
    self.forget_labels(series, slice::from_ref(id))
  }

  /// Reads a checkpoint that may be converted concurrently: first in the `expected` encodings, then in the encoding that a new search
  /// finds, until it is read or does not exist.
  pub(super) fn in_current_encoding<T>(
    &self,
    series: &Series,
    id: &CheckpointId,
    expected: &[Encoding],
    read: impl Fn(Encoding) -> Result<Option<T>>,
  ) -> Result<Option<T>> {
    for encoding in expected {
      if let Some(found) = read(*encoding)? {
        return Ok(Some(found));
      }
    }
    for _ in 0..MAX_ATTEMPTS {
      let Some(entry) = self.backend.find(series, id)? else {
        return Ok(None);
      };
      if let Some(found) = read(entry.encoding)? {
        return Ok(Some(found));
      }
    }
    Ok(None)
  }

  /// The report of a checkpoint that could not be read.
  pub(super) fn damaged(&self, series: &Series, entry: &CheckpointEntry, error: Error) -> Damaged {
    Damaged {
      id: entry.id.clone(),
      path: self.backend.name_of(&series.session, series.item_of(entry)),
      made_at: Some(entry.made_at),
      error: Box::new(error),
    }
  }

  /// Reads and decompresses a checkpoint, without verifying it.
  pub(super) fn read_checkpoint(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
  ) -> Result<Option<StoredCheckpoint>> {
    let item = series.item(id, encoding);
    let Some(bytes) = self.backend.read(&series.session, item, self.options.max_read_bytes)? else {
      return Ok(None);
    };
    let label = self.labels_of(series)?.get(id).map(str::to_owned);
    self.decoded(series, id, encoding, bytes, label)
  }

  /// Decompresses the stored bytes of a checkpoint; `None` if it is a delta that was deleted concurrently, with its base.
  pub(super) fn decoded(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
    bytes: Vec<u8>,
    label: Option<String>,
  ) -> Result<Option<StoredCheckpoint>> {
    let path = self.backend.name_of(&series.session, series.item(id, encoding));
    let size_bytes = bytes.len() as u64;
    let Some(json) = self.json_of(series, id, encoding, bytes, &path)? else {
      return Ok(None);
    };
    Ok(Some(StoredCheckpoint {
      id: id.clone(),
      text: into_text(json, &path)?,
      // Only this store makes deltas; other programs may have written the others.
      is_compact: encoding == Encoding::Delta,
      path,
      size_bytes,
      is_verified: false,
      is_of_agent: series.agent.is_some(),
      context: None,
      label,
    }))
  }

  /// The JSON of a checkpoint, from its stored bytes; `None` if it is a delta that was deleted concurrently, with its base.
  fn json_of(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
    bytes: Vec<u8>,
    path: &str,
  ) -> Result<Option<Vec<u8>>> {
    match encoding {
      Encoding::Json => Ok(Some(bytes)),
      Encoding::Gzip => self.inflate(&bytes, path).map(Some),
      Encoding::Zstd => {
        let text = zstd::text_of(&bytes, b"", self.options.max_read_bytes);
        text.map(Some).map_err(|error| self.frame_error(path, error))
      }
      Encoding::Delta => self.text_of_delta(series, id, &bytes, path),
    }
  }

  fn inflate(&self, bytes: &[u8], path: &str) -> Result<Vec<u8>> {
    let limit = self.options.max_read_bytes;
    gzip::decompress(bytes, limit).map_err(|error| match error {
      InflateError::NotGzip(cause) => Error::corrupt(path, format!("it is not gzip ({cause})")).because(cause),
      InflateError::TooLarge => Error::too_large(path, limit, limit),
    })
  }
  /// The error for a zstd frame that cannot be decoded.
  pub(super) fn frame_error(&self, path: &str, error: FrameError) -> Error {
    match error {
      FrameError::TooLarge(size) => Error::too_large(path, size, self.options.max_read_bytes),
      FrameError::Damaged(why) => Error::corrupt(path, format!("it is not zstd ({why})")).because(error),
    }
  }
}
