//! The operations of a place, on a database.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rusqlite::Connection;
use uuid::Uuid;

use super::checkpoints::Key;
use super::failure::DbError;
use super::writer::{Operation, Run, Writer};
use super::{Contents, Label, RowKey, SqliteBackend, checkpoints, documents, keys, leases, queue, schema, sessions};
use crate::backend::{
  Acquired, Backend, Change, CheckpointEntry, CheckpointWrite, Claim, Condition, Content, DeletedSession, Document,
  Encoding, Fences, IsLabelled, Item, ItemSource, LabelsChange, Lease, PeekResult, PutOutcome, RetentionList,
  RetentionScope, Series, Usage,
};
use crate::types::error::{Error, Result};
use crate::types::fault_injection;
use crate::types::id::{AgentId, CheckpointId, SessionId, TaskId};
use crate::types::time::now_ms;

impl Backend for SqliteBackend {
  fn location(&self) -> String {
    format!("sqlite:{}", self.path.display())
  }

  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String {
    self.name(session, &item.to_string())
  }

  fn initialize(&self) -> Result<()> {
    let deadline = Instant::now() + self.settings.timeout;
    self.queue.exclusively(|writer| {
      if writer.as_ref().is_none_or(Writer::has_moved) {
        self.readers.forget();
        *writer = None;
        // An empty file is what SQLite takes for a new database.
        if self.settings.must_exist && !self.path.metadata().is_ok_and(|file| file.len() > 0) {
          return Err(Error::no_store(&self.location()));
        }
        *writer = Some(Writer::open(&self.path, self.settings.durability, deadline)?);
      }
      Ok(())
    })
  }

  fn rest(&self) -> Result<()> {
    if fault_injection::is_enabled("wal-left") {
      return Ok(());
    }
    self.queue.exclusively(|writer| {
      // The readers go first: none of them keeps the log from being moved.
      self.readers.forget();
      match writer.take().map(Writer::close) {
        Some(Err(refusal)) => Err(refusal.to_error("move the log of the closed database into", &self.location())),
        _ => Ok(()),
      }
    })
  }

  fn create_session(&self, session: &SessionId) -> Result<()> {
    let label = Label {
      doing: "create",
      name: self.name_of_session(session),
    };
    let id = session.to_string();
    let add = move |connection: &_| Ok(sessions::add(connection, &id)?);
    self.submit(session, label, true, add).map(drop)
  }

  fn sessions(&self) -> Result<Vec<SessionId>> {
    let name = Item::SESSION.to_string();
    self.read_with(
      || self.location(),
      |connection| Ok(sessions::list(connection, Some(&name))?),
    )
  }

  fn places(&self) -> Result<Vec<SessionId>> {
    self.read_with(|| self.location(), |connection| Ok(sessions::list(connection, None)?))
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    self.read_with(
      || self.name_of_session(session),
      |connection| Ok(checkpoints::agents(connection, session)?),
    )
  }

  fn delete_session(&self, session: &SessionId) -> Result<Option<Error>> {
    let label = Label {
      doing: "delete",
      name: self.name_of_session(session),
    };
    let (id, fence) = (session.clone(), self.fences.of(session));
    let remove = move |connection: &_| {
      let removed = sessions::remove(connection, id.as_str())?;
      leases::forget(connection, &id, fence)?;
      Ok(removed)
    };
    if !self.submit(session, label, true, remove)? {
      return Ok(None);
    }
    Ok(self.give_back(&self.name_of_session(session)).err())
  }

