//! Checkpoints as differences: from which text, when another one takes its place, and how they are read.
//!
//! A key holds a text, and differences that lead from there to its tip. A delta is the difference from the tip, so reading
//! one takes the delta and the key, however many there are. As differences grow with the distance from the tip, the tip
//! moves on whenever that is worth its bytes; when the key has become long, a new one is made.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::{Saved, Store};
use crate::backend::{Encoding, Footing, Series};
use crate::error::{Error, Result};
use crate::format::delta::{self, Reference, Tip};
use crate::format::zstd::{self, FrameError};
use crate::id::{CheckpointId, SessionId};

/// When the differences from one tip together are so many times the last of them, the tip moves on.
const WORTH_MOVING: u64 = 2;

/// How long a key may get: reading it writes every text on the way to the tip, and damage in it costs all that stand on it.
const MAX_FRAMES: usize = 128;
const MAX_WORK: u64 = 16 << 20;
const MAX_WORK_IN_TEXTS: u64 = 12;

/// What the next deltas of a series stand on.
#[derive(Debug)]
struct Known {
  key: CheckpointId,
  tip: Tip,
  /// The bytes of the differences from this tip.
  since: AtomicU64,
  /// Who made a key may add to it.
  is_ours: bool,
}

/// What becomes of a difference.
#[derive(Debug, PartialEq, Eq)]
enum Step {
  Store,
  MoveTip,
  NewKey,
}

impl Known {
  fn new(key: CheckpointId, tip: Tip, is_ours: bool) -> Arc<Self> {
    Arc::new(Self {
      key,
      tip,
      since: AtomicU64::new(0),
      is_ours,
    })
  }

  fn is_under(&self, reference: &Reference) -> bool {
    self.key == reference.key && self.tip.is_under(reference)
  }

  /// For a difference of that size, of a text of that length.
  fn step(&self, difference: usize, length: usize) -> Step {
    let (difference, work) = (difference as u64, length as u64);
    let since = self.since.fetch_add(difference, Ordering::Relaxed) + difference;
    let whole = self.tip.whole_size(length);
    let may_move = self.is_ours
      && self.tip.frames < MAX_FRAMES
      && self.tip.work + work <= MAX_WORK.max(work.saturating_mul(MAX_WORK_IN_TEXTS));
    if difference.saturating_mul(2) > whole || (!may_move && since > whole) {
      Step::NewKey
    } else if may_move && since >= difference.saturating_mul(WORTH_MOVING) {
      Step::MoveTip
    } else {
      Step::Store
    }
  }
}

/// What is at hand of a series.
#[derive(Debug, Default)]
struct Row {
  /// What the next delta stands on.
  next: Mutex<Option<Arc<Known>>>,
  /// What the last one that was read stands on, if it is something else.
  read: Mutex<Option<Arc<Known>>>,
  /// Held by whoever makes a key or moves its tip.
  making: Mutex<()>,
  used_at: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
  mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Row {
  fn next(&self) -> Option<Arc<Known>> {
    locked(&self.next).clone()
  }

  /// Whether deltas still stand on that.
  fn is_at(&self, known: &Arc<Known>) -> bool {
    locked(&self.next).as_ref().is_some_and(|next| Arc::ptr_eq(next, known))
  }

  fn forget(&self, known: &Arc<Known>) {
    if self.is_at(known) {
      *locked(&self.next) = None;
    }
  }

  fn bytes(&self) -> u64 {
    let of = |known: &Mutex<Option<Arc<Known>>>| locked(known).as_ref().map_or(0, |known| known.tip.text.len() as u64);
    of(&self.next) + of(&self.read)
  }
}

/// The texts that are kept at hand, of as many series as fit.
#[derive(Debug)]
pub(super) struct Deltas {
  limit: u64,
  rows: Mutex<HashMap<Series, Arc<Row>>>,
  clock: AtomicU64,
}

impl Deltas {
  pub fn new(limit: u64) -> Self {
    Self {
      limit,
      rows: Mutex::default(),
      clock: AtomicU64::default(),
    }
  }

  fn row(&self, series: &Series) -> Arc<Row> {
    let mut rows = locked(&self.rows);
    let row = Arc::clone(rows.entry(series.clone()).or_default());
    row
      .used_at
      .store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    row
  }

