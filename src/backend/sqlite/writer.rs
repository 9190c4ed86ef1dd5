//! The connection that writes, and the transactions on it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::connections::{self, retry_while_busy};
use super::database_file::{self, FileIdentity, identity, log_path};
use super::error::{DbError, SqliteError};
use super::schema;
use crate::backend::Durability;
use crate::types::error::{Error, Result};

/// A log of this many pages is moved into the database.
const LONG_LOG_PAGES: i64 = 4000;

/// A log that a large transaction made longer than this is truncated when it restarts.
const MAX_LOG_BYTES: u32 = 32 << 20;

/// The free pages that are kept for later rows, and how many of the others each transaction returns to the file system.
const SPARE_PAGES: u64 = 1024;
const PAGES_FREED_BY_COMMIT: u32 = 64;

/// A part of a transaction that succeeds or fails by itself.
pub struct Operation<'a> {
  pub action: &'a Action,
  /// Whether it is synced before it is acknowledged.
  pub needs_sync: bool,
  pub run: &'a mut OperationFn<'a>,
}

/// Returns whether there was anything to change.
pub type OperationFn<'a> = dyn FnMut(&Connection) -> Result<bool, SqliteError> + 'a;

/// What an operation does, for error messages: a verb phrase without its object, and the name of the object.
#[derive(Debug)]
pub struct Action {
  pub doing: &'static str,
  pub name: String,
}

#[derive(Debug)]
pub struct Writer {
  connection: Connection,
  path: PathBuf,
  identity: FileIdentity,
  /// The log, which exists as long as a connection uses it.
  log: Option<FileIdentity>,
  durability: Durability,
  /// Until when the next transactions wait for other processes.
  deadline: Instant,
  /// Whether the connection is set to sync each commit.
  syncs: bool,
  /// Whether a sync of the log, or moving it, has failed since it began.
  is_log_suspect: bool,
}

/// What SQLite reports about its log.
struct LogState {
  /// Whether another connection kept it from being moved completely.
  is_busy: bool,
  pages: i64,
}

