//! Locks on open files, which the system takes back when a process dies.

use std::fs::{File, TryLockError};
use std::io;

/// Waits for the lock. Where the file system has no locks, there is none to wait for.
pub fn wait(file: File) -> io::Result<File> {
  loop {
    match file.lock() {
      Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
      Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
      _ => return Ok(file),
    }
  }
}

/// Takes the lock, unless somebody else holds it.
pub fn take(file: File) -> io::Result<Option<File>> {
  match file.try_lock() {
    Ok(()) => Ok(Some(file)),
    Err(TryLockError::WouldBlock) => Ok(None),
    Err(TryLockError::Error(error)) => Err(error),
  }
}

/// Whether nobody holds the lock; `None` where the file system cannot tell.
pub fn is_free(file: File) -> Option<bool> {
  take(file).ok().map(|taken| taken.is_some())
}
