//! A call: attempts until its deadline, and one outcome.
//!
//! An attempt that certainly changed nothing is repeated if that may help, as after a refused connection or a deadlock. So is
//! one whose answer did not arrive, because every change is idempotent. The outcome is unknown only if no later attempt gets an
//! answer before the deadline.

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
use super::error::{DbError, PgError, Retry};
use crate::types::error::{Code, Error, Result};

/// The pause before the second attempt. Each further pause is twice as long, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pause after [`PgError::RetryNow`], which keeps two writers from colliding again.
const COLLISION_PAUSE: Duration = Duration::from_millis(2);

/// The pool's own timeout fires first, because its error says what it waited for.
const SLACK: Duration = Duration::from_millis(20);

/// The runtime of all stores of this process. Its thread does not keep the process alive.
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
  runtime.as_ref().map_err(DbError::from_system)
}

/// One attempt of a call, with a connection of its own.
pub struct Attempt<'a> {
  pub connection: Connection,
  runtime: &'a Runtime,
  timeout: Duration,
  deadline: Cell<Instant>,
}

impl Attempt<'_> {
  /// Blocks this thread until a part of the attempt is done, or the deadline has passed.
  pub fn block_on<T>(&self, work: impl Future<Output = Result<T, PgError>>) -> Result<T, PgError> {
    let done = self
      .runtime
      .block_on(async { timeout_at(self.deadline.get(), work).await });
    done.unwrap_or_else(|_| Err(DbError::answer_timeout(self.timeout).into()))
  }

  /// Moves the deadline, so that each part of a long attempt has the timeout of a call.
  pub fn extend_deadline(&self) {
    self.deadline.set(Instant::now() + self.timeout);
  }
}

/// The pauses between attempts: exponential, with jitter that separates callers that failed together.
struct Pauses(Duration);

impl Pauses {
  fn next(&mut self) -> Duration {
    let longest = self.0;
    self.0 = (longest * 2).min(LONGEST_PAUSE);
    with_jitter(longest)
  }
}

/// A random time between half of `pause` and all of it.
fn with_jitter(pause: Duration) -> Duration {
  let random = u32::from_le_bytes(*Uuid::new_v4().as_bytes().first_chunk().unwrap_or(&[0; 4]));
  pause.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}

/// The error of a call that the lease of another owner refuses after an attempt without an answer, which may have succeeded
/// before that.
fn lease_lost_after_attempt(doing: &str, name: &str, error: Error) -> Error {
  let message = format!(
    "Could not {doing} {name}: the connection was lost before the server answered, and now the session is leased to another \
     owner. It may or may not have been done"
  );
  Error::new(Code::OutcomeUnknown, message).because(error)
}

impl PostgresBackend {
  /// Makes a call whose attempts are one piece of work. `doing` is a verb phrase without its object; `name` is called for an
  /// error.
  pub(super) fn with_connection<T>(
    &self,
    doing: &str,
    name: &dyn Fn() -> String,
    mut work: impl AsyncFnMut(&Connection) -> Result<T, PgError>,
  ) -> Result<T> {
    self.call(doing, name, |attempt| attempt.block_on(work(&attempt.connection)))
  }

  pub(super) fn call<T>(
    &self,
    doing: &str,
    name: &dyn Fn() -> String,
    mut work: impl FnMut(&Attempt<'_>) -> Result<T, PgError>,
  ) -> Result<T> {
    let timeout = self.settings.timeout;
    let runtime = runtime().map_err(|error| error.into_error(doing, &name()))?;
    let began = Instant::now();
    let mut deadline = began + timeout;
    let mut pauses = Pauses(FIRST_PAUSE);
    let mut is_unknown = false;
    loop {
      let mut is_collision = false;
      let (error, is_connected) = match self.connection(runtime, deadline, is_unknown, began) {
        Err(error) => (error, false),
        Ok(connection) => {
          let attempt = Attempt {
            connection,
            runtime,
            timeout,
            deadline: Cell::new(deadline),
          };
          let outcome = work(&attempt);
          deadline = attempt.deadline.get();
          is_unknown |= attempt.connection.is_unanswered();
          match release_connection(attempt, outcome) {
            Ok(done) => return Ok(done),
            Err(PgError::Store(error)) => {
              self.fences.observe(&error);
              return Err(if is_unknown && error.code == Code::LeaseLost {
                lease_lost_after_attempt(doing, &name(), error)
              } else {
                error
              });
            }
            Err(PgError::Db(error)) => (error, true),
            Err(PgError::RetryNow) => {
              is_collision = true;
              (DbError::contention(timeout), true)
            }
          }
        }
      };
      let pause = if is_collision {
        with_jitter(COLLISION_PAUSE)
      } else {
        pauses.next()
      };
      let next = Instant::now() + pause;
      if error.retry == Retry::Never || next >= deadline {
        return Err(if is_unknown {
          error.into_outcome_unknown(doing, &name())
        } else if is_connected {
          error.into_error(doing, &name())
        } else {
          error.into_error("connect to", &self.config.address)
        });
      }
      thread::sleep(next.saturating_duration_since(Instant::now()));
    }
  }

  fn connection(
    &self,
    runtime: &Runtime,
    deadline: Instant,
    is_retry: bool,
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
          &self.config.schema,
          is_retry,
          began.elapsed(),
        ))
      }
      Ok(Err(PoolError::Timeout(TimeoutType::Wait))) => Err(DbError::pool_exhausted(
        self.settings.max_connections,
        self.settings.timeout,
      )),
      Ok(Err(PoolError::Backend(error))) => Err(DbError::from_connecting(&error)),
      Ok(Err(_)) | Err(_) => Err(DbError::connect_timeout()),
    }
  }
}

/// Returns the connection to the pool, unless it must not be used again.
fn release_connection<T>(attempt: Attempt<'_>, outcome: Result<T, PgError>) -> Result<T, PgError> {
  let Attempt {
    connection, runtime, ..
  } = attempt;
  let _entered = runtime.enter();
  match &outcome {
    Err(PgError::Db(error)) if error.is_answer_timeout() => connection.cancel_and_discard(),
    Err(PgError::Db(error)) if error.spoils_connection() => connection.discard(),
    _ if connection.is_in_transaction() => connection.discard(),
    _ => drop(connection),
  }
  outcome
}