impl Writer {
  /// Opens the database; creates the file and the tables if they are missing.
  pub fn open(path: &Path, durability: Durability, deadline: Instant) -> Result<Self> {
    database_file::create(path, durability)?;
    let open = || -> Result<Self, SqliteError> {
      let mut connection = connections::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, Duration::ZERO)?;
      retry_while_busy(deadline, SqliteError::is_busy, || schema::ensure(&mut connection, path))?;
      // `move_long_log` does this. SQLite would not report that it failed.
      connection.pragma_update(None, "wal_autocheckpoint", 0)?;
      connection.pragma_update(None, "journal_size_limit", MAX_LOG_BYTES)?;
      // The journals of savepoints stay in memory.
      connection.pragma_update(None, "temp_store", "MEMORY")?;
      // Overwrite deleted bytes in pages that are written anyway. Pages that become free are returned to the file system.
      connection.pragma_update(None, "secure_delete", "FAST")?;
      // On macOS, only this sync reaches the disk; on other systems every sync does.
      connection.pragma_update(None, "fullfsync", durability.is_full())?;
      connection.pragma_update(None, "checkpoint_fullfsync", durability.is_full())?;
      let mut writer = Self {
        identity: identity(path).map_err(|error| Error::io("open", path, error))?,
        log: identity(&log_path(path)).ok(),
        connection,
        path: path.to_owned(),
        durability,
        deadline,
        syncs: durability.is_full(),
        is_log_suspect: false,
      };
      writer.set_syncs(durability.is_full())?;
      if durability.is_full() {
        database_file::sync_names(path)?;
      }
      Ok(writer)
    };
    open().map_err(|error| error.into_error("open", &path.to_string_lossy()))
  }

  /// Sets until when transactions wait for other processes. Each is tried at least once.
  pub fn set_deadline(&mut self, deadline: Instant) {
    self.deadline = deadline;
  }

  /// Whether the file or its log was removed, or another file has taken its name: what is written would be lost.
  pub fn was_replaced(&self) -> bool {
    identity(&self.path).ok() != Some(self.identity)
      || (self.log.is_some() && identity(&log_path(&self.path)).ok() != self.log)
  }

  /// Commits all operations in one transaction, with one sync. An operation that fails is rolled back alone.
  pub fn commit(&mut self, operations: &mut [Operation<'_>]) -> Vec<Result<bool>> {
    let syncs = self.durability.is_full() && operations.iter().any(|operation| operation.needs_sync);
    let run = self.begin(syncs).and_then(|()| self.run_each(operations));
    let (outcomes, committed) = match run {
      Ok(outcomes) => (outcomes, self.end()),
      Err(error) => {
        self.roll_back();
        let all = operations.iter().map(|operation| {
          let Action { doing, name } = operation.action;
          Err(error.to_error(doing, name))
        });
        return all.collect();
      }
    };
    let result = |(operation, outcome): (&Operation<'_>, Result<bool, SqliteError>)| {
      let Action { doing, name } = operation.action;
      match (outcome, &committed) {
        (Err(error), _) => Err(error.into_error(doing, name)),
        (Ok(_), Err(error)) => Err(error.to_commit_error(doing, name)),
        (Ok(changed), Ok(())) => Ok(changed),
      }
    };
    operations.iter().zip(outcomes).map(result).collect()
  }

  /// Moves the log into the database and truncates both files, unless another connection reads: then a later commit does it. Returns
  /// whether it was done.
  pub fn truncate_files(&mut self) -> Result<bool, DbError> {
    let log = self.move_log("PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(!log.is_busy)
  }

  /// Moves the log into the database, as far as no other connection reads it, and closes the connection, even after an error. The rest
  /// of the log stays valid, and the next connection reads it.
  pub fn close(mut self) -> Result<(), DbError> {
    self.roll_back();
    // If another file has taken the name, the log beside it belongs to that file.
    let moved = if self.was_replaced() {
      Ok(())
    } else {
      match self.truncate_files() {
        Err(error) if !error.is_busy() => Err(error),
        _ => Ok(()),
      }
    };
    // SQLite closes the file so that other connections of this process keep their locks.
    let closed = self.connection.close().map_err(|(_, error)| error.into());
    moved.and(closed)
  }

  /// Moves a long log into the database, as far as no other connection reads it. Committed data is safe even if this fails.
  pub fn move_long_log(&mut self) {
    let log = self.move_log("PRAGMA wal_checkpoint(NOOP)");
    if log.is_ok_and(|log| log.pages >= LONG_LOG_PAGES) {
      let _ = self.move_log("PRAGMA wal_checkpoint(PASSIVE)");
    }
  }

  /// Runs a statement that moves the log, or reports its state.
  fn move_log(&mut self, sql: &str) -> Result<LogState, DbError> {
    let log = self.connection.prepare_cached(sql).and_then(|mut statement| {
      statement.query_row([], |row| {
        Ok(LogState {
          is_busy: row.get(0)?,
          pages: row.get(1)?,
        })
      })
    });
    let log = log.map_err(DbError::from);
    self.note_io_error(&log);
    log
  }

  fn note_io_error<T>(&mut self, result: &Result<T, DbError>) {
    self.is_log_suspect |= matches!(result, Err(error) if error.code == ErrorCode::SystemIoFailure);
  }

  fn begin(&mut self, syncs: bool) -> Result<(), DbError> {
    if self.was_replaced() {
      let message = "the database file, or its log, was removed or replaced after it had been opened. \
        Call initialize() to open the file that has its name now";
      return Err(DbError::new(ErrorCode::ReadOnly, message));
    }
    // End a transaction in which a callback panicked.
    self.roll_back();
    if self.is_log_suspect {
      self.restart_log()?;
    }
    if syncs != self.syncs {
      self.set_syncs(syncs)?;
    }
    retry_while_busy(self.deadline, DbError::is_busy, || self.execute("BEGIN IMMEDIATE"))
  }

  /// Moves the log into the database, so that it begins anew. After a failed sync, a second one may succeed although pages of the log
  /// were lost, and with them everything that is appended behind them.
  fn restart_log(&mut self) -> Result<(), DbError> {
    self.set_syncs(self.durability.is_full())?;
    retry_while_busy(self.deadline, DbError::is_busy, || {
      let busy = || DbError::new(ErrorCode::DatabaseBusy, "another process keeps reading the database");
      self.truncate_files()?.then_some(()).ok_or_else(busy)
    })?;
    self.is_log_suspect = false;
    Ok(())
  }

  /// Runs each operation in a savepoint. An error means that the transaction was rolled back, with all operations.
  fn run_each(&self, operations: &mut [Operation<'_>]) -> Result<Vec<Result<bool, SqliteError>>, DbError> {
    // A single operation is the whole transaction.
    let has_savepoints = operations.len() > 1;
    let mut outcomes = Vec::with_capacity(operations.len());
    for operation in operations {
      if has_savepoints {
        self.execute("SAVEPOINT operation")?;
      }
      let outcome = (operation.run)(&self.connection);
      if let Err(error) = &outcome {
        // Some errors, such as a full disk, end the whole transaction.
        if self.connection.is_autocommit() {
          return match error {
            SqliteError::Database(error) => Err(error.clone()),
            SqliteError::Store(_) => Err(DbError::new(ErrorCode::OperationAborted, "the transaction was ended")),
          };
        }
        let undo = if has_savepoints {
          "ROLLBACK TO operation"
        } else {
          "ROLLBACK"
        };
        self.execute(undo)?;
      }
      if has_savepoints {
        self.execute("RELEASE operation")?;
      }
      outcomes.push(outcome);
    }
    if !self.connection.is_autocommit() {
      self.free_pages()?;
    }
    Ok(outcomes)
  }

  fn end(&mut self) -> Result<(), DbError> {
    if self.connection.is_autocommit() {
      return Ok(());
    }
    let ended = self.execute("COMMIT");
    self.note_io_error(&ended);
    self.roll_back();
    ended?;
    if self.log.is_none() {
      self.log = identity(&log_path(&self.path)).ok();
    }
    if self.was_replaced() {
      // The file was replaced while this commit waited for its turn, so the commit is in a file, or a log, without a name.
      let message = "the database file, or its log, was removed or replaced during the commit. \
        Call initialize() to open the file that has its name now";
      return Err(DbError::new(ErrorCode::SystemIoFailure, message));
    }
    Ok(())
  }

  /// Returns a few free pages to the file system if there are many: the file shrinks without delaying any commit much.
  fn free_pages(&self) -> Result<(), DbError> {
    let free = count(&self.connection, "PRAGMA freelist_count")?;
    if free > SPARE_PAGES && free > count(&self.connection, "PRAGMA page_count")? / 4 {
      incremental_vacuum(&self.connection, PAGES_FREED_BY_COMMIT)?;
    }
    Ok(())
  }

  /// Without `syncs`, and for all commits of a relaxed store, the level is NORMAL: the log is synced only before it is moved into the
  /// database. A power cut then loses the last transactions. With OFF it could destroy the whole database.
  fn set_syncs(&mut self, syncs: bool) -> Result<(), DbError> {
    let level = if syncs { "FULL" } else { "NORMAL" };
    self.connection.pragma_update(None, "synchronous", level)?;
    self.syncs = syncs;
    Ok(())
  }

  fn roll_back(&self) {
    if !self.connection.is_autocommit() {
      // If this fails, the next transaction cannot begin, and reports it.
      let _ = self.execute("ROLLBACK");
    }
  }

  fn execute(&self, sql: &str) -> Result<(), DbError> {
    self.connection.prepare_cached(sql)?.execute([])?;
    Ok(())
  }
}

/// Returns up to `pages` free pages to the file system by moving the last pages of the file into them. Returns whether more are free.
pub fn incremental_vacuum(connection: &Connection, pages: u32) -> rusqlite::Result<bool> {
  // Each step frees one page.
  let mut statement = connection.prepare_cached(&format!("PRAGMA incremental_vacuum({pages})"))?;
  let mut rows = statement.query([])?;
  while rows.next()?.is_some() {}
  Ok(count(connection, "PRAGMA freelist_count")? > 0)
}

fn count(connection: &Connection, sql: &str) -> rusqlite::Result<u64> {
  connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}
