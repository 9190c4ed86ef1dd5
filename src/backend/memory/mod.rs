//! A store that lives and dies with the process: for tests and caches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::item::RESULTS;
use super::lease::{self, Record};
use super::{
  Acquired, Backend, BaseRef, Change, CheckpointEntry, CheckpointWrite, Claim, Condition, Content, DeletedSession,
  Document, Encoding, Fences, FileStamp, IsLabelled, Item, ItemSource, KeyMerge, LabelsChange, Lease, Page, Peek,
  PeekResult, Precondition, PutOutcome, RetentionList, RetentionScope, Series, Usage, time_in_id,
};
use crate::codec::delta::Reference;
use crate::types::error::{Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId, TaskId};
use crate::types::time::now_ms;

#[derive(Debug, Default)]
pub struct MemoryBackend {
  keep_previous: u32,
  sessions: Mutex<BTreeMap<SessionId, Contents>>,
  /// Those of sessions that are gone too: they are small, and go with the process.
  leases: Mutex<BTreeMap<SessionId, Record>>,
  fences: Fences,
}

#[derive(Debug, Default)]
struct Contents {
  /// Items other than checkpoints and keys, by their names.
  documents: BTreeMap<String, Vec<u8>>,
  /// Checkpoints and what deltas are based on: the session's own, and those of its agents.
  rows: BTreeMap<Option<AgentId>, Row>,
  damaged: Vec<Vec<u8>>,
}

/// The checkpoints of one series. Each id is there once, so storing and removing one costs the same however many there are.
#[derive(Debug, Default)]
struct Row {
  checkpoints: HashMap<CheckpointId, StoredCheckpoint>,
  /// All of them, oldest first.
  order: BTreeSet<OrderKey>,
  /// Those that retention may remove, oldest first.
  unpinned: BTreeSet<OrderKey>,
  keys: BTreeMap<CheckpointId, Vec<u8>>,
  /// How many deltas need a key.
  users: HashMap<CheckpointId, usize>,
}

/// Where a checkpoint stands in the order of its series.
type OrderKey = (u64, CheckpointId);

#[derive(Debug)]
struct StoredCheckpoint {
  encoding: Encoding,
  bytes: Vec<u8>,
  made_at: u64,
  is_pinned: bool,
  /// The key that a delta is based on.
  key: Option<CheckpointId>,
}

impl Row {
  fn entry(&self, id: &CheckpointId) -> Option<CheckpointEntry> {
    let stored = self.checkpoints.get(id)?;
    Some(CheckpointEntry {
      id: id.clone(),
      encoding: stored.encoding,
      made_at: stored.made_at,
      is_pinned: stored.is_pinned,
    })
  }

  fn newest_first(&self) -> impl Iterator<Item = CheckpointEntry> {
    self.order.iter().rev().filter_map(|(_, id)| self.entry(id))
  }

  /// Stores a checkpoint, in place of the same in any encoding, and removes the key that nothing is based on any more.
  fn put(&mut self, id: &CheckpointId, encoding: Encoding, bytes: Vec<u8>) {
    let key = (encoding == Encoding::Delta).then(|| Reference::of(&bytes)).flatten();
    let key = key.map(|reference| reference.key);
    if let Some(key) = &key {
      *self.users.entry(key.clone()).or_default() += 1;
    }
    let old = self.take(id);
    // One that is replaced keeps its place in the order.
    let made_at = time_in_id(id.as_str()).or_else(|| old.as_ref().map(|old| old.made_at));
    let stored = StoredCheckpoint {
      encoding,
      bytes,
      made_at: made_at.unwrap_or_else(now_ms),
      is_pinned: old.as_ref().is_some_and(|old| old.is_pinned),
      key,
    };
    self.insert(id.clone(), stored);
    self.release(old.and_then(|old| old.key));
  }

  fn insert(&mut self, id: CheckpointId, stored: StoredCheckpoint) {
    let place = (stored.made_at, id.clone());
    if !stored.is_pinned {
      self.unpinned.insert(place.clone());
    }
    self.order.insert(place);
    self.checkpoints.insert(id, stored);
  }