  fn delete_session_if(
    &self,
    session: &SessionId,
    limit: u64,
    condition: &mut Condition<'_>,
  ) -> Result<Option<DeletedSession>> {
    let name = self.name_of_session(session);
    let label = Label {
      doing: "delete",
      name: name.clone(),
    };
    let (key, fence) = (documents::Key::new(session, Item::SESSION), self.fences.of(session));
    let is_deleted = self.queue.exclusively(|writer| {
      let writer = writer.as_mut().ok_or_else(queue::not_open)?;
      let mut run = |connection: &_| {
        leases::admitted(connection, session, fence, || {
          let document = documents::read(connection, &key, limit)?;
          let document = document.map(|document| document.within(&self.name_of(session, Item::SESSION), limit));
          if !condition(document.transpose()?.as_deref())? {
            return Ok(false);
          }
          sessions::remove(connection, session.as_str())?;
          leases::forget(connection, session, fence)?;
          Ok(true)
        })
      };
      let mut operations = [Operation {
        label: &label,
        must_last: true,
        run: &mut run,
      }];
      writer.commit(&mut operations).pop().unwrap_or(Ok(false))
    });
    let is_deleted = is_deleted.inspect_err(|error| self.fences.observe(error))?;
    Ok(is_deleted.then(|| DeletedSession {
      left: self.give_back(&name).err(),
    }))
  }

  fn found(&self, session: &SessionId, supply: &mut ItemSource<'_>) -> Result<bool> {
    let label = Label {
      doing: "create",
      name: self.name_of_session(session),
    };
    // On this thread, one thing at a time: what does not fit the cache is in the log before the transaction ends.
    self.queue.exclusively(|writer| {
      let writer = writer.as_mut().ok_or_else(queue::not_open)?;
      let mut run = |connection: &_| {
        leases::admitted(connection, session, self.fences.of(session), || {
          if !sessions::is_empty(connection, session.as_str())? {
            return Ok(false);
          }
          let mut refused = None;
          let supplied = supply(&mut |arrival| {
            let bytes = self.bytes(session, arrival.item, arrival.content)?;
            let place = RowKey::of(session, arrival.item);
            place.take_in(connection, &arrival, &bytes).map_err(|refusal| {
              let error = refusal.to_error("write", &self.name_of(session, arrival.item));
              refused = Some(refusal);
              error
            })
          });
          // A full disk, for one, may have ended the transaction: whoever leads has to know.
          match refused {
            Some(refusal) => Err(refusal.into()),
            None => Ok(supplied.map(|()| true)?),
          }
        })
      };
      let mut operations = [Operation {
        label: &label,
        must_last: true,
        run: &mut run,
      }];
      let outcome = writer.commit(&mut operations).pop();
      outcome
        .unwrap_or(Ok(false))
        .inspect_err(|error| self.fences.observe(error))
    })
  }

  fn write(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let bytes = self.bytes(session, item, content)?;
    let size = bytes.len() as u64;
    let label = self.label("write", session, item);
    let place = RowKey::of(session, item);
    let (id, keep) = (session.clone(), self.settings.keep_previous);
    let versioned = match item {
      Item::Document(document) => Some(document),
      _ => None,
    };
    self.submit(session, label, true, move |connection| {
      match versioned {
        Some(document) => documents::replace(connection, &id, document, &bytes, keep)?,
        None => place.put(connection, &bytes)?,
      }
      Ok(true)
    })?;
    Ok(size)
  }

