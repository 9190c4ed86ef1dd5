//! The operations of a place, on a server.

use uuid::Uuid;

use super::connection::{Connection, Params};
use super::contents::Contents;
use super::failure::Failure;
use super::lists::Near;
use super::lists::SurplusQuery;
use super::replacing::{self, Replacement};
use super::storing::{self, LabelsWith, Outcome, Storing};
use super::{
  PostgresBackend, checkpoints, clearing, create_session, documents, keys, leases, lists, payload, removal, schema,
  sessions,
};
use crate::backend::{
  Acquired, Backend, Change, CheckpointEntry, CheckpointWrite, Claim, Condition, Content, DeletedSession, Document,
  Encoding, Fences, FileStamp, IsLabelled, Item, ItemSource, LabelsChange, LabelsUpdate, Lease, NewLabels, Page, Peek,
  PeekResult, Precondition, PutOutcome, ReadResult, RetentionAnswer, RetentionList, RetentionQuery, RetentionScope,
  Series, Usage,
};
use crate::types::error::{Code, Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId, TaskId};

impl Backend for PostgresBackend {
  fn location(&self) -> String {
    self.target.location()
  }

  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String {
    self.name(session, &item.to_string())
  }

  fn initialize(&self) -> Result<()> {
    schema::ensure(self)
  }

  fn rest(&self) -> Result<()> {
    drop(self.pool.retain(|_, _| false));
    Ok(())
  }

  fn create_session(&self, session: &SessionId) -> Result<()> {
    let (name, fence) = (|| self.name_of_session(session), self.fence(session));
    self.ask("create", &name, async |connection| {
      sessions::add(connection, session, fence).await
    })
  }

  fn sessions(&self) -> Result<Vec<SessionId>> {
    let document = Item::SESSION.to_string();
    self.ask("read", &|| self.location(), async |connection| {
      sessions::list(connection, Some(&document)).await
    })
  }

  fn places(&self) -> Result<Vec<SessionId>> {
    self.ask("read", &|| self.location(), async |connection| {
      sessions::list(connection, None).await
    })
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    let name = || self.name_of_session(session);
    self.ask("read", &name, async |connection| {
      lists::agents(connection, session).await
    })
  }

  fn delete_session(&self, session: &SessionId) -> Result<Option<Error>> {
    let (name, fence) = (|| self.name_of_session(session), self.fence(session));
    self.ask("delete", &name, async |connection| {
      sessions::remove(connection, session, fence).await
    })?;
    // The server uses the space again, after its next vacuum.
    Ok(None)
  }

  fn delete_session_if(
    &self,
    session: &SessionId,
    limit: u64,
    condition: &mut Condition<'_>,
  ) -> Result<Option<DeletedSession>> {
    let (name, fence) = (|| self.name_of_session(session), self.fence(session));
    let mut is_sent = false;
    let is_deleted = self.ask("delete", &name, async |connection| {
      let mut decide = |document: Option<Contents>| {
        let document = document.map(|document| document.within(&self.name_of(session, Item::SESSION), limit));
        condition(document.transpose()?.as_deref())
      };
      match sessions::remove_if(connection, session, fence, limit, &mut decide, &mut is_sent).await? {
        sessions::Removed::Gone => Ok(true),
        sessions::Removed::Kept => Ok(false),
        // An earlier attempt without an answer has deleted it.
        sessions::Removed::Missing => Ok(connection.is_repeat && is_sent),
      }
    })?;
    Ok(is_deleted.then_some(DeletedSession { left: None }))
  }

  fn found(&self, session: &SessionId, supply: &mut ItemSource<'_>) -> Result<bool> {
    create_session::found(self, session, supply)
  }

