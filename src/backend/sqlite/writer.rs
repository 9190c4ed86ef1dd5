//! The one connection of a store that writes, and the transactions on it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::connections::{self, Identity, identity, patiently};
use super::failure::{DbError, Failure};
use super::schema;
use crate::backend::Durability;
use crate::types::error::{Error, Result};

/// When the log has this many pages, whoever made it so long moves them into the database.
const LOG_PAGES: i64 = 4000;

/// A log that became longer than this by one large transaction is cut when it begins anew.
const LOG_BYTES: u32 = 32 << 20;

/// Free pages that stay for those to come; and how many of the others a transaction gives back to the file system.
const SPARE_PAGES: u64 = 1024;
const GIVEN_BACK_AT_ONCE: u32 = 64;

/// What a writer asks for: a part of a transaction that succeeds or fails by itself. The answer is whether there was
/// something to change.
pub struct Operation<'a> {
  pub label: &'a Label,
  /// Whether it must have reached the disk when its caller is told.
  pub must_last: bool,
  pub run: &'a mut Run<'a>,
}

pub type Run<'a> = dyn FnMut(&Connection) -> Result<bool, Failure> + 'a;

/// For messages: a verb, and the name of what it is done to.
#[derive(Debug)]
pub struct Label {
  pub doing: &'static str,
  pub name: String,
}

#[derive(Debug)]
pub struct Writer {
  connection: Connection,
  path: PathBuf,
  identity: Identity,
  /// Of the log, which stays as long as a connection uses it.
  log: Option<Identity>,
  durability: Durability,
  /// Until when the next transactions wait for other processes.
  deadline: Instant,
  /// Whether commits are synced, as the connection is set now.
  syncs: bool,
  /// The log could not be synced, or not be moved, since it began.
  is_log_suspect: bool,
}

/// What SQLite says about its log.
struct Log {
  /// Somebody kept it from being moved whole.
  is_busy: bool,
  pages: i64,
}

