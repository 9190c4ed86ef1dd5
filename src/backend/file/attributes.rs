//! The pins, times and bases of checkpoints.

use std::io;

use super::disk::{Directory, Disk};
use super::durable::{absent_is_fine, sync_names};
use super::{FileBackend, bases, below, encodings_of, is_absence, listing_cache, pin_of};
use crate::backend::{Encoding, ItemName, ListedItem, Series};
use crate::types::error::{Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::time::Timestamp;

impl<D: Disk> FileBackend<D> {
  pub(super) fn set_made_at(&self, series: &Series, id: &CheckpointId, made_at: Timestamp) -> Result<bool> {
    let Some(directory) = self.open_directory(&below(&series.session, series.folders()))? else {
      return Ok(false);
    };
    let item = series.item(id, Encoding::Json);
    let fail = |error| Error::io("set the time of", &self.path(&series.session, item), error);
    let encodings = encodings_of(&directory, item).map_err(fail)?;
    let _fence = self.fence(&series.session)?;
    for encoding in &encodings {
      // A checkpoint that was deleted concurrently has no time.
      absent_is_fine(directory.set_modified(&series.item(id, *encoding).file_name(), made_at.into())).map_err(fail)?;
    }
    // The cached order is stale.
    self.names.forget(&series.session);
    Ok(!encodings.is_empty())
  }

  pub(super) fn set_pinned(&self, series: &Series, id: &CheckpointId, is_pinned: bool) -> Result<bool> {
    let Some(directory) = self.open_directory(&below(&series.session, series.folders()))? else {
      return Ok(false);
    };
    let path = self.path(&series.session, series.item(id, Encoding::Json));
    let fail = |error| Error::io("pin", &path, error);
    let pin = pin_of(id);
    let timeout = self.settings.timeout;
    let exists = self.names.change_within(timeout, series, &directory, |held| {
      // The holder of the lock may be about to delete the checkpoint, after it checked for a pin.
      if is_pinned {
        held.require("pin", &path)?;
      }
      let item = series.item(id, Encoding::Json);
      if encodings_of(&directory, item).map_err(fail)?.is_empty() {
        return Ok((false, None));
      }
      let _fence = self.fence(&series.session)?;
      let changed = if is_pinned {
        match directory.create(&pin) {
          Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
          // The session was deleted meanwhile.
          Err(error) if is_absence(&error) => return Ok((false, None)),
          created => created.map(drop),
        }
      } else {
        absent_is_fine(directory.remove_file(&pin))
      };
      changed.map_err(fail)?;
      Ok((true, Some(listing_cache::Change::IsPinned(id.clone(), is_pinned))))
    })?;
    if exists {
      sync_names(&directory, &path, self.settings.durability)?;
    }
    Ok(exists)
  }

  pub(super) fn bases(&self, session: &SessionId, agent: Option<&AgentId>) -> Result<Vec<ListedItem>> {
    let series = Series::of(session, agent);
    let path = below(&series.session, series.folders());
    let Some(directory) = self.open_directory(&path)? else {
      return Ok(Vec::new());
    };
    let bases = bases::all(&directory).map_err(|error| Error::io("list", &self.shown(&path), error))?;
    let listed = bases.into_iter().map(|(id, size)| ListedItem {
      name: ItemName::Base(agent.cloned(), id),
      size: Some(size),
    });
    Ok(listed.collect())
  }
}
