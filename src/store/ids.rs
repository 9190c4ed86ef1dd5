//! New checkpoint ids. They order the checkpoints of a series, so no file times are needed.
//!
//! A call takes its id on the caller's thread, so that concurrent calls of one store keep their order. The step that stores the
//! checkpoint decides whether the id is the newest: the clock of another store may be ahead. If it is not, [`Ticket::move_beyond`]
//! gives new ids to all active calls of the series, in their order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::backend::{CheckpointEntry, Series, time_in_id};
use crate::types::error::Result;
use crate::types::id::CheckpointId;
use crate::types::time::Timestamp;

/// The number of tails of six base-36 digits.
const TAILS: u64 = 36u64.pow(6);

/// The two numbers of an id, which order it: milliseconds, then the tail.
type Order = (u64, u64);

/// The id and the time of a checkpoint that starts a new series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
  order: Order,
  pub timestamp: Timestamp,
}

impl Stamp {
  pub fn id(self) -> Result<CheckpointId> {
    id_of(self.order)
  }
}

/// The id and the time of a checkpoint that is being created in a series, held until the call ends.
#[derive(Debug)]
pub struct Ticket {
  ids: Arc<IdSource>,
  series: Series,
  /// The position of the call among those of the store.
  serial: u64,
  /// The time of the caller's clock. That of the id may be later.
  pub timestamp: Timestamp,
}

impl Ticket {
  #[must_use]
  pub fn series(&self) -> &Series {
    &self.series
  }

  pub fn id(&self) -> Result<CheckpointId> {
    id_of(self.ids.state.lock().order_of(self))
  }

  /// The ids that this store gave to later calls of the series: checkpoints that may be newer than this one.
  pub fn later_ids(&self) -> Result<Vec<CheckpointId>> {
    let state = self.ids.state.lock();
    let own = state.order_of(self);
    let issued = state.series.get(&self.series).map(|calls| &calls.issued);
    issued
      .into_iter()
      .flat_map(|issued| issued.range(own..).filter(|order| **order > own))
      .map(|order| id_of(*order))
      .collect()
  }

  /// Gives this call an id after `newest`, the checkpoint that prevented its write. If another store made that one, all active calls
  /// of the series with older ids move beyond it, in their order. A call that loses this race repeatedly leaves a gap, so that
  /// other writers need some time to reach it; `attempt` counts.
  pub fn move_beyond(&self, newest: &CheckpointEntry, attempt: u32) {
    const ATTEMPTS_WITHOUT_GAP: u32 = 3;
    // An id in another form is ordered by its time alone, so no tail of the same time is certainly newer.
    let newest = order_of(&newest.id).unwrap_or((newest.made_at.as_millis(), TAILS - 1));
    let gap_ms = match attempt.checked_sub(ATTEMPTS_WITHOUT_GAP) {
      None => 0,
      Some(more) => 1 << more.min(10),
    };
    let mut state = self.ids.state.lock();
    let Some(calls) = state.series.get_mut(&self.series) else {
      return;
    };
    // Another store chose the same id and was faster.
    let is_same_id = calls.active.get(&self.serial) == Some(&newest);
    // It belongs to a later call of this store, made after the call of `later_ids`: such a checkpoint may be newer.
    if !is_same_id && calls.issued.contains(&newest) {
      return;
    }
    calls.issued.remove(&newest);
    let mut last = far_successor((newest.0.saturating_add(gap_ms), newest.1));
    for order in calls.active.values_mut().filter(|order| **order <= newest) {
      *order = last;
      calls.issued.insert(last);
      last = successor(last);
    }
    calls.ahead = calls.ahead.max(last);
  }
}

impl Drop for Ticket {
  fn drop(&mut self) {
    let mut state = self.ids.state.lock();
    let clock = state.last;
    if let Some(calls) = state.series.get_mut(&self.series) {
      calls.active.remove(&self.serial);
      let oldest = calls.active.values().min().copied();
      match oldest {
        Some(oldest) => calls.issued = calls.issued.split_off(&oldest),
        None if calls.ahead <= clock => drop(state.series.remove(&self.series)),
        None => calls.issued.clear(),
      }
    }
  }
}

/// The ids of a store in one series. Losing an entry could repeat an id, so these are not cached but held while a call is active,
/// or while the ids are ahead of the clock.
#[derive(Debug, Default)]
struct Calls {
  /// The next id must be greater than this one.
  ahead: Order,
  /// The calls that have not ended, by their serial numbers.
  active: BTreeMap<u64, Order>,
  /// The ids of all calls since the oldest active one.
  issued: BTreeSet<Order>,
}

#[derive(Debug, Default)]
struct State {
  /// The last id that follows the clock, in any series.
  last: Order,
  serial: u64,
  series: HashMap<Series, Calls>,
}

