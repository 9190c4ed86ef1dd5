//! The trait, for a SQLite database.

use std::time::Instant;

use uuid::Uuid;

use super::checkpoints::{self, CheckpointKey};
use super::documents::{self, DocumentKey};
use super::error::DbError;
use super::writer::Writer;
use super::{RowKey, SqliteBackend, StoredBytes, bases, leases, lists, sessions};
use crate::backend::ext::each_series;
use crate::backend::{
  Acquired, Attribute, Backend, CheckpointEntry, CheckpointPage, Claim, Content, DeleteCondition, DeleteMode,
  DeletedSession, Document, DocumentChange, Encoding, Fences, Item, ItemKind, ItemName, ItemSource, Lease, ListedItem,
  Maintenance, PeekResult, PutOptions, PutOutcome, ReadResult, Selection, Series, SessionFilter, Usage,
};
use crate::types::error::{Error, Result};
use crate::types::fault_injection;
use crate::types::id::{AgentId, CheckpointId, SessionId};

impl Backend for SqliteBackend {
  fn location(&self) -> String {
    format!("sqlite:{}", self.path.display())
  }

  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String {
    self.name(session, &item.to_string())
  }

  fn open(&self) -> Result<()> {
    let deadline = Instant::now() + self.settings.timeout;
    self.queue.exclusively(|writer| {
      if writer.as_ref().is_none_or(Writer::was_replaced) {
        self.readers.release_connections();
        *writer = None;
        // To SQLite, an empty file is a new database.
        if self.settings.must_exist && !self.path.metadata().is_ok_and(|file| file.len() > 0) {
          return Err(Error::no_store(&self.location()));
        }
        *writer = Some(Writer::open(&self.path, self.settings.durability, deadline)?);
      }
      Ok(())
    })
  }

  fn close(&self) -> Result<()> {
    if fault_injection::is_enabled("wal-left") {
      return Ok(());
    }
    self.queue.exclusively(|writer| {
      // An open reader would keep the log from being moved into the database.
      self.readers.release_connections();
      match writer.take().map(Writer::close) {
        Some(Err(error)) => Err(error.to_error("move the log of the closed database into", &self.location())),
        _ => Ok(()),
      }
    })
  }

  fn sessions(&self, filter: SessionFilter<'_>) -> Result<Vec<SessionId>> {
    self.query(
      || self.location(),
      |connection| {
        Ok(match filter {
          SessionFilter::All => sessions::list(connection, None)?,
          SessionFilter::Saved => sessions::list(connection, Some(&Item::SESSION.to_string()))?,
          SessionFilter::WithCheckpoint(id) => lists::sessions_with(connection, id)?,
        })
      },
    )
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    self.query(
      || self.name_of_session(session),
      |connection| Ok(lists::agents(connection, session)?),
    )
  }

  fn items(&self, session: &SessionId, kind: ItemKind<'_>) -> Result<Vec<ListedItem>> {
    let unsized_item = |name| ListedItem { name, size: None };
    self.query(
      || self.name_of_session(session),
      |connection| {
        Ok(match kind {
          ItemKind::TaskResults => {
            let ids = documents::results(connection, session)?.into_iter();
            ids.map(|id| unsized_item(ItemName::TaskResult(id))).collect()
          }
          ItemKind::Previous(document) => {
            let versions = 1..=documents::versions(connection, session, document)?;
            versions
              .map(|back| unsized_item(ItemName::Previous(document, back)))
              .collect()
          }
          ItemKind::Bases(agent) => {
            let bases = bases::list(connection, &Series::of(session, agent))?.into_iter();
            let listed = bases.map(|(id, size)| ListedItem {
              name: ItemName::Base(agent.cloned(), id),
              size: Some(size),
            });
            listed.collect()
          }
        })
      },
    )
  }