  fn write_checkpoint(&self, series: &Series, id: &CheckpointId, new: CheckpointWrite<'_>) -> Result<PutOutcome> {
    let item = series.item(id, new.encoding);
    let bytes = self.bytes(&series.session, item, new.content)?;
    let size = bytes.len() as u64;
    let label = self.label("write", &series.session, item);
    let place = RowKey::of(&series.session, item);
    let addition = new.footing.map(|footing| keys::Addition::new(series, footing));
    let key = addition.as_ref().map(keys::Addition::look);
    let (row, precondition) = (series.clone(), new.precondition.clone());
    let entry = CheckpointEntry::new(id.clone(), new.encoding, now_ms);
    if let Some(labels) = new.labels {
      // On this thread: the caller's function is not sent to another.
      let mut put = PutOutcome::KeyIsGone;
      let labels_key = documents::Key::new(&series.session, Item::LABELS);
      self.exclusively(&series.session, &label, &mut |connection| {
        if let Some(refusal) = checkpoints::refusal(connection, &row, &entry, &precondition)? {
          put = refusal;
          return Ok(true);
        }
        let old = documents::read(connection, &labels_key, u64::MAX)?;
        let old = old.map(|old| old.within(&label.name, u64::MAX)).transpose()?;
        let document = labels(old, &checkpoints::list(connection, &row)?)?;
        let added = addition.as_ref().map(|addition| addition.apply(connection));
        if added.unwrap_or(Ok(true))? {
          documents::replace(connection, &series.session, Document::Labels, &document, 0)?;
          place.put(connection, &bytes)?;
          put = PutOutcome::Stored { size, key };
        }
        Ok(true)
      })?;
      return Ok(put);
    }
    let outcome = Arc::new(Mutex::new(PutOutcome::KeyIsGone));
    let told = Arc::clone(&outcome);
    self.submit(&series.session, label, true, move |connection| {
      let refusal = checkpoints::refusal(connection, &row, &entry, &precondition)?;
      let put = match (refusal, &addition) {
        (Some(refusal), _) => refusal,
        (None, Some(addition)) if !addition.apply(connection)? => PutOutcome::KeyIsGone,
        (None, _) => {
          place.put(connection, &bytes)?;
          PutOutcome::Stored { size, key }
        }
      };
      *told.lock().unwrap_or_else(PoisonError::into_inner) = put;
      Ok(true)
    })?;
    let put = outcome.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(put.clone())
  }

  fn keys(&self, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
    self.read_with(
      || self.name_of_session(&series.session),
      |connection| Ok(keys::list(connection, series)?),
    )
  }

  fn remove_unused_keys(&self, series: &Series) -> Result<u64> {
    let mut freed = 0;
    let unused = self.read_with(
      || self.name_of_session(&series.session),
      |connection| Ok(keys::unused(connection, series)?),
    )?;
    for (key, size) in unused {
      let label = self.label("delete", &series.session, series.key(&key));
      let row = series.clone();
      let released = self.submit(&series.session, label, true, move |connection| {
        let agent = checkpoints::agent_text(row.agent.as_ref());
        Ok(keys::release(connection, row.session.as_str(), agent, key.as_str())?)
      })?;
      freed += if released { size } else { 0 };
    }
    Ok(freed)
  }

  fn write_state(&self, session: &SessionId, session_document: &dyn Content, task_tree: &dyn Content) -> Result<()> {
    let document = self.bytes(session, Item::SESSION, session_document)?;
    let tree = self.bytes(session, Item::TASK_TREE, task_tree)?;
    let label = self.label("write", session, Item::SESSION);
    let (id, keep) = (session.clone(), self.settings.keep_previous);
    let write = move |connection: &_| {
      documents::replace(connection, &id, Document::Session, &document, keep)?;
      documents::replace(connection, &id, Document::TaskTree, &tree, keep)?;
      Ok(true)
    };
    self.submit(session, label, true, write).map(drop)
  }

  fn update(&self, session: &SessionId, document: Document, limit: u64, change: &mut Change<'_>) -> Result<()> {
    self.update_with(session, document, limit, &mut |old, _| Ok(change(old)?.map(Some)))
  }

  fn update_labels(&self, session: &SessionId, limit: u64, change: &mut LabelsChange<'_>) -> Result<()> {
    let series = Series::from(session);
    self.update_with(session, Document::Labels, limit, &mut |old, connection| {
      let entries = checkpoints::list(connection, &series);
      let name = || self.name_of_session(session);
      let entries = entries.map_err(|error| DbError::from(error).to_error("read", &name()))?;
      Ok(change(old, &entries)?.map(|labels| labels.document))
    })
  }

  fn read(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
    let name = || self.name_of(session, item);
    let place = RowKey::of(session, item);
    let contents = self.read_with(name, |connection| Ok(place.read(connection, limit)?))?;
    contents
      .map(|contents: Contents| contents.within(&name(), limit))
      .transpose()
  }

