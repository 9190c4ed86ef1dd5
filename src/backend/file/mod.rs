//! Files and directories, in the layout of the original store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{Backend, CheckpointEntry, Encoding, Item, Usage};
use crate::clock::millis_since_epoch;
use crate::error::{Error, Result};
use crate::id::{CheckpointId, SessionId};

mod directories;
mod disk;
mod pending;

use directories::Directories;
pub use disk::Durability;
use disk::Temporary;

/// A session directory that was renamed to this is on its way out: whoever finds one may finish the removal.
const DELETED_PREFIX: &str = ".deleted-";

/// How often a step is begun again because somebody else was at work in the same directory.
const ATTEMPTS: u32 = 100;

#[derive(Debug)]
pub struct FileBackend {
  base: PathBuf,
  durability: Durability,
  directories: Directories,
}

impl FileBackend {
  /// `base` must be absolute. Nothing is touched before [`Backend::initialize`].
  #[must_use]
  pub fn new(base: PathBuf, durability: Durability) -> Self {
    Self {
      directories: Directories::new(base.clone(), durability),
      base,
      durability,
    }
  }

  fn session_dir(&self, session: &SessionId) -> PathBuf {
    self.base.join(session.as_str())
  }

  fn path(&self, session: &SessionId, item: Item<'_>) -> PathBuf {
    self.session_dir(session).join(item.to_string())
  }

  /// Runs `write` with `directory` in place, again if the directory goes away in the middle of it.
  fn with_directory(&self, directory: &Path, mut write: impl FnMut() -> Result<()>) -> Result<()> {
    let mut attempts = 0;
    loop {
      attempts += 1;
      match self.directories.ensure(directory).and_then(|()| write()) {
        Err(error) if is_missing(&error) && attempts < ATTEMPTS => self.directories.forget_below(directory),
        answer => return answer,
      }
    }
  }

  fn try_write(&self, session: &SessionId, item: Item<'_>, bytes: &[u8]) -> Result<()> {
    let target = self.path(session, item);
    let temporary = Temporary::write(&target, bytes, self.durability)?;
    match item {
      Item::Session | Item::TaskTree => {
        let session_dir = self.session_dir(session);
        let _lock = pending::lock(&session_dir)?;
        pending::finish(&session_dir, self.durability)?;
        temporary.persist(&target)?;
      }
      Item::Checkpoint(..) | Item::TaskResult(_) => temporary.persist(&target)?,
    }
    disk::sync_parent(&target, self.durability)
  }

  /// The directories in the base that could be sessions.
  fn session_dirs(&self) -> Result<Vec<SessionId>> {
    let mut found = Vec::new();
    for entry in list(&self.base)? {
      let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
      if let Some(id) = entry.file_name().to_str().and_then(|name| SessionId::parse(name).ok())
        && is_dir
      {
        found.push(id);
      }
    }
    found.sort();
    Ok(found)
  }

  /// Ends removals that a dead process began.
  fn finish_removals(&self) -> Result<()> {
    for entry in list(&self.base)? {
      if entry
        .file_name()
        .to_str()
        .is_some_and(|name| name.starts_with(DELETED_PREFIX))
      {
        remove_tree(&entry.path())?;
      }
    }
    Ok(())
  }
}

impl Backend for FileBackend {
  fn location(&self) -> String {
    self.base.to_string_lossy().into_owned()
  }

  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String {
    self.path(session, item).to_string_lossy().into_owned()
  }

  fn initialize(&self) -> Result<()> {
    self.directories.ensure(&self.base)?;
    self.finish_removals()
  }

  fn create_session(&self, session: &SessionId) -> Result<()> {
    let session_dir = self.session_dir(session);
    self.directories.forget_below(&session_dir);
    self.with_directory(&session_dir, || {
      ["checkpoints", "results", "logs"]
        .iter()
        .try_for_each(|part| self.directories.ensure(&session_dir.join(part)))
    })
  }

  fn sessions(&self) -> Result<Vec<SessionId>> {
    let mut sessions = self.session_dirs()?;
    sessions.retain(|id| {
      self.path(id, Item::Session).is_file() || pending::holds(&self.session_dir(id), &Item::Session.to_string())
    });
    Ok(sessions)
  }

  fn delete_session(&self, session: &SessionId) -> Result<()> {
    let session_dir = self.session_dir(session);
    match fs::symlink_metadata(&session_dir) {
      Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
      Err(error) => return Err(Error::io("delete", &session_dir, error)),
      Ok(found) if !found.is_dir() => {
        return Err(Error::corrupt(
          &session_dir.to_string_lossy(),
          "it is not a directory, so it is no session",
        ));
      }
      Ok(_) => {}
    }
    // One rename makes the whole session go at once, for every reader and after every crash.
    let doomed = self.base.join(format!("{DELETED_PREFIX}{}", Uuid::new_v4().simple()));
    match fs::rename(&session_dir, &doomed) {
      Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
      renamed => renamed.map_err(|error| Error::io("delete", &session_dir, error))?,
    }
    self.directories.forget_below(&session_dir);
    disk::sync_parent(&doomed, self.durability)?;
    remove_tree(&doomed)
  }

  fn write(&self, session: &SessionId, item: Item<'_>, bytes: &[u8]) -> Result<()> {
    let target = self.path(session, item);
    let directory = target.parent().unwrap_or(&self.base);
    self.with_directory(directory, || self.try_write(session, item, bytes))
  }

