//! Files and directories, in the layout of the original store.

use std::io;
use std::path::PathBuf;

use uuid::Uuid;

use super::{Backend, CHECKPOINTS, CheckpointEntry, Content, Encoding, Item, Peeked, RESULTS, Surplus, Usage};
use crate::error::{Error, Result};
use crate::id::{CheckpointId, SessionId, TaskId};

mod directories;
pub mod disk;
mod durable;
mod leftovers;
mod locks;
mod names;
mod pending;
#[cfg(any(test, not(unix)))]
mod portable;
mod removed;
#[cfg(unix)]
mod unix;
mod walk;

use directories::Directories;
use disk::{Contents, Directory, Disk, Entry, Kind};
pub use durable::Durability;
use durable::{ATTEMPTS, Temporary, absent_is_fine, sync_names};
use names::{Change, Names};
#[cfg(not(unix))]
pub use portable::SystemDisk;
#[cfg(unix)]
pub use unix::SystemDisk;
use walk::{remove_tree, tree_size};

const LOGS: &str = "logs";
const DAMAGED: &str = "damaged";

#[derive(Debug)]
pub struct FileBackend<D: Disk = SystemDisk> {
  disk: D,
  /// For names in answers and errors; the disk knows its own.
  base: PathBuf,
  durability: Durability,
  directories: Directories,
  names: Names,
}

impl FileBackend {
  /// `base` must be absolute. Nothing is touched before [`Backend::initialize`].
  #[must_use]
  pub fn new(base: PathBuf, durability: Durability) -> Self {
    Self::on(SystemDisk::new(base.clone()), base, durability)
  }
}

/// What became of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happened {
  Came,
  Went,
  Nothing,
}

/// Where an item lies: the names of the directories below the base, and its own.
struct Place<'a> {
  directory: Vec<&'a str>,
  name: String,
}

impl<'a> Place<'a> {
  fn of(session: &'a SessionId, item: Item<'_>) -> Self {
    let session = [session.as_str()];
    Self {
      directory: session.into_iter().chain(item.folder()).collect(),
      name: item.file_name(),
    }
  }
}

impl<D: Disk> FileBackend<D> {
  /// A backend on any disk; `base` is what its names are shown below.
  pub fn on(disk: D, base: PathBuf, durability: Durability) -> Self {
    Self {
      disk,
      base,
      durability,
      directories: Directories::default(),
      names: Names::default(),
    }
  }

  fn path(&self, session: &SessionId, item: Item<'_>) -> PathBuf {
    self.base.join(session.as_str()).join(item.to_string())
  }

  fn shown(&self, directory: &[&str]) -> PathBuf {
    self.base.join(directory.iter().collect::<PathBuf>())
  }

  /// Runs `write` in a directory that is made if need be, again if the directory goes away in the middle of it.
  fn in_directory<T>(&self, path: &[&str], mut write: impl FnMut(&D::Directory) -> Result<T>) -> Result<T> {
    let mut attempts = 0;
    loop {
      attempts += 1;
      let directory = self.directories.ensure(&self.disk, path, self.durability);
      let directory = directory.map_err(|error| Error::io("create directory", &self.shown(path), error));
      match directory.and_then(|directory| write(&directory)) {
        Err(error) if is_missing(&error) && attempts < ATTEMPTS => {}
        answer => return answer,
      }
    }
  }

  /// An existing directory; `None` if it is missing.
  fn open(&self, path: &[&str]) -> Result<Option<D::Directory>> {
    match directories::open(&self.disk, path) {
      Err(error) if is_absence(&error) => Ok(None),
      opened => opened
        .map(Some)
        .map_err(|error| Error::io("open", &self.shown(path), error)),
    }
  }

  /// The entries of a directory; none if it is missing.
  fn list(&self, path: &[&str]) -> Result<Vec<Entry>> {
    match self.open(path)? {
      Some(directory) => self.entries(&directory, path),
      None => Ok(Vec::new()),
    }
  }

