//! The backend that stores a session as a directory of files, in the layout of the original store.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CheckpointEntry, Encoding, Fences, Item, Series, Settings};
use crate::types::error::{Error, Result};
use crate::types::id::{CheckpointId, SessionId};

mod attributes;
mod backend;
mod bases;
mod checkpoints;
mod cleanup;
mod create_session;
mod deletes;
mod directories;
pub mod disk;
mod documents;
mod durable;
mod latest;
mod leases;
mod listing_cache;
mod lists;
mod locks;
#[cfg(any(test, not(unix)))]
mod portable;
mod sessions;
mod tombstones;
mod two_file_commit;
#[cfg(unix)]
mod unix;
mod versions;
mod walk;

use crate::types::time::Timestamp;
use directories::Directories;
use disk::{Contents, Directory, Disk, Entry, Kind};
use durable::ATTEMPTS;
pub use durable::Durability;
use latest::Latest;
use listing_cache::{Change, Held, Names};
#[cfg(not(unix))]
pub use portable::SystemDisk;
#[cfg(unix)]
pub use unix::SystemDisk;

/// Sessions as directories of files.
#[derive(Debug)]
pub struct FileBackend<D: Disk = SystemDisk> {
  disk: D,
  /// The path of the base in results and errors. System calls use the path that the disk has.
  base: PathBuf,
  settings: Settings,
  directories: Directories,
  names: Names,
  latest: Latest,
  fences: Fences,
}

impl FileBackend {
  /// `base` must be absolute. The file system is not accessed before [`Backend::open`](super::Backend::open).
  #[must_use]
  pub fn new(base: PathBuf, settings: impl Into<Settings>) -> Self {
    Self::on(SystemDisk::new(base.clone()), base, settings)
  }
}

/// What a step did to the name of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameChange {
  Added,
  Removed,
  Unchanged,
}

/// The path of an item: the directories below the base, and the name of the file.
struct ItemPath<'a> {
  directory: Vec<&'a str>,
  name: String,
}

impl<'a> ItemPath<'a> {
  fn of(session: &'a SessionId, item: Item<'a>) -> Self {
    Self {
      directory: below(session, item.folders()),
      name: item.file_name(),
    }
  }
}

/// The path of folders below a session.
fn below<'a>(session: &'a SessionId, folders: Vec<&'a str>) -> Vec<&'a str> {
  [session.as_str()].into_iter().chain(folders).collect()
}

/// The name of the empty file that exempts a checkpoint from retention.
fn pin_of(id: &CheckpointId) -> String {
  format!("{id}{PIN}")
}

const PIN: &str = ".pin";

impl<D: Disk> FileBackend<D> {
  /// A backend on any disk. `base` is the path of the base in results and errors.
  pub fn on(disk: D, base: PathBuf, settings: impl Into<Settings>) -> Self {
    Self {
      disk,
      base,
      settings: settings.into(),
      directories: Directories::default(),
      names: Names::default(),
      latest: Latest::default(),
      fences: Fences::default(),
    }
  }

  /// The path of an item in results and errors.
  fn path(&self, session: &SessionId, item: Item<'_>) -> PathBuf {
    self.base.join(session.as_str()).join(item.to_string())
  }

  /// The path of a directory in results and errors.
  fn shown(&self, directory: &[&str]) -> PathBuf {
    self.base.join(directory.iter().collect::<PathBuf>())
  }

  /// Runs `write` in a directory, which is created if it is missing. Repeats it if the directory is deleted meanwhile.
  fn in_directory<T>(&self, path: &[&str], mut write: impl FnMut(&D::Directory) -> Result<T>) -> Result<T> {
    let mut attempts = 0;
    loop {
      attempts += 1;
      let directory = self.directories.ensure(&self.disk, path, self.settings.durability);
      let directory = directory.map_err(|error| Error::io("create directory", &self.shown(path), error));
      match directory.and_then(|directory| write(&directory)) {
        Err(error) if is_directory_deleted(&error) && attempts < ATTEMPTS => {}
        answer => return answer,
      }
    }
  }

  /// An existing directory; `None` if it is missing.
  fn open_directory(&self, path: &[&str]) -> Result<Option<D::Directory>> {
    match directories::open(&self.disk, path) {
      Err(error) if is_absence(&error) => Ok(None),
      opened => opened
        .map(Some)
        .map_err(|error| Error::io("open", &self.shown(path), error)),
    }
  }

  /// The entries of a directory; none if it is missing.
  fn list_directory(&self, path: &[&str]) -> Result<Vec<Entry>> {
    match self.open_directory(path)? {
      Some(directory) => self.entries(&directory, path),
      None => Ok(Vec::new()),
    }
  }

