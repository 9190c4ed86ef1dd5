//! Directories whose names are durable: made and synced once a process, then remembered.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::disk::{self, Durability};
use crate::error::{Error, Result};

#[derive(Debug)]
pub struct Directories {
  base: PathBuf,
  durability: Durability,
  /// Made and synced, or found and synced, by this process.
  known: Mutex<HashSet<PathBuf>>,
}

impl Directories {
  pub fn new(base: PathBuf, durability: Durability) -> Self {
    Self {
      base,
      durability,
      known: Mutex::default(),
    }
  }

  /// Makes sure that `directory` exists and that its name survives a power cut.
  ///
  /// A directory that is already there is synced into its parent too, once: whoever made it may have died, or may
  /// not have got that far yet. Above the base only what is made here is synced.
  pub fn ensure(&self, directory: &Path) -> Result<()> {
    if self.known().contains(directory) {
      return Ok(());
    }
    self.make(directory)
  }

  fn make(&self, directory: &Path) -> Result<()> {
    let fail = |error| Error::io("create directory", directory, error);
    let made = match make_unless_there(directory) {
      Err(error) if error.kind() == io::ErrorKind::NotFound => {
        let Some(parent) = directory.parent() else {
          return Err(fail(error));
        };
        self.make(parent)?;
        make_unless_there(directory)
      }
      made => made,
    };
    let made = made.map_err(fail)?;
    let is_ours = directory.starts_with(&self.base) && directory != self.base;
    if let Some(parent) = directory.parent()
      && (made || is_ours)
    {
      if is_ours && parent != self.base {
        self.ensure(parent)?;
      }
      disk::sync_directory(parent, self.durability).map_err(fail)?;
    }
    self.known().insert(directory.to_owned());
    Ok(())
  }

  /// Forgets a directory that went away, and all below it.
  pub fn forget_below(&self, directory: &Path) {
    // What went away may be a directory further up.
    let top = self.base.join(
      directory
        .strip_prefix(&self.base)
        .unwrap_or(directory)
        .iter()
        .next()
        .unwrap_or_default(),
    );
    self
      .known()
      .retain(|known| !known.starts_with(&top) && *known != self.base);
  }

  fn known(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
    // Only whole inserts and removals happen under the lock.
    self.known.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

/// Makes one directory; `false` if it was there.
fn make_unless_there(directory: &Path) -> io::Result<bool> {
  match disk::make_directory(directory) {
    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
      // What was there a moment ago may be a file, or may be gone: the second error says so.
      if fs::metadata(directory)?.is_dir() {
        Ok(false)
      } else {
        Err(error)
      }
    }
    made => made.map(|()| true),
  }
}
