//! Leases, with concurrent stores and broken connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::proxy::{Fault, Proxy};
use super::*;
use crate::backend::{Acquired, BackendExt, Claim, Lease};

const LONG: u64 = 60_000;

fn claim(is_forced: bool) -> Claim<'static> {
  Claim {
    owner: "me",
    ttl_ms: LONG,
    is_forced,
  }
}

fn taken(backend: &PostgresBackend, session: &SessionId, is_forced: bool) -> Lease {
  match backend.acquire(session, claim(is_forced)).unwrap() {
    Acquired::Taken(lease) => lease,
    Acquired::Held(lease) => panic!("another owner holds {lease:?}"),
  }
}

fn after(parent: Parent) -> Precondition {
  Precondition::Newest(Newest {
    parent,
    later: Vec::new(),
  })
}

fn put(backend: &PostgresBackend, series: &Series, number: u64, precondition: &Precondition) -> Result<PutOutcome> {
  let write = PutOptions {
    precondition: precondition.clone(),
    ..PutOptions::new(Encoding::Json)
  };
  backend.put_checkpoint(series, &checkpoint(number), b"{}", &write)
}

#[test]
fn no_write_of_another_store_succeeds_after_acquire() {
  let Some(schema) = Schema::new() else { return };
  let (owner, other) = (schema.open(Settings::default()), schema.open(Settings::default()));
  for round in 0..6 {
    // An existing session, and one that does not exist yet.
    let series = Series::from(session(&format!("s{round}")));
    if round % 2 == 0 {
      owner.create_empty(&series.session).unwrap();
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
      for writer in 0..4 {
        let (other, series, is_over) = (&other, &series, &is_over);
        scope.spawn(move || {
          let mut number = writer * 1_000_000;
          while !is_over.load(Ordering::Relaxed) {
            number += 1;
            match put(other, series, number, &Precondition::None) {
              Ok(put) => assert!(matches!(put, PutOutcome::Stored { .. })),
              Err(error) => assert_eq!(error.code, Code::LeaseLost),
            }
          }
        });
      }
      thread::sleep(Duration::from_millis(20));
      let lease = taken(&owner, &series.session, false);
      let seen = owner.checkpoints(&series).unwrap().len();
      thread::sleep(Duration::from_millis(30));
      assert_eq!(owner.checkpoints(&series).unwrap().len(), seen);
      owner.fences().set(&series.session, lease.number);
      put(&owner, &series, 99_000_000, &Precondition::None).unwrap();
      is_over.store(true, Ordering::Relaxed);
    });
  }
}

#[test]
fn acquire_and_release_take_effect_once_if_the_connection_breaks() {
  let Some(schema) = Schema::new() else { return };
  let proxy = Proxy::start();
  let backend = PostgresBackend::new(&proxy.url(&schema), Settings::default()).unwrap();
  backend.open().unwrap();
  let s = session("victim");
  for fault in [Fault::Before(b"me"), Fault::After(b"me")] {
    for is_present in [false, true] {
      if is_present {
        backend.create_empty(&s).unwrap();
      }
      // Prepare the statements, so that the fault hits their execution.
      let lease = taken(&backend, &s, false);
      assert!(backend.release(&s, lease.number).unwrap());
      proxy.set(fault.clone());
      let lease = taken(&backend, &s, false);
      assert!(proxy.is_over());
      assert!(backend.renew(&s, lease.number, LONG).unwrap().is_some());
      let fault = match fault {
        Fault::Before(_) => Fault::Before(b"victim"),
        _ => Fault::After(b"victim"),
      };
      proxy.set(fault);
      assert!(backend.release(&s, lease.number).unwrap());
      assert!(proxy.is_over());
      assert!(!backend.release(&s, lease.number).unwrap());
    }
  }
}