impl State {
  fn order_of(&self, ticket: &Ticket) -> Order {
    let calls = self.series.get(&ticket.series);
    calls
      .and_then(|calls| calls.active.get(&ticket.serial))
      .copied()
      .unwrap_or_default()
  }

  /// An id that no other call of this store has.
  fn next(&mut self, now: u64) -> Order {
    self.last = if now > self.last.0 {
      // The other half of the range remains for more ids of the same millisecond.
      (now, random() % (TAILS / 2))
    } else {
      successor(self.last)
    };
    self.last
  }
}

#[derive(Debug, Default)]
pub struct IdSource {
  state: Mutex<State>,
}

impl IdSource {
  /// The id and the time of the first checkpoint of a new session.
  pub fn stamp(&self) -> Stamp {
    let timestamp = Timestamp::now();
    Stamp {
      order: self.state.lock().next(timestamp.as_millis()),
      timestamp,
    }
  }

  /// The id and the time of a checkpoint that is added to a series.
  pub fn ticket(self: &Arc<Self>, series: Series) -> Ticket {
    let timestamp = Timestamp::now();
    let mut state = self.state.lock();
    let mut order = state.next(timestamp.as_millis());
    state.serial += 1;
    let serial = state.serial;
    let calls = state.series.entry(series.clone()).or_default();
    if order <= calls.ahead {
      order = successor(calls.ahead);
    }
    calls.ahead = order;
    calls.active.insert(serial, order);
    calls.issued.insert(order);
    drop(state);
    Ticket {
      ids: Arc::clone(self),
      series,
      serial,
      timestamp,
    }
  }
}

/// A slightly greater id. The random step keeps the ids of two processes in one millisecond apart.
fn successor(order: Order) -> Order {
  step(order, 1000)
}

/// A greater id, for processes that all start from the same one: their steps are so long that two rarely collide.
fn far_successor(order: Order) -> Order {
  step(order, TAILS / 1000)
}

fn step((time, tail): Order, longest: u64) -> Order {
  let random = random();
  match tail + 1 + random % longest {
    next if next < TAILS => (time, next),
    _ => (time.saturating_add(1), random % (TAILS / 2)),
  }
}

fn random() -> u64 {
  Uuid::new_v4().as_u64_pair().1
}

fn id_of((time, tail): Order) -> Result<CheckpointId> {
  CheckpointId::parse(&format!("cp-{}-{:0>6}", base36(time), base36(tail)))
}

/// The milliseconds and the tail of an id in the form of this store or of the original one.
fn order_of(id: &CheckpointId) -> Option<Order> {
  let time = time_in_id(id.as_str())?;
  let tail = id.as_str().rsplit('-').next();
  let tail = tail.and_then(|tail| u64::from_str_radix(tail, 36).ok());
  Some((time.as_millis(), tail.unwrap_or(0)))
}