  fn write_state(&self, session: &SessionId, session_document: &[u8], task_tree: &[u8]) -> Result<()> {
    let session_dir = self.session_dir(session);
    let (session_name, tree_name) = (Item::Session.to_string(), Item::TaskTree.to_string());
    let documents = [
      (session_name.as_str(), session_document),
      (tree_name.as_str(), task_tree),
    ];
    self.with_directory(&session_dir, || {
      pending::write_together(&session_dir, &documents, self.durability)
    })
  }

  fn read(&self, session: &SessionId, item: Item<'_>) -> Result<Option<Vec<u8>>> {
    let path = self.path(session, item);
    if let Item::Session | Item::TaskTree = item {
      pending::finish_abandoned(&self.session_dir(session), self.durability)?;
    }
    match fs::read(&path) {
      Ok(bytes) => Ok(Some(bytes)),
      Err(error) if is_absence(&error) => Ok(None),
      Err(error) => Err(Error::io("read", &path, error)),
    }
  }

  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<()> {
    self.discard(session, item)?;
    match disk::sync_parent(&self.path(session, item), self.durability) {
      // Without the directory there is no name that could come back.
      Err(error) if is_missing(&error) => Ok(()),
      synced => synced,
    }
  }

  fn discard(&self, session: &SessionId, item: Item<'_>) -> Result<()> {
    let path = self.path(session, item);
    match fs::remove_file(&path) {
      Err(error) if is_absence(&error) => Ok(()),
      removed => removed.map_err(|error| Error::io("delete", &path, error)),
    }
  }

  fn checkpoints(&self, session: &SessionId) -> Result<Vec<CheckpointEntry>> {
    let mut entries = Vec::new();
    for file in list(&self.session_dir(session).join("checkpoints"))? {
      let name = file.file_name();
      let Some((id, encoding)) = name.to_str().and_then(parse_checkpoint_name) else {
        continue;
      };
      let modified = || {
        file
          .metadata()
          .and_then(|data| data.modified())
          .map_or(0, millis_since_epoch)
      };
      entries.push(CheckpointEntry::new(id, encoding, modified));
    }
    entries.sort_by(CheckpointEntry::newest_first);
    Ok(entries)
  }

  fn sessions_with_checkpoint(&self, id: &CheckpointId) -> Result<Vec<SessionId>> {
    let mut sessions = self.session_dirs()?;
    sessions.retain(|session| {
      Encoding::ALL
        .iter()
        .any(|&encoding| self.path(session, Item::Checkpoint(id, encoding)).exists())
    });
    Ok(sessions)
  }

  fn usage(&self, session: &SessionId) -> Result<Usage> {
    let session_dir = self.session_dir(session);
    let results = list(&session_dir.join("results"))?;
    let is_result = |entry: &fs::DirEntry| {
      let name = entry.file_name();
      name
        .to_str()
        .is_some_and(|name| name.strip_suffix(".json").is_some_and(|id| !id.starts_with('.')))
    };
    Ok(Usage {
      total_bytes: tree_size(&session_dir)?,
      checkpoints: self.checkpoints(session)?.len() as u64,
      results: results.iter().filter(|entry| is_result(entry)).count() as u64,
    })
  }
}

fn parse_checkpoint_name(name: &str) -> Option<(CheckpointId, Encoding)> {
  // The longer ending first: `.json` alone would take `x.json.gz` for nothing, never for `x.json`.
  for encoding in [Encoding::Gzip, Encoding::Json] {
    if let Some(id) = name.strip_suffix(encoding.ending()) {
      return Some((CheckpointId::parse(id).ok()?, encoding));
    }
  }
  None
}

/// The entries of a directory; none if it is missing.
fn list(directory: &Path) -> Result<Vec<fs::DirEntry>> {
  let entries = match fs::read_dir(directory) {
    Err(error) if is_absence(&error) => return Ok(Vec::new()),
    entries => entries.and_then(Iterator::collect),
  };
  entries.map_err(|error| Error::io("list", directory, error))
}

/// The bytes of all files below a directory. What vanishes during the walk counts as gone.
fn tree_size(directory: &Path) -> Result<u64> {
  let mut total = 0;
  let mut waiting = vec![directory.to_owned()];
  while let Some(directory) = waiting.pop() {
    for entry in list(&directory)? {
      match entry.metadata() {
        Ok(data) if data.is_dir() => waiting.push(entry.path()),
        Ok(data) => total += data.len(),
        Err(error) if is_absence(&error) => {}
        Err(error) => return Err(Error::io("measure", &entry.path(), error)),
      }
    }
  }
  Ok(total)
}

/// Removes a directory that no path leads to any more. A writer that was on its way in may still leave a file there.
fn remove_tree(directory: &Path) -> Result<()> {
  let mut attempts = 0;
  loop {
    attempts += 1;
    match fs::remove_dir_all(directory) {
      Err(error) if is_absence(&error) => return Ok(()),
      Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && attempts < ATTEMPTS => {}
      removed => return removed.map_err(|error| Error::io("delete", directory, error)),
    }
  }
}

/// Whether there is nothing under that name: it is missing, or a part of its path is no directory.
fn is_absence(error: &io::Error) -> bool {
  matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn is_missing(error: &Error) -> bool {
  let cause = error.cause.as_ref().and_then(|cause| cause.downcast_ref::<io::Error>());
  cause.is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
