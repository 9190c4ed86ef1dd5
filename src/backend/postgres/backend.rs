//! The operations of the trait, on a server.

use uuid::Uuid;

use super::bases::BaseKey;
use super::checkpoints::CheckpointKey;
use super::connection::{Connection, Params};
use super::contents::Contents;
use super::documents::DocumentKey;
use super::failure::Failure;
use super::lists::{Near, RetentionSelect};
use super::replacing::{self, Replacement};
use super::storing::{self, LabelsWith, Outcome, Storing};
use super::{
  PostgresBackend, bases, checkpoints, clearing, create_session, documents, leases, lists, payload, removal, schema,
  sessions,
};
use crate::backend::ext::each_series;
use crate::backend::{
  Acquired, Attribute, Backend, CheckpointEntry, CheckpointPage, Claim, Content, DeleteCondition, DeleteMode,
  DeletedSession, Document, DocumentChange, Encoding, Fences, FileStamp, Item, ItemKind, ItemName, ItemSource, Lease,
  ListedItem, Maintenance, NewLabels, Peek, PeekResult, PutOptions, PutOutcome, ReadResult, RetentionAnswer,
  RetentionQuery, Selection, Series, SessionFilter, Usage,
};
use crate::types::error::{Code, Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId};

impl Backend for PostgresBackend {
  fn location(&self) -> String {
    self.target.location()
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
    self.ask("read", &|| self.location(), async |connection| match filter {
      SessionFilter::All => sessions::list(connection, None).await,
      SessionFilter::Saved => sessions::list(connection, Some(&Item::SESSION.to_string())).await,
      SessionFilter::WithCheckpoint(id) => lists::sessions_with(connection, id).await,
    })
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    let name = || self.name_of_session(session);
    self.ask("read", &name, async |connection| {
      lists::agents(connection, session).await
    })
  }

