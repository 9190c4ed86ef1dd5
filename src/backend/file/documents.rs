//! Documents, task results and other items that are not checkpoints.

use std::io;

use super::disk::{Directory, Disk};
use super::durable::{Temporary, absent_is_fine, sync_names};
use super::{FileBackend, ItemPath, below, contents, exists, listing_cache, two_file_commit, versions};
use crate::backend::item::RESULTS;
use crate::backend::{CheckpointEntry, Content, Document, DocumentChange, Item, ItemName, ListedItem, Series};
use crate::types::error::{Error, Result};
use crate::types::id::{SessionId, TaskId};

/// The lock on the names of a session's checkpoints, and the checkpoints; no lock if the file system has none.
type LockedNames<D> = (Option<<D as Directory>::Lock>, Vec<CheckpointEntry>);

impl<D: Disk> FileBackend<D> {
  pub(super) fn put_item(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let path = self.path(session, item);
    let fail = |error| Error::io("write", &path, error);
    let item_path = ItemPath::of(session, item);
    let durability = self.settings.durability;
    self.check_lease(session)?;
    self.in_directory(&item_path.directory, |directory| {
      let temporary = Temporary::write(directory, &item_path.name, content, durability).map_err(fail)?;
      let size = temporary.size;
      let lock = match item {
        Item::Document(_) | Item::Previous(..) => Some(two_file_commit::lock(directory, &path, self.settings)?),
        Item::Checkpoint(..) | Item::Base(..) | Item::TaskResult(_) => None,
      };
      let fence = self.fence(session)?;
      versions::keep_current(directory, &item_path.name, self.settings.keep_previous).map_err(fail)?;
      temporary.persist(&item_path.name).map_err(fail)?;
      drop((fence, lock));
      sync_names(directory, &path, durability)?;
      self.confirm_in_place(&item_path.directory, directory)?;
      Ok(size)
    })
  }

  pub(super) fn put_both_if(
    &self,
    session: &SessionId,
    session_document: &dyn Content,
    task_tree: &dyn Content,
    confirm: &dyn Fn() -> bool,
  ) -> Result<bool> {
    let path = self.base.join(session.as_str());
    let (session_name, tree_name) = (Item::SESSION.file_name(), Item::TASK_TREE.file_name());
    let documents = [
      (session_name.as_str(), session_document),
      (tree_name.as_str(), task_tree),
    ];
    self.check_lease(session)?;
    self.in_directory(&[session.as_str()], |directory| {
      let fence = || self.fence(session);
      if !two_file_commit::write_together_if(directory, &path, &documents, self.settings, confirm, fence)? {
        return Ok(false);
      }
      self.confirm_in_place(&[session.as_str()], directory)?;
      Ok(true)
    })
  }

  /// Replaces a document under the lock on the documents. Labels are changed under the lock on the names too, so that a
  /// checkpoint is not deleted while it gets a label. Lock order: documents before names.
  pub(super) fn update_under_lock(
    &self,
    session: &SessionId,
    document: Document,
    limit: u64,
    change: &mut DocumentChange<'_>,
  ) -> Result<()> {
    let item = Item::Document(document);
    let path = self.path(session, item);
    let name = item.file_name();
    let fail = |error| Error::io("write", &path, error);
    let lock_names = || match document {
      Document::Labels => self.lock_names(session),
      _ => Ok((None, Vec::new())),
    };
    self.check_lease(session)?;
    // A change that is rejected creates no session.
    if self.open_directory(&[session.as_str()])?.is_none() && change(None, &lock_names()?.1)?.is_none() {
      return Ok(());
    }
    self.in_directory(&[session.as_str()], |directory| {
      let _lock = two_file_commit::lock(directory, &path, self.settings)?;
      let (names_lock, entries) = lock_names()?;
      let Some(update) = change(contents(directory, &name, &path, limit)?, &entries)? else {
        return Ok(());
      };
      let temporary = update
        .document
        .map(|content| Temporary::write(directory, &name, &content, self.settings.durability));
      let temporary = temporary.transpose().map_err(fail)?;
      let fence = self.fence(session)?;
      match temporary {
        Some(temporary) => {
          versions::keep_current(directory, &name, self.settings.keep_previous).map_err(fail)?;
          temporary.persist(&name).map_err(fail)?;
        }
        None => absent_is_fine(directory.remove_file(&name)).map_err(fail)?,
      }
      drop((fence, names_lock));
      sync_names(directory, &path, self.settings.durability)?;
      self.confirm_in_place(&[session.as_str()], directory)
    })
  }

