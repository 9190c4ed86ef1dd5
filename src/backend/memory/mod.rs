//! A store that lives and dies with the process: for tests and caches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ext::each_series;
use super::item::RESULTS;
use super::lease::{self, Record};
use super::{
  Acquired, Attribute, Backend, BaseMerge, BaseRef, CheckpointEntry, CheckpointPage, Claim, Content, DeleteCondition,
  DeleteMode, DeletedSession, Document, DocumentChange, Encoding, Fences, FileStamp, Item, ItemKind, ItemName,
  ItemSource, Lease, ListedItem, Maintenance, Peek, PeekResult, Precondition, PutOptions, PutOutcome, ReadResult,
  RetentionScope, Selection, Series, SessionFilter, Usage, time_in_id,
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
  /// Items other than checkpoints and bases, by name.
  documents: BTreeMap<String, Vec<u8>>,
  /// Checkpoints and what deltas are based on: the session's own, and those of its agents.
  series: BTreeMap<Option<AgentId>, StoredSeries>,
  damaged: Vec<Vec<u8>>,
}

/// The checkpoints of one series. Each id is there once, so storing and removing one costs the same however many there are.
#[derive(Debug, Default)]
struct StoredSeries {
  checkpoints: HashMap<CheckpointId, StoredCheckpoint>,
  /// All of them, oldest first.
  order: BTreeSet<OrderKey>,
  /// Those that retention may remove, oldest first.
  unpinned: BTreeSet<OrderKey>,
  bases: BTreeMap<CheckpointId, Vec<u8>>,
  /// How many deltas are based on each base.
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
  /// The base of a delta.
  base: Option<CheckpointId>,
}

impl StoredSeries {
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

  /// Stores a checkpoint, in place of the same in any encoding, and removes a base that is no longer used.
  fn put(&mut self, id: &CheckpointId, encoding: Encoding, bytes: Vec<u8>) {
    let base = (encoding == Encoding::Delta).then(|| Reference::of(&bytes)).flatten();
    let base = base.map(|reference| reference.key);
    if let Some(base) = &base {
      *self.users.entry(base.clone()).or_default() += 1;
    }
    let old = self.take(id);
    // One that is replaced keeps its place in the order.
    let made_at = time_in_id(id.as_str()).or_else(|| old.as_ref().map(|old| old.made_at));
    let stored = StoredCheckpoint {
      encoding,
      bytes,
      made_at: made_at.unwrap_or_else(now_ms),
      is_pinned: old.as_ref().is_some_and(|old| old.is_pinned),
      base,
    };
    self.insert(id.clone(), stored);
    self.release(old.and_then(|old| old.base));
  }

  fn insert(&mut self, id: CheckpointId, stored: StoredCheckpoint) {
    let place = (stored.made_at, id.clone());
    if !stored.is_pinned {
      self.unpinned.insert(place.clone());
    }
    self.order.insert(place);
    self.checkpoints.insert(id, stored);
  }

  /// Removes a checkpoint, but not its base.
  fn take(&mut self, id: &CheckpointId) -> Option<StoredCheckpoint> {
    let stored = self.checkpoints.remove(id)?;
    let place = (stored.made_at, id.clone());
    self.order.remove(&place);
    self.unpinned.remove(&place);
    if let Some(base) = &stored.base
      && let Some(users) = self.users.get_mut(base)
    {
      *users -= 1;
      if *users == 0 {
        self.users.remove(base);
      }
    }
    Some(stored)
  }

  /// Removes a checkpoint, and its base if nothing else is based on it.
  fn remove(&mut self, id: &CheckpointId) -> Option<Vec<u8>> {
    let stored = self.take(id)?;
    self.release(stored.base);
    Some(stored.bytes)
  }

