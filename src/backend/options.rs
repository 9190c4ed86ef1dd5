//! What callers pass to a backend: settings, options, conditions and contents.

use std::borrow::Borrow;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use super::{CheckpointEntry, Document, DocumentUpdate, Durability, Encoding, FileStamp, Item, PutOutcome, Series};
use crate::types::error::Result;
use crate::types::id::{AgentId, CheckpointId};
use crate::types::time::Timestamp;

/// How a backend is opened.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
  pub durability: Durability,
  /// Fail if the location does not exist, instead of creating it.
  pub must_exist: bool,
  /// How many earlier versions of the session document and the task tree are kept.
  pub keep_previous: u32,
  /// How long a call waits for a lock of another process. On a server it is the limit of the whole call, with waiting for a
  /// connection and retries.
  pub timeout: Duration,
  /// The maximum number of connections to a server.
  pub max_connections: usize,
}

impl Default for Settings {
  fn default() -> Self {
    Self {
      durability: Durability::default(),
      must_exist: false,
      keep_previous: 0,
      timeout: Duration::from_secs(10),
      max_connections: 10,
    }
  }
}

impl From<Durability> for Settings {
  fn from(durability: Durability) -> Self {
    Self {
      durability,
      ..Self::default()
    }
  }
}

/// Bytes to write: in memory, or produced while they are written. A `flush` before the end announces a pause, during which the
/// backend may let the disk begin to write.
pub trait Content {
  /// Writes all bytes. It may be called more than once, and always writes the same.
  fn write_to(&self, out: &mut dyn Write) -> io::Result<()>;
}

impl<T: AsRef<[u8]>> Content for T {
  fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(self.as_ref())
  }
}

/// Which sessions are listed.
#[derive(Debug, Clone, Copy)]
pub enum SessionFilter<'a> {
  /// All sessions, whatever they hold.
  All,
  /// Sessions with a session document.
  Saved,
  /// Sessions that have a checkpoint with this id. Checkpoints of agents do not count.
  WithCheckpoint(&'a CheckpointId),
}

/// Which items are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind<'a> {
  TaskResults,
  /// The earlier versions of a document.
  Previous(Document),
  /// The bases of the deltas of the session, or of one of its agents.
  Bases(Option<&'a AgentId>),
}

/// Which checkpoints of a series are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection<'a> {
  All,
  /// At most `limit` checkpoints: those that follow `after` in the list, or the newest ones without it.
  Page {
    after: Option<&'a CheckpointEntry>,
    limit: usize,
  },
  /// The checkpoint with this id.
  One(&'a CheckpointId),
  /// The checkpoints that retention may delete, and the newest. A backend may answer from a cache, so that the time does not grow
  /// with the number of checkpoints. Changes that other programs make without the store are noticed later.
  Retention(RetentionScope),
}

/// The checkpoints that retention has to decide on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionScope {
  /// All but so many of the newest. Pinned checkpoints are neither counted nor included.
  Beyond(usize),
  /// All checkpoints, pinned ones included.
  All,
}

/// How a checkpoint is stored.
#[derive(Clone)]
pub struct PutOptions<'a> {
  pub encoding: Encoding,
  /// Required for a delta, and for no other encoding.
  pub base: Option<BaseRef<'a>>,
  pub precondition: Precondition,
  /// What retention needs to know as soon as the checkpoint is stored.
  pub retention: Option<RetentionQuery>,
  /// How the labels of the session change in the same step.
  pub labels: Option<&'a NewLabels<'a>>,
}

impl PutOptions<'_> {
  /// Options without a precondition.
  #[must_use]
  pub fn new(encoding: Encoding) -> Self {
    Self {
      encoding,
      base: None,
      precondition: Precondition::None,
      retention: None,
      labels: None,
    }
  }
}

impl fmt::Debug for PutOptions<'_> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "{:?} if {:?}", self.encoding, self.precondition)
  }
}

/// The base of a delta: the bytes that must be stored, and those that are appended to them.
#[derive(Debug, Clone, Copy)]
pub struct BaseRef<'a> {
  pub id: &'a CheckpointId,
  /// How many bytes must be stored already; 0 for a new base.
  pub known: u64,
  /// The bytes to append.
  pub added: &'a [u8],
  /// The state of the base after the last write of this store.
  pub fingerprint: Option<BaseFingerprint>,
}

impl BaseRef<'_> {
  pub(super) fn size(&self) -> u64 {
    self.known + self.added.len() as u64
  }
}

/// The state of a base after the last write of this store.
#[derive(Debug, Clone, Copy)]
pub struct BaseFingerprint {
  pub stamp: FileStamp,
  /// The checksum at the end of the known bytes.
  pub checksum: u32,
}

/// What happens to a new base if one of its name exists. Ids are unique, so both begin with the same bytes, unless one was copied
/// from another store. A base that checkpoints need is never replaced by other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BaseMerge {
  /// No base of that name exists, or the new one continues it: write the new one.
  Write,
  /// The existing base continues the new one: keep it.
  Keep,
  /// The two differ: refuse the new one.
  Refuse,
}

impl BaseMerge {
  pub(super) fn of(new: &[u8], existing: Option<&[u8]>) -> Self {
    match existing {
      Some(existing) if existing.starts_with(new) => Self::Keep,
      Some(existing) if !new.starts_with(existing) => Self::Refuse,
      _ => Self::Write,
    }
  }
}

/// What must be true for a checkpoint to be stored. It is checked in the same atomic step as the write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Precondition {
  #[default]
  None,
  /// The checkpoint becomes the newest of its series.
  Newest(Newest),
  /// The checkpoint exists, in any encoding.
  Exists,
}

/// The checkpoint that must be the newest before another one is added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Parent {
  #[default]
  Any,
  /// The series must be empty.
  Missing,
  Checkpoint(CheckpointId),
}

