//! One owner for each session: who may write to it, and under which number.
//!
//! A place keeps a record for each session that was ever owned. The number in it only grows, and every write is held against
//! it where it happens: whoever writes under an older number is refused, however long ago it last looked. So nothing hangs on
//! clocks but when somebody else may take over.

use std::collections::HashMap;
use std::mem;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::types::error::{Code, Error, LostLease, Result};
use crate::types::id::SessionId;
use crate::types::time::now_us;

/// A record with this number, or a greater one, is damaged: numbers are microseconds since 1970, which reach it in the year 2255.
/// JavaScript counts exactly up to here.
pub const NUMBER_LIMIT: u64 = (1 << 53) - 1;

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
  /// When it was acquired or last renewed, by the same clock. Records of earlier versions do not say it.
  pub began_at: Option<u64>,
}

impl Record {
  /// An error if the number cannot be one that a store has given: the next owner would get the same number, or one that is
  /// less. `remedy` says how to remove the record.
  pub fn checked(self, name: &str, remedy: &str) -> Result<Self> {
    if self.number < NUMBER_LIMIT {
      return Ok(self);
    }
    let why = format!("no store gives leases the number {}. {remedy}", self.number);
    Err(Error::corrupt(name, why))
  }

  #[must_use]
  pub fn lease(&self, now: u64) -> Lease {
    Lease {
      number: self.number,
      owner: self.owner.clone(),
      remaining_ms: self.remaining(now),
    }
  }

  /// For how many milliseconds no one else can take it. That is never more than it was taken for: if the clock has been set back
  /// to before it began, it lasts that long from when this process first sees it.
  fn remaining(&self, now: u64) -> u64 {
    match self.began_at {
      Some(began_at) if now < began_at && began_at <= self.expires_at => {
        let ttl = self.expires_at - began_at;
        ttl.saturating_sub(Sightings::age_of((self.number, began_at, self.expires_at)))
      }
      _ => self.expires_at.saturating_sub(now),
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
    self.remaining(now) > 0
  }

  /// The record of a new lease; or the one that is in its way. Its number is `fresh`, or one more than the last.
  ///
  /// Places give [`Fences::fresh`]: so numbers grow even where the record of a session went with it.
  pub fn acquire(old: Option<&Self>, claim: Claim<'_>, now: u64, fresh: u64) -> Result<Self, Lease> {
    match old {
      Some(old) if old.is_held(now) && !claim.is_forced => Err(old.lease(now)),
      _ => Ok(Self {
        // Records that were read are below the limit, so this is greater than the last number.
        number: old
          .map_or(0, |old| old.number.saturating_add(1))
          .max(fresh.min(NUMBER_LIMIT - 1)),
        owner: claim.owner.to_owned(),
        expires_at: now.saturating_add(claim.ttl_ms),
        began_at: Some(now),
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
      began_at: Some(now),
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

/// When this process first saw records that begin in the future. They are told apart by their number and their times: a
/// renewal is another record. Forgetting one only lets its lease last longer.
struct Sightings(HashMap<RecordKey, Instant>);

/// Its number, when it began, and when it expires.
type RecordKey = (u64, u64, u64);

static SIGHTINGS: LazyLock<Mutex<Sightings>> = LazyLock::new(|| Mutex::new(Sightings(HashMap::new())));

impl Sightings {
  const MOST: usize = 10_000;

  /// How many milliseconds ago, by a clock that is not set back.
  fn age_of(record: RecordKey) -> u64 {
    let sightings = &mut SIGHTINGS.lock().unwrap_or_else(PoisonError::into_inner).0;
    if sightings.len() >= Self::MOST && !sightings.contains_key(&record) {
      sightings.clear();
    }
    let seen = sightings.entry(record).or_insert_with(Instant::now);
    u64::try_from(seen.elapsed().as_millis()).unwrap_or(u64::MAX)
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

/// Under which numbers a store writes, and which of them were refused.
#[derive(Debug, Default)]
pub struct Fences {
  numbers: Mutex<HashMap<SessionId, u64>>,
  /// What nobody was told yet, with the message of the refusal.
  lost: Mutex<Vec<(LostLease, String)>>,
}

impl Fences {
  /// Remembers that a write was refused because its lease is lost. Refusals of writes without a lease are not remembered.
  pub fn observe(&self, error: &Error) {
    let Some(lost) = error
      .lost
      .as_deref()
      .filter(|lost| self.of(&lost.session) == Some(lost.number))
    else {
      return;
    };
    let mut all = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
    if !all.iter().any(|(known, _)| known == lost) {
      all.push((lost.clone(), error.message.clone()));
    }
  }

  /// The leases that were found to be lost since this was last asked.
  pub fn take_lost(&self) -> Vec<(LostLease, String)> {
    mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner))
  }

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
    self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
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
  fn a_lease_lasts_no_longer_than_it_was_taken_for_when_the_clock_is_set_back() {
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
      // Now it is seen.
      let _ = dead.lease(back);
      std::thread::sleep(std::time::Duration::from_millis(10));
      assert!(!dead.is_held(back) && may_write(Some(&dead), None, back));
      assert!(may_write(Some(&dead), Some(dead.number), back), "its owner may go on");
      let next = acquire(Some(&dead), claim("b"), back).unwrap();
      assert!(next.number > dead.number && next.is_held(back));
    }
  }

  #[test]
  fn a_record_that_does_not_say_when_it_began_lasts_until_it_expires() {
    let mut old = acquire(None, claim("a"), 5000).unwrap();
    old.began_at = None;
    assert_eq!(old.lease(1000).remaining_ms, 5000);
    assert!(!old.is_held(6000));
    // An earlier version has renewed it, and kept what it does not know.
    old.began_at = Some(9000);
    assert_eq!(old.lease(1000).remaining_ms, 5000);
  }

  #[test]
  fn a_number_that_no_store_gives_is_damage_and_no_two_owners_get_the_same() {
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

  #[test]
  fn a_refusal_is_remembered_for_the_lease_under_which_it_was_refused_and_for_no_other() {
    let fences = Fences::default();
    fences.set(&session(), 7);
    fences.observe(&refusal(&session(), None, None));
    fences.observe(&refusal(&session(), Some(6), None));
    fences.observe(&refusal(&SessionId::parse("other").unwrap(), Some(7), None));
    fences.observe(&Error::new(Code::Io, "no"));
    assert!(fences.take_lost().is_empty());
    for _ in 0..2 {
      fences.observe(&refusal(&session(), Some(7), None));
    }
    let lost = fences.take_lost();
    assert_eq!(lost.len(), 1);
    assert_eq!((&lost[0].0.session, lost[0].0.number), (&session(), 7));
    assert!(fences.take_lost().is_empty());
  }
}