  fn peek(&self, series: &Series, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    self.read_with(
      || self.name_of_session(&series.session),
      |connection| {
        let peek = |entry: &CheckpointEntry| {
          let peeked = checkpoints::peek(connection, &Key::of(series, entry), head, tail);
          let name = || self.name_of(&series.session, series.item_of(entry));
          peeked.map_err(|error| DbError::from(error).to_error("read", &name()))
        };
        Ok(entries.iter().map(peek).collect())
      },
    )
  }

  fn versions(&self, session: &SessionId, document: Document) -> Result<u32> {
    self.read_with(
      || self.name_of(session, Item::Document(document)),
      |connection| Ok(documents::versions(connection, session, document)?),
    )
  }

  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<bool> {
    let place = RowKey::of(session, item);
    let label = self.label("delete", session, item);
    self.submit(session, label, true, move |connection| Ok(place.remove(connection)?))
  }

  fn retire(&self, series: &Series, entry: &CheckpointEntry, spare: Option<IsLabelled>) -> Result<bool> {
    let (key, id) = (Key::of(series, entry), entry.id.clone());
    let label = self.label("delete", &series.session, series.item_of(entry));
    let labels = documents::Key::new(&series.session, Item::LABELS);
    let retire = move |connection: &_| {
      if let Some(is_labelled) = spare
        && let Some(Contents::Bytes(labels)) = documents::read(connection, &labels, u64::MAX)?
        && is_labelled(&labels, &id)
      {
        return Ok(false);
      }
      Ok(checkpoints::retire(connection, &key)?)
    };
    self.submit(&series.session, label, false, retire)
  }

  fn confirm_retired(&self, series: &Series) -> Result<()> {
    let label = Label {
      doing: "sync the log of",
      name: self.name_of_session(&series.session),
    };
    // Whoever syncs the log syncs all that was appended before.
    let touch = |connection: &_| Ok(schema::touch(connection).map(|()| true)?);
    self.queue.submit(label, true, touch).map(drop)
  }

  fn give_back_space(&self) -> Result<()> {
    self.give_back(&self.location())
  }

  fn set_made_at(&self, series: &Series, entry: &CheckpointEntry) -> Result<()> {
    let (key, made_at) = (Key::of(series, entry), entry.made_at);
    let label = self.label("set the time of", &series.session, series.item_of(entry));
    let set = move |connection: &_| Ok(checkpoints::set_made_at(connection, &key, made_at)?);
    self.submit(&series.session, label, true, set).map(drop)
  }

  fn set_pinned(&self, series: &Series, id: &CheckpointId, is_pinned: bool) -> Result<bool> {
    let label = self.label("pin", &series.session, series.item(id, Encoding::Json));
    let (row, id) = (series.clone(), id.clone());
    self.submit(&series.session, label, true, move |connection| {
      Ok(checkpoints::set_pinned(connection, &row, &id, is_pinned)?)
    })
  }

  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>> {
    let (session, item) = (&series.session, series.item_of(entry));
    let (key, judged) = (Key::of(series, entry), judged.map(<[u8]>::to_vec));
    let label = self.label("move aside", session, item);
    // The name says what it was; the second part keeps two of the same name apart.
    let new_name = format!("damaged/{}.{}", item.file_name(), Uuid::new_v4().simple());
    let name = self.name(session, &new_name);
    let moved = self.submit(session, label, true, move |connection| {
      let is_same =
        matches!(checkpoints::read(connection, &key, u64::MAX)?, Some(Contents::Bytes(bytes)) if Some(&bytes) == judged.as_ref());
      Ok(is_same && checkpoints::set_aside(connection, &key, &new_name)?)
    })?;
    Ok(moved.then_some(name))
  }

  fn checkpoints(&self, series: &Series) -> Result<Vec<CheckpointEntry>> {
    self.read_with(
      || self.name_of_session(&series.session),
      |connection| Ok(checkpoints::list(connection, series)?),
    )
  }

