//! Sessions on their way out.

use std::io;

use uuid::Uuid;

use super::disk::Directory;
use super::durable::is_uuid;
use super::walk::remove_tree;

/// A session directory that was renamed to this is on its way out: whoever finds one may finish the removal.
const PREFIX: &str = ".deleted-";

pub fn new_name() -> String {
  format!("{PREFIX}{}", Uuid::new_v4().simple())
}

/// Whether [`new_name`] made it.
fn is_ours(name: &str) -> bool {
  name.strip_prefix(PREFIX).is_some_and(is_uuid)
}

/// Ends removals that a dead process began. What cannot be removed now is tried again next time.
pub fn finish<D: Directory>(base: &D) -> io::Result<()> {
  for entry in base.entries()? {
    if is_ours(&entry.name) {
      drop(remove_tree(base, &entry.name));
    }
  }
  Ok(())
}
