//! Leases: one owner for each session.

use std::thread;
use std::time::Duration;

use super::Shorthand as _;
use super::{Factory, checkpoint, opened, session};
use crate::backend::{
  Acquired, Backend, BackendExt, CheckpointEntry, Claim, Document, Encoding, Item, Lease, PutOptions, Series, source_of,
};
use crate::types::error::{Code, Result};
use crate::types::id::SessionId;
use crate::types::time::Timestamp;
use crate::types::time::now_ms;

const LONG: u64 = 60_000;

fn claim(owner: &str, ttl_ms: u64) -> Claim<'_> {
  Claim {
    owner,
    ttl_ms,
    is_forced: false,
  }
}

fn taken(backend: &dyn Backend, session: &SessionId, claim: Claim<'_>) -> Lease {
  match backend.acquire(session, claim).unwrap() {
    Acquired::Taken(lease) => lease,
    Acquired::Held(lease) => panic!("the session is held: {lease:?}"),
  }
}

pub fn a_session_has_one_owner_until_it_is_released(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  assert!(backend.leases().unwrap().is_empty());
  let first = taken(&*backend, &s, claim("a", LONG));
  assert_eq!(first.owner, "a");
  assert!((1..=LONG).contains(&first.remaining_ms), "{first:?}");
  let Acquired::Held(held) = backend.acquire(&s, claim("b", LONG)).unwrap() else {
    panic!("two owners");
  };
  assert_eq!((held.number, held.owner.as_str()), (first.number, "a"));
  let listed = backend.leases().unwrap();
  assert_eq!(listed.len(), 1);
  assert_eq!((&listed[0].0, listed[0].1.number), (&s, first.number));
  let renewed = backend.renew(&s, first.number, 2 * LONG).unwrap().unwrap();
  assert!(
    renewed.number == first.number && renewed.remaining_ms > LONG,
    "{renewed:?}"
  );
  assert!(backend.release(&s, first.number).unwrap());
  assert!(!backend.release(&s, first.number).unwrap());
  assert_eq!(backend.renew(&s, first.number, LONG).unwrap(), None);
  assert!(backend.leases().unwrap().is_empty());
  let second = taken(&*backend, &s, claim("b", LONG));
  assert!(second.number > first.number);
  let forced = Claim {
    is_forced: true,
    ..claim("c", LONG)
  };
  let third = taken(&*backend, &s, forced);
  assert!(third.number > second.number);
  assert_eq!(backend.renew(&s, second.number, LONG).unwrap(), None);
  assert!(!backend.release(&s, second.number).unwrap());
}

pub fn an_expired_lease_can_be_renewed_until_another_owner_acquires_it(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let first = taken(&*backend, &s, claim("a", 1));
  thread::sleep(Duration::from_millis(5));
  assert!(backend.leases().unwrap().is_empty());
  assert!(backend.renew(&s, first.number, 1).unwrap().is_some());
  thread::sleep(Duration::from_millis(5));
  let second = taken(&*backend, &s, claim("b", LONG));
  assert!(second.number > first.number);
  assert_eq!(backend.renew(&s, first.number, LONG).unwrap(), None);
}

pub fn a_write_without_a_lease_ends_an_expired_one(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  // Creating a session that exists changes nothing.
  for call in WRITES.into_iter().filter(|call| *call != "create_session") {
    let s = session(call);
    fill(&*backend, &s);
    let lapsed = taken(&*backend, &s, claim("a", 1));
    thread::sleep(Duration::from_millis(5));
    write(&*backend, &s, call).unwrap();
    assert_eq!(backend.renew(&s, lapsed.number, LONG).unwrap(), None, "{call}");
    assert!(taken(&*backend, &s, claim("b", LONG)).number > lapsed.number, "{call}");
  }
}

pub fn calls_that_change_nothing_end_no_lease(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  fill(&*backend, &s);
  let lapsed = taken(&*backend, &s, claim("a", 1));
  thread::sleep(Duration::from_millis(5));
  backend
    .update(&s, Document::Session, u64::MAX, &mut |_| Ok(None))
    .unwrap();
  let deleted = backend.delete_if(&s, u64::MAX, &mut |_| Ok(false));
  assert!(deleted.unwrap().is_none());
  backend.checkpoints(&Series::from(&s)).unwrap();
  assert!(backend.renew(&s, lapsed.number, LONG).unwrap().is_some());
}