  /// Locks the names of a session's checkpoints, and lists them.
  fn lock_names(&self, session: &SessionId) -> Result<LockedNames<D::Directory>> {
    let series = Series::from(session);
    let Some(directory) = self.open_directory(&below(session, series.folders()))? else {
      return Ok((None, Vec::new()));
    };
    let lock = listing_cache::hold(&directory, self.settings.timeout);
    let lock = lock.map_err(|error| Error::busy("label a checkpoint of", &self.shown(&[session.as_str()]), error))?;
    let entries = self.checkpoints_in(&series, &directory)?;
    Ok((lock, entries))
  }

  pub(super) fn read_item(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
    let path = self.path(session, item);
    let item_path = ItemPath::of(session, item);
    let Some(directory) = self.open_directory(&item_path.directory)? else {
      return Ok(None);
    };
    match item {
      Item::Document(_) => two_file_commit::read(&directory, &item_path.name, &path, limit, self.settings),
      Item::Previous(..) => {
        two_file_commit::finish_abandoned(&directory, &path, self.settings)?;
        contents(&directory, &item_path.name, &path, limit)
      }
      Item::Checkpoint(..) | Item::Base(..) | Item::TaskResult(_) => {
        contents(&directory, &item_path.name, &path, limit)
      }
    }
  }

  pub(super) fn previous_versions(&self, session: &SessionId, document: Document) -> Result<Vec<ListedItem>> {
    let path = self.path(session, Item::Document(document));
    let Some(directory) = self.open_directory(&[session.as_str()])? else {
      return Ok(Vec::new());
    };
    two_file_commit::finish_abandoned(&directory, &path, self.settings)?;
    let exists_at = |back| exists(&directory, &Item::Previous(document, back).file_name());
    let mut versions = Vec::new();
    for back in 1.. {
      if !exists_at(back).map_err(|error| Error::io("read", &path, error))? {
        break;
      }
      versions.push(ListedItem {
        name: ItemName::Previous(document, back),
        size: None,
      });
    }
    Ok(versions)
  }

  pub(super) fn task_results(&self, session: &SessionId) -> Result<Vec<ListedItem>> {
    let entries = self.list_directory(&[session.as_str(), RESULTS])?;
    let ids = entries.iter().filter_map(|entry| entry.name.strip_suffix(".json"));
    let mut ids: Vec<_> = ids.filter_map(|id| TaskId::parse(id).ok()).collect();
    ids.sort();
    let listed = ids.into_iter().map(|id| ListedItem {
      name: ItemName::TaskResult(id),
      size: None,
    });
    Ok(listed.collect())
  }

  /// Checks, before a write is acknowledged, that its directory still belongs to the session: a file in the directory of a
  /// deleted session is lost. The error makes [`FileBackend::in_directory`] repeat the write.
  pub(super) fn confirm_in_place(&self, path: &[&str], directory: &D::Directory) -> Result<()> {
    let fail = |error| Error::outcome_unknown("check the directory", &self.shown(path), error);
    if self.disk.is_in_place(path, directory).map_err(fail)? {
      return Ok(());
    }
    Err(Error::io(
      "write into",
      &self.shown(path),
      io::ErrorKind::NotFound.into(),
    ))
  }
}