  /// Lets go of what was not used for longest, until a quarter of the room is free.
  fn make_room(&self) {
    let mut rows = locked(&self.rows);
    let mut total: u64 = rows.values().map(|row| row.bytes()).sum();
    if total <= self.limit {
      return;
    }
    let mut by_use: Vec<_> = rows
      .iter()
      .map(|(series, row)| (row.used_at.load(Ordering::Relaxed), row.bytes(), series.clone()))
      .collect();
    by_use.sort_unstable();
    for (_, bytes, series) in by_use {
      if total <= self.limit - self.limit / 4 {
        return;
      }
      rows.remove(&series);
      total -= bytes;
    }
  }

  pub fn forget(&self, session: &SessionId) {
    locked(&self.rows).retain(|series, _| series.session != *session);
  }
}

impl Store {
  /// Stores a text as a delta; `None` if this place cannot.
  pub(super) fn write_delta(
    &self,
    series: &Series,
    id: &CheckpointId,
    text: &str,
    note: &str,
  ) -> Result<Option<Saved>> {
    let row = self.deltas.row(series);
    let new = NewDelta {
      series,
      id,
      text: text.as_bytes(),
      note,
    };
    // A key can go with the last delta on it, at any time before there is another.
    for _ in 0..3 {
      let size = match self.next_known(series, &row) {
        Some(known) => self.write_on(&new, &row, &known)?,
        None => self.write_on_new_key(&new, &row, None)?,
      };
      if let Some(size_bytes) = size {
        let path = self.backend.name_of(&series.session, series.item(id, Encoding::Delta));
        return Ok(Some(Saved { path, size_bytes }));
      }
    }
    Ok(None)
  }

  /// Removes keys that an interruption left, and says how many bytes they had.
  pub fn remove_unused_keys(&self, series: &Series) -> Result<u64> {
    self.backend.remove_unused_keys(series)
  }

  /// What the next delta of a series stands on. The first time, that is what the newest one stands on that is there.
  fn next_known(&self, series: &Series, row: &Row) -> Option<Arc<Known>> {
    if let Some(known) = row.next() {
      return Some(known);
    }
    let _making = locked(&row.making);
    // Somebody may have been quicker.
    if let Some(known) = row.next() {
      return Some(known);
    }
    let entries = self.backend.checkpoints(series).ok()?;
    let newest = entries.iter().find(|entry| entry.encoding == Encoding::Delta)?;
    let limit = self.options.max_read_bytes;
    let bytes = self
      .backend
      .read(&series.session, series.item_of(newest), limit)
      .ok()??;
    let reference = Reference::of(&bytes)?;
    let tip = self.read_key(series, &reference).ok()??;
    let known = Known::new(reference.key, tip, false);
    *locked(&row.next) = Some(Arc::clone(&known));
    self.deltas.make_room();
    Some(known)
  }

  /// Stores a text as the difference from what is known; the answer is its size, or `None` if that is not there any more.
  fn write_on(&self, new: &NewDelta<'_>, row: &Row, known: &Arc<Known>) -> Result<Option<u64>> {
    let difference = zstd::difference(new.text, &known.tip.text);
    let step = known.step(difference.len(), new.text.len());
    if step == Step::NewKey {
      return self.write_on_new_key(new, row, Some(known));
    }
    if step == Step::MoveTip
      && let Some(_making) = try_locked(&row.making)
      && row.is_at(known)
    {
      return self.move_tip(new, row, known, &difference);
    }
    let reference = known.tip.reference(&known.key, false);
    let written = self.put(new, &reference, known.tip.bytes, &[], &difference)?;
    if written.is_none() {
      row.forget(known);
    }
    Ok(written)
  }

  /// The text becomes the tip of the key; the delta on it is no difference.
  fn move_tip(&self, new: &NewDelta<'_>, row: &Row, known: &Arc<Known>, difference: &[u8]) -> Result<Option<u64>> {
    let tip = known.tip.next(new.text.to_vec(), difference);
    let reference = tip.reference(&known.key, true);
    // Should it fail, nobody knows what became of the key.
    row.forget(known);
    let written = self.put(new, &reference, known.tip.bytes, difference, &[])?;
    if written.is_some() {
      *locked(&row.next) = Some(Known::new(known.key.clone(), tip, true));
      self.deltas.make_room();
    }
    Ok(written)
  }

