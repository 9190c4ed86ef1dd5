//! A store that lives and dies with the process: for tests and caches.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::item::RESULTS;
use super::lease::{self, Record};
use super::{
  Acquired, After, Backend, Change, CheckpointEntry, CheckpointWrite, Claim, Content, Document, Encoding, Fences,
  Footing, Item, Lease, Look, Peek, Peeked, Put, Series, Supply, Usage, is_beginning,
};
use crate::clock::now_ms;
use crate::error::{Error, Result};
use crate::format::delta::Reference;
use crate::id::{AgentId, CheckpointId, SessionId, TaskId};

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
  /// Items other than checkpoints, by their names.
  documents: BTreeMap<String, Vec<u8>>,
  checkpoints: BTreeMap<Key, StoredCheckpoint>,
  /// What deltas stand on.
  keys: BTreeMap<(Option<AgentId>, CheckpointId), Vec<u8>>,
  damaged: Vec<Vec<u8>>,
}

type Key = (Option<AgentId>, CheckpointId, Encoding);

#[derive(Debug)]
struct StoredCheckpoint {
  bytes: Vec<u8>,
  stored_at: u64,
  is_pinned: bool,
}

fn key(agent: Option<&AgentId>, id: &CheckpointId, encoding: Encoding) -> Key {
  (agent.cloned(), id.clone(), encoding)
}

impl Contents {
  fn put(&mut self, item: Item<'_>, bytes: Vec<u8>) {
    if let Item::Checkpoint(agent, id, encoding) = item {
      let stored = StoredCheckpoint {
        bytes,
        stored_at: now_ms(),
        is_pinned: self.is_pinned(agent, id),
      };
      self.checkpoints.insert(key(agent, id, encoding), stored);
    } else if let Item::Key(agent, id) = item {
      self.keys.insert((agent.cloned(), id.clone()), bytes);
    } else {
      self.documents.insert(item.to_string(), bytes);
    }
  }

  /// Removes a checkpoint, and the key that it was the last one to stand on.
  fn remove(&mut self, item: Item<'_>) -> Option<Vec<u8>> {
    let bytes = self.take(item)?;
    if let Item::Checkpoint(agent, _, Encoding::Delta) = item
      && let Some(reference) = Reference::of(&bytes)
      && !self.keys_in_use(agent).contains(&reference.key)
    {
      self.keys.remove(&(agent.cloned(), reference.key));
    }
    Some(bytes)
  }

  fn keys_in_use(&self, of: Option<&AgentId>) -> BTreeSet<CheckpointId> {
    let own = self.checkpoints.iter().filter(|((agent, ..), _)| agent.as_ref() == of);
    own
      .filter_map(|(_, stored)| Some(Reference::of(&stored.bytes)?.key))
      .collect()
  }

  /// Makes or extends a key, and says how long it is then; `None` if it has not what is needed.
  fn extend_key(&mut self, series: &Series, footing: Footing<'_>) -> Option<u64> {
    let name = (series.agent.clone(), footing.key.clone());
    if footing.known == 0 {
      let key = self.keys.entry(name).or_default();
      if !is_beginning(footing.added, key) {
        *key = footing.added.to_vec();
      }
      return Some(key.len() as u64);
    }
    let known = usize::try_from(footing.known).unwrap_or(usize::MAX);
    let key = self.keys.get_mut(&name).filter(|key| key.len() >= known)?;
    if !footing.added.is_empty() {
      key.truncate(known);
      key.extend_from_slice(footing.added);
    }
    Some(key.len() as u64)
  }