pub fn one_of_many_claims_succeeds(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  for _ in 0..5 {
    let taken = thread::scope(|scope| {
      let acquire = || backend.acquire(&s, claim("one of many", LONG)).unwrap();
      let all: Vec<_> = (0..8).map(|_| scope.spawn(acquire)).collect();
      let all = all.into_iter().map(|one| one.join().unwrap());
      let taken = all.filter_map(|acquired| match acquired {
        Acquired::Taken(lease) => Some(lease.number),
        Acquired::Held(_) => None,
      });
      taken.collect::<Vec<_>>()
    });
    assert_eq!(taken.len(), 1);
    assert!(backend.release(&s, taken[0]).unwrap());
  }
}

/// The calls that change a session, by their names in `write`.
const WRITES: [&str; 13] = [
  "create_session",
  "put",
  "put_state",
  "update",
  "put_checkpoint",
  "set_pinned",
  "set_made_at",
  "quarantine",
  "delete_unused_bases",
  "delete_unless_kept",
  "delete",
  "delete_session_if",
  "delete_session",
];

fn write(backend: &dyn Backend, s: &SessionId, call: &str) -> Result<()> {
  let series = Series::from(s);
  let entry = CheckpointEntry::new(checkpoint("foreign"), Encoding::Json, || Timestamp::from_millis(5));
  match call {
    "create_session" => backend.create_empty(s),
    "put" => backend.put(s, Item::SESSION, b"{}").map(drop),
    "put_state" => backend.put_state(s, b"{}", b"{}"),
    "update" => backend.update(s, Document::Labels, u64::MAX, &mut |_| Ok(Some(b"{}".to_vec()))),
    "put_checkpoint" => {
      let write = PutOptions::new(Encoding::Json);
      backend.put_checkpoint(&series, &entry.id, b"{}", &write).map(drop)
    }
    "set_pinned" => backend.set_pinned(&series, &entry.id, false).map(drop),
    "set_made_at" => backend.set_made_at(&series, &entry),
    "quarantine" => backend.quarantine(&series, &entry, Some(b"{}")).map(drop),
    "delete_unused_bases" => backend.delete_unused_bases(&series).map(drop),
    "delete_unless_kept" => backend.delete_surplus(&series, &entry, None).map(drop),
    "delete" => backend.remove(s, Item::SESSION).map(drop),
    "delete_session_if" => backend.delete_if(s, u64::MAX, &mut |_| Ok(true)).map(drop),
    _ => backend.delete_any(s).map(drop),
  }
}

/// Creates something to change for each of the calls.
fn fill(backend: &dyn Backend, s: &SessionId) {
  for call in ["put_state", "put_checkpoint"] {
    write(backend, s, call).unwrap();
  }
  backend.put(s, Item::Base(None, &checkpoint("unused")), b"{}").unwrap();
  // Retention does not delete the newest checkpoint.
  let newest = checkpoint("cp-zzzzzzzz-000000");
  backend
    .put(s, Item::Checkpoint(None, &newest, Encoding::Json), b"{}")
    .unwrap();
}

pub fn only_the_owner_can_write(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, fences) = (session("s"), backend.fences());
  let assert_all = |expected: Option<Code>, why: &str| {
    for call in WRITES {
      let outcome = write(&*backend, &s, call);
      assert_eq!(outcome.err().map(|error| error.code), expected, "{call}: {why}");
    }
  };
  assert_all(None, "no lease");
  let first = taken(&*backend, &s, claim("a", LONG));
  fences.set(&s, first.number);
  fill(&*backend, &s);
  fences.remove(&s, first.number);
  assert_all(Some(Code::LeaseLost), "another owner has a lease");
  fences.set(&s, first.number);
  assert_all(None, "own lease");
  fill(&*backend, &s);
  assert!(backend.release(&s, first.number).unwrap());
  let second = taken(&*backend, &s, claim("b", LONG));
  assert_all(Some(Code::LeaseLost), "a newer lease is in force");
  assert!(backend.release(&s, second.number).unwrap());
  assert_all(Some(Code::LeaseLost), "a newer lease was released");
  fences.remove(&s, first.number);
  assert_all(None, "no lease any more");

  // A lease does not affect reads, or writes to other sessions.
  let third = taken(&*backend, &s, claim("c", LONG));
  assert!(backend.checkpoints(&Series::from(&s)).is_ok() && backend.usage_of(&s).is_ok());
  backend.put(&session("other"), Item::SESSION, b"{}").unwrap();
  fences.set(&s, third.number);
  fill(&*backend, &s);
  backend.delete_any(&s).unwrap();
  assert!(
    backend.renew(&s, third.number, LONG).unwrap().is_some(),
    "the owner may create the session again"
  );
  assert!(backend.release(&s, third.number).unwrap());
  let error = write(&*backend, &s, "put").unwrap_err();
  assert_eq!(error.code, Code::LeaseLost, "the lease was released");
}

