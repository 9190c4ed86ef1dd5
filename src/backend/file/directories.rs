//! Directories whose names are durable: made, synced and swept once a process, then remembered.

use std::collections::HashSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::cleanup;
use super::disk::{Directory, Disk};
use super::durable::Durability;

/// Which directories below the base this process has seen to, as their names joined by `/`.
#[derive(Debug, Default)]
pub struct Directories {
  known: Mutex<HashSet<String>>,
}

impl Directories {
  /// Opens the directory that `path` leads to, making what is missing. Its name survives a power cut.
  ///
  /// A directory that is already there is synced into its parent too, once: whoever made it may have died, or may
  /// not have got that far yet. At the same time, what dead writers left in it is cleared away.
  pub fn ensure<D: Disk>(&self, disk: &D, path: &[&str], durability: Durability) -> io::Result<D::Directory> {
    if !path.is_empty()
      && self.is_known(path)
      && let Ok(directory) = open(disk, path)
    {
      return Ok(directory);
    }
    let mut directory = self.ensure_base(disk, durability)?;
    for depth in 1..=path.len() {
      let (upper, name) = (&path[..depth], path[depth - 1]);
      let made = match directory.make_directory(name) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
      };
      let below = directory.open_directory(name)?;
      if made || !self.is_known(upper) {
        if durability.is_full() {
          directory.sync()?;
        }
        cleanup::sweep(&below);
        self.known().insert(upper.join("/"));
      }
      directory = below;
    }
    Ok(directory)
  }

  fn ensure_base<D: Disk>(&self, disk: &D, durability: Durability) -> io::Result<D::Directory> {
    if self.is_known(&[])
      && let Ok(base) = disk.open_base()
    {
      return Ok(base);
    }
    disk.make_base(durability.is_full())?;
    let base = disk.open_base()?;
    self.known().insert(String::new());
    Ok(base)
  }

  /// Forgets a session whose directories were removed.
  pub fn forget(&self, session: &str) {
    let below = format!("{session}/");
    self.known().retain(|path| path != session && !path.starts_with(&below));
  }

  fn is_known(&self, path: &[&str]) -> bool {
    self.known().contains(&path.join("/"))
  }

  fn known(&self) -> MutexGuard<'_, HashSet<String>> {
    // Only whole inserts and removals happen under the lock.
    self.known.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

/// Opens a directory below the base, one name at a time.
pub fn open<D: Disk>(disk: &D, path: &[&str]) -> io::Result<D::Directory> {
  let mut directory = disk.open_base()?;
  for name in path {
    directory = directory.open_directory(name)?;
  }
  Ok(directory)
}
