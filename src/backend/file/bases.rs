//! Bases of deltas. A base is a file beside them that only the store that created it appends to. It is deleted with the last delta
//! that is based on it.
//!
//! A delta gets its name, and a base is deleted, only under the lock on the names: a writer without that lock writes no delta and
//! deletes no base.

use std::collections::HashSet;
use std::io;

use super::disk::{Contents, Directory, Disk, Kind};
use super::durable::{self, Durability, absent_is_fine};
use super::listing_cache::Held;
use super::{FileBackend, checkpoints_among, is_absence};
use crate::backend::item::base_of_file;
use crate::backend::{BaseMerge, BaseRef, Encoding, FileStamp, Item, Series};
use crate::codec::delta::{REFERENCE_BYTES, Reference};
use crate::codec::zstd;
use crate::types::id::{CheckpointId, SessionId};

impl<D: Disk> FileBackend<D> {
  /// The base of a delta, if it may be the last one that is based on it. An unreadable delta has none: it can be deleted all the same.
  pub(super) fn base_to_release(
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
    let base = base_of(directory, id).ok().flatten()?;
    let series = Series::of(session, agent);
    // Usually the next delta has the same base, and nothing has to be listed.
    let next = self.names.next_delta(&series, id);
    let next_base = next.and_then(|next| base_of(directory, &next).ok().flatten());
    (next_base.as_ref() != Some(&base)).then_some(base)
  }
}

/// Appends to a base. Returns whether it was present and unchanged.
pub(super) fn append<D: Directory>(
  directory: &D,
  name: &str,
  base: BaseRef<'_>,
  durability: Durability,
) -> io::Result<bool> {
  if base.added.is_empty() {
    return Ok(true);
  }
  let before = BaseRef { added: &[], ..base };
  match stamp(directory, name, before)? {
    Some(stamp) if base.fingerprint.is_none_or(|fingerprint| stamp == fingerprint.stamp) => {}
    _ => return Ok(false),
  }
  let mut file = match directory.reopen(name, base.known) {
    Err(error) if is_absence(&error) => return Ok(false),
    file => file?,
  };
  directory.write(&mut file, base.added)?;
  durable::sync(directory, &file, durability)?;
  Ok(true)
}

/// What to do with a new base where one of its name may be present.
pub(super) fn merge<D: Directory>(directory: &D, name: &str, new: &[u8]) -> io::Result<BaseMerge> {
  Ok(BaseMerge::of(new, read(directory, name)?.as_deref()))
}

/// The state of a base; `None` if bytes are missing, or if it was changed in any way but by appending.
pub(super) fn stamp<D: Directory>(directory: &D, name: &str, base: BaseRef<'_>) -> io::Result<Option<FileStamp>> {
  let stat = match directory.stat(name) {
    Err(error) if is_absence(&error) => return Ok(None),
    stat => stat?,
  };
  let stamp = FileStamp {
    size: stat.size,
    modified: stat.modified,
  };
  if stat.kind != Kind::File || stamp.size < base.size() {
    return Ok(None);
  }
  let is_as_left = match base.fingerprint {
    // `added` was appended just now, to a base in the known state.
    Some(known) if base.added.is_empty() && stamp != known.stamp => {
      stamp.size > known.stamp.size && checksum_at(directory, name, base.known)? == Some(known.checksum)
    }
    _ => true,
  };
  Ok(is_as_left.then_some(stamp))
}

/// The checksum at the end of the first `bytes` bytes of a base; `None` if there are fewer.
fn checksum_at<D: Directory>(directory: &D, name: &str, bytes: u64) -> io::Result<Option<u32>> {
  let present = read(directory, name)?.unwrap_or_default();
  let known = usize::try_from(bytes).ok().and_then(|bytes| present.get(..bytes));
  Ok(known.and_then(zstd::checksum))
}

/// The bytes of a base; `None` if it is missing.
fn read<D: Directory>(directory: &D, name: &str) -> io::Result<Option<Vec<u8>>> {
  match directory.read(name, u64::MAX) {
    Ok(Contents::Bytes(bytes)) => Ok(Some(bytes)),
    Ok(Contents::NotAFile | Contents::TooLarge(_)) => Ok(None),
    Err(error) if is_absence(&error) => Ok(None),
    Err(error) => Err(error),
  }
}

/// The base of a delta; `None` if the delta is missing or damaged.
fn base_of<D: Directory>(directory: &D, id: &CheckpointId) -> io::Result<Option<CheckpointId>> {
  let name = Item::Checkpoint(None, id, Encoding::Delta).file_name();
  match directory.peek(&name, REFERENCE_BYTES, 0) {
    Err(error) if is_absence(&error) => Ok(None),
    peek => Ok(peek?.and_then(|peek| Some(Reference::of(&peek.head)?.key))),
  }
}

/// Deletes a base if no delta is based on it, and returns whether it did. The caller holds the lock on the names.
pub(super) fn release<D: Directory>(directory: &D, base: &CheckpointId, durability: Durability) -> io::Result<bool> {
  let entries = checkpoints_among(directory, &directory.entries()?);
  for entry in entries.iter().filter(|entry| entry.encoding == Encoding::Delta) {
    if base_of(directory, &entry.id)?.as_ref() == Some(base) {
      return Ok(false);
    }
  }
  if durability.is_full() {
    // A delta that a power cut brings back must have its base.
    directory.sync()?;
  }
  absent_is_fine(directory.remove_file(&Item::Base(None, base).file_name()))?;
  Ok(true)
}

/// The bases in a directory, ordered by id, with their sizes.
pub(super) fn all<D: Directory>(directory: &D) -> io::Result<Vec<(CheckpointId, u64)>> {
  let mut bases = Vec::new();
  for entry in directory.entries()? {
    if let Some(id) = base_of_file(&entry.name) {
      match directory.stat(&entry.name) {
        Err(error) if is_absence(&error) => {}
        stat => bases.push((id, stat?.size)),
      }
    }
  }
  bases.sort_unstable();
  Ok(bases)
}

/// The bases that no delta is based on, ordered by id, with their sizes.
pub(super) fn unused<D: Directory>(directory: &D) -> io::Result<Vec<(CheckpointId, u64)>> {
  let mut in_use = HashSet::new();
  for entry in checkpoints_among(directory, &directory.entries()?) {
    if entry.encoding == Encoding::Delta {
      in_use.extend(base_of(directory, &entry.id)?);
    }
  }
  let mut bases = all(directory)?;
  bases.retain(|(id, _)| !in_use.contains(id));
  Ok(bases)
}

/// Deletes unused bases.
pub(super) fn remove_all<D: Directory>(
  directory: &D,
  bases: &[(CheckpointId, u64)],
  durability: Durability,
) -> io::Result<()> {
  if durability.is_full() {
    // A delta that a power cut brings back must have its base.
    directory.sync()?;
  }
  for (base, _) in bases {
    absent_is_fine(directory.remove_file(&Item::Base(None, base).file_name()))?;
  }
  Ok(())
}
