//! The checkpoints of a series, in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use crate::backend::{
  BaseMerge, BaseRef, CheckpointEntry, CheckpointPage, Encoding, RetentionScope, Selection, time_in_id,
};
use crate::codec::delta::Reference;
use crate::types::id::CheckpointId;
use crate::types::time::Timestamp;

/// The checkpoints of one series, each id once. The time to store or delete one does not depend on their number.
#[derive(Debug, Default)]
pub struct StoredSeries {
  pub checkpoints: HashMap<CheckpointId, StoredCheckpoint>,
  /// All checkpoints, oldest first.
  order: BTreeSet<OrderKey>,
  /// The checkpoints that are not pinned, oldest first.
  pub unpinned: BTreeSet<OrderKey>,
  pub bases: BTreeMap<CheckpointId, Vec<u8>>,
  /// How many deltas are based on each base.
  delta_counts: HashMap<CheckpointId, usize>,
}

/// The position of a checkpoint in the order of its series.
type OrderKey = (Timestamp, CheckpointId);

#[derive(Debug)]
pub struct StoredCheckpoint {
  pub encoding: Encoding,
  pub bytes: Vec<u8>,
  pub made_at: Timestamp,
  pub is_pinned: bool,
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

  /// All checkpoints, newest first.
  pub fn newest_first(&self) -> impl Iterator<Item = CheckpointEntry> {
    self.order.iter().rev().filter_map(|(_, id)| self.entry(id))
  }

  /// Stores a checkpoint in place of the same one in any encoding, and deletes the base of that one if it is not used any more.
  pub fn put(&mut self, id: &CheckpointId, encoding: Encoding, bytes: Vec<u8>) {
    let base = (encoding == Encoding::Delta).then(|| Reference::of(&bytes)).flatten();
    let base = base.map(|reference| reference.key);
    if let Some(base) = &base {
      *self.delta_counts.entry(base.clone()).or_default() += 1;
    }
    let old = self.take(id);
    // A checkpoint that is replaced keeps its position in the order.
    let made_at = time_in_id(id.as_str()).or_else(|| old.as_ref().map(|old| old.made_at));
    let stored = StoredCheckpoint {
      encoding,
      bytes,
      made_at: made_at.unwrap_or_else(Timestamp::now),
      is_pinned: old.as_ref().is_some_and(|old| old.is_pinned),
      base,
    };
    self.insert(id.clone(), stored);
    self.delete_if_unused(old.and_then(|old| old.base));
  }

  fn insert(&mut self, id: CheckpointId, stored: StoredCheckpoint) {
    let position = (stored.made_at, id.clone());
    if !stored.is_pinned {
      self.unpinned.insert(position.clone());
    }
    self.order.insert(position);
    self.checkpoints.insert(id, stored);
  }

  /// Removes a checkpoint and keeps its base.
  pub fn take(&mut self, id: &CheckpointId) -> Option<StoredCheckpoint> {
    let stored = self.checkpoints.remove(id)?;
    let position = (stored.made_at, id.clone());
    self.order.remove(&position);
    self.unpinned.remove(&position);
    if let Some(base) = &stored.base
      && let Some(count) = self.delta_counts.get_mut(base)
    {
      *count -= 1;
      if *count == 0 {
        self.delta_counts.remove(base);
      }
    }
    Some(stored)
  }

  /// Deletes a checkpoint, and its base if no other checkpoint is based on it. Returns whether it existed.
  pub fn delete(&mut self, id: &CheckpointId) -> bool {
    let Some(stored) = self.take(id) else {
      return false;
    };
    self.delete_if_unused(stored.base);
    true
  }

  fn delete_if_unused(&mut self, base: Option<CheckpointId>) {
    if let Some(base) = base
      && !self.delta_counts.contains_key(&base)
    {
      self.bases.remove(&base);
    }
  }

  /// Changes the attributes of a checkpoint. Returns whether it exists.
  pub fn change(&mut self, id: &CheckpointId, change: impl FnOnce(&mut StoredCheckpoint)) -> bool {
    let Some(mut stored) = self.checkpoints.remove(id) else {
      return false;
    };
    let position = (stored.made_at, id.clone());
    self.order.remove(&position);
    self.unpinned.remove(&position);
    change(&mut stored);
    self.insert(id.clone(), stored);
    true
  }

  /// Creates or extends a base, and returns its size; `None` if the stored base is missing or another one.
  pub fn extend_base(&mut self, base: BaseRef<'_>) -> Option<u64> {
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
  pub fn is_kept(&self, id: &CheckpointId) -> bool {
    let is_pinned = self.checkpoints.get(id).is_some_and(|stored| stored.is_pinned);
    is_pinned || self.order.last().is_none_or(|(_, newest)| newest == id)
  }

  pub fn select(&self, selection: Selection<'_>) -> CheckpointPage {
    match selection {
      Selection::All | Selection::Retention(RetentionScope::All) => CheckpointPage::all(self.newest_first().collect()),
      Selection::One(id) => CheckpointPage::all(self.entry(id).into_iter().collect()),
      Selection::Page { after, limit } => {
        let end = after.map_or(Bound::Unbounded, |after| {
          Bound::Excluded((after.made_at, after.id.clone()))
        });
        let positions = self.order.range((Bound::Unbounded, end)).rev();
        CheckpointPage {
          entries: positions.filter_map(|(_, id)| self.entry(id)).take(limit).collect(),
          total: self.checkpoints.len(),
          ..CheckpointPage::default()
        }
      }
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

  /// The bases that no checkpoint is based on.
  pub fn unused_bases(&self) -> Vec<CheckpointId> {
    let unused = self.bases.keys().filter(|id| !self.delta_counts.contains_key(*id));
    unused.cloned().collect()
  }
}
