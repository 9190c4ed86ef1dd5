//! One owner for each session: who may write to it, and under which number.
//!
//! A place keeps a record for each session that was ever owned. The number in it only grows, and every write is held against
//! it where it happens: whoever writes under an older number is refused, however long ago it last looked. So nothing hangs on
//! clocks but when somebody else may take over.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::now_us;
use crate::error::{Code, Error, Result};
use crate::id::SessionId;

/// Who owns a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
  pub number: u64,
  pub owner: String,
  /// How long nobody else can take it; 0 if anybody can.
  pub remaining_ms: u64,
}

/// What somebody who wants a session asks for.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
  pub owner: &'a str,
  pub ttl_ms: u64,
  /// Whether it is taken from whoever has it.
  pub is_forced: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
  Taken(Lease),
  /// By somebody else.
  Held(Lease),
}

/// What is stored of a lease. It stays when it is over, for its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
  pub number: u64,
  pub owner: String,
  /// By the clock of the place, in milliseconds; 0 if it was given back.
  pub expires_at: u64,
}

impl Record {
  #[must_use]
  pub fn lease(&self, now: u64) -> Lease {
    Lease {
      number: self.number,
      owner: self.owner.clone(),
      remaining_ms: self.expires_at.saturating_sub(now),
    }
  }

  /// Whether somebody who writes under that number may go on, past its time too.
  #[must_use]
  pub fn is_of(&self, fence: Option<u64>) -> bool {
    fence == Some(self.number) && !self.is_given_back()
  }

  fn is_given_back(&self) -> bool {
    self.expires_at == 0
  }

  #[must_use]
  pub fn is_held(&self, now: u64) -> bool {
    self.expires_at > now
  }

  /// The record of a new lease; or the one that is in its way. Its number is `fresh`, or one more than the last.
  ///
  /// Places give [`Fences::fresh`]: so numbers grow even where the record of a session went with it.
  pub fn acquire(old: Option<&Self>, claim: Claim<'_>, now: u64, fresh: u64) -> Result<Self, Lease> {
    match old {
      Some(old) if old.is_held(now) && !claim.is_forced => Err(old.lease(now)),
      _ => Ok(Self {
        number: old.map_or(0, |old| old.number.saturating_add(1)).max(fresh),
        owner: claim.owner.to_owned(),
        expires_at: now.saturating_add(claim.ttl_ms),
      }),
    }
  }

  /// The same for longer. A lease that is past its time can be renewed for as long as nobody else has taken the session, or
  /// written to it.
  #[must_use]
  pub fn renew(old: Option<&Self>, number: u64, ttl_ms: u64, now: u64) -> Option<Self> {
    let own = old.filter(|old| old.number == number && !old.is_given_back())?;
    Some(Self {
      expires_at: now.saturating_add(ttl_ms),
      ..own.clone()
    })
  }

  /// The record of a lease that was given back; `None` if there is nothing to give back.
  #[must_use]
  pub fn release(old: Option<&Self>, number: u64) -> Option<Self> {
    let own = old.filter(|old| old.number == number && !old.is_given_back())?;
    Some(Self {
      expires_at: 0,
      ..own.clone()
    })
  }
}

/// Whether somebody may write to a session, under that number or under none. Who writes without a lease ends one that is past its
/// time: its owner must not go on as if nothing had happened. The answer is the record to be kept in that case.
pub fn admit(record: Option<&Record>, session: &SessionId, fence: Option<u64>, now: u64) -> Result<Option<Record>> {
  let is_admitted = match (record, fence) {
    (Some(record), None) => !record.is_held(now),
    (Some(record), fence) => record.is_of(fence),
    (None, fence) => fence.is_none(),
  };
  if is_admitted {
    let lapsed = record.filter(|_| fence.is_none());
    return Ok(lapsed.and_then(|lapsed| Record::release(Some(lapsed), lapsed.number)));
  }
  Err(refusal(session, fence, record.map(|record| record.lease(now)).as_ref()))
}

/// Why a write is refused: `lease` is the one that is in force, if there is any.
#[must_use]
pub fn refusal(session: &SessionId, fence: Option<u64>, lease: Option<&Lease>) -> Error {
  let message = match (fence, lease) {
    (None, Some(lease)) => format!(
      "Session {session} belongs to {:?} for another {} ms. Acquire it before you write to it",
      lease.owner, lease.remaining_ms
    ),
    (_, Some(lease)) => format!(
      "The lease of session {session} is lost: {:?} has taken it over. Stop working on it, or acquire it again",
      lease.owner
    ),
    (_, None) => {
      format!(
        "The lease of session {session} is lost: it was deleted, or somebody else has had it. Stop working on it, or \
         acquire it again"
      )
    }
  };
  Error::new(Code::LeaseLost, message)
}

/// Under which numbers a store writes.
#[derive(Debug, Default)]
pub struct Fences(Mutex<HashMap<SessionId, u64>>);

impl Fences {
  #[must_use]
  pub fn of(&self, session: &SessionId) -> Option<u64> {
    self.lock().get(session).copied()
  }

  /// Of two that were taken at the same time, the later one counts, whoever is told first.
  pub fn set(&self, session: &SessionId, number: u64) {
    let mut fences = self.lock();
    let fence = fences.entry(session.clone()).or_default();
    *fence = number.max(*fence);
  }

