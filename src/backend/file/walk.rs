//! Recursive removal and measuring of directories.

use std::io;

use super::disk::{Directory, Kind};
use super::durable::{ATTEMPTS, absent_is_fine};
use super::is_absence;
use super::two_file_commit::LOCK;

/// Removes a directory and everything below it, including files that a writer adds meanwhile.
pub fn remove_tree<D: Directory>(parent: &D, name: &str) -> io::Result<()> {
  for _ in 1..ATTEMPTS {
    match try_remove_tree(parent, name, 0) {
      Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
      removed => return removed,
    }
  }
  try_remove_tree(parent, name, 0)
}

fn try_remove_tree<D: Directory>(parent: &D, name: &str, depth: usize) -> io::Result<()> {
  check_depth(depth)?;
  let directory = match parent.open_directory(name) {
    Err(error) if is_absence(&error) => return Ok(()),
    directory => directory?,
  };
  for entry in directory.entries()? {
    match entry.kind {
      Kind::Directory => try_remove_tree(&directory, &entry.name, depth + 1)?,
      Kind::File | Kind::Other => absent_is_fine(directory.remove_file(&entry.name))?,
    }
  }
  absent_is_fine(parent.remove_directory(name))
}

/// An error if a directory is nested too deeply: the walks recurse, and each level takes stack and an open file.
fn check_depth(depth: usize) -> io::Result<()> {
  const MAX_DEPTH: usize = 64;
  if depth > MAX_DEPTH {
    return Err(io::Error::other(format!(
      "directories are nested more than {MAX_DEPTH} deep"
    )));
  }
  Ok(())
}

/// The size of all files below the directory of a session, without the lock file. Files that are removed during the walk do not
/// count.
pub fn tree_size<D: Directory>(directory: &D, depth: usize) -> io::Result<u64> {
  check_depth(depth)?;
  let mut total = 0;
  for entry in directory.entries()?.iter().filter(|entry| entry.name != LOCK) {
    let size = match entry.kind {
      Kind::Directory => directory
        .open_directory(&entry.name)
        .and_then(|below| tree_size(&below, depth + 1)),
      Kind::File => directory.stat(&entry.name).map(|stat| stat.size),
      Kind::Other => Ok(0),
    };
    match size {
      Err(error) if is_absence(&error) => {}
      size => total += size?,
    }
  }
  Ok(total)
}
