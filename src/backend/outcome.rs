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
  /// Nothing was stored: this checkpoint is the newest, not the expected parent.
  Conflict(Option<CheckpointId>),
  /// Nothing was stored: this checkpoint of another writer is newer.
  Behind(CheckpointEntry),
  /// Nothing was stored: the checkpoint does not exist.
  Missing,
  /// Nothing was stored: the base is missing or was changed, or another base has its name.
  BaseIsGone,
  /// Nothing was stored: the backend cannot prevent that the base is deleted meanwhile.
  BaseNotLocked,
}

/// The answer to a [`RetentionQuery`](super::RetentionQuery): the state immediately after the checkpoint was stored.
#[derive(Debug)]
pub struct RetentionAnswer {
  /// The retention document of the session.
  pub document: ReadResult,
  /// The checkpoints in scope, if they are known.
  pub list: Option<CheckpointPage>,
}

/// The size and time of a file. A base only grows: every other change is damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
  pub size: u64,
  /// In milliseconds; 0 if unknown.
  pub modified: u64,
}

/// The sizes of the head and the tail of a checkpoint, which are enough for its row in a list. The databases store them apart from
/// the middle. A checkpoint with a longer description is read whole.
pub const HEAD_BYTES: usize = 2048;
pub const TAIL_BYTES: usize = 1024;

/// The beginning and the end of an item, which overlap if it is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
  pub head: Vec<u8>,
  pub tail: Vec<u8>,
  /// The size of the whole item in bytes.
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
  /// In bytes; only for bases.
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
  /// An error that does not affect the answer.
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

  /// At most `limit` checkpoints that follow `after` in the list. `entries` are all of a series, newest first.
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

  /// The entries that are in scope. `entries` are in order, newest first.
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

/// A deleted session, which no reader sees.
#[derive(Debug, Default)]
pub struct DeletedSession {
  /// The error if its space could not be freed.
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

/// The space that a session takes up, and the number of its items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
  pub total_bytes: u64,
  /// The checkpoints of the session itself.
  pub checkpoints: u64,
  /// Those of them that are pinned.
  pub pinned: u64,
  pub agent_checkpoints: u64,
  pub results: u64,
  /// The newest checkpoint of the session itself.
  pub newest: Option<CheckpointEntry>,
}