  fn write(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let bytes = self.bytes(session, item, content)?;
    let (token, fence) = (Uuid::new_v4(), self.fence(session));
    let name = || self.name_of(session, item);
    self.ask("write", &name, async |connection| match item {
      Item::Checkpoint(agent, id, encoding) => {
        let storing = Storing {
          key: checkpoints::Key::new(session, agent, id, encoding),
          fence,
          bytes: &bytes,
          footing: None,
          precondition: &Precondition::None,
          labels: None,
        };
        storing::put(connection, &storing, &[]).await.map(drop)
      }
      Item::Key(agent, id) => keys::put(connection, &keys::Key::new(session, agent, id), fence, &bytes).await,
      Item::Document(document) => {
        let replacement = self.replacement(session, vec![(document, Some(&bytes[..]))], token);
        replacing::replace(connection, &replacement, None).await
      }
      Item::Previous(..) | Item::TaskResult(_) => {
        let key = documents::Key::new(session, item);
        replacing::put(connection, &key, fence, &bytes, token).await
      }
    })?;
    Ok(bytes.len() as u64)
  }

  fn write_checkpoint(&self, series: &Series, id: &CheckpointId, new: CheckpointWrite<'_>) -> Result<PutOutcome> {
    let item = series.item(id, new.encoding);
    let bytes = self.bytes(&series.session, item, new.content)?;
    let storing = Storing {
      key: checkpoints::Key::new(&series.session, series.agent.as_ref(), id, new.encoding),
      fence: self.fence(&series.session),
      bytes: &bytes,
      footing: new.footing.as_ref(),
      precondition: new.precondition,
      labels: None,
    };
    let name = || self.name_of(&series.session, item);
    let token = Uuid::new_v4();
    let outcome = self.ask("write", &name, async |connection| match (new.labels, new.question) {
      (Some(labels), _) => self.put_labelled(connection, series, &storing, labels, token).await,
      (None, Some(question)) => self.put_and_ask(connection, series, &storing, question).await,
      (None, None) => Ok(storing::put(connection, &storing, &[]).await?.0),
    })?;
    let look = |size| FileStamp { size, modified: 0 };
    Ok(match outcome {
      Outcome::Stored => PutOutcome::Stored {
        size: bytes.len() as u64,
        key: new.footing.map(|footing| look(footing.bytes())),
      },
      Outcome::KeyIsGone => PutOutcome::KeyIsGone,
      Outcome::Conflict(newest) => PutOutcome::Conflict(newest),
      Outcome::Behind(newest) => PutOutcome::Behind(newest),
      Outcome::Missing => PutOutcome::Missing,
    })
  }

  fn keys(&self, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
    let name = || self.name_of_session(&series.session);
    self.ask("read", &name, async |connection| keys::list(connection, series).await)
  }

  fn remove_unused_keys(&self, series: &Series) -> Result<u64> {
    let (name, fence) = (|| self.name_of_session(&series.session), self.fence(&series.session));
    self.ask("clean up", &name, async |connection| {
      keys::remove_unused(connection, series, fence).await
    })
  }

  fn write_state(&self, session: &SessionId, session_document: &dyn Content, task_tree: &dyn Content) -> Result<()> {
    let document = self.bytes(session, Item::SESSION, session_document)?;
    let tree = self.bytes(session, Item::TASK_TREE, task_tree)?;
    let documents = vec![
      (Document::Session, Some(&document[..])),
      (Document::TaskTree, Some(&tree[..])),
    ];
    let replacement = self.replacement(session, documents, Uuid::new_v4());
    let name = || self.name_of(session, Item::SESSION);
    self.ask("write", &name, async |connection| {
      replacing::replace(connection, &replacement, None).await
    })
  }

  fn update(&self, session: &SessionId, document: Document, limit: u64, change: &mut Change<'_>) -> Result<()> {
    self.update_with(session, document, limit, &mut |old, _| {
      Ok(change(old)?.map(|document| LabelsUpdate {
        document: Some(document),
        relies_on: None,
      }))
    })
  }

  fn update_labels(&self, session: &SessionId, limit: u64, change: &mut LabelsChange<'_>) -> Result<()> {
    self.update_with(session, Document::Labels, limit, change)
  }

