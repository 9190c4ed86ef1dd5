//! What retention finds out about checkpoints beside their names, and remembers: a checkpoint is never rewritten.

use std::collections::{HashMap, HashSet};
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::Store;
use super::super::labels::Labels;
use super::Facts;
use crate::backend::{BackendExt, CheckpointEntry, Encoding, ItemName, Series};
use crate::checkpoint::document::LABEL;
use crate::codec::delta::{REFERENCE_BYTES, Reference};
use crate::types::error::{Code, Error};
use crate::types::id::CheckpointId;

/// Of so many series at most something is remembered.
const MOST_SERIES: usize = 256;

/// What is remembered of each series, for as long as its checkpoints are there.
#[derive(Debug, Default)]
pub struct Memory {
  series: Mutex<HashMap<Series, Arc<Mutex<SeriesMetadata>>>>,
}

/// Facts by the names of the checkpoints: an id may be there in several encodings.
#[derive(Debug, Default)]
pub struct SeriesMetadata(HashMap<Encoding, HashMap<CheckpointId, Fact>>);

impl SeriesMetadata {
  fn fact(&self, entry: &CheckpointEntry) -> Fact {
    let found = self.0.get(&entry.encoding).and_then(|facts| facts.get(&entry.id));
    found.cloned().unwrap_or_default()
  }

  fn place(&mut self, entry: &CheckpointEntry) -> &mut Fact {
    let facts = self.0.entry(entry.encoding).or_default();
    facts.entry(entry.id.clone()).or_default()
  }

  fn keep_only(&mut self, entries: &[CheckpointEntry]) {
    let there: HashSet<_> = entries.iter().map(|entry| (entry.encoding, &entry.id)).collect();
    for (encoding, facts) in &mut self.0 {
      facts.retain(|id, _| there.contains(&(*encoding, id)));
    }
  }

  fn len(&self) -> usize {
    self.0.values().map(HashMap::len).sum()
  }
}

#[derive(Debug, Clone, Default)]
pub struct Fact {
  size: Option<u64>,
  /// What a delta stands on.
  key: Option<CheckpointId>,
  /// Whether it was made with a label.
  was_labelled: Option<bool>,
}

impl Memory {
  /// What is known of a series. Whoever finds something out keeps others from finding it out at the same time.
  pub fn of(&self, series: &Series) -> Arc<Mutex<SeriesMetadata>> {
    let mut all = lock(&self.series);
    if all.len() >= MOST_SERIES && !all.contains_key(series) {
      all.clear();
    }
    Arc::clone(all.entry(series.clone()).or_default())
  }

  /// Somebody may have put others in their places.
  pub fn forget(&self, series: &Series) {
    lock(&self.series).remove(series);
  }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
  // Each fact is true by itself, whatever a panic kept from being added.
  mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The labels of a session are there, but nobody knows what they say.
struct Unreadable;

/// Looks at checkpoints of one series, as far as it has to.
pub struct RetentionView<'a> {
  store: &'a Store,
  series: &'a Series,
  known: &'a mut SeriesMetadata,
  /// The bytes of the keys of the series, once they were asked for.
  keys: Option<HashMap<CheckpointId, u64>>,
  /// What was given later, once it was asked for.
  labels: Option<Result<Labels, Unreadable>>,
  /// Those that stay because nobody knows whether they have a label, and why; all of them, if none is named.
  unknown: Vec<(Option<CheckpointEntry>, Error)>,
}

impl<'a> RetentionView<'a> {
  pub fn new(store: &'a Store, series: &'a Series, known: &'a mut SeriesMetadata) -> Self {
    Self {
      store,
      series,
      known,
      keys: None,
      labels: None,
      unknown: Vec::new(),
    }
  }

  /// Somebody has just stored the newest, and knows its size.
  pub fn is_told(&mut self, entry: &CheckpointEntry, size: u64) {
    self.known.place(entry).size = Some(size);
  }

  /// Looks for all these sizes, and for what they stand on, at once.
  pub fn measure(&mut self, entries: &[CheckpointEntry]) {
    let is_unknown = |entry: &&CheckpointEntry| {
      let fact = self.known.fact(entry);
      fact.size.is_none() || (entry.encoding == Encoding::Delta && fact.key.is_none())
    };
    let unknown: Vec<_> = entries.iter().filter(is_unknown).cloned().collect();
    if unknown.is_empty() {
      return;
    }
    let peeked = self.store.backend.peek_in(self.series, &unknown, REFERENCE_BYTES, 0);
    for (entry, peeked) in unknown.iter().zip(peeked.unwrap_or_default()) {
      if let Ok(Some(peek)) = peeked {
        let fact = self.known.place(entry);
        fact.size = Some(peek.size);
        if entry.encoding == Encoding::Delta {
          fact.key = Reference::of(&peek.head).map(|reference| reference.key);
        }
      }
    }
  }

  /// Nothing but these is remembered from now on. The answer is what could not be found out.
  pub fn finish(self, entries: &[CheckpointEntry]) -> Vec<(Option<CheckpointEntry>, Error)> {
    if self.known.len() > entries.len() {
      self.known.keep_only(entries);
    }
    self.unknown
  }

  /// What a later label says of it; an error if that cannot be known.
  fn later_label(&mut self, id: &CheckpointId) -> Result<Option<bool>, Unreadable> {
    if self.labels.is_none() {
      let read = self.store.read_labels(self.series);
      self.labels = Some(read.map_err(|error| {
        self.unknown.push((None, error));
        Unreadable
      }));
    }
    match &self.labels {
      Some(Ok(labels)) => Ok(labels.get(id).map(|label| label != "null")),
      _ => Err(Unreadable),
    }
  }

  fn was_labelled(&mut self, entry: &CheckpointEntry) -> bool {
    let found = self.store.infos(self.series, slice::from_ref(entry));
    let found = found.and_then(|mut found| found.pop().unwrap_or(Ok(None)));
    let is_labelled = match found {
      Ok(Some((info, _))) => info.get(LABEL).is_some_and(|label| label.starts_with('"')),
      // It is gone, or has no label that could be known.
      Ok(None) => return false,
      Err(error) if error.code == Code::Corrupt => false,
      Err(error) => {
        self.unknown.push((Some(entry.clone()), error));
        return true;
      }
    };
    self.known.place(entry).was_labelled = Some(is_labelled);
    is_labelled
  }
}

impl Facts for RetentionView<'_> {
  /// One of which nobody knows it stays.
  fn is_labelled(&mut self, entry: &CheckpointEntry) -> bool {
    match self.later_label(&entry.id) {
      Ok(Some(is_labelled)) => is_labelled,
      Ok(None) => match self.known.fact(entry).was_labelled {
        Some(is_labelled) => is_labelled,
        None => self.was_labelled(entry),
      },
      Err(Unreadable) => true,
    }
  }

  fn key(&mut self, entry: &CheckpointEntry) -> Option<(CheckpointId, u64)> {
    let key = self.known.fact(entry).key?;
    let keys = self.keys.get_or_insert_with(|| {
      let bases = self.store.backend.bases(self.series).unwrap_or_default().into_iter();
      let sizes = bases.filter_map(|base| match base.name {
        ItemName::Base(_, id) => Some((id, base.size?)),
        _ => None,
      });
      sizes.collect()
    });
    let bytes = keys.get(&key).copied().unwrap_or(0);
    Some((key, bytes))
  }

  /// 0 for what cannot be measured: nothing else goes for it.
  fn size(&mut self, entry: &CheckpointEntry) -> u64 {
    self.known.fact(entry).size.unwrap_or(0)
  }
}
