//! Copies of whole sessions in another place, byte for byte. What is there already, and the same, is left alone, so that a
//! copy that was interrupted goes on where it stopped.

use super::Store;
use crate::backend::{After, CheckpointEntry, CheckpointWrite, Encoding, Footing, Item, ItemName, Put, Series, Usage};
use crate::control::{Control, Meter, Phase};
use crate::error::{Error, Result};
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
#[derive(Default)]
struct Sound(Option<(Series, CheckpointId, u64)>);

impl Sound {
  fn holds(&self, series: &Series, reference: &Reference) -> bool {
    let known = self.0.as_ref();
    known.is_some_and(|(of, key, bytes)| of == series && *key == reference.key && *bytes >= reference.bytes)
  }
}

/// How many bytes two things have in common from their beginnings on.
fn same_bytes(one: &[u8], other: &[u8]) -> u64 {
  one.iter().zip(other).take_while(|(one, other)| one == other).count() as u64
}

/// How many items a session has, as far as that is known without listing them.
fn items_about(usage: &Result<Usage>) -> usize {
  let count = usage
    .as_ref()
    .map_or(0, |usage| usage.checkpoints + usage.agent_checkpoints + usage.results);
  usize::try_from(count).unwrap_or(usize::MAX)
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
      let sessions = self.backend.places()?;
      // Whoever watches wants to know how much is left: about so much, until each is looked into.
      let about: Vec<_> = self.backend.usage_each(&sessions)?.iter().map(items_about).collect();
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
    let mut pins = Vec::new();
    // The oldest checkpoints come first: what retention or a crash leaves of a copy is a beginning, not a middle.
    let items = self.items_of(session)?;
    meter.expect_instead(about, items.len());
    let mut sound = Sound::default();
    for listed in items {
      meter.check()?;
      let before = copied.bytes;
      // Earlier versions come about by saving, and keys come with what stands on them.
      if let ItemName::Previous(..) | ItemName::Key(..) = listed.name {
        meter.done(0);
        continue;
      }
      if let (ItemName::Checkpoint(agent, ..), Some(entry)) = (&listed.name, &listed.entry) {
        let series = Series {
          session: session.clone(),
          agent: agent.clone(),
        };
        copied.checkpoints += u64::from(self.copy_checkpoint(&series, entry, to, &mut copied, &mut sound)?);
        if listed.made_at().is_some() {
          to.backend.set_made_at(&series, entry)?;
        }
        pins.push((series, entry.clone()));
      } else {
        copied.documents += u64::from(self.copy_item(session, listed.name.item(), to, &mut copied)?);
      }
      meter.done(copied.bytes - before);
    }
    for (series, entry) in pins {
      to.backend.set_pinned(&series, &entry.id, entry.is_pinned)?;
    }
    to.forget(session);
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
    if !sound.holds(series, &reference) {
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
      *sound = Sound(Some((series.clone(), reference.key.clone(), same)));
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
    if !to.take_delta(series, entry, footing, &bytes)? {
      return self.copy_with_key(series, entry, &reference, to, copied, sound);
    }
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
    if !to.take_delta(series, entry, footing, &bytes)? {
      // Where nobody can guard a key, nobody removes one.
      to.backend.write(session, key, &key_bytes)?;
      to.backend.write(session, item, &bytes)?;
    }
    to.check_that(session, key, |there| there.starts_with(&key_bytes))?;
    to.check_copy(session, item, &bytes)?;
    *sound = Sound(Some((series.clone(), reference.key.clone(), key_bytes.len() as u64)));
    copied.bytes += (key_bytes.len() + bytes.len()) as u64;
    Ok(true)
  }

  /// Whether a delta from elsewhere could be stored on its key.
  fn take_delta(&self, series: &Series, entry: &CheckpointEntry, footing: Footing<'_>, bytes: &[u8]) -> Result<bool> {
    let new = CheckpointWrite {
      encoding: entry.encoding,
      footing: Some(footing),
      after: &After::Any,
      content: &bytes,
      question: None,
    };
    let put = self.backend.write_checkpoint(series, &entry.id, new)?;
    Ok(matches!(put, Put::Stored { .. }))
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
