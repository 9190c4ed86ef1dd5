//! Directories whose names are durable: each is created or found, synced and cleaned once per process.

use std::io;

use super::cleanup;
use super::disk::{Directory, Disk};
use super::durable::Durability;
use crate::types::id::SessionId;
use crate::types::session_cache::{SessionCache, SessionKey};

/// The number of directories that are known to be durable. Another one costs a sync.
const KNOWN_DIRECTORIES: u64 = 1 << 17;

/// The directories below the base that this process has synced and cleaned.
#[derive(Debug)]
pub struct Directories {
  known: SessionCache<DirectoryPath, ()>,
}

impl Default for Directories {
  fn default() -> Self {
    Self {
      known: SessionCache::new(KNOWN_DIRECTORIES),
    }
  }
}

/// The names of a directory below the base, joined by `/`. The first is the session; the base itself has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DirectoryPath(String);

impl DirectoryPath {
  fn new(path: &[&str]) -> Self {
    Self(path.join("/"))
  }
}

impl SessionKey for DirectoryPath {
  fn is_of(&self, session: &SessionId) -> bool {
    self.0.split('/').next() == Some(session.as_str())
  }
}

impl Directories {
  /// Opens the directory at `path`, and creates what is missing. Its name survives a power cut.
  ///
  /// An existing directory is synced into its parent once too: the process that created it may have died before its sync, or may
  /// not have reached it yet. The leftovers of dead writers in it are removed at the same time.
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
        self.add(upper);
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
    self.add(&[]);
    Ok(base)
  }

  /// Drops what is known of the directories of a session that was removed or replaced.
  pub fn forget(&self, session: &SessionId) {
    self.known.forget(session);
  }

  fn is_known(&self, path: &[&str]) -> bool {
    self.known.get(&DirectoryPath::new(path)).is_some()
  }

  fn add(&self, path: &[&str]) {
    self.known.update(&DirectoryPath::new(path), |known| *known = Some(()));
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
