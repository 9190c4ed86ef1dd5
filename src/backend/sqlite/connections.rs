//! The file, and connections to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::failure::Failure;
use crate::backend::Durability;
use crate::backend::file::SystemDisk;
use crate::backend::file::disk::{Directory, Disk};
use crate::types::error::{Code, Error, Result};

/// How many idle readers stay open: no more calls than this run at once, as a rule.
const IDLE_READERS: usize = 8;

/// More than there are different statements.
const CACHED_STATEMENTS: usize = 64;

/// Whoever closes a file loses all locks that its process has on it, those of SQLite too. So nobody may open the database
/// in this process while somebody who made its file has still to close it.
static MAKING: Mutex<()> = Mutex::new(());

/// Makes the file if it is missing, for its owner only; SQLite gives its other files the same mode. The names of the
/// directories above it are as durable afterwards as is asked for.
pub fn make_file(path: &Path, durability: Durability) -> Result<()> {
  let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
    return Err(Error::invalid_argument(format!("{} names no file", path.display())));
  };
  let make = || -> io::Result<()> {
    let disk = SystemDisk::new(parent.to_owned());
    disk.make_base(durability.is_full())?;
    let directory = disk.open_base()?;
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    match directory.create(name) {
      Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
      created => created.map(drop),
    }
  };
  make().map_err(|error| Error::io("create", path, error))?;
  if identity(path).is_ok_and(|identity| identity.is_file) {
    Ok(())
  } else {
    let message = format!("{} is not a file, so it is no database", path.display());
    Err(Error::new(Code::Corrupt, message))
  }
}

/// Makes the names of the database and of its log durable, whoever made them. SQLite tries that too, but does not say
/// whether it succeeded.
pub fn sync_names(path: &Path) -> Result<()> {
  let sync = |parent: &Path| SystemDisk::new(parent.to_owned()).open_base()?.sync();
  let synced = path.parent().map_or(Ok(()), sync);
  synced.map_err(|error| Error::io("sync the directory of", path, error))
}

/// Tells a file from another that has taken its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
  is_file: bool,
  numbers: (u64, u64),
}

#[cfg(unix)]
pub fn identity(path: &Path) -> io::Result<Identity> {
  use std::os::unix::fs::MetadataExt;
  let data = fs::metadata(path)?;
  Ok(Identity {
    is_file: data.is_file(),
    numbers: (data.dev(), data.ino()),
  })
}

/// Windows lets nobody take the name of a file that SQLite has open.
#[cfg(not(unix))]
pub fn identity(path: &Path) -> io::Result<Identity> {
  Ok(Identity {
    is_file: fs::metadata(path)?.is_file(),
    numbers: (0, 0),
  })
}

/// A connection to a file that exists; `wait` is how long it lets SQLite wait for a lock.
pub fn open(path: &Path, access: OpenFlags, wait: Duration) -> Result<Connection, Failure> {
  // A connection is used by one thread at a time, so it needs no lock of its own.
  let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
  connection.busy_timeout(wait)?;
  connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
  // A plan does not depend on what is bound to it: otherwise a statement would be planned anew each time.
  connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
  // What must be moved from the log is moved before. The last connection would remove the log, too, and a process whose locks were
  // lost, because it opened and closed the file in another way, would take itself for the last one, or another process would.
  connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
  // Somebody else may have put functions into the schema.
  connection.pragma_update(None, "trusted_schema", false)?;
  Ok(connection)
}

/// Tries again until the deadline while another process holds the lock; at least once. SQLite's own waiting looks ten times a second in the end:
/// beside a process that writes without a pause it could miss every moment in which the lock is free.
pub fn patiently<T, E>(
  deadline: Instant,
  is_busy: impl Fn(&E) -> bool,
  mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
  const PAUSE: Duration = Duration::from_millis(1);
  loop {
    match attempt() {
      Err(error) if is_busy(&error) && Instant::now() < deadline => thread::sleep(PAUSE),
      answer => return answer,
    }
  }
}

/// Connections that only read. Neither they nor the writer wait for each other.
#[derive(Debug)]
pub struct Readers {
  path: PathBuf,
  /// Readers wait for nobody but a process that repairs the log after a crash.
  patience: Duration,
  idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
  connections: Vec<Connection>,
  /// How often another file took the place of the old one.
  generation: u64,
}

impl Readers {
  pub fn new(path: PathBuf, patience: Duration) -> Self {
    Self {
      path,
      patience,
      idle: Mutex::default(),
    }
  }

  /// Everything that `read` sees is of one instant.
  pub fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
    let (idle, generation) = {
      let mut idle = self.idle();
      (idle.connections.pop(), idle.generation)
    };
    let connection = match idle {
      Some(connection) => connection,
      None => open(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY, self.patience)?,
    };
    let answer = read(&*connection.unchecked_transaction()?);
    let mut idle = self.idle();
    if idle.generation == generation && idle.connections.len() < IDLE_READERS && connection.is_autocommit() {
      idle.connections.push(connection);
    }
    answer
  }

  /// Lets go of the file that used to be there.
  pub fn forget(&self) {
    let mut idle = self.idle();
    idle.connections.clear();
    idle.generation += 1;
  }

  fn idle(&self) -> MutexGuard<'_, Idle> {
    // Only whole connections come and go under the lock.
    self.idle.lock().unwrap_or_else(PoisonError::into_inner)
  }
}