  fn release(&mut self, base: Option<CheckpointId>) {
    if let Some(base) = base
      && !self.users.contains_key(&base)
    {
      self.bases.remove(&base);
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

  /// Creates or extends a base, and returns its size; `None` if it is not what the delta needs.
  fn extend_base(&mut self, base: BaseRef<'_>) -> Option<u64> {
    if base.known == 0 {
      let present = self.bases.get(base.id).map(Vec::as_slice);
      match BaseMerge::of(base.added, present) {
        BaseMerge::Write => drop(self.bases.insert(base.id.clone(), base.added.to_vec())),
        BaseMerge::Keep => {}
        BaseMerge::Refuse => return None,
      }
    }
    let known = usize::try_from(base.known).unwrap_or(usize::MAX);
    let present = self.bases.get_mut(base.id).filter(|present| present.len() >= known)?;
    if known > 0 && !base.added.is_empty() {
      present.truncate(known);
      present.extend_from_slice(base.added);
    }
    Some(present.len() as u64)
  }

  /// Whether retention must keep a checkpoint: it is pinned, or the newest.
  fn is_kept(&self, id: &CheckpointId) -> bool {
    let is_pinned = self.checkpoints.get(id).is_some_and(|stored| stored.is_pinned);
    is_pinned || self.order.last().is_none_or(|(_, newest)| newest == id)
  }

  fn select(&self, selection: Selection<'_>) -> CheckpointPage {
    match selection {
      Selection::All => CheckpointPage::all(self.newest_first().collect()),
      Selection::One(id) => CheckpointPage::all(self.entry(id).into_iter().collect()),
      Selection::Page { after, limit } => {
        let end = after.map_or(Bound::Unbounded, |after| {
          Bound::Excluded((after.made_at, after.id.clone()))
        });
        let keys = self.order.range((Bound::Unbounded, end)).rev();
        CheckpointPage {
          entries: keys.filter_map(|(_, id)| self.entry(id)).take(limit).collect(),
          total: self.checkpoints.len(),
          ..CheckpointPage::default()
        }
      }
      Selection::Retention(RetentionScope::All) => CheckpointPage::all(self.newest_first().collect()),
      Selection::Retention(RetentionScope::Beyond(keep)) => {
        let beyond = self.unpinned.iter().take(self.unpinned.len().saturating_sub(keep));
        let entries: Vec<_> = beyond.rev().filter_map(|(_, id)| self.entry(id)).collect();
        CheckpointPage {
          total: entries.len(),
          entries,
          newest: self.order.last().and_then(|(_, id)| self.entry(id)),
          warning: None,
        }
      }
    }
  }

  fn unused_bases(&self) -> Vec<CheckpointId> {
    let unused = self.bases.keys().filter(|id| !self.users.contains_key(*id));
    unused.cloned().collect()
  }
}

impl Contents {
  fn usage(&self) -> Usage {
    let own = self.series(None);
    let documents = self.documents.values().map(Vec::len);
    let in_series = self.series.values().flat_map(|stored| {
      let checkpoints = stored.checkpoints.values().map(|checkpoint| checkpoint.bytes.len());
      checkpoints.chain(stored.bases.values().map(Vec::len))
    });
    let damaged = self.damaged.iter().map(Vec::len);
    let of_agents = self.series.iter().filter(|(agent, _)| agent.is_some());
    let results = self.documents.keys().filter(|name| name.starts_with(RESULTS));
    Usage {
      total_bytes: documents.chain(in_series).chain(damaged).map(|size| size as u64).sum(),
      checkpoints: own.map_or(0, |own| own.checkpoints.len() as u64),
      pinned: own.map_or(0, |own| (own.checkpoints.len() - own.unpinned.len()) as u64),
      agent_checkpoints: of_agents.map(|(_, stored)| stored.checkpoints.len() as u64).sum(),
      results: results.count() as u64,
      newest: own.and_then(|own| own.newest_first().next()),
    }
  }

  fn series(&self, agent: Option<&AgentId>) -> Option<&StoredSeries> {
    self.series.get(&agent.cloned())
  }

  fn series_mut(&mut self, agent: Option<&AgentId>) -> &mut StoredSeries {
    self.series.entry(agent.cloned()).or_default()
  }

  fn put(&mut self, item: Item<'_>, bytes: Vec<u8>) {
    match item {
      Item::Checkpoint(agent, id, encoding) => self.series_mut(agent).put(id, encoding, bytes),
      Item::Base(agent, id) => drop(self.series_mut(agent).bases.insert(id.clone(), bytes)),
      _ => drop(self.documents.insert(item.to_string(), bytes)),
    }
  }

  fn remove(&mut self, item: Item<'_>) -> Option<Vec<u8>> {
    match item {
      Item::Checkpoint(agent, id, _) => self.series_mut(agent).remove(id),
      _ => self.take(item),
    }
  }

  fn is_empty(&self) -> bool {
    let has_checkpoints = self.series.values().any(|stored| !stored.checkpoints.is_empty());
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
      Item::Base(agent, id) => self.series(agent)?.bases.get(id),
      Item::Checkpoint(agent, id, encoding) => {
        let stored = self.series(agent)?.checkpoints.get(id)?;
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
        Some(self.series_mut(agent).take(id)?.bytes)
      }
      Item::Base(agent, id) => self.series_mut(agent).bases.remove(id),
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
  fn check_lease(&self, session: &SessionId) -> Result<()> {
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

  fn open(&self) -> Result<()> {
    Ok(())
  }

  fn close(&self) -> Result<()> {
    Ok(())
  }

  fn sessions(&self, filter: SessionFilter<'_>) -> Result<Vec<SessionId>> {
    let session_document = Item::SESSION.to_string();
    let is_selected = |contents: &Contents| match filter {
      SessionFilter::All => true,
      SessionFilter::Saved => contents.documents.contains_key(&session_document),
      SessionFilter::WithCheckpoint(id) => contents
        .series(None)
        .is_some_and(|stored| stored.checkpoints.contains_key(id)),
    };
    let sessions = self.lock();
    let selected = sessions.iter().filter(|(_, contents)| is_selected(contents));
    Ok(selected.map(|(id, _)| id.clone()).collect())
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    let sessions = self.lock();
    let all = sessions.get(session).into_iter().flat_map(|contents| &contents.series);
    let with_checkpoints = all.filter(|(_, stored)| !stored.checkpoints.is_empty());
    Ok(with_checkpoints.filter_map(|(agent, _)| agent.clone()).collect())
  }

  fn items(&self, session: &SessionId, kind: ItemKind<'_>) -> Result<Vec<ListedItem>> {
    let sessions = self.lock();
    let Some(contents) = sessions.get(session) else {
      return Ok(Vec::new());
    };
    let unsized_item = |name| ListedItem { name, size: None };
    match kind {
      ItemKind::TaskResults => {
        let names = contents.documents.keys();
        let ids = names.filter_map(|name| name.strip_prefix(RESULTS)?.strip_prefix('/')?.strip_suffix(".json"));
        ids
          .map(|id| Ok(unsized_item(ItemName::TaskResult(TaskId::parse(id)?))))
          .collect()
      }
      ItemKind::Previous(document) => {
        let versions = (1..).take_while(|back| contents.get(Item::Previous(document, *back)).is_some());
        Ok(
          versions
            .map(|back| unsized_item(ItemName::Previous(document, back)))
            .collect(),
        )
      }
      ItemKind::Bases(agent) => {
        let bases = contents.series(agent).into_iter().flat_map(|stored| &stored.bases);
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
      self.lock_for(session)?.entry(session.clone()).or_default();
      return Ok(true);
    };
    let mut contents = Contents::default();
    source(&mut |new| {
      let bytes = self.bytes(session, new.item, new.content)?;
      contents.put(new.item, bytes);
      if let Item::Checkpoint(agent, id, _) = new.item {
        contents.series_mut(agent).change(id, |stored| {
          stored.made_at = new.made_at.unwrap_or(stored.made_at);
          stored.is_pinned |= new.is_pinned;
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

  fn delete_session(
    &self,
    session: &SessionId,
    condition: Option<DeleteCondition<'_>>,
  ) -> Result<Option<DeletedSession>> {
    let mut sessions = self.lock();
    if let Some(condition) = condition {
      self.check_lease(session)?;
      let document = sessions.get(session).and_then(|contents| contents.get(Item::SESSION));
      let size = document.map(|bytes| bytes.len() as u64);
      if let Some(size) = size.filter(|size| *size > condition.limit) {
        let name = self.name_of(session, Item::SESSION);
        return Err(Error::too_large(&name, size, condition.limit));
      }
      if !(condition.accepts)(document.map(Vec::as_slice))? {
        return Ok(None);
      }
    }
    self.admit(session)?;
    sessions.remove(session);
    Ok(Some(DeletedSession::default()))
  }

  fn put(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
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
    let mut sessions = self.lock_for(&series.session)?;
    let present = sessions.get(&series.session);
    let stored = present.and_then(|contents| contents.series(series.agent.as_ref()));
    let newest_first = || stored.into_iter().flat_map(StoredSeries::newest_first);
    let refusal = match &options.precondition {
      Precondition::None => None,
      Precondition::Exists => {
        let exists = stored.is_some_and(|stored| stored.checkpoints.contains_key(id));
        (!exists).then_some(PutOutcome::Missing)
      }
      Precondition::Newest(newest) => {
        let entry = CheckpointEntry::new(id.clone(), options.encoding, now_ms);
        newest.refusal(&entry, &mut newest_first())
      }
    };
    if let Some(refusal) = refusal {
      return Ok(refusal);
    }
    let labels = match options.labels {
      Some(labels) => {
        let old = present.and_then(|contents| contents.get(Item::LABELS)).cloned();
        Some(labels(old, &newest_first().collect::<Vec<_>>())?)
      }
      None => None,
    };
    let contents = sessions.entry(series.session.clone()).or_default();
    let stored = contents.series_mut(series.agent.as_ref());
    let base = match options.base {
      None => None,
      Some(base) => match stored.extend_base(base) {
        Some(size) => Some(FileStamp { size, modified: 0 }),
        None => return Ok(PutOutcome::BaseIsGone),
      },
    };
    stored.put(id, options.encoding, bytes);
    if let Some(labels) = labels {
      contents.put(Item::LABELS, labels);
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
    let mut sessions = self.lock_for(session)?;
    let contents = sessions.entry(session.clone()).or_default();
    contents.replace(Document::Session, document, self.keep_previous);
    contents.replace(Document::TaskTree, tree, self.keep_previous);
    Ok(true)
  }

  fn update_document(
    &self,
    session: &SessionId,
    document: Document,
    _limit: u64,
    change: &mut DocumentChange<'_>,
  ) -> Result<()> {
    let item = Item::Document(document);
    let mut sessions = self.lock();
    self.check_lease(session)?;
    let contents = sessions.get(session);
    let old = contents.and_then(|contents| contents.get(item)).cloned();
    let stored = contents.and_then(|contents| contents.series(None));
    let entries: Vec<_> = match document {
      Document::Labels => stored.into_iter().flat_map(StoredSeries::newest_first).collect(),
      _ => Vec::new(),
    };
    if let Some(update) = change(old, &entries)? {
      self.admit(session)?;
      let contents = sessions.entry(session.clone()).or_default();
      match update.document {
        Some(bytes) => contents.replace(document, bytes, self.keep_previous),
        None => drop(contents.take(item)),
      }
    }
    Ok(())
  }

  fn read_all(&self, items: &[(&SessionId, Item<'_>)], limit: u64) -> Result<Vec<ReadResult>> {
    let sessions = self.lock();
    let read = |&(session, item): &(&SessionId, Item<'_>)| {
      let bytes = sessions.get(session).and_then(|contents| contents.get(item));
      match bytes.map(|bytes| bytes.len() as u64) {
        Some(size) if size > limit => Err(Error::too_large(&self.name_of(session, item), size, limit)),
        _ => Ok(bytes.cloned()),
      }
    };
    Ok(items.iter().map(read).collect())
  }

  fn peek(&self, checkpoints: &[(&Series, &CheckpointEntry)], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    let sessions = self.lock();
    let peek = |&(series, entry): &(&Series, &CheckpointEntry)| {
      let contents = sessions.get(&series.session);
      let bytes = contents.and_then(|contents| contents.get(series.item_of(entry)));
      Ok(bytes.map(|bytes| Peek::of(bytes, head, tail)))
    };
    Ok(checkpoints.iter().map(peek).collect())
  }

  fn list(&self, series: &[Series], selection: Selection<'_>) -> Result<Vec<CheckpointPage>> {
    let sessions = self.lock();
    each_series(series, |series| {
      let contents = sessions.get(&series.session);
      let stored = contents.and_then(|contents| contents.series(series.agent.as_ref()));
      Ok(stored.map(|stored| stored.select(selection)).unwrap_or_default())
    })
  }

  fn delete(&self, session: &SessionId, item: Item<'_>, mode: DeleteMode) -> Result<bool> {
    let mut sessions = self.lock_for(session)?;
    let Some(contents) = sessions.get_mut(session) else {
      return Ok(false);
    };
    if let (DeleteMode::UnlessKept(is_labelled), Item::Checkpoint(agent, id, _)) = (mode, item) {
      let labels = contents.get(Item::LABELS);
      let has_label = is_labelled
        .zip(labels)
        .is_some_and(|(is_labelled, labels)| is_labelled(labels, id));
      if has_label || contents.series_mut(agent).is_kept(id) {
        return Ok(false);
      }
    }
    Ok(contents.remove(item).is_some())
  }

  fn set_attribute(&self, series: &Series, id: &CheckpointId, attribute: Attribute) -> Result<bool> {
    let mut sessions = self.lock_for(&series.session)?;
    let Some(contents) = sessions.get_mut(&series.session) else {
      return Ok(false);
    };
    let stored = contents.series_mut(series.agent.as_ref());
    Ok(stored.change(id, |checkpoint| match attribute {
      Attribute::Pinned(is_pinned) => checkpoint.is_pinned = is_pinned,
      Attribute::MadeAt(made_at) => checkpoint.made_at = made_at,
    }))
  }

  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>> {
    let (session, item) = (&series.session, series.item_of(entry));
    let mut sessions = self.lock_for(session)?;
    let Some(contents) = sessions.get_mut(session) else {
      return Ok(None);
    };
    let is_same = contents.get(item).is_some_and(|bytes| Some(&**bytes) == judged);
    let Some(bytes) = is_same.then(|| contents.take(item)).flatten() else {
      return Ok(None);
    };
    let name = format!("damaged/{}.{}", item, contents.damaged.len());
    contents.damaged.push(bytes);
    Ok(Some(format!("memory:{session}/{name}")))
  }

  fn usage(&self, of: &[SessionId]) -> Result<Vec<Result<Usage>>> {
    let sessions = self.lock();
    let usage = |session| Ok(sessions.get(session).map(Contents::usage).unwrap_or_default());
    Ok(of.iter().map(usage).collect())
  }

  fn maintain(&self, task: Maintenance<'_>) -> Result<u64> {
    let Maintenance::DeleteUnusedBases(series) = task else {
      return Ok(0);
    };
    let mut sessions = self.lock();
    let Some(contents) = sessions.get_mut(&series.session) else {
      return Ok(0);
    };
    let stored = contents.series_mut(series.agent.as_ref());
    let unused = stored.unused_bases();
    if !unused.is_empty() {
      self.admit(&series.session)?;
    }
    let removed = unused.iter().filter_map(|id| stored.bases.remove(id));
    Ok(removed.map(|bytes| bytes.len() as u64).sum())
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

  fn renew(&self, session: &SessionId, token: u64, ttl_ms: u64) -> Result<Option<Lease>> {
    let (mut records, now) = (self.records(), now_ms());
    let renewed = Record::renew(records.get(session), token, ttl_ms, now);
    Ok(renewed.map(|record| {
      let lease = record.lease(now);
      records.insert(session.clone(), record);
      lease
    }))
  }

  fn release(&self, session: &SessionId, token: u64) -> Result<bool> {
    let mut records = self.records();
    let Some(released) = Record::release(records.get(session), token) else {
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
