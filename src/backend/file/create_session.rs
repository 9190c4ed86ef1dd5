//! Creates a session with all its items in one step: in a staging directory, which is synced and renamed to the id of the
//! session.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::disk::{Directory, Entry, Kind};
use super::durable::{self, Durability, absent_is_fine, fill};
use super::listing_cache::MARK_FILE;
use super::tombstones::new_staging_name;
use super::two_file_commit::LOCK;
use super::walk::remove_tree;
use super::{is_absence, pin_of};
use crate::backend::{CheckpointEntry, Item, ItemSource, NewItem};
use crate::types::error::{Error, Result};

/// The result of creating a session.
#[derive(Debug, PartialEq, Eq)]
pub enum CreateOutcome {
  /// The session was created, with this newest checkpoint of its own.
  Created(Option<CheckpointEntry>),
  /// The session has items already.
  AlreadyExists,
}

/// Creates a session; `path` is its path in errors. The lock that `fence` returns is held during the rename.
pub fn create<D: Directory>(
  base: &D,
  session: &str,
  path: &Path,
  source: &mut ItemSource<'_>,
  durability: Durability,
  fence: impl Fn() -> Result<Option<D::Lock>>,
) -> Result<CreateOutcome> {
  let staging = new_staging_name();
  let fail = |error| Error::io("write", path, error);
  let mut stage = || {
    let mut staged = Staged::new(base, &staging, durability).map_err(fail)?;
    source(&mut |item| staged.add(&item).map_err(fail))?;
    staged.sync().map_err(fail)?;
    let _fence = fence()?;
    let is_in_place = move_into_place(base, &staging, session).map_err(fail)?;
    Ok(if is_in_place {
      CreateOutcome::Created(staged.newest)
    } else {
      CreateOutcome::AlreadyExists
    })
  };
  let created = stage();
  if !matches!(created, Ok(CreateOutcome::Created(_))) {
    // If this fails, the name still marks the directory as left over.
    let _ = remove_tree(base, &staging);
  }
  created
}

/// A session in a staging directory, which no reader sees.
struct Staged<D> {
  session: D,
  /// The folder of the last item, kept open because most items follow one of the same folder.
  folder: Option<(String, D)>,
  /// All folders below the session, as their names joined by `/`.
  folders: BTreeSet<String>,
  durability: Durability,
  newest: Option<CheckpointEntry>,
}

impl<D: Directory> Staged<D> {
  fn new(base: &D, name: &str, durability: Durability) -> io::Result<Self> {
    base.make_directory(name)?;
    Ok(Self {
      session: base.open_directory(name)?,
      folder: None,
      folders: BTreeSet::new(),
      durability,
      newest: None,
    })
  }

  fn add(&mut self, new: &NewItem<'_>) -> io::Result<()> {
    self.enter(&new.item.folders())?;
    let directory = self.folder.as_ref().map_or(&self.session, |(_, folder)| folder);
    let name = new.item.file_name();
    let mut file = directory.create(&name)?;
    fill(directory, &mut file, new.content, self.durability)?;
    durable::sync(directory, &file, self.durability)?;
    // Close the file, which releases its lock.
    drop(file);
    let Item::Checkpoint(agent, id, encoding) = new.item else {
      return Ok(());
    };
    if new.is_pinned {
      match directory.create(&pin_of(id)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => drop(created?),
      }
    }
    if let Some(made_at) = new.made_at {
      directory.set_modified(&name, made_at.into())?;
    }
    if agent.is_none() {
      let entry = CheckpointEntry::new(id.clone(), encoding, || super::modified(directory, &name));
      let is_newer = |newest: &CheckpointEntry| entry.newest_first(newest).is_lt();
      if self.newest.as_ref().is_none_or(is_newer) {
        self.newest = Some(entry);
      }
    }
    Ok(())
  }

  /// Opens the folder of the next item, and creates what is missing of its path.
  fn enter(&mut self, folders: &[&str]) -> io::Result<()> {
    let path = folders.join("/");
    if self.folder.as_ref().map_or("", |(current, _)| current) == path {
      return Ok(());
    }
    self.folder = None;
    for depth in 1..=folders.len() {
      let parent = self.folder.as_ref().map_or(&self.session, |(_, parent)| parent);
      let upper = folders[..depth].join("/");
      if !self.folders.contains(&upper) {
        parent.make_directory(folders[depth - 1])?;
        self.folders.insert(upper.clone());
      }
      let below = parent.open_directory(folders[depth - 1])?;
      self.folder = Some((upper, below));
    }
    Ok(())
  }

  /// Makes all names durable: syncs each directory once, the deepest ones first.
  fn sync(&self) -> io::Result<()> {
    if !self.durability.is_full() {
      return Ok(());
    }
    for path in self.folders.iter().rev() {
      let mut folder: Option<D> = None;
      for name in path.split('/') {
        folder = Some(folder.as_ref().unwrap_or(&self.session).open_directory(name)?);
      }
      folder.as_ref().unwrap_or(&self.session).sync()?;
    }
    self.session.sync()
  }
}

/// Renames the staging directory to the session; false if the session has items already.
fn move_into_place<D: Directory>(base: &D, staging: &str, session: &str) -> io::Result<bool> {
  for _ in 0..2 {
    match base.rename(staging, base, session) {
      Ok(()) => return Ok(true),
      Err(error) if is_taken(&error) => {}
      Err(error) => return Err(error),
    }
    // Empty directories of the session, such as `create_session` without a source makes, are replaced.
    if !remove_if_no_items(base, session)? {
      return Ok(false);
    }
  }
  Ok(false)
}

fn is_taken(error: &io::Error) -> bool {
  use io::ErrorKind as Kind;
  matches!(
    error.kind(),
    Kind::DirectoryNotEmpty | Kind::AlreadyExists | Kind::NotADirectory | Kind::PermissionDenied
  )
}

/// Files that are not items.
const LOCK_FILES: [&str; 2] = [LOCK, MARK_FILE];

/// Removes a directory if it contains only directories and lock files that no process holds. A file that is added meanwhile
/// stays.
fn remove_if_no_items<D: Directory>(parent: &D, name: &str) -> io::Result<bool> {
  let directory = match parent.open_directory(name) {
    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
    // A file, or a link.
    Err(error) if is_absence(&error) => return Ok(false),
    directory => directory?,
  };
  // Held until the directory is removed, or found to be in use: a writer that finds no lock file creates a new one.
  let mut locks = Vec::new();
  let mut entries = directory.entries()?;
  let is_lock_file = |entry: &Entry| entry.kind == Kind::File && LOCK_FILES.contains(&entry.name.as_str());
  // Lock files last, when nothing else is left: a session in use keeps them.
  entries.sort_by_key(|entry| (is_lock_file(entry), entry.kind == Kind::Directory));
  for entry in entries {
    let is_removed = match entry.kind {
      Kind::Directory => remove_if_no_items(&directory, &entry.name)?,
      Kind::File if is_lock_file(&entry) => match directory.try_lock(&entry.name) {
        Ok(Some(lock)) => {
          locks.push(lock);
          absent_is_fine(directory.remove_file(&entry.name))?;
          true
        }
        Ok(None) => false,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        Err(error) => return Err(error),
      },
      Kind::File | Kind::Other => false,
    };
    if !is_removed {
      return Ok(false);
    }
  }
  match parent.remove_directory(name) {
    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
    removed => removed.map(|()| true),
  }
}
