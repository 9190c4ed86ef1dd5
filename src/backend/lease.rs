//! Leases: at most one owner per session, enforced with fencing tokens.
//!
//! A backend keeps a record for each session that ever had an owner. The fencing token in it only grows, and every write checks
//! its token in the step that makes it visible, so a former owner can never write again. Clocks decide only when another owner
//! may take over.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Instant;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::types::error::{Code, Error, LostLease, Result};
use crate::types::id::SessionId;

/// A record with this fencing token or a greater one is damaged: tokens are microseconds since 1970, which reach it in the year
/// 2255. It is JavaScript's `Number.MAX_SAFE_INTEGER`.
pub const NUMBER_LIMIT: u64 = (1 << 53) - 1;

/// The lease of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
  /// The fencing token.
  pub number: u64,
  pub owner: String,
  /// For how long no other owner can acquire it; 0 if it can be acquired now.
  pub remaining_ms: u64,
}

/// A request to acquire the lease of a session.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
  pub owner: &'a str,
  pub ttl_ms: u64,
  /// Whether to take the lease over from an owner that still holds it.
  pub is_forced: bool,
}

/// The result of a [`Claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
  /// The lease of the claim.
  Taken(Lease),
  /// The lease of another owner.
  Held(Lease),
}

/// The stored form of a lease. It outlasts the lease, so that the next fencing token is greater.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
  /// The fencing token.
  pub number: u64,
  pub owner: String,
  /// In milliseconds by the clock of the backend; 0 if the lease was released.
  pub expires_at: u64,
  /// When it was acquired or last renewed, by the same clock; `None` in records of earlier versions.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub began_at: Option<u64>,
}

impl Record {
  /// An error if the store cannot have issued the fencing token: the next token would not be greater. `remedy` says how to
  /// remove the record.
  pub fn checked(self, name: &str, remedy: &str) -> Result<Self> {
    if self.number < NUMBER_LIMIT {
      return Ok(self);
    }
    let why = format!("the store issues no fencing token {}. {remedy}", self.number);
    Err(Error::corrupt(name, why))
  }

  #[must_use]
  pub fn lease(&self, now: u64) -> Lease {
    Lease {
      number: self.number,
      owner: self.owner.clone(),
      remaining_ms: self.remaining_ms(now),
    }
  }

  /// For how long no other owner can acquire the lease. Never longer than its time to live: if the clock was set back to before
  /// the lease began, that time runs from when this process first read the record.
  fn remaining_ms(&self, now: u64) -> u64 {
    match self.began_at {
      Some(began_at) if now < began_at && began_at <= self.expires_at => {
        let ttl = self.expires_at - began_at;
        ttl.saturating_sub(FirstReads::age_ms((self.number, began_at, self.expires_at)))
      }
      _ => self.expires_at.saturating_sub(now),
    }
  }

  /// Whether this lease admits writes with that fencing token. It does so past its expiry too, until another write or owner
  /// ends it.
  #[must_use]
  pub fn is_of(&self, fence: Option<u64>) -> bool {
    fence == Some(self.number) && !self.is_released()
  }

  fn is_released(&self) -> bool {
    self.expires_at == 0
  }

  #[must_use]
  pub fn is_held(&self, now: u64) -> bool {
    self.remaining_ms(now) > 0
  }

  /// The record of a new lease, or the lease that prevents it. The fencing token is `fresh` or the old one plus 1, whichever is
  /// greater.
  ///
  /// Backends pass [`Fences::fresh`](super::Fences::fresh), so tokens grow even where the record was deleted with its session.
  pub fn acquire(old: Option<&Self>, claim: Claim<'_>, now: u64, fresh: u64) -> Result<Self, Lease> {
    match old {
      Some(old) if old.is_held(now) && !claim.is_forced => Err(old.lease(now)),
      _ => Ok(Self {
        // `checked` keeps old tokens below the limit, so this one is greater.
        number: old
          .map_or(0, |old| old.number.saturating_add(1))
          .max(fresh.min(NUMBER_LIMIT - 1)),
        owner: claim.owner.to_owned(),
        expires_at: now.saturating_add(claim.ttl_ms),
        began_at: Some(now),
      }),
    }
  }

