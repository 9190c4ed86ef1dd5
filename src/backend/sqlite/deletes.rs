//! Deleting sessions, items and bases, and returning their space to the file system.

use rusqlite::Connection;

use super::checkpoints::{self, CheckpointKey};
use super::documents::{self, DocumentKey};
use super::writer::incremental_vacuum;
use super::{Action, RowKey, SqliteBackend, StoredBytes, bases, leases, schema, sessions};
use crate::backend::sql::agent_column;
use crate::backend::{Backend, DeleteCondition, DeleteMode, DeletedSession, Item, Series};
use crate::types::error::Result;
use crate::types::id::SessionId;

/// The pages that one transaction of [`SqliteBackend::vacuum`] frees. Other writers get their turn in between.
const PAGES_FREED_AT_ONCE: u32 = 512;

impl SqliteBackend {
  pub(super) fn delete_session_always(&self, session: &SessionId) -> Result<DeletedSession> {
    let action = self.action_on_session("delete", session);
    let (id, fence) = (session.clone(), self.fences.of(session));
    let is_deleted = self.submit(session, action, true, move |connection| {
      let is_deleted = sessions::delete(connection, id.as_str())?;
      leases::delete_unused_record(connection, &id, fence)?;
      Ok(is_deleted)
    })?;
    Ok(if is_deleted {
      self.free_space_of(session)
    } else {
      DeletedSession::default()
    })
  }

  pub(super) fn delete_session_if(
    &self,
    session: &SessionId,
    condition: DeleteCondition<'_>,
  ) -> Result<Option<DeletedSession>> {
    let DeleteCondition { limit, accepts } = condition;
    let action = self.action_on_session("delete", session);
    let key = DocumentKey::new(session, Item::SESSION);
    let is_deleted = self.submit_here(session, &action, &mut |connection| {
      let document = documents::read(connection, &key, limit)?;
      let document = document.map(|document| document.within(&self.name_of(session, Item::SESSION), limit));
      if !accepts(document.transpose()?.as_deref())? {
        return Ok(false);
      }
      sessions::delete(connection, session.as_str())?;
      leases::delete_unused_record(connection, session, self.fences.of(session))?;
      Ok(true)
    })?;
    Ok(is_deleted.then(|| self.free_space_of(session)))
  }

  fn free_space_of(&self, deleted: &SessionId) -> DeletedSession {
    DeletedSession {
      not_freed: self.vacuum(&self.name_of_session(deleted)).err(),
    }
  }

  pub(super) fn delete_item(&self, session: &SessionId, item: Item<'_>, mode: DeleteMode) -> Result<bool> {
    let action = self.action_on_item("delete", session, item);
    let (DeleteMode::UnlessKept(is_labelled), Item::Checkpoint(agent, id, encoding)) = (mode, item) else {
      let row = RowKey::of(session, item);
      return self.submit(session, action, true, move |connection| Ok(row.delete(connection)?));
    };
    let (key, id) = (CheckpointKey::new(session, agent, id, encoding), id.clone());
    let labels = DocumentKey::new(session, Item::LABELS);
    self.submit(session, action, false, move |connection| {
      if let Some(is_labelled) = is_labelled
        && let Some(StoredBytes::Complete(labels)) = documents::read(connection, &labels, u64::MAX)?
        && is_labelled(&labels, &id)
      {
        return Ok(false);
      }
      Ok(checkpoints::delete_unless_kept(connection, &key)?)
    })
  }

  /// Returns the bytes of the deleted bases.
  pub(super) fn delete_unused_bases(&self, series: &Series) -> Result<u64> {
    let mut freed = 0;
    let unused = self.query(
      || self.name_of_session(&series.session),
      |connection| Ok(bases::unused(connection, series)?),
    )?;
    for (id, size) in unused {
      let action = self.action_on_item("delete", &series.session, series.base(&id));
      let of = series.clone();
      // A checkpoint may be based on it by now.
      let is_deleted = self.submit(&series.session, action, true, move |connection| {
        let agent = agent_column(of.agent.as_ref());
        Ok(bases::delete_if_unused(
          connection,
          of.session.as_str(),
          agent,
          id.as_str(),
        )?)
      })?;
      freed += if is_deleted { size } else { 0 };
    }
    Ok(freed)
  }

  /// Makes earlier deletions durable: a sync of the log covers everything that was appended before.
  pub(super) fn sync_log(&self, session: &SessionId) -> Result<()> {
    let action = self.action_on_session("sync the log of", session);
    let touch = |connection: &Connection| Ok(schema::touch(connection).map(|()| true)?);
    self.queue.submit(action, true, touch).map(drop)
  }

  /// Returns free pages to the file system and truncates the log. `name` is what was deleted, for errors.
  pub(super) fn vacuum(&self, name: &str) -> Result<()> {
    let doing = "free the space of";
    let action = || Action {
      doing,
      name: name.to_owned(),
    };
    let free_pages = |connection: &Connection| Ok(incremental_vacuum(connection, PAGES_FREED_AT_ONCE)?);
    while self.queue.submit(action(), false, free_pages)? {}
    self.queue.exclusively(|writer| match writer {
      Some(writer) => {
        let truncated = writer.truncate_files();
        truncated.map(drop).map_err(|error| error.to_error(doing, name))
      }
      None => Ok(()),
    })
  }
}