  /// Removes a checkpoint; its key stays.
  fn take(&mut self, id: &CheckpointId) -> Option<StoredCheckpoint> {
    let stored = self.checkpoints.remove(id)?;
    let place = (stored.made_at, id.clone());
    self.order.remove(&place);
    self.unpinned.remove(&place);
    if let Some(key) = &stored.key
      && let Some(users) = self.users.get_mut(key)
    {
      *users -= 1;
      if *users == 0 {
        self.users.remove(key);
      }
    }
    Some(stored)
  }

  /// Removes a checkpoint, and its key if nothing else is based on it.
  fn remove(&mut self, id: &CheckpointId) -> Option<Vec<u8>> {
    let stored = self.take(id)?;
    self.release(stored.key);
    Some(stored.bytes)
  }

  fn release(&mut self, key: Option<CheckpointId>) {
    if let Some(key) = key
      && !self.users.contains_key(&key)
    {
      self.keys.remove(&key);
    }
  }

  /// Changes what is known of a checkpoint beside its bytes, and says whether it is there.
  fn change(&mut self, id: &CheckpointId, change: impl FnOnce(&mut StoredCheckpoint)) -> bool {
    let Some(mut stored) = self.checkpoints.remove(id) else {
      return false;
    };
    let place = (stored.made_at, id.clone());
    self.order.remove(&place);
    self.unpinned.remove(&place);
    change(&mut stored);
    self.insert(id.clone(), stored);
    true
  }

  /// Makes or extends a key, and says how long it is then; `None` if it is not what the delta needs.
  fn extend_key(&mut self, footing: BaseRef<'_>) -> Option<u64> {
    if footing.known == 0 {
      let present = self.keys.get(footing.key).map(Vec::as_slice);
      match KeyMerge::of(footing.added, present) {
        KeyMerge::Write => drop(self.keys.insert(footing.key.clone(), footing.added.to_vec())),
        KeyMerge::Keep => {}
        KeyMerge::Refuse => return None,
      }
    }
    let known = usize::try_from(footing.known).unwrap_or(usize::MAX);
    let key = self.keys.get_mut(footing.key).filter(|key| key.len() >= known)?;
    if known > 0 && !footing.added.is_empty() {
      key.truncate(known);
      key.extend_from_slice(footing.added);
    }
    Some(key.len() as u64)
  }

  fn unused_keys(&self) -> Vec<CheckpointId> {
    let unused = self.keys.keys().filter(|key| !self.users.contains_key(*key));
    unused.cloned().collect()
  }
}

impl Contents {
  fn row(&self, agent: Option<&AgentId>) -> Option<&Row> {
    self.rows.get(&agent.cloned())
  }

  fn row_mut(&mut self, agent: Option<&AgentId>) -> &mut Row {
    self.rows.entry(agent.cloned()).or_default()
  }

  fn put(&mut self, item: Item<'_>, bytes: Vec<u8>) {
    match item {
      Item::Checkpoint(agent, id, encoding) => self.row_mut(agent).put(id, encoding, bytes),
      Item::Key(agent, id) => drop(self.row_mut(agent).keys.insert(id.clone(), bytes)),
      _ => drop(self.documents.insert(item.to_string(), bytes)),
    }
  }

  fn remove(&mut self, item: Item<'_>) -> Option<Vec<u8>> {
    match item {
      Item::Checkpoint(agent, id, _) => self.row_mut(agent).remove(id),
      _ => self.take(item),
    }
  }

  fn is_empty(&self) -> bool {
    let has_checkpoints = self.rows.values().any(|row| !row.checkpoints.is_empty());
    self.documents.is_empty() && !has_checkpoints && self.damaged.is_empty()
  }

  /// Replaces a document; as many earlier ones as are wanted stay.
  fn replace(&mut self, document: Document, bytes: Vec<u8>, keep_previous: u32) {
    if Document::VERSIONED.contains(&document) {
      for back in (1..=keep_previous).rev() {
        let newer = Item::version(document, back - 1);
        if let Some(moved) = self.documents.remove(&newer.to_string()) {
          self.documents.insert(Item::Previous(document, back).to_string(), moved);
        }
      }
      // Another store may have kept more before.
      for back in keep_previous + 1.. {
        if self
          .documents
          .remove(&Item::Previous(document, back).to_string())
          .is_none()
        {
          break;
        }
      }
    }
    self.put(Item::Document(document), bytes);
  }

