//! Connections to the database.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::SqliteError;

/// The most idle readers that stay open. It is the number of worker threads.
const IDLE_READERS: usize = 8;

/// More than there are different statements.
const CACHED_STATEMENTS: usize = 64;

/// Opens a connection to an existing file; SQLite waits for a lock for `wait`.
pub fn open(path: &Path, access: OpenFlags, wait: Duration) -> Result<Connection, SqliteError> {
  // A connection is used by one thread at a time, so it needs no mutex of its own.
  let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
  connection.busy_timeout(wait)?;
  connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
  // Plans do not depend on bound values; otherwise a statement would be planned again for each execution.
  connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
  // `Writer::close` moves the log into the database. SQLite would also delete the log with the last connection. A process that lost
  // its locks, because it opened and closed the file in another way, could wrongly be taken for the last one, by itself or by another
  // process.
  connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
  // The schema may contain functions that another program put there.
  connection.pragma_update(None, "trusted_schema", false)?;
  Ok(connection)
}

/// Calls `attempt` at least once, and again until the deadline while another process holds the lock. SQLite's own busy handler ends up
/// polling ten times a second, and would miss every free moment beside a process that writes without a pause.
pub fn retry_while_busy<T, E>(
  deadline: Instant,
  is_busy: impl Fn(&E) -> bool,
  mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
  const PAUSE: Duration = Duration::from_millis(1);
  loop {
    match attempt() {
      Err(error) if is_busy(&error) && Instant::now() < deadline => thread::sleep(PAUSE),
      result => return result,
    }
  }
}

/// Connections that only read. Readers and the writer do not wait for each other.
#[derive(Debug)]
pub struct Readers {
  path: PathBuf,
  /// A reader waits only for a process that recovers the log after a crash.
  timeout: Duration,
  idle: Mutex<IdleReaders>,
}

#[derive(Debug, Default)]
struct IdleReaders {
  connections: Vec<Connection>,
  /// How often the connections were released. A connection of an earlier generation does not become idle again.
  generation: u64,
}

impl Readers {
  pub fn new(path: PathBuf, timeout: Duration) -> Self {
    Self {
      path,
      timeout,
      idle: Mutex::default(),
    }
  }

  /// Runs `read` in one transaction: everything that it sees is of one moment.
  pub fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, SqliteError>) -> Result<T, SqliteError> {
    let (idle, generation) = {
      let mut idle = self.idle.lock();
      (idle.connections.pop(), idle.generation)
    };
    let connection = match idle {
      Some(connection) => connection,
      None => open(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY, self.timeout)?,
    };
    let result = read(&*connection.unchecked_transaction()?);
    let mut idle = self.idle.lock();
    if idle.generation == generation && idle.connections.len() < IDLE_READERS && connection.is_autocommit() {
      idle.connections.push(connection);
    }
    result
  }

  /// Closes all idle connections; those in use are closed when their read ends.
  pub fn release_connections(&self) {
    let mut idle = self.idle.lock();
    idle.connections.clear();
    idle.generation += 1;
  }
}
