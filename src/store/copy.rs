//! Copies of whole sessions in another place, byte for byte. What is there already, and the same, is left alone, so that a
//! copy that was interrupted goes on where it stopped.

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

/// What became of the items of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
  pub checkpoints: u64,
  pub documents: u64,
  /// Those that were there already.
  pub unchanged: u64,
  pub bytes: u64,
}

/// How many items a session has, as far as that is known without listing them.
fn items_about(usage: &Result<Usage>) -> usize {
  let count = usage
    .as_ref()
    .map_or(0, |usage| usage.checkpoints + usage.agent_checkpoints + usage.results);
  usize::try_from(count).unwrap_or(usize::MAX)
}

/// A checkpoint of one of two stores.
struct Judged {
  /// Without white space.
  text: String,
  /// Whether its checksums match the text as it is stored.
  matches: bool,
}

/// A checkpoint that a copy finds in the other store.
struct Present {
  encoding: Encoding,
  bytes: Vec<u8>,
  /// `None` if it cannot be read.
  judged: Option<Judged>,
}

/// Whether a checkpoint stays that a copy finds: it is the same, or it is whole and what would replace it may not be.
fn stays(source: Option<&Judged>, present: Option<&Judged>) -> bool {
  match (source, present) {
    (None, _) => true,
    (Some(_), None) => false,
    (Some(source), Some(present)) => source.text == present.text || (present.matches && !source.matches),
  }
}

impl Store {
  /// Whether both stores have the same things in them: a memory is shared by nobody.
  #[must_use]
  pub fn is_same_place(&self, other: &Self) -> bool {
    std::ptr::eq(self, other) || (self.location() == other.location() && self.location() != "memory:")
  }