pub fn only_the_owner_can_create_the_session(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let create = || backend.create_session_with(&s, &mut source_of(&[(Item::SESSION, &b"{}")]));
  let lease = taken(&*backend, &s, claim("a", LONG));
  assert!(backend.all_sessions().unwrap().is_empty(), "a lease creates no session");
  assert_eq!(create().unwrap_err().code, Code::LeaseLost);
  assert!(backend.all_sessions().unwrap().is_empty());
  backend.fences().set(&s, lease.number);
  assert!(create().unwrap());
}

/// A lease record that was not written by the backend.
#[derive(Debug)]
pub struct StoredLease<'a> {
  pub session: &'a str,
  pub number: i128,
  pub expires_at: u64,
  /// `None` in a record of an earlier version.
  pub began_at: Option<u64>,
}

/// Checks how a backend handles lease records that it did not write. `store` writes one into the backend, with any owner.
///
/// # Panics
///
/// If the backend handles one of them wrongly.
pub fn stored_leases(backend: &dyn Backend, store: &dyn Fn(StoredLease<'_>)) {
  const HOUR: u64 = 3_600_000;
  let now = now_ms();
  let greatest = [
    i128::from(u64::MAX),
    i128::from(i64::MAX),
    i128::from(i64::MAX) - 1,
    1 << 53,
  ];
  for (index, number) in greatest.into_iter().enumerate() {
    for (expires_at, held) in [(now + HOUR, "held"), (0, "released")] {
      let id = format!("greatest-{index}-{held}");
      let s = session(&id);
      store(StoredLease {
        session: &id,
        number,
        expires_at,
        began_at: Some(now),
      });
      for is_forced in [false, true] {
        let claim = Claim {
          is_forced,
          ..claim("b", LONG)
        };
        let error = backend.acquire(&s, claim).unwrap_err();
        assert_eq!(error.code, Code::Corrupt, "{number}: {error}");
        assert!(error.message.contains("no process works on that session"), "{error}");
      }
    }
  }
  assert!(backend.leases().unwrap().is_empty(), "damaged records are skipped");

  // The clock was set back by an hour after these leases began. Their owners are dead.
  let ahead = |id: &str, ttl_ms| {
    store(StoredLease {
      session: id,
      number: i128::from(now) * 1000,
      expires_at: now + HOUR + ttl_ms,
      began_at: Some(now + HOUR),
    });
    session(id)
  };
  let long = ahead("ahead", LONG);
  let held = backend.acquire(&long, claim("b", LONG)).unwrap();
  assert!(
    matches!(&held, Acquired::Held(lease) if lease.remaining_ms <= LONG),
    "{held:?}"
  );
  assert_eq!(write(backend, &long, "put").unwrap_err().code, Code::LeaseLost);
  let (first, second) = (ahead("ahead-first", 5), ahead("ahead-second", 5));
  let held = |s: &SessionId| backend.leases().unwrap().iter().any(|(of, _)| of == s);
  // The first read of the records.
  backend.leases().unwrap();
  thread::sleep(Duration::from_millis(10));
  assert!(!held(&first) && !held(&second) && held(&long));
  write(backend, &first, "put").unwrap();
  taken(backend, &first, claim("b", LONG));
  taken(backend, &second, claim("b", LONG));

  store(StoredLease {
    session: "earlier",
    number: 5,
    expires_at: now + HOUR,
    began_at: None,
  });
  let held = backend.acquire(&session("earlier"), claim("b", LONG)).unwrap();
  assert!(
    matches!(&held, Acquired::Held(lease) if lease.remaining_ms > HOUR / 2),
    "{held:?}"
  );
  assert!(backend.renew(&session("earlier"), 5, LONG).unwrap().is_some());
}
