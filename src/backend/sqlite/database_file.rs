//! The database file and its name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::backend::Durability;
use crate::backend::file::SystemDisk;
use crate::backend::file::disk::{Directory, Disk};
use crate::types::error::{Code, Error, Result};

/// Held while this process has a descriptor of its own of a database file. When a process closes a file, it loses all its POSIX locks
/// on that file, those of SQLite too: no connection may take a lock before that descriptor is closed.
static CREATING: Mutex<()> = Mutex::new(());

/// Creates the file if it is missing, for its owner only; SQLite gives its other files the same mode. With full durability, the names
/// of the directories above it survive a crash afterwards.
pub fn create(path: &Path, durability: Durability) -> Result<()> {
  let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
    return Err(Error::invalid_argument(format!("{} names no file", path.display())));
  };
  let create = || -> io::Result<()> {
    let disk = SystemDisk::new(parent.to_owned());
    disk.make_base(durability.is_full())?;
    let directory = disk.open_base()?;
    let _creating = CREATING.lock();
    match directory.create(name) {
      Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
      created => created.map(drop),
    }
  };
  create().map_err(|error| Error::io("create", path, error))?;
  if identity(path).is_ok_and(|identity| identity.is_file) {
    Ok(())
  } else {
    let message = format!("{} is not a file, so it is not a database", path.display());
    Err(Error::new(Code::Corrupt, message))
  }
}

/// Makes the names of the database and of its log durable. SQLite tries to, but does not report whether it succeeded.
pub fn sync_names(path: &Path) -> Result<()> {
  let sync = |parent: &Path| SystemDisk::new(parent.to_owned()).open_base()?.sync();
  let synced = path.parent().map_or(Ok(()), sync);
  synced.map_err(|error| Error::io("sync the directory of", path, error))
}

/// The name that SQLite gives to the log of a database.
pub fn log_path(path: &Path) -> PathBuf {
  let mut name = path.as_os_str().to_owned();
  name.push("-wal");
  name.into()
}

/// Distinguishes a file from another one that has taken its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
  is_file: bool,
  /// Device and inode.
  numbers: (u64, u64),
}

#[cfg(unix)]
pub fn identity(path: &Path) -> io::Result<FileIdentity> {
  use std::os::unix::fs::MetadataExt;
  let data = fs::metadata(path)?;
  Ok(FileIdentity {
    is_file: data.is_file(),
    numbers: (data.dev(), data.ino()),
  })
}

/// Windows does not let another file take the name of one that SQLite has open.
#[cfg(not(unix))]
pub fn identity(path: &Path) -> io::Result<FileIdentity> {
  Ok(FileIdentity {
    is_file: fs::metadata(path)?.is_file(),
    numbers: (0, 0),
  })
}