  fn get(&self, item: Item<'_>) -> Option<&Vec<u8>> {
    match item {
      Item::Key(agent, id) => self.row(agent)?.keys.get(id),
      Item::Checkpoint(agent, id, encoding) => {
        let stored = self.row(agent)?.checkpoints.get(id)?;
        (stored.encoding == encoding).then_some(&stored.bytes)
      }
      _ => self.documents.get(&item.to_string()),
    }
  }

  /// Removes an item, and nothing with it.
  fn take(&mut self, item: Item<'_>) -> Option<Vec<u8>> {
    match item {
      Item::Checkpoint(agent, id, _) => {
        self.get(item)?;
        Some(self.row_mut(agent).take(id)?.bytes)
      }
      Item::Key(agent, id) => self.row_mut(agent).keys.remove(id),
      _ => self.documents.remove(&item.to_string()),
    }
  }
}

impl MemoryBackend {
  #[must_use]
  pub fn new(keep_previous: u32) -> Self {
    Self {
      keep_previous,
      ..Self::default()
    }
  }

  fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Contents>> {
    // No change below can panic half-way, so a poisoned lock still guards whole contents.
    self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
  }

  /// The sessions, for somebody who may write to this one. Nobody can take it over before they are let go.
  fn lock_for(&self, session: &SessionId) -> Result<MutexGuard<'_, BTreeMap<SessionId, Contents>>> {
    let sessions = self.lock();
    self.admit(session)?;
    Ok(sessions)
  }

  /// Whether somebody may write, before it is known whether anything is to be written.
  fn look_at_lease(&self, session: &SessionId) -> Result<()> {
    let admitted = lease::admit(self.records().get(session), session, self.fences.of(session), now_ms());
    admitted.inspect_err(|error| self.fences.observe(error)).map(drop)
  }

  /// To be called under the lock of the sessions.
  fn admit(&self, session: &SessionId) -> Result<()> {
    let mut records = self.records();
    let admitted = lease::admit(records.get(session), session, self.fences.of(session), now_ms());
    let ended = admitted.inspect_err(|error| self.fences.observe(error))?;
    if let Some(ended) = ended {
      records.insert(session.clone(), ended);
    }
    Ok(())
  }

  /// Whoever needs both locks takes that of the sessions first.
  fn records(&self) -> MutexGuard<'_, BTreeMap<SessionId, Record>> {
    self.leases.lock().unwrap_or_else(PoisonError::into_inner)
  }

  fn bytes(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match content.write_to(&mut bytes) {
      Ok(()) => Ok(bytes),
      Err(error) => Err(Error::io("write", Path::new(&self.name_of(session, item)), error)),
    }
  }
}

impl Backend for MemoryBackend {
  fn location(&self) -> String {
    "memory:".to_owned()
  }

  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String {
    format!("memory:{session}/{item}")
  }

  fn initialize(&self) -> Result<()> {
    Ok(())
  }

  fn create_session(&self, session: &SessionId) -> Result<()> {
    self.lock_for(session)?.entry(session.clone()).or_default();
    Ok(())
  }

  fn sessions(&self) -> Result<Vec<SessionId>> {
    let session_document = Item::SESSION.to_string();
    let sessions = self.lock();
    let with_document = sessions
      .iter()
      .filter(|(_, contents)| contents.documents.contains_key(&session_document));
    Ok(with_document.map(|(id, _)| id.clone()).collect())
  }

  fn places(&self) -> Result<Vec<SessionId>> {
    Ok(self.lock().keys().cloned().collect())
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    let sessions = self.lock();
    let rows = sessions.get(session).into_iter().flat_map(|contents| &contents.rows);
    let with_checkpoints = rows.filter(|(_, row)| !row.checkpoints.is_empty());
    Ok(with_checkpoints.filter_map(|(agent, _)| agent.clone()).collect())
  }

