//! The trait, for a store in memory.

use super::MemoryBackend;
use super::checkpoints::StoredSeries;
use super::sessions::StoredSession;
use crate::backend::ext::each_series;
use crate::backend::item::RESULTS;
use crate::backend::{
  Acquired, Attribute, Backend, CheckpointEntry, CheckpointPage, Claim, Content, DeleteCondition, DeleteMode,
  DeletedSession, Document, DocumentChange, Fences, FileStamp, Item, ItemKind, ItemName, ItemSource, Lease, ListedItem,
  Maintenance, Peek, PeekResult, Precondition, PutOptions, PutOutcome, ReadResult, Selection, Series, SessionFilter,
  Usage,
};
use crate::types::error::Result;
use crate::types::id::{AgentId, CheckpointId, SessionId, TaskId};
use crate::types::time::Timestamp;

impl Backend for MemoryBackend {
  fn location(&self) -> String {
    "memory:".to_owned()
  }

  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String {
    format!("memory:{session}/{item}")
  }

  fn open(&self) -> Result<()> {
    Ok(())
  }

  fn close(&self) -> Result<()> {
    Ok(())
  }

  fn sessions(&self, filter: SessionFilter<'_>) -> Result<Vec<SessionId>> {
    let session_document = Item::SESSION.to_string();
    let is_selected = |stored: &StoredSession| match filter {
      SessionFilter::All => true,
      SessionFilter::Saved => stored.documents.contains_key(&session_document),
      SessionFilter::WithCheckpoint(id) => stored
        .series(None)
        .is_some_and(|stored_series| stored_series.checkpoints.contains_key(id)),
    };
    let sessions = self.sessions.lock();
    let selected = sessions.iter().filter(|(_, stored)| is_selected(stored));
    Ok(selected.map(|(id, _)| id.clone()).collect())
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    let sessions = self.sessions.lock();
    let all = sessions.get(session).into_iter().flat_map(|stored| &stored.series);
    let with_checkpoints = all.filter(|(_, stored_series)| !stored_series.checkpoints.is_empty());
    Ok(with_checkpoints.filter_map(|(agent, _)| agent.clone()).collect())
  }

  fn items(&self, session: &SessionId, kind: ItemKind<'_>) -> Result<Vec<ListedItem>> {
    let sessions = self.sessions.lock();
    let Some(stored) = sessions.get(session) else {
      return Ok(Vec::new());
    };
    let unsized_item = |name| ListedItem { name, size: None };
    match kind {
      ItemKind::TaskResults => {
        let names = stored.documents.keys();
        let ids = names.filter_map(|name| name.strip_prefix(RESULTS)?.strip_prefix('/')?.strip_suffix(".json"));
        ids
          .map(|id| Ok(unsized_item(ItemName::TaskResult(TaskId::parse(id)?))))
          .collect()
      }
      ItemKind::Previous(document) => {
        let versions = (1..).take_while(|back| stored.get(Item::Previous(document, *back)).is_some());
        Ok(
          versions
            .map(|back| unsized_item(ItemName::Previous(document, back)))
            .collect(),
        )
      }
      ItemKind::Bases(agent) => {
        let bases = stored
          .series(agent)
          .into_iter()
          .flat_map(|stored_series| &stored_series.bases);
        let listed = bases.map(|(id, bytes)| ListedItem {
          name: ItemName::Base(agent.cloned(), id.clone()),
          size: Some(bytes.len() as u64),
        });
        Ok(listed.collect())
      }
    }
  }

  fn create_session(&self, session: &SessionId, source: Option<&mut ItemSource<'_>>) -> Result<bool> {
    let Some(source) = source else {
      self.lock_for_write(session)?.entry(session.clone()).or_default();
      return Ok(true);
    };
    let mut stored = StoredSession::default();
    source(&mut |new| {
      let bytes = self.bytes(session, new.item, new.content)?;
      stored.put(new.item, bytes);
      if let Item::Checkpoint(agent, id, _) = new.item {
        stored.series_mut(agent).change(id, |checkpoint| {
          checkpoint.made_at = new.made_at.unwrap_or(checkpoint.made_at);
          checkpoint.is_pinned |= new.is_pinned;
        });
      }
      Ok(())
    })?;
    let mut sessions = self.lock_for_write(session)?;
    let is_new = sessions.get(session).is_none_or(StoredSession::is_empty);
    if is_new {
      sessions.insert(session.clone(), stored);
    }
    Ok(is_new)
  }

