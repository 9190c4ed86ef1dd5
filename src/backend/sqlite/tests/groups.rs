//! Operations that are committed together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

use super::*;
use crate::backend::sqlite::queue::AnywhereRun;

/// Holds the queue until all of these wait, and gives what became of each.
fn together(backend: &SqliteBackend, runs: Vec<Box<AnywhereRun>>) -> Vec<thread::Result<Result<bool>>> {
  thread::scope(|scope| {
    let (release, released) = mpsc::channel::<()>();
    scope.spawn(move || backend.queue.exclusively(|_| released.recv()));
    while !backend.queue.is_led() {
      thread::yield_now();
    }
    let submit = |(number, run): (usize, Box<AnywhereRun>)| {
      let name = number.to_string();
      let waiting = scope.spawn(move || backend.queue.submit(Label { doing: "do", name }, true, run));
      while backend.queue.waiting() <= number {
        thread::yield_now();
      }
      waiting
    };
    let waiting: Vec<_> = runs.into_iter().enumerate().map(submit).collect();
    release.send(()).unwrap();
    waiting.into_iter().map(ScopedJoinHandle::join).collect()
  })
}

fn adds(session: &'static str) -> Box<AnywhereRun> {
  Box::new(move |connection| Ok(sessions::add(connection, session)?))
}

fn places(backend: &SqliteBackend) -> Vec<String> {
  let places = backend.all_sessions().unwrap();
  places.iter().map(ToString::to_string).collect()
}

#[test]
fn what_waits_is_one_transaction_and_a_failed_operation_fails_alone() {
  let (root, backend) = backend();
  let other = open(&root);
  let outcomes = together(
    &backend,
    vec![
      adds("a"),
      Box::new(|connection| {
        sessions::add(connection, "half done")?;
        Err(Error::invalid_argument("no").into())
      }),
      Box::new(|connection| {
        sessions::add(connection, "half done too")?;
        connection.execute("INSERT INTO sessions (id) VALUES (NULL)", [])?;
        Ok(true)
      }),
      Box::new(move |connection| {
        assert!(
          other.all_sessions().unwrap().is_empty(),
          "nothing is visible before all of it is"
        );
        Ok(sessions::add(connection, "a")?)
      }),
      adds("b"),
    ],
  );
  let codes: Vec<_> = outcomes
    .into_iter()
    .map(|outcome| outcome.unwrap().map_err(|error| error.code))
    .collect();
  let expected = [Ok(true), Err(Code::InvalidArgument), Err(Code::Io), Ok(false), Ok(true)];
  assert_eq!(codes, expected);
  assert_eq!(places(&backend), ["a", "b"]);
}

#[test]
fn when_the_transaction_is_lost_all_of_it_fails_and_says_why() {
  let (_root, backend) = backend();
  let outcomes = together(
    &backend,
    vec![
      adds("a"),
      Box::new(|connection| {
        // As a full disk may do.
        connection.execute_batch("ROLLBACK")?;
        Err(DbError::new(rusqlite::ErrorCode::DiskFull, "full").into())
      }),
      adds("b"),
    ],
  );
  for (number, outcome) in outcomes.into_iter().enumerate() {
    let error = outcome.unwrap().unwrap_err();
    assert_eq!(error.message, format!("Could not do {number}: SQLITE_FULL: full"));
  }
  assert!(places(&backend).is_empty());
  backend.create_empty(&session("later")).unwrap();
}

#[test]
fn a_panic_in_the_middle_rolls_back_and_holds_nobody_up() {
  let (_root, backend) = backend();
  let s = session("s");
  let panicked = catch_unwind(AssertUnwindSafe(|| {
    backend.update(&s, Document::Session, 9, &mut |_| panic!("on purpose"))
  }));
  assert!(panicked.is_err());
  backend.put(&s, Item::SESSION, b"{}").unwrap();
  assert_eq!(places(&backend), ["s"]);
}

#[test]
fn those_whose_leader_panics_are_told() {
  let (_root, backend) = backend();
  let outcomes = together(&backend, vec![Box::new(|_| panic!("on purpose")), adds("a")]);
  assert!(outcomes[0].is_err());
  assert_eq!(outcomes[1].as_ref().unwrap().as_ref().unwrap_err().code, Code::Internal);
  backend.create_empty(&session("later")).unwrap();
  assert_eq!(places(&backend), ["later"]);
}