  fn delete_session(&self, session: &SessionId) -> Result<Option<Error>> {
    self.lock_for(session)?.remove(session);
    Ok(None)
  }

  fn delete_session_if(
    &self,
    session: &SessionId,
    limit: u64,
    condition: &mut Condition<'_>,
  ) -> Result<Option<DeletedSession>> {
    let mut sessions = self.lock();
    self.look_at_lease(session)?;
    let document = sessions.get(session).and_then(|contents| contents.get(Item::SESSION));
    if let Some(size) = document.map(|bytes| bytes.len() as u64).filter(|size| *size > limit) {
      return Err(Error::too_large(&self.name_of(session, Item::SESSION), size, limit));
    }
    if !condition(document.map(Vec::as_slice))? {
      return Ok(None);
    }
    self.admit(session)?;
    sessions.remove(session);
    Ok(Some(DeletedSession { left: None }))
  }

  fn found(&self, session: &SessionId, supply: &mut ItemSource<'_>) -> Result<bool> {
    let mut contents = Contents::default();
    supply(&mut |arrival| {
      let bytes = self.bytes(session, arrival.item, arrival.content)?;
      contents.put(arrival.item, bytes);
      if let Item::Checkpoint(agent, id, _) = arrival.item {
        contents.row_mut(agent).change(id, |stored| {
          stored.made_at = arrival.made_at.unwrap_or(stored.made_at);
          stored.is_pinned |= arrival.is_pinned;
        });
      }
      Ok(())
    })?;
    let mut sessions = self.lock_for(session)?;
    let is_new = sessions.get(session).is_none_or(Contents::is_empty);
    if is_new {
      sessions.insert(session.clone(), contents);
    }
    Ok(is_new)
  }

  fn write(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let bytes = self.bytes(session, item, content)?;
    let size = bytes.len() as u64;
    let mut sessions = self.lock_for(session)?;
    let contents = sessions.entry(session.clone()).or_default();
    match item {
      Item::Document(document) => contents.replace(document, bytes, self.keep_previous),
      _ => contents.put(item, bytes),
    }
    Ok(size)
  }

  fn write_checkpoint(&self, series: &Series, id: &CheckpointId, new: CheckpointWrite<'_>) -> Result<PutOutcome> {
    let item = series.item(id, new.encoding);
    let bytes = self.bytes(&series.session, item, new.content)?;
    let size = bytes.len() as u64;
    let mut sessions = self.lock_for(&series.session)?;
    let row = sessions.get(&series.session);
    let row = row.and_then(|contents| contents.row(series.agent.as_ref()));
    let refusal = match new.precondition {
      Precondition::None => None,
      Precondition::Exists => {
        let is_stored = row.is_some_and(|row| row.checkpoints.contains_key(id));
        (!is_stored).then_some(PutOutcome::Missing)
      }
      Precondition::Newest(newest) => {
        let entry = CheckpointEntry::new(id.clone(), new.encoding, now_ms);
        let mut entries = row.into_iter().flat_map(Row::newest_first);
        newest.refusal(&entry, &mut entries)
      }
    };
    if let Some(refusal) = refusal {
      return Ok(refusal);
    }
    let labels = match new.labels {
      Some(labels) => {
        let old = sessions
          .get(&series.session)
          .and_then(|contents| contents.get(Item::LABELS));
        Some(labels(
          old.cloned(),
          &row.into_iter().flat_map(Row::newest_first).collect::<Vec<_>>(),
        )?)
      }
      None => None,
    };
    let contents = sessions.entry(series.session.clone()).or_default();
    let row = contents.row_mut(series.agent.as_ref());
    let key = match new.footing {
      None => None,
      Some(footing) => match row.extend_key(footing) {
        Some(size) => Some(FileStamp { size, modified: 0 }),
        None => return Ok(PutOutcome::KeyIsGone),
      },
    };
    row.put(id, new.encoding, bytes);
    if let Some(labels) = labels {
      contents.put(Item::LABELS, labels);
    }
    Ok(PutOutcome::Stored { size, key })
  }

