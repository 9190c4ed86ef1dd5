//! Copies of whole sessions in another place, byte for byte. What is there already, and the same, is left alone, so that a
//! copy that was interrupted goes on where it stopped.

use super::Store;
use crate::backend::{CheckpointEntry, Document, Encoding, Footing, Item, Put, Series, time_in_id};
use crate::error::{Code, Error, Result};
use crate::format::delta::{Reference, Tip};
use crate::id::{CheckpointId, SessionId};

/// What became of the items of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
  pub checkpoints: u64,
  pub documents: u64,
  /// Those that were there already.
  pub unchanged: u64,
  pub bytes: u64,
}

/// A key, and how many bytes of it are known to be the same in both places.
struct Sound(Option<(CheckpointId, u64)>);

impl Sound {
  fn holds(&self, reference: &Reference) -> bool {
    let known = self.0.as_ref().filter(|(key, _)| *key == reference.key);
    known.is_some_and(|(_, bytes)| *bytes >= reference.bytes)
  }
}

/// How many bytes two things have in common from their beginnings on.
fn same_bytes(one: &[u8], other: &[u8]) -> u64 {
  one.iter().zip(other).take_while(|(one, other)| one == other).count() as u64
}

impl Store {
  /// Whether both stores have the same things in them: a memory is shared by nobody.
  #[must_use]
  pub fn is_same_place(&self, other: &Self) -> bool {
    std::ptr::eq(self, other) || (self.location() == other.location() && self.location() != "memory:")
  }

  /// Copies one session, or all of them. The answer is those that are in both places now.
  pub fn copy(&self, session: Option<SessionId>, to: &Self) -> Result<Vec<(SessionId, Copied)>> {
    let Some(session) = session else {
      let mut all = Vec::new();
      for session in self.backend.places()? {
        let copied = self.copy_session(&session, to)?;
        // A directory that holds nothing of ours, or a session that was deleted meanwhile.
        if copied != Copied::default() {
          all.push((session, copied));
        }
      }
      return Ok(all);
    };
    let copied = self.copy_session(&session, to)?;
    if copied == Copied::default() {
      return Err(Error::new(Code::NotFound, format!("Session not found: {session}")));
    }
    Ok(vec![(session, copied)])
  }

  /// Copies everything of a session, and reads it back. The session's document comes last: until then, whoever lists
  /// the sessions of the other place does not find it, unless it was there before.
  fn copy_session(&self, session: &SessionId, to: &Self) -> Result<Copied> {
    let mut copied = Copied::default();
    let mut rows = self.agent_series(session)?;
    rows.push(session.into());
    let mut pins = Vec::new();
    for series in &rows {
      let mut sound = Sound(None);
      // The oldest first: what retention or a crash leaves of it is a beginning, not a middle.
      for entry in self.backend.checkpoints(series)?.iter().rev() {
        if self.copy_checkpoint(series, entry, to, &mut copied, &mut sound)? {
          copied.checkpoints += 1;
        }
        if time_in_id(entry.id.as_str()).is_none() {
          to.backend.set_made_at(series, entry)?;
        }
        pins.push((series, entry.clone()));
      }
    }
    let results = self.backend.results(session)?;
    let documents = [Document::Labels, Document::TaskTree, Document::Session];
    let items = results
      .iter()
      .map(Item::TaskResult)
      .chain(documents.map(Item::Document));
    for item in items {
      if self.copy_item(session, item, to, &mut copied)? {
        copied.documents += 1;
      }
    }
    for (series, entry) in pins {
      to.backend.set_pinned(series, &entry.id, entry.is_pinned)?;
    }
    to.forget_ids(session);
    // Where the other place has a link to the newest, it follows.
    to.backend.settle_newest(&Series::from(session))?;
    Ok(copied)
  }

