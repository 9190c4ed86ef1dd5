//! Storing a checkpoint under its name.

use std::io;
use std::time::{Duration, SystemTime};

use super::disk::{Directory, Disk};
use super::durable::{Temporary, sync_names};
use super::listing_cache::{Held, LONGEST_WAIT};
use super::{
  FileBackend, NameChange, SessionPath, bases, contents, directories, encodings_of, modified, two_file_commit,
};
use crate::backend::{
  BaseMerge, BaseRef, CheckpointEntry, Content, Durability, Encoding, FileStamp, Item, NewLabels, Newest, Parent,
  Precondition, PutOptions, PutOutcome, Series, time_in_id,
};
use crate::types::error::{Code, Error, Result};
use crate::types::id::{CheckpointId, SessionId};

/// A directory, and the lock on it, where the file system has locks.
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
    let place = SessionPath::of(session, item);
    let base = options.base.map(|base| {
      let item = series.base(base.id);
      (item.file_name(), self.path(session, item), base)
    });
    let fail = |error| Error::io("write", &path, error);
    let fail_at_base = |error| Error::io("write", base.as_ref().map_or(&path, |(_, path, _)| path), error);
    let durability = self.settings.durability;
    self.check_lease(session)?;
    // A write that is refused creates no session.
    if let Some(refusal) = refusal_without_series(precondition)
      && self.open_directory(&place.directory)?.is_none()
    {
      return Ok(refusal);
    }
    self.in_directory(&place.directory, |directory| {
      self.names.look_for_others(series, directory);
      let mut new_base = None;
      if let Some((name, _, base)) = &base {
        if base.known == 0 {
          new_base = Some(Temporary::write(directory, name, &base.added, durability).map_err(fail_at_base)?);
        } else if !bases::append(directory, name, *base, durability).map_err(fail_at_base)? {
          return Ok(PutOutcome::BaseIsGone);
        }
      }
      let temporary = Temporary::write(directory, &place.name, content, durability).map_err(fail)?;
      let size = temporary.size;
      let mut put = PutOutcome::BaseNotLocked;
      // The lock of the session comes before the lock on the names, everywhere.
      let labels_directory = match options.labels {
        Some(_) => Some(self.lock_labels(session)?),
        None => None,
      };
      // Two steps that each remove the other encodings of one checkpoint must not run at once: both would remove what the other
      // one stored. A new checkpoint has no other encodings, and waits for no process that was stopped.
      let replaces = !matches!(precondition, Precondition::Newest(_));
      let has_parent = matches!(precondition, Precondition::Newest(newest) if newest.parent != Parent::Any);
      let must_lock = has_parent || options.labels.is_some();
      let timeout = if replaces || must_lock {
        self.settings.timeout
      } else {
        LONGEST_WAIT
      };
      let happened = self.rename_or_remove(timeout, session, item, directory, |held| {
        if (replaces || options.labels.is_some()) && held.is_busy {
          let doing = if replaces { "replace" } else { "write" };
          return Err(Error::busy(doing, &path, io::ErrorKind::ResourceBusy.into()));
        }
        if !held.is_locked && base.is_some() {
          return Ok(NameChange::Nothing);
        }
        let entry = CheckpointEntry::new(id.clone(), options.encoding, || modified(directory, &place.name));
        if let Some(refusal) = self.refusal(series, directory, &entry, precondition, held)? {
          put = refusal;
          return Ok(NameChange::Nothing);
        }
        let mut staged_labels = None;
        if let (Some((directory_of_labels, _)), Some(labels)) = (&labels_directory, options.labels) {
          let entries = self.checkpoints_in(series, directory)?;
          staged_labels = Some(self.stage_labels(session, directory_of_labels, &entries, labels)?);
        }
        let _fence = self.fence(session)?;
        let mut stamp = None;
        if let Some((name, path, base)) = &base {
          stamp = Self::secure_base(directory, name, *base, new_base, durability)
            .map_err(|error| Error::io("write", path, error))?;
          if stamp.is_none() {
            put = PutOutcome::BaseIsGone;
            return Ok(NameChange::Nothing);
          }
        }
        if let Some(made_at) = Self::made_at(series, id, directory) {
          temporary.set_modified(made_at, durability).map_err(fail)?;
        }
        // Labels first: the label of a checkpoint that does not exist means nothing.
        if let (Some(labels), Some((directory_of_labels, _))) = (staged_labels, &labels_directory) {
          // A session that was deleted and made again has other labels.
          self.confirm_in_place(&[session.as_str()], directory_of_labels)?;
          self.confirm_in_place(&place.directory, directory)?;
          labels.persist(&Item::LABELS.file_name()).map_err(fail)?;
        }
        temporary.persist(&place.name).map_err(fail)?;
        if replaces {
          self.remove_other_encodings(series, &entry, directory, held)?;
        }
        put = PutOutcome::Stored {
          size,
          base: stamp,
          retention: None,
        };
        Ok(NameChange::Came)
      })?;
      if happened == NameChange::Nothing {
        return Ok(put);
      }
      if let Some((directory_of_labels, _)) = &labels_directory {
        sync_names(directory_of_labels, &path, durability)?;
      }
      sync_names(directory, &path, durability)?;
      self.confirm_in_place(&place.directory, directory)?;
      if series.agent.is_none() {
        let entry = CheckpointEntry::new(id.clone(), options.encoding, || modified(directory, &place.name));
        self.latest.made(session, entry);
      }
      Ok(put)
    })
  }

  /// Gives a new base its name, unless the present one of that name continues it, and makes sure that the base is durable and what
  /// the delta needs. `None` if it is not. The caller holds the lock on the names.
  fn secure_base(
    directory: &D::Directory,
    name: &str,
    base: BaseRef<'_>,
    new_base: Option<Temporary<'_, D::Directory>>,
    durability: Durability,
  ) -> io::Result<Option<FileStamp>> {
    if let Some(new_base) = new_base {
      match bases::merge(directory, name, base.added)? {
        BaseMerge::Write => new_base.persist(name)?,
        BaseMerge::Keep => {}
        BaseMerge::Refuse => return Ok(None),
      }
      // Sync the directory first: after a power cut no delta is without its base.
      if durability.is_full() {
        directory.sync()?;
      }
    }
    bases::stamp(directory, name, base)
  }

  /// The directory of a session, with the lock that its labels are changed under.
  fn lock_labels(&self, session: &SessionId) -> Result<LockedDirectory<D::Directory>> {
    let path = self.path(session, Item::LABELS);
    let directory = directories::open(&self.disk, &[session.as_str()]);
    // One that is missing was deleted meanwhile: the error makes `in_directory` begin again.
    let directory = directory.map_err(|error| Error::io("open", &path, error))?;
    let lock = two_file_commit::lock(&directory, &path, self.settings)?;
    Ok((directory, lock))
  }

  /// The new labels of a session, written under a temporary name. The caller holds the lock of the session.
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

  /// When a checkpoint was made that is about to be replaced, if its id does not say so: its place in the order stays.
  fn made_at(series: &Series, id: &CheckpointId, directory: &D::Directory) -> Option<SystemTime> {
    if time_in_id(id.as_str()).is_some() {
      return None;
    }
    let encodings = encodings_of(directory, series.item(id, Encoding::Json)).ok()?;
    let present = series.item(id, *encodings.first()?).file_name();
    Some(SystemTime::UNIX_EPOCH + Duration::from_millis(modified(directory, &present)))
  }

  /// Stores the bytes of a checkpoint, whatever else is stored. The answer is how many they are.
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

  /// After a checkpoint has its name: removes it in every other encoding. The caller holds the lock on the names.
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
    // The checkpoint must not lose one name before the other is durable.
    sync_names(directory, &path, self.settings.durability)?;
    for encoding in encodings {
      if encoding != entry.encoding {
        self.unlink_held(&series.session, series.item(&entry.id, encoding), directory, held)?;
      }
    }
    // Several names changed at once.
    self.names.forget(&series.session);
    Ok(())
  }

  /// Why a checkpoint cannot be stored. The caller holds the lock on the names, where there is one.
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
        // Without the lock, two writers may both find that their parent is the newest.
        if newest.parent != Parent::Any && !held.is_locked {
          return Err(Error::busy(
            "lock the names beside",
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

/// What is refused where a series holds no checkpoints.
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
