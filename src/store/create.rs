//! Making, finding, listing and deleting checkpoints.

use std::borrow::Cow;
use std::io::{self, Write};
use std::slice;

use super::labels::LabelChange;
use super::{Label, LaidOut, Saved, Stamp, Store, Ticket, into_text, not_composed};
use crate::backend::{
  BackendExt, CheckpointEntry, Content, Encoding, NewLabels, Newest, Parent, Precondition, PutOptions, PutOutcome,
  RetentionAnswer, RetentionQuery, Series, time_in_id,
};
use crate::checkpoint::compose::{NewCheckpoint, Parts};
use crate::codec::gzip::{self, InflateError};
use crate::codec::zstd::{self, SkippableFrame};
use crate::json::layout::compact;
use crate::types::error::{Code, Error, Result};
use crate::types::id::{CheckpointId, SessionId};

/// How often an operation starts again because another one got in between.
pub(super) const MAX_ATTEMPTS: u32 = 100;

/// How a checkpoint is to be created.
#[derive(Debug, Default)]
pub struct CreateOptions {
  /// The store's, if it is absent.
  pub encoding: Option<Encoding>,
  pub parent: Parent,
  /// A label that no other checkpoint of the session may have.
  pub unique_label: Option<Label>,
}

impl<E: Into<Option<Encoding>>> From<E> for CreateOptions {
  fn from(encoding: E) -> Self {
    Self {
      encoding: encoding.into(),
      ..Self::default()
    }
  }
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
  /// Whether the text has no white space between its tokens.
  pub(super) is_compact: bool,
  /// The bytes that it takes up where it is stored.
  pub size_bytes: u64,
  /// Whether its checksums were found to match.
  pub is_verified: bool,
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

/// The newest checkpoint is not the expected parent.
fn conflict(series: &Series, newest: Option<CheckpointId>) -> Error {
  Error::conflict(&format!("The newest checkpoint of {series}"), newest.map(String::from))
}

/// The result of an attempt to store a checkpoint.
pub(super) enum SaveOutcome {
  Stored(Saved, Option<RetentionAnswer>),
  /// Another writer has stored this one, which is newer.
  Behind(CheckpointEntry),
  /// The checkpoint to be replaced does not exist.
  Missing,
  /// A delta cannot be stored at this time.
  NoDelta,
}

/// A checkpoint that is composed already.
struct ComposedContent<'a> {
  /// Compact JSON.
  text: &'a str,
  /// What a list shows of it.
  note: &'a str,
  encoding: Encoding,
}

impl Content for ComposedContent<'_> {
  fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
    match self.encoding {
      Encoding::Json => LaidOut(self.text).write_to(out),
      Encoding::Gzip => out.write_all(&gzip::compress(self.text.as_bytes(), self.note)),
      // A delta needs more than this: where it cannot be had, the text is stored whole.
      Encoding::Zstd | Encoding::Delta => out.write_all(&packed(self.text, self.note)),
    }
  }
}

/// The bytes of a checkpoint as zstd: compact JSON, and the note that a list shows.
pub(super) fn packed(text: &str, note: &str) -> Vec<u8> {
  [SkippableFrame::Note.frame(note), zstd::whole(text.as_bytes())].concat()
}

impl Store {
  /// The id and the time of a checkpoint that starts a new session.
  #[must_use]
  pub fn stamp(&self) -> Stamp {
    self.ids.stamp()
  }

  /// The id and the time of a checkpoint that is about to be created. Taken on the caller's thread: it fixes the order of calls.
  #[must_use]
  pub fn ticket(&self, series: impl Into<Series>) -> Ticket {
    self.ids.ticket(series.into())
  }