  fn keys(&self, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
    let sessions = self.lock();
    let contents = sessions.get(&series.session);
    let row = contents.and_then(|contents| contents.row(series.agent.as_ref()));
    let keys = row.into_iter().flat_map(|row| &row.keys);
    Ok(keys.map(|(id, bytes)| (id.clone(), bytes.len() as u64)).collect())
  }

  fn remove_unused_keys(&self, series: &Series) -> Result<u64> {
    let mut sessions = self.lock();
    let Some(contents) = sessions.get_mut(&series.session) else {
      return Ok(0);
    };
    let row = contents.row_mut(series.agent.as_ref());
    let unused = row.unused_keys();
    if !unused.is_empty() {
      self.admit(&series.session)?;
    }
    let removed = unused.iter().filter_map(|key| row.keys.remove(key));
    Ok(removed.map(|bytes| bytes.len() as u64).sum())
  }

  fn write_state(&self, session: &SessionId, session_document: &dyn Content, task_tree: &dyn Content) -> Result<()> {
    let document = self.bytes(session, Item::SESSION, session_document)?;
    let tree = self.bytes(session, Item::TASK_TREE, task_tree)?;
    let mut sessions = self.lock_for(session)?;
    let contents = sessions.entry(session.clone()).or_default();
    contents.replace(Document::Session, document, self.keep_previous);
    contents.replace(Document::TaskTree, tree, self.keep_previous);
    Ok(())
  }

  fn update(&self, session: &SessionId, document: Document, _limit: u64, change: &mut Change<'_>) -> Result<()> {
    let mut sessions = self.lock();
    self.look_at_lease(session)?;
    let old = sessions
      .get(session)
      .and_then(|contents| contents.get(Item::Document(document)))
      .cloned();
    if let Some(bytes) = change(old)? {
      self.admit(session)?;
      let contents = sessions.entry(session.clone()).or_default();
      contents.replace(document, bytes, self.keep_previous);
    }
    Ok(())
  }

  fn update_labels(&self, session: &SessionId, _limit: u64, change: &mut LabelsChange<'_>) -> Result<()> {
    let mut sessions = self.lock();
    self.look_at_lease(session)?;
    let contents = sessions.get(session);
    let old = contents.and_then(|contents| contents.get(Item::LABELS)).cloned();
    let row = contents.and_then(|contents| contents.row(None));
    let entries: Vec<_> = row.into_iter().flat_map(Row::newest_first).collect();
    if let Some(labels) = change(old, &entries)? {
      self.admit(session)?;
      let contents = sessions.entry(session.clone()).or_default();
      match labels.document {
        Some(document) => contents.put(Item::LABELS, document),
        None => drop(contents.take(Item::LABELS)),
      }
    }
    Ok(())
  }

  fn read(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
    let sessions = self.lock();
    match sessions.get(session).and_then(|contents| contents.get(item)) {
      Some(bytes) if bytes.len() as u64 > limit => Err(Error::too_large(
        &self.name_of(session, item),
        bytes.len() as u64,
        limit,
      )),
      bytes => Ok(bytes.cloned()),
    }
  }

  fn peek(&self, series: &Series, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    let sessions = self.lock();
    let contents = sessions.get(&series.session);
    let peek = |entry: &CheckpointEntry| {
      let bytes = contents.and_then(|contents| contents.get(series.item_of(entry)));
      Ok(bytes.map(|bytes| Peek::of(bytes, head, tail)))
    };
    Ok(entries.iter().map(peek).collect())
  }

  fn versions(&self, session: &SessionId, document: Document) -> Result<u32> {
    let sessions = self.lock();
    let Some(contents) = sessions.get(session) else {
      return Ok(0);
    };
    let mut versions = 0;
    while contents.get(Item::Previous(document, versions + 1)).is_some() {
      versions += 1;
    }
    Ok(versions)
  }

  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<bool> {
    let mut sessions = self.lock_for(session)?;
    let taken = sessions.get_mut(session).and_then(|contents| contents.remove(item));
    Ok(taken.is_some())
  }

  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>> {
    let (session, item) = (&series.session, series.item_of(entry));
    let mut sessions = self.lock_for(session)?;
    let Some(contents) = sessions.get_mut(session) else {
      return Ok(None);
    };
    let bytes = contents.get(item).is_some_and(|bytes| Some(&**bytes) == judged);
    let Some(bytes) = bytes.then(|| contents.take(item)).flatten() else {
      return Ok(None);
    };
    let name = format!("damaged/{}.{}", item, contents.damaged.len());
    contents.damaged.push(bytes);
    Ok(Some(format!("memory:{session}/{name}")))
  }

