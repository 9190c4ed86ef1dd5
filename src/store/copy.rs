//! Copying whole sessions to another store, byte for byte. Items that the other store has already are not written again, so an
//! interrupted copy continues where it stopped.

use std::collections::HashSet;

use super::Store;
use crate::backend::{
  Attribute, BackendExt, CheckpointEntry, Document, Encoding, Item, ItemName, Maintenance, Precondition, PutOptions,
  Series, SessionFilter, Usage,
};
use crate::codec::zstd::SkippableFrame;
use crate::json::scan::validate;
use crate::store::create::MAX_ATTEMPTS;
use crate::store::write::WriteOutcome;
use crate::types::error::{Code, Error, Result};
use crate::types::id::{CheckpointId, SessionId};
use crate::types::progress::{Control, Meter, Phase};

/// The items of a session that were copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
  pub checkpoints: u64,
  pub documents: u64,
  /// Items that the other store had already.
  pub unchanged: u64,
  pub bytes: u64,
}

/// An estimate of the items of a session, without listing them.
fn items_about(usage: &Result<Usage>) -> usize {
  let count = usage
    .as_ref()
    .map_or(0, |usage| usage.checkpoints + usage.agent_checkpoints + usage.results);
  usize::try_from(count).unwrap_or(usize::MAX)
}

/// A readable checkpoint in one of the two stores.
struct Assessed {
  /// Without white space.
  text: String,
  /// Whether its checksums match the text as it is stored.
  matches: bool,
}

/// A checkpoint that the other store has already.
struct Present {
  encoding: Encoding,
  bytes: Vec<u8>,
  /// `None` if it cannot be read.
  assessed: Option<Assessed>,
}

/// Whether the present checkpoint is kept: it is equal to the source, or it is whole and the source may not be.
fn is_kept(source: Option<&Assessed>, present: Option<&Assessed>) -> bool {
  match (source, present) {
    (None, _) => true,
    (Some(_), None) => false,
    (Some(source), Some(present)) => source.text == present.text || (present.matches && !source.matches),
  }
}

impl Store {
  /// Whether both stores have the same content. Memory stores never share theirs.
  #[must_use]
  pub fn is_same_location(&self, other: &Self) -> bool {
    std::ptr::eq(self, other) || (self.location() == other.location() && self.location() != "memory:")
  }

  /// Copies one session, or all of them. Returns the sessions that are now in both stores.
  pub fn copy(&self, session: Option<SessionId>, to: &Self, control: &Control) -> Result<Vec<(SessionId, Copied)>> {
    let mut meter = Meter::new(control, Phase::Copy);
    let Some(session) = session else {
      let sessions = self.backend.sessions(SessionFilter::All)?;
      // The progress needs a total: an estimate, until each session is listed.
      let estimates: Vec<_> = self.backend.usage(&sessions)?.iter().map(items_about).collect();
      meter.expect(estimates.iter().sum());
      let mut all = Vec::new();
      for (session, estimate) in sessions.into_iter().zip(estimates) {
        let copied = self.copy_session(&session, to, &mut meter, estimate)?;
        // Skip directories that are no sessions, and sessions that were deleted concurrently.
        if copied != Copied::default() {
          all.push((session, copied));
        }
      }
      return Ok(all);
    };
    let copied = self.copy_session(&session, to, &mut meter, 0)?;
    if copied == Copied::default() {
      return Err(Error::no_session(&session));
    }
    Ok(vec![(session, copied)])
  }

  /// Copies every item of a session and reads it back. The session document comes last, so a new session is not listed before
  /// it is complete. `estimate` is the number of items that the progress expects.
  fn copy_session(&self, session: &SessionId, to: &Self, meter: &mut Meter<'_>, estimate: usize) -> Result<Copied> {
    let mut copied = Copied::default();
    // Oldest checkpoints first: after a crash the copy lacks the newest ones, and none between others.
    let items = self.items_of(session)?;
    meter.expect_instead(estimate, items.len());
    // A checkpoint that retention deleted in the other store is copied again, without its former label there.
    let own = items.iter().filter_map(|listed| match &listed.name {
      ItemName::Checkpoint(None, id, _) => Some(id.clone()),
      _ => None,
    });
    to.forget_labels(&Series::from(session), &own.collect::<Vec<_>>())?;
    for listed in items {
      meter.check()?;
      let before = copied.bytes;
      // Saving creates the earlier versions, and the other store makes its own bases.
      if let ItemName::Previous(..) | ItemName::Base(..) = listed.name {
        meter.done(0);
        continue;
      }
      if let (ItemName::Checkpoint(agent, ..), Some(entry)) = (&listed.name, &listed.entry) {
        let series = Series {
          session: session.clone(),
          agent: agent.clone(),
        };
        copied.checkpoints += u64::from(self.copy_checkpoint(&series, entry, to, &mut copied)?);
        if listed.made_at().is_some() {
          to.backend
            .set_attribute(&series, &entry.id, Attribute::MadeAt(entry.made_at))?;
        }
        if entry.is_pinned {
          self.copy_pin(&series, entry, to)?;
        }
      } else if listed.name == ItemName::Document(Document::Labels) {
        copied.documents += u64::from(self.copy_labels(session, to, &mut copied)?);
      } else {
        copied.documents += u64::from(self.copy_item(session, listed.name.item(), to, &mut copied)?);
      }
      meter.done(copied.bytes - before);
    }
    to.forget(session);
    // Update the latest link, if the other backend has one.
    to.backend
      .maintain(Maintenance::RefreshLatestLink(&Series::from(session)))?;
    Ok(copied)
  }

