//! Shorthands for frequent calls of a backend.

use std::collections::HashMap;

use super::{
  Backend, CheckpointEntry, CheckpointPage, Content, DeleteMode, Document, Item, ItemKind, ItemSink, ListedItem,
  NewItem, Peek, PeekResult, ReadResult, Selection, Series, Usage,
};
use crate::types::error::Result;
use crate::types::id::{CheckpointId, SessionId};

/// Shorthands for frequent calls of a [`Backend`].
pub trait BackendExt: Backend {
  /// The bytes of an item. More than `limit` bytes are an error.
  fn read(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
    self.read_all(&[(session, item)], limit)?.pop().unwrap_or(Ok(None))
  }

  /// Replaces the session document and the task tree in one atomic step.
  fn put_state(&self, session: &SessionId, session_document: &dyn Content, task_tree: &dyn Content) -> Result<()> {
    self
      .put_state_if(session, session_document, task_tree, &|| true)
      .map(drop)
  }

  /// Reads the same document of several sessions.
  fn read_documents(&self, sessions: &[SessionId], document: Document, limit: u64) -> Result<Vec<ReadResult>> {
    let item = Item::Document(document);
    let items: Vec<_> = sessions.iter().map(|session| (session, item)).collect();
    self.read_all(&items, limit)
  }

  /// The first `head` and the last `tail` bytes of each of these checkpoints of one series.
  fn peek_in(&self, series: &Series, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    let checkpoints: Vec<_> = entries.iter().map(|entry| (series, entry)).collect();
    self.peek(&checkpoints, head, tail)
  }

  /// The selected checkpoints of one series.
  fn list_one(&self, series: &Series, selection: Selection<'_>) -> Result<CheckpointPage> {
    let mut pages = self.list(std::slice::from_ref(series), selection)?;
    Ok(pages.pop().unwrap_or_default())
  }

  /// All checkpoints of a series, newest first.
  fn checkpoints(&self, series: &Series) -> Result<Vec<CheckpointEntry>> {
    Ok(self.list_one(series, Selection::All)?.entries)
  }

  /// A checkpoint, in the encoding that it has now.
  fn find(&self, series: &Series, id: &CheckpointId) -> Result<Option<CheckpointEntry>> {
    Ok(self.list_one(series, Selection::One(id))?.entries.pop())
  }

  /// The bases of a series, ordered by id.
  fn bases(&self, series: &Series) -> Result<Vec<ListedItem>> {
    self.items(&series.session, ItemKind::Bases(series.agent.as_ref()))
  }

  /// Deletes an item durably, and returns whether it existed.
  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<bool> {
    self.delete(session, item, DeleteMode::Always)
  }

  /// The usage of one session.
  fn usage_of(&self, session: &SessionId) -> Result<Usage> {
    self
      .usage(std::slice::from_ref(session))?
      .pop()
      .unwrap_or_else(|| Ok(Usage::default()))
  }
}

impl<T: Backend + ?Sized> BackendExt for T {}

/// The source of items that are in memory.
pub fn source_of<'a>(items: &'a [(Item<'a>, &'a dyn Content)]) -> impl FnMut(&mut ItemSink<'_>) -> Result<()> + 'a {
  |sink| {
    items.iter().try_for_each(|&(item, content)| {
      sink(NewItem {
        item,
        content,
        is_pinned: false,
        made_at: None,
      })
    })
  }
}

/// Runs `select` for each series, for backends that list one series at a time.
pub(super) fn each_series(
  series: &[Series],
  select: impl FnMut(&Series) -> Result<CheckpointPage>,
) -> Result<Vec<CheckpointPage>> {
  series.iter().map(select).collect()
}

/// Runs `peek` once per series, and returns the results in the order of `checkpoints`.
pub(super) fn peek_by_series<'a>(
  checkpoints: &[(&'a Series, &'a CheckpointEntry)],
  mut peek: impl FnMut(&'a Series, &[&'a CheckpointEntry]) -> Result<Vec<Result<Option<Peek>>>>,
) -> Vec<PeekResult> {
  let mut by_series: Vec<(&Series, Vec<usize>)> = Vec::new();
  let mut positions = HashMap::new();
  for (index, (series, _)) in checkpoints.iter().enumerate() {
    let at = *positions.entry(*series).or_insert_with(|| {
      by_series.push((series, Vec::new()));
      by_series.len() - 1
    });
    by_series[at].1.push(index);
  }
  let mut all: Vec<PeekResult> = checkpoints.iter().map(|_| Ok(None)).collect();
  for (series, indexes) in by_series {
    let entries: Vec<_> = indexes.iter().map(|index| checkpoints[*index].1).collect();
    match peek(series, &entries) {
      Ok(peeked) => {
        for (index, peeked) in indexes.into_iter().zip(peeked) {
          all[index] = peeked;
        }
      }
      // An error cannot be cloned: peek at each checkpoint alone, so that each has a result of its own.
      Err(_) => {
        for (index, entry) in indexes.into_iter().zip(entries) {
          all[index] = peek(series, &[entry]).and_then(|mut peeked| peeked.pop().unwrap_or(Ok(None)));
        }
      }
    }
  }
  all
}