  fn is_empty(&self) -> bool {
    self.documents.is_empty() && self.checkpoints.is_empty() && self.damaged.is_empty()
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
      // Somebody may have kept more before.
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

  fn is_pinned(&self, agent: Option<&AgentId>, id: &CheckpointId) -> bool {
    Encoding::ALL
      .iter()
      .filter_map(|encoding| self.checkpoints.get(&key(agent, id, *encoding)))
      .any(|stored| stored.is_pinned)
  }

  /// Of one id, all encodings are pinned, or none. The answer is whether there is any.
  fn pin(&mut self, agent: Option<&AgentId>, id: &CheckpointId, is_pinned: bool) -> bool {
    let mut was_there = false;
    for ((of_agent, known, _), stored) in &mut self.checkpoints {
      if of_agent.as_ref() == agent && known == id {
        stored.is_pinned = is_pinned;
        was_there = true;
      }
    }
    was_there
  }

  fn get(&self, item: Item<'_>) -> Option<&Vec<u8>> {
    match item {
      Item::Key(agent, id) => self.keys.get(&(agent.cloned(), id.clone())),
      Item::Checkpoint(agent, id, encoding) => {
        let stored = self.checkpoints.get(&key(agent, id, encoding))?;
        Some(&stored.bytes)
      }
      _ => self.documents.get(&item.to_string()),
    }
  }

  fn take(&mut self, item: Item<'_>) -> Option<Vec<u8>> {
    match item {
      Item::Checkpoint(agent, id, encoding) => {
        let stored = self.checkpoints.remove(&key(agent, id, encoding))?;
        Some(stored.bytes)
      }
      Item::Key(agent, id) => self.keys.remove(&(agent.cloned(), id.clone())),
      _ => self.documents.remove(&item.to_string()),
    }
  }

  fn of_series<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = CheckpointEntry> + 'a {
    let own = self
      .checkpoints
      .iter()
      .filter(|((agent, ..), _)| *agent == series.agent);
    own.map(|((_, id, encoding), stored)| CheckpointEntry {
      is_pinned: stored.is_pinned,
      ..CheckpointEntry::new(id.clone(), *encoding, || stored.stored_at)
    })
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
    lease::admit(self.records().get(session), session, self.fences.of(session), now_ms()).map(drop)
  }

  /// To be called under the lock of the sessions.
  fn admit(&self, session: &SessionId) -> Result<()> {
    let mut records = self.records();
    let ended = lease::admit(records.get(session), session, self.fences.of(session), now_ms())?;
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
    let keys = sessions
      .get(session)
      .into_iter()
      .flat_map(|contents| contents.checkpoints.keys());
    let agents: BTreeSet<_> = keys.filter_map(|(agent, ..)| agent.clone()).collect();
    Ok(agents.into_iter().collect())
  }

  fn delete_session(&self, session: &SessionId) -> Result<Option<Error>> {
    self.lock_for(session)?.remove(session);
    Ok(None)
  }

