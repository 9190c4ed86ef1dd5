//! Several files as one step.
//!
//! The files are written into a directory of their own and synced. Renaming that directory to `.pending` is the
//! instant at which all of them have been replaced: from then on its files belong one level up. They are moved there
//! at once, by the writer; if it dies, by whoever next reads or writes one of them. A crash before the rename leaves
//! the old files, one after it the new ones, and never a mix.
//!
//! Who finishes, and who replaces one of these files alone, holds the session's lock: a `.pending` that is seen under
//! the lock belongs to a dead process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{self, Durability};
use super::{is_absence, remove_tree};
use crate::error::{Error, Result};

const PENDING: &str = ".pending";
const LOCK: &str = ".lock";

/// Held until it is dropped; other processes and threads wait for it.
#[derive(Debug)]
pub struct SessionLock {
  _file: File,
}

/// Waits for the lock of a session. Where the file system has no locks, there is none to wait for.
pub fn lock(session_dir: &Path) -> Result<SessionLock> {
  let path = session_dir.join(LOCK);
  let mut options = OpenOptions::new();
  options.write(true).create(true).truncate(false);
  #[cfg(unix)]
  std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
  let file = options.open(&path).map_err(|error| Error::io("open", &path, error))?;
  loop {
    match file.lock() {
      Ok(()) => break,
      Err(error) if error.kind() == io::ErrorKind::Unsupported => break,
      Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
      Err(error) => return Err(Error::io("lock", &path, error)),
    }
  }
  Ok(SessionLock { _file: file })
}

/// Whether a step that is decided, but not finished, holds a file of that name.
pub fn holds(session_dir: &Path, name: &str) -> bool {
  session_dir.join(PENDING).join(name).is_file()
}

/// Replaces all `documents` (name, bytes) of a session directory, or none.
pub fn write_together(session_dir: &Path, documents: &[(&str, &[u8])], durability: Durability) -> Result<()> {
  let staged = Staged::write(session_dir, documents, durability)?;
  let _lock = lock(session_dir)?;
  finish(session_dir, durability)?;
  let pending = staged.decide()?;
  disk::sync_parent(&pending, durability)?;
  finish(session_dir, durability)
}

/// Finishes a step whose writer died; one whose writer lives is waited for.
pub fn finish_abandoned(session_dir: &Path, durability: Durability) -> Result<()> {
  if session_dir.join(PENDING).is_dir() {
    let _lock = lock(session_dir)?;
    finish(session_dir, durability)?;
  }
  Ok(())
}

/// Moves what is pending into place. The caller holds the lock.
pub fn finish(session_dir: &Path, durability: Durability) -> Result<()> {
  let pending = session_dir.join(PENDING);
  let entries = match fs::read_dir(&pending) {
    Err(error) if is_absence(&error) => return Ok(()),
    entries => entries.and_then(Iterator::collect::<io::Result<Vec<_>>>),
  };
  let unfinished = |error| Error::outcome_unknown("finish what is pending in", session_dir, error);
  for entry in entries.map_err(unfinished)? {
    disk::rename(&entry.path(), &session_dir.join(entry.file_name())).map_err(unfinished)?;
  }
  // Gained names first, lost ones second: in between a file is in both places, which moving it again mends.
  disk::sync_directory(session_dir, durability).map_err(unfinished)?;
  disk::sync_directory(&pending, durability).map_err(unfinished)?;
  fs::remove_dir(&pending).map_err(unfinished)
}

/// A directory of files that are not decided yet; removed again unless they are.
struct Staged {
  directory: PathBuf,
  pending: PathBuf,
  is_decided: bool,
}

impl Staged {
  fn write(session_dir: &Path, documents: &[(&str, &[u8])], durability: Durability) -> Result<Self> {
    let pending = session_dir.join(PENDING);
    let staged = Self {
      directory: disk::temporary_path(&pending),
      pending,
      is_decided: false,
    };
    let fail = |error| Error::io("write", session_dir, error);
    disk::make_directory(&staged.directory).map_err(fail)?;
    for (name, bytes) in documents {
      let target = staged.directory.join(name);
      disk::write_new_file(&target, bytes, durability)
        .map_err(|error| Error::io("write", &session_dir.join(name), error))?;
    }
    disk::sync_directory(&staged.directory, durability).map_err(fail)?;
    Ok(staged)
  }

  fn decide(mut self) -> Result<PathBuf> {
    disk::rename(&self.directory, &self.pending).map_err(|error| Error::io("write", &self.pending, error))?;
    self.is_decided = true;
    Ok(std::mem::take(&mut self.pending))
  }
}

impl Drop for Staged {
  fn drop(&mut self) {
    if !self.is_decided {
      // If even this fails there is nothing better to do: the name marks it as a left-over.
      let _ = remove_tree(&self.directory);
    }
  }
}