  fn retire(&self, series: &Series, entry: &CheckpointEntry, spare: Option<IsLabelled>) -> Result<bool> {
    let mut sessions = self.lock_for(&series.session)?;
    let Some(contents) = sessions.get_mut(&series.session) else {
      return Ok(false);
    };
    let labels = contents.get(Item::LABELS);
    let is_labelled = spare
      .zip(labels)
      .is_some_and(|(spare, labels)| spare(labels, &entry.id));
    let row = contents.row_mut(series.agent.as_ref());
    let is_pinned = row.checkpoints.get(&entry.id).is_some_and(|stored| stored.is_pinned);
    let is_newest = row.order.last().is_none_or(|(_, newest)| *newest == entry.id);
    Ok(!is_pinned && !is_labelled && !is_newest && row.remove(&entry.id).is_some())
  }

  fn confirm_retired(&self, _series: &Series) -> Result<()> {
    Ok(())
  }

  fn set_made_at(&self, series: &Series, entry: &CheckpointEntry) -> Result<()> {
    let mut sessions = self.lock_for(&series.session)?;
    if let Some(contents) = sessions.get_mut(&series.session) {
      let row = contents.row_mut(series.agent.as_ref());
      row.change(&entry.id, |stored| stored.made_at = entry.made_at);
    }
    Ok(())
  }

  fn set_pinned(&self, series: &Series, id: &CheckpointId, is_pinned: bool) -> Result<bool> {
    let mut sessions = self.lock_for(&series.session)?;
    let Some(contents) = sessions.get_mut(&series.session) else {
      return Ok(false);
    };
    let row = contents.row_mut(series.agent.as_ref());
    Ok(row.change(id, |stored| stored.is_pinned = is_pinned))
  }

  fn checkpoints(&self, series: &Series) -> Result<Vec<CheckpointEntry>> {
    let sessions = self.lock();
    let contents = sessions.get(&series.session);
    let row = contents.and_then(|contents| contents.row(series.agent.as_ref()));
    Ok(row.into_iter().flat_map(Row::newest_first).collect())
  }

  fn find(&self, series: &Series, id: &CheckpointId) -> Result<Option<CheckpointEntry>> {
    let sessions = self.lock();
    let contents = sessions.get(&series.session);
    let row = contents.and_then(|contents| contents.row(series.agent.as_ref()));
    Ok(row.and_then(|row| row.entry(id)))
  }

  fn page(&self, series: &Series, after: Option<&CheckpointEntry>, limit: usize) -> Result<Page> {
    let sessions = self.lock();
    let contents = sessions.get(&series.session);
    let Some(row) = contents.and_then(|contents| contents.row(series.agent.as_ref())) else {
      return Ok(Page::default());
    };
    let end = after.map_or(Bound::Unbounded, |after| {
      Bound::Excluded((after.made_at, after.id.clone()))
    });
    let places = row.order.range((Bound::Unbounded, end)).rev();
    Ok(Page {
      entries: places.filter_map(|(_, id)| row.entry(id)).take(limit).collect(),
      total: row.checkpoints.len(),
    })
  }

  fn surplus(&self, series: &Series, wanted: RetentionScope) -> Result<RetentionList> {
    let sessions = self.lock();
    let contents = sessions.get(&series.session);
    let Some(row) = contents.and_then(|contents| contents.row(series.agent.as_ref())) else {
      return Ok(RetentionList::default());
    };
    let RetentionScope::Beyond(keep) = wanted else {
      return Ok(RetentionList::of(row.newest_first().collect::<Vec<_>>().iter(), wanted));
    };
    let beyond = row.unpinned.iter().take(row.unpinned.len().saturating_sub(keep));
    let mut entries: Vec<_> = beyond.filter_map(|(_, id)| row.entry(id)).collect();
    entries.reverse();
    Ok(RetentionList {
      newest: row.order.last().and_then(|(_, id)| row.entry(id)),
      entries,
      warning: None,
    })
  }