  fn delete_session(
    &self,
    session: &SessionId,
    condition: Option<DeleteCondition<'_>>,
  ) -> Result<Option<DeletedSession>> {
    let mut sessions = self.sessions.lock();
    if let Some(condition) = condition {
      self.check_lease(session)?;
      let document = sessions.get(session).and_then(|stored| stored.get(Item::SESSION));
      self.check_size(session, Item::SESSION, document, condition.limit)?;
      if !(condition.accepts)(document.map(Vec::as_slice))? {
        return Ok(None);
      }
    }
    self.admit_write(session)?;
    sessions.remove(session);
    Ok(Some(DeletedSession::default()))
  }

  fn put(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let bytes = self.bytes(session, item, content)?;
    let size = bytes.len() as u64;
    let mut sessions = self.lock_for_write(session)?;
    let stored = sessions.entry(session.clone()).or_default();
    match item {
      Item::Document(document) => stored.replace(document, bytes, self.keep_previous),
      _ => stored.put(item, bytes),
    }
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
    let mut sessions = self.sessions.lock();
    self.check_lease(&series.session)?;
    let stored = sessions.get(&series.session);
    let is_new_session = stored.is_none();
    let stored_series = stored.and_then(|stored| stored.series(series.agent.as_ref()));
    let newest_first = || stored_series.into_iter().flat_map(StoredSeries::newest_first);
    let refusal = match &options.precondition {
      Precondition::None => None,
      Precondition::Exists => {
        let exists = stored_series.is_some_and(|stored_series| stored_series.checkpoints.contains_key(id));
        (!exists).then_some(PutOutcome::Missing)
      }
      Precondition::Newest(newest) => {
        let entry = CheckpointEntry::new(id.clone(), options.encoding, Timestamp::now);
        newest.refusal(&entry, &mut newest_first())
      }
    };
    if let Some(refusal) = refusal {
      return Ok(refusal);
    }
    let labels = match options.labels {
      Some(labels) => {
        let old = stored.and_then(|stored| stored.get(Item::LABELS)).cloned();
        Some(labels(old, &newest_first().collect::<Vec<_>>())?)
      }
      None => None,
    };
    let stored = sessions.entry(series.session.clone()).or_default();
    let stored_series = stored.series_mut(series.agent.as_ref());
    let base = options.base.map(|base| stored_series.extend_base(base));
    if base == Some(None) {
      if is_new_session {
        sessions.remove(&series.session);
      }
      return Ok(PutOutcome::BaseIsGone);
    }
    let base = base.flatten().map(|size| FileStamp { size, modified: 0 });
    self.admit_write(&series.session)?;
    stored_series.put(id, options.encoding, bytes);
    if let Some(labels) = labels {
      stored.put(Item::LABELS, labels);
    }
    Ok(PutOutcome::Stored {
      size,
      base,
      retention: None,
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
    let mut sessions = self.lock_for_write(session)?;
    let stored = sessions.entry(session.clone()).or_default();
    stored.replace(Document::Session, document, self.keep_previous);
    stored.replace(Document::TaskTree, tree, self.keep_previous);
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
    let mut sessions = self.sessions.lock();
    self.check_lease(session)?;
    let stored = sessions.get(session);
    let old = stored.and_then(|stored| stored.get(item));
    self.check_size(session, item, old, limit)?;
    let old = old.cloned();
    let stored_series = stored.and_then(|stored| stored.series(None));
    let entries: Vec<_> = match document {
      Document::Labels => stored_series.into_iter().flat_map(StoredSeries::newest_first).collect(),
      _ => Vec::new(),
    };
    if let Some(update) = change(old, &entries)? {
      self.admit_write(session)?;
      let stored = sessions.entry(session.clone()).or_default();
      match update.document {
        Some(bytes) => stored.replace(document, bytes, self.keep_previous),
        None => drop(stored.take(item)),
      }
    }
    Ok(())
  }

  fn read_all(&self, items: &[(&SessionId, Item<'_>)], limit: u64) -> Result<Vec<ReadResult>> {
    let sessions = self.sessions.lock();
    let read = |&(session, item): &(&SessionId, Item<'_>)| {
      let bytes = sessions.get(session).and_then(|stored| stored.get(item));
      self.check_size(session, item, bytes, limit)?;
      Ok(bytes.cloned())
    };
    Ok(items.iter().map(read).collect())
  }

  fn peek(&self, checkpoints: &[(&Series, &CheckpointEntry)], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    let sessions = self.sessions.lock();
    let peek = |&(series, entry): &(&Series, &CheckpointEntry)| {
      let stored = sessions.get(&series.session);
      let bytes = stored.and_then(|stored| stored.get(series.item_of(entry)));
      Ok(bytes.map(|bytes| Peek::of(bytes, head, tail)))
    };
    Ok(checkpoints.iter().map(peek).collect())
  }

  fn list(&self, series: &[Series], selection: Selection<'_>) -> Result<Vec<CheckpointPage>> {
    let sessions = self.sessions.lock();
    each_series(series, |series| {
      let stored = sessions.get(&series.session);
      let stored_series = stored.and_then(|stored| stored.series(series.agent.as_ref()));
      Ok(
        stored_series
          .map(|stored_series| stored_series.select(selection))
          .unwrap_or_default(),
      )
    })
  }

  fn delete(&self, session: &SessionId, item: Item<'_>, mode: DeleteMode) -> Result<bool> {
    let mut sessions = self.sessions.lock();
    self.check_lease(session)?;
    let Some(stored) = sessions.get_mut(session) else {
      return Ok(false);
    };
    if let (DeleteMode::UnlessKept(is_labelled), Item::Checkpoint(agent, id, _)) = (mode, item) {
      let labels = stored.get(Item::LABELS);
      let has_label = is_labelled
        .zip(labels)
        .is_some_and(|(is_labelled, labels)| is_labelled(labels, id));
      if has_label || stored.series_mut(agent).is_kept(id) {
        return Ok(false);
      }
    }
    let is_deleted = stored.delete(item);
    if is_deleted {
      self.admit_write(session)?;
    }
    Ok(is_deleted)
  }

  fn set_attribute(&self, series: &Series, id: &CheckpointId, attribute: Attribute) -> Result<bool> {
    let mut sessions = self.lock_for_write(&series.session)?;
    let Some(stored) = sessions.get_mut(&series.session) else {
      return Ok(false);
    };
    let stored_series = stored.series_mut(series.agent.as_ref());
    Ok(stored_series.change(id, |checkpoint| match attribute {
      Attribute::Pinned(is_pinned) => checkpoint.is_pinned = is_pinned,
      Attribute::MadeAt(made_at) => checkpoint.made_at = made_at,
    }))
  }

  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>> {
    let (session, item) = (&series.session, series.item_of(entry));
    let mut sessions = self.lock_for_write(session)?;
    let Some(stored) = sessions.get_mut(session) else {
      return Ok(None);
    };
    let is_judged = stored.get(item).is_some_and(|bytes| Some(&**bytes) == judged);
    let Some(bytes) = is_judged.then(|| stored.take(item)).flatten() else {
      return Ok(None);
    };
    let name = format!("damaged/{}.{}", item, stored.damaged.len());
    stored.damaged.push(bytes);
    Ok(Some(format!("memory:{session}/{name}")))
  }

  fn usage(&self, sessions: &[SessionId]) -> Result<Vec<Result<Usage>>> {
    let stored = self.sessions.lock();
    let usage = |session| Ok(stored.get(session).map(StoredSession::usage).unwrap_or_default());
    Ok(sessions.iter().map(usage).collect())
  }

  fn maintain(&self, task: Maintenance<'_>) -> Result<u64> {
    let Maintenance::DeleteUnusedBases(series) = task else {
      return Ok(0);
    };
    let mut sessions = self.sessions.lock();
    let Some(stored) = sessions.get_mut(&series.session) else {
      return Ok(0);
    };
    let stored_series = stored.series_mut(series.agent.as_ref());
    let unused = stored_series.unused_bases();
    if !unused.is_empty() {
      self.admit_write(&series.session)?;
    }
    let removed = unused.iter().filter_map(|id| stored_series.bases.remove(id));
    Ok(removed.map(|bytes| bytes.len() as u64).sum())
  }

  fn fences(&self) -> &Fences {
    &self.fences
  }

  fn acquire(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired> {
    Ok(self.acquire_lease(session, claim))
  }

  fn renew(&self, session: &SessionId, token: u64, ttl_ms: u64) -> Result<Option<Lease>> {
    Ok(self.renew_lease(session, token, ttl_ms))
  }

  fn release(&self, session: &SessionId, token: u64) -> Result<bool> {
    Ok(self.release_lease(session, token))
  }

  fn leases(&self) -> Result<Vec<(SessionId, Lease)>> {
    Ok(self.held_leases())
  }
}
