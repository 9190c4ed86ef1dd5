//! Checkpoints as differences: from which text, when another one takes its place, and how they are read.
//!
//! A key holds a text, and differences that lead from there to its tip. A delta is the difference from the tip, so reading
//! one takes the delta and the key, however many there are. As differences grow with the distance from the tip, the tip
//! moves on whenever that is worth its bytes; when the key has become long, a new one is made.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::Store;
use crate::backend::{
  BackendExt, BaseFingerprint, BaseRef, Encoding, FileStamp, Maintenance, PutOptions, PutOutcome, Series,
};
use crate::codec::delta::{self, Reference, Tip, most_work};
use crate::codec::zstd::FrameError;
use crate::store::create::SaveOutcome;
use crate::types::error::{Error, Result};
use crate::types::fault_injection;
use crate::types::id::{CheckpointId, SessionId};

/// When the differences from one tip together are so many times the last of them, the tip moves on.
const WORTH_MOVING: u64 = 2;

/// How many texts a key may lead through: damage in it costs all that stand on it.
const MAX_TEXTS: usize = 128;

/// What the next deltas of a series stand on.
#[derive(Debug)]
struct CachedBase {
  key: CheckpointId,
  tip: Tip,
  /// The bytes of the differences from this tip.
  since: AtomicU64,
  /// How the key looked when something was last stored on it.
  seen: Mutex<Option<FileStamp>>,
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

impl CachedBase {
  fn new(key: CheckpointId, tip: Tip, seen: Option<FileStamp>, is_ours: bool) -> Arc<Self> {
    Arc::new(Self {
      key,
      tip,
      since: AtomicU64::new(0),
      seen: Mutex::new(seen),
      is_ours,
    })
  }

  fn seen(&self) -> Option<BaseFingerprint> {
    let checksum = self.tip.way.checksum;
    locked(&self.seen).map(|look| BaseFingerprint { stamp: look, checksum })
  }

  /// Of those who look at the same time, the one who saw most is right: keys only become longer.
  fn see(&self, look: FileStamp) {
    let mut seen = locked(&self.seen);
    if seen.is_none_or(|seen| seen.size <= look.size) {
      *seen = Some(look);
    }
  }

  fn is_under(&self, reference: &Reference) -> bool {
    self.key == reference.key && self.tip.is_under(reference)
  }

