//! Sessions on their way in or out.

use std::io;

use uuid::Uuid;

use super::cleanup::{DEAD_AFTER_MS, is_older};
use super::disk::Directory;
use super::durable::is_uuid;
use super::walk::remove_tree;

/// A session directory that was renamed to this is on its way out: whoever finds one may finish the removal.
const PREFIX: &str = ".deleted-";

/// A session that is being made: its maker may still be at it, unless it is old.
const STAGING_PREFIX: &str = ".new-";

pub fn new_staging_name() -> String {
  format!("{STAGING_PREFIX}{}", Uuid::new_v4().simple())
}

pub fn new_name() -> String {
  format!("{PREFIX}{}", Uuid::new_v4().simple())
}

/// Whether [`new_name`] made it.
fn is_ours(name: &str) -> bool {
  name.strip_prefix(PREFIX).is_some_and(is_uuid)
}

fn is_abandoned<D: Directory>(base: &D, name: &str) -> bool {
  name.strip_prefix(STAGING_PREFIX).is_some_and(is_uuid) && is_older(base, name, DEAD_AFTER_MS)
}

/// Ends removals that a dead process began, and removes what it began to make. What cannot be removed now is tried again
/// next time.
pub fn finish<D: Directory>(base: &D) -> io::Result<()> {
  for entry in base.entries()? {
    if is_ours(&entry.name) {
      drop(remove_tree(base, &entry.name));
    } else if is_abandoned(base, &entry.name) {
      // Renamed first: a maker that was only stopped finds its session gone, or has given it its name before.
      let doomed = new_name();
      if base.rename(&entry.name, base, &doomed).is_ok() {
        drop(remove_tree(base, &doomed));
      }
    }
  }
  Ok(())
}
