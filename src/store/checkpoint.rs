//! Making, finding, listing and deleting checkpoints.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::PoisonError;

use super::{LaidOut, Saved, Spelling, Stamp, Store, into_text};
use crate::backend::{After, CheckpointEntry, CheckpointWrite, Content, Encoding, Put, Question, Series, time_in_id};
use crate::error::{Code, Error, Result};
use crate::format::compose::{NewCheckpoint, Parts};
use crate::format::gzip::{self, InflateError};
use crate::format::layout::compact;
use crate::format::zstd::{self, Aside};
use crate::id::{CheckpointId, SessionId};

/// How a checkpoint is to be stored.
#[derive(Debug, Default)]
pub struct Making {
  /// The store's, if it is absent.
  pub encoding: Option<Encoding>,
  pub after: After,
}

impl<E: Into<Option<Encoding>>> From<E> for Making {
  fn from(encoding: E) -> Self {
    Self {
      encoding: encoding.into(),
      after: After::Any,
    }
  }
}

/// What goes with a checkpoint to where it is stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
  pub after: &'a After,
  /// What will be asked once it is stored.
  pub question: Option<&'a Question>,
}

impl Terms<'_> {
  const NONE: Terms<'static> = Terms {
    after: &After::Any,
    question: None,
  };
}

/// What a finished `create_checkpoint` tells its caller.
#[derive(Debug)]
pub struct Created {
  pub id: CheckpointId,
  pub path: String,
  pub size_bytes: u64,
  /// What went wrong after the checkpoint was safe.
  pub warnings: Vec<String>,
}

/// A checkpoint as it is stored, inflated but not parsed.
#[derive(Debug)]
pub struct StoredCheckpoint {
  pub id: CheckpointId,
  pub path: String,
  pub text: String,
  /// Whether the text has no white space to take out of it.
  pub(super) is_compact: bool,
  /// The bytes that it takes up where it is stored.
  pub size_bytes: u64,
  /// What its checksums say.
  pub spelling: Spelling,
  pub is_of_agent: bool,
  /// The bytes that the text of an agent's checkpoint held; they are taken out of it once it is checked.
  pub context: Option<Vec<u8>>,
  /// The label that it was given later, as JSON; `null` if it lost the one that it was made with.
  pub label: Option<String>,
}

impl StoredCheckpoint {
  /// The report of one that turned out to be damaged after it was read.
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

/// A checkpoint that is there, but cannot be read.
#[derive(Debug)]
pub struct Damaged {
  pub id: CheckpointId,
  pub path: String,
  /// Its place in the order, if that is known.
  pub made_at: Option<u64>,
  pub error: Box<Error>,
}

/// Which checkpoints are on a page, newest first; nothing was read yet.
#[derive(Debug)]
pub struct CheckpointList {
  pub series: Series,
  pub entries: Vec<CheckpointEntry>,
  /// How many there are without the paging, readable or not.
  pub total: usize,
  /// Where this page ends, if pages are asked for by cursors and there is another.
  pub cursor: Option<String>,
  /// What is known to be damaged already.
  pub damaged: Vec<Damaged>,
}

/// A new checkpoint on its way to where it is stored.
pub(super) struct Encoded<'a> {
  pub checkpoint: NewCheckpoint<'a>,
  pub encoding: Encoding,
}

impl Content for Encoded<'_> {
  fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
    if self.encoding == Encoding::Json {
      return self.checkpoint.write_laid_out(out);
    }
    let (text, info) = self.checkpoint.compact()?;
    Packed {
      text: &text,
      note: &info.to_note(),
      encoding: self.encoding,
    }
    .write_to(out)
  }
}

/// A checkpoint was to come after another than the newest.
pub(super) fn conflict(series: &Series, newest: Option<CheckpointId>) -> Error {
  Error::conflict(&format!("The newest checkpoint of {series}"), newest.map(String::from))
}

/// A checkpoint that is composed already.
struct Packed<'a> {
  /// Compact JSON.
  text: &'a str,
  /// What a list shows of it.
  note: &'a str,
  encoding: Encoding,
}

impl Content for Packed<'_> {
  fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
    match self.encoding {
      Encoding::Json => LaidOut(self.text).write_to(out),
      Encoding::Gzip => out.write_all(&gzip::compress(self.text.as_bytes(), self.note)),
      // A delta needs more than this: where it cannot be had, the text is stored whole.
      Encoding::Zstd | Encoding::Delta => {
        out.write_all(&Aside::Note.frame(self.note))?;
        out.write_all(&zstd::whole(self.text.as_bytes()))
      }
    }
  }
}

