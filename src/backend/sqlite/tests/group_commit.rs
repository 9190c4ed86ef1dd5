//! Operations that are committed in one transaction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

use super::*;
use crate::backend::sqlite::error::DbError;
use crate::backend::sqlite::queue::QueuedOperationFn;

/// Occupies the writer until all operations are queued, and returns their outcomes.
fn commit_together(
  backend: &SqliteBackend,
  operations: Vec<Box<QueuedOperationFn>>,
) -> Vec<thread::Result<Result<bool>>> {
  thread::scope(|scope| {
    let (release, released) = mpsc::channel::<()>();
    scope.spawn(move || backend.queue.exclusively(|_| released.recv()));
    while !backend.queue.has_leader() {
      thread::yield_now();
    }
    let submit = |(number, operation): (usize, Box<QueuedOperationFn>)| {
      let name = number.to_string();
      let action = Action { doing: "do", name };
      let waiting = scope.spawn(move || backend.queue.submit(action, true, operation));
      while backend.queue.queued_operations() <= number {
        thread::yield_now();
      }
      waiting
    };
    let waiting: Vec<_> = operations.into_iter().enumerate().map(submit).collect();
    release.send(()).unwrap();
    waiting.into_iter().map(ScopedJoinHandle::join).collect()
  })
}

fn add(session: &'static str) -> Box<QueuedOperationFn> {
  Box::new(move |connection| Ok(sessions::add(connection, session)?))
}

fn stored_sessions(backend: &SqliteBackend) -> Vec<String> {
  let sessions = backend.all_sessions().unwrap();
  sessions.iter().map(ToString::to_string).collect()
}

#[test]
fn queued_operations_share_one_transaction_and_fail_alone() {
  let (root, backend) = backend();
  let other = open(&root);
  let outcomes = commit_together(
    &backend,
    vec![
      add("a"),
      Box::new(|connection| {
        sessions::add(connection, "rolled back")?;
        Err(Error::invalid_argument("no").into())
      }),
      Box::new(|connection| {
        sessions::add(connection, "rolled back too")?;
        connection.execute("INSERT INTO sessions (id) VALUES (NULL)", [])?;
        Ok(true)
      }),
      Box::new(move |connection| {
        assert!(
          other.all_sessions().unwrap().is_empty(),
          "no operation is visible before the commit"
        );
        Ok(sessions::add(connection, "a")?)
      }),
      add("b"),
    ],
  );
  let codes: Vec<_> = outcomes
    .into_iter()
    .map(|outcome| outcome.unwrap().map_err(|error| error.code))
    .collect();
  let expected = [Ok(true), Err(Code::InvalidArgument), Err(Code::Io), Ok(false), Ok(true)];
  assert_eq!(codes, expected);
  assert_eq!(stored_sessions(&backend), ["a", "b"]);
}

#[test]
fn every_operation_reports_why_the_transaction_was_lost() {
  let (_root, backend) = backend();
  let outcomes = commit_together(
    &backend,
    vec![
      add("a"),
      Box::new(|connection| {
        // A full disk may end the transaction.
        connection.execute_batch("ROLLBACK")?;
        Err(DbError::new(rusqlite::ErrorCode::DiskFull, "full").into())
      }),
      add("b"),
    ],
  );
  for (number, outcome) in outcomes.into_iter().enumerate() {
    let error = outcome.unwrap().unwrap_err();
    assert_eq!(error.message, format!("Could not do {number}: SQLITE_FULL: full"));
  }
  assert!(stored_sessions(&backend).is_empty());
  backend.create_empty(&session("later")).unwrap();
}

#[test]
fn a_panic_in_a_callback_rolls_back_and_the_next_write_succeeds() {
  let (_root, backend) = backend();
  let s = session("s");
  let panicked = catch_unwind(AssertUnwindSafe(|| {
    backend.update(&s, Document::Session, 9, &mut |_| panic!("on purpose"))
  }));
  assert!(panicked.is_err());
  backend.put(&s, Item::SESSION, b"{}").unwrap();
  assert_eq!(stored_sessions(&backend), ["s"]);
}

#[test]
fn the_operations_of_a_leader_that_panics_fail() {
  let (_root, backend) = backend();
  let outcomes = commit_together(&backend, vec![Box::new(|_| panic!("on purpose")), add("a")]);
  assert!(outcomes[0].is_err());
  assert_eq!(outcomes[1].as_ref().unwrap().as_ref().unwrap_err().code, Code::Internal);
  backend.create_empty(&session("later")).unwrap();
  assert_eq!(stored_sessions(&backend), ["later"]);
}
