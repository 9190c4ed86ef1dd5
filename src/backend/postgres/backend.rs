//! The operations of [`Backend`], each as one call to the server.

use uuid::Uuid;

use super::bases::BaseKey;
use super::checkpoints::CheckpointKey;
use super::connection::Connection;
use super::contents::Contents;
use super::delete_session::{self, DeleteOutcome};
use super::documents::DocumentKey;
use super::error::PgError;
use super::lists::StoredEnds;
use super::put::{self, NewCheckpoint};
use super::replace_documents::{self, Replacement};
use super::{PostgresBackend, bases, checkpoints, create_session, delete, documents, leases, lists, schema, sessions};
use crate::backend::ext::each_series;
use crate::backend::{
  Acquired, Attribute, Backend, CheckpointEntry, CheckpointPage, Claim, Content, DeleteCondition, DeleteMode,
  DeletedSession, Document, DocumentChange, Encoding, Fences, Item, ItemKind, ItemName, ItemSource, Lease, ListedItem,
  Maintenance, Peek, PeekResult, PutOptions, PutOutcome, ReadResult, Selection, Series, SessionFilter, Usage,
};
use crate::types::error::{Code, Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId};

impl Backend for PostgresBackend {
  fn location(&self) -> String {
    self.config.location()
  }

  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String {
    self.name(session, &item.to_string())
  }

  fn open(&self) -> Result<()> {
    schema::ensure(self)
  }

  fn close(&self) -> Result<()> {
    drop(self.pool.retain(|_, _| false));
    Ok(())
  }

  fn sessions(&self, filter: SessionFilter<'_>) -> Result<Vec<SessionId>> {
    self.with_connection("read", &|| self.location(), async |connection| match filter {
      SessionFilter::All => sessions::list(connection, None).await,
      SessionFilter::Saved => sessions::list(connection, Some(&Item::SESSION.to_string())).await,
      SessionFilter::WithCheckpoint(id) => lists::sessions_with(connection, id).await,
    })
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    let name = || self.name_of_session(session);
    self.with_connection("read", &name, async |connection| {
      lists::agents(connection, session).await
    })
  }

  fn items(&self, session: &SessionId, kind: ItemKind<'_>) -> Result<Vec<ListedItem>> {
    let unsized_item = |name| ListedItem { name, size: None };
    let name = || self.name_of_session(session);
    self.with_connection("read", &name, async |connection| {
      Ok(match kind {
        ItemKind::TaskResults => {
          let ids = documents::results(connection, session).await?.into_iter();
          ids.map(|id| unsized_item(ItemName::TaskResult(id))).collect()
        }
        ItemKind::Previous(document) => {
          let versions = 1..=documents::versions(connection, session, document).await?;
          versions
            .map(|back| unsized_item(ItemName::Previous(document, back)))
            .collect()
        }
        ItemKind::Bases(agent) => {
          let bases = bases::list(connection, &Series::of(session, agent)).await?.into_iter();
          let listed = bases.map(|(id, size)| ListedItem {
            name: ItemName::Base(agent.cloned(), id),
            size: Some(size),
          });
          listed.collect()
        }
      })
    })
  }

  fn create_session(&self, session: &SessionId, source: Option<&mut ItemSource<'_>>) -> Result<bool> {
    if let Some(source) = source {
      return create_session::create_session_with(self, session, source);
    }
    let (name, fence) = (|| self.name_of_session(session), self.fence(session));
    self.with_connection("create", &name, async |connection| {
      sessions::create(connection, session, fence).await
    })?;
    Ok(true)
  }

  /// The server reuses the space after its next vacuum.
  fn delete_session(
    &self,
    session: &SessionId,
    condition: Option<DeleteCondition<'_>>,
  ) -> Result<Option<DeletedSession>> {
    let (name, fence) = (|| self.name_of_session(session), self.fence(session));
    let Some(condition) = condition else {
      self.with_connection("delete", &name, async |connection| {
        delete_session::delete(connection, session, fence).await
      })?;
      return Ok(Some(DeletedSession::default()));
    };
    let mut is_sent = false;
    let is_deleted = self.with_connection("delete", &name, async |connection| {
      let mut decide = |document: Option<Contents>| {
        let document = document.map(|document| document.within(&self.name_of(session, Item::SESSION), condition.limit));
        (condition.accepts)(document.transpose()?.as_deref())
      };
      match delete_session::delete_if(connection, session, fence, condition.limit, &mut decide, &mut is_sent).await? {
        DeleteOutcome::Deleted => Ok(true),
        DeleteOutcome::Kept => Ok(false),
        // An earlier attempt, whose answer did not arrive, has deleted it.
        DeleteOutcome::Missing => Ok(connection.is_retry && is_sent),
      }
    })?;
    Ok(is_deleted.then(DeletedSession::default))
  }