  fn read(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
    let name = || self.name_of(session, item);
    let contents = self.ask("read", &name, async |connection| match item {
      Item::Checkpoint(agent, id, encoding) => {
        checkpoints::read(connection, &checkpoints::Key::new(session, agent, id, encoding), limit).await
      }
      Item::Key(agent, id) => keys::read(connection, &keys::Key::new(session, agent, id), limit).await,
      _ => documents::read(connection, &documents::Key::new(session, item), limit).await,
    })?;
    contents.map(|contents| contents.within(&name(), limit)).transpose()
  }

  fn peek(&self, series: &Series, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    let name = || self.name_of_session(&series.session);
    let wanted: Vec<_> = entries.iter().map(|entry| (series, entry)).collect();
    self.peek_all(&name, &wanted, head, tail)
  }

  fn versions(&self, session: &SessionId, document: Document) -> Result<u32> {
    let name = || self.name_of(session, Item::Document(document));
    self.ask("read", &name, async |connection| {
      documents::versions(connection, session, document).await
    })
  }

  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<bool> {
    let name = || self.name_of(session, item);
    let (token, fence, mut number) = (Uuid::new_v4(), self.fence(session), None);
    self.ask("delete", &name, async |connection| match item {
      Item::Checkpoint(agent, id, encoding) => {
        removal::remove(connection, &checkpoints::Key::new(session, agent, id, encoding), fence).await
      }
      Item::Key(agent, id) => keys::remove(connection, &keys::Key::new(session, agent, id), fence).await,
      _ => {
        clearing::remove(
          connection,
          &documents::Key::new(session, item),
          fence,
          token,
          &mut number,
        )
        .await
      }
    })
  }

  fn retire(&self, series: &Series, entry: &CheckpointEntry, spare: Option<IsLabelled>) -> Result<bool> {
    let fence = self.fence(&series.session);
    let name = || self.name_of(&series.session, series.item_of(entry));
    let labels = documents::Key::new(&series.session, Item::LABELS);
    self.ask("delete", &name, async |connection| {
      let key = checkpoints::Key::of(series, entry);
      let Some(is_labelled) = spare else {
        return removal::retire(connection, &key, fence).await;
      };
      let current = documents::read_current(connection, &labels, Uuid::new_v4(), u64::MAX).await?;
      let labels = current
        .contents
        .map(|labels| labels.within(&name(), u64::MAX))
        .transpose()?;
      if labels.is_some_and(|labels| is_labelled(&labels, &entry.id)) {
        return Ok(false);
      }
      removal::retire_unlabelled(connection, &key, fence, current.seen).await
    })
  }

  /// What the server answered is as durable as anything else that it did.
  fn confirm_retired(&self, _series: &Series) -> Result<()> {
    Ok(())
  }

  fn set_made_at(&self, series: &Series, entry: &CheckpointEntry) -> Result<()> {
    let fence = self.fence(&series.session);
    let name = || self.name_of(&series.session, series.item_of(entry));
    self.ask("set the time of", &name, async |connection| {
      checkpoints::set_made_at(connection, &checkpoints::Key::of(series, entry), fence, entry.made_at).await
    })
  }