impl Parent {
  pub(super) fn accepts(&self, newest: Option<&CheckpointId>) -> bool {
    match self {
      Self::Any => true,
      Self::Missing => newest.is_none(),
      Self::Checkpoint(parent) => Some(parent) == newest,
    }
  }
}

/// The conditions for a checkpoint to become the newest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Newest {
  pub parent: Parent,
  /// Checkpoints that may be newer nevertheless: those of later calls of the same store.
  pub later: Vec<CheckpointId>,
}

impl Newest {
  /// The outcome if the checkpoint cannot become the newest. `entries` are those of the series, newest first.
  pub(super) fn refusal<E: Borrow<CheckpointEntry>>(
    &self,
    new: &CheckpointEntry,
    entries: &mut dyn Iterator<Item = E>,
  ) -> Option<PutOutcome> {
    let mut entries = entries.peekable();
    let newest = entries.peek().map(|newest| &newest.borrow().id);
    if !self.parent.accepts(newest) {
      return Some(PutOutcome::Conflict(newest.cloned()));
    }
    // An entry of the same id is another checkpoint: two processes can choose the same id.
    let mut newer = entries.take_while(|entry| entry.borrow().is_newer_than(new) || entry.borrow().id == new.id);
    let foreign = newer.find(|entry| !self.later.contains(&entry.borrow().id));
    foreign.map(|newer| PutOutcome::Behind(newer.borrow().clone()))
  }
}

/// What retention needs to know as soon as a checkpoint is stored. A remote backend answers in the same round trip; others leave
/// [`PutOutcome::Stored`] without an answer.
#[derive(Debug, Clone, Copy)]
pub struct RetentionQuery {
  pub scope: RetentionScope,
  /// Whether all checkpoints in scope are to be deleted if the session has no retention of its own. A backend may delete them in
  /// the same step.
  pub may_delete: bool,
  /// The maximum size of the retention document in bytes.
  pub limit: u64,
}

impl RetentionQuery {
  /// How many checkpoints to keep, if nothing else decides.
  pub(super) fn keep(&self) -> Option<usize> {
    match self.scope {
      RetentionScope::Beyond(keep) if self.may_delete && u32::try_from(keep).is_ok() => Some(keep),
      _ => None,
    }
  }
}

/// How an item is deleted.
#[derive(Debug, Clone, Copy)]
pub enum DeleteMode {
  /// Deletes the item durably.
  Always,
  /// Deletes a checkpoint unless it is the newest of its series, is pinned, or has a label by this rule. The decision is part of
  /// the same atomic step. The checkpoint may reappear after a power cut, until [`Maintenance::SyncDeletes`].
  UnlessKept(Option<IsLabelled>),
}

/// Whether a labels document gives a checkpoint a label. A document that cannot be read gives one to every checkpoint.
pub type IsLabelled = fn(&[u8], &CheckpointId) -> bool;

/// An attribute of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribute {
  /// Whether retention keeps the checkpoint.
  Pinned(bool),
  /// The time of creation in milliseconds. It decides the position in the order if the id contains no time.
  MadeAt(Timestamp),
}

/// A maintenance task. No other call depends on it.
#[derive(Debug, Clone, Copy)]
pub enum Maintenance<'a> {
  /// Deletes the bases of a series that no checkpoint is based on. A crash may leave such bases.
  DeleteUnusedBases(&'a Series),
  /// Makes earlier deletions by [`DeleteMode::UnlessKept`] durable.
  SyncDeletes(&'a Series),
  /// Points the latest link to the newest checkpoint of a series, after checkpoints were added in bulk. Only files have such
  /// links.
  RefreshLatestLink(&'a Series),
  /// Returns the space of deleted checkpoints to the file system, if the backend keeps it.
  Vacuum,
}

/// An item for a session that is being created.
#[derive(Clone, Copy)]
pub struct NewItem<'a> {
  pub item: Item<'a>,
  pub content: &'a dyn Content,
  /// For a checkpoint: whether it is pinned.
  pub is_pinned: bool,
  /// The time of creation, for a checkpoint whose id contains none. Without it, the checkpoint becomes the newest.
  pub made_at: Option<Timestamp>,
}

impl fmt::Debug for NewItem<'_> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "new {}", self.item)
  }
}

/// Stores the items that it is called with, one at a time.
pub type ItemSink<'a> = dyn FnMut(NewItem<'_>) -> Result<()> + 'a;

/// Passes all items of a new session to the sink. The same item twice is an error. If the step has to be repeated, the source is
/// called again and starts over.
pub type ItemSource<'a> = dyn FnMut(&mut ItemSink<'_>) -> Result<()> + 'a;

/// Decides from the session document whether a session is deleted.
pub type Condition<'a> = dyn FnMut(Option<&[u8]>) -> Result<bool> + 'a;

/// The condition for deleting a session.
pub struct DeleteCondition<'a> {
  /// A session document of more bytes is an error.
  pub limit: u64,
  pub accepts: &'a mut Condition<'a>,
}

impl fmt::Debug for DeleteCondition<'_> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.write_str("a condition")
  }
}

/// Returns the next version of a document; `None` leaves it unchanged. For labels, it also gets the checkpoints of the session,
/// newest first: at least all that have a label in the document.
pub type DocumentChange<'a> = dyn FnMut(Option<Vec<u8>>, &[CheckpointEntry]) -> Result<Option<DocumentUpdate>> + 'a;

/// Returns the labels document to store with a new checkpoint, from the old one and the existing checkpoints, newest first.
pub type NewLabels<'a> = dyn Fn(Option<Vec<u8>>, &[CheckpointEntry]) -> Result<Vec<u8>> + 'a;
