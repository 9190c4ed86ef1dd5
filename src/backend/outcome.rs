//! What backends return.

use super::{CheckpointEntry, ItemName, RetentionScope};
use crate::types::error::{Error, Result};
use crate::types::id::CheckpointId;

/// The result of storing a checkpoint.
#[derive(Debug)]
pub enum PutOutcome {
  Stored {
    /// In bytes.
    size: u64,
    /// The state of the base of a delta.
    base: Option<FileStamp>,
    /// The answer to [`PutOptions::retention`](super::PutOptions), if the backend has one.
    retention: Option<RetentionAnswer>,
  },
  /// Nothing was stored: this is the newest, and not the expected parent.
  Conflict(Option<CheckpointId>),
  /// Nothing was stored: this one, of another writer, is newer.
  Behind(CheckpointEntry),
  /// Nothing was stored: the checkpoint does not exist.
  Missing,
  /// Nothing was stored: the base is missing or was changed, or its name is taken by another.
  BaseIsGone,
  /// Nothing was stored: the backend cannot guarantee that the base stays.
  BaseNotLocked,
}

/// The state when a checkpoint had just been stored.
#[derive(Debug)]
pub struct RetentionAnswer {
  /// The retention document of the session.
  pub document: ReadResult,
  /// The checkpoints in scope, if they are known.
  pub list: Option<CheckpointPage>,
}

/// What is known of a file without reading it. A base only grows; every other change is damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
  pub size: u64,
  /// In milliseconds; 0 if unknown.
  pub modified: u64,
}

/// The beginning and the end of an item; they overlap if it is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
  pub head: Vec<u8>,
  pub tail: Vec<u8>,
  /// Of the whole item, in bytes.
  pub size: u64,
}

impl Peek {
  #[must_use]
  pub fn of(bytes: &[u8], head: usize, tail: usize) -> Self {
    Self {
      head: bytes[..head.min(bytes.len())].to_vec(),
      tail: bytes[bytes.len().saturating_sub(tail)..].to_vec(),
      size: bytes.len() as u64,
    }
  }
}

/// The bytes of one of several items; `None` if it is missing.
pub type ReadResult = Result<Option<Vec<u8>>>;

/// Both ends of one of several items; `None` if it is missing.
pub type PeekResult = Result<Option<Peek>>;

/// An item as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedItem {
  pub name: ItemName,
  /// In bytes; known for bases.
  pub size: Option<u64>,
}

/// Some checkpoints of a series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointPage {
  /// Newest first, each id once.
  pub entries: Vec<CheckpointEntry>,
  /// How many checkpoints the series has; how many are selected, for [`Selection::Retention`](super::Selection).
  pub total: usize,
  /// The newest of the series, for [`Selection::Retention`](super::Selection).
  pub newest: Option<CheckpointEntry>,
  /// A failure that does not concern the answer.
  pub warning: Option<String>,
}

impl CheckpointPage {
  /// All checkpoints of a series, newest first.
  #[must_use]
  pub fn all(entries: Vec<CheckpointEntry>) -> Self {
    Self {
      total: entries.len(),
      newest: entries.first().cloned(),
      entries,
      warning: None,
    }
  }

  /// At most `limit` of all checkpoints of a series that come after `after`.
  #[must_use]
  pub fn cut(mut entries: Vec<CheckpointEntry>, after: Option<&CheckpointEntry>, limit: usize) -> Self {
    let total = entries.len();
    if let Some(after) = after {
      entries.drain(..entries.partition_point(|entry| entry.newest_first(after).is_le()));
    }
    entries.truncate(limit);
    Self {
      entries,
      total,
      ..Self::default()
    }
  }

  /// Those of `entries`, which come newest first, that are in scope.
  pub fn in_scope<'a>(entries: impl Iterator<Item = &'a CheckpointEntry>, scope: RetentionScope) -> Self {
    let mut entries = entries.peekable();
    let newest = entries.peek().copied().cloned();
    let entries: Vec<_> = match scope {
      RetentionScope::Beyond(keep) => entries.filter(|entry| !entry.is_pinned).skip(keep).cloned().collect(),
      RetentionScope::All => entries.cloned().collect(),
    };
    Self {
      total: entries.len(),
      entries,
      newest,
      warning: None,
    }
  }
}

/// A session that is deleted for every reader.
#[derive(Debug, Default)]
pub struct DeletedSession {
  /// Why its space was not freed.
  pub not_freed: Option<Error>,
}

/// The next version of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentUpdate {
  /// `None` deletes the document.
  pub document: Option<Vec<u8>>,
  /// The checkpoint that must still exist when the document is replaced.
  pub relies_on: Option<CheckpointId>,
}

impl From<Vec<u8>> for DocumentUpdate {
  fn from(document: Vec<u8>) -> Self {
    Self {
      document: Some(document),
      relies_on: None,
    }
  }
}

/// What a session takes up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
  pub total_bytes: u64,
  /// Of the session itself.
  pub checkpoints: u64,
  /// Those among them that are pinned.
  pub pinned: u64,
  pub agent_checkpoints: u64,
  pub results: u64,
  /// The newest checkpoint of the session itself.
  pub newest: Option<CheckpointEntry>,
}
