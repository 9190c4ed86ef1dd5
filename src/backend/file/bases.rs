//! Bases of deltas. A base is a file in the directory of its deltas. Only the store that created it appends to it. It is deleted
//! with the last delta that is based on it.
//!
//! A delta gets its name, and a base is deleted, only under the lock on the names: a writer without that lock writes no delta and
//! deletes no base.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use super::disk::{Contents, Directory, Disk, Kind};
use super::durable::{self, Durability, Temporary, absent_is_fine};
use super::listing_cache::Held;
use super::{FileBackend, checkpoints_among, is_absence};
use crate::backend::item::base_of_file;
use crate::backend::{BaseMerge, BaseRef, Encoding, FileStamp, Item, Series};
use crate::codec::delta::{REFERENCE_BYTES, Reference};
use crate::codec::zstd;
use crate::types::error::{Error, Result};
use crate::types::id::{CheckpointId, SessionId};

impl<D: Disk> FileBackend<D> {
  /// The base of a delta, if no other delta may be based on it. An unreadable delta has no base, so that it can be deleted.
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
    // Usually the next delta has the same base, and the directory need not be listed.
    let next = self.names.next_delta(&series, id);
    let next_base = next.and_then(|next| base_of(directory, &next).ok().flatten());
    (next_base.as_ref() != Some(&base)).then_some(base)
  }
}

/// The base of a delta that is about to be stored, with its name and its path in errors.
pub(super) struct BaseFile<'a> {
  pub base: BaseRef<'a>,
  pub name: String,
  pub path: PathBuf,
}

/// The bytes of a base, written before the delta.
pub(super) enum StagedBase<'a, D: Directory> {
  /// A new base, under a temporary name.
  New(Temporary<'a, D>),
  /// The base existed, and the bytes were appended.
  Appended,
  /// The base is missing or was changed.
  Gone,
}

impl BaseFile<'_> {
  /// Writes the bytes of the base. Appending needs no lock: only the store that created a base appends to it.
  pub fn stage<'a, D: Directory>(&self, directory: &'a D, durability: Durability) -> Result<StagedBase<'a, D>> {
    let (name, added) = (&self.name, self.base.added);
    let staged = if self.base.known == 0 {
      Temporary::write(directory, name, &added, durability).map(StagedBase::New)
    } else {
      append(directory, name, self.base, durability).map(|is_appended| {
        if is_appended {
          StagedBase::Appended
        } else {
          StagedBase::Gone
        }
      })
    };
    staged.map_err(|error| self.fail(error))
  }

  /// Renames a new base into place, unless an existing one continues it, and makes it durable. Returns its state; `None` if the base
  /// is not the one that the delta needs. The caller holds the lock on the names.
  pub fn secure<D: Directory>(
    &self,
    directory: &D,
    staged: StagedBase<'_, D>,
    durability: Durability,
  ) -> Result<Option<FileStamp>> {
    let secure = || {
      if let StagedBase::New(new_base) = staged {
        match BaseMerge::of(self.base.added, read(directory, &self.name)?.as_deref()) {
          BaseMerge::Write => new_base.persist(&self.name)?,
          BaseMerge::Keep => {}
          BaseMerge::Refuse => return Ok(None),
        }
        // Sync the directory before the delta gets its name: after a power cut every delta has its base.
        if durability.is_full() {
          directory.sync()?;
        }
      }
      stamp(directory, &self.name, self.base)
    };
    secure().map_err(|error| self.fail(error))
  }

  fn fail(&self, error: io::Error) -> Error {
    Error::io("write", &self.path, error)
  }
}

/// Appends to a base. Returns whether it was present and unchanged.
fn append<D: Directory>(directory: &D, name: &str, base: BaseRef<'_>, durability: Durability) -> io::Result<bool> {
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

/// The state of a base; `None` if bytes are missing, or if it was changed other than by appending.
fn stamp<D: Directory>(directory: &D, name: &str, base: BaseRef<'_>) -> io::Result<Option<FileStamp>> {
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
  let is_unchanged = match base.fingerprint {
    // Bytes that were just appended were appended to a base in the known state.
    Some(known) if base.added.is_empty() && stamp != known.stamp => {
      stamp.size > known.stamp.size && checksum_at(directory, name, base.known)? == Some(known.checksum)
    }
    _ => true,
  };
  Ok(is_unchanged.then_some(stamp))
}

/// The checksum at the end of the first `bytes` bytes of a base; `None` if there are fewer.
fn checksum_at<D: Directory>(directory: &D, name: &str, bytes: u64) -> io::Result<Option<u32>> {
  let base = read(directory, name)?.unwrap_or_default();
  let known = usize::try_from(bytes).ok().and_then(|bytes| base.get(..bytes));
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
    // Sync first: a delta that reappears after a power cut must have its base.
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
    // Sync first: a delta that reappears after a power cut must have its base.
    directory.sync()?;
  }
  for (base, _) in bases {
    absent_is_fine(directory.remove_file(&Item::Base(None, base).file_name()))?;
  }
  Ok(())
}
