//! A store that lives and dies with the process: for tests and caches.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Backend, CheckpointEntry, Content, Encoding, Item, Peek, Peeked, RESULTS, Usage};
use crate::clock::now_ms;
use crate::error::{Error, Result};
use crate::id::{CheckpointId, SessionId, TaskId};

#[derive(Debug, Default)]
pub struct MemoryBackend {
  sessions: Mutex<BTreeMap<SessionId, Contents>>,
}

#[derive(Debug, Default)]
struct Contents {
  /// Items other than checkpoints, by their names.
  documents: BTreeMap<String, Vec<u8>>,
  checkpoints: BTreeMap<(CheckpointId, Encoding), StoredCheckpoint>,
  damaged: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct StoredCheckpoint {
  bytes: Vec<u8>,
  stored_at: u64,
}

impl Contents {
  fn put(&mut self, item: Item<'_>, bytes: Vec<u8>) {
    if let Item::Checkpoint(id, encoding) = item {
      let stored_at = now_ms();
      self
        .checkpoints
        .insert((id.clone(), encoding), StoredCheckpoint { bytes, stored_at });
    } else {
      self.documents.insert(item.to_string(), bytes);
    }
  }

  fn get(&self, item: Item<'_>) -> Option<&Vec<u8>> {
    match item {
      Item::Checkpoint(id, encoding) => {
        let stored = self.checkpoints.get(&(id.clone(), encoding))?;
        Some(&stored.bytes)
      }
      _ => self.documents.get(&item.to_string()),
    }
  }

  fn take(&mut self, item: Item<'_>) -> Option<Vec<u8>> {
    match item {
      Item::Checkpoint(id, encoding) => {
        let stored = self.checkpoints.remove(&(id.clone(), encoding))?;
        Some(stored.bytes)
      }
      _ => self.documents.remove(&item.to_string()),
    }
  }
}

impl MemoryBackend {
  fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Contents>> {
    // No change below can panic half-way, so a poisoned lock still guards whole contents.
    self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
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
    self.lock().entry(session.clone()).or_default();
    Ok(())
  }

  fn sessions(&self) -> Result<Vec<SessionId>> {
    let session_document = Item::Session.to_string();
    let sessions = self.lock();
    let with_document = sessions
      .iter()
      .filter(|(_, contents)| contents.documents.contains_key(&session_document));
    Ok(with_document.map(|(id, _)| id.clone()).collect())
  }

  fn delete_session(&self, session: &SessionId) -> Result<Option<Error>> {
    self.lock().remove(session);
    Ok(None)
  }

  fn write(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let bytes = self.bytes(session, item, content)?;
    let size = bytes.len() as u64;
    self.lock().entry(session.clone()).or_default().put(item, bytes);
    Ok(size)
  }

  fn write_state(&self, session: &SessionId, session_document: &dyn Content, task_tree: &dyn Content) -> Result<()> {
    let document = self.bytes(session, Item::Session, session_document)?;
    let tree = self.bytes(session, Item::TaskTree, task_tree)?;
    let mut sessions = self.lock();
    let contents = sessions.entry(session.clone()).or_default();
    contents.put(Item::Session, document);
    contents.put(Item::TaskTree, tree);
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

  fn peek(&self, session: &SessionId, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<Peeked>> {
    let sessions = self.lock();
    let contents = sessions.get(session);
    let peek = |entry: &CheckpointEntry| {
      let bytes = contents.and_then(|contents| contents.get(entry.item()));
      Ok(bytes.map(|bytes| Peek {
        head: bytes[..head.min(bytes.len())].to_vec(),
        tail: bytes[bytes.len().saturating_sub(tail)..].to_vec(),
        size: bytes.len() as u64,
      }))
    };
    Ok(entries.iter().map(peek).collect())
  }

  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<bool> {
    let mut sessions = self.lock();
    let taken = sessions.get_mut(session).and_then(|contents| contents.take(item));
    Ok(taken.is_some())
  }

  fn quarantine(&self, session: &SessionId, item: Item<'_>) -> Result<Option<String>> {
    let mut sessions = self.lock();
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

  fn checkpoints(&self, session: &SessionId) -> Result<Vec<CheckpointEntry>> {
    let sessions = self.lock();
    let stored = sessions
      .get(session)
      .into_iter()
      .flat_map(|contents| &contents.checkpoints);
    let mut entries: Vec<_> = stored
      .map(|((id, encoding), stored)| CheckpointEntry::new(id.clone(), *encoding, || stored.stored_at))
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
        .any(|encoding| contents.checkpoints.contains_key(&(id.clone(), *encoding)))
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
    Ok(Usage {
      total_bytes: documents
        .chain(checkpoints)
        .chain(contents.damaged.iter().map(Vec::len))
        .map(|size| size as u64)
        .sum(),
      checkpoints: contents.checkpoints.len() as u64,
      results: contents
        .documents
        .keys()
        .filter(|name| name.starts_with(RESULTS))
        .count() as u64,
    })
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::backend::contract;

  #[test]
  fn passes_the_contract() {
    contract::run(|| Box::new(MemoryBackend::default()));
  }
}
