//! Several files as one step.
//!
//! The files are written into a directory of their own and synced. Renaming that directory to `.pending` is the
//! instant at which all of them have been replaced: from then on its files belong one level up. They are moved there
//! at once, by the writer; if it dies, by whoever next reads or writes one of them. A crash before the rename leaves
//! the old files, one after it the new ones, and never a mix.
//!
//! Who finishes, and who replaces one of these files alone, holds the session's lock: a `.pending` that is seen under
//! the lock belongs to a dead process.

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

/// Waits for the lock of a session, and finishes what a dead process left pending. Held until it is dropped; `None` where the
/// file system has no locks.
pub fn lock<D: Directory>(session: &D, path: &Path, settings: Settings) -> Result<Option<D::Lock>> {
  let lock = locks::hold(session, LOCK, path, settings.timeout)?;
  finish(session, path, settings)?;
  Ok(lock)
}

/// Whether a step that is decided, but not finished, holds a file of that name.
pub fn holds<D: Directory>(session: &D, name: &str) -> io::Result<bool> {
  let stat = session.open_directory(PENDING)?.stat(name)?;
  Ok(stat.kind == Kind::File)
}

/// The bytes of a document. Reading waits for no writer: what is pending is decided, so it is current, and it moves into place
/// with one rename, so it is found there or in its place. A step whose writer died is finished on the way.
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

/// Finishes a step whose writer died; one whose writer lives is waited for.
pub fn finish_abandoned<D: Directory>(session: &D, path: &Path, settings: Settings) -> Result<()> {
  match session.stat(PENDING) {
    Ok(_) => match lock(session, path, settings) {
      // The session was deleted meanwhile: there is nothing left to finish.
      Err(_) if session.stat(PENDING).is_err() => Ok(()),
      locked => locked.map(drop),
    },
    Err(_) => Ok(()),
  }
}

/// Replaces all `documents` (name, content) of a session, or none; says which. `confirm` is called while the medium writes the
/// staged documents. What `fence` gives is held while the step is decided.
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
  staged.decide().map_err(fail)?;
  drop(fence);
  durable::sync_names(session, path, durability)?;
  finish(session, path, settings)?;
  Ok(true)
}

/// Moves what is pending into place. The caller holds the lock.
fn finish<D: Directory>(session: &D, path: &Path, settings: Settings) -> Result<()> {
  try_finish(session, settings).map_err(|error| Error::outcome_unknown("finish what is pending in", path, error))
}

fn try_finish<D: Directory>(session: &D, settings: Settings) -> io::Result<()> {
  let pending = match session.open_directory(PENDING) {
    Err(error) if is_absence(&error) => return Ok(()),
    pending => pending?,
  };
  for entry in pending.entries()? {
    versions::make_room(session, &entry.name, settings.keep_previous)?;
    pending.rename(&entry.name, session, &entry.name)?;
    // Moving a file onto another name of itself leaves both: a copy made with links may hold such a pair.
    absent_is_fine(pending.remove_file(&entry.name))?;
  }
  if settings.durability.is_full() {
    // Gained names first, lost ones second: in between a file is in both places, which moving it again mends.
    session.sync()?;
    pending.sync()?;
  }
  session.remove_directory(PENDING)
}

/// A directory of files that are not decided yet; removed again unless they are.
struct Staged<'a, D: Directory> {
  session: &'a D,
  name: String,
  directory: D,
  /// Open, and so locked, for as long as the step is undecided.
  files: Vec<D::File>,
  is_decided: bool,
}

impl<'a, D: Directory> Staged<'a, D> {
  /// Writes all files, so that the medium has them at once, and waits for none.
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
      is_decided: false,
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
    // The last is the largest.
    for file in self.files.iter().rev() {
      durable::sync(&self.directory, file, durability)?;
    }
    if durability.is_full() {
      self.directory.sync()?;
    }
    Ok(())
  }

  fn decide(mut self) -> io::Result<()> {
    self.session.rename(&self.name, self.session, PENDING)?;
    self.is_decided = true;
    Ok(())
  }
}

impl<D: Directory> Drop for Staged<'_, D> {
  fn drop(&mut self) {
    if !self.is_decided {
      // If even this fails there is nothing better to do: the name marks it as a left-over.
      let _ = remove_tree(self.session, &self.name);
    }
  }
}
