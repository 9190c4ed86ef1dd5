//! New checkpoint ids. They order the checkpoints of a series, so no file times are needed.
//!
//! A call takes its id on the caller's thread, so that concurrent calls of one store keep the order in which they were made.
//! Whether that id really is the newest is decided where the checkpoint is stored: another store may have a clock that is
//! ahead of ours. If it is not, [`Ticket::move_beyond`] gives new ids to all calls of the series that are under way, in order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::backend::{CheckpointEntry, Series, time_in_id};
use crate::types::error::Result;
use crate::types::id::CheckpointId;
use crate::types::time::now_ms;

/// How many different tails of six base-36 digits there are.
const TAILS: u64 = 36u64.pow(6);

/// The two numbers of an id: milliseconds, then the tail. Ids are ordered as these are.
type Order = (u64, u64);

/// The id and the time of a checkpoint that starts a new series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
  order: Order,
  pub timestamp: u64,
}

impl Stamp {
  pub fn id(self) -> Result<CheckpointId> {
    id_of(self.order)
  }
}

/// The id and the time of a checkpoint that is being created in a series, for as long as the call is under way.
#[derive(Debug)]
pub struct Ticket {
  ids: Arc<IdSource>,
  series: Series,
  /// Counts the calls of a store: the order in which they were made.
  serial: u64,
  /// The caller's clock, whatever the id says.
  pub timestamp: u64,
}

impl Ticket {
  #[must_use]
  pub fn series(&self) -> &Series {
    &self.series
  }

  pub fn id(&self) -> Result<CheckpointId> {
    id_of(self.ids.lock().order_of(self))
  }

  /// The ids that this store gave to later calls of the series: checkpoints that may be newer than this one.
  pub fn later_ids(&self) -> Result<Vec<CheckpointId>> {
    let state = self.ids.lock();
    let own = state.order_of(self);
    let issued = state.series.get(&self.series).map(|calls| &calls.issued);
    issued
      .into_iter()
      .flat_map(|issued| issued.range(own..).filter(|order| **order > own))
      .map(|order| id_of(*order))
      .collect()
  }

  /// `newest` is in the way of this call. If another store has made it, all calls of the series that are under way and would
  /// be older move beyond it, in the order in which they were made. A call that loses this race repeatedly (`attempt`
  /// counts) leaves a gap that other writers need some time to close.
  pub fn move_beyond(&self, newest: &CheckpointEntry, attempt: u32) {
    const ATTEMPTS_WITHOUT_GAP: u32 = 3;
    // A name of another form is ordered by its time alone: a tail of ours may be smaller than it.
    let newest = order_of(&newest.id).unwrap_or((newest.made_at, TAILS - 1));
    let gap_ms = match attempt.checked_sub(ATTEMPTS_WITHOUT_GAP) {
      None => 0,
      Some(more) => 1 << more.min(10),
    };
    let mut state = self.ids.lock();
    let Some(calls) = state.series.get_mut(&self.series) else {
      return;
    };
    // Another store has chosen the same id, and was first.
    let is_own = calls.under_way.get(&self.serial) == Some(&newest);
    // It belongs to a call of this store that was made after `later_ids` was asked for: that one may be newer.
    if !is_own && calls.issued.contains(&newest) {
      return;
    }
    calls.issued.remove(&newest);
    let mut last = far_successor((newest.0.saturating_add(gap_ms), newest.1));
    for order in calls.under_way.values_mut().filter(|order| **order <= newest) {
      *order = last;
      calls.issued.insert(last);
      last = successor(last);
    }
    calls.ahead = calls.ahead.max(last);
  }
}

impl Drop for Ticket {
  fn drop(&mut self) {
    let mut state = self.ids.lock();
    let clock = state.last;
    if let Some(calls) = state.series.get_mut(&self.series) {
      calls.under_way.remove(&self.serial);
      let oldest = calls.under_way.values().min().copied();
      match oldest {
        Some(oldest) => calls.issued = calls.issued.split_off(&oldest),
        None if calls.ahead <= clock => drop(state.series.remove(&self.series)),
        None => calls.issued.clear(),
      }
    }
  }
}

/// What a store knows of one series.
#[derive(Debug, Default)]
struct Calls {
  /// Every id is greater than this one.
  ahead: Order,
  /// The calls under way by their serial numbers.
  under_way: BTreeMap<u64, Order>,
  /// The ids given to calls since the oldest one that is under way.
  issued: BTreeSet<Order>,
}

#[derive(Debug, Default)]
struct State {
  /// The last id that follows the clock, of whichever series.
  last: Order,
  serial: u64,
  series: HashMap<Series, Calls>,
}

impl State {
  fn order_of(&self, ticket: &Ticket) -> Order {
    let calls = self.series.get(&ticket.series);
    calls
      .and_then(|calls| calls.under_way.get(&ticket.serial))
      .copied()
      .unwrap_or_default()
  }