fn base36(mut number: u64) -> String {
  let mut digits = Vec::new();
  loop {
    digits.push(char::from_digit(u32::try_from(number % 36).unwrap_or(0), 36).unwrap_or('0'));
    number /= 36;
    if number == 0 {
      return digits.iter().rev().collect();
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::backend::Encoding;
  use crate::types::id::SessionId;

  fn series() -> Series {
    SessionId::parse("s").unwrap().into()
  }

  fn order(ticket: &Ticket) -> Order {
    order_of(&ticket.id().unwrap()).unwrap()
  }

  fn entry(id: &str, made_at: u64) -> CheckpointEntry {
    CheckpointEntry::new(CheckpointId::parse(id).unwrap(), Encoding::Json, || {
      Timestamp::from_millis(made_at)
    })
  }

  /// A millisecond that the clock reaches in the year 2059.
  const FUTURE: &str = "cp-zzzzzzzz-zzzzzz";

  #[test]
  fn ids_increase() {
    let ids = IdSource::default();
    let made: Vec<_> = (0..20_000)
      .map(|_| order_of(&ids.stamp().id().unwrap()).unwrap())
      .collect();
    assert!(made.is_sorted_by(|one, next| one < next));
  }

  #[test]
  fn active_calls_move_beyond_a_newer_checkpoint_in_their_order() {
    let ids = Arc::new(IdSource::default());
    let active: Vec<_> = (0..5).map(|_| ids.ticket(series())).collect();
    let newest = entry(FUTURE, 0);
    active[3].move_beyond(&newest, 0);
    let later = ids.ticket(series());
    let all: Vec<_> = active.iter().chain([&later]).map(order).collect();
    assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
    let newest = order_of(&newest.id).unwrap();
    assert!(all[0] > newest);
    assert!(all[5].0 - newest.0 <= 2, "the ids stay close to the newest: {all:?}");
    assert!(
      later.timestamp.as_millis() < newest.0,
      "the timestamp is that of the clock"
    );
  }

  #[test]
  fn ids_of_other_series_keep_following_the_clock() {
    let ids = Arc::new(IdSource::default());
    let ticket = ids.ticket(series());
    ticket.move_beyond(&entry(FUTURE, 0), 0);
    let other = ids.ticket(SessionId::parse("other").unwrap().into());
    assert!(order(&other).0 <= Timestamp::now().as_millis());
    drop(ticket);
    assert!(
      order(&ids.ticket(series())).0 > Timestamp::now().as_millis(),
      "the series is still ahead"
    );
  }

  #[test]
  fn ids_in_another_form_are_ordered_by_their_time() {
    let ids = Arc::new(IdSource::default());
    let ticket = ids.ticket(series());
    let now = order(&ticket).0;
    ticket.move_beyond(&entry("backup", now + 5), 0);
    assert!(order(&ticket).0 > now + 5);
  }

  #[test]
  fn a_call_that_loses_the_race_repeatedly_leaves_a_gap() {
    let ids = Arc::new(IdSource::default());
    let ticket = ids.ticket(series());
    let mut newest = order(&ticket);
    let mut gaps = Vec::new();
    for attempt in 0..6 {
      newest = successor(newest);
      ticket.move_beyond(&entry(id_of(newest).unwrap().as_str(), 0), attempt);
      gaps.push(order(&ticket).0 - newest.0);
      newest = order(&ticket);
    }
    assert!(gaps[0] <= 1 && gaps[5] >= 4, "{gaps:?}");
  }

  #[test]
  fn the_gap_doubles_with_each_further_attempt_up_to_a_second() {
    let ids = Arc::new(IdSource::default());
    let ticket = ids.ticket(series());
    for (attempt, expected) in [(3, 1), (4, 2), (5, 4), (8, 32), (13, 1024), (14, 1024), (99, 1024)] {
      let newest = successor(order(&ticket));
      ticket.move_beyond(&entry(id_of(newest).unwrap().as_str(), 0), attempt);
      let gap = order(&ticket).0 - newest.0;
      // A tail that overflows adds a millisecond.
      assert!((expected..=expected + 1).contains(&gap), "attempt {attempt}: {gap}");
    }
  }

  #[test]
  fn processes_that_move_beyond_the_same_checkpoint_take_long_steps() {
    let newest = entry("cp-zzzzzzzz-000000", 0);
    let tails = (0..100).map(|_| {
      let ticket = Arc::new(IdSource::default()).ticket(series());
      ticket.move_beyond(&newest, 0);
      order(&ticket).1
    });
    // Random steps of up to TAILS / 1000. All of a hundred are below a hundredth of that once in 10^200 runs.
    assert!(tails.max().unwrap() > TAILS / 100_000);
  }

  #[test]
  fn later_ids_are_those_of_later_calls_while_an_earlier_one_is_active() {
    let ids = Arc::new(IdSource::default());
    let first = ids.ticket(series());
    let second = ids.ticket(series());
    let second_id = second.id().unwrap();
    assert_eq!(first.later_ids().unwrap(), std::slice::from_ref(&second_id));
    assert!(second.later_ids().unwrap().is_empty());
    drop(second);
    assert_eq!(first.later_ids().unwrap(), [second_id], "it may be stored already");
    drop(first);
    assert!(ids.ticket(series()).later_ids().unwrap().is_empty());
  }

  #[test]
  fn a_later_call_of_the_same_store_does_not_move_an_earlier_one() {
    let ids = Arc::new(IdSource::default());
    let first = ids.ticket(series());
    let before = order(&first);
    let second = ids.ticket(series()).id().unwrap();
    first.move_beyond(&entry(second.as_str(), 0), 0);
    assert_eq!(order(&first), before);
    assert_eq!(first.later_ids().unwrap(), [second], "the next attempt accepts it");
  }

  #[test]
  fn a_call_gets_a_new_id_if_another_store_has_taken_its_own() {
    let ids = Arc::new(IdSource::default());
    let (first, second) = (ids.ticket(series()), ids.ticket(series()));
    let (taken, later) = (second.id().unwrap(), order(&second));
    second.move_beyond(&entry(taken.as_str(), 0), 0);
    assert!(order(&second) > later);
    assert_eq!(
      first.later_ids().unwrap(),
      [second.id().unwrap()],
      "the taken id belongs to another store"
    );
  }

  #[test]
  fn no_state_remains_of_a_series_without_active_calls() {
    let ids = Arc::new(IdSource::default());
    for number in 0..100 {
      drop(ids.ticket(SessionId::parse(&format!("s{number}")).unwrap().into()));
    }
    assert!(ids.state.lock().series.is_empty());
  }

  #[test]
  fn base36_equals_to_string_36_of_javascript() {
    assert_eq!(
      (base36(0), base36(35), base36(36)),
      ("0".into(), "z".into(), "10".into())
    );
    assert_eq!(base36(1_794_794_464_745), "mwima86h");
  }
}
