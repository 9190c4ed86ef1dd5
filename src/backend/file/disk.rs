//! The durable steps. Each is owned by one function here; the syncs are inside them, not at call sites.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::error::{Error, Result};

/// How much must have reached the disk before a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
  /// Files and directories are synced: what was acknowledged survives a power cut.
  #[default]
  Full,
  /// Nothing is synced: what was acknowledged survives the process, not the machine. Still atomic.
  Relaxed,
}

/// A file that nobody reads yet; it is removed again unless it gets its name.
#[derive(Debug)]
pub struct Temporary {
  path: PathBuf,
  has_name: bool,
}

impl Temporary {
  /// Writes and syncs `bytes` beside `target`.
  pub fn write(target: &Path, bytes: &[u8], durability: Durability) -> Result<Self> {
    let path = temporary_path(target);
    // From here on, an early return removes what there is of the file.
    let temporary = Self { path, has_name: false };
    write_new_file(&temporary.path, bytes, durability).map_err(|error| Error::io("write", target, error))?;
    Ok(temporary)
  }

  /// Gives the file its name, replacing what was there. The directory is not synced yet.
  pub fn persist(mut self, target: &Path) -> Result<()> {
    rename(&self.path, target).map_err(|error| Error::io("write", target, error))?;
    self.has_name = true;
    Ok(())
  }
}

impl Drop for Temporary {
  fn drop(&mut self) {
    if !self.has_name {
      // If even this fails there is nothing better to do: the name marks it as a left-over.
      let _ = fs::remove_file(&self.path);
    }
  }
}

/// A name in the directory of `target` that nobody can guess and no reader takes for an item.
pub fn temporary_path(target: &Path) -> PathBuf {
  let name = target.file_name().unwrap_or_default().to_string_lossy();
  target.with_file_name(format!(".{name}.{}.tmp", Uuid::new_v4().simple()))
}

/// Creates a file that must not exist yet, and syncs its contents.
pub fn write_new_file(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
  let mut options = OpenOptions::new();
  options.write(true).create_new(true);
  #[cfg(unix)]
  std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
  let mut file = options.open(path)?;
  file.write_all(bytes)?;
  match durability {
    // On macOS the standard library asks for F_FULLFSYNC, which reaches the platter.
    Durability::Full => file.sync_all(),
    Durability::Relaxed => Ok(()),
  }
}

/// Renames, replacing what was there.
#[cfg(not(windows))]
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
  fs::rename(from, to)
}

/// Renames, replacing what was there. Virus scanners and indexers hold files open for moments: those are waited out.
#[cfg(windows)]
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
  use std::time::Duration;
  let mut wait = Duration::from_millis(1);
  loop {
    match fs::rename(from, to) {
      Err(error) if error.kind() == io::ErrorKind::PermissionDenied && wait < Duration::from_secs(2) => {
        std::thread::sleep(wait);
        wait *= 2;
      }
      answer => return answer,
    }
  }
}

/// Makes the name of `path` durable. It is there already: when this fails, nobody knows whether it survives.
pub fn sync_parent(path: &Path, durability: Durability) -> Result<()> {
  match path.parent() {
    Some(parent) => {
      sync_directory(parent, durability).map_err(|error| Error::outcome_unknown("sync the directory of", path, error))
    }
    None => Ok(()),
  }
}

/// Makes the names in a directory durable.
pub fn sync_directory(directory: &Path, durability: Durability) -> io::Result<()> {
  match durability {
    // Windows cannot sync a directory; NTFS journals names by itself.
    Durability::Full if cfg!(unix) => File::open(directory)?.sync_all(),
    Durability::Full | Durability::Relaxed => Ok(()),
  }
}

/// Makes one directory, readable by its owner only.
pub fn make_directory(path: &Path) -> io::Result<()> {
  let mut builder = fs::DirBuilder::new();
  #[cfg(unix)]
  std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
  builder.create(path)
}