#[test]
fn put_checkpoint_after_a_parent_stores_once_if_the_connection_breaks() {
  let Some(schema) = Schema::new() else { return };
  let proxy = Proxy::start();
  let backend = PostgresBackend::new(&proxy.url(&schema), Settings::default()).unwrap();
  backend.open().unwrap();
  let series = Series::from(session("victim"));
  let mut newest = after(Parent::Missing);
  for (number, fault) in (1..).zip([
    Fault::None,
    Fault::Before(b"victim"),
    Fault::After(b"victim"),
    Fault::After(b"victim"),
  ]) {
    proxy.set(fault.clone());
    let stored = put(&backend, &series, number, &newest).unwrap();
    assert!(matches!(stored, PutOutcome::Stored { .. }), "{fault:?}: {stored:?}");
    assert!(proxy.is_over());
    newest = after(Parent::Checkpoint(checkpoint(number)));
  }
  let stale = after(Parent::Checkpoint(checkpoint(1)));
  proxy.set(Fault::After(b"victim"));
  let conflict = put(&backend, &series, 9, &stale).unwrap();
  assert_eq!(conflict, PutOutcome::Conflict(Some(checkpoint(4))));
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 4);
}

#[test]
fn the_outcome_is_unknown_if_the_lease_is_lost_before_a_retry() {
  let Some(schema) = Schema::new() else { return };
  let proxy = Proxy::start();
  let backend = PostgresBackend::new(&proxy.url(&schema), Settings::default()).unwrap();
  backend.open().unwrap();
  let other = schema.open(Settings::default());
  let series = Series::from(session("victim"));
  let lease = taken(&backend, &series.session, false);
  backend.fences().set(&series.session, lease.number);
  put(&backend, &series, 1, &Precondition::None).unwrap();
  proxy.set(Fault::Last(b"victim"));
  thread::scope(|scope| {
    let write = scope.spawn(|| put(&backend, &series, 2, &Precondition::None).unwrap_err());
    while !proxy.is_over() {
      thread::sleep(Duration::from_millis(1));
    }
    taken(&other, &series.session, true);
    proxy.set(Fault::None);
    let error = write.join().unwrap();
    assert_eq!(error.code, Code::OutcomeUnknown, "{error}");
    let cause = error.source().and_then(|cause| cause.downcast_ref::<Error>());
    assert_eq!(cause.map(|cause| cause.code), Some(Code::LeaseLost));
  });
  let error = put(&backend, &series, 3, &Precondition::None).unwrap_err();
  assert_eq!(error.code, Code::LeaseLost, "{error}");
}

#[test]
fn a_row_with_only_a_lease_is_not_a_session() {
  let Some((_schema, backend)) = backend() else { return };
  let s = session("s");
  let lease = taken(&backend, &s, false);
  assert!(backend.all_sessions().unwrap().is_empty() && backend.saved_sessions().unwrap().is_empty());
  assert_eq!(backend.leases().unwrap().len(), 1);
  backend.fences().set(&s, lease.number);
  assert!(!backend.remove(&s, Item::SESSION).unwrap());
  assert_eq!(backend.delete_any(&s).unwrap().map(|error| error.message), None);
  backend.put(&s, Item::SESSION, b"{}").unwrap();
  assert_eq!(backend.all_sessions().unwrap().len(), 1);
  backend.delete_any(&s).unwrap();
  assert!(backend.all_sessions().unwrap().is_empty());
  assert_eq!(backend.leases().unwrap().len(), 1, "the lease outlives its session");
}

#[test]
fn a_damaged_lease_is_reported_and_a_lease_from_the_future_expires() {
  let Some((schema, backend)) = backend() else { return };
  conformance::stored_leases(&backend, &|lease| {
    let number = i64::try_from(lease.number).unwrap_or(i64::MAX);
    let began_at = lease
      .began_at
      .map_or("NULL".to_owned(), |began_at| began_at.to_string());
    execute(&format!(
      "INSERT INTO \"{}\".sessions (id, present, lease_number, lease_owner, lease_expires, lease_began, lease_token)
      VALUES ('{}', false, {number}, 'a', {}, {began_at}, '{}')",
      schema.name,
      lease.session,
      lease.expires_at,
      Uuid::new_v4()
    ));
  });
}

#[test]
fn a_lease_of_schema_version_2_is_still_held() {
  let Some((schema, backend)) = backend() else { return };
  let s = session("s");
  taken(&backend, &s, false);
  execute(&format!(
    "ALTER TABLE \"{0}\".sessions DROP COLUMN lease_began; UPDATE \"{0}\".meta SET version = 2",
    schema.name
  ));
  let backend = schema.open(Settings::default());
  let held = backend.acquire(&s, claim(false)).unwrap();
  assert!(
    matches!(&held, Acquired::Held(lease) if lease.remaining_ms > LONG / 2),
    "{held:?}"
  );
}