impl Store {
  /// Id and time of a checkpoint that is being asked for now.
  #[must_use]
  pub fn stamp(&self) -> Stamp {
    self.ids.stamp()
  }

  /// Stores a checkpoint, then applies retention.
  pub fn create_checkpoint(
    &self,
    session: &SessionId,
    stamp: Stamp,
    parts: &Parts,
    making: impl Into<Making>,
  ) -> Result<Created> {
    let (series, making) = (session.into(), making.into());
    let mut stamp = self.newer_than_all(&series, stamp)?;
    if let After::Newest(Some(parent)) = &making.after {
      stamp = self.ids.beyond(&self.place_of(&series, parent)?, stamp);
    }
    let id = stamp.id()?;
    let checkpoint = NewCheckpoint::compose(&id, stamp.timestamp, parts)?;
    let encoding = self.encoding_or(making.encoding);
    self.add(&series, id, &Encoded { checkpoint, encoding }, &making.after)
  }

  /// Where a checkpoint stands in the order; one that is not there and says nothing of it, before all others.
  fn place_of(&self, series: &Series, id: &CheckpointId) -> Result<CheckpointEntry> {
    if time_in_id(id.as_str()).is_none()
      && let Some(entry) = self
        .backend
        .checkpoints(series)?
        .into_iter()
        .find(|entry| entry.id == *id)
    {
      return Ok(entry);
    }
    Ok(CheckpointEntry::new(id.clone(), Encoding::Json, || 0))
  }

  /// The encoding that was asked for, or the store's own.
  pub(super) fn encoding_or(&self, encoding: impl Into<Option<Encoding>>) -> Encoding {
    encoding.into().unwrap_or(self.options.encoding)
  }

  /// Stores a checkpoint that is composed already, then applies retention.
  pub(super) fn add(&self, series: &Series, id: CheckpointId, encoded: &Encoded<'_>, after: &After) -> Result<Created> {
    let question = self.question_of(series);
    let terms = Terms {
      after,
      question: Some(&question),
    };
    let saved = self.save(series, &id, encoded, terms)?;
    let warnings = self.apply_retention(series, &id, Some(saved.size_bytes), Some(question));
    Ok(Created {
      id,
      path: saved.path,
      size_bytes: saved.size_bytes,
      warnings,
    })
  }

  fn save(&self, series: &Series, id: &CheckpointId, encoded: &Encoded<'_>, terms: Terms<'_>) -> Result<Saved> {
    if encoded.encoding != Encoding::Delta {
      return self.write_whole(series, id, encoded.encoding, encoded, terms);
    }
    let composed = encoded.checkpoint.compact();
    let (text, info) = composed.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    let note = info.to_note();
    if let Some(saved) = self.write_delta(series, id, &text, &note, terms)? {
      return Ok(saved);
    }
    let packed = Packed {
      text: &text,
      note: &note,
      encoding: Encoding::Zstd,
    };
    self.write_whole(series, id, Encoding::Zstd, &packed, terms)
  }

  /// Stores a checkpoint that is composed already, compact, with the note that a list shows; `None` if it is to be a delta and
  /// none can be had.
  pub(super) fn save_as(
    &self,
    series: &Series,
    id: &CheckpointId,
    text: &str,
    note: &str,
    encoding: Encoding,
  ) -> Result<Option<Saved>> {
    if encoding == Encoding::Delta {
      return self.write_delta(series, id, text, note, Terms::NONE);
    }
    let packed = Packed { text, note, encoding };
    self.write_whole(series, id, encoding, &packed, Terms::NONE).map(Some)
  }

  /// Stores a checkpoint that needs no other.
  fn write_whole(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
    content: &dyn Content,
    terms: Terms<'_>,
  ) -> Result<Saved> {
    let write = CheckpointWrite {
      encoding,
      footing: None,
      after: terms.after,
      content,
      question: terms.question,
    };
    match self.backend.write_checkpoint(series, id, write)? {
      Put::Stored { size, .. } => Ok(Saved {
        path: self.backend.name_of(&series.session, series.item(id, encoding)),
        size_bytes: size,
      }),
      Put::Conflict(newest) => Err(conflict(series, newest)),
      Put::KeyIsGone | Put::Unguarded => Err(Error::new(Code::Internal, "a whole checkpoint needs no key")),
    }
  }

