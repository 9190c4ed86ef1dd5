//! Replaces two documents of a session in one atomic step.
//!
//! The documents are written into a staging directory and synced. Renaming that directory to `.pending` is the commit: from then
//! on its files are the current documents. The writer then moves them into the directory of the session. If it dies, the next
//! process that reads or writes one of them does. A crash before the rename leaves both old documents, a crash after it both new
//! ones.
//!
//! A process holds the lock on the documents while it moves them, or replaces one of them alone. A `.pending` that is seen under
//! the lock therefore belongs to a dead process.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::disk::{Directory, Kind};
use super::durable::{self, Durability, absent_is_fine, fill, temporary_name};
use super::walk::remove_tree;
use super::{contents, is_absence, locks, versions};
use crate::backend::{Content, Settings};
use crate::types::error::{Error, Result};

const PENDING: &str = ".pending";
pub const LOCK: &str = ".lock";

/// Locks the documents of a session, and finishes a pending commit of a dead process. `None` if the file system has no locks.
pub fn lock<D: Directory>(session: &D, path: &Path, settings: Settings) -> Result<Option<D::Lock>> {
  let lock = locks::hold(session, LOCK, path, settings.timeout)?;
  finish(session, path, settings)?;
  Ok(lock)
}

/// Whether a pending commit has a file of that name.
pub fn holds<D: Directory>(session: &D, name: &str) -> io::Result<bool> {
  let stat = session.open_directory(PENDING)?.stat(name)?;
  Ok(stat.kind == Kind::File)
}

/// The bytes of a document. A read does not wait for a writer: a pending document is committed, and one rename moves it into the
/// directory of the session, so it is in one of the two. Finishes the commit of a dead writer.
pub fn read<D: Directory>(
  session: &D,
  name: &str,
  path: &Path,
  limit: u64,
  settings: Settings,
) -> Result<Option<Vec<u8>>> {
  match session.open_directory(PENDING) {
    Err(error) if is_absence(&error) => {}
    Err(error) => return Err(Error::io("read", path, error)),
    Ok(pending) => {
      if let Ok(Some(_lock)) = locks::hold(session, LOCK, path, Duration::ZERO) {
        finish(session, path, settings)?;
      } else if let Some(bytes) = contents(&pending, name, path, limit)? {
        return Ok(Some(bytes));
      }
    }
  }
  contents(session, name, path, limit)
}

/// Finishes the commit of a dead writer, or waits for a live one to finish.
pub fn finish_abandoned<D: Directory>(session: &D, path: &Path, settings: Settings) -> Result<()> {
  match session.stat(PENDING) {
    Ok(_) => match lock(session, path, settings) {
      // The session was deleted meanwhile, and the commit with it.
      Err(_) if session.stat(PENDING).is_err() => Ok(()),
      locked => locked.map(drop),
    },
    Err(_) => Ok(()),
  }
}

/// Replaces all `documents` (name, content) of a session, or none; returns which. `confirm` is called while the disk writes the
/// staged documents. The lock that `fence` returns is held during the commit.
pub fn write_together_if<D: Directory>(
  session: &D,
  path: &Path,
  documents: &[(&str, &dyn Content)],
  settings: Settings,
  confirm: &dyn Fn() -> bool,
  fence: impl FnOnce() -> Result<Option<D::Lock>>,
) -> Result<bool> {
  let durability = settings.durability;
  let fail = |error| Error::io("write", path, error);
  let staged = Staged::write(session, documents, durability).map_err(fail)?;
  if !confirm() {
    return Ok(false);
  }
  staged.sync(durability).map_err(fail)?;
  let _lock = lock(session, path, settings)?;
  let fence = fence()?;
  staged.commit().map_err(fail)?;
  drop(fence);
  durable::sync_names(session, path, durability)?;
  finish(session, path, settings)?;
  Ok(true)
}

/// Moves the documents of a pending commit into the directory of the session. The caller holds the lock.
fn finish<D: Directory>(session: &D, path: &Path, settings: Settings) -> Result<()> {
  try_finish(session, settings).map_err(|error| Error::outcome_unknown("finish the pending commit in", path, error))
}

fn try_finish<D: Directory>(session: &D, settings: Settings) -> io::Result<()> {
  let pending = match session.open_directory(PENDING) {
    Err(error) if is_absence(&error) => return Ok(()),
    pending => pending?,
  };
  for entry in pending.entries()? {
    versions::keep_current(session, &entry.name, settings.keep_previous)?;
    pending.rename(&entry.name, session, &entry.name)?;
    // Renaming a file to another hard link of itself keeps both names. A copy of a store can contain such a pair.
    absent_is_fine(pending.remove_file(&entry.name))?;
  }
  if settings.durability.is_full() {
    // Sync the new names first. A crash before the second sync leaves a file in both directories, and it is moved again.
    session.sync()?;
    pending.sync()?;
  }
  session.remove_directory(PENDING)
}

/// A staging directory of documents. It is removed unless it is committed.
struct Staged<'a, D: Directory> {
  session: &'a D,
  name: String,
  directory: D,
  /// Open, and therefore locked, until the commit.
  files: Vec<D::File>,
  is_committed: bool,
}

impl<'a, D: Directory> Staged<'a, D> {
  /// Writes all files without waiting for the disk, which then writes them at the same time.
  fn write(session: &'a D, documents: &[(&str, &dyn Content)], durability: Durability) -> io::Result<Self> {
    let name = temporary_name(PENDING.trim_start_matches('.'));
    session.make_directory(&name)?;
    let directory = session.open_directory(&name);
    let directory = directory.inspect_err(|_| drop(session.remove_directory(&name)))?;
    let mut staged = Self {
      session,
      name,
      directory,
      files: Vec::new(),
      is_committed: false,
    };
    for (name, content) in documents {
      let mut file = staged.directory.create(name)?;
      let filled = fill(&staged.directory, &mut file, *content, durability);
      staged.files.push(file);
      filled?;
    }
    if let Some(last) = staged.files.last() {
      durable::begin_sync(&staged.directory, last, durability);
    }
    Ok(staged)
  }

  fn sync(&self, durability: Durability) -> io::Result<()> {
    // The last file is the largest, and the disk began with it: sync it first.
    for file in self.files.iter().rev() {
      durable::sync(&self.directory, file, durability)?;
    }
    if durability.is_full() {
      self.directory.sync()?;
    }
    Ok(())
  }

  fn commit(mut self) -> io::Result<()> {
    self.session.rename(&self.name, self.session, PENDING)?;
    self.is_committed = true;
    Ok(())
  }
}

impl<D: Directory> Drop for Staged<'_, D> {
  fn drop(&mut self) {
    if !self.is_committed {
      // If this fails, the name still marks the directory as left over.
      let _ = remove_tree(self.session, &self.name);
    }
  }
}
