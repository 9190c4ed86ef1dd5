//! A whole session as one step: it is made under a name that nobody looks at, synced, and renamed into its place.

use std::io;

use super::disk::{Directory, Kind};
use super::durable::{self, Durability, fill};
use super::is_absence;
use super::removed::new_staging_name;
use super::walk::remove_tree;
use crate::backend::{Content, Item};

/// Whether the session was made; it was not if there is anything of it already.
pub fn found<D: Directory>(
  base: &D,
  session: &str,
  items: &[(Item<'_>, &dyn Content)],
  durability: Durability,
) -> io::Result<bool> {
  let staging = new_staging_name();
  let made = stage(base, &staging, items, durability).and_then(|()| move_into_place(base, &staging, session));
  if !matches!(made, Ok(true)) {
    // If even this fails there is nothing better to do: the name marks it as a left-over.
    let _ = remove_tree(base, &staging);
  }
  made
}

fn stage<D: Directory>(
  base: &D,
  name: &str,
  items: &[(Item<'_>, &dyn Content)],
  durability: Durability,
) -> io::Result<()> {
  base.make_directory(name)?;
  let session = base.open_directory(name)?;
  for (item, content) in items {
    let folder = open_or_make(&session, &item.folders())?;
    let directory = folder.as_ref().unwrap_or(&session);
    let mut file = directory.create(&item.file_name())?;
    fill(directory, &mut file, *content, durability)?;
    durable::sync(directory, &file, durability)?;
    if durability.is_full() {
      directory.sync()?;
    }
  }
  if durability.is_full() {
    session.sync()?;
  }
  Ok(())
}

fn open_or_make<D: Directory>(session: &D, folders: &[&str]) -> io::Result<Option<D>> {
  let mut deepest: Option<D> = None;
  for folder in folders {
    let parent = deepest.as_ref().unwrap_or(session);
    match parent.make_directory(folder) {
      Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
      made => made?,
    }
    deepest = Some(parent.open_directory(folder)?);
  }
  Ok(deepest)
}

fn move_into_place<D: Directory>(base: &D, staging: &str, session: &str) -> io::Result<bool> {
  for _ in 0..2 {
    match base.rename(staging, base, session) {
      Ok(()) => return Ok(true),
      Err(error) if is_taken(&error) => {}
      Err(error) => return Err(error),
    }
    // Directories that somebody made ahead of time are nothing that could be lost.
    if !remove_if_hollow(base, session)? {
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

/// Removes a directory if there are only directories in it. Who puts a file there meanwhile keeps it.
fn remove_if_hollow<D: Directory>(parent: &D, name: &str) -> io::Result<bool> {
  let directory = match parent.open_directory(name) {
    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
    // A file, or a link.
    Err(error) if is_absence(&error) => return Ok(false),
    directory => directory?,
  };
  for entry in directory.entries()? {
    if entry.kind != Kind::Directory || !remove_if_hollow(&directory, &entry.name)? {
      return Ok(false);
    }
  }
  match parent.remove_directory(name) {
    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
    removed => removed.map(|()| true),
  }
}