  /// Whether it was there and had to be copied. What it stands on comes with it.
  fn copy_checkpoint(
    &self,
    series: &Series,
    entry: &CheckpointEntry,
    to: &Self,
    copied: &mut Copied,
    sound: &mut Sound,
  ) -> Result<bool> {
    let (session, item) = (&series.session, series.item_of(entry));
    if entry.encoding != Encoding::Delta {
      return self.copy_item(session, item, to, copied);
    }
    let Some(bytes) = self.backend.read(session, item, u64::MAX)? else {
      return Ok(false);
    };
    // One that does not say what it stands on is copied as faithfully as a whole one.
    let Some(reference) = Reference::of(&bytes) else {
      return self.copy_item(session, item, to, copied);
    };
    if !sound.holds(&reference) {
      let key = series.key(&reference.key);
      let Some(here) = self.key_under(series, &reference)? else {
        // It has lost its key, or both are gone.
        return self.copy_item(session, item, to, copied);
      };
      let there = to.backend.read(session, key, u64::MAX)?;
      let same = there.as_deref().map_or(0, |there| same_bytes(&here, there));
      if same < reference.bytes {
        // What is damaged here does not take the place of what may be whole there.
        if there.is_some() && Tip::read(&here, reference.bytes, u64::MAX).is_err() {
          return self.copy_item(session, item, to, copied);
        }
        return self.copy_with_key(series, entry, &reference, to, copied, sound);
      }
      *sound = Sound(Some((reference.key.clone(), same)));
    }
    if to.backend.read(session, item, u64::MAX)?.as_ref() == Some(&bytes) {
      copied.unchanged += 1;
      return Ok(false);
    }
    let footing = Footing {
      key: &reference.key,
      known: reference.bytes,
      added: &[],
      seen: None,
    };
    let Put::Stored { .. } = to.backend.write_delta(series, &entry.id, footing, &bytes)? else {
      return self.copy_with_key(series, entry, &reference, to, copied, sound);
    };
    to.check_copy(session, item, &bytes)?;
    copied.bytes += bytes.len() as u64;
    Ok(true)
  }

  /// Copies a delta and all of its key, whatever is there.
  fn copy_with_key(
    &self,
    series: &Series,
    entry: &CheckpointEntry,
    reference: &Reference,
    to: &Self,
    copied: &mut Copied,
    sound: &mut Sound,
  ) -> Result<bool> {
    let (session, item, key) = (&series.session, series.item_of(entry), series.key(&reference.key));
    let key_bytes = self.key_under(series, reference)?;
    let (Some(bytes), Some(key_bytes)) = (self.backend.read(session, item, u64::MAX)?, key_bytes) else {
      return self.copy_item(session, item, to, copied);
    };
    let footing = Footing {
      key: &reference.key,
      known: 0,
      added: &key_bytes,
      seen: None,
    };
    if !matches!(
      to.backend.write_delta(series, &entry.id, footing, &bytes)?,
      Put::Stored { .. }
    ) {
      // Where nobody can guard a key, nobody removes one.
      to.backend.write(session, key, &key_bytes)?;
      to.backend.write(session, item, &bytes)?;
    }
    to.check_that(session, key, |there| there.starts_with(&key_bytes))?;
    to.check_copy(session, item, &bytes)?;
    *sound = Sound(Some((reference.key.clone(), key_bytes.len() as u64)));
    copied.bytes += (key_bytes.len() + bytes.len()) as u64;
    Ok(true)
  }

  /// The key of a delta, if it is there, with all that the delta needs.
  fn key_under(&self, series: &Series, reference: &Reference) -> Result<Option<Vec<u8>>> {
    let key = self
      .backend
      .read(&series.session, series.key(&reference.key), u64::MAX)?;
    Ok(key.filter(|key| key.len() as u64 >= reference.bytes))
  }

  /// Whether it was there and had to be copied.
  fn copy_item(&self, session: &SessionId, item: Item<'_>, to: &Self, copied: &mut Copied) -> Result<bool> {
    let Some(bytes) = self.backend.read(session, item, u64::MAX)? else {
      return Ok(false);
    };
    if to.backend.read(session, item, u64::MAX)?.as_ref() == Some(&bytes) {
      copied.unchanged += 1;
      return Ok(false);
    }
    to.backend.write(session, item, &bytes)?;
    to.check_copy(session, item, &bytes)?;
    copied.bytes += bytes.len() as u64;
    Ok(true)
  }

  /// Reads back what was copied here.
  fn check_copy(&self, session: &SessionId, item: Item<'_>, bytes: &[u8]) -> Result<()> {
    self.check_that(session, item, |there| there == bytes)
  }

  /// The same, of what may have become more meanwhile.
  fn check_that(&self, session: &SessionId, item: Item<'_>, is_good: impl FnOnce(&[u8]) -> bool) -> Result<()> {
    if self
      .backend
      .read(session, item, u64::MAX)?
      .as_deref()
      .is_some_and(is_good)
    {
      return Ok(());
    }
    let name = self.backend.name_of(session, item);
    Err(Error::corrupt(&name, "it is not what was just copied there"))
  }
}
