//! How a checkpoint gets its name.

use std::io;

use super::disk::Disk;
use super::durable::{Temporary, sync_names};
use super::{FileBackend, Happened, Place, keys, modified};
use crate::backend::{After, CheckpointEntry, CheckpointWrite, Put, Series};
use crate::error::{Error, Result};
use crate::id::CheckpointId;

impl<D: Disk> FileBackend<D> {
  pub(super) fn put_checkpoint(&self, series: &Series, id: &CheckpointId, new: CheckpointWrite<'_>) -> Result<Put> {
    let session = &series.session;
    let item = series.item(id, new.encoding);
    let path = self.path(session, item);
    let place = Place::of(session, item);
    let key = new.footing.map(|footing| {
      let key = series.key(footing.key);
      (key.file_name(), self.path(session, key), footing)
    });
    let fail = |error| Error::io("write", &path, error);
    let fail_at_key = |error| Error::io("write", key.as_ref().map_or(&path, |(_, path, _)| path), error);
    let durability = self.settings.durability;
    self.look_at_lease(session)?;
    self.in_directory(&place.directory, |directory| {
      self.names.look_for_others(series, directory);
      let mut new_key = None;
      if let Some((name, _, footing)) = &key {
        if footing.known == 0 {
          new_key = Some(Temporary::write(directory, name, &footing.added, durability).map_err(fail_at_key)?);
        } else if !keys::add(directory, name, *footing, durability).map_err(fail_at_key)? {
          return Ok(Put::KeyIsGone);
        }
      }
      let temporary = Temporary::write(directory, &place.name, new.content, durability).map_err(fail)?;
      let size = temporary.size;
      let mut put = Put::Unguarded;
      let happened = self.rename_or_remove(session, item, directory, |held| {
        if !held.is_locked && key.is_some() {
          return Ok(Happened::Nothing);
        }
        if let After::Newest(_) = new.after {
          if !held.is_locked {
            return Err(fail(io::ErrorKind::ResourceBusy.into()));
          }
          let entries = self.checkpoints_in(series, directory)?;
          let newest = entries.iter().min_by(|one, other| one.newest_first(other));
          if let Some(conflict) = new.after.conflict(newest.map(|newest| &newest.id)) {
            put = conflict;
            return Ok(Happened::Nothing);
          }
        }
        let _fence = self.fence(session)?;
        let mut look = None;
        if let Some((name, path, footing)) = &key {
          if let Some(new_key) = new_key {
            if !keys::has_more(directory, name, *footing).map_err(fail_at_key)? {
              new_key.persist(name).map_err(fail_at_key)?;
            }
            // Whatever a power cut leaves, there is no delta without its key.
            sync_names(directory, path, durability)?;
          }
          look = keys::look(directory, name, *footing).map_err(fail_at_key)?;
          if look.is_none() {
            put = Put::KeyIsGone;
            return Ok(Happened::Nothing);
          }
        }
        temporary.persist(&place.name).map_err(fail)?;
        put = Put::Stored { size, key: look };
        Ok(Happened::Came)
      })?;
      if happened == Happened::Nothing {
        return Ok(put);
      }
      sync_names(directory, &path, durability)?;
      if series.agent.is_none() {
        let entry = CheckpointEntry::new(id.clone(), new.encoding, || modified(directory, &place.name));
        self.latest.made(session, entry);
      }
      Ok(put)
    })
  }
}
