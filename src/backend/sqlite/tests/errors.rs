//! Errors: their codes, their causes, and what they leave behind.

use std::error::Error as _;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::*;
use crate::backend::BackendExt;
use crate::types::error::system_code;

/// Creates a file, and returns the error of opening it as a store.
fn open_error(create: impl FnOnce(&Path)) -> (TempDir, Error) {
  let root = tempfile::tempdir().unwrap();
  let path = file_in(&root);
  create(&path);
  let error = SqliteBackend::new(path, Settings::default()).open().unwrap_err();
  assert!(error.message.contains(&*file_in(&root).to_string_lossy()), "{error}");
  (root, error)
}

fn name_of_cause(error: &Error) -> Option<&str> {
  error.source()?.downcast_ref().and_then(system_code)
}

#[test]
fn open_rejects_a_database_with_a_newer_schema() {
  let (root, error) = open_error(|path| {
    let backend = SqliteBackend::new(path.to_owned(), Settings::default());
    backend.open().unwrap();
    drop(backend);
    let connection = Connection::open(path).unwrap();
    connection
      .pragma_update(None, "user_version", schema::VERSION + 1)
      .unwrap();
  });
  assert_eq!(error.code, Code::NewerVersion);
  assert!(error.message.contains("Update waymark"), "{error}");
  let connection = Connection::open(file_in(&root)).unwrap();
  connection.pragma_update(None, "user_version", schema::VERSION).unwrap();
  drop(connection);
  open(&root);
}

#[test]
fn open_rejects_the_database_of_another_application_and_does_not_change_it() {
  for sql in [
    "CREATE TABLE notes (text)",
    "PRAGMA application_id = 7",
    "PRAGMA user_version = 7",
    "CREATE TABLE notes (text); PRAGMA application_id = 7; PRAGMA user_version = 1",
  ] {
    let mut before = Vec::new();
    let (root, error) = open_error(|path| {
      Connection::open(path).unwrap().execute_batch(sql).unwrap();
      before = fs::read(path).unwrap();
    });
    assert_eq!(error.code, Code::Corrupt, "{sql}");
    assert!(error.message.contains("another application"), "{error}");
    assert_eq!(fs::read(file_in(&root)).unwrap(), before, "{sql}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "{sql}");
  }
}

#[test]
fn open_rejects_a_file_that_is_not_a_database_and_does_not_change_it() {
  let text = b"{ \"this\": \"is a document\" }".repeat(100);
  let (root, error) = open_error(|path| fs::write(path, &text).unwrap());
  assert_eq!(
    (error.code, name_of_cause(&error)),
    (Code::Corrupt, Some("SQLITE_NOTADB"))
  );
  assert_eq!(fs::read(file_in(&root)).unwrap(), text);
  let (_root, error) = open_error(|path| fs::create_dir(path).unwrap());
  assert_eq!(error.code, Code::Corrupt);
  assert!(
    error.message.ends_with("is not a file, so it is not a database"),
    "{error}"
  );
}

#[test]
fn open_reports_a_directory_that_cannot_be_created() {
  let root = tempfile::tempdir().unwrap();
  fs::write(root.path().join("file"), "").unwrap();
  let backend = SqliteBackend::new(root.path().join("file/below/store.db"), Settings::default());
  assert_eq!(backend.open().unwrap_err().code, Code::Io);
}

#[test]
fn overwritten_pages_are_reported_as_corrupt() {
  let (root, backend) = backend();
  let (s, series) = (session("s"), Series::from(session("s")));
  write_checkpoint(&backend, &series, 1, &[b'x'; 100]);
  backend.close().unwrap();
  drop(backend);
  let path = file_in(&root);
  let mut bytes = fs::read(&path).unwrap();
  bytes[4096..].fill(0x5a);
  fs::write(&path, bytes).unwrap();
  let backend = open(&root);
  let error = backend.checkpoints(&series).unwrap_err();
  assert_eq!(
    (error.code, name_of_cause(&error)),
    (Code::Corrupt, Some("SQLITE_CORRUPT"))
  );
  let error = backend.put(&s, Item::SESSION, b"{}").unwrap_err();
  assert_eq!(
    (error.code, name_of_cause(&error)),
    (Code::Corrupt, Some("SQLITE_CORRUPT"))
  );
}

fn with_timeout(timeout: Duration) -> Settings {
  Settings {
    timeout,
    ..Settings::default()
  }
}

#[test]
fn a_write_waits_for_the_lock_of_another_process_until_the_timeout() {
  let root = tempfile::tempdir().unwrap();
  let backend = SqliteBackend::new(file_in(&root), with_timeout(Duration::from_millis(50)));
  backend.open().unwrap();
  let mut other = Connection::open(file_in(&root)).unwrap();
  let transaction = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
  let s = session("s");
  let error = backend.put(&s, Item::SESSION, b"{}").unwrap_err();
  assert_eq!((error.code, name_of_cause(&error)), (Code::Busy, Some("SQLITE_BUSY")));
  assert!(
    error.message.contains("SQLITE_BUSY") && error.message.contains("try again"),
    "{error}"
  );
  assert_eq!(
    backend.read(&s, Item::SESSION, 9).unwrap(),
    None,
    "reads do not wait for the lock"
  );
  let updated = backend.update(&s, Document::Session, 9, &mut |_| unreachable!());
  assert_eq!(name_of_cause(&updated.unwrap_err()), Some("SQLITE_BUSY"));
  drop(transaction);
  backend.put(&s, Item::SESSION, b"{}").unwrap();
}

#[test]
fn callers_wait_for_the_lock_of_another_process_together() {
  const CALLERS: u32 = 40;
  const TIMEOUT: Duration = Duration::from_millis(500);
  let root = tempfile::tempdir().unwrap();
  let backend = SqliteBackend::new(file_in(&root), with_timeout(TIMEOUT));
  backend.open().unwrap();
  let mut other = Connection::open(file_in(&root)).unwrap();
  let transaction = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
  let began = Instant::now();
  thread::scope(|scope| {
    for caller in 0..CALLERS {
      let (backend, s) = (&backend, session("s"));
      scope.spawn(move || {
        let refused = if caller % 2 == 0 {
          backend.update(&s, Document::Session, 9, &mut |_| unreachable!())
        } else {
          backend.put(&s, Item::SESSION, b"{}").map(drop)
        };
        assert_eq!(refused.unwrap_err().code, Code::Busy);
      });
    }
  });
  assert!(began.elapsed() < CALLERS / 4 * TIMEOUT, "{:?}", began.elapsed());
  drop(transaction);
  backend.put(&session("s"), Item::SESSION, b"{}").unwrap();
}

#[test]
fn a_write_to_a_full_disk_fails_and_changes_nothing() {
  let (_root, backend) = backend();
  let (s, series) = (session("s"), Series::from(session("s")));
  backend.put(&s, Item::SESSION, b"old").unwrap();
  let set_limit = |pages: u32| {
    let action = backend.action_on_item("limit", &s, Item::SESSION);
    let limit = move |connection: &Connection| {
      let sql = format!("PRAGMA max_page_count = {pages}");
      Ok(connection.query_row(&sql, [], |row| row.get::<_, u32>(0))? == pages)
    };
    backend.queue.submit(action, true, limit).unwrap()
  };
  assert!(set_limit(40));
  for content in [vec![b'x'; 1 << 20], vec![b'x'; 100 << 20]] {
    let error = backend.put(&s, Item::SESSION, &content).unwrap_err();
    assert_eq!(
      (error.code, name_of_cause(&error)),
      (Code::Io, Some("SQLITE_FULL")),
      "{error}"
    );
    assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"old");
  }
  write_checkpoint(&backend, &series, 1, b"a small one still fits");
  assert!(set_limit(10_000));
  backend.put(&s, Item::SESSION, &vec![b'x'; 1 << 20]).unwrap();
}

