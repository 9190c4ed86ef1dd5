//! Files and directories, in the layout of the original store.

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

#[derive(Debug)]
pub struct FileBackend<D: Disk = SystemDisk> {
  disk: D,
  /// For names in answers and errors; the disk knows its own.
  base: PathBuf,
  settings: Settings,
  directories: Directories,
  names: Names,
  latest: Latest,
  fences: Fences,
}

impl FileBackend {
  /// `base` must be absolute. Nothing is touched before [`Backend::initialize`].
  #[must_use]
  pub fn new(base: PathBuf, settings: impl Into<Settings>) -> Self {
    Self::on(SystemDisk::new(base.clone()), base, settings)
  }
}

/// What became of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameChange {
  Came,
  Went,
  Nothing,
}

/// Where an item lies: the names of the directories below the base, and its own.
struct SessionPath<'a> {
  directory: Vec<&'a str>,
  name: String,
}

impl<'a> SessionPath<'a> {
  fn of(session: &'a SessionId, item: Item<'a>) -> Self {
    Self {
      directory: below(session, item.folders()),
      name: item.file_name(),
    }
  }
}

fn below<'a>(session: &'a SessionId, folders: Vec<&'a str>) -> Vec<&'a str> {
  [session.as_str()].into_iter().chain(folders).collect()
}

/// The empty file that keeps retention from a checkpoint.
fn pin_of(id: &CheckpointId) -> String {
  format!("{id}{PIN}")
}

const PIN: &str = ".pin";

impl<D: Disk> FileBackend<D> {
  /// A backend on any disk; `base` is what its names are shown below.
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
      let directory = self.directories.ensure(&self.disk, path, self.settings.durability);
      let directory = directory.map_err(|error| Error::io("create directory", &self.shown(path), error));
      match directory.and_then(|directory| write(&directory)) {
        Err(error) if is_swept_away(&error) && attempts < ATTEMPTS => {}
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

  /// Removes the name of an item, of a checkpoint in every encoding, and gives the directory that it was in; `None` if it was
  /// not there. The lock on the names is waited for at most `timeout`.
  fn unlink(
    &self,
    timeout: Duration,
    session: &SessionId,
    item: Item<'_>,
    may_go: impl Fn(&D::Directory, Held) -> Result<bool>,
  ) -> Result<Option<D::Directory>> {
    let place = SessionPath::of(session, item);
    let Some(directory) = self.open_directory(&place.directory)? else {
      return Ok(None);
    };
    let fail = |error| Error::io("delete", &self.path(session, item), error);
    let removed = self.rename_or_remove(timeout, session, item, &directory, |held| {
      if !may_go(&directory, held)? {
        return Ok(NameChange::Nothing);
      }
      let items = match item {
        Item::Checkpoint(agent, id, _) => {
          let encodings = encodings_of(&directory, item).map_err(fail)?;
          let items = encodings
            .into_iter()
            .map(|encoding| Item::Checkpoint(agent, id, encoding));
          items.collect()
        }
        other if exists(&directory, &place.name).map_err(fail)? => vec![other],
        _ => Vec::new(),
      };
      if items.is_empty() {
        return Ok(NameChange::Nothing);
      }
      let _fence = self.fence(session)?;
      if items != [item] {
        // Names change that the caller does not know of.
        self.names.forget(session);
      }
      let mut happened = NameChange::Nothing;
      for item in items {
        if self.unlink_held(session, item, &directory, held)? {
          happened = NameChange::Went;
        }
      }
      unpin(&directory, item);
      Ok(happened)
    });
    Ok((removed? == NameChange::Went).then_some(directory))
  }

  /// An error if another process may hold the lock on the names.
  fn refuse_if_busy(&self, session: &SessionId, item: Item<'_>, held: Held) -> Result<()> {
    if held.is_busy {
      let path = self.path(session, item);
      return Err(Error::busy("delete", &path, io::ErrorKind::ResourceBusy.into()));
    }
    Ok(())
  }

  /// Removes one name, and says whether it was there. The caller holds the lock on the names and that of the lease.
  fn unlink_held(&self, session: &SessionId, item: Item<'_>, directory: &D::Directory, held: Held) -> Result<bool> {
    self.let_go(session, item, directory)?;
    let base_to_release = self.base_to_release(session, item, directory, held);
    match directory.remove_file(&item.file_name()) {
      Ok(()) => {}
      Err(error) if is_absence(&error) => return Ok(false),
      Err(error) => return Err(Error::io("delete", &self.path(session, item), error)),
    }
    if let Some(base) = base_to_release {
      // The checkpoint is gone. A base that stays takes up space until the next prune.
      let _ = bases::release(directory, &base, self.settings.durability);
    }
    Ok(true)
  }

  /// Before a checkpoint of a session goes: the link to the newest must not name it.
  fn let_go(&self, session: &SessionId, item: Item<'_>, directory: &D::Directory) -> Result<()> {
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

  /// Does what brings or takes the name of an item; names of checkpoints are remembered. The lock on the names is waited for at
  /// most `timeout`.
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
      let happened = act(held)?;
      let change = match happened {
        NameChange::Came => Some(Change::Came(CheckpointEntry {
          is_pinned: exists(directory, &pin_of(id)).unwrap_or(true),
          ..CheckpointEntry::new(id.clone(), encoding, || modified(directory, &item.file_name()))
        })),
        NameChange::Went => Some(Change::Went(id.clone(), encoding)),
        NameChange::Nothing => None,
      };
      Ok((happened, change))
    })
  }

  /// The checkpoints in their directory, each once, newest first.
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

/// The same, each checkpoint once: a process that died while it replaced one encoding by another left both. Newest first.
fn each_once(mut entries: Vec<CheckpointEntry>) -> Vec<CheckpointEntry> {
  // The encoding that needs no base comes last, and is kept.
  entries.sort_unstable_by(CheckpointEntry::newest_first);
  entries.reverse();
  entries.dedup_by(|next, kept| next.id == kept.id);
  entries.reverse();
  entries
}

/// The encodings in which a directory holds the checkpoint of an item: one, unless a process died while it replaced one by
/// another.
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

/// When a checkpoint is gone: a pin without one means nothing. The caller holds the lock on the names.
fn unpin<D: Directory>(directory: &D, item: Item<'_>) {
  if let Item::Checkpoint(_, id, _) = item
    && encodings_of(directory, item).is_ok_and(|encodings| encodings.is_empty())
  {
    let _ = directory.remove_file(&pin_of(id));
  }
}

/// Whether there is something under a name.
fn exists<D: Directory>(directory: &D, name: &str) -> io::Result<bool> {
  match directory.stat(name) {
    Ok(_) => Ok(true),
    Err(error) if is_absence(&error) => Ok(false),
    Err(error) => Err(error),
  }
}

/// When a file was last changed, in milliseconds.
fn modified<D: Directory>(directory: &D, name: &str) -> u64 {
  directory.stat(name).map_or(0, |stat| stat.modified)
}

/// Whether there is nothing under that name: it is missing, or a part of its path is no directory.
fn is_absence(error: &io::Error) -> bool {
  matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a directory went away in the middle of a step: a name in it is missing, or its lock went before it did and
/// somebody else was let in.
fn is_swept_away(error: &Error) -> bool {
  use io::ErrorKind as Kind;
  let cause = error.cause.as_ref().and_then(|cause| cause.downcast_ref::<io::Error>());
  cause.is_some_and(|cause| matches!(cause.kind(), Kind::NotFound | Kind::DirectoryNotEmpty))
}

#[cfg(test)]
mod tests;
