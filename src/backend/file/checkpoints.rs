//! Storing checkpoints.

use std::io;
use std::time::SystemTime;

use super::bases::{BaseFile, StagedBase};
use super::disk::{Directory, Disk};
use super::durable::{Temporary, sync_names};
use super::listing_cache::{Held, LONGEST_WAIT};
use super::{FileBackend, ItemPath, NameChange, contents, directories, encodings_of, modified, two_file_commit};
use crate::backend::{
  CheckpointEntry, Content, Encoding, Item, NewLabels, Newest, Parent, Precondition, PutOptions, PutOutcome, Series,
  time_in_id,
};
use crate::types::error::{Code, Error, Result};
use crate::types::id::{CheckpointId, SessionId};

/// A directory and its lock; no lock if the file system has none.
type LockedDirectory<D> = (D, Option<<D as Directory>::Lock>);

impl<D: Disk> FileBackend<D> {
  pub(super) fn store_checkpoint(
    &self,
    series: &Series,
    id: &CheckpointId,
    content: &dyn Content,
    options: &PutOptions<'_>,
  ) -> Result<PutOutcome> {
    let precondition = &options.precondition;
    let session = &series.session;
    let item = series.item(id, options.encoding);
    let path = self.path(session, item);
    let item_path = ItemPath::of(session, item);
    let base = options.base.map(|base| BaseFile {
      base,
      name: series.base(base.id).file_name(),
      path: self.path(session, series.base(base.id)),
    });
    let fail = |error| Error::io("write", &path, error);
    let durability = self.settings.durability;
    self.check_lease(session)?;
    // A write whose precondition fails creates no session.
    if let Some(refusal) = refusal_without_series(precondition)
      && self.open_directory(&item_path.directory)?.is_none()
    {
      return Ok(refusal);
    }
    self.in_directory(&item_path.directory, |directory| {
      self.names.look_for_others(series, directory);
      let staged_base = base
        .as_ref()
        .map(|base| base.stage(directory, durability))
        .transpose()?;
      if matches!(staged_base, Some(StagedBase::Gone)) {
        return Ok(PutOutcome::BaseIsGone);
      }
      let temporary = Temporary::write(directory, &item_path.name, content, durability).map_err(fail)?;
      let size = temporary.size;
      let mut put = PutOutcome::BaseNotLocked;
      // Lock order: documents before names.
      let labels_directory = options.labels.map(|_| self.lock_labels(session)).transpose()?;
      // Two writers that store one checkpoint in different encodings must exclude each other: each would delete the file of the
      // other. A new checkpoint has no other encoding, so it does not need the lock of a process that was stopped.
      let replaces = !matches!(precondition, Precondition::Newest(_));
      let has_parent = matches!(precondition, Precondition::Newest(newest) if newest.parent != Parent::Any);
      let must_lock = has_parent || options.labels.is_some();
      let timeout = if replaces || must_lock {
        self.settings.timeout
      } else {
        LONGEST_WAIT
      };
      let change = self.rename_or_remove(timeout, session, item, directory, |held| {
        if replaces || options.labels.is_some() {
          held.require(if replaces { "replace" } else { "write" }, &path)?;
        }
        if !held.is_locked && base.is_some() {
          return Ok(NameChange::Unchanged);
        }
        let entry = CheckpointEntry::new(id.clone(), options.encoding, || modified(directory, &item_path.name));
        if let Some(refusal) = self.refusal(series, directory, &entry, precondition, held)? {
          put = refusal;
          return Ok(NameChange::Unchanged);
        }
        let mut staged_labels = None;
        if let (Some((directory_of_labels, _)), Some(labels)) = (&labels_directory, options.labels) {
          let entries = self.checkpoints_in(series, directory)?;
          staged_labels = Some(self.stage_labels(session, directory_of_labels, &entries, labels)?);
        }
        let _fence = self.fence(session)?;
        let mut stamp = None;
        if let (Some(base), Some(staged)) = (&base, staged_base) {
          stamp = base.secure(directory, staged, durability)?;
          if stamp.is_none() {
            put = PutOutcome::BaseIsGone;
            return Ok(NameChange::Unchanged);
          }
        }
        if let Some(made_at) = Self::made_at(series, id, directory) {
          temporary.set_modified(made_at, durability).map_err(fail)?;
        }
        // Labels first: the label of a checkpoint that does not exist has no effect.
        if let (Some(labels), Some((directory_of_labels, _))) = (staged_labels, &labels_directory) {
          // If the session was deleted and created again, these labels are not its own.
          self.confirm_in_place(&[session.as_str()], directory_of_labels)?;
          self.confirm_in_place(&item_path.directory, directory)?;
          labels.persist(&Item::LABELS.file_name()).map_err(fail)?;
        }
        temporary.persist(&item_path.name).map_err(fail)?;
        if replaces {
          self.remove_other_encodings(series, &entry, directory, held)?;
        }
        put = PutOutcome::Stored {
          size,
          base: stamp,
          retention: None,
        };
        Ok(NameChange::Added)
      })?;
      if change == NameChange::Unchanged {
        return Ok(put);
      }
      if let Some((directory_of_labels, _)) = &labels_directory {
        sync_names(directory_of_labels, &path, durability)?;
      }
      sync_names(directory, &path, durability)?;
      self.confirm_in_place(&item_path.directory, directory)?;
      if series.agent.is_none() {
        let entry = CheckpointEntry::new(id.clone(), options.encoding, || modified(directory, &item_path.name));
        self.latest.made(session, entry);
      }
      Ok(put)
    })
  }