  /// Pins a checkpoint that was copied, and copies it again if retention has deleted it before.
  fn copy_pin(&self, series: &Series, entry: &CheckpointEntry, to: &Self) -> Result<()> {
    for _ in 0..MAX_ATTEMPTS {
      let is_pinned = to.backend.set_attribute(series, &entry.id, Attribute::Pinned(true))?;
      if is_pinned || self.backend.find(series, &entry.id)?.is_none() {
        return Ok(());
      }
      self.copy_checkpoint(series, entry, to, &mut Copied::default())?;
    }
    let message = format!(
      "The checkpoint {} of {series} could not be pinned in the other store: it is deleted there after each copy. Copy it again",
      entry.id
    );
    Err(Error::new(Code::Busy, message))
  }

  /// Copies a checkpoint, and returns whether it existed and had to be copied. A delta gets a base of the other store, whose existing
  /// bases are not changed.
  fn copy_checkpoint(&self, series: &Series, entry: &CheckpointEntry, to: &Self, copied: &mut Copied) -> Result<bool> {
    let read = |encoding| {
      let bytes = self
        .backend
        .read(&series.session, series.item(&entry.id, encoding), u64::MAX)?;
      Ok(bytes.map(|bytes| (encoding, bytes)))
    };
    let Some((encoding, bytes)) = self.in_current_encoding(series, &entry.id, &[entry.encoding], read)? else {
      return Ok(false);
    };
    let source = self.assess_for_copy(series, &entry.id, encoding, &bytes)?;
    if let Some(present) = to.present_for_copy(series, &entry.id)? {
      let is_same = encoding == present.encoding && encoding != Encoding::Delta && present.bytes == bytes;
      if is_same || is_kept(source.as_ref(), present.assessed.as_ref()) {
        copied.unchanged += 1;
        return Ok(false);
      }
    }
    let text = source.map(|source| source.text);
    let size = match text.filter(|_| encoding == Encoding::Delta) {
      Some(text) => to.take_delta(
        series,
        &entry.id,
        &text,
        SkippableFrame::Note.find(&bytes).unwrap_or_default(),
      )?,
      None => to.take_bytes(series, &entry.id, encoding, &bytes)?,
    };
    copied.bytes += size;
    Ok(true)
  }

  /// Reads a checkpoint for a copy; `None` if it is damaged.
  fn assess_for_copy(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
    bytes: &[u8],
  ) -> Result<Option<Assessed>> {
    let stored = match self.decoded(series, id, encoding, bytes.to_vec(), None) {
      Ok(stored) => stored,
      Err(error) if is_inconclusive(&error) => return Err(error),
      Err(_) => None,
    };
    Ok(stored.map(|stored| {
      let checked = stored.check_as_stored();
      Assessed {
        matches: checked.as_ref().is_ok_and(|(matches, _)| *matches),
        text: checked.map_or_else(|_| stored.compact_text().into_owned(), |(_, text)| text),
      }
    }))
  }

  /// The checkpoint that this store has already. An unreadable one is read until two reads are equal: it may have been converted
  /// between two reads.
  fn present_for_copy(&self, series: &Series, id: &CheckpointId) -> Result<Option<Present>> {
    let read = |encoding| {
      let bytes = self
        .backend
        .read(&series.session, series.item(id, encoding), u64::MAX)?;
      Ok(bytes.map(|bytes| (encoding, bytes)))
    };
    let mut before = None;
    loop {
      let Some((encoding, bytes)) = self.in_current_encoding(series, id, &Encoding::ALL, read)? else {
        return Ok(None);
      };
      let assessed = self.assess_for_copy(series, id, encoding, &bytes)?;
      if assessed.is_some() || before.as_ref() == Some(&bytes) {
        return Ok(Some(Present {
          encoding,
          bytes,
          assessed,
        }));
      }
      before = Some(bytes);
    }
  }