  fn found(&self, session: &SessionId, supply: &mut Supply<'_>) -> Result<bool> {
    let mut contents = Contents::default();
    supply(&mut |arrival| {
      let bytes = self.bytes(session, arrival.item, arrival.content)?;
      contents.put(arrival.item, bytes);
      if let Item::Checkpoint(agent, id, encoding) = arrival.item {
        if let Some(stored) = contents.checkpoints.get_mut(&key(agent, id, encoding)) {
          stored.stored_at = arrival.made_at.unwrap_or(stored.stored_at);
        }
        if arrival.is_pinned {
          contents.pin(agent, id, true);
        }
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

  fn write_checkpoint(&self, series: &Series, id: &CheckpointId, new: CheckpointWrite<'_>) -> Result<Put> {
    let item = series.item(id, new.encoding);
    let bytes = self.bytes(&series.session, item, new.content)?;
    let size = bytes.len() as u64;
    let mut sessions = self.lock_for(&series.session)?;
    let contents = sessions.entry(series.session.clone()).or_default();
    let newest = match new.after {
      After::Any => None,
      After::Newest(_) => contents.of_series(series).min_by(CheckpointEntry::newest_first),
    };
    if let Some(conflict) = new.after.conflict(newest.as_ref().map(|newest| &newest.id)) {
      return Ok(conflict);
    }
    let key = match new.footing {
      None => None,
      Some(footing) => match contents.extend_key(series, footing) {
        Some(size) => Some(Look { size, modified: 0 }),
        None => return Ok(Put::KeyIsGone),
      },
    };
    contents.put(item, bytes);
    Ok(Put::Stored { size, key })
  }

  fn keys(&self, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
    let sessions = self.lock();
    let keys = sessions
      .get(&series.session)
      .into_iter()
      .flat_map(|contents| &contents.keys);
    let own = keys.filter(|((agent, _), _)| *agent == series.agent);
    Ok(own.map(|((_, id), bytes)| (id.clone(), bytes.len() as u64)).collect())
  }

  fn remove_unused_keys(&self, series: &Series) -> Result<u64> {
    let mut sessions = self.lock();
    let Some(contents) = sessions.get_mut(&series.session) else {
      return Ok(0);
    };
    let in_use = contents.keys_in_use(series.agent.as_ref());
    let keys = contents.keys.iter();
    let unused = keys.filter(|((agent, id), _)| *agent == series.agent && !in_use.contains(id));
    let unused: Vec<_> = unused.map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect();
    if !unused.is_empty() {
      self.admit(&series.session)?;
    }
    for (name, _) in &unused {
      contents.keys.remove(name);
    }
    Ok(unused.iter().map(|(_, size)| size).sum())
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

  fn peek(&self, series: &Series, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<Peeked>> {
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

  fn quarantine(&self, session: &SessionId, item: Item<'_>) -> Result<Option<String>> {
    let mut sessions = self.lock_for(session)?;
    let Some((contents, bytes)) = sessions.get_mut(session).and_then(|contents| {
      let bytes = contents.take(item)?;
      Some((contents, bytes))
    }) else {
      return Ok(None);
    };
    let name = format!("damaged/{}.{}", item, contents.damaged.len());
    contents.damaged.push(bytes);
    Ok(Some(format!("memory:{session}/{name}")))
  }

  fn retire(&self, series: &Series, entry: &CheckpointEntry) -> Result<bool> {
    let mut sessions = self.lock_for(&series.session)?;
    let contents = sessions.get_mut(&series.session);
    let contents = contents.filter(|contents| !contents.is_pinned(series.agent.as_ref(), &entry.id));
    let taken = contents.and_then(|contents| contents.remove(series.item_of(entry)));
    Ok(taken.is_some())
  }

  fn confirm_retired(&self, _series: &Series) -> Result<()> {
    Ok(())
  }

  fn set_made_at(&self, series: &Series, entry: &CheckpointEntry) -> Result<()> {
    let key = key(series.agent.as_ref(), &entry.id, entry.encoding);
    let mut sessions = self.lock_for(&series.session)?;
    let contents = sessions.get_mut(&series.session);
    if let Some(stored) = contents.and_then(|contents| contents.checkpoints.get_mut(&key)) {
      stored.stored_at = entry.made_at;
    }
    Ok(())
  }

  fn set_pinned(&self, series: &Series, id: &CheckpointId, is_pinned: bool) -> Result<bool> {
    let mut sessions = self.lock_for(&series.session)?;
    let contents = sessions.get_mut(&series.session);
    Ok(contents.is_some_and(|contents| contents.pin(series.agent.as_ref(), id, is_pinned)))
  }

  fn checkpoints(&self, series: &Series) -> Result<Vec<CheckpointEntry>> {
    let sessions = self.lock();
    let contents = sessions.get(&series.session);
    let mut entries: Vec<_> = contents
      .into_iter()
      .flat_map(|contents| contents.of_series(series))
      .collect();
    entries.sort_by(CheckpointEntry::newest_first);
    Ok(entries)
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
    let holding = sessions.iter().filter(|(_, contents)| {
      Encoding::ALL
        .iter()
        .any(|encoding| contents.checkpoints.contains_key(&key(None, id, *encoding)))
    });
    Ok(holding.map(|(session, _)| session.clone()).collect())
  }

  fn usage(&self, session: &SessionId) -> Result<Usage> {
    let sessions = self.lock();
    let Some(contents) = sessions.get(session) else {
      return Ok(Usage::default());
    };
    let documents = contents.documents.values().map(Vec::len);
    let checkpoints = contents.checkpoints.values().map(|stored| stored.bytes.len());
    let count = |of_agents| {
      let keys = contents.checkpoints.keys();
      keys.filter(|(agent, ..)| agent.is_some() == of_agents).count() as u64
    };
    Ok(Usage {
      total_bytes: documents
        .chain(checkpoints)
        .chain(contents.keys.values().map(Vec::len))
        .chain(contents.damaged.iter().map(Vec::len))
        .map(|size| size as u64)
        .sum(),
      checkpoints: count(false),
      pinned: contents
        .checkpoints
        .iter()
        .filter(|((agent, ..), stored)| agent.is_none() && stored.is_pinned)
        .count() as u64,
      agent_checkpoints: count(true),
      results: contents
        .documents
        .keys()
        .filter(|name| name.starts_with(RESULTS))
        .count() as u64,
      newest: contents
        .of_series(&session.into())
        .min_by(CheckpointEntry::newest_first),
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
  use crate::backend::contract;

  #[test]
  fn passes_the_contract() {
    contract::run(|keep_previous| Box::new(MemoryBackend::new(keep_previous)));
  }
}
