//! The operations of the trait, on a database.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use uuid::Uuid;

use super::bases::Addition;
use super::checkpoints::CheckpointKey;
use super::documents::DocumentKey;
use super::failure::DbError;
use super::writer::{Operation, Run, Writer};
use super::{Contents, Label, RowKey, SqliteBackend, bases, checkpoints, documents, leases, queue, schema, sessions};
use crate::backend::ext::each_series;
use crate::backend::{
  Acquired, Attribute, Backend, CheckpointEntry, CheckpointPage, Claim, Content, DeleteCondition, DeleteMode,
  DeletedSession, Document, DocumentChange, Encoding, Fences, Item, ItemKind, ItemName, ItemSource, Lease, ListedItem,
  Maintenance, PeekResult, PutOptions, PutOutcome, ReadResult, Selection, Series, SessionFilter, Usage,
};
use crate::types::error::{Error, Result};
use crate::types::fault_injection;
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::time::now_ms;

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

  fn close(&self) -> Result<()> {
    if fault_injection::is_enabled("wal-left") {
      return Ok(());
    }
    self.queue.exclusively(|writer| {
      // The readers go first: an open reader would keep the log from being moved.
      self.readers.forget();
      match writer.take().map(Writer::close) {
        Some(Err(refusal)) => Err(refusal.to_error("move the log of the closed database into", &self.location())),
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
          SessionFilter::WithCheckpoint(id) => checkpoints::sessions_with(connection, id)?,
        })
      },
    )
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    self.query(
      || self.name_of_session(session),
      |connection| Ok(checkpoints::agents(connection, session)?),
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
    let label = Label {
      doing: "create",
      name: self.name_of_session(session),
    };
    let Some(source) = source else {
      let id = session.to_string();
      let add = move |connection: &_| Ok(sessions::add(connection, &id)?);
      self.submit(session, label, true, add)?;
      return Ok(true);
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
          let supplied = source(&mut |new| {
            let bytes = self.bytes(session, new.item, new.content)?;
            let row = RowKey::of(session, new.item);
            row.add(connection, &new, &bytes).map_err(|refusal| {
              let error = refusal.to_error("write", &self.name_of(session, new.item));
              refused = Some(refusal);
              error
            })
          });
          // A full disk, for one, may have ended the transaction: the leader of the group commit has to know.
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

  fn delete_session(
    &self,
    session: &SessionId,
    condition: Option<DeleteCondition<'_>>,
  ) -> Result<Option<DeletedSession>> {
    match condition {
      Some(condition) => self.delete_session_if(session, condition),
      None => self.delete_any_session(session).map(Some),
    }
  }

  fn put(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let bytes = self.bytes(session, item, content)?;
    let size = bytes.len() as u64;
    let label = self.label("write", session, item);
    let row = RowKey::of(session, item);
    let (id, keep) = (session.clone(), self.settings.keep_previous);
    let versioned = match item {
      Item::Document(document) => Some(document),
      _ => None,
    };
    self.submit(session, label, true, move |connection| {
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
    let item = series.item(id, options.encoding);
    let bytes = self.bytes(&series.session, item, content)?;
    let size = bytes.len() as u64;
    let label = self.label("write", &series.session, item);
    let row = RowKey::of(&series.session, item);
    let addition = options.base.map(|base| Addition::new(series, base));
    let base = addition.as_ref().map(Addition::stamp);
    let (of, precondition) = (series.clone(), options.precondition.clone());
    let entry = CheckpointEntry::new(id.clone(), options.encoding, now_ms);
    if let Some(labels) = options.labels {
      // On this thread: the caller's function is not sent to another.
      let mut put = PutOutcome::BaseIsGone;
      let labels_key = DocumentKey::new(&series.session, Item::LABELS);
      self.exclusively(&series.session, &label, &mut |connection| {
        if let Some(refusal) = checkpoints::refusal(connection, &of, &entry, &precondition)? {
          put = refusal;
          return Ok(true);
        }
        let old = documents::read(connection, &labels_key, u64::MAX)?;
        let old = old.map(|old| old.within(&label.name, u64::MAX)).transpose()?;
        let document = labels(old, &checkpoints::list(connection, &of)?)?;
        let added = addition.as_ref().map(|addition| addition.apply(connection));
        if added.unwrap_or(Ok(true))? {
          documents::replace(connection, &series.session, Document::Labels, &document, 0)?;
          row.put(connection, &bytes)?;
          put = PutOutcome::Stored {
            size,
            base,
            retention: None,
          };
        }
        Ok(true)
      })?;
      return Ok(put);
    }
    let outcome = Arc::new(Mutex::new(None));
    let told = Arc::clone(&outcome);
    self.submit(&series.session, label, true, move |connection| {
      let refusal = checkpoints::refusal(connection, &of, &entry, &precondition)?;
      let put = match (refusal, &addition) {
        (Some(refusal), _) => refusal,
        (None, Some(addition)) if !addition.apply(connection)? => PutOutcome::BaseIsGone,
        (None, _) => {
          row.put(connection, &bytes)?;
          PutOutcome::Stored {
            size,
            base,
            retention: None,
          }
        }
      };
      *told.lock() = Some(put);
      Ok(true)
    })?;
    let put = outcome.lock().take();
    Ok(put.unwrap_or(PutOutcome::BaseIsGone))
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
    let label = self.label("write", session, Item::SESSION);
    let (id, keep) = (session.clone(), self.settings.keep_previous);
    let write = move |connection: &_| {
      documents::replace(connection, &id, Document::Session, &document, keep)?;
      documents::replace(connection, &id, Document::TaskTree, &tree, keep)?;
      Ok(true)
    };
    self.submit(session, label, true, write)?;
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
    let label = self.label("write", session, item);
    let key = DocumentKey::new(session, item);
    // On this thread: the caller's function is not sent to another.
    self.exclusively(session, &label, &mut |connection| {
      let old = documents::read(connection, &key, limit)?;
      let old = old.map(|old| old.within(&label.name, limit)).transpose()?;
      let entries = match document {
        Document::Labels => checkpoints::list(connection, &session.into())?,
        _ => Vec::new(),
      };
      let Some(update) = change(old, &entries)? else {
        return Ok(false);
      };
      match update.document {
        Some(bytes) => documents::replace(connection, session, document, &bytes, self.settings.keep_previous)?,
        None => drop(documents::remove(connection, &key)?),
      }
      Ok(true)
    })
  }

  fn read_all(&self, items: &[(&SessionId, Item<'_>)], limit: u64) -> Result<Vec<ReadResult>> {
    let read = |&(session, item): &(&SessionId, Item<'_>)| {
      let name = || self.name_of(session, item);
      let row = RowKey::of(session, item);
      let contents = self.query(name, |connection| Ok(row.read(connection, limit)?))?;
      contents
        .map(|contents: Contents| contents.within(&name(), limit))
        .transpose()
    };
    Ok(items.iter().map(read).collect())
  }

  fn peek(&self, of: &[(&Series, &CheckpointEntry)], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    self.query(
      || self.location(),
      |connection| {
        let peek = |&(series, entry): &(&Series, &CheckpointEntry)| {
          let peeked = checkpoints::peek(connection, &CheckpointKey::of(series, entry), head, tail);
          let name = || self.name_of(&series.session, series.item_of(entry));
          peeked.map_err(|error| DbError::from(error).to_error("read", &name()))
        };
        Ok(of.iter().map(peek).collect())
      },
    )
  }

  fn list(&self, series: &[Series], selection: Selection<'_>) -> Result<Vec<CheckpointPage>> {
    each_series(series, |series| {
      self.query(
        || self.name_of_session(&series.session),
        |connection| Ok(checkpoints::select(connection, series, selection)?),
      )
    })
  }

  fn delete(&self, session: &SessionId, item: Item<'_>, mode: DeleteMode) -> Result<bool> {
    let label = self.label("delete", session, item);
    let row = RowKey::of(session, item);
    let (DeleteMode::UnlessKept(is_labelled), Item::Checkpoint(agent, id, encoding)) = (mode, item) else {
      return self.submit(session, label, true, move |connection| Ok(row.remove(connection)?));
    };
    let (key, id) = (CheckpointKey::new(session, agent, id, encoding), id.clone());
    let labels = DocumentKey::new(session, Item::LABELS);
    self.submit(session, label, false, move |connection| {
      if let Some(is_labelled) = is_labelled
        && let Some(Contents::Bytes(labels)) = documents::read(connection, &labels, u64::MAX)?
        && is_labelled(&labels, &id)
      {
        return Ok(false);
      }
      Ok(checkpoints::delete_unless_kept(connection, &key)?)
    })
  }

  fn set_attribute(&self, series: &Series, id: &CheckpointId, attribute: Attribute) -> Result<bool> {
    let doing = match attribute {
      Attribute::Pinned(_) => "pin",
      Attribute::MadeAt(_) => "set the time of",
    };
    let label = self.label(doing, &series.session, series.item(id, Encoding::Json));
    let key = CheckpointKey::new(&series.session, series.agent.as_ref(), id, Encoding::Json);
    self.submit(&series.session, label, true, move |connection| {
      Ok(match attribute {
        Attribute::Pinned(is_pinned) => checkpoints::set_pinned(connection, &key, is_pinned)?,
        Attribute::MadeAt(made_at) => checkpoints::set_made_at(connection, &key, made_at)?,
      })
    })
  }

  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>> {
    let (session, item) = (&series.session, series.item_of(entry));
    let (key, judged) = (CheckpointKey::of(series, entry), judged.map(<[u8]>::to_vec));
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

  fn usage(&self, of: &[SessionId]) -> Result<Vec<Result<Usage>>> {
    let usage = |session: &SessionId| {
      self.query(
        || self.name_of_session(session),
        |connection| Ok(sessions::usage(connection, session)?),
      )
    };
    Ok(of.iter().map(usage).collect())
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

impl SqliteBackend {
  fn delete_any_session(&self, session: &SessionId) -> Result<DeletedSession> {
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
      return Ok(DeletedSession::default());
    }
    Ok(DeletedSession {
      not_freed: self.vacuum(&self.name_of_session(session)).err(),
    })
  }

  fn delete_session_if(&self, session: &SessionId, condition: DeleteCondition<'_>) -> Result<Option<DeletedSession>> {
    let DeleteCondition { limit, accepts } = condition;
    let name = self.name_of_session(session);
    let label = Label {
      doing: "delete",
      name: name.clone(),
    };
    let (key, fence) = (DocumentKey::new(session, Item::SESSION), self.fences.of(session));
    let is_deleted = self.queue.exclusively(|writer| {
      let writer = writer.as_mut().ok_or_else(queue::not_open)?;
      let mut run = |connection: &_| {
        leases::admitted(connection, session, fence, || {
          let document = documents::read(connection, &key, limit)?;
          let document = document.map(|document| document.within(&self.name_of(session, Item::SESSION), limit));
          if !accepts(document.transpose()?.as_deref())? {
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
      not_freed: self.vacuum(&name).err(),
    }))
  }

  fn delete_unused_bases(&self, series: &Series) -> Result<u64> {
    let mut freed = 0;
    let unused = self.query(
      || self.name_of_session(&series.session),
      |connection| Ok(bases::unused(connection, series)?),
    )?;
    for (id, size) in unused {
      let label = self.label("delete", &series.session, series.base(&id));
      let of = series.clone();
      let released = self.submit(&series.session, label, true, move |connection| {
        let agent = checkpoints::agent_text(of.agent.as_ref());
        Ok(bases::release(connection, of.session.as_str(), agent, id.as_str())?)
      })?;
      freed += if released { size } else { 0 };
    }
    Ok(freed)
  }

  fn sync_log(&self, session: &SessionId) -> Result<()> {
    let label = Label {
      doing: "sync the log of",
      name: self.name_of_session(session),
    };
    // A sync of the log covers all that was appended before.
    let touch = |connection: &_| Ok(schema::touch(connection).map(|()| true)?);
    self.queue.submit(label, true, touch).map(drop)
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