  /// Stores a checkpoint, then applies retention.
  pub fn create_checkpoint(
    &self,
    ticket: &Ticket,
    parts: &Parts,
    options: impl Into<CreateOptions>,
  ) -> Result<Created> {
    let (options, series) = (options.into(), ticket.series());
    let compose = |id: &CheckpointId| NewCheckpoint::compose(id, ticket.timestamp, parts);
    let query = self.retention_query(series);
    // With labels, the backend does not answer in the same round trip.
    let query = options.unique_label.is_none().then_some(query);
    let (id, saved, answer) = self.append(ticket, compose, &options, query)?;
    Ok(self.created(series, id, saved, query.zip(answer)))
  }

  /// Stores a checkpoint as the newest of its series. Whether it is, is decided where it is stored: if another writer has been
  /// faster, the checkpoint gets a new id and is composed again.
  pub(super) fn append<'a>(
    &self,
    ticket: &Ticket,
    compose: impl Fn(&CheckpointId) -> Result<NewCheckpoint<'a>>,
    options: &CreateOptions,
    retention: Option<RetentionQuery>,
  ) -> Result<(CheckpointId, Saved, Option<RetentionAnswer>)> {
    let series = ticket.series();
    let encoding = self.encoding_or(options.encoding);
    let unique = options.unique_label.as_ref();
    let made_with = unique
      .map(|label| self.made_with_label(series, &label.text))
      .transpose()?;
    for attempt in 0..MAX_ATTEMPTS {
      let id = ticket.id()?;
      let checkpoint = compose(&id)?;
      let with_label = |old: Option<Vec<u8>>, entries: &[CheckpointEntry]| {
        let change = LabelChange {
          series,
          id: &id,
          label: unique,
          made_with: made_with.as_ref(),
        };
        self.labels_after(&change, old, entries)?.document()
      };
      let put = PutOptions {
        precondition: Precondition::Newest(Newest {
          parent: options.parent.clone(),
          later: ticket.later_ids()?,
        }),
        retention,
        labels: unique.map(|_| &with_label as &NewLabels<'_>),
        ..PutOptions::new(encoding)
      };
      match self.save(series, &id, &CheckpointContent { checkpoint, encoding }, &put)? {
        SaveOutcome::Stored(saved, answer) => return Ok((id, saved, answer)),
        SaveOutcome::Behind(newest) => ticket.move_beyond(&newest, attempt),
        SaveOutcome::Missing | SaveOutcome::NoDelta => break,
      }
    }
    Err(Error::new(
      Code::Io,
      format!(
        "Could not store a checkpoint of {series}: other writers kept adding newer ones. Let one process at a time write to it, \
         for example with a lease"
      ),
    ))
  }

  /// Applies retention, and says what became of the checkpoint.
  pub(super) fn created(
    &self,
    series: &Series,
    id: CheckpointId,
    saved: Saved,
    answer: Option<(RetentionQuery, RetentionAnswer)>,
  ) -> Created {
    let warnings = self.apply_retention(series, &id, Some(saved.size_bytes), answer);
    Created {
      id,
      path: saved.path,
      size_bytes: saved.size_bytes,
      warnings,
    }
  }

  /// The encoding that was asked for, or the store's own.
  pub(super) fn encoding_or(&self, encoding: impl Into<Option<Encoding>>) -> Encoding {
    encoding.into().unwrap_or(self.options.encoding)
  }

  fn save(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoded: &CheckpointContent<'_>,
    put: &PutOptions<'_>,
  ) -> Result<SaveOutcome> {
    if put.encoding != Encoding::Delta {
      return self.write_whole(series, id, encoded, put);
    }
    let composed = encoded.checkpoint.compact();
    let (text, info) = composed.map_err(not_composed)?;
    let note = info.to_note();
    match self.write_delta(series, id, &text, &note, put)? {
      SaveOutcome::NoDelta => {}
      attempt => return Ok(attempt),
    }
    let packed = ComposedContent {
      text: &text,
      note: &note,
      encoding: Encoding::Zstd,
    };
    let put = PutOptions {
      encoding: Encoding::Zstd,
      ..put.clone()
    };
    self.write_whole(series, id, &packed, &put)
  }

  /// Stores a checkpoint that is composed already, compact, with the note that a list shows.
  pub(super) fn save_as(
    &self,
    series: &Series,
    id: &CheckpointId,
    text: &str,
    note: &str,
    encoding: Encoding,
    precondition: Precondition,
  ) -> Result<SaveOutcome> {
    let put = PutOptions {
      precondition,
      ..PutOptions::new(encoding)
    };
    if encoding == Encoding::Delta {
      return self.write_delta(series, id, text, note, &put);
    }
    self.write_whole(series, id, &ComposedContent { text, note, encoding }, &put)
  }

  /// Stores a checkpoint that is based on no other.
  fn write_whole(
    &self,
    series: &Series,
    id: &CheckpointId,
    content: &dyn Content,
    put: &PutOptions<'_>,
  ) -> Result<SaveOutcome> {
    let outcome = self.backend.put_checkpoint(series, id, content, put)?;
    self.saved(series, id, put.encoding, outcome)
  }

  pub(super) fn saved(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
    put: PutOutcome,
  ) -> Result<SaveOutcome> {
    Ok(match put {
      PutOutcome::Stored { size, retention, .. } => {
        let saved = Saved {
          path: self.backend.name_of(&series.session, series.item(id, encoding)),
          size_bytes: size,
        };
        SaveOutcome::Stored(saved, retention)
      }
      PutOutcome::Conflict(newest) => return Err(conflict(series, newest)),
      PutOutcome::Behind(newest) => SaveOutcome::Behind(newest),
      PutOutcome::Missing => SaveOutcome::Missing,
      PutOutcome::BaseIsGone | PutOutcome::BaseNotLocked => SaveOutcome::NoDelta,
    })
  }

  /// Forgets what is remembered of a session: it was removed, or somebody put something into it.
  pub(super) fn forget(&self, session: &SessionId) {
    self.retention_metadata.forget(&session.into());
    self.deltas.forget(session);
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
    let read = self.in_its_encoding(series, &entry.id, &[entry.encoding], |encoding| {
      self.readable(series, &entry.id, encoding)
    });
    Some(read.transpose()?.map_err(|error| self.damaged(series, entry, error)))
  }

  /// A checkpoint; a large one is not checked yet.
  pub fn checkpoint(&self, series: &Series, id: &CheckpointId) -> Result<Option<StoredCheckpoint>> {
    self.in_its_encoding(series, id, &Encoding::ALL, |encoding| {
      self.verified_if_small(series, id, encoding)
    })
  }

  /// Reads a checkpoint that may be converted at the same time: one that is not found in the expected encodings is looked for
  /// until it is read, or is gone.
  pub(super) fn in_its_encoding<T>(
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

  /// The newest checkpoint; a large one is not checked yet.
  pub fn latest_checkpoint(&self, series: &Series) -> Result<Option<StoredCheckpoint>> {
    loop {
      let entries = self.backend.checkpoints(series)?;
      for entry in &entries {
        let found = self.in_its_encoding(series, &entry.id, &[entry.encoding], |encoding| {
          self.verified_if_small(series, &entry.id, encoding)
        });
        // One that was deleted since the listing is passed over.
        if let Some(found) = found? {
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
    self.backend.remove(&series.session, series.item(id, Encoding::Json))?;
    self.forget_labels(series, slice::from_ref(id))
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
    let label = self.labels_of(series)?.get(id).map(str::to_owned);
    self.decoded(series, id, encoding, bytes, label)
  }

  /// The same from its stored bytes.
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
    let Some(json) = self.text_of(series, id, encoding, bytes, &path)? else {
      return Ok(None);
    };
    Ok(Some(StoredCheckpoint {
      id: id.clone(),
      text: into_text(json, &path)?,
      // Nobody else makes these.
      is_compact: encoding == Encoding::Delta,
      path,
      size_bytes,
      is_verified: false,
      is_of_agent: series.agent.is_some(),
      context: None,
      label,
    }))
  }

  /// The JSON of a checkpoint, from its stored bytes; `None` if a delta was removed meanwhile, with its key.
  pub(super) fn text_of(
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
}