  /// The stamp, moved ahead if this session already holds a checkpoint of the same moment, or from the clock's future. Looks
  /// until it is known for a store and session. Of those who look at once, the first decides; none waits for another, which
  /// may take all of its time and find nothing.
  pub(super) fn newer_than_all(&self, series: &Series, stamp: Stamp) -> Result<Stamp> {
    let known = || self.known_series.lock().unwrap_or_else(PoisonError::into_inner);
    let decided = known().get(series).copied();
    let shift = if let Some(shift) = decided {
      shift
    } else {
      let newest = self.backend.page(series, None, 1)?.entries.pop();
      let shift = || newest.and_then(|newest| self.ids.shift_beyond(&newest.id, stamp));
      *known().entry(series.clone()).or_insert_with(shift)
    };
    Ok(shift.map_or(stamp, |shift| shift.apply(stamp)))
  }

  /// Forgets what is remembered of a session: it was removed, or somebody put something into it.
  pub(super) fn forget(&self, session: &SessionId) {
    self.facts.forget(&session.into());
    self.deltas.forget(session);
    self
      .known_series
      .lock()
      .unwrap_or_else(PoisonError::into_inner)
      .retain(|series, _| series.session != *session);
  }

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

  /// A checkpoint that was listed, checked as far as its bytes allow; `None` if it went away since.
  pub fn read_entry(&self, series: &Series, entry: &CheckpointEntry) -> Option<Result<StoredCheckpoint, Damaged>> {
    let read = self.verified(series, &entry.id, entry.encoding).transpose()?;
    Some(read.map_err(|error| self.damaged(series, entry, error)))
  }

  /// A checkpoint; a large one is not checked yet.
  pub fn checkpoint(&self, series: &Series, id: &CheckpointId) -> Result<Option<StoredCheckpoint>> {
    for encoding in Encoding::ALL {
      if let Some(found) = self.verified_if_small(series, id, encoding)? {
        return Ok(Some(found));
      }
    }
    Ok(None)
  }

  /// The newest checkpoint; a large one is not checked yet.
  pub fn latest_checkpoint(&self, series: &Series) -> Result<Option<StoredCheckpoint>> {
    loop {
      let entries = self.backend.checkpoints(series)?;
      for entry in &entries {
        // One that went away since the listing makes room for the next.
        if let Some(found) = self.verified_if_small(series, &entry.id, entry.encoding)? {
          return Ok(Some(found));
        }
      }
      // Retention took all that was listed, which it does only when there is something newer.
      if entries.is_empty() {
        return Ok(None);
      }
    }
  }

  pub fn delete_checkpoint(&self, series: &Series, id: &CheckpointId) -> Result<()> {
    let mut was_there = false;
    for encoding in Encoding::ALL {
      match self.backend.remove(&series.session, series.item(id, encoding)) {
        Ok(removed) => was_there |= removed,
        Err(error) if was_there => {
          return Err(Error {
            code: Code::OutcomeUnknown,
            ..error
          });
        }
        Err(error) => return Err(error),
      }
    }
    Ok(())
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

  /// Reads and inflates a checkpoint; nothing is checked yet.
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
    let path = self.backend.name_of(&series.session, item);
    let size_bytes = bytes.len() as u64;
    let json = match encoding {
      Encoding::Json => bytes,
      Encoding::Gzip => self.inflate(&bytes, &path)?,
      Encoding::Zstd => {
        let text = zstd::text_of(&bytes, b"", self.options.max_read_bytes);
        text.map_err(|error| self.frame_error(&path, error))?
      }
      Encoding::Delta => match self.text_of_delta(series, id, &bytes, &path)? {
        Some(text) => text,
        None => return Ok(None),
      },
    };
    Ok(Some(StoredCheckpoint {
      id: id.clone(),
      text: into_text(json, &path)?,
      // Nobody else makes these.
      is_compact: encoding == Encoding::Delta,
      path,
      size_bytes,
      spelling: Spelling::Unchecked,
      is_of_agent: series.agent.is_some(),
      context: None,
      label: self.labels_of(series).get(id).map(str::to_owned),
    }))
  }

  fn inflate(&self, bytes: &[u8], path: &str) -> Result<Vec<u8>> {
    let limit = self.options.max_read_bytes;
    gzip::decompress(bytes, limit).map_err(|error| match error {
      InflateError::NotGzip(cause) => Error::corrupt(path, format!("it is not gzip ({cause})")).because(cause),
      InflateError::TooLarge => Error::too_large(path, limit, limit),
    })
  }
}
