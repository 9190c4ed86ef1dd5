//! Deleting and quarantining items.

use uuid::Uuid;

use super::disk::{Directory, Disk};
use super::durable::sync_names;
use super::listing_cache::{self, Held};
use super::{
  FileBackend, ItemPath, NameChange, bases, below, contents, exists, is_absence, pin_of, remove_pin_without_checkpoint,
};
use crate::backend::{CheckpointEntry, IsLabelled, Item, Series};
use crate::types::error::{Code, Error, Result};
use crate::types::id::{CheckpointId, SessionId};

pub(super) const DAMAGED: &str = "damaged";

impl<D: Disk> FileBackend<D> {
  pub(super) fn delete_item(&self, session: &SessionId, item: Item<'_>) -> Result<bool> {
    // The holder of the lock may be about to store the checkpoint in another encoding.
    let is_free = |_: &D::Directory, held: Held| held.require("delete", &self.path(session, item)).map(|()| true);
    let Some(directory) = self.unlink(self.settings.timeout, session, item, is_free)? else {
      return Ok(false);
    };
    sync_names(&directory, &self.path(session, item), self.settings.durability)?;
    Ok(true)
  }

  /// Deletes a checkpoint unless retention must keep it. Decided under the lock on the names, which pins and labels are changed
  /// under.
  pub(super) fn delete_unless_kept(
    &self,
    session: &SessionId,
    item: Item<'_>,
    is_labelled: Option<IsLabelled>,
  ) -> Result<bool> {
    let Item::Checkpoint(agent, id, _) = item else {
      return self.delete_item(session, item);
    };
    let series = Series::of(session, agent);
    let is_free = |directory: &D::Directory, held: Held| {
      held.require("delete", &self.path(session, item))?;
      let is_pinned = exists(directory, &pin_of(id));
      let fail = |error| Error::io("read", &self.path(session, item), error);
      if is_pinned.map_err(fail)? || self.is_newest(&series, id, directory, held)? {
        return Ok(false);
      }
      let Some(is_labelled) = is_labelled else {
        return Ok(true);
      };
      let labels = self.read_item(session, Item::LABELS, u64::MAX)?;
      Ok(!labels.is_some_and(|labels| is_labelled(&labels, id)))
    };
    let directory = self.unlink(listing_cache::LONGEST_WAIT, session, item, is_free)?;
    Ok(directory.is_some())
  }

  /// Whether no checkpoint of the series is newer. The caller holds the lock on the names, where there is one.
  fn is_newest(&self, series: &Series, id: &CheckpointId, directory: &D::Directory, held: Held) -> Result<bool> {
    let list = || self.checkpoints_in(series, directory);
    let is_newest =
      |entries: &mut dyn Iterator<Item = &CheckpointEntry>| entries.next().is_none_or(|newest| newest.id == *id);
    self.names.newest_first(series, directory, held, list, is_newest)
  }

  pub(super) fn sync_deletes(&self, series: &Series) -> Result<()> {
    let path = below(&series.session, series.folders());
    match self.open_directory(&path)? {
      Some(directory) => sync_names(&directory, &self.shown(&path), self.settings.durability),
      None => Ok(()),
    }
  }

  pub(super) fn delete_unused_bases(&self, series: &Series) -> Result<u64> {
    let path = below(&series.session, series.folders());
    let Some(directory) = self.open_directory(&path)? else {
      return Ok(0);
    };
    // Most series have no bases. Avoid the lock for them.
    if bases::all(&directory)
      .map_err(|error| Error::io("list", &self.shown(&path), error))?
      .is_empty()
    {
      return Ok(0);
    }
    self.names.change(series, &directory, |held| {
      // A stopped process may go on to use a base that it has just created.
      if !held.is_locked {
        return Ok((0, None));
      }
      let fail = |error| Error::io("delete the unused bases in", &self.shown(&path), error);
      let unused = bases::unused(&directory).map_err(fail)?;
      if unused.is_empty() {
        return Ok((0, None));
      }
      let _fence = self.fence(&series.session)?;
      bases::remove_all(&directory, &unused, self.settings.durability).map_err(fail)?;
      Ok((unused.iter().map(|(_, size)| size).sum(), None))
    })
  }

  pub(super) fn move_to_damaged(
    &self,
    series: &Series,
    entry: &CheckpointEntry,
    judged: Option<&[u8]>,
  ) -> Result<Option<String>> {
    let (session, item) = (&series.session, series.item_of(entry));
    let item_path = ItemPath::of(session, item);
    let path = self.path(session, item);
    let fail = |error| Error::io("quarantine", &path, error);
    let Some(from) = self.open_directory(&item_path.directory)? else {
      return Ok(None);
    };
    self.check_lease(session)?;
    // The original name, and a unique part: the same checkpoint can be quarantined twice.
    let name = format!("{}.{}", item_path.name, Uuid::new_v4().simple());
    let directory = [session.as_str(), DAMAGED];
    let moved = self.in_directory(&directory, |damaged| {
      let moved = self.rename_or_remove(self.settings.timeout, session, item, &from, |held| {
        held.require("quarantine", &path)?;
        // The checkpoint may have been replaced since it was verified.
        let is_same = match (contents(&from, &item_path.name, &path, u64::MAX), judged) {
          (Ok(bytes), Some(judged)) => bytes.as_deref() == Some(judged),
          (Err(error), None) if error.code == Code::Corrupt => true,
          (Ok(_), None) => false,
          (Err(error), _) => return Err(error),
        };
        if !is_same {
          return Ok(NameChange::Unchanged);
        }
        let _fence = self.fence(session)?;
        self.move_latest_link(session, item, &from)?;
        match from.rename(&item_path.name, damaged, &name) {
          Err(error) if is_absence(&error) && from.stat(&item_path.name).is_err() => Ok(NameChange::Unchanged),
          moved => {
            moved.map_err(fail)?;
            remove_pin_without_checkpoint(&from, item);
            Ok(NameChange::Removed)
          }
        }
      })?;
      sync_names(damaged, &path, self.settings.durability)?;
      sync_names(&from, &path, self.settings.durability)?;
      Ok(moved)
    })?;
    Ok((moved == NameChange::Removed).then(|| self.shown(&directory).join(name).to_string_lossy().into_owned()))
  }
}
