//! The fencing tokens of a store.

use std::collections::HashMap;
use std::mem;

use parking_lot::Mutex;

use crate::types::error::{Error, LostLease};
use crate::types::id::SessionId;
use crate::types::time::now_us;

/// The fencing tokens with which a store writes, and the lost leases that it has not reported yet.
#[derive(Debug, Default)]
pub struct Fences {
  numbers: Mutex<HashMap<SessionId, u64>>,
  /// Lost leases that were not reported yet, with the messages of their errors.
  lost: Mutex<Vec<(LostLease, String)>>,
}

impl Fences {
  /// Records the lost lease of a failed write. Errors of writes without a lease are not recorded.
  pub fn observe(&self, error: &Error) {
    let Some(lost) = error
      .lost
      .as_deref()
      .filter(|lost| self.of(&lost.session) == Some(lost.number))
    else {
      return;
    };
    let mut unreported = self.lost.lock();
    if !unreported.iter().any(|(known, _)| known == lost) {
      unreported.push((lost.clone(), error.message.clone()));
    }
  }

  /// The leases whose loss was noticed since the last call.
  pub fn take_lost(&self) -> Vec<(LostLease, String)> {
    mem::take(&mut *self.lost.lock())
  }

  /// The token with which this store writes to a session.
  #[must_use]
  pub fn of(&self, session: &SessionId) -> Option<u64> {
    self.numbers.lock().get(session).copied()
  }

  /// Keeps the greater token: the results of concurrent calls may arrive out of order.
  pub fn set(&self, session: &SessionId, number: u64) {
    let mut fences = self.numbers.lock();
    let fence = fences.entry(session.clone()).or_default();
    *fence = number.max(*fence);
  }

  /// The least fencing token for a lease that is acquired now: the microseconds of the clock, but more than this store ever used.
  #[must_use]
  pub fn fresh(&self, session: &SessionId) -> u64 {
    let next = self.of(session).map_or(0, |last| last.saturating_add(1));
    now_us().max(next)
  }

  /// Removes that token. A later one is kept.
  pub fn remove(&self, session: &SessionId, number: u64) {
    let mut fences = self.numbers.lock();
    if fences.get(session) == Some(&number) {
      fences.remove(session);
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::backend::conflict_error;
  use crate::types::error::Code;

  fn session() -> SessionId {
    SessionId::parse("s").unwrap()
  }

  #[test]
  fn fences_keep_the_greatest_token_and_remove_only_the_released_one() {
    let fences = Fences::default();
    fences.set(&session(), 2);
    fences.set(&session(), 1);
    fences.remove(&session(), 1);
    assert_eq!(fences.of(&session()), Some(2));
    fences.remove(&session(), 2);
    assert_eq!(fences.of(&session()), None);
    let ahead = fences.fresh(&session()) + 1_000_000_000;
    fences.set(&session(), ahead);
    assert_eq!(fences.fresh(&session()), ahead + 1, "the clock was set back");
  }

  #[test]
  fn fences_record_only_errors_of_their_own_lease() {
    let fences = Fences::default();
    fences.set(&session(), 7);
    fences.observe(&conflict_error(&session(), None, None));
    fences.observe(&conflict_error(&session(), Some(6), None));
    fences.observe(&conflict_error(&SessionId::parse("other").unwrap(), Some(7), None));
    fences.observe(&Error::new(Code::Io, "no"));
    assert!(fences.take_lost().is_empty());
    for _ in 0..2 {
      fences.observe(&conflict_error(&session(), Some(7), None));
    }
    let lost = fences.take_lost();
    assert_eq!(lost.len(), 1);
    assert_eq!((&lost[0].0.session, lost[0].0.number), (&session(), 7));
    assert!(fences.take_lost().is_empty());
  }
}