  /// The least number that a lease may have that is taken now: the microseconds of the clock, and more than this store had.
  #[must_use]
  pub fn fresh(&self, session: &SessionId) -> u64 {
    let next = self.of(session).map_or(0, |last| last.saturating_add(1));
    now_us().max(next)
  }

  /// A later one stays.
  pub fn remove(&self, session: &SessionId, number: u64) {
    let mut fences = self.lock();
    if fences.get(session) == Some(&number) {
      fences.remove(session);
    }
  }

  fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, u64>> {
    self.0.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  const TTL: u64 = 1000;

  fn claim(owner: &str) -> Claim<'_> {
    Claim {
      owner,
      ttl_ms: TTL,
      is_forced: false,
    }
  }

  fn acquire(old: Option<&Record>, claim: Claim<'_>, now: u64) -> Result<Record, Lease> {
    Record::acquire(old, claim, now, now * 1000)
  }

  fn session() -> SessionId {
    SessionId::parse("s").unwrap()
  }

  fn may_write(record: Option<&Record>, fence: Option<u64>, now: u64) -> bool {
    let admitted = admit(record, &session(), fence, now);
    assert!(
      admitted
        .as_ref()
        .err()
        .is_none_or(|error| error.code == Code::LeaseLost)
    );
    admitted.is_ok()
  }

  #[test]
  fn one_has_it_until_it_is_given_back_or_past_its_time() {
    let first = acquire(None, claim("a"), 5000).unwrap();
    let held = acquire(Some(&first), claim("b"), 5999).unwrap_err();
    assert_eq!((held.owner.as_str(), held.remaining_ms), ("a", 1));
    let expired = acquire(Some(&first), claim("b"), 6000).unwrap();
    assert!(expired.number > first.number);
    let back = Record::release(Some(&first), first.number).unwrap();
    assert!(acquire(Some(&back), claim("b"), 5001).is_ok());
    let forced = Claim {
      is_forced: true,
      ..claim("b")
    };
    assert!(acquire(Some(&first), forced, 5001).unwrap().number > first.number);
  }

  #[test]
  fn numbers_grow_even_when_the_clock_goes_back_or_the_record_is_gone() {
    let first = Record::acquire(None, claim("a"), 5000, 5_000_000).unwrap();
    let back = Record::release(Some(&first), first.number).unwrap();
    let acquire = |old, now, fresh| Record::acquire(old, claim("a"), now, fresh).unwrap().number;
    assert!(acquire(Some(&back), 10, 10_000) > first.number);
    assert!(acquire(None, 5000, 5_000_001) > first.number);
  }

  #[test]
  fn a_lease_is_renewed_until_somebody_else_has_it() {
    let first = acquire(None, claim("a"), 5000).unwrap();
    let late = Record::renew(Some(&first), first.number, TTL, 9000).unwrap();
    assert_eq!((late.number, late.expires_at), (first.number, 10_000));
    let second = acquire(Some(&first), claim("b"), 7000).unwrap();
    assert_eq!(Record::renew(Some(&second), first.number, TTL, 7001), None);
    assert_eq!(Record::release(Some(&second), first.number), None);
    let back = Record::release(Some(&first), first.number).unwrap();
    assert_eq!(Record::renew(Some(&back), first.number, TTL, 7001), None);
    assert_eq!(Record::release(Some(&back), first.number), None);
    assert_eq!(Record::renew(None, 1, TTL, 0), None);
  }

  #[test]
  fn only_the_last_owner_writes_and_others_when_it_is_over() {
    let first = acquire(None, claim("a"), 5000).unwrap();
    let second = acquire(Some(&first), claim("b"), 6000).unwrap();
    let over = Record::release(Some(&second), second.number).unwrap();
    let (old, new) = (Some(first.number), Some(second.number));
    for (record, now, fences) in [
      (&second, 6500, [(old, false), (new, true), (None, false)]),
      (&second, 7000, [(old, false), (new, true), (None, true)]),
      (&over, 6500, [(old, false), (new, false), (None, true)]),
    ] {
      for (fence, is_admitted) in fences {
        assert_eq!(may_write(Some(record), fence, now), is_admitted, "{fence:?} at {now}");
      }
    }
    assert!(may_write(None, None, 0) && !may_write(None, old, 0));
  }

  #[test]
  fn a_write_without_a_lease_ends_one_that_is_past_its_time() {
    let first = acquire(None, claim("a"), 5000).unwrap();
    let ended = admit(Some(&first), &session(), None, 6000).unwrap().unwrap();
    assert_eq!(Record::renew(Some(&ended), first.number, TTL, 6001), None);
    assert!(!may_write(Some(&ended), Some(first.number), 6001));
    assert!(acquire(Some(&ended), claim("a"), 10).unwrap().number > first.number);
    assert_eq!(
      admit(Some(&ended), &session(), None, 6001).unwrap(),
      None,
      "once is enough"
    );
    assert_eq!(admit(Some(&first), &session(), Some(first.number), 6000).unwrap(), None);
  }

  #[test]
  fn a_store_writes_under_its_latest_number_and_forgets_only_the_one_that_it_gives_back() {
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
}