  /// The record of the renewed lease; `None` if it is lost. An expired lease can be renewed until another owner acquires the
  /// session or a write without a lease ends it.
  #[must_use]
  pub fn renew(old: Option<&Self>, number: u64, ttl_ms: u64, now: u64) -> Option<Self> {
    let own = old.filter(|old| old.number == number && !old.is_released())?;
    Some(Self {
      expires_at: now.saturating_add(ttl_ms),
      began_at: Some(now),
      ..own.clone()
    })
  }

  /// The record of the released lease; `None` if it is not in force.
  #[must_use]
  pub fn release(old: Option<&Self>, number: u64) -> Option<Self> {
    let own = old.filter(|old| old.number == number && !old.is_released())?;
    Some(Self {
      expires_at: 0,
      ..own.clone()
    })
  }
}

/// When this process first read each record that begins in the future. A renewal is another record. Dropping an entry only makes
/// that lease last longer.
struct FirstReads(HashMap<RecordKey, Instant>);

/// Fencing token, beginning and expiry.
type RecordKey = (u64, u64, u64);

static FIRST_READS: LazyLock<Mutex<FirstReads>> = LazyLock::new(|| Mutex::new(FirstReads(HashMap::new())));

impl FirstReads {
  const MAX_ENTRIES: usize = 10_000;

  /// The milliseconds since the first read, by a monotonic clock.
  fn age_ms(record: RecordKey) -> u64 {
    let first_reads = &mut FIRST_READS.lock().0;
    if first_reads.len() >= Self::MAX_ENTRIES && !first_reads.contains_key(&record) {
      first_reads.clear();
    }
    let first_read = first_reads.entry(record).or_insert_with(Instant::now);
    u64::try_from(first_read.elapsed().as_millis()).unwrap_or(u64::MAX)
  }
}

/// Admits a write to a session with that fencing token, or without a lease. A write without a lease ends an expired one, because
/// its owner must notice that write; the result is the record to store in that case.
pub fn admit(record: Option<&Record>, session: &SessionId, fence: Option<u64>, now: u64) -> Result<Option<Record>> {
  let is_admitted = match (record, fence) {
    (Some(record), None) => !record.is_held(now),
    (Some(record), fence) => record.is_of(fence),
    (None, fence) => fence.is_none(),
  };
  if is_admitted {
    let expired = record.filter(|_| fence.is_none());
    return Ok(expired.and_then(|expired| Record::release(Some(expired), expired.number)));
  }
  Err(conflict_error(
    session,
    fence,
    record.map(|record| record.lease(now)).as_ref(),
  ))
}

