use rusqlite::{Connection, params};

use super::*;
use crate::backend::{Acquired, BackendExt, BaseRef, Claim, PutOptions, PutOutcome};
use crate::codec::delta::{Reference, compose};

/// The tables of the first version.
const VERSION_1: &str = "
  CREATE TABLE sessions (id TEXT PRIMARY KEY NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE documents (
    session TEXT NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL, size INTEGER NOT NULL, bytes BLOB NOT NULL,
    UNIQUE (session, name, number)
  ) STRICT;
  CREATE TABLE checkpoints (
    id TEXT NOT NULL, session TEXT NOT NULL, agent TEXT NOT NULL, encoding INTEGER NOT NULL, made_at INTEGER NOT NULL,
    pinned INTEGER NOT NULL, size INTEGER NOT NULL, head BLOB NOT NULL, tail BLOB NOT NULL, middle BLOB NOT NULL,
    UNIQUE (id, session, agent, encoding)
  ) STRICT;
  CREATE INDEX checkpoints_by_series ON checkpoints (session, agent, made_at, id, encoding, pinned, size);
  CREATE TABLE damaged (
    session TEXT NOT NULL, name TEXT NOT NULL, size INTEGER NOT NULL,
    head BLOB NOT NULL, tail BLOB NOT NULL, middle BLOB NOT NULL,
    UNIQUE (session, name)
  ) STRICT;
  PRAGMA application_id = 2004446571;
  PRAGMA user_version = 1;
";

/// A database of the first version with two checkpoints of one session, one of them pinned.
fn database_of_version_1() -> TempDir {
  let directory = tempfile::tempdir().unwrap();
  let connection = Connection::open(file_in(&directory)).unwrap();
  connection.execute_batch(VERSION_1).unwrap();
  connection.execute("INSERT INTO sessions VALUES ('s')", []).unwrap();
  for number in 1..3_u64 {
    let sql = "INSERT INTO checkpoints VALUES (?1, 's', '', ?2, ?3, ?2, 6, x'', x'', ?4)";
    let bytes = format!("text {number}").into_bytes();
    let id = checkpoint(number).to_string();
    connection.execute(sql, params![id, number - 1, number, bytes]).unwrap();
  }
  directory
}

fn version_of(directory: &TempDir) -> i32 {
  let connection = Connection::open(file_in(directory)).unwrap();
  connection
    .query_row("PRAGMA user_version", [], |row| row.get(0))
    .unwrap()
}

#[test]
fn a_database_of_the_first_version_keeps_its_checkpoints_and_accepts_deltas() {
  let directory = database_of_version_1();
  let backend = open(&directory);
  assert_eq!(version_of(&directory), schema::VERSION);
  let series = Series::from(session("s"));
  let listed = backend.checkpoints(&series).unwrap();
  let attributes: Vec<_> = listed.iter().map(|entry| (entry.encoding, entry.is_pinned)).collect();
  assert_eq!(attributes, [(Encoding::Gzip, true), (Encoding::Json, false)]);
  let read = |entry| backend.read(&series.session, series.item_of(entry), 100).unwrap();
  assert_eq!(read(&listed[1]).unwrap(), b"text 1");
  assert_eq!(read(&listed[0]).unwrap(), b"text 2");

  let key = checkpoint(3);
  let reference = Reference {
    is_same: false,
    key: key.clone(),
    bytes: 3,
    checksum: 0,
  };
  let base = BaseRef {
    id: &key,
    known: 0,
    added: b"key",
    fingerprint: None,
  };
  let options = PutOptions {
    base: Some(base),
    ..PutOptions::new(Encoding::Delta)
  };
  let put = backend.put_checkpoint(&series, &key, &compose(&reference, "{}", b""), &options);
  assert!(matches!(put, Ok(PutOutcome::Stored { .. })));
  assert_eq!(backend.sized_bases(&series).unwrap(), [(key.clone(), 3)]);
  for entry in backend.checkpoints(&series).unwrap() {
    assert!(backend.remove(&series.session, series.item_of(&entry)).unwrap());
  }
  assert!(backend.sized_bases(&series).unwrap().is_empty());
}

#[test]
fn concurrent_opens_migrate_a_database_once() {
  let directory = database_of_version_1();
  std::thread::scope(|scope| {
    for _ in 0..8 {
      scope.spawn(|| {
        let backend = open(&directory);
        assert_eq!(backend.checkpoints(&session("s").into()).unwrap().len(), 2);
      });
    }
  });
  assert_eq!(version_of(&directory), schema::VERSION);
}

#[test]
fn a_database_whose_tables_do_not_match_its_version_is_not_changed() {
  let directory = tempfile::tempdir().unwrap();
  let connection = Connection::open(file_in(&directory)).unwrap();
  connection
    .execute_batch("CREATE TABLE mine (x); PRAGMA application_id = 2004446571; PRAGMA user_version = 1;")
    .unwrap();
  let backend = SqliteBackend::new(file_in(&directory), Settings::default());
  assert!(backend.open().is_err());
  assert_eq!(version_of(&directory), 1);
}

#[test]
fn a_damaged_lease_record_is_reported_and_one_from_the_future_expires() {
  let (directory, backend) = backend();
  let connection = Connection::open(file_in(&directory)).unwrap();
  conformance::stored_leases(&backend, &|lease| {
    let number = i64::try_from(lease.number).unwrap_or(i64::MAX);
    let sql = "INSERT INTO leases (session, number, owner, expires_at, began_at) VALUES (?1, ?2, 'a', ?3, ?4)";
    let parameters = params![lease.session, number, lease.expires_at, lease.began_at];
    connection.execute(sql, parameters).unwrap();
  });
}

#[test]
fn a_lease_of_an_earlier_version_is_still_held() {
  let (directory, backend) = backend();
  let claim = Claim {
    owner: "a",
    ttl_ms: 60_000,
    is_forced: false,
  };
  let taken = backend.acquire(&session("s"), claim).unwrap();
  assert!(matches!(taken, Acquired::Taken(_)));
  drop(backend);
  let connection = Connection::open(file_in(&directory)).unwrap();
  let sql = "ALTER TABLE leases DROP COLUMN began_at; PRAGMA user_version = 4";
  connection.execute_batch(sql).unwrap();
  drop(connection);
  let backend = open(&directory);
  let held = backend.acquire(&session("s"), claim).unwrap();
  assert!(
    matches!(&held, Acquired::Held(lease) if lease.owner == "a" && lease.remaining_ms > 30_000),
    "{held:?}"
  );
}
