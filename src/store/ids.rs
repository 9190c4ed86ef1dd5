//! New checkpoint ids: strictly increasing within a process, so that order needs no file times.

use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use crate::backend::time_in_id;
use crate::clock::now_ms;
use crate::error::Result;
use crate::id::CheckpointId;

/// How many different tails of six base-36 digits there are.
const TAILS: u64 = 36u64.pow(6);

/// What a checkpoint gets at the moment of the call that makes it.
#[derive(Debug, Clone)]
pub struct Stamp {
  pub id: CheckpointId,
  pub timestamp: u64,
}

#[derive(Debug, Default)]
pub struct IdSource {
  /// The last id given out or seen, as (milliseconds, tail).
  last: Mutex<(u64, u64)>,
}

impl IdSource {
  pub fn stamp(&self) -> Result<Stamp> {
    let timestamp = now_ms();
    let (time, tail) = self.next(timestamp);
    let id = CheckpointId::parse(&format!("cp-{}-{:0>6}", base36(time), base36(tail)))?;
    Ok(Stamp { id, timestamp })
  }

  /// Makes all later ids greater than this one, even if the clock was set back.
  pub fn observe(&self, id: &CheckpointId) {
    let Some(time) = time_in_id(id.as_str()) else {
      return;
    };
    let tail = id
      .as_str()
      .rsplit('-')
      .next()
      .and_then(|tail| u64::from_str_radix(tail, 36).ok());
    let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
    *last = (*last).max((time, tail.unwrap_or(0)));
  }

  fn next(&self, now: u64) -> (u64, u64) {
    // Half of the range is left for others of the same millisecond.
    let random = Uuid::new_v4().as_u64_pair().1;
    let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
    let (time, tail) = *last;
    *last = if now > time {
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

  fn order(id: &CheckpointId) -> (Option<u64>, String) {
    (time_in_id(id.as_str()), id.as_str().to_owned())
  }

  #[test]
  fn ids_have_the_form_of_the_contract_and_only_grow() {
    let ids = IdSource::default();
    let made: Vec<_> = (0..20_000).map(|_| ids.stamp().unwrap()).collect();
    assert!(
      made.iter().all(|stamp| time_in_id(stamp.id.as_str()).is_some()),
      "{:?}",
      made[0]
    );
    assert!(made.windows(2).all(|pair| order(&pair[0].id) < order(&pair[1].id)));
  }

  #[test]
  fn a_clock_that_was_set_back_does_not_make_older_ids() {
    let ids = IdSource::default();
    let future = CheckpointId::parse("cp-zzzzzzzz-zzzzzz").unwrap();
    ids.observe(&future);
    let next = ids.stamp().unwrap();
    assert!(order(&next.id) > order(&future), "{next:?}");
    assert!(next.timestamp < time_in_id(future.as_str()).unwrap());
    ids.observe(&CheckpointId::parse("foreign").unwrap());
    assert!(order(&ids.stamp().unwrap().id) > order(&next.id));
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