  fn entries(&self, directory: &D::Directory, path: &[&str]) -> Result<Vec<Entry>> {
    directory
      .entries()
      .map_err(|error| Error::io("list", &self.shown(path), error))
  }

  /// The directories in a directory whose names are ids.
  fn directories_in<T>(&self, path: &[&str], parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    let entries = self.list_directory(path)?;
    let directories = entries.iter().filter(|entry| entry.kind == Kind::Directory);
    Ok(directories.filter_map(|entry| parse(&entry.name).ok()).collect())
  }

  /// Removes the file of an item, or those of a checkpoint in every encoding, if `may_delete` returns true. Returns the directory;
  /// `None` if nothing was removed. Waits for the lock on the names for at most `timeout`.
  fn unlink(
    &self,
    timeout: Duration,
    session: &SessionId,
    item: Item<'_>,
    may_delete: impl Fn(&D::Directory, Held) -> Result<bool>,
  ) -> Result<Option<D::Directory>> {
    let item_path = ItemPath::of(session, item);
    let Some(directory) = self.open_directory(&item_path.directory)? else {
      return Ok(None);
    };
    let fail = |error| Error::io("delete", &self.path(session, item), error);
    let removed = self.rename_or_remove(timeout, session, item, &directory, |held| {
      if !may_delete(&directory, held)? {
        return Ok(NameChange::Unchanged);
      }
      let items = match item {
        Item::Checkpoint(agent, id, _) => {
          let encodings = encodings_of(&directory, item).map_err(fail)?;
          let items = encodings
            .into_iter()
            .map(|encoding| Item::Checkpoint(agent, id, encoding));
          items.collect()
        }
        other if exists(&directory, &item_path.name).map_err(fail)? => vec![other],
        _ => Vec::new(),
      };
      if items.is_empty() {
        return Ok(NameChange::Unchanged);
      }
      let _fence = self.fence(session)?;
      if items != [item] {
        // The cache learns of one name only.
        self.names.forget(session);
      }
      let mut change = NameChange::Unchanged;
      for item in items {
        if self.unlink_held(session, item, &directory, held)? {
          change = NameChange::Removed;
        }
      }
      remove_pin_without_checkpoint(&directory, item);
      Ok(change)
    });
    Ok((removed? == NameChange::Removed).then_some(directory))
  }

  /// Removes one file, and returns whether it existed. The caller holds the lock on the names and that of the lease.
  fn unlink_held(&self, session: &SessionId, item: Item<'_>, directory: &D::Directory, held: Held) -> Result<bool> {
    self.move_latest_link(session, item, directory)?;
    let base_to_release = self.base_to_release(session, item, directory, held);
    match directory.remove_file(&item.file_name()) {
      Ok(()) => {}
      Err(error) if is_absence(&error) => return Ok(false),
      Err(error) => return Err(Error::io("delete", &self.path(session, item), error)),
    }
    if let Some(base) = base_to_release {
      // The checkpoint is deleted. If this fails, the base takes up space until the next prune.
      let _ = bases::release(directory, &base, self.settings.durability);
    }
    Ok(true)
  }

  /// Moves the latest link away from a checkpoint that is about to be deleted.
  fn move_latest_link(&self, session: &SessionId, item: Item<'_>, directory: &D::Directory) -> Result<()> {
    let Item::Checkpoint(None, id, encoding) = item else {
      return Ok(());
    };
    let entry = CheckpointEntry::new(id.clone(), encoding, || modified(directory, &item.file_name()));
    let others = || {
      let mut entries = checkpoints_among(directory, &directory.entries()?);
      entries.sort_unstable_by(CheckpointEntry::newest_first);
      Ok(entries)
    };
    let open = || directories::open(&self.disk, &[session.as_str()]);
    let moved = self
      .latest
      .let_go(session, &entry, self.settings.durability, open, others);
    moved.map_err(|error| Error::io("move the link to", &self.path(session, item), error))
  }

  /// Runs `act`, which adds or removes the name of an item. For a checkpoint it runs under the lock on the names, and the cache
  /// of names is updated. Waits for the lock for at most `timeout`.
  fn rename_or_remove(
    &self,
    timeout: Duration,
    session: &SessionId,
    item: Item<'_>,
    directory: &D::Directory,
    act: impl FnOnce(Held) -> Result<NameChange>,
  ) -> Result<NameChange> {
    let Item::Checkpoint(agent, id, encoding) = item else {
      return act(Held::default());
    };
    let series = Series {
      session: session.clone(),
      agent: agent.cloned(),
    };
    self.names.change_within(timeout, &series, directory, |held| {
      if !held.was_alone && agent.is_none() {
        self.latest.doubt(session);
      }
      let name_change = act(held)?;
      let change = match name_change {
        NameChange::Added => Some(Change::Came(CheckpointEntry {
          is_pinned: exists(directory, &pin_of(id)).unwrap_or(true),
          ..CheckpointEntry::new(id.clone(), encoding, || modified(directory, &item.file_name()))
        })),
        NameChange::Removed => Some(Change::Went(id.clone(), encoding)),
        NameChange::Unchanged => None,
      };
      Ok((name_change, change))
    })
  }

