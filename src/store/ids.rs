//! New checkpoint ids: strictly increasing within a process, so that order needs no file times.

use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::backend::{CheckpointEntry, time_in_id};
use crate::clock::now_ms;
use crate::error::Result;
use crate::id::CheckpointId;

/// How many different tails of six base-36 digits there are.
const TAILS: u64 = 36u64.pow(6);

/// What a checkpoint gets at the moment of the call that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
  /// The milliseconds in its id.
  time: u64,
  tail: u64,
  pub timestamp: u64,
}

impl Stamp {
  fn order(self) -> (u64, u64) {
    (self.time, self.tail)
  }

  pub fn id(self) -> Result<CheckpointId> {
    CheckpointId::parse(&format!("cp-{}-{:0>6}", base36(self.time), base36(self.tail)))
  }
}

/// Stamps of calls that were under way when a session turned out to hold an id that is not older: all of them move ahead by
/// the same step, and so keep their order.
#[derive(Debug, Clone, Copy)]
pub struct Shift {
  /// The last stamp that was given out before.
  last: (u64, u64),
  step: u64,
}

impl Shift {
  pub fn apply(self, stamp: Stamp) -> Stamp {
    if stamp.order() > self.last {
      return stamp;
    }
    Stamp {
      time: stamp.time.saturating_add(self.step),
      ..stamp
    }
  }
}

/// An id that is less than this ahead of the clock was made by somebody else at this moment; one that is more, before a clock
/// was set back.
const MOMENT_MS: u64 = 1000;

/// When a clock was set back, calls that have been waiting for longer than this are not reckoned with.
const SLACK_MS: u64 = 60 * 60 * 1000;

#[derive(Debug, Default)]
pub struct IdSource {
  /// The last id given out or seen, as (milliseconds, tail).
  last: Mutex<(u64, u64)>,
}

impl IdSource {
  pub fn stamp(&self) -> Stamp {
    let timestamp = now_ms();
    let (time, tail) = self.next(timestamp);
    Stamp { time, tail, timestamp }
  }

  /// Makes all later ids greater than one that was seen.
  pub fn observe(&self, id: &CheckpointId) {
    if let Some(seen) = order_of(id) {
      self.raise(seen);
    }
  }

  /// A stamp that comes after a checkpoint, at the same time: this one, or one that is made now.
  pub fn beyond(&self, before: &CheckpointEntry, stamp: Stamp) -> Stamp {
    // Of those of one moment, a foreign one may be greater than all of ours.
    let order = order_of(&before.id).unwrap_or((before.made_at, TAILS - 1));
    if stamp.order() > order {
      return stamp;
    }
    self.raise(order);
    Stamp {
      timestamp: stamp.timestamp,
      ..self.stamp()
    }
  }

  /// What the newest id of a session means for the stamps that were given out before it was seen, of which this is one:
  /// nothing, unless somebody else made it at the same moment, or the clock was set back since, here or where it was made.
  pub fn shift_beyond(&self, newest: &CheckpointId, stamp: Stamp) -> Option<Shift> {
    let newest = order_of(newest)?;
    let now = now_ms();
    let step = if newest.0 > now.saturating_add(MOMENT_MS) {
      (newest.0 - now).saturating_add(SLACK_MS + 1)
    } else if newest >= stamp.order() && newest.0 - stamp.time <= MOMENT_MS {
      newest.0 - stamp.time + 1
    } else {
      return None;
    };
    let mut last = locked(&self.last);
    let shift = Shift { last: *last, step };
    // Stamps to come must not fall among those that are moved.
    *last = (last.0.saturating_add(step), TAILS - 1);
    Some(shift)
  }

  fn raise(&self, seen: (u64, u64)) {
    let mut last = locked(&self.last);
    *last = (*last).max(seen);
  }

  fn next(&self, now: u64) -> (u64, u64) {
    let random = Uuid::new_v4().as_u64_pair().1;
    let mut last = locked(&self.last);
    let (time, tail) = *last;
    *last = if now > time {
      // Half of the range is left for others of the same millisecond.
      (now, random % (TAILS / 2))
    } else {
      // A random step keeps the ids of two processes in one millisecond apart.
      match tail + 1 + random % 1000 {
        next if next < TAILS => (time, next),
        _ => (time.saturating_add(1), random % (TAILS / 2)),
      }
    };
    *last
  }
}

/// Milliseconds and tail of an id in the form of ours, or of the original's.
fn order_of(id: &CheckpointId) -> Option<(u64, u64)> {
  let time = time_in_id(id.as_str())?;
  let tail = id.as_str().rsplit('-').next();
  let tail = tail.and_then(|tail| u64::from_str_radix(tail, 36).ok());
  Some((time, tail.unwrap_or(0)))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
  mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

  fn order(stamp: Stamp) -> (u64, String) {
    let id = stamp.id().unwrap();
    (time_in_id(id.as_str()).unwrap(), id.to_string())
  }

  #[test]
  fn ids_have_the_form_of_the_contract_and_only_grow() {
    let ids = IdSource::default();
    let made: Vec<_> = (0..20_000).map(|_| ids.stamp()).collect();
    assert!(made.windows(2).all(|pair| order(pair[0]) < order(pair[1])));
  }

  #[test]
  fn a_clock_that_was_set_back_makes_neither_older_ids_nor_another_order() {
    let ids = IdSource::default();
    let under_way: Vec<_> = (0..5).map(|_| ids.stamp()).collect();
    let future = CheckpointId::parse("cp-zzzzzzzz-zzzzzz").unwrap();
    let shift = ids.shift_beyond(&future, under_way[0]).unwrap();
    let later = ids.stamp();
    let all: Vec<_> = under_way
      .into_iter()
      .chain([later])
      .map(|stamp| order(shift.apply(stamp)))
      .collect();
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    assert!(all[0].0 > time_in_id(future.as_str()).unwrap());
    assert!(
      later.timestamp < time_in_id(future.as_str()).unwrap(),
      "the time that it tells is the clock's"
    );
  }

  #[test]
  fn ids_of_the_past_and_foreign_ones_move_nothing() {
    let ids = IdSource::default();
    let before = ids.stamp().id().unwrap();
    let stamp = ids.stamp();
    for id in ["cp-1-000000", "foreign", before.as_str()] {
      let shift = ids.shift_beyond(&CheckpointId::parse(id).unwrap(), stamp);
      assert!(shift.is_none(), "{id}");
    }
  }

  #[test]
  fn what_somebody_else_made_in_the_same_millisecond_comes_before() {
    for _ in 0..2000 {
      let (one, other) = (IdSource::default(), IdSource::default());
      let newest = one.stamp();
      let under_way = [other.stamp(), other.stamp()];
      let shift = other.shift_beyond(&newest.id().unwrap(), under_way[0]);
      let later = other.stamp();
      let moved = under_way.map(|stamp| shift.map_or(stamp, |shift| shift.apply(stamp)));
      let all = [newest, moved[0], moved[1], later].map(order);
      assert!(all.is_sorted_by(|before, after| before < after), "{all:?}");
      assert!(all[3].0 - all[0].0 < 100, "it is a small step: {all:?}");
    }
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
