//! Removes what dead writers left: temporary files, and staged directories that were never committed.

use super::disk::{Directory, Kind};
use super::durable::{is_temporary, temporary_name};
use super::walk::remove_tree;
use crate::types::time::now_ms;

/// Where locks cannot tell whether a writer is alive, a file of this age belongs to a dead one.
pub const DEAD_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

/// The writer of an empty directory is about to create the first file, unless the directory has this age.
const EMPTY_AFTER_MS: u64 = 60 * 1000;

/// Removes the temporary files and staged directories of dead writers from a directory. A live writer holds the lock on its file.
/// Other names are not touched. Errors are ignored: the next sweep tries again.
///
/// A writer may lose its file between creating and locking it. It then repeats its write.
pub fn sweep<D: Directory>(directory: &D) {
  for entry in directory.entries().unwrap_or_default() {
    if !is_temporary(&entry.name) {
      continue;
    }
    match entry.kind {
      Kind::File if is_dead_file(directory, &entry.name) => drop(directory.remove_file(&entry.name)),
      // A link cannot be locked. Its writer creates another if this one is missing.
      Kind::Other => drop(directory.remove_file(&entry.name)),
      Kind::Directory if is_dead_directory(directory, &entry.name) => remove_staged(directory, &entry.name),
      _ => {}
    }
  }
}

/// Renames a staged directory before anything in it is touched. If its writer is alive nevertheless, either its rename or this
/// one fails, so no half of the directory is ever committed.
fn remove_staged<D: Directory>(directory: &D, name: &str) {
  let claimed = temporary_name("swept");
  if directory.rename(name, directory, &claimed).is_ok() {
    drop(remove_tree(directory, &claimed));
  }
}

fn is_dead_file<D: Directory>(directory: &D, name: &str) -> bool {
  match directory.is_abandoned(name) {
    Ok(Some(is_abandoned)) => is_abandoned,
    Ok(None) => is_older(directory, name, DEAD_AFTER_MS),
    Err(_) => false,
  }
}

fn is_dead_directory<D: Directory>(parent: &D, name: &str) -> bool {
  let Ok(files) = parent
    .open_directory(name)
    .and_then(|directory| Ok((directory.entries()?, directory)))
  else {
    return false;
  };
  let (entries, directory) = files;
  if entries.is_empty() {
    return is_older(parent, name, EMPTY_AFTER_MS);
  }
  entries.iter().all(|entry| is_dead_file(&directory, &entry.name))
}

/// Whether the last change of a file is longer ago than `age_ms`.
pub fn is_older<D: Directory>(directory: &D, name: &str, age_ms: u64) -> bool {
  let modified = directory.stat(name).map(|stat| stat.modified);
  modified.is_ok_and(|modified| now_ms().saturating_sub(modified) > age_ms)
}