  fn results(&self, session: &SessionId) -> Result<Vec<TaskId>> {
    let sessions = self.lock();
    let names = sessions
      .get(session)
      .into_iter()
      .flat_map(|contents| contents.documents.keys());
    let ids = names.filter_map(|name| name.strip_prefix(RESULTS)?.strip_prefix('/')?.strip_suffix(".json"));
    ids.map(TaskId::parse).collect()
  }

  fn sessions_with_checkpoint(&self, id: &CheckpointId) -> Result<Vec<SessionId>> {
    let sessions = self.lock();
    let holds = |contents: &Contents| contents.row(None).is_some_and(|row| row.checkpoints.contains_key(id));
    let holding = sessions.iter().filter(|(_, contents)| holds(contents));
    Ok(holding.map(|(session, _)| session.clone()).collect())
  }

  fn usage(&self, session: &SessionId) -> Result<Usage> {
    let sessions = self.lock();
    let Some(contents) = sessions.get(session) else {
      return Ok(Usage::default());
    };
    let own = contents.row(None);
    let documents = contents.documents.values().map(Vec::len);
    let in_rows = contents.rows.values().flat_map(|row| {
      let checkpoints = row.checkpoints.values().map(|stored| stored.bytes.len());
      checkpoints.chain(row.keys.values().map(Vec::len))
    });
    let of_agents = contents.rows.iter().filter(|(agent, _)| agent.is_some());
    Ok(Usage {
      total_bytes: documents
        .chain(in_rows)
        .chain(contents.damaged.iter().map(Vec::len))
        .map(|size| size as u64)
        .sum(),
      checkpoints: own.map_or(0, |row| row.checkpoints.len() as u64),
      pinned: own.map_or(0, |row| (row.checkpoints.len() - row.unpinned.len()) as u64),
      agent_checkpoints: of_agents.map(|(_, row)| row.checkpoints.len() as u64).sum(),
      results: contents
        .documents
        .keys()
        .filter(|name| name.starts_with(RESULTS))
        .count() as u64,
      newest: own.and_then(|row| row.newest_first().next()),
    })
  }

  fn fences(&self) -> &Fences {
    &self.fences
  }

  fn acquire(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired> {
    let (_sessions, now) = (self.lock(), now_ms());
    let mut records = self.records();
    Ok(
      match Record::acquire(records.get(session), claim, now, self.fences.fresh(session)) {
        Ok(record) => {
          let lease = record.lease(now);
          records.insert(session.clone(), record);
          Acquired::Taken(lease)
        }
        Err(held) => Acquired::Held(held),
      },
    )
  }

  fn renew(&self, session: &SessionId, number: u64, ttl_ms: u64) -> Result<Option<Lease>> {
    let (mut records, now) = (self.records(), now_ms());
    let renewed = Record::renew(records.get(session), number, ttl_ms, now);
    Ok(renewed.map(|record| {
      let lease = record.lease(now);
      records.insert(session.clone(), record);
      lease
    }))
  }

  fn release(&self, session: &SessionId, number: u64) -> Result<bool> {
    let mut records = self.records();
    let Some(released) = Record::release(records.get(session), number) else {
      return Ok(false);
    };
    records.insert(session.clone(), released);
    Ok(true)
  }

  fn leases(&self) -> Result<Vec<(SessionId, Lease)>> {
    let now = now_ms();
    let records = self.records();
    let held = records.iter().filter(|(_, record)| record.is_held(now));
    Ok(
      held
        .map(|(session, record)| (session.clone(), record.lease(now)))
        .collect(),
    )
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::backend::conformance;

  #[test]
  fn passes_the_contract() {
    conformance::run(|keep_previous| Box::new(MemoryBackend::new(keep_previous)));
  }
}