  /// Copies one session, or all of them. The answer is those that are in both places now.
  pub fn copy(&self, session: Option<SessionId>, to: &Self, control: &Control) -> Result<Vec<(SessionId, Copied)>> {
    let mut meter = Meter::new(control, Phase::Copy);
    let Some(session) = session else {
      let sessions = self.backend.sessions(SessionFilter::All)?;
      // Whoever watches wants to know how much is left: about so much, until each is looked into.
      let about: Vec<_> = self.backend.usage(&sessions)?.iter().map(items_about).collect();
      meter.expect(about.iter().sum());
      let mut all = Vec::new();
      for (session, about) in sessions.into_iter().zip(about) {
        let copied = self.copy_session(&session, to, &mut meter, about)?;
        // A directory that holds nothing of ours, or a session that was deleted meanwhile.
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

  /// Copies everything of a session, and reads it back. The session's document comes last: until then, whoever lists
  /// the sessions of the other place does not find it, unless it was there before. `about` so many items are expected.
  fn copy_session(&self, session: &SessionId, to: &Self, meter: &mut Meter<'_>, about: usize) -> Result<Copied> {
    let mut copied = Copied::default();
    // The oldest checkpoints come first: what retention or a crash leaves of a copy is a beginning, not a middle.
    let items = self.items_of(session)?;
    meter.expect_instead(about, items.len());
    // A checkpoint that retention removed there comes back without the label that it had.
    let own = items.iter().filter_map(|listed| match &listed.name {
      ItemName::Checkpoint(None, id, _) => Some(id.clone()),
      _ => None,
    });
    to.forget_labels(&Series::from(session), &own.collect::<Vec<_>>())?;
    for listed in items {
      meter.check()?;
      let before = copied.bytes;
      // Earlier versions come about by saving, and the other store makes keys of its own.
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
    // Where the other place has a link to the newest, it follows.
    to.backend
      .maintain(Maintenance::RefreshLatestLink(&Series::from(session)))?;
    Ok(copied)
  }

  /// Pins a checkpoint that was copied. Retention may have removed it there before: then it is copied again.
  fn copy_pin(&self, series: &Series, entry: &CheckpointEntry, to: &Self) -> Result<()> {
    for _ in 0..MAX_ATTEMPTS {
      let is_pinned = to.backend.set_attribute(series, &entry.id, Attribute::Pinned(true))?;
      if is_pinned || self.backend.find(series, &entry.id)?.is_none() {
        return Ok(());
      }
      self.copy_checkpoint(series, entry, to, &mut Copied::default())?;
    }
    let message = format!(
      "The checkpoint {} of {series} could not be pinned in the other store: it keeps being removed there. Copy it again",
      entry.id
    );
    Err(Error::new(Code::Busy, message))
  }

  /// Whether it was there and had to be copied. A delta becomes one on a key of the other store: what other checkpoints there are
  /// based on is not touched.
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
    let source = self.judged_for_copy(series, &entry.id, encoding, &bytes)?;
    if let Some(present) = to.present_for_copy(series, &entry.id)? {
      let is_same = encoding == present.encoding && encoding != Encoding::Delta && present.bytes == bytes;
      if is_same || stays(source.as_ref(), present.judged.as_ref()) {
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

  /// What a copy has to know of a checkpoint; `None` if it is damaged.
  fn judged_for_copy(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
    bytes: &[u8],
  ) -> Result<Option<Judged>> {
    let stored = match self.decoded(series, id, encoding, bytes.to_vec(), None) {
      Ok(stored) => stored,
      Err(error) if is_unknown(&error) => return Err(error),
      Err(_) => None,
    };
    Ok(stored.map(|stored| {
      let checked = stored.check_as_stored();
      Judged {
        matches: checked.as_ref().is_ok_and(|(matches, _)| *matches),
        text: checked.map_or_else(|_| stored.compact_text().into_owned(), |(_, text)| text),
      }
    }))
  }

  /// A checkpoint that a copy finds. One that cannot be read is read until it is the same twice: it may have been converted meanwhile.
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
      let judged = self.judged_for_copy(series, id, encoding, &bytes)?;
      if judged.is_some() || before.as_ref() == Some(&bytes) {
        return Ok(Some(Present {
          encoding,
          bytes,
          judged,
        }));
      }
      before = Some(bytes);
    }
  }

  /// Stores a checkpoint of another store as a delta, or whole where there can be none, and says how many bytes it has.
  fn take_delta(&self, series: &Series, id: &CheckpointId, text: &str, note: &str) -> Result<u64> {
    for encoding in [Encoding::Delta, Encoding::Zstd] {
      if let WriteOutcome::Stored(saved, _) = self.write_text(series, id, text, note, encoding, Precondition::None)? {
        let read = |encoding| self.read_checkpoint(series, id, encoding);
        let back = self.in_current_encoding(series, id, &[encoding], read)?;
        return match back {
          Some(back) if back.compact_text() != text => Err(not_as_copied(&saved.path)),
          // Absent: it was deleted since.
          _ => Ok(saved.size_bytes),
        };
      }
    }
    Err(Error::new(Code::Internal, "a whole checkpoint needs no key"))
  }

  /// Stores the bytes of a checkpoint of another store, and says how many they are.
  fn take_bytes(&self, series: &Series, id: &CheckpointId, encoding: Encoding, bytes: &[u8]) -> Result<u64> {
    let options = PutOptions::new(encoding);
    self.backend.put_checkpoint(series, id, &bytes, &options)?;
    let item = series.item(id, encoding);
    match self.backend.read(&series.session, item, u64::MAX)? {
      Some(back) if back != bytes => Err(not_as_copied(&self.backend.name_of(&series.session, item))),
      // Absent: it was converted, or deleted, since.
      _ => Ok(bytes.len() as u64),
    }
  }

  /// Labels are merged: those of checkpoints that only the other store has stay.
  fn copy_labels(&self, session: &SessionId, to: &Self, copied: &mut Copied) -> Result<bool> {
    let series = Series::from(session);
    if self.backend.read(session, Item::LABELS, u64::MAX)?.is_none() {
      return Ok(false);
    }
    let labels = match self.read_labels(&series) {
      Ok(labels) => labels,
      Err(error) if is_unknown(&error) => return Err(error),
      // They are damaged. What the other store has is better, even if it is none.
      Err(_) => return Ok(false),
    };
    let existing: HashSet<_> = self
      .backend
      .checkpoints(&series)?
      .into_iter()
      .map(|entry| entry.id)
      .collect();
    let labels = labels.only(&existing);
    // Only labels of deleted checkpoints: there is nothing to copy, and nothing that both stores have.
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

  /// Whether it was there and had to be copied.
  fn copy_item(&self, session: &SessionId, item: Item<'_>, to: &Self, copied: &mut Copied) -> Result<bool> {
    let Some(bytes) = self.backend.read(session, item, u64::MAX)? else {
      return Ok(false);
    };
    let there = to.backend.read(session, item, u64::MAX)?;
    // What is damaged does not replace what is whole.
    let stays = |there: &Vec<u8>| *there == bytes || (!is_json(&bytes) && is_json(there));
    if there.as_ref().is_some_and(stays) {
      copied.unchanged += 1;
      return Ok(false);
    }
    to.backend.put(session, item, &bytes)?;
    to.check_copy(session, item, &bytes)?;
    copied.bytes += bytes.len() as u64;
    Ok(true)
  }

  /// Reads back what was copied here.
  fn check_copy(&self, session: &SessionId, item: Item<'_>, bytes: &[u8]) -> Result<()> {
    if self.backend.read(session, item, u64::MAX)?.as_deref() == Some(bytes) {
      return Ok(());
    }
    Err(not_as_copied(&self.backend.name_of(session, item)))
  }
}

/// Whether an error leaves it open what is stored.
fn is_unknown(error: &Error) -> bool {
  matches!(error.code, Code::Io | Code::Busy | Code::OutcomeUnknown)
}

fn is_json(bytes: &[u8]) -> bool {
  str::from_utf8(bytes).is_ok_and(|text| validate(text).is_ok())
}

fn not_as_copied(path: &str) -> Error {
  Error::corrupt(path, "it is not what was just copied there")
}