impl Writer {
  /// Opens the database, making the file and the tables if need be.
  pub fn open(path: &Path, durability: Durability, deadline: Instant) -> Result<Self> {
    connections::make_file(path, durability)?;
    let open = || -> Result<Self, Failure> {
      let mut connection = connections::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, Duration::ZERO)?;
      patiently(deadline, Failure::is_busy, || schema::ensure(&mut connection, path))?;
      // SQLite would do it by itself, and keep to itself when it fails.
      connection.pragma_update(None, "wal_autocheckpoint", 0)?;
      connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
      // What a savepoint has to remember stays in memory.
      connection.pragma_update(None, "temp_store", "MEMORY")?;
      // What was deleted is written over where its page is written anyway; pages that become free are given back.
      connection.pragma_update(None, "secure_delete", "FAST")?;
      // On macOS, a sync that reaches the platter; elsewhere every sync does.
      connection.pragma_update(None, "fullfsync", durability.is_full())?;
      connection.pragma_update(None, "checkpoint_fullfsync", durability.is_full())?;
      let mut writer = Self {
        identity: identity(path).map_err(|error| Error::io("open", path, error))?,
        log: identity(&log_of(path)).ok(),
        connection,
        path: path.to_owned(),
        durability,
        deadline,
        syncs: durability.is_full(),
        is_log_suspect: false,
      };
      writer.set_syncs(durability.is_full())?;
      if durability.is_full() {
        connections::sync_names(path)?;
      }
      Ok(writer)
    };
    open().map_err(|failure| failure.into_error("open", &path.to_string_lossy()))
  }

  /// For callers whose time is over then: each transaction is tried at least once.
  pub fn wait_until(&mut self, deadline: Instant) {
    self.deadline = deadline;
  }

  /// Whether another file, or none, has the name of the database or of its log now: what is written would be lost.
  pub fn has_moved(&self) -> bool {
    identity(&self.path).ok() != Some(self.identity)
      || (self.log.is_some() && identity(&log_of(&self.path)).ok() != self.log)
  }

  /// Runs operations in one transaction, each by itself, and makes all of them durable with one sync.
  pub fn commit(&mut self, operations: &mut [Operation<'_>]) -> Vec<Result<bool>> {
    let syncs = self.durability.is_full() && operations.iter().any(|operation| operation.must_last);
    let run = self.begin(syncs).and_then(|()| self.run_each(operations));
    let (outcomes, committed) = match run {
      Ok(outcomes) => (outcomes, self.end()),
      Err(refusal) => {
        self.roll_back();
        let all = operations.iter().map(|operation| {
          let Label { doing, name } = operation.label;
          Err(refusal.to_error(doing, name))
        });
        return all.collect();
      }
    };
    let answer = |(operation, outcome): (&Operation<'_>, Result<bool, Failure>)| {
      let Label { doing, name } = operation.label;
      match (outcome, &committed) {
        (Err(failure), _) => Err(failure.into_error(doing, name)),
        (Ok(_), Err(refusal)) => Err(refusal.to_commit_error(doing, name)),
        (Ok(changed), Ok(())) => Ok(changed),
      }
    };
    operations.iter().zip(outcomes).map(answer).collect()
  }

  /// Moves the log into the database and cuts both files to what they need, unless somebody is reading: then a later
  /// commit does it. The answer is whether it was done.
  pub fn shorten_files(&mut self) -> Result<bool, DbError> {
    let moved = self.checkpoint("PRAGMA wal_checkpoint(TRUNCATE)");
    Ok(!moved?.is_busy)
  }

  /// Moves the log into the database, as far as no other connection reads it, and closes the connection. It is closed even if
  /// the answer is an error; what is still in the log is read from there.
  pub fn close(mut self) -> Result<(), DbError> {
    self.roll_back();
    // The log beside a file that has taken the name belongs to that file.
    let moved = if self.has_moved() {
      Ok(())
    } else {
      match self.shorten_files() {
        Err(refusal) if !refusal.is_busy() => Err(refusal),
        _ => Ok(()),
      }
    };
    // SQLite's own close: locks of other connections of this process stay in force.
    let closed = self.connection.close().map_err(|(_, error)| error.into());
    moved.and(closed)
  }

  /// Moves a long log into the database, as far as nobody reads it. What was committed is safe even if that fails.
  pub fn move_long_log(&mut self) {
    let log = self.checkpoint("PRAGMA wal_checkpoint(NOOP)");
    if log.is_ok_and(|log| log.pages >= LOG_PAGES) {
      let _ = self.checkpoint("PRAGMA wal_checkpoint(PASSIVE)");
    }
  }

  fn checkpoint(&mut self, sql: &str) -> Result<Log, DbError> {
    let log = self.connection.prepare_cached(sql).and_then(|mut statement| {
      statement.query_row([], |row| {
        Ok(Log {
          is_busy: row.get(0)?,
          pages: row.get(1)?,
        })
      })
    });
    let log = log.map_err(DbError::from);
    self.suspect(&log);
    log
  }

  fn suspect<T>(&mut self, outcome: &Result<T, DbError>) {
    self.is_log_suspect |= matches!(outcome, Err(refusal) if refusal.code == ErrorCode::SystemIoFailure);
  }

  fn begin(&mut self, syncs: bool) -> Result<(), DbError> {
    if self.has_moved() {
      let message = "the file, or its log, was removed or replaced after it had been opened. Call initialize() to open what is there";
      return Err(DbError::new(ErrorCode::ReadOnly, message));
    }
    // Somebody panicked in the middle of a transaction.
    self.roll_back();
    if self.is_log_suspect {
      self.begin_log()?;
    }
    if syncs != self.syncs {
      self.set_syncs(syncs)?;
    }
    patiently(self.deadline, DbError::is_busy, || self.execute("BEGIN IMMEDIATE"))
  }

  /// After a failed sync, whatever a second one says of the same log proves nothing: its pages may be gone, and all that
  /// was appended behind them would go with them. So everything moves into the database first, and the log begins anew.
  fn begin_log(&mut self) -> Result<(), DbError> {
    self.set_syncs(self.durability.is_full())?;
    patiently(self.deadline, DbError::is_busy, || {
      let busy = || DbError::new(ErrorCode::DatabaseBusy, "another process keeps reading the database");
      self.shorten_files()?.then_some(()).ok_or_else(busy)
    })?;
    self.is_log_suspect = false;
    Ok(())
  }

  /// An error means that the transaction is gone, with everything that was done in it.
  fn run_each(&self, operations: &mut [Operation<'_>]) -> Result<Vec<Result<bool, Failure>>, DbError> {
    // One alone has the transaction to itself.
    let has_savepoints = operations.len() > 1;
    let mut outcomes = Vec::with_capacity(operations.len());
    for operation in operations {
      if has_savepoints {
        self.execute("SAVEPOINT operation")?;
      }
      let outcome = (operation.run)(&self.connection);
      if let Err(failure) = &outcome {
        // A full disk, for one, may end the whole transaction.
        if self.connection.is_autocommit() {
          return match failure {
            Failure::Refused(refusal) => Err(refusal.clone()),
            Failure::Ours(_) => Err(DbError::new(ErrorCode::OperationAborted, "the transaction was ended")),
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
      self.give_back()?;
    }
    Ok(outcomes)
  }

  fn end(&mut self) -> Result<(), DbError> {
    if self.connection.is_autocommit() {
      return Ok(());
    }
    let ended = self.execute("COMMIT");
    self.suspect(&ended);
    self.roll_back();
    ended?;
    if self.log.is_none() {
      self.log = identity(&log_of(&self.path)).ok();
    }
    if self.has_moved() {
      // For example while it waited for its turn: the commit is in a file without a name, or in its log.
      let message = "the file, or its log, was removed or replaced meanwhile. Call initialize() to open what is there";
      return Err(DbError::new(ErrorCode::SystemIoFailure, message));
    }
    Ok(())
  }

  /// Of many free pages, a few: what was deleted goes back to the file system without holding anybody up for long.
  fn give_back(&self) -> Result<(), DbError> {
    let free = count(&self.connection, "PRAGMA freelist_count")?;
    if free > SPARE_PAGES && free > count(&self.connection, "PRAGMA page_count")? / 4 {
      give_back_pages(&self.connection, GIVEN_BACK_AT_ONCE)?;
    }
    Ok(())
  }

  /// For a commit that need not last yet, as for all of a relaxed store, NORMAL: the log is synced before it is moved into
  /// the database, and at no other time. A power cut then takes the last transactions; with OFF it could take everything.
  fn set_syncs(&mut self, syncs: bool) -> Result<(), DbError> {
    let level = if syncs { "FULL" } else { "NORMAL" };
    self.connection.pragma_update(None, "synchronous", level)?;
    self.syncs = syncs;
    Ok(())
  }

  fn roll_back(&self) {
    if !self.connection.is_autocommit() {
      // There is nothing better to do if this fails: the next transaction cannot begin then, and says so.
      let _ = self.execute("ROLLBACK");
    }
  }

  fn execute(&self, sql: &str) -> Result<(), DbError> {
    self.connection.prepare_cached(sql)?.execute([])?;
    Ok(())
  }
}

/// The name that SQLite gives to the log of a database.
fn log_of(path: &Path) -> PathBuf {
  let mut name = path.as_os_str().to_owned();
  name.push("-wal");
  name.into()
}

/// Moves the last pages of the file into free ones, as many as that, and cuts it. The answer is whether there are more.
pub fn give_back_pages(connection: &Connection, pages: u32) -> rusqlite::Result<bool> {
  // Each step gives back one page.
  let mut statement = connection.prepare_cached(&format!("PRAGMA incremental_vacuum({pages})"))?;
  let mut rows = statement.query([])?;
  while rows.next()?.is_some() {}
  Ok(count(connection, "PRAGMA freelist_count")? > 0)
}

fn count(connection: &Connection, sql: &str) -> rusqlite::Result<u64> {
  connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}