  /// Stores a checkpoint of another store as a delta, or whole if no delta is possible. Returns its size in bytes.
  fn take_delta(&self, series: &Series, id: &CheckpointId, text: &str, note: &str) -> Result<u64> {
    for encoding in [Encoding::Delta, Encoding::Zstd] {
      if let WriteOutcome::Stored(saved, _) = self.write_text(series, id, text, note, encoding, Precondition::None)? {
        let read = |encoding| self.read_checkpoint(series, id, encoding);
        let back = self.in_current_encoding(series, id, &[encoding], read)?;
        return match back {
          Some(back) if back.compact_text() != text => Err(not_as_copied(&saved.path)),
          // `None`: it was deleted since.
          _ => Ok(saved.size_bytes),
        };
      }
    }
    Err(Error::new(
      Code::Internal,
      "a whole checkpoint was refused for lack of a base",
    ))
  }

  /// Stores the bytes of a checkpoint of another store. Returns their number.
  fn take_bytes(&self, series: &Series, id: &CheckpointId, encoding: Encoding, bytes: &[u8]) -> Result<u64> {
    let options = PutOptions::new(encoding);
    self.backend.put_checkpoint(series, id, &bytes, &options)?;
    let item = series.item(id, encoding);
    match self.backend.read(&series.session, item, u64::MAX)? {
      Some(back) if back != bytes => Err(not_as_copied(&self.backend.name_of(&series.session, item))),
      // `None`: it was converted or deleted since.
      _ => Ok(bytes.len() as u64),
    }
  }

  /// Copies the labels, and returns whether that changed any. Labels of checkpoints that only the other store has are kept.
  fn copy_labels(&self, session: &SessionId, to: &Self, copied: &mut Copied) -> Result<bool> {
    let series = Series::from(session);
    if self.backend.read(session, Item::LABELS, u64::MAX)?.is_none() {
      return Ok(false);
    }
    let labels = match self.read_labels(&series) {
      Ok(labels) => labels,
      Err(error) if is_inconclusive(&error) => return Err(error),
      // Damaged labels replace none.
      Err(_) => return Ok(false),
    };
    let existing: HashSet<_> = self
      .backend
      .checkpoints(&series)?
      .into_iter()
      .map(|entry| entry.id)
      .collect();
    let labels = labels.only(&existing);
    // All labels are those of deleted checkpoints.
    if labels.is_empty() {
      return Ok(false);
    }
    if !to.merge_labels(session, &labels)? {
      copied.unchanged += 1;
      return Ok(false);
    }
    let written = to.backend.read(session, Item::LABELS, u64::MAX)?;
    copied.bytes += written.map_or(0, |bytes| bytes.len() as u64);
    Ok(true)
  }

  /// Copies an item, and returns whether it existed and had to be copied.
  fn copy_item(&self, session: &SessionId, item: Item<'_>, to: &Self, copied: &mut Copied) -> Result<bool> {
    let Some(bytes) = self.backend.read(session, item, u64::MAX)? else {
      return Ok(false);
    };
    let present = to.backend.read(session, item, u64::MAX)?;
    // A damaged item does not replace a whole one.
    let is_kept = |present: &Vec<u8>| *present == bytes || (!is_json(&bytes) && is_json(present));
    if present.as_ref().is_some_and(is_kept) {
      copied.unchanged += 1;
      return Ok(false);
    }
    to.backend.put(session, item, &bytes)?;
    to.check_copy(session, item, &bytes)?;
    copied.bytes += bytes.len() as u64;
    Ok(true)
  }

  /// An error if an item does not hold the bytes that were just written.
  fn check_copy(&self, session: &SessionId, item: Item<'_>, bytes: &[u8]) -> Result<()> {
    if self.backend.read(session, item, u64::MAX)?.as_deref() == Some(bytes) {
      return Ok(());
    }
    Err(not_as_copied(&self.backend.name_of(session, item)))
  }
}

/// Whether the stored state is unknown after this error.
fn is_inconclusive(error: &Error) -> bool {
  matches!(error.code, Code::Io | Code::Busy | Code::OutcomeUnknown)
}

fn is_json(bytes: &[u8]) -> bool {
  str::from_utf8(bytes).is_ok_and(|text| validate(text).is_ok())
}

fn not_as_copied(path: &str) -> Error {
  Error::corrupt(path, "it does not hold the bytes that were just copied to it")
}