  fn entries(&self, directory: &D::Directory, path: &[&str]) -> Result<Vec<Entry>> {
    directory
      .entries()
      .map_err(|error| Error::io("list", &self.shown(path), error))
  }

  /// The directories in the base that could be sessions.
  fn session_dirs(&self) -> Result<Vec<SessionId>> {
    let entries = self.list(&[])?;
    let directories = entries.iter().filter(|entry| entry.kind == Kind::Directory);
    let mut ids: Vec<_> = directories
      .filter_map(|entry| SessionId::parse(&entry.name).ok())
      .collect();
    ids.sort();
    Ok(ids)
  }

  /// Removes the name of an item, and gives the directory that it was in; `None` if it was not there.
  fn unlink(&self, session: &SessionId, item: Item<'_>) -> Result<Option<D::Directory>> {
    let place = Place::of(session, item);
    let Some(directory) = self.open(&place.directory)? else {
      return Ok(None);
    };
    let removed = self.rename_or_remove(session, item, &directory, || match directory.remove_file(&place.name) {
      Ok(()) => Ok(Happened::Went),
      Err(error) if is_absence(&error) => Ok(Happened::Nothing),
      Err(error) => Err(Error::io("delete", &self.path(session, item), error)),
    });
    Ok((removed? == Happened::Went).then_some(directory))
  }

  /// Does what brings or takes the name of an item; names of checkpoints are remembered.
  fn rename_or_remove(
    &self,
    session: &SessionId,
    item: Item<'_>,
    directory: &D::Directory,
    act: impl FnOnce() -> Result<Happened>,
  ) -> Result<Happened> {
    let Item::Checkpoint(id, encoding) = item else {
      return act();
    };
    self.names.change(session, directory, || {
      let happened = act()?;
      let change = match happened {
        Happened::Came => {
          let modified = || directory.stat(&item.file_name()).map_or(0, |stat| stat.modified);
          Some(Change::Came(CheckpointEntry::new(id.clone(), encoding, modified)))
        }
        Happened::Went => Some(Change::Went(id.clone(), encoding)),
        Happened::Nothing => None,
      };
      Ok((happened, change))
    })
  }

  /// The checkpoints in their directory, in any order.
  fn checkpoints_in(&self, session: &SessionId, directory: &D::Directory) -> Result<Vec<CheckpointEntry>> {
    let files = self.entries(directory, &[session.as_str(), CHECKPOINTS])?;
    let entry_of = |file: &Entry| {
      let modified = || directory.stat(&file.name).map_or(0, |stat| stat.modified);
      CheckpointEntry::of_file(&file.name, modified)
    };
    Ok(files.iter().filter_map(entry_of).collect())
  }
}

impl<D: Disk> Backend for FileBackend<D> {
  fn location(&self) -> String {
    self.base.to_string_lossy().into_owned()
  }

  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String {
    self.path(session, item).to_string_lossy().into_owned()
  }

  fn initialize(&self) -> Result<()> {
    self.in_directory(&[], |_| Ok(()))?;
    if let Some(base) = self.open(&[])? {
      removed::finish(&base).map_err(|error| Error::io("list", &self.base, error))?;
    }
    Ok(())
  }

  fn create_session(&self, session: &SessionId) -> Result<()> {
    for part in [CHECKPOINTS, RESULTS, LOGS] {
      self.in_directory(&[session.as_str(), part], |_| Ok(()))?;
    }
    Ok(())
  }

  fn sessions(&self) -> Result<Vec<SessionId>> {
    let mut sessions = self.session_dirs()?;
    let Some(base) = self.open(&[])? else {
      return Ok(Vec::new());
    };
    sessions.retain(|id| {
      base.open_directory(id.as_str()).is_ok_and(|session| {
        let name = Item::Session.file_name();
        session.stat(&name).is_ok_and(|stat| stat.kind == Kind::File) || pending::holds(&session, &name)
      })
    });
    Ok(sessions)
  }