  /// An id that no other call of this store has.
  fn next(&mut self, now: u64) -> Order {
    self.last = if now > self.last.0 {
      // Half of the range is left for others of the same millisecond.
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
  /// For the first checkpoint of a new session.
  pub fn stamp(&self) -> Stamp {
    let timestamp = now_ms();
    Stamp {
      order: self.lock().next(timestamp),
      timestamp,
    }
  }

  /// For a checkpoint that is added to a series.
  pub fn ticket(self: &Arc<Self>, series: Series) -> Ticket {
    let timestamp = now_ms();
    let mut state = self.lock();
    let mut order = state.next(timestamp);
    state.serial += 1;
    let serial = state.serial;
    let calls = state.series.entry(series.clone()).or_default();
    if order <= calls.ahead {
      order = successor(calls.ahead);
    }
    calls.ahead = order;
    calls.under_way.insert(serial, order);
    calls.issued.insert(order);
    drop(state);
    Ticket {
      ids: Arc::clone(self),
      series,
      serial,
      timestamp,
    }
  }

  fn lock(&self) -> MutexGuard<'_, State> {
    // Every change is a single step: there is nothing half done to find.
    self.state.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

/// An id a little greater. The random step keeps the ids of two processes in one millisecond apart.
fn successor(order: Order) -> Order {
  step(order, 1000)
}

/// The same for processes that all begin at one id: their steps are so long that two of them hardly ever meet.
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

/// Milliseconds and tail of an id in the form of ours, or of the original's.
fn order_of(id: &CheckpointId) -> Option<Order> {
  let time = time_in_id(id.as_str())?;
  let tail = id.as_str().rsplit('-').next();
  let tail = tail.and_then(|tail| u64::from_str_radix(tail, 36).ok());
  Some((time, tail.unwrap_or(0)))
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
    CheckpointEntry::new(CheckpointId::parse(id).unwrap(), Encoding::Json, || made_at)
  }

  /// A millisecond that the clock reaches in the year 2059.
  const FUTURE: &str = "cp-zzzzzzzz-zzzzzz";

  #[test]
  fn ids_have_the_form_of_the_contract_and_increase() {
    let ids = IdSource::default();
    let made: Vec<_> = (0..20_000)
      .map(|_| order_of(&ids.stamp().id().unwrap()).unwrap())
      .collect();
    assert!(made.is_sorted_by(|one, next| one < next));
  }

  #[test]
  fn calls_under_way_move_beyond_a_newer_checkpoint_in_the_order_in_which_they_were_made() {
    let ids = Arc::new(IdSource::default());
    let under_way: Vec<_> = (0..5).map(|_| ids.ticket(series())).collect();
    let newest = entry(FUTURE, 0);
    under_way[3].move_beyond(&newest, 0);
    let later = ids.ticket(series());
    let all: Vec<_> = under_way.iter().chain([&later]).map(order).collect();
    assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
    let newest = order_of(&newest.id).unwrap();
    assert!(all[0] > newest);
    assert!(all[5].0 - newest.0 <= 2, "the ids stay close to the newest: {all:?}");
    assert!(later.timestamp < newest.0, "the time that it tells is the clock's");
  }

  #[test]
  fn other_series_keep_following_the_clock() {
    let ids = Arc::new(IdSource::default());
    let ticket = ids.ticket(series());
    ticket.move_beyond(&entry(FUTURE, 0), 0);
    let other = ids.ticket(SessionId::parse("other").unwrap().into());
    assert!(order(&other).0 <= now_ms());
    drop(ticket);
    assert!(order(&ids.ticket(series())).0 > now_ms(), "the series is still ahead");
  }

  #[test]
  fn names_of_another_form_are_passed_by_their_time() {
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
  fn later_ids_are_those_of_later_calls_for_as_long_as_an_earlier_one_is_under_way() {
    let ids = Arc::new(IdSource::default());
    let first = ids.ticket(series());
    let second = ids.ticket(series());
    let second_id = second.id().unwrap();
    assert_eq!(first.later_ids().unwrap(), std::slice::from_ref(&second_id));
    assert!(second.later_ids().unwrap().is_empty());
    drop(second);
    assert_eq!(first.later_ids().unwrap(), [second_id], "it may be stored by now");
    drop(first);
    assert!(ids.ticket(series()).later_ids().unwrap().is_empty());
  }

  #[test]
  fn a_later_call_of_the_same_store_moves_no_earlier_one() {
    let ids = Arc::new(IdSource::default());
    let first = ids.ticket(series());
    let before = order(&first);
    let second = ids.ticket(series()).id().unwrap();
    first.move_beyond(&entry(second.as_str(), 0), 0);
    assert_eq!(order(&first), before);
    assert_eq!(first.later_ids().unwrap(), [second], "the next attempt knows it");
  }

  #[test]
  fn a_call_moves_on_if_another_store_has_its_id() {
    let ids = Arc::new(IdSource::default());
    let (first, second) = (ids.ticket(series()), ids.ticket(series()));
    let (taken, later) = (second.id().unwrap(), order(&second));
    second.move_beyond(&entry(taken.as_str(), 0), 0);
    assert!(order(&second) > later);
    assert_eq!(
      first.later_ids().unwrap(),
      [second.id().unwrap()],
      "the other one is foreign"
    );
  }

  #[test]
  fn nothing_is_kept_of_series_without_calls() {
    let ids = Arc::new(IdSource::default());
    for number in 0..100 {
      drop(ids.ticket(SessionId::parse(&format!("s{number}")).unwrap().into()));
    }
    assert!(ids.lock().series.is_empty());
  }

  #[test]
  fn numbers_are_spelt_as_in_javascript() {
    assert_eq!(
      (base36(0), base36(35), base36(36)),
      ("0".into(), "z".into(), "10".into())
    );
    assert_eq!(base36(1_794_794_464_745), "mwima86h");
  }
}