#[cfg(unix)]
#[test]
fn a_write_fails_after_the_file_was_removed_or_replaced() {
  let (root, backend) = backend();
  let s = session("s");
  backend.put(&s, Item::SESSION, b"first").unwrap();
  for round in 0..2 {
    if round == 0 {
      fs::remove_file(file_in(&root)).unwrap();
    } else {
      let copy = root.path().join("copy.db");
      fs::copy(file_in(&root), &copy).unwrap();
      fs::rename(&copy, file_in(&root)).unwrap();
    }
    let error = backend.put(&s, Item::SESSION, b"lost").unwrap_err();
    assert_eq!((error.code, name_of_cause(&error)), (Code::Io, Some("SQLITE_READONLY")));
    assert!(error.message.contains("initialize()"), "{error}");
    backend.open().unwrap();
    backend.put(&s, Item::SESSION, b"second").unwrap();
    assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"second");
    assert_eq!(open(&root).read(&s, Item::SESSION, 9).unwrap().unwrap(), b"second");
    backend.delete_any(&s).unwrap();
  }
}

#[cfg(unix)]
#[test]
fn a_write_is_not_acknowledged_if_the_file_is_replaced_while_it_waits() {
  let (root, backend) = backend();
  let s = session("s");
  backend.put(&s, Item::SESSION, b"first").unwrap();
  let other = Connection::open(file_in(&root)).unwrap();
  other.execute_batch("BEGIN IMMEDIATE").unwrap();
  let error = thread::scope(|scope| {
    let write = scope.spawn(|| backend.put(&s, Item::SESSION, b"lost").unwrap_err());
    thread::sleep(Duration::from_millis(200));
    fs::rename(file_in(&root), root.path().join("before.db")).unwrap();
    other.execute_batch("COMMIT").unwrap();
    write.join().unwrap()
  });
  assert_eq!(error.code, Code::OutcomeUnknown, "{error}");
  assert!(error.message.contains("initialize()"), "{error}");
}

#[test]
fn calls_before_open_fail_and_create_no_file() {
  let root = tempfile::tempdir().unwrap();
  let backend = SqliteBackend::new(file_in(&root), Settings::default());
  let s = session("s");
  assert_eq!(
    backend.put(&s, Item::SESSION, b"{}").unwrap_err().code,
    Code::NotInitialized
  );
  let updated = backend.update(&s, Document::Session, 9, &mut |_| unreachable!());
  assert_eq!(updated.unwrap_err().code, Code::NotInitialized);
  assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap_err().code, Code::Io);
  assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}