  fn items(&self, session: &SessionId, kind: ItemKind<'_>) -> Result<Vec<ListedItem>> {
    let unsized_item = |name| ListedItem { name, size: None };
    let name = || self.name_of_session(session);
    self.ask("read", &name, async |connection| {
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
      return create_session::create_with(self, session, source);
    }
    let (name, fence) = (|| self.name_of_session(session), self.fence(session));
    self.ask("create", &name, async |connection| {
      sessions::add(connection, session, fence).await
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
      self.ask("delete", &name, async |connection| {
        sessions::remove(connection, session, fence).await
      })?;
      return Ok(Some(DeletedSession::default()));
    };
    let mut is_sent = false;
    let is_deleted = self.ask("delete", &name, async |connection| {
      let mut decide = |document: Option<Contents>| {
        let document = document.map(|document| document.within(&self.name_of(session, Item::SESSION), condition.limit));
        (condition.accepts)(document.transpose()?.as_deref())
      };
      match sessions::remove_if(connection, session, fence, condition.limit, &mut decide, &mut is_sent).await? {
        sessions::Removed::Gone => Ok(true),
        sessions::Removed::Kept => Ok(false),
        // An earlier attempt without an answer has deleted it.
        sessions::Removed::Missing => Ok(connection.is_repeat && is_sent),
      }
    })?;
    Ok(is_deleted.then(DeletedSession::default))
  }

  fn put(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let bytes = self.bytes(session, item, content)?;
    let (token, fence) = (Uuid::new_v4(), self.fence(session));
    let name = || self.name_of(session, item);
    self.ask("write", &name, async |connection| match item {
      Item::Checkpoint(agent, id, encoding) => {
        let storing = Storing {
          key: CheckpointKey::new(session, agent, id, encoding),
          fence,
          bytes: &bytes,
          options: &PutOptions::new(encoding),
          labels: None,
        };
        storing::put(connection, &storing, &[]).await.map(drop)
      }
      Item::Base(agent, id) => bases::put(connection, &BaseKey::new(session, agent, id), fence, &bytes).await,
      Item::Document(document) => {
        let replacement = self.replacement(session, vec![(document, Some(&bytes[..]))], token);
        replacing::replace(connection, &replacement, None).await
      }
      Item::Previous(..) | Item::TaskResult(_) => {
        let key = DocumentKey::new(session, item);
        replacing::put(connection, &key, fence, &bytes, token).await
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
    let storing = Storing {
      key: CheckpointKey::new(&series.session, series.agent.as_ref(), id, options.encoding),
      fence: self.fence(&series.session),
      bytes: &bytes,
      options,
      labels: None,
    };
    let name = || self.name_of(&series.session, item);
    let token = Uuid::new_v4();
    let (outcome, retention) = self.ask("write", &name, async |connection| {
      match (options.labels, &options.retention) {
        (Some(labels), _) => {
          let outcome = self.put_labelled(connection, series, &storing, labels, token).await?;
          Ok((outcome, None))
        }
        (None, Some(query)) => self.put_and_ask(connection, series, &storing, query).await,
        (None, None) => Ok((storing::put(connection, &storing, &[]).await?.0, None)),
      }
    })?;
    Ok(match outcome {
      Outcome::Stored => PutOutcome::Stored {
        size: bytes.len() as u64,
        base: options.base.map(|base| FileStamp {
          size: base.size(),
          modified: 0,
        }),
        retention,
      },
      Outcome::BaseIsGone => PutOutcome::BaseIsGone,
      Outcome::Conflict(newest) => PutOutcome::Conflict(newest),
      Outcome::Behind(newest) => PutOutcome::Behind(newest),
      Outcome::Missing => PutOutcome::Missing,
    })
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
    let documents = vec![
      (Document::Session, Some(&document[..])),
      (Document::TaskTree, Some(&tree[..])),
    ];
    let replacement = self.replacement(session, documents, Uuid::new_v4());
    let name = || self.name_of(session, Item::SESSION);
    self.ask("write", &name, async |connection| {
      replacing::replace(connection, &replacement, None).await
    })?;
    Ok(true)
  }

  /// Nothing is locked while `change` runs: if the document is no longer the one that it was given, it is called again. The checkpoints
  /// are listed after the document was read, so every checkpoint with a label in it is among them.
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
    self.ask("write", &name, async |connection| {
      let current = documents::read_current(connection, &key, token, limit).await?;
      if current.is_done {
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
        Err(error) => return Err(self.refused(connection, session, error).await),
      };
      let mut replacement = self.replacement(session, vec![(document, update.document.as_deref())], token);
      replacement.relies_on = update.relies_on.as_ref();
      replacing::replace(connection, &replacement, Some(current.seen)).await
    })
  }

  fn read_all(&self, items: &[(&SessionId, Item<'_>)], limit: u64) -> Result<Vec<ReadResult>> {
    let Some(document) = documents::same_document(items) else {
      let read = |&(session, item): &(&SessionId, Item<'_>)| self.read_item(session, item, limit);
      return Ok(items.iter().map(read).collect());
    };
    let sessions: Vec<_> = items.iter().map(|(session, _)| session.as_str()).collect();
    let name = document.to_string();
    let read = self.ask("read", &|| self.location(), async |connection| {
      documents::read_each(connection, &sessions, &name, limit).await
    })?;
    let read = items.iter().zip(read).map(|((session, item), contents)| {
      let within = |contents: Contents| contents.within(&self.name_of(session, *item), limit);
      contents.map(within).transpose()
    });
    Ok(read.collect())
  }

  /// What is not stored apart is read whole.
  fn peek(&self, of: &[(&Series, &CheckpointEntry)], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    let near = self.ask("read", &|| self.location(), async |connection| {
      lists::peek(connection, of, head, tail).await
    })?;
    let peek = |(&(series, entry), near): (&(&Series, &CheckpointEntry), _)| match near {
      None => Ok(None),
      Some(Near::Enough(peek)) => Ok(Some(peek)),
      Some(Near::TooLittle) => {
        let whole = self.read_item(&series.session, series.item_of(entry), u64::MAX)?;
        Ok(whole.map(|bytes| Peek::of(&bytes, head, tail)))
      }
    };
    Ok(of.iter().zip(near).map(peek).collect())
  }

  fn list(&self, series: &[Series], selection: Selection<'_>) -> Result<Vec<CheckpointPage>> {
    if series.len() > 1 && selection == Selection::All && series.iter().all(|series| series.agent.is_none()) {
      let sessions: Vec<_> = series.iter().map(|series| series.session.as_str()).collect();
      let lists = self.ask("read", &|| self.location(), async |connection| {
        lists::list_each(connection, &sessions).await
      })?;
      return Ok(lists.into_iter().map(CheckpointPage::all).collect());
    }
    each_series(series, |series| {
      let name = || self.name_of_session(&series.session);
      self.ask("read", &name, async |connection| {
        lists::select(connection, series, selection).await
      })
    })
  }

  fn delete(&self, session: &SessionId, item: Item<'_>, mode: DeleteMode) -> Result<bool> {
    let name = || self.name_of(session, item);
    let (token, fence, mut number) = (Uuid::new_v4(), self.fence(session), None);
    self.ask("delete", &name, async |connection| match (item, mode) {
      (Item::Checkpoint(agent, id, encoding), DeleteMode::Always) => {
        removal::remove(connection, &CheckpointKey::new(session, agent, id, encoding), fence).await
      }
      (Item::Checkpoint(agent, id, encoding), DeleteMode::UnlessKept(is_labelled)) => {
        let key = CheckpointKey::new(session, agent, id, encoding);
        let Some(is_labelled) = is_labelled else {
          return removal::remove_unless_kept(connection, &key, fence).await;
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
        removal::remove_unless_labelled(connection, &key, fence, current.seen).await
      }
      (Item::Base(agent, id), _) => bases::remove(connection, &BaseKey::new(session, agent, id), fence).await,
      _ => {
        let key = DocumentKey::new(session, item);
        clearing::remove(connection, &key, fence, token, &mut number).await
      }
    })
  }

  fn set_attribute(&self, series: &Series, id: &CheckpointId, attribute: Attribute) -> Result<bool> {
    let fence = self.fence(&series.session);
    let name = || self.name_of(&series.session, series.item(id, Encoding::Json));
    match attribute {
      Attribute::Pinned(is_pinned) => self.ask("pin", &name, async |connection| {
        checkpoints::set_pinned(connection, series, id, fence, is_pinned).await
      }),
      Attribute::MadeAt(made_at) => self.ask("set the time of", &name, async |connection| {
        checkpoints::set_made_at(connection, series, id, fence, made_at).await
      }),
    }
  }

  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>> {
    let (session, item) = (&series.session, series.item_of(entry));
    let name = || self.name_of(session, item);
    // The name says what it was; the second part keeps two of the same name apart.
    let new_name = format!("damaged/{}.{}", item.file_name(), Uuid::new_v4().simple());
    let (fence, mut stored) = (self.fence(session), None);
    let moved = self.ask("move aside", &name, async |connection| {
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
      removal::set_aside(connection, &key, fence, stored, &new_name).await
    })?;
    Ok(moved.then(|| self.name(session, &new_name)))
  }

  fn usage(&self, sessions: &[SessionId]) -> Result<Vec<Result<Usage>>> {
    let ids: Vec<_> = sessions.iter().map(SessionId::as_str).collect();
    let usages = self.ask("read", &|| self.location(), async |connection| {
      sessions::usage(connection, &ids).await
    })?;
    Ok(usages.into_iter().map(Ok).collect())
  }

  /// What the server acknowledged is durable, and it reuses space by itself.
  fn maintain(&self, task: Maintenance<'_>) -> Result<u64> {
    match task {
      Maintenance::DeleteUnusedBases(series) => {
        let (name, fence) = (|| self.name_of_session(&series.session), self.fence(&series.session));
        self.ask("clean up", &name, async |connection| {
          bases::remove_unused(connection, series, fence).await
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
    self.ask("acquire", &name, async |connection| {
      leases::acquire(connection, session, claim, last, token).await
    })
  }

  fn renew(&self, session: &SessionId, token: u64, ttl_ms: u64) -> Result<Option<Lease>> {
    let name = || self.name_of_session(session);
    self.ask("renew the lease of", &name, async |connection| {
      leases::renew(connection, session, token, ttl_ms).await
    })
  }

  fn release(&self, session: &SessionId, token: u64) -> Result<bool> {
    let (name, attempt) = (|| self.name_of_session(session), Uuid::new_v4());
    self.ask("release", &name, async |connection| {
      leases::release(connection, session, token, attempt).await
    })
  }

  fn leases(&self) -> Result<Vec<(SessionId, Lease)>> {
    self.ask("read", &|| self.location(), async |connection| {
      leases::list(connection).await
    })
  }
}

impl PostgresBackend {
  fn read_item(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
    let name = || self.name_of(session, item);
    let contents = self.ask("read", &name, async |connection| match item {
      Item::Checkpoint(agent, id, encoding) => {
        checkpoints::read(connection, &CheckpointKey::new(session, agent, id, encoding), limit).await
      }
      Item::Base(agent, id) => bases::read(connection, &BaseKey::new(session, agent, id), limit).await,
      _ => documents::read(connection, &DocumentKey::new(session, item), limit).await,
    })?;
    contents.map(|contents| contents.within(&name(), limit)).transpose()
  }

  /// Stores a checkpoint with its label, if the labels of the session are still those that `labels` was shown.
  async fn put_labelled(
    &self,
    connection: &Connection,
    series: &Series,
    storing: &Storing<'_>,
    labels: &NewLabels<'_>,
    token: Uuid,
  ) -> Result<Outcome, Failure> {
    let session = &series.session;
    let key = DocumentKey::new(session, Item::LABELS);
    let current = documents::read_current(connection, &key, token, u64::MAX).await?;
    if current.is_done {
      return Ok(Outcome::Stored);
    }
    let name = || self.name_of(session, Item::LABELS);
    let old = current.contents.map(|old| old.within(&name(), u64::MAX)).transpose()?;
    let entries = lists::list(connection, series).await?;
    let document = match labels(old, &entries) {
      Ok(document) => document,
      Err(error) => return Err(self.refused(connection, session, error).await),
    };
    let labelled = Storing {
      labels: Some(LabelsWith {
        seen: current.seen,
        document: &document,
        token,
      }),
      ..*storing
    };
    Ok(storing::put(connection, &labelled, &[]).await?.0)
  }

  /// A caller that may not write is told so, whatever else is in the way.
  async fn refused(&self, connection: &Connection, session: &SessionId, error: Error) -> Failure {
    match leases::look(connection, session, self.fence(session)).await {
      Err(Failure::Ours(refused)) => refused.into(),
      _ => error.into(),
    }
  }

  /// Stores a checkpoint, and answers what retention asks next in the same round trip, or applies it there. What follows the checkpoint
  /// in that round trip cannot take it back: without an answer, the caller asks again.
  async fn put_and_ask(
    &self,
    connection: &Connection,
    series: &Series,
    storing: &Storing<'_>,
    query: &RetentionQuery,
  ) -> Result<(Outcome, Option<RetentionAnswer>), Failure> {
    let (session, document) = (series.session.as_str(), Item::RETENTION.to_string());
    let limit = payload::to_signed(query.limit);
    let within = |contents: Contents| {
      let name = self.name_of(&series.session, Item::RETENTION);
      contents.within(&name, query.limit)
    };
    let keep = query.keep().filter(|_| !storing.key.is_delta());
    if let Some(keep) = keep {
      let keep = payload::to_signed(keep.max(1) as u64);
      let params = storing.key.under(&storing.fence, &[&keep, &document, &limit]);
      let questions: [(_, Params<'_>); 1] = [(removal::REMOVE_BEYOND, &params)];
      let (outcome, answers) = storing::put(connection, storing, &questions).await?;
      let row = answers.first().and_then(|rows| rows.as_ref()?.first());
      let removed = row.and_then(|row| removal::RemovedBeyond::read(row).ok());
      let answer = removed.map(|removed| RetentionAnswer {
        document: removed.retention.map(within).transpose(),
        list: removed.newest.map(|newest| CheckpointPage {
          newest: Some(newest),
          ..CheckpointPage::default()
        }),
      });
      return Ok((outcome, answer));
    }
    let select = RetentionSelect::new(series, query.scope);
    let questions: [(_, Params<'_>); 2] = [
      (documents::READ, &[&session, &document, &limit]),
      (select.sql(), &select.params()),
    ];
    let (outcome, answers) = storing::put(connection, storing, &questions).await?;
    let mut answer = None;
    if let [Some(retention), Some(entries)] = &answers[..]
      && let Ok(list) = select.read(entries)
      && let Ok(contents) = retention.first().map(|row| documents::contents(row, 0)).transpose()
    {
      answer = Some(RetentionAnswer {
        document: contents.flatten().map(within).transpose(),
        list: Some(list),
      });
    }
    Ok((outcome, answer))
  }

  fn replacement<'a>(
    &self,
    session: &'a SessionId,
    documents: Vec<(Document, Option<&'a [u8]>)>,
    token: Uuid,
  ) -> Replacement<'a> {
    Replacement {
      session,
      fence: self.fence(session),
      documents,
      keep: self.settings.keep_previous,
      token,
      relies_on: None,
    }
  }
}
