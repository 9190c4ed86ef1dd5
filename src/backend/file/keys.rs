//! What deltas stand on. A key is a file beside them that only its maker adds to; it goes with the last delta that needs it.
//!
//! A delta gets its name, and a key loses its own, only under the lock of the names: whoever cannot have that lock writes no
//! delta, and leaves every key where it is.

use std::collections::HashSet;
use std::io;

use super::disk::{Contents, Directory, Disk, Kind};
use super::durable::{self, Durability, absent_is_fine};
use super::listing_cache::Held;
use super::{FileBackend, checkpoints_among, is_absence};
use crate::backend::item::key_of_file;
use crate::backend::{BaseRef, Encoding, FileStamp, Item, KeyMerge, Series};
use crate::codec::delta::{REFERENCE_BYTES, Reference};
use crate::codec::zstd;
use crate::types::id::{CheckpointId, SessionId};

impl<D: Disk> FileBackend<D> {
  /// The key that an item stands on, if it may be the last one to do so. One that cannot be read can be removed all the same.
  pub(super) fn doomed_key(
    &self,
    session: &SessionId,
    item: Item<'_>,
    directory: &D::Directory,
    held: Held,
  ) -> Option<CheckpointId> {
    let Item::Checkpoint(agent, id, Encoding::Delta) = item else {
      return None;
    };
    if !held.is_locked {
      return None;
    }
    let key = stands_on(directory, id).ok().flatten()?;
    let series = Series {
      session: session.clone(),
      agent: agent.cloned(),
    };
    // Nearly always the one that comes next stands on it too, and nothing has to be listed.
    let next = self.names.next_delta(&series, id);
    let next_key = next.and_then(|next| stands_on(directory, &next).ok().flatten());
    (next_key.as_ref() != Some(&key)).then_some(key)
  }
}

/// Adds to a key. The answer is whether it was there, as it was left.
pub(super) fn add<D: Directory>(
  directory: &D,
  key: &str,
  footing: BaseRef<'_>,
  durability: Durability,
) -> io::Result<bool> {
  if footing.added.is_empty() {
    return Ok(true);
  }
  let before = BaseRef { added: &[], ..footing };
  match look(directory, key, before)? {
    Some(look) if footing.seen.is_none_or(|seen| look == seen.look) => {}
    _ => return Ok(false),
  }
  let mut file = match directory.reopen(key, footing.known) {
    Err(error) if is_absence(&error) => return Ok(false),
    file => file?,
  };
  directory.write(&mut file, footing.added)?;
  durable::sync(directory, &file, durability)?;
  Ok(true)
}

/// What to do with a new key where one of its name may be present.
pub(super) fn merge<D: Directory>(directory: &D, key: &str, new: &[u8]) -> io::Result<KeyMerge> {
  Ok(KeyMerge::of(new, read(directory, key)?.as_deref()))
}

/// How a key looks; `None` if it has not all the bytes, or if it was changed and not only became longer.
pub(super) fn look<D: Directory>(directory: &D, key: &str, footing: BaseRef<'_>) -> io::Result<Option<FileStamp>> {
  let stat = match directory.stat(key) {
    Err(error) if is_absence(&error) => return Ok(None),
    stat => stat?,
  };
  let look = FileStamp {
    size: stat.size,
    modified: stat.modified,
  };
  if stat.kind != Kind::File || look.size < footing.bytes() {
    return Ok(None);
  }
  let is_as_left = match footing.seen {
    // What was added is what somebody just added here, to a key that looked as it was left.
    Some(seen) if footing.added.is_empty() && look != seen.look => {
      look.size > seen.look.size && checksum_at(directory, key, footing.known)? == Some(seen.checksum)
    }
    _ => true,
  };
  Ok(is_as_left.then_some(look))
}

/// The checksum that ends so many bytes of a key; `None` if they are not there.
fn checksum_at<D: Directory>(directory: &D, key: &str, bytes: u64) -> io::Result<Option<u32>> {
  let there = read(directory, key)?.unwrap_or_default();
  let known = usize::try_from(bytes).ok().and_then(|bytes| there.get(..bytes));
  Ok(known.and_then(zstd::checksum))
}

/// The bytes of a key; `None` if there is none.
fn read<D: Directory>(directory: &D, key: &str) -> io::Result<Option<Vec<u8>>> {
  match directory.read(key, u64::MAX) {
    Ok(Contents::Bytes(bytes)) => Ok(Some(bytes)),
    Ok(Contents::NotAFile | Contents::TooLarge(_)) => Ok(None),
    Err(error) if is_absence(&error) => Ok(None),
    Err(error) => Err(error),
  }
}

/// The key that a delta stands on; `None` if it is not there, or says nothing of the kind.
fn stands_on<D: Directory>(directory: &D, id: &CheckpointId) -> io::Result<Option<CheckpointId>> {
  let name = Item::Checkpoint(None, id, Encoding::Delta).file_name();
  match directory.peek(&name, REFERENCE_BYTES, 0) {
    Err(error) if is_absence(&error) => Ok(None),
    peek => Ok(peek?.and_then(|peek| Some(Reference::of(&peek.head)?.key))),
  }
}

/// Removes a key if no delta stands on it any more; to be called under the lock of the names. The answer is whether it did.
pub(super) fn release<D: Directory>(directory: &D, key: &CheckpointId, durability: Durability) -> io::Result<bool> {
  let entries = checkpoints_among(directory, &directory.entries()?);
  for entry in entries.iter().filter(|entry| entry.encoding == Encoding::Delta) {
    if stands_on(directory, &entry.id)?.as_ref() == Some(key) {
      return Ok(false);
    }
  }
  if durability.is_full() {
    // Whatever a power cut brings back, there is no delta without its key.
    directory.sync()?;
  }
  absent_is_fine(directory.remove_file(&Item::Key(None, key).file_name()))?;
  Ok(true)
}

/// The keys in a directory, in the order of their ids, and their sizes.
pub(super) fn all<D: Directory>(directory: &D) -> io::Result<Vec<(CheckpointId, u64)>> {
  let mut keys = Vec::new();
  for entry in directory.entries()? {
    if let Some(id) = key_of_file(&entry.name) {
      match directory.stat(&entry.name) {
        Err(error) if is_absence(&error) => {}
        stat => keys.push((id, stat?.size)),
      }
    }
  }
  keys.sort_unstable();
  Ok(keys)
}

/// The keys that no delta stands on, in the order of their ids, and their sizes.
pub(super) fn unused<D: Directory>(directory: &D) -> io::Result<Vec<(CheckpointId, u64)>> {
  let mut in_use = HashSet::new();
  for entry in checkpoints_among(directory, &directory.entries()?) {
    if entry.encoding == Encoding::Delta {
      in_use.extend(stands_on(directory, &entry.id)?);
    }
  }
  let mut keys = all(directory)?;
  keys.retain(|(key, _)| !in_use.contains(key));
  Ok(keys)
}

/// Removes keys that no delta stands on.
pub(super) fn remove_all<D: Directory>(
  directory: &D,
  keys: &[(CheckpointId, u64)],
  durability: Durability,
) -> io::Result<()> {
  if durability.is_full() {
    // Whatever a power cut brings back, there is no delta without its key.
    directory.sync()?;
  }
  for (key, _) in keys {
    absent_is_fine(directory.remove_file(&Item::Key(None, key).file_name()))?;
  }
  Ok(())
}
