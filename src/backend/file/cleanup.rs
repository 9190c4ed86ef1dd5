//! What dead writers left behind: temporary files, and directories of a step that was never decided.

use super::disk::{Directory, Kind};
use super::durable::{is_temporary, temporary_name};
use super::walk::remove_tree;
use crate::types::time::now_ms;

/// Where locks cannot tell whether a writer lives, one that is this old does not.
pub const DEAD_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

/// A directory without files has a writer that is about to make the first one, unless it is this old.
const EMPTY_AFTER_MS: u64 = 60 * 1000;

/// Removes the left-overs in a directory. A living writer holds the lock of its file; nothing of another form is
/// touched. What cannot be removed now will be found again.
///
/// A writer that was caught between making its file and locking it finds it gone, and begins again.
pub fn sweep<D: Directory>(directory: &D) {
  for entry in directory.entries().unwrap_or_default() {
    if !is_temporary(&entry.name) {
      continue;
    }
    match entry.kind {
      Kind::File if is_dead_file(directory, &entry.name) => drop(directory.remove_file(&entry.name)),
      // A link: nobody can hold one, and whoever misses it makes another.
      Kind::Other => drop(directory.remove_file(&entry.name)),
      Kind::Directory if is_dead_directory(directory, &entry.name) => remove_step(directory, &entry.name),
      _ => {}
    }
  }
}

/// Takes a step's directory out of its writer's hands before anything in it is touched: should the writer live after
/// all, either its rename or this one fails, and nothing is torn.
fn remove_step<D: Directory>(directory: &D, name: &str) {
  let claimed = temporary_name("swept");
  if directory.rename(name, directory, &claimed).is_ok() {
    drop(remove_tree(directory, &claimed));
  }
}

fn is_dead_file<D: Directory>(directory: &D, name: &str) -> bool {
  match directory.is_abandoned(name) {
    Ok(Some(answer)) => answer,
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

pub fn is_older<D: Directory>(directory: &D, name: &str, age_ms: u64) -> bool {
  let modified = directory.stat(name).map(|stat| stat.modified);
  modified.is_ok_and(|modified| now_ms().saturating_sub(modified) > age_ms)
}
