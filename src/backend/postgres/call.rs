//! One call: as many attempts as its time allows, and one outcome.
//!
//! What was certainly not done is tried again if that may help: a connection that was refused, a deadlock. So is what may
//! have been done, because every change is made so that doing it twice is doing it once. Only if the time is up before
//! anybody has answered is the outcome unknown.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use deadpool_postgres::{PoolError, TimeoutType, Timeouts};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::PostgresBackend;
use super::connection::Connection;
use super::failure::{DbError, Failure, Retry};
use crate::types::error::{Code, Error, Result};

/// The pause before the second attempt; each is twice as long as the one before it, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Who was overtaken need not wait for anything, but two of them should not come at once again.
const NEXT_TURN: Duration = Duration::from_millis(2);

/// The pool's own time is up a little sooner, and it knows what it waited for.
const SLACK: Duration = Duration::from_millis(20);

/// All stores of a process share it. Nobody waits for its threads, so the process may end whenever it likes.
fn runtime() -> Result<&'static Runtime, DbError> {
  static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
  let runtime = RUNTIME.get_or_init(|| {
    Builder::new_multi_thread()
      .worker_threads(1)
      .thread_name("waymark-postgres")
      .enable_io()
      .enable_time()
      .build()
  });
  runtime.as_ref().map_err(DbError::of_system)
}

/// One attempt of a call, on a connection of its own.
pub struct Attempt<'a> {
  pub connection: Connection,
  runtime: &'a Runtime,
  patience: Duration,
  deadline: Cell<Instant>,
}

impl Attempt<'_> {
  /// Does a part of it on this thread, for as long as there is time.
  pub fn run<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let done = self
      .runtime
      .block_on(async { timeout_at(self.deadline.get(), work).await });
    done.unwrap_or_else(|_| Err(DbError::too_slow(self.patience).into()))
  }

  /// For what is long, and goes on: each part of it has all the time of a call.
  pub fn extend(&self) {
    self.deadline.set(Instant::now() + self.patience);
  }
}

/// Times between attempts: longer and longer, and never the same for two callers who were refused together.
struct Pauses(Duration);

impl Pauses {
  fn next(&mut self) -> Duration {
    let longest = self.0;
    self.0 = (longest * 2).min(LONGEST_PAUSE);
    some_of(longest)
  }
}

/// Between a half and the whole of it.
fn some_of(pause: Duration) -> Duration {
  let random = u32::from_le_bytes(*Uuid::new_v4().as_bytes().first_chunk().unwrap_or(&[0; 4]));
  pause.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}

/// A refusal is no answer to an earlier attempt, which may have been made in time.
fn lost_meanwhile(doing: &str, name: &str, refusal: Error) -> Error {
  let message = format!(
    "Could not {doing} {name}: the connection was lost before the server had answered, and then so was the lease. It may or \
     may not have been done"
  );
  Error::new(Code::OutcomeUnknown, message).because(refusal)
}

impl PostgresBackend {
  /// For a call that is one piece of work. `doing` is a verb phrase without its object, which is asked for if it fails.
  pub(super) fn ask<T>(
    &self,
    doing: &str,
    name: &dyn Fn() -> String,
    mut work: impl AsyncFnMut(&Connection) -> Result<T, Failure>,
  ) -> Result<T> {
    self.call(doing, name, |attempt| attempt.run(work(&attempt.connection)))
  }

  pub(super) fn call<T>(
    &self,
    doing: &str,
    name: &dyn Fn() -> String,
    mut work: impl FnMut(&Attempt<'_>) -> Result<T, Failure>,
  ) -> Result<T> {
    let patience = self.settings.timeout;
    let runtime = runtime().map_err(|refusal| refusal.into_error(doing, &name()))?;
    let began = Instant::now();
    let mut deadline = began + patience;
    let mut pauses = Pauses(FIRST_PAUSE);
    let mut is_unknown = false;
    loop {
      let mut is_overtaken = false;
      let (refusal, is_connected) = match self.connection(runtime, deadline, is_unknown, began) {
        Err(refusal) => (refusal, false),
        Ok(connection) => {
          let attempt = Attempt {
            connection,
            runtime,
            patience,
            deadline: Cell::new(deadline),
          };
          let outcome = work(&attempt);
          deadline = attempt.deadline.get();
          is_unknown |= attempt.connection.is_under_way();
          match Self::released(attempt, outcome) {
            Ok(done) => return Ok(done),
            Err(Failure::Ours(error)) if is_unknown && error.code == Code::LeaseLost => {
              self.fences.observe(&error);
              return Err(lost_meanwhile(doing, &name(), error));
            }
            Err(Failure::Ours(error)) => {
              self.fences.observe(&error);
              return Err(error);
            }
            Err(Failure::Refused(refusal)) => (refusal, true),
            Err(Failure::Overtaken) => {
              is_overtaken = true;
              (DbError::overtaken(patience), true)
            }
          }
        }
      };
      let pause = if is_overtaken {
        some_of(NEXT_TURN)
      } else {
        pauses.next()
      };
      let next = Instant::now() + pause;
      if refusal.outlook == Retry::Final || next >= deadline {
        return Err(if is_unknown {
          refusal.into_unknown(doing, &name())
        } else if is_connected {
          refusal.into_error(doing, &name())
        } else {
          refusal.into_error("connect to", &self.target.address)
        });
      }
      thread::sleep(next.saturating_duration_since(Instant::now()));
    }
  }

  fn connection(
    &self,
    runtime: &Runtime,
    deadline: Instant,
    is_repeat: bool,
    began: Instant,
  ) -> Result<Connection, DbError> {
    self.connector.prepare()?;
    let left = deadline.saturating_duration_since(Instant::now());
    let timeouts = Timeouts {
      wait: Some(left),
      create: Some(left),
      recycle: Some(left),
    };
    let got = runtime.block_on(async { timeout_at(deadline + SLACK, self.pool.timeout_get(&timeouts)).await });
    match got {
      Ok(Ok(client)) => {
        let connector = self.connector.clone();
        Ok(Connection::new(
          client,
          connector,
          &self.target.schema,
          is_repeat,
          began.elapsed(),
        ))
      }
      Ok(Err(PoolError::Timeout(TimeoutType::Wait))) => Err(DbError::pool_exhausted(
        self.settings.max_connections,
        self.settings.timeout,
      )),
      Ok(Err(PoolError::Backend(error))) => Err(DbError::of_connecting(&error)),
      Ok(Err(_)) | Err(_) => Err(DbError::of_connecting_slowly()),
    }
  }

  /// Gives the connection back, unless it must not be used again.
  fn released<T>(attempt: Attempt<'_>, outcome: Result<T, Failure>) -> Result<T, Failure> {
    let Attempt {
      connection, runtime, ..
    } = attempt;
    let _entered = runtime.enter();
    match &outcome {
      Err(Failure::Refused(refusal)) if refusal.is_timeout() => connection.abandon(),
      Err(Failure::Refused(refusal)) if refusal.spoils_connection() => connection.discard(),
      _ if connection.is_in_transaction() => connection.discard(),
      _ => drop(connection),
    }
    outcome
  }
}