  fn set_pinned(&self, series: &Series, id: &CheckpointId, is_pinned: bool) -> Result<bool> {
    let fence = self.fence(&series.session);
    let name = || self.name_of(&series.session, series.item(id, Encoding::Json));
    self.ask("pin", &name, async |connection| {
      checkpoints::set_pinned(connection, series, id, fence, is_pinned).await
    })
  }

  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>> {
    let (session, item) = (&series.session, series.item_of(entry));
    let name = || self.name_of(session, item);
    // The name says what it was; the second part keeps two of the same name apart.
    let new_name = format!("damaged/{}.{}", item.file_name(), Uuid::new_v4().simple());
    let (fence, mut stored) = (self.fence(session), None);
    let moved = self.ask("move aside", &name, async |connection| {
      let key = checkpoints::Key::of(series, entry);
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

  fn checkpoints(&self, series: &Series) -> Result<Vec<CheckpointEntry>> {
    let name = || self.name_of_session(&series.session);
    self.ask("read", &name, async |connection| lists::list(connection, series).await)
  }

  fn find(&self, series: &Series, id: &CheckpointId) -> Result<Option<CheckpointEntry>> {
    let name = || self.name_of_session(&series.session);
    self.ask("read", &name, async |connection| {
      lists::find(connection, series, id).await
    })
  }

  fn page(&self, series: &Series, after: Option<&CheckpointEntry>, limit: usize) -> Result<Page> {
    let name = || self.name_of_session(&series.session);
    self.ask("read", &name, async |connection| {
      lists::page(connection, series, after, limit).await
    })
  }

  fn surplus(&self, series: &Series, wanted: RetentionScope) -> Result<RetentionList> {
    let name = || self.name_of_session(&series.session);
    self.ask("read", &name, async |connection| {
      lists::surplus(connection, series, wanted).await
    })
  }

  fn results(&self, session: &SessionId) -> Result<Vec<TaskId>> {
    let name = || self.name_of_session(session);
    self.ask("read", &name, async |connection| {
      documents::results(connection, session).await
    })
  }

  fn sessions_with_checkpoint(&self, id: &CheckpointId) -> Result<Vec<SessionId>> {
    self.ask("read", &|| self.location(), async |connection| {
      lists::sessions_with(connection, id).await
    })
  }

  fn usage(&self, session: &SessionId) -> Result<Usage> {
    let name = || self.name_of_session(session);
    let mut usages = self.ask("read", &name, async |connection| {
      sessions::usage(connection, &[session.as_str()]).await
    })?;
    Ok(usages.pop().unwrap_or_default())
  }

  fn read_each(&self, sessions: &[SessionId], document: Document, limit: u64) -> Result<Vec<ReadResult>> {
    let item = Item::Document(document);
    let (ids, document) = (texts(sessions), item.to_string());
    let read = self.ask("read", &|| self.location(), async |connection| {
      documents::read_each(connection, &ids, &document, limit).await
    })?;
    let read = sessions.iter().zip(read).map(|(session, contents)| {
      let within = |contents: Contents| contents.within(&self.name_of(session, item), limit);
      contents.map(within).transpose()
    });
    Ok(read.collect())
  }

  fn usage_each(&self, sessions: &[SessionId]) -> Result<Vec<Result<Usage>>> {
    let ids = texts(sessions);
    let usages = self.ask("read", &|| self.location(), async |connection| {
      sessions::usage(connection, &ids).await
    })?;
    Ok(usages.into_iter().map(Ok).collect())
  }

  fn checkpoints_each(&self, sessions: &[SessionId]) -> Result<Vec<Vec<CheckpointEntry>>> {
    let ids = texts(sessions);
    self.ask("read", &|| self.location(), async |connection| {
      lists::list_each(connection, &ids).await
    })
  }

  fn peek_each(&self, of: &[(Series, CheckpointEntry)], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    let wanted: Vec<_> = of.iter().map(|(series, entry)| (series, entry)).collect();
    self.peek_all(&|| self.location(), &wanted, head, tail)
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

  fn renew(&self, session: &SessionId, number: u64, ttl_ms: u64) -> Result<Option<Lease>> {
    let name = || self.name_of_session(session);
    self.ask("renew the lease of", &name, async |connection| {
      leases::renew(connection, session, number, ttl_ms).await
    })
  }

  fn release(&self, session: &SessionId, number: u64) -> Result<bool> {
    let (name, token) = (|| self.name_of_session(session), Uuid::new_v4());
    self.ask("release", &name, async |connection| {
      leases::release(connection, session, number, token).await
    })
  }

  fn leases(&self) -> Result<Vec<(SessionId, Lease)>> {
    self.ask("read", &|| self.location(), async |connection| {
      leases::list(connection).await
    })
  }
}

fn texts(sessions: &[SessionId]) -> Vec<&str> {
  sessions.iter().map(SessionId::as_str).collect()
}

impl PostgresBackend {
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
    let key = documents::Key::new(session, Item::LABELS);
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

  /// Stores a checkpoint, removes what does not stay with it, and brings the answer to what is asked next along. What comes behind the
  /// checkpoint in the same journey cannot take it back: without an answer, it is asked again.
  async fn put_and_ask(
    &self,
    connection: &Connection,
    series: &Series,
    storing: &Storing<'_>,
    question: &RetentionQuery,
  ) -> Result<Outcome, Failure> {
    let (session, document) = (series.session.as_str(), Item::RETENTION.to_string());
    let limit = payload::to_signed(question.limit);
    let within = |contents: Contents| {
      let name = self.name_of(&series.session, Item::RETENTION);
      contents.within(&name, question.limit)
    };
    let keep = question.keep().filter(|_| !storing.key.is_delta());
    if let Some(keep) = keep {
      let keep = payload::to_signed(keep.max(1) as u64);
      let retiring = storing.key.under(&storing.fence, &[&keep, &document, &limit]);
      let questions: [(_, Params<'_>); 1] = [(removal::RETIRE_BEYOND, &retiring)];
      let (outcome, answers) = storing::put(connection, storing, &questions).await?;
      let row = answers.first().and_then(|rows| rows.as_ref()?.first());
      if let Some(Ok(retired)) = row.map(removal::Retired::read) {
        question.answer(RetentionAnswer {
          retention: retired.retention.map(within).transpose(),
          surplus: retired.newest.map(|newest| RetentionList {
            newest: Some(newest),
            ..RetentionList::default()
          }),
        });
      }
      return Ok(outcome);
    }
    let surplus = SurplusQuery::new(series, question.wanted);
    let questions: [(_, Params<'_>); 2] = [
      (documents::READ, &[&session, &document, &limit]),
      (surplus.sql(), &surplus.params()),
    ];
    let (outcome, answers) = storing::put(connection, storing, &questions).await?;
    if let [Some(retention), Some(entries)] = &answers[..]
      && let Ok(surplus) = surplus.read(entries)
      && let Ok(contents) = retention.first().map(|row| documents::contents(row, 0)).transpose()
    {
      question.answer(RetentionAnswer {
        retention: contents.flatten().map(within).transpose(),
        surplus: Some(surplus),
      });
    }
    Ok(outcome)
  }

  /// What is not stored apart is read whole.
  fn peek_all(
    &self,
    name: &dyn Fn() -> String,
    wanted: &[(&Series, &CheckpointEntry)],
    head: usize,
    tail: usize,
  ) -> Result<Vec<PeekResult>> {
    let near = self.ask("read", name, async |connection| {
      lists::peek(connection, wanted, head, tail).await
    })?;
    let peek = |(&(series, entry), near): (&(&Series, &CheckpointEntry), _)| match near {
      None => Ok(None),
      Some(Near::Enough(peek)) => Ok(Some(peek)),
      Some(Near::TooLittle) => {
        let whole = self.read(&series.session, series.item_of(entry), u64::MAX)?;
        Ok(whole.map(|bytes| Peek::of(&bytes, head, tail)))
      }
    };
    Ok(wanted.iter().zip(near).map(peek).collect())
  }

  /// Replaces a document. Nothing is locked while `change` runs: if the document is not the one that it was shown, it is asked
  /// again. The checkpoints are listed after the document was read, so whatever has a label in it is listed too; they are
  /// needed for labels only.
  fn update_with(
    &self,
    session: &SessionId,
    document: Document,
    limit: u64,
    change: &mut LabelsChange<'_>,
  ) -> Result<()> {
    let item = Item::Document(document);
    let key = documents::Key::new(session, item);
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