  fn delete_session(&self, session: &SessionId) -> Result<Option<Error>> {
    let path = self.base.join(session.as_str());
    let fail = |error| Error::io("delete", &path, error);
    let Some(base) = self.open(&[])? else {
      return Ok(None);
    };
    match base.stat(session.as_str()) {
      Err(error) if is_absence(&error) => return Ok(None),
      Err(error) => return Err(fail(error)),
      Ok(stat) if stat.kind != Kind::Directory => {
        return Err(Error::corrupt(
          &path.to_string_lossy(),
          "it is not a directory, so it is no session",
        ));
      }
      Ok(_) => {}
    }
    // One rename makes the whole session go at once, for every reader and after every crash.
    let doomed = removed::new_name();
    absent_is_fine(base.rename(session.as_str(), &base, &doomed)).map_err(fail)?;
    self.directories.forget(session.as_str());
    self.names.forget(session);
    sync_names(&base, &path, self.durability)?;
    Ok(remove_tree(&base, &doomed).map_err(fail).err())
  }

  fn write(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let path = self.path(session, item);
    let fail = |error| Error::io("write", &path, error);
    let place = Place::of(session, item);
    self.in_directory(&place.directory, |directory| {
      if let Item::Checkpoint(..) = item {
        self.names.look_for_others(session, directory);
      }
      let temporary = Temporary::write(directory, &place.name, content, self.durability).map_err(fail)?;
      let size = temporary.size;
      self.rename_or_remove(session, item, directory, || {
        let _lock = match item {
          Item::Session | Item::TaskTree => Some(pending::lock(directory, &path, self.durability)?),
          Item::Checkpoint(..) | Item::TaskResult(_) => None,
        };
        temporary.persist(&place.name).map_err(fail)?;
        Ok(Happened::Came)
      })?;
      sync_names(directory, &path, self.durability)?;
      Ok(size)
    })
  }

  fn write_state(&self, session: &SessionId, session_document: &dyn Content, task_tree: &dyn Content) -> Result<()> {
    let path = self.base.join(session.as_str());
    let (session_name, tree_name) = (Item::Session.file_name(), Item::TaskTree.file_name());
    let documents = [
      (session_name.as_str(), session_document),
      (tree_name.as_str(), task_tree),
    ];
    self.in_directory(&[session.as_str()], |directory| {
      pending::write_together(directory, &path, &documents, self.durability)
    })
  }

  fn read(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
    let path = self.path(session, item);
    let place = Place::of(session, item);
    let Some(directory) = self.open(&place.directory)? else {
      return Ok(None);
    };
    if let Item::Session | Item::TaskTree = item {
      pending::finish_abandoned(&directory, &path, self.durability)?;
    }
    match directory.read(&place.name, limit) {
      Ok(Contents::Bytes(bytes)) => Ok(Some(bytes)),
      Ok(Contents::NotAFile) => Err(Error::corrupt(&path.to_string_lossy(), "it is not a file")),
      Ok(Contents::TooLarge(size)) => Err(Error::too_large(&path.to_string_lossy(), size, limit)),
      Err(error) if is_absence(&error) => Ok(None),
      Err(error) => Err(Error::io("read", &path, error)),
    }
  }