  fn create_session(&self, session: &SessionId, source: Option<&mut ItemSource<'_>>) -> Result<bool> {
    match source {
      None => self.create_empty_session(session).map(|()| true),
      Some(source) => self.create_session_from(session, source),
    }
  }

  fn delete_session(
    &self,
    session: &SessionId,
    condition: Option<DeleteCondition<'_>>,
  ) -> Result<Option<DeletedSession>> {
    match condition {
      Some(condition) => self.delete_session_if(session, condition),
      None => self.delete_session_always(session).map(Some),
    }
  }

  fn put(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let bytes = self.bytes(session, item, content)?;
    let size = bytes.len() as u64;
    let action = self.action_on_item("write", session, item);
    let row = RowKey::of(session, item);
    let (id, keep) = (session.clone(), self.settings.keep_previous);
    let versioned = match item {
      Item::Document(document) => Some(document),
      _ => None,
    };
    self.submit(session, action, true, move |connection| {
      match versioned {
        Some(document) => documents::replace(connection, &id, document, &bytes, keep)?,
        None => row.put(connection, &bytes)?,
      }
      Ok(true)
    })?;
    Ok(size)
  }

  fn put_checkpoint(
    &self,
    series: &Series,
    id: &CheckpointId,
    content: &dyn Content,
    options: &PutOptions<'_>,
  ) -> Result<PutOutcome> {
    self.store_checkpoint(series, id, content, options)
  }

  fn put_state_if(
    &self,
    session: &SessionId,
    session_document: &dyn Content,
    task_tree: &dyn Content,
    confirm: &dyn Fn() -> bool,
  ) -> Result<bool> {
    let document = self.bytes(session, Item::SESSION, session_document)?;
    let tree = self.bytes(session, Item::TASK_TREE, task_tree)?;
    if !confirm() {
      return Ok(false);
    }
    let action = self.action_on_item("write", session, Item::SESSION);
    let (id, keep) = (session.clone(), self.settings.keep_previous);
    let write = move |connection: &_| {
      documents::replace(connection, &id, Document::Session, &document, keep)?;
      documents::replace(connection, &id, Document::TaskTree, &tree, keep)?;
      Ok(true)
    };
    self.submit(session, action, true, write)?;
    Ok(true)
  }

  fn update_document(
    &self,
    session: &SessionId,
    document: Document,
    limit: u64,
    change: &mut DocumentChange<'_>,
  ) -> Result<()> {
    let item = Item::Document(document);
    let action = self.action_on_item("write", session, item);
    let key = DocumentKey::new(session, item);
    let updated = self.submit_here(session, &action, &mut |connection| {
      let old = documents::read(connection, &key, limit)?;
      let old = old.map(|old| old.within(&action.name, limit)).transpose()?;
      let entries = match document {
        Document::Labels => lists::list(connection, &session.into())?,
        _ => Vec::new(),
      };
      let Some(update) = change(old, &entries)? else {
        return Ok(false);
      };
      match update.document {
        Some(bytes) => documents::replace(connection, session, document, &bytes, self.settings.keep_previous)?,
        None => drop(documents::delete(connection, &key)?),
      }
      Ok(true)
    });
    updated.map(drop)
  }