  /// The directory of a session, with the lock on its documents.
  fn lock_labels(&self, session: &SessionId) -> Result<LockedDirectory<D::Directory>> {
    let path = self.path(session, Item::LABELS);
    let directory = directories::open(&self.disk, &[session.as_str()]);
    // A missing directory was deleted meanwhile: the error makes `in_directory` repeat the write.
    let directory = directory.map_err(|error| Error::io("open", &path, error))?;
    let lock = two_file_commit::lock(&directory, &path, self.settings)?;
    Ok((directory, lock))
  }

  /// Writes the new labels of a session under a temporary name. The caller holds the lock on the documents.
  fn stage_labels<'a>(
    &self,
    session: &SessionId,
    directory: &'a D::Directory,
    entries: &[CheckpointEntry],
    labels: &NewLabels<'_>,
  ) -> Result<Temporary<'a, D::Directory>> {
    let (name, path) = (Item::LABELS.file_name(), self.path(session, Item::LABELS));
    let document = labels(contents(directory, &name, &path, u64::MAX)?, entries)?;
    let written = Temporary::write(directory, &name, &document, self.settings.durability);
    written.map_err(|error| Error::io("write", &path, error))
  }

  /// The time of the checkpoint that is about to be replaced, if its id contains none: its position in the order is kept.
  fn made_at(series: &Series, id: &CheckpointId, directory: &D::Directory) -> Option<SystemTime> {
    if time_in_id(id.as_str()).is_some() {
      return None;
    }
    let encodings = encodings_of(directory, series.item(id, Encoding::Json)).ok()?;
    let existing = series.item(id, *encodings.first()?).file_name();
    Some(modified(directory, &existing).into())
  }

  /// Stores a checkpoint without a precondition. Returns its size in bytes.
  pub(super) fn put_bytes(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
    content: &dyn Content,
  ) -> Result<u64> {
    match self.store_checkpoint(series, id, content, &PutOptions::new(encoding))? {
      PutOutcome::Stored { size, .. } => Ok(size),
      other => Err(Error::new(Code::Internal, format!("unexpected outcome {other:?}"))),
    }
  }

  /// Removes the other encodings of a checkpoint that was just stored. The caller holds the lock on the names.
  fn remove_other_encodings(
    &self,
    series: &Series,
    entry: &CheckpointEntry,
    directory: &D::Directory,
    held: Held,
  ) -> Result<()> {
    let path = self.path(&series.session, series.item_of(entry));
    let encodings = encodings_of(directory, series.item_of(entry)).map_err(|error| Error::io("read", &path, error))?;
    if encodings == [entry.encoding] {
      return Ok(());
    }
    // The new name must be durable before the old one is removed.
    sync_names(directory, &path, self.settings.durability)?;
    for encoding in encodings {
      if encoding != entry.encoding {
        self.unlink_held(&series.session, series.item(&entry.id, encoding), directory, held)?;
      }
    }
    // The cache learns of one name only.
    self.names.forget(&series.session);
    Ok(())
  }

  /// The outcome if the precondition fails. The caller holds the lock on the names, if the file system has locks.
  fn refusal(
    &self,
    series: &Series,
    directory: &D::Directory,
    entry: &CheckpointEntry,
    precondition: &Precondition,
    held: Held,
  ) -> Result<Option<PutOutcome>> {
    let path = || self.path(&series.session, series.item_of(entry));
    match precondition {
      Precondition::None => Ok(None),
      Precondition::Exists => {
        let encodings = encodings_of(directory, series.item_of(entry));
        let encodings = encodings.map_err(|error| Error::io("read", &path(), error))?;
        Ok(encodings.is_empty().then_some(PutOutcome::Missing))
      }
      Precondition::Newest(newest) => {
        // Without the lock, two writers could both find that their parent is the newest.
        if newest.parent != Parent::Any && !held.is_locked {
          held.require("lock the directory of", &path())?;
          return Err(Error::busy(
            "lock the directory of",
            &path(),
            io::ErrorKind::ResourceBusy.into(),
          ));
        }
        let refusal = |entries: &mut dyn Iterator<Item = &CheckpointEntry>| newest.refusal(entry, entries);
        let list = || self.checkpoints_in(series, directory);
        self.names.newest_first(series, directory, held, list, refusal)
      }
    }
  }
}

/// The outcome if the precondition fails for a series without checkpoints.
pub(super) fn refusal_without_series(precondition: &Precondition) -> Option<PutOutcome> {
  match precondition {
    Precondition::Newest(Newest {
      parent: Parent::Checkpoint(_),
      ..
    }) => Some(PutOutcome::Conflict(None)),
    Precondition::Exists => Some(PutOutcome::Missing),
    Precondition::None | Precondition::Newest(_) => None,
  }
}