  fn put(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let bytes = self.bytes(session, item, content)?;
    let (token, fence) = (Uuid::new_v4(), self.fence(session));
    let name = || self.name_of(session, item);
    self.with_connection("write", &name, async |connection| match item {
      Item::Checkpoint(agent, id, encoding) => {
        let checkpoint = NewCheckpoint {
          key: CheckpointKey::new(session, agent, id, encoding),
          fence,
          bytes: &bytes,
          options: &PutOptions::new(encoding),
          labels: None,
        };
        put::put(connection, &checkpoint, &[]).await.map(drop)
      }
      Item::Base(agent, id) => bases::put(connection, &BaseKey::new(session, agent, id), fence, &bytes).await,
      Item::Document(document) => {
        let replacement = self.replacement(session, &[(document, Some(&bytes[..]))], token);
        replacement.run(connection, None).await
      }
      Item::Previous(..) | Item::TaskResult(_) => {
        let key = DocumentKey::new(session, item);
        replace_documents::put(connection, &key, fence, &bytes, token).await
      }
    })?;
    Ok(bytes.len() as u64)
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
    let checkpoint = NewCheckpoint {
      key: CheckpointKey::new(&series.session, series.agent.as_ref(), id, options.encoding),
      fence: self.fence(&series.session),
      bytes: &bytes,
      options,
      labels: None,
    };
    let name = || self.name_of(&series.session, item);
    let token = Uuid::new_v4();
    let (mut outcome, answer) = self.with_connection("write", &name, async |connection| {
      match (options.labels, &options.retention) {
        (Some(labels), _) => {
          let outcome = self
            .put_labelled(connection, series, &checkpoint, labels, token)
            .await?;
          Ok((outcome, None))
        }
        (None, Some(query)) => self.put_with_retention(connection, series, &checkpoint, query).await,
        (None, None) => Ok((put::put(connection, &checkpoint, &[]).await?.0, None)),
      }
    })?;
    if let PutOutcome::Stored { retention, .. } = &mut outcome {
      *retention = answer;
    }
    Ok(outcome)
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
    let documents = [
      (Document::Session, Some(&document[..])),
      (Document::TaskTree, Some(&tree[..])),
    ];
    let replacement = self.replacement(session, &documents, Uuid::new_v4());
    let name = || self.name_of(session, Item::SESSION);
    self.with_connection("write", &name, async |connection| {
      replacement.run(connection, None).await
    })?;
    Ok(true)
  }

  /// No lock is held while `change` runs: if the document changes meanwhile, `change` is called again. The checkpoints are listed
  /// after the document is read, so the list has every checkpoint that the document gives a label.
  fn update_document(
    &self,
    session: &SessionId,
    document: Document,
    limit: u64,
    change: &mut DocumentChange<'_>,
  ) -> Result<()> {
    let item = Item::Document(document);
    let key = DocumentKey::new(session, item);
    let (name, token) = (|| self.name_of(session, item), Uuid::new_v4());
    self.with_connection("write", &name, async |connection| {
      let current = documents::read_current(connection, &key, token, limit).await?;
      if current.is_changed {
        return Ok(());
      }
      let old = current.contents.map(|old| old.within(&name(), limit)).transpose()?;
      let entries = match document {
        Document::Labels => lists::list(connection, &session.into()).await?,
        _ => Vec::new(),
      };
      let update = match change(old, &entries) {
        Ok(Some(update)) => update,
        Ok(None) => return Ok(()),
        Err(error) => return Err(self.lease_error_or(connection, session, error).await),
      };
      let mut replacement = self.replacement(session, &[(document, update.document.as_deref())], token);
      replacement.relies_on = update.relies_on.as_ref();
      replacement.run(connection, Some(current.seen)).await
    })
  }