  /// Makes a key of the text, unless somebody else made another one than `old` meanwhile.
  fn write_on_new_key(&self, new: &NewDelta<'_>, row: &Row, old: Option<&Arc<Known>>) -> Result<Option<u64>> {
    let _making = locked(&row.making);
    let now = row.next();
    if now.as_ref().map(Arc::as_ptr) != old.map(Arc::as_ptr) && now.is_some() {
      return Ok(None);
    }
    let (tip, frame) = Tip::first(new.text.to_vec());
    let reference = tip.reference(new.id, true);
    let written = self.put(new, &reference, 0, &frame, &[])?;
    *locked(&row.next) = written.map(|_| Known::new(new.id.clone(), tip, true));
    self.deltas.make_room();
    Ok(written)
  }

  fn put(
    &self,
    new: &NewDelta<'_>,
    reference: &Reference,
    known: u64,
    added: &[u8],
    frame: &[u8],
  ) -> Result<Option<u64>> {
    let footing = Footing {
      key: &reference.key,
      known,
      added,
    };
    let content = delta::compose(reference, new.note, frame);
    self.backend.write_delta(new.series, new.id, footing, &content)
  }

  /// The text of a delta, from its bytes; `None` if it went away meanwhile.
  pub(super) fn text_of_delta(
    &self,
    series: &Series,
    id: &CheckpointId,
    bytes: &[u8],
    path: &str,
  ) -> Result<Option<Vec<u8>>> {
    let reference =
      Reference::of(bytes).ok_or_else(|| Error::corrupt(path, "it does not say what it is the difference from"))?;
    let row = self.deltas.row(series);
    let at_hand = [row.next(), locked(&row.read).clone()].into_iter().flatten();
    let mut at_hand = at_hand.filter(|known| known.is_under(&reference));
    let known = if let Some(known) = at_hand.next() {
      known
    } else {
      let tip = match self.read_key(series, &reference) {
        Ok(Some(tip)) => tip,
        missing_or_damaged => return self.without_key(series, id, &reference, path, missing_or_damaged.err()),
      };
      let known = Known::new(reference.key.clone(), tip, false);
      *locked(&row.read) = Some(Arc::clone(&known));
      self.deltas.make_room();
      known
    };
    let text = delta::text(bytes, &reference, &known.tip, self.options.max_read_bytes);
    text.map(Some).map_err(|error| self.frame_error(path, error))
  }

  /// A delta cannot be read for want of its key: it may have gone together with it.
  fn without_key(
    &self,
    series: &Series,
    id: &CheckpointId,
    reference: &Reference,
    path: &str,
    cause: Option<Error>,
  ) -> Result<Option<Vec<u8>>> {
    let item = series.item(id, Encoding::Delta);
    if self.backend.read(&series.session, item, u64::MAX)?.is_none() {
      return Ok(None);
    }
    let key = self.backend.name_of(&series.session, series.key(&reference.key));
    let cause = cause.unwrap_or_else(|| Error::corrupt(&key, "it is missing"));
    Err(
      Error::new(
        cause.code,
        format!("{path} cannot be read without its key: {}", cause.message),
      )
      .because(cause),
    )
  }

  /// The tip of a key that a delta stands on; `None` if the key is missing.
  fn read_key(&self, series: &Series, reference: &Reference) -> Result<Option<Tip>> {
    let (item, limit) = (series.key(&reference.key), self.options.max_read_bytes);
    let Some(bytes) = self.backend.read(&series.session, item, limit)? else {
      return Ok(None);
    };
    let path = self.backend.name_of(&series.session, item);
    let tip = Tip::read(&bytes, reference.bytes, limit).map_err(|error| self.frame_error(&path, error))?;
    if tip.checksum != reference.checksum {
      return Err(Error::corrupt(&path, "it is not what it was"));
    }
    Ok(Some(tip))
  }

  pub(super) fn frame_error(&self, path: &str, error: FrameError) -> Error {
    match error {
      FrameError::TooLarge(size) => Error::too_large(path, size, self.options.max_read_bytes),
      FrameError::Damaged(why) => Error::corrupt(path, format!("it is not zstd ({why})")).because(error),
    }
  }
}

/// A text on its way.
struct NewDelta<'a> {
  series: &'a Series,
  id: &'a CheckpointId,
  text: &'a [u8],
  /// What a list shows of it.
  note: &'a str,
}

fn try_locked(mutex: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
  match mutex.try_lock() {
    Ok(guard) => Some(guard),
    Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
    Err(TryLockError::WouldBlock) => None,
  }
}