  /// For a difference of that size, of a text of that length, where nothing is read that has more bytes than the limit.
  fn step(&self, difference: usize, length: usize, limit: u64) -> Step {
    let (difference, work) = (difference as u64, length as u64);
    let since = self.since.fetch_add(difference, Ordering::Relaxed) + difference;
    let whole = self.tip.whole_size(length);
    let may_move = self.is_ours
      && self.tip.way.texts < MAX_TEXTS
      && self.tip.way.bytes + difference <= limit
      && self.tip.way.work + work <= most_work(work);
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
  next: Mutex<Option<Arc<CachedBase>>>,
  /// What the last one that was read stands on, if it is something else.
  read: Mutex<Option<Arc<CachedBase>>>,
  /// Held by whoever makes a key or moves its tip.
  making: Mutex<()>,
  used_at: AtomicU64,
}

/// Waits for a mutex that is held while the backend works; `None` if it is not free in time.
fn locked_within(mutex: &Mutex<()>, timeout: Duration) -> Option<MutexGuard<'_, ()>> {
  const PAUSE: Duration = Duration::from_millis(1);
  let deadline = Instant::now() + timeout;
  loop {
    match try_locked(mutex) {
      None if Instant::now() < deadline => thread::sleep(PAUSE),
      guard => return guard,
    }
  }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
  mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Row {
  fn next(&self) -> Option<Arc<CachedBase>> {
    locked(&self.next).clone()
  }

  /// Whether deltas still stand on that.
  fn is_at(&self, known: &Arc<CachedBase>) -> bool {
    locked(&self.next).as_ref().is_some_and(|next| Arc::ptr_eq(next, known))
  }

  fn forget(&self, known: &Arc<CachedBase>) {
    let mut next = locked(&self.next);
    if next.as_ref().is_some_and(|next| Arc::ptr_eq(next, known)) {
      *next = None;
    }
  }

  fn bytes(&self) -> u64 {
    let of =
      |known: &Mutex<Option<Arc<CachedBase>>>| locked(known).as_ref().map_or(0, |known| known.tip.text.len() as u64);
    of(&self.next) + of(&self.read)
  }
}

/// The texts that are kept at hand, of as many series as fit.
#[derive(Debug)]
pub(super) struct Deltas {
  limit: u64,
  rows: Mutex<HashMap<Series, Arc<Row>>>,
  /// Series that were looked through for keys that nobody needs.
  tidied: Mutex<HashSet<Series>>,
  clock: AtomicU64,
}

impl Deltas {
  pub fn new(limit: u64) -> Self {
    Self {
      limit,
      rows: Mutex::default(),
      tidied: Mutex::default(),
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

  /// The row of a series of which there is something at hand.
  fn at_hand(&self, series: &Series) -> Option<Arc<Row>> {
    locked(&self.rows).get(series).cloned()
  }

  /// Lets go of what was not used for longest, until a quarter of the room is free. What leaves less than that by itself goes
  /// first: it would push out all others again and again.
  fn make_room(&self) {
    let mut rows = locked(&self.rows);
    if rows.values().map(|row| row.bytes()).sum::<u64>() <= self.limit {
      return;
    }
    let enough = self.limit - self.limit / 4;
    // Others may be at work on them, so each is asked once.
    let mut by_use: Vec<_> = rows
      .iter()
      .map(|(series, row)| (row.bytes(), row.used_at.load(Ordering::Relaxed), series.clone()))
      .collect();
    by_use.sort_unstable_by_key(|(bytes, used_at, _)| (*bytes <= enough, *used_at));
    let mut total: u64 = by_use.iter().map(|(bytes, ..)| bytes).sum();
    for (bytes, _, series) in by_use {
      if total <= enough {
        return;
      }
      rows.remove(&series);
      total -= bytes;
    }
  }

  pub fn forget(&self, session: &SessionId) {
    locked(&self.rows).retain(|series, _| series.session != *session);
    locked(&self.tidied).retain(|series| series.session != *session);
  }

  /// Whether it is the first time that somebody asks.
  fn is_first(&self, series: &Series) -> bool {
    locked(&self.tidied).insert(series.clone())
  }
}

impl Store {
  /// Stores a text as a delta, if that is possible.
  pub(super) fn write_delta(
    &self,
    series: &Series,
    id: &CheckpointId,
    text: &str,
    note: &str,
    put: &PutOptions<'_>,
  ) -> Result<SaveOutcome> {
    let row = self.deltas.row(series);
    let new = NewDelta {
      series,
      id,
      text: text.as_bytes(),
      note,
      options: put,
    };
    // A key can be removed with the last delta on it, at any time before there is another.
    for _ in 0..3 {
      let put = match self.next_known(series, &row) {
        Some(known) => self.write_on(&new, &row, &known)?,
        None => self.write_on_new_key(&new, &row, None)?,
      };
      if !matches!(put, PutOutcome::BaseIsGone) {
        return self.saved(series, id, Encoding::Delta, put);
      }
    }
    // A key of its own is not removed before the delta is stored.
    let put = self.write_on_new_key(&new, &row, row.next().as_ref())?;
    self.saved(series, id, Encoding::Delta, put)
  }

  /// Removes keys that an interruption left, and says how many bytes they had.
  pub fn remove_unused_keys(&self, series: &Series) -> Result<u64> {
    self.backend.maintain(Maintenance::DeleteUnusedBases(series))
  }

  /// What the next delta of a series stands on. The first time, that is what the newest one stands on that is there.
  fn next_known(&self, series: &Series, row: &Row) -> Option<Arc<CachedBase>> {
    if let Some(known) = row.next() {
      return Some(known);
    }
    let _making = locked_within(&row.making, self.options.settings.timeout)?;
    // Another call may have been faster.
    if let Some(known) = row.next() {
      return Some(known);
    }
    if self.deltas.is_first(series) {
      // A key that stays costs room, and nothing else.
      let _ = self.backend.maintain(Maintenance::DeleteUnusedBases(series));
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
    let known = CachedBase::new(reference.key, tip, None, false);
    *locked(&row.next) = Some(Arc::clone(&known));
    self.deltas.make_room();
    Some(known)
  }

  /// Stores a text as the difference from what is known.
  fn write_on(&self, new: &NewDelta<'_>, row: &Row, known: &Arc<CachedBase>) -> Result<PutOutcome> {
    let difference = delta::difference(new.text, &known.tip.text);
    let step = known.step(difference.len(), new.text.len(), self.options.max_read_bytes);
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
    let base = BaseRef {
      id: &known.key,
      known: known.tip.way.bytes,
      added: &[],
      fingerprint: known.seen(),
    };
    let put = self.put(new, &reference, base, &difference)?;
    match &put {
      PutOutcome::Stored { base: Some(stamp), .. } => known.see(*stamp),
      PutOutcome::BaseIsGone => row.forget(known),
      _ => {}
    }
    Ok(put)
  }

  /// The text becomes the tip of the key; the delta on it is no difference.
  fn move_tip(&self, new: &NewDelta<'_>, row: &Row, known: &Arc<CachedBase>, difference: &[u8]) -> Result<PutOutcome> {
    let tip = known.tip.next(new.text.to_vec(), difference);
    let reference = tip.reference(&known.key, true);
    // Should it fail, nobody knows what became of the key.
    row.forget(known);
    let base = BaseRef {
      id: &known.key,
      known: known.tip.way.bytes,
      added: difference,
      fingerprint: known.seen(),
    };
    let put = self.put(new, &reference, base, &[])?;
    if let PutOutcome::Stored { base: stamp, .. } = &put {
      *locked(&row.next) = Some(CachedBase::new(known.key.clone(), tip, *stamp, true));
      self.deltas.make_room();
    }
    Ok(put)
  }

  /// Makes a key of the text, unless somebody else made another one than `old` meanwhile.
  fn write_on_new_key(&self, new: &NewDelta<'_>, row: &Row, old: Option<&Arc<CachedBase>>) -> Result<PutOutcome> {
    // The call that holds it may wait for a process that was stopped. A whole checkpoint needs no key.
    let Some(_making) = locked_within(&row.making, self.options.settings.timeout) else {
      return Ok(PutOutcome::BaseNotLocked);
    };
    let now = row.next();
    if now.as_ref().map(Arc::as_ptr) != old.map(Arc::as_ptr) && now.is_some() {
      return Ok(PutOutcome::BaseIsGone);
    }
    let (tip, frame) = Tip::first(new.text.to_vec());
    let name = if fault_injection::is_enabled("key-reuse") {
      new.id.clone()
    } else {
      key_name()?
    };
    let reference = tip.reference(&name, true);
    let base = BaseRef {
      id: &name,
      known: 0,
      added: &frame,
      fingerprint: None,
    };
    let put = self.put(new, &reference, base, &[])?;
    if let PutOutcome::Stored { base: stamp, .. } = &put {
      *locked(&row.next) = Some(CachedBase::new(name, tip, *stamp, true));
      self.deltas.make_room();
    }
    Ok(put)
  }

  fn put(&self, new: &NewDelta<'_>, reference: &Reference, base: BaseRef<'_>, frame: &[u8]) -> Result<PutOutcome> {
    let content = delta::compose(reference, new.note, frame);
    let options = PutOptions {
      encoding: Encoding::Delta,
      base: Some(base),
      ..new.options.clone()
    };
    self.backend.put_checkpoint(new.series, new.id, &content, &options)
  }

  /// For who wants to know what is stored, and not what is in memory: what is at hand of a series is held against the key, and
  /// forgotten if that is not so any more.
  pub(super) fn doubt_keys(&self, series: &Series) {
    let Some(row) = self.deltas.at_hand(series) else {
      return;
    };
    *locked(&row.read) = None;
    if let Some(known) = row.next()
      && !matches!(
        self.read_key(series, &known.tip.reference(&known.key, false)),
        Ok(Some(_))
      )
    {
      row.forget(&known);
    }
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
      let known = CachedBase::new(reference.key.clone(), tip, None, false);
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
    let key = self.backend.name_of(&series.session, series.base(&reference.key));
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
    let (item, limit) = (series.base(&reference.key), self.options.max_read_bytes);
    let Some(bytes) = self.backend.read(&series.session, item, limit)? else {
      return Ok(None);
    };
    let path = self.backend.name_of(&series.session, item);
    if (bytes.len() as u64) < reference.bytes {
      return Err(Error::corrupt(&path, "it is shorter than it was"));
    }
    let tip = Tip::read(&bytes, reference.bytes, limit).map_err(|error| self.frame_error(&path, error))?;
    if tip.way.checksum != reference.checksum {
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

/// The name of a new key. No other key ever has it: a key that checkpoints need is never taken for a new one, and only the store
/// that made a key adds to it.
fn key_name() -> Result<CheckpointId> {
  CheckpointId::parse(&format!("key-{}", Uuid::new_v4().simple()))
}

/// A text on its way.
struct NewDelta<'a> {
  series: &'a Series,
  id: &'a CheckpointId,
  text: &'a [u8],
  /// What a list shows of it.
  note: &'a str,
  options: &'a PutOptions<'a>,
}

fn try_locked(mutex: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
  match mutex.try_lock() {
    Ok(guard) => Some(guard),
    Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
    Err(TryLockError::WouldBlock) => None,
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::codec::delta::Way;

  const NO_LIMIT: u64 = u64::MAX;

  fn id() -> CheckpointId {
    CheckpointId::parse("cp-1-000001").unwrap()
  }

  fn series(number: usize) -> Series {
    SessionId::parse(&format!("s{number}")).unwrap().into()
  }

  /// A tip of a text of that length, whose key and first text have so many bytes.
  fn tip(length: usize, (frame, text): (u64, u64)) -> Tip {
    Tip {
      text: vec![b'x'; length],
      way: Way {
        bytes: frame,
        checksum: 0,
        texts: 1,
        work: text,
        first: (frame, text),
      },
    }
  }

  fn known(is_ours: bool) -> Arc<CachedBase> {
    CachedBase::new(id(), tip(10, (1000, 4000)), None, is_ours)
  }

  #[test]
  fn small_differences_are_stored_until_moving_the_tip_is_worth_its_bytes() {
    let known = known(true);
    assert_eq!(known.step(100, 4000, NO_LIMIT), Step::Store);
    assert_eq!(known.step(100, 4000, NO_LIMIT), Step::MoveTip);
    // A difference that has grown counts for more than those before it.
    let known = self::known(true);
    let steps = [10, 20, 40, 80, 100].map(|size| known.step(size, 4000, NO_LIMIT));
    assert_eq!(
      steps,
      [Step::Store, Step::Store, Step::Store, Step::Store, Step::MoveTip]
    );
  }

  #[test]
  fn a_difference_that_is_half_as_large_as_the_whole_begins_a_new_key() {
    for is_ours in [true, false] {
      assert_eq!(known(is_ours).step(500, 4000, NO_LIMIT), Step::Store);
      assert_eq!(known(is_ours).step(501, 4000, NO_LIMIT), Step::NewKey);
      // The whole of a longer text is more.
      assert_eq!(known(is_ours).step(501, 8000, NO_LIMIT), Step::Store);
      assert_eq!(known(is_ours).step(1, 0, NO_LIMIT), Step::NewKey);
    }
  }

  #[test]
  fn a_key_that_somebody_else_made_is_left_when_its_differences_together_are_the_whole() {
    let known = known(false);
    for _ in 0..10 {
      assert_eq!(known.step(100, 4000, NO_LIMIT), Step::Store);
    }
    assert_eq!(known.step(100, 4000, NO_LIMIT), Step::NewKey);
  }

  #[test]
  fn a_key_becomes_no_longer_than_a_reader_will_follow_it() {
    let of = |change: fn(&mut Tip), limit| {
      let mut tip = tip(10, (1000, 4000));
      change(&mut tip);
      let known = CachedBase::new(id(), tip, None, true);
      known.step(100, 4000, limit);
      known.step(100, 4000, limit)
    };
    assert_eq!(of(|_| {}, NO_LIMIT), Step::MoveTip);
    assert_eq!(of(|tip| tip.way.texts = MAX_TEXTS - 1, NO_LIMIT), Step::MoveTip);
    assert_eq!(of(|tip| tip.way.texts = MAX_TEXTS, NO_LIMIT), Step::Store);
    assert_eq!(of(|tip| tip.way.work = most_work(4000) - 4000, NO_LIMIT), Step::MoveTip);
    assert_eq!(of(|tip| tip.way.work = most_work(4000) - 3999, NO_LIMIT), Step::Store);
    assert_eq!(of(|_| {}, 1100), Step::MoveTip);
    assert_eq!(of(|_| {}, 1099), Step::Store);
  }

  #[test]
  fn the_longest_look_at_a_key_is_the_one_that_counts() {
    let known = known(false);
    let look = |size, modified| FileStamp { size, modified };
    assert!(known.seen().is_none());
    for (seen, then) in [
      (look(10, 1), look(10, 1)),
      (look(20, 2), look(20, 2)),
      (look(10, 1), look(20, 2)),
      (look(20, 3), look(20, 3)),
    ] {
      known.see(seen);
      assert_eq!(known.seen().unwrap().stamp, then);
    }
  }

  #[test]
  fn only_what_is_next_is_forgotten() {
    let row = Row::default();
    let (one, other) = (known(true), known(true));
    *locked(&row.next) = Some(Arc::clone(&one));
    row.forget(&other);
    assert!(row.is_at(&one));
    row.forget(&one);
    assert!(row.next().is_none());
  }

  /// A cache with rows of texts of these lengths, the first of which was used longest ago; those that stay.
  fn kept(limit: u64, lengths: &[usize]) -> Vec<usize> {
    let deltas = Deltas::new(limit);
    for (number, length) in lengths.iter().enumerate() {
      let known = CachedBase::new(id(), tip(*length, (1, 1)), None, true);
      *locked(&deltas.row(&series(number)).next) = Some(known);
    }
    deltas.make_room();
    let rows = locked(&deltas.rows);
    (0..lengths.len())
      .filter(|number| rows.contains_key(&series(*number)))
      .collect()
  }

  #[test]
  fn what_was_not_used_for_longest_makes_room() {
    assert_eq!(kept(400, &[100, 100, 100, 100]), [0, 1, 2, 3]);
    assert_eq!(kept(400, &[100, 100, 100, 101]), [2, 3]);
    assert!(kept(0, &[]).is_empty());
    assert!(kept(0, &[1, 1]).is_empty());
    assert_eq!(kept(u64::MAX, &[1, 1]), [0, 1]);
  }

  #[test]
  fn what_takes_up_nearly_all_the_room_pushes_out_no_other() {
    assert_eq!(kept(400, &[100, 100, 401]), [0, 1]);
    assert_eq!(kept(400, &[401, 100, 100]), [1, 2]);
    assert_eq!(kept(400, &[100, 100, 400]), [0, 1]);
    assert_eq!(kept(400, &[400]), [0]);
  }

  #[test]
  fn a_row_that_is_used_again_stays_longer_and_what_was_read_counts_too() {
    let deltas = Deltas::new(400);
    for number in 0..4 {
      *locked(&deltas.row(&series(number)).next) = Some(CachedBase::new(id(), tip(100, (1, 1)), None, true));
    }
    let first = deltas.row(&series(0));
    *locked(&first.read) = Some(CachedBase::new(id(), tip(100, (1, 1)), None, false));
    assert_eq!(first.bytes(), 200);
    deltas.make_room();
    let rows = locked(&deltas.rows);
    assert!(rows.contains_key(&series(0)) && rows.contains_key(&series(3)));
    assert_eq!(rows.len(), 2);
  }

  #[test]
  fn rows_that_change_while_room_is_made_do_not_confuse_the_sum() {
    let deltas = Deltas::new(1000);
    let row = deltas.row(&series(0));
    thread::scope(|scope| {
      scope.spawn(|| {
        for length in (0..2000).cycle().take(20_000) {
          *locked(&row.next) = Some(CachedBase::new(id(), tip(length, (1, 1)), None, true));
        }
      });
      for number in 0..2000 {
        *locked(&deltas.row(&series(number % 50)).next) = Some(CachedBase::new(id(), tip(100, (1, 1)), None, true));
        deltas.make_room();
      }
    });
  }

  #[test]
  fn a_session_is_forgotten_with_all_its_rows() {
    let deltas = Deltas::new(1000);
    let agent = Series {
      agent: Some(crate::types::id::AgentId::parse("a").unwrap()),
      ..series(1)
    };
    for series in [&series(1), &agent, &series(2)] {
      deltas.row(series);
      assert!(deltas.is_first(series));
      assert!(!deltas.is_first(series));
    }
    deltas.forget(&series(1).session);
    assert_eq!(locked(&deltas.rows).len(), 1);
    assert!(deltas.is_first(&agent) && !deltas.is_first(&series(2)));
  }
}
