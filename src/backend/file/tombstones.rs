//! Directories of sessions that are being deleted (tombstones) or created (staging directories).

use std::io;

use uuid::Uuid;

use super::cleanup::{DEAD_AFTER_MS, is_older};
use super::disk::Directory;
use super::durable::is_uuid;
use super::walk::remove_tree;

/// The directory of a deleted session. Any process may remove it.
const PREFIX: &str = ".deleted-";

/// The directory of a session that is being created. Its writer may be alive, unless the directory is old.
const STAGING_PREFIX: &str = ".new-";

/// A new name for a staging directory.
pub fn new_staging_name() -> String {
  format!("{STAGING_PREFIX}{}", Uuid::new_v4().simple())
}

/// A new name for a tombstone.
pub fn new_name() -> String {
  format!("{PREFIX}{}", Uuid::new_v4().simple())
}

/// Whether the name has the form of [`new_name`].
fn is_tombstone(name: &str) -> bool {
  name.strip_prefix(PREFIX).is_some_and(is_uuid)
}

fn is_abandoned<D: Directory>(base: &D, name: &str) -> bool {
  name.strip_prefix(STAGING_PREFIX).is_some_and(is_uuid) && is_older(base, name, DEAD_AFTER_MS)
}

/// Removes tombstones, and the staging directories of dead processes. Errors are ignored: the next call tries again.
pub fn finish<D: Directory>(base: &D) -> io::Result<()> {
  for entry in base.entries()? {
    if is_tombstone(&entry.name) {
      drop(remove_tree(base, &entry.name));
    } else if is_abandoned(base, &entry.name) {
      // Rename first: if the writer was only stopped, either its rename or this one fails.
      let tombstone = new_name();
      if base.rename(&entry.name, base, &tombstone).is_ok() {
        drop(remove_tree(base, &tombstone));
      }
    }
  }
  Ok(())
}
