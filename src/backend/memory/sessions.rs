//! A session in memory.

use std::collections::BTreeMap;

use super::checkpoints::StoredSeries;
use crate::backend::item::RESULTS;
use crate::backend::{Document, Item, Usage};
use crate::types::id::AgentId;

/// Everything that is stored of one session, except its lease.
#[derive(Debug, Default)]
pub struct StoredSession {
  /// Items other than checkpoints and bases, by name.
  pub documents: BTreeMap<String, Vec<u8>>,
  /// The checkpoints and bases of the session itself, and those of its agents.
  pub series: BTreeMap<Option<AgentId>, StoredSeries>,
  /// Quarantined checkpoints.
  pub damaged: Vec<Vec<u8>>,
}

impl StoredSession {
  pub fn usage(&self) -> Usage {
    let own = self.series(None);
    let documents = self.documents.values().map(Vec::len);
    let in_series = self.series.values().flat_map(|stored| {
      let checkpoints = stored.checkpoints.values().map(|checkpoint| checkpoint.bytes.len());
      checkpoints.chain(stored.bases.values().map(Vec::len))
    });
    let damaged = self.damaged.iter().map(Vec::len);
    let agents = self.series.iter().filter(|(agent, _)| agent.is_some());
    let results = self.documents.keys().filter(|name| name.starts_with(RESULTS));
    Usage {
      total_bytes: documents.chain(in_series).chain(damaged).map(|size| size as u64).sum(),
      checkpoints: own.map_or(0, |own| own.checkpoints.len() as u64),
      pinned: own.map_or(0, |own| (own.checkpoints.len() - own.unpinned.len()) as u64),
      agent_checkpoints: agents.map(|(_, stored)| stored.checkpoints.len() as u64).sum(),
      results: results.count() as u64,
      newest: own.and_then(|own| own.newest_first().next()),
    }
  }

  pub fn series(&self, agent: Option<&AgentId>) -> Option<&StoredSeries> {
    self.series.get(&agent.cloned())
  }

  pub fn series_mut(&mut self, agent: Option<&AgentId>) -> &mut StoredSeries {
    self.series.entry(agent.cloned()).or_default()
  }

  /// Stores an item in place of the same one; earlier versions of a document are not kept.
  pub fn put(&mut self, item: Item<'_>, bytes: Vec<u8>) {
    match item {
      Item::Checkpoint(agent, id, encoding) => self.series_mut(agent).put(id, encoding, bytes),
      Item::Base(agent, id) => drop(self.series_mut(agent).bases.insert(id.clone(), bytes)),
      _ => drop(self.documents.insert(item.to_string(), bytes)),
    }
  }

  /// Deletes an item; a checkpoint in whatever encoding it has. Returns whether it existed.
  pub fn delete(&mut self, item: Item<'_>) -> bool {
    match item {
      Item::Checkpoint(agent, id, _) => self.series_mut(agent).delete(id),
      _ => self.take(item).is_some(),
    }
  }

  pub fn is_empty(&self) -> bool {
    let has_checkpoints = self.series.values().any(|stored| !stored.checkpoints.is_empty());
    self.documents.is_empty() && !has_checkpoints && self.damaged.is_empty()
  }

  /// Replaces a document, and keeps `keep_previous` earlier versions of it.
  pub fn replace(&mut self, document: Document, bytes: Vec<u8>, keep_previous: u32) {
    if Document::VERSIONED.contains(&document) {
      for back in (1..=keep_previous).rev() {
        let newer = Item::version(document, back - 1);
        if let Some(moved) = self.documents.remove(&newer.to_string()) {
          self.documents.insert(Item::Previous(document, back).to_string(), moved);
        }
      }
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

  /// The bytes of an item; of a checkpoint only in this encoding.
  pub fn get(&self, item: Item<'_>) -> Option<&Vec<u8>> {
    match item {
      Item::Base(agent, id) => self.series(agent)?.bases.get(id),
      Item::Checkpoint(agent, id, encoding) => {
        let stored = self.series(agent)?.checkpoints.get(id)?;
        (stored.encoding == encoding).then_some(&stored.bytes)
      }
      _ => self.documents.get(&item.to_string()),
    }
  }

  /// Removes an item; if it is a checkpoint, its base is kept.
  pub fn take(&mut self, item: Item<'_>) -> Option<Vec<u8>> {
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