  fn peek(&self, session: &SessionId, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<Peeked>> {
    let Some(directory) = self.open(&[session.as_str(), CHECKPOINTS])? else {
      return Ok(entries.iter().map(|_| Ok(None)).collect());
    };
    let peek = |entry: &CheckpointEntry| match directory.peek(&entry.item().file_name(), head, tail) {
      Ok(Some(peek)) => Ok(Some(peek)),
      Ok(None) => Err(Error::corrupt(&self.name_of(session, entry.item()), "it is not a file")),
      Err(error) if is_absence(&error) => Ok(None),
      Err(error) => Err(Error::io("read", &self.path(session, entry.item()), error)),
    };
    Ok(entries.iter().map(peek).collect())
  }

  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<bool> {
    let Some(directory) = self.unlink(session, item)? else {
      return Ok(false);
    };
    sync_names(&directory, &self.path(session, item), self.durability)?;
    Ok(true)
  }

  fn discard(&self, session: &SessionId, item: Item<'_>) -> Result<()> {
    self.unlink(session, item).map(drop)
  }

  fn quarantine(&self, session: &SessionId, item: Item<'_>) -> Result<Option<String>> {
    let place = Place::of(session, item);
    let path = self.path(session, item);
    let fail = |error| Error::io("move aside", &path, error);
    let Some(from) = self.open(&place.directory)? else {
      return Ok(None);
    };
    // The name says where it came from; the second part keeps two of the same name apart.
    let name = format!("{}.{}", place.name, Uuid::new_v4().simple());
    let directory = [session.as_str(), DAMAGED];
    let moved = self.in_directory(&directory, |damaged| {
      let moved = self.rename_or_remove(session, item, &from, || {
        match from.rename(&place.name, damaged, &name) {
          Err(error) if is_absence(&error) && from.stat(&place.name).is_err() => Ok(Happened::Nothing),
          moved => moved.map(|()| Happened::Went).map_err(fail),
        }
      })?;
      sync_names(damaged, &path, self.durability)?;
      sync_names(&from, &path, self.durability)?;
      Ok(moved)
    })?;
    Ok((moved == Happened::Went).then(|| self.shown(&directory).join(name).to_string_lossy().into_owned()))
  }

  fn checkpoints(&self, session: &SessionId) -> Result<Vec<CheckpointEntry>> {
    let mut entries = match self.open(&[session.as_str(), CHECKPOINTS])? {
      Some(directory) => self.checkpoints_in(session, &directory)?,
      None => Vec::new(),
    };
    entries.sort_unstable_by(CheckpointEntry::newest_first);
    Ok(entries)
  }

  fn surplus(&self, session: &SessionId, keep: usize) -> Result<Surplus> {
    match self.open(&[session.as_str(), CHECKPOINTS])? {
      Some(directory) => self
        .names
        .surplus(session, &directory, keep, || self.checkpoints_in(session, &directory)),
      None => Ok(Surplus::default()),
    }
  }

  fn results(&self, session: &SessionId) -> Result<Vec<TaskId>> {
    let entries = self.list(&[session.as_str(), RESULTS])?;
    let ids = entries.iter().filter_map(|entry| entry.name.strip_suffix(".json"));
    let mut ids: Vec<_> = ids.filter_map(|id| TaskId::parse(id).ok()).collect();
    ids.sort();
    Ok(ids)
  }

  fn sessions_with_checkpoint(&self, id: &CheckpointId) -> Result<Vec<SessionId>> {
    let mut sessions = self.session_dirs()?;
    sessions.retain(|session| {
      directories::open(&self.disk, &[session.as_str(), CHECKPOINTS]).is_ok_and(|directory| {
        let name = |encoding| Place::of(session, Item::Checkpoint(id, encoding)).name;
        Encoding::ALL
          .iter()
          .any(|&encoding| directory.stat(&name(encoding)).is_ok())
      })
    });
    Ok(sessions)
  }

  fn usage(&self, session: &SessionId) -> Result<Usage> {
    let path = [session.as_str()];
    let total_bytes = match self.open(&path)? {
      Some(directory) => tree_size(&directory, 0).map_err(|error| Error::io("measure", &self.shown(&path), error))?,
      None => 0,
    };
    Ok(Usage {
      total_bytes,
      checkpoints: self.checkpoints(session)?.len() as u64,
      results: self.results(session)?.len() as u64,
    })
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