/// The error of every write that the lease of its session does not admit. `lease` is the one in force, if
/// any.
#[must_use]
pub fn conflict_error(session: &SessionId, fence: Option<u64>, lease: Option<&Lease>) -> Error {
  let message = match (fence, lease) {
    (None, Some(lease)) => format!(
      "Session {session} belongs to {:?} for another {} ms. Acquire it before you write to it",
      lease.owner, lease.remaining_ms
    ),
    (_, Some(lease)) => format!(
      "The lease of session {session} is lost: {:?} has taken it over. Stop working on the session, or acquire it again",
      lease.owner
    ),
    (_, None) => format!(
      "The lease of session {session} is lost: the session was deleted, or had another owner since. Stop working on it, or \
       acquire it again"
    ),
  };
  let lost = fence.map(|number| {
    Box::new(LostLease {
      session: session.clone(),
      number,
    })
  });
  Error {
    lost,
    ..Error::new(Code::LeaseLost, message)
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
  fn a_lease_is_exclusive_until_it_is_released_or_expires() {
    let first = acquire(None, claim("a"), 5000).unwrap();
    let held = acquire(Some(&first), claim("b"), 5999).unwrap_err();
    assert_eq!((held.owner.as_str(), held.remaining_ms), ("a", 1));
    let expired = acquire(Some(&first), claim("b"), 6000).unwrap();
    assert!(expired.number > first.number);
    let released = Record::release(Some(&first), first.number).unwrap();
    assert!(acquire(Some(&released), claim("b"), 5001).is_ok());
    let forced = Claim {
      is_forced: true,
      ..claim("b")
    };
    assert!(acquire(Some(&first), forced, 5001).unwrap().number > first.number);
  }

  #[test]
  fn fencing_tokens_grow_when_the_clock_is_set_back_or_the_record_is_deleted() {
    let first = Record::acquire(None, claim("a"), 5000, 5_000_000).unwrap();
    let back = Record::release(Some(&first), first.number).unwrap();
    let acquire = |old, now, fresh| Record::acquire(old, claim("a"), now, fresh).unwrap().number;
    assert!(acquire(Some(&back), 10, 10_000) > first.number);
    assert!(acquire(None, 5000, 5_000_001) > first.number);
  }

  #[test]
  fn a_lease_lasts_no_longer_than_its_time_to_live_when_the_clock_is_set_back() {
    const HOUR: u64 = 3_600_000;
    let (now, back) = (10 * HOUR, 9 * HOUR);
    let with = |ttl_ms| Claim {
      ttl_ms,
      ..claim("dead")
    };
    // Acquired, and renewed long after it was acquired.
    let both = |ttl_ms| {
      let old = acquire(None, with(ttl_ms), now - 5 * HOUR).unwrap();
      let renewed = Record::renew(Some(&old), old.number, ttl_ms, now).unwrap();
      [acquire(None, with(ttl_ms), now).unwrap(), renewed]
    };
    for dead in both(60_000) {
      let held = acquire(Some(&dead), claim("b"), back).unwrap_err();
      assert!((1..=60_000).contains(&held.remaining_ms), "{held:?}");
      assert!(!may_write(Some(&dead), None, back));
    }
    for dead in both(5) {
      // The first read of the record.
      let _ = dead.lease(back);
      std::thread::sleep(std::time::Duration::from_millis(10));
      assert!(!dead.is_held(back) && may_write(Some(&dead), None, back));
      assert!(
        may_write(Some(&dead), Some(dead.number), back),
        "the owner may still write"
      );
      let next = acquire(Some(&dead), claim("b"), back).unwrap();
      assert!(next.number > dead.number && next.is_held(back));
    }
  }

  #[test]
  fn a_record_without_a_beginning_lasts_until_it_expires() {
    let mut old = acquire(None, claim("a"), 5000).unwrap();
    old.began_at = None;
    assert_eq!(old.lease(1000).remaining_ms, 5000);
    assert!(!old.is_held(6000));
    // An earlier version renewed it and kept the unknown member.
    old.began_at = Some(9000);
    assert_eq!(old.lease(1000).remaining_ms, 5000);
  }

  #[test]
  fn a_token_beyond_the_limit_is_damage_and_no_token_is_issued_twice() {
    let with = |number| Record {
      number,
      ..acquire(None, claim("a"), 5000).unwrap()
    };
    for number in [
      NUMBER_LIMIT,
      1 << 53,
      i64::MAX as u64 - 1,
      i64::MAX as u64,
      u64::MAX - 1,
      u64::MAX,
    ] {
      let error = with(number).checked("The lease", "Remove it").unwrap_err();
      assert_eq!(error.code, Code::Corrupt);
      assert!(error.message.contains("Remove it"), "{error}");
    }
    let last = with(NUMBER_LIMIT - 1).checked("The lease", "").unwrap();
    for fresh in [0, u64::MAX] {
      let next = Record::acquire(Some(&last), claim("b"), 9000, fresh).unwrap();
      assert!(next.number > last.number, "{fresh}");
      assert!(next.checked("The lease", "").is_err());
    }
  }

  #[test]
  fn a_lease_can_be_renewed_until_another_owner_acquires_it() {
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
  fn only_the_last_owner_may_write_and_others_after_the_lease_ends() {
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
  fn a_write_without_a_lease_ends_an_expired_one() {
    let first = acquire(None, claim("a"), 5000).unwrap();
    let ended = admit(Some(&first), &session(), None, 6000).unwrap().unwrap();
    assert_eq!(Record::renew(Some(&ended), first.number, TTL, 6001), None);
    assert!(!may_write(Some(&ended), Some(first.number), 6001));
    assert!(acquire(Some(&ended), claim("a"), 10).unwrap().number > first.number);
    assert_eq!(
      admit(Some(&ended), &session(), None, 6001).unwrap(),
      None,
      "it is ended only once"
    );
    assert_eq!(admit(Some(&first), &session(), Some(first.number), 6000).unwrap(), None);
  }
}