  fn find(&self, series: &Series, id: &CheckpointId) -> Result<Option<CheckpointEntry>> {
    self.read_with(
      || self.name_of_session(&series.session),
      |connection| Ok(checkpoints::find(connection, series, id)?),
    )
  }

  fn surplus(&self, series: &Series, wanted: RetentionScope) -> Result<RetentionList> {
    self.read_with(
      || self.name_of_session(&series.session),
      |connection| Ok(checkpoints::surplus(connection, series, wanted)?),
    )
  }

  fn results(&self, session: &SessionId) -> Result<Vec<TaskId>> {
    self.read_with(
      || self.name_of_session(session),
      |connection| Ok(documents::results(connection, session)?),
    )
  }

  fn sessions_with_checkpoint(&self, id: &CheckpointId) -> Result<Vec<SessionId>> {
    self.read_with(
      || self.location(),
      |connection| Ok(checkpoints::sessions_with(connection, id)?),
    )
  }

  fn usage(&self, session: &SessionId) -> Result<Usage> {
    self.read_with(
      || self.name_of_session(session),
      |connection| Ok(sessions::usage(connection, session)?),
    )
  }

  fn fences(&self) -> &Fences {
    &self.fences
  }

  fn acquire(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired> {
    self.change_lease("acquire", session, |connection| {
      leases::acquire(connection, session, claim, self.fences.fresh(session))
    })
  }

  fn renew(&self, session: &SessionId, number: u64, ttl_ms: u64) -> Result<Option<Lease>> {
    self.change_lease("renew the lease of", session, |connection| {
      leases::renew(connection, session, number, ttl_ms)
    })
  }

  fn release(&self, session: &SessionId, number: u64) -> Result<bool> {
    self.change_lease("release", session, |connection| {
      leases::release(connection, session, number)
    })
  }

  fn leases(&self) -> Result<Vec<(SessionId, Lease)>> {
    self.read_with(|| self.location(), leases::list)
  }
}

/// A [`Change`] that reads more in the same transaction.
/// The inner `None` removes the document.
type ChangeWith<'a> = dyn FnMut(Option<Vec<u8>>, &Connection) -> Result<Option<Option<Vec<u8>>>> + 'a;

impl SqliteBackend {
  /// Replaces a document in one transaction with what `change` reads.
  fn update_with(
    &self,
    session: &SessionId,
    document: Document,
    limit: u64,
    change: &mut ChangeWith<'_>,
  ) -> Result<()> {
    let item = Item::Document(document);
    let label = self.label("write", session, item);
    let key = documents::Key::new(session, item);
    // On this thread: the caller's function is not sent to another.
    self.exclusively(session, &label, &mut |connection| {
      let old = documents::read(connection, &key, limit)?;
      let old = old.map(|old| old.within(&label.name, limit)).transpose()?;
      let Some(bytes) = change(old, connection)? else {
        return Ok(false);
      };
      match bytes {
        Some(bytes) => documents::replace(connection, session, document, &bytes, self.settings.keep_previous)?,
        None => drop(documents::remove(connection, &key)?),
      }
      Ok(true)
    })
  }

  /// Runs one operation in a transaction of its own, on this thread, if the lease of the session admits it.
  fn exclusively(&self, session: &SessionId, label: &Label, operation: &mut Run<'_>) -> Result<()> {
    self.queue.exclusively(|writer| {
      let writer = writer.as_mut().ok_or_else(queue::not_open)?;
      let mut run =
        |connection: &_| leases::admitted(connection, session, self.fences.of(session), || operation(connection));
      let mut operations = [Operation {
        label,
        must_last: true,
        run: &mut run,
      }];
      writer
        .commit(&mut operations)
        .into_iter()
        .try_for_each(|outcome| outcome.map(drop))
        .inspect_err(|error| self.fences.observe(error))
    })
  }
}