  fn read_all(&self, items: &[(&SessionId, Item<'_>)], limit: u64) -> Result<Vec<ReadResult>> {
    let Some(document) = documents::same_document(items) else {
      let read = |&(session, item): &(&SessionId, Item<'_>)| self.read_item(session, item, limit);
      return Ok(items.iter().map(read).collect());
    };
    let sessions: Vec<_> = items.iter().map(|(session, _)| session.as_str()).collect();
    let name = document.to_string();
    let read = self.with_connection("read", &|| self.location(), async |connection| {
      documents::read_each(connection, &sessions, &name, limit).await
    })?;
    let read = items.iter().zip(read).map(|((session, item), contents)| {
      let within = |contents: Contents| contents.within(&self.name_of(session, *item), limit);
      contents.map(within).transpose()
    });
    Ok(read.collect())
  }

  /// Reads the columns of the head and the tail, or the whole checkpoint if longer ends are requested.
  fn peek(&self, of: &[(&Series, &CheckpointEntry)], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    let ends = self.with_connection("read", &|| self.location(), async |connection| {
      lists::peek(connection, of, head, tail).await
    })?;
    let peek = |(&(series, entry), ends): (&(&Series, &CheckpointEntry), _)| match ends {
      None => Ok(None),
      Some(StoredEnds::Complete(peek)) => Ok(Some(peek)),
      Some(StoredEnds::TooShort) => {
        let whole = self.read_item(&series.session, series.item_of(entry), u64::MAX)?;
        Ok(whole.map(|bytes| Peek::of(&bytes, head, tail)))
      }
    };
    Ok(of.iter().zip(ends).map(peek).collect())
  }

  fn list(&self, series: &[Series], selection: Selection<'_>) -> Result<Vec<CheckpointPage>> {
    if series.len() > 1 && selection == Selection::All && series.iter().all(|series| series.agent.is_none()) {
      let sessions: Vec<_> = series.iter().map(|series| series.session.as_str()).collect();
      let lists = self.with_connection("read", &|| self.location(), async |connection| {
        lists::list_each(connection, &sessions).await
      })?;
      return Ok(lists.into_iter().map(CheckpointPage::all).collect());
    }
    each_series(series, |series| {
      let name = || self.name_of_session(&series.session);
      self.with_connection("read", &name, async |connection| {
        lists::select(connection, series, selection).await
      })
    })
  }

  fn delete(&self, session: &SessionId, item: Item<'_>, mode: DeleteMode) -> Result<bool> {
    let name = || self.name_of(session, item);
    let (token, fence, mut number) = (Uuid::new_v4(), self.fence(session), None);
    self.with_connection("delete", &name, async |connection| match (item, mode) {
      (Item::Checkpoint(agent, id, encoding), DeleteMode::Always) => {
        delete::delete_checkpoint(connection, &CheckpointKey::new(session, agent, id, encoding), fence).await
      }
      (Item::Checkpoint(agent, id, encoding), DeleteMode::UnlessKept(is_labelled)) => {
        let key = CheckpointKey::new(session, agent, id, encoding);
        let Some(is_labelled) = is_labelled else {
          return delete::delete_checkpoint_if_deletable(connection, &key, fence).await;
        };
        let labels = DocumentKey::new(session, Item::LABELS);
        let current = documents::read_current(connection, &labels, Uuid::new_v4(), u64::MAX).await?;
        let labels = current
          .contents
          .map(|labels| labels.within(&name(), u64::MAX))
          .transpose()?;
        if labels.is_some_and(|labels| is_labelled(&labels, id)) {
          return Ok(false);
        }
        delete::delete_checkpoint_if_unlabelled(connection, &key, fence, current.seen).await
      }
      (Item::Base(agent, id), _) => bases::delete(connection, &BaseKey::new(session, agent, id), fence).await,
      _ => {
        let key = DocumentKey::new(session, item);
        delete::delete_document(connection, &key, fence, token, &mut number).await
      }
    })
  }

  fn set_attribute(&self, series: &Series, id: &CheckpointId, attribute: Attribute) -> Result<bool> {
    let fence = self.fence(&series.session);
    let name = || self.name_of(&series.session, series.item(id, Encoding::Json));
    match attribute {
      Attribute::Pinned(is_pinned) => self.with_connection("pin", &name, async |connection| {
        checkpoints::set_pinned(connection, series, id, fence, is_pinned).await
      }),
      Attribute::MadeAt(made_at) => self.with_connection("set the time of", &name, async |connection| {
        checkpoints::set_made_at(connection, series, id, fence, made_at).await
      }),
    }
  }

  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>> {
    let (session, item) = (&series.session, series.item_of(entry));
    let name = || self.name_of(session, item);
    // The second part keeps two checkpoints of the same name apart.
    let new_name = format!("damaged/{}.{}", item.file_name(), Uuid::new_v4().simple());
    let (fence, mut stored) = (self.fence(session), None);
    let moved = self.with_connection("quarantine", &name, async |connection| {
      let key = CheckpointKey::of(series, entry);
      if stored.is_none() {
        stored = checkpoints::read(connection, &key, u64::MAX).await?;
      }
      let Some(stored) = &stored else {
        return Ok(false);
      };
      let is_same = match (stored.clone().within(&name(), u64::MAX), judged) {
        (Ok(bytes), Some(judged)) => bytes == judged,
        (Err(error), None) => error.code == Code::Corrupt,
        _ => false,
      };
      if !is_same {
        return Ok(false);
      }
      delete::quarantine(connection, &key, fence, stored, &new_name).await
    })?;
    Ok(moved.then(|| self.name(session, &new_name)))
  }

  fn usage(&self, sessions: &[SessionId]) -> Result<Vec<Result<Usage>>> {
    let ids: Vec<_> = sessions.iter().map(SessionId::as_str).collect();
    let usages = self.with_connection("read", &|| self.location(), async |connection| {
      sessions::usage(connection, &ids).await
    })?;
    Ok(usages.into_iter().map(Ok).collect())
  }

  /// A commit that the server acknowledged is durable, and autovacuum reuses the space.
  fn maintain(&self, task: Maintenance<'_>) -> Result<u64> {
    match task {
      Maintenance::DeleteUnusedBases(series) => {
        let (name, fence) = (|| self.name_of_session(&series.session), self.fence(&series.session));
        self.with_connection("clean up", &name, async |connection| {
          bases::delete_unused(connection, series, fence).await
        })
      }
      Maintenance::SyncDeletes(_) | Maintenance::RefreshLatestLink(_) | Maintenance::Vacuum => Ok(0),
    }
  }

  fn fences(&self) -> &Fences {
    &self.fences
  }

  fn acquire(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired> {
    let (name, token) = (|| self.name_of_session(session), Uuid::new_v4());
    let last = self.fences.of(session);
    self.with_connection("acquire", &name, async |connection| {
      leases::acquire(connection, session, claim, last, token).await
    })
  }

  fn renew(&self, session: &SessionId, token: u64, ttl_ms: u64) -> Result<Option<Lease>> {
    let name = || self.name_of_session(session);
    self.with_connection("renew the lease of", &name, async |connection| {
      leases::renew(connection, session, token, ttl_ms).await
    })
  }

  fn release(&self, session: &SessionId, token: u64) -> Result<bool> {
    let (name, attempt) = (|| self.name_of_session(session), Uuid::new_v4());
    self.with_connection("release", &name, async |connection| {
      leases::release(connection, session, token, attempt).await
    })
  }

  fn leases(&self) -> Result<Vec<(SessionId, Lease)>> {
    self.with_connection("read", &|| self.location(), async |connection| {
      leases::list(connection).await
    })
  }
}

impl PostgresBackend {
  fn read_item(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
    let name = || self.name_of(session, item);
    let contents = self.with_connection("read", &name, async |connection| match item {
      Item::Checkpoint(agent, id, encoding) => {
        checkpoints::read(connection, &CheckpointKey::new(session, agent, id, encoding), limit).await
      }
      Item::Base(agent, id) => bases::read(connection, &BaseKey::new(session, agent, id), limit).await,
      _ => documents::read(connection, &DocumentKey::new(session, item), limit).await,
    })?;
    contents.map(|contents| contents.within(&name(), limit)).transpose()
  }

  /// The error of a lost lease, which takes precedence over `error`.
  pub(super) async fn lease_error_or(&self, connection: &Connection, session: &SessionId, error: Error) -> PgError {
    match leases::check_fence(connection, session, self.fence(session)).await {
      Err(PgError::Store(lost)) => lost.into(),
      _ => error.into(),
    }
  }

  fn replacement<'a>(
    &self,
    session: &'a SessionId,
    documents: &[(Document, Option<&'a [u8]>)],
    token: Uuid,
  ) -> Replacement<'a> {
    let keep = self.settings.keep_previous;
    Replacement::new(session, self.fence(session), documents, keep, token)
  }
}