  /// The checkpoints in the directory of a series, each once, newest first.
  fn checkpoints_in(&self, series: &Series, directory: &D::Directory) -> Result<Vec<CheckpointEntry>> {
    let files = self.entries(directory, &below(&series.session, series.folders()))?;
    Ok(each_once(checkpoints_among(directory, &files)))
  }
}

/// The bytes of a file; `None` if it is missing.
fn contents<D: Directory>(directory: &D, name: &str, path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
  match directory.read(name, limit) {
    Ok(Contents::Bytes(bytes)) => Ok(Some(bytes)),
    Ok(Contents::NotAFile) => Err(Error::corrupt(&path.to_string_lossy(), "it is not a file")),
    Ok(Contents::TooLarge(size)) => Err(Error::too_large(&path.to_string_lossy(), size, limit)),
    Err(error) if is_absence(&error) => Ok(None),
    Err(error) => Err(Error::io("read", path, error)),
  }
}

/// The checkpoints among the entries of a directory, in no order, and in every encoding that they have.
fn checkpoints_among<D: Directory>(directory: &D, files: &[Entry]) -> Vec<CheckpointEntry> {
  let entry_of = |file: &Entry| CheckpointEntry::of_file(&file.name, || modified(directory, &file.name));
  let mut entries: Vec<_> = files.iter().filter_map(entry_of).collect();
  let pinned: HashSet<_> = files.iter().filter_map(|file| file.name.strip_suffix(PIN)).collect();
  if !pinned.is_empty() {
    for entry in &mut entries {
      entry.is_pinned = pinned.contains(entry.id.as_str());
    }
  }
  entries
}

/// Removes duplicates, and sorts newest first. A process that died while it replaced one encoding by another leaves both.
fn each_once(mut entries: Vec<CheckpointEntry>) -> Vec<CheckpointEntry> {
  // The encoding that needs no base comes last. Keep that one.
  entries.sort_unstable_by(CheckpointEntry::newest_first);
  entries.reverse();
  entries.dedup_by(|next, kept| next.id == kept.id);
  entries.reverse();
  entries
}

/// The encodings of a checkpoint in a directory: one, unless a process died while it replaced one encoding by another.
fn encodings_of<D: Directory>(directory: &D, item: Item<'_>) -> io::Result<Vec<Encoding>> {
  let Item::Checkpoint(agent, id, _) = item else {
    return Ok(Vec::new());
  };
  let mut encodings = Vec::new();
  for encoding in Encoding::ALL {
    if exists(directory, &Item::Checkpoint(agent, id, encoding).file_name())? {
      encodings.push(encoding);
    }
  }
  Ok(encodings)
}

/// Removes the pin of a checkpoint that no longer exists. The caller holds the lock on the names.
fn remove_pin_without_checkpoint<D: Directory>(directory: &D, item: Item<'_>) {
  if let Item::Checkpoint(_, id, _) = item
    && encodings_of(directory, item).is_ok_and(|encodings| encodings.is_empty())
  {
    let _ = directory.remove_file(&pin_of(id));
  }
}

/// Whether a name exists, whatever it is.
fn exists<D: Directory>(directory: &D, name: &str) -> io::Result<bool> {
  match directory.stat(name) {
    Ok(_) => Ok(true),
    Err(error) if is_absence(&error) => Ok(false),
    Err(error) => Err(error),
  }
}

/// The time of the last change of a file; 1970 if it is unknown.
fn modified<D: Directory>(directory: &D, name: &str) -> Timestamp {
  let stat = directory.stat(name);
  stat.map_or_else(|_| Timestamp::default(), |stat| Timestamp::from_millis(stat.modified))
}

/// Whether the name does not exist: it is missing, or a part of its path is not a directory.
fn is_absence(error: &io::Error) -> bool {
  matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether the directory was deleted during a step: a name in it is missing, or its lock file was deleted first and another
/// writer has created files in it.
fn is_directory_deleted(error: &Error) -> bool {
  use io::ErrorKind as Kind;
  let cause = error.cause.as_ref().and_then(|cause| cause.downcast_ref::<io::Error>());
  cause.is_some_and(|cause| matches!(cause.kind(), Kind::NotFound | Kind::DirectoryNotEmpty))
}

#[cfg(test)]
mod tests;
