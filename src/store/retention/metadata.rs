//! What retention knows about checkpoints beyond their names. It is cached, because a checkpoint is never rewritten.

use std::collections::{HashMap, HashSet};
use std::slice;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::Store;
use super::super::labels::Labels;
use super::MetadataSource;
use crate::backend::{BackendExt, CheckpointEntry, Encoding, ItemName, Series};
use crate::checkpoint::document::LABEL;
use crate::codec::delta::{REFERENCE_BYTES, Reference};
use crate::types::error::{Code, Error};
use crate::types::id::CheckpointId;
use crate::types::session_cache::SessionCache;

/// The number of series whose metadata is cached.
pub const CACHED_SERIES: u64 = 256;

/// The metadata of each series. Its lock keeps concurrent calls from reading the same checkpoints.
pub type MetadataCache = SessionCache<Series, Arc<Mutex<SeriesMetadata>>>;

/// Metadata by the names of the checkpoints: an id may exist in several encodings.
#[derive(Debug, Default)]
pub struct SeriesMetadata(HashMap<Encoding, HashMap<CheckpointId, CheckpointMetadata>>);

impl SeriesMetadata {
  fn get(&self, entry: &CheckpointEntry) -> CheckpointMetadata {
    let known = self.0.get(&entry.encoding).and_then(|by_id| by_id.get(&entry.id));
    known.cloned().unwrap_or_default()
  }

  fn get_mut(&mut self, entry: &CheckpointEntry) -> &mut CheckpointMetadata {
    let by_id = self.0.entry(entry.encoding).or_default();
    by_id.entry(entry.id.clone()).or_default()
  }

  fn retain(&mut self, entries: &[CheckpointEntry]) {
    let listed: HashSet<_> = entries.iter().map(|entry| (entry.encoding, &entry.id)).collect();
    for (encoding, by_id) in &mut self.0 {
      by_id.retain(|id, _| listed.contains(&(*encoding, id)));
    }
  }

  fn len(&self) -> usize {
    self.0.values().map(HashMap::len).sum()
  }
}

#[derive(Debug, Clone, Default)]
pub struct CheckpointMetadata {
  size: Option<u64>,
  /// Of a delta.
  base: Option<CheckpointId>,
  /// Whether it was created with a label.
  was_labelled: Option<bool>,
}

/// The labels of a session exist and could not be read.
struct LabelsUnreadable;

/// Reads the metadata of one series that the rules request.
pub struct RetentionView<'a> {
  store: &'a Store,
  series: &'a Series,
  metadata: &'a mut SeriesMetadata,
  /// The sizes of the bases of the series, read on demand.
  bases: Option<HashMap<CheckpointId, u64>>,
  /// The labels that were set after creation, read on demand.
  labels: Option<Result<Labels, LabelsUnreadable>>,
  /// The checkpoints that are kept because their label could not be read, and why; `None` stands for all of them.
  failures: Vec<(Option<CheckpointEntry>, Error)>,
}

impl<'a> RetentionView<'a> {
  pub fn new(store: &'a Store, series: &'a Series, metadata: &'a mut SeriesMetadata) -> Self {
    Self {
      store,
      series,
      metadata,
      bases: None,
      labels: None,
      failures: Vec::new(),
    }
  }

  /// Records the size of a checkpoint that was just stored.
  pub fn set_size(&mut self, entry: &CheckpointEntry, size: u64) {
    self.metadata.get_mut(entry).size = Some(size);
  }

  /// Reads all missing sizes and bases in one call of the backend.
  pub fn measure(&mut self, entries: &[CheckpointEntry]) {
    let is_unknown = |entry: &&CheckpointEntry| {
      let metadata = self.metadata.get(entry);
      metadata.size.is_none() || (entry.encoding == Encoding::Delta && metadata.base.is_none())
    };
    let unknown: Vec<_> = entries.iter().filter(is_unknown).cloned().collect();
    if unknown.is_empty() {
      return;
    }
    let peeked = self.store.backend.peek_in(self.series, &unknown, REFERENCE_BYTES, 0);
    for (entry, peeked) in unknown.iter().zip(peeked.unwrap_or_default()) {
      if let Ok(Some(peek)) = peeked {
        let metadata = self.metadata.get_mut(entry);
        metadata.size = Some(peek.size);
        if entry.encoding == Encoding::Delta {
          metadata.base = Reference::of(&peek.head).map(|reference| reference.key);
        }
      }
    }
  }

  /// Drops the metadata of all checkpoints but `entries`, and returns what could not be read.
  pub fn finish(self, entries: &[CheckpointEntry]) -> Vec<(Option<CheckpointEntry>, Error)> {
    if self.metadata.len() > entries.len() {
      self.metadata.retain(entries);
    }
    self.failures
  }

  /// Whether a change after creation gave the checkpoint a label, or took it; `None` if it was not changed.
  fn changed_label(&mut self, id: &CheckpointId) -> Result<Option<bool>, LabelsUnreadable> {
    if self.labels.is_none() {
      let read = self.store.read_labels(self.series);
      self.labels = Some(read.map_err(|error| {
        self.failures.push((None, error));
        LabelsUnreadable
      }));
    }
    match &self.labels {
      Some(Ok(labels)) => Ok(labels.get(id).map(|label| label != "null")),
      _ => Err(LabelsUnreadable),
    }
  }

  fn was_labelled(&mut self, entry: &CheckpointEntry) -> bool {
    let found = self.store.infos(self.series, slice::from_ref(entry));
    let found = found.and_then(|mut found| found.pop().unwrap_or(Ok(None)));
    let is_labelled = match found {
      Ok(Some((info, _))) => info.get(LABEL).is_some_and(|label| label.starts_with('"')),
      // It was deleted, or its label is damaged.
      Ok(None) => return false,
      Err(error) if error.code == Code::Corrupt => false,
      Err(error) => {
        self.failures.push((Some(entry.clone()), error));
        return true;
      }
    };
    self.metadata.get_mut(entry).was_labelled = Some(is_labelled);
    is_labelled
  }
}

impl MetadataSource for RetentionView<'_> {
  /// True if it cannot be read: such a checkpoint is kept.
  fn is_labelled(&mut self, entry: &CheckpointEntry) -> bool {
    match self.changed_label(&entry.id) {
      Ok(Some(is_labelled)) => is_labelled,
      Ok(None) => match self.metadata.get(entry).was_labelled {
        Some(is_labelled) => is_labelled,
        None => self.was_labelled(entry),
      },
      Err(LabelsUnreadable) => true,
    }
  }

  /// 0 if it cannot be read: other checkpoints must not be removed because of it.
  fn size(&mut self, entry: &CheckpointEntry) -> u64 {
    self.metadata.get(entry).size.unwrap_or(0)
  }

  fn base(&mut self, entry: &CheckpointEntry) -> Option<(CheckpointId, u64)> {
    let base = self.metadata.get(entry).base?;
    let bases = self.bases.get_or_insert_with(|| {
      let bases = self.store.backend.bases(self.series).unwrap_or_default().into_iter();
      let sizes = bases.filter_map(|base| match base.name {
        ItemName::Base(_, id) => Some((id, base.size?)),
        _ => None,
      });
      sizes.collect()
    });
    let bytes = bases.get(&base).copied().unwrap_or(0);
    Some((base, bytes))
  }
}