  fn read_all(&self, items: &[(&SessionId, Item<'_>)], limit: u64) -> Result<Vec<ReadResult>> {
    let read = |&(session, item): &(&SessionId, Item<'_>)| {
      let name = || self.name_of(session, item);
      let row = RowKey::of(session, item);
      let bytes = self.query(name, |connection| Ok(row.read(connection, limit)?))?;
      bytes.map(|bytes| bytes.within(&name(), limit)).transpose()
    };
    Ok(items.iter().map(read).collect())
  }

  fn peek(&self, checkpoints: &[(&Series, &CheckpointEntry)], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    self.query(
      || self.location(),
      |connection| {
        let peek = |&(series, entry): &(&Series, &CheckpointEntry)| {
          let peeked = checkpoints::peek(connection, &CheckpointKey::of(series, entry), head, tail);
          let name = || self.name_of(&series.session, series.item_of(entry));
          peeked.map_err(|error| DbError::from(error).to_error("read", &name()))
        };
        Ok(checkpoints.iter().map(peek).collect())
      },
    )
  }

  fn list(&self, series: &[Series], selection: Selection<'_>) -> Result<Vec<CheckpointPage>> {
    each_series(series, |series| {
      self.query(
        || self.name_of_session(&series.session),
        |connection| Ok(lists::select(connection, series, selection)?),
      )
    })
  }

  fn delete(&self, session: &SessionId, item: Item<'_>, mode: DeleteMode) -> Result<bool> {
    self.delete_item(session, item, mode)
  }

  fn set_attribute(&self, series: &Series, id: &CheckpointId, attribute: Attribute) -> Result<bool> {
    let doing = match attribute {
      Attribute::Pinned(_) => "pin",
      Attribute::MadeAt(_) => "set the time of",
    };
    let action = self.action_on_item(doing, &series.session, series.item(id, Encoding::Json));
    let key = CheckpointKey::new(&series.session, series.agent.as_ref(), id, Encoding::Json);
    self.submit(&series.session, action, true, move |connection| {
      Ok(match attribute {
        Attribute::Pinned(is_pinned) => checkpoints::set_pinned(connection, &key, is_pinned)?,
        Attribute::MadeAt(made_at) => checkpoints::set_made_at(connection, &key, made_at)?,
      })
    })
  }

  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>> {
    let (session, item) = (&series.session, series.item_of(entry));
    let (key, judged) = (CheckpointKey::of(series, entry), judged.map(<[u8]>::to_vec));
    let action = self.action_on_item("quarantine", session, item);
    // The second part distinguishes checkpoints of the same name.
    let new_name = format!("damaged/{}.{}", item.file_name(), Uuid::new_v4().simple());
    let name = self.name(session, &new_name);
    let moved = self.submit(session, action, true, move |connection| {
      let stored = checkpoints::read(connection, &key, u64::MAX)?;
      let is_judged = matches!(stored, Some(StoredBytes::Complete(bytes)) if Some(&bytes) == judged.as_ref());
      Ok(is_judged && checkpoints::move_to_damaged(connection, &key, &new_name)?)
    })?;
    Ok(moved.then_some(name))
  }

  fn usage(&self, sessions: &[SessionId]) -> Result<Vec<Result<Usage>>> {
    let usage = |session: &SessionId| {
      self.query(
        || self.name_of_session(session),
        |connection| Ok(sessions::usage(connection, session)?),
      )
    };
    Ok(sessions.iter().map(usage).collect())
  }

  fn maintain(&self, task: Maintenance<'_>) -> Result<u64> {
    match task {
      Maintenance::DeleteUnusedBases(series) => self.delete_unused_bases(series),
      Maintenance::SyncDeletes(series) => self.sync_log(&series.session).map(|()| 0),
      Maintenance::Vacuum => self.vacuum(&self.location()).map(|()| 0),
      Maintenance::RefreshLatestLink(_) => Ok(0),
    }
  }

  fn fences(&self) -> &Fences {
    &self.fences
  }

  fn acquire(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired> {
    self.change_lease("acquire", session, |connection| {
      leases::acquire(connection, session, claim, self.fences.fresh(session))
    })
  }

  fn renew(&self, session: &SessionId, token: u64, ttl_ms: u64) -> Result<Option<Lease>> {
    self.change_lease("renew the lease of", session, |connection| {
      leases::renew(connection, session, token, ttl_ms)
    })
  }

  fn release(&self, session: &SessionId, token: u64) -> Result<bool> {
    self.change_lease("release", session, |connection| {
      leases::release(connection, session, token)
    })
  }

  fn leases(&self) -> Result<Vec<(SessionId, Lease)>> {
    self.query(|| self.location(), leases::list)
  }
}
