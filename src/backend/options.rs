//! What callers pass to a backend: settings, options, conditions and contents.

use std::borrow::Borrow;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use super::{CheckpointEntry, Document, DocumentUpdate, Durability, Encoding, FileStamp, Item, PutOutcome, Series};
use crate::types::error::Result;
use crate::types::id::{AgentId, CheckpointId};

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
  /// The most connections to a server.
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

/// Bytes to be written: in memory, or produced while they are written. They may be asked for more than once. A `flush` in
/// between announces a pause, during which the backend may start to write.
pub trait Content {
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
  /// Whatever they hold.
  All,
  /// Those with a session document.
  Saved,
  /// Those that hold a checkpoint of their own with this id.
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
  /// At most `limit` of those after `after`, or from the newest on.
  Page {
    after: Option<&'a CheckpointEntry>,
    limit: usize,
  },
  /// The one with this id.
  One(&'a CheckpointId),
  /// Those that retention may delete, and the newest. A backend may answer from a cache, so that the time does not grow with the number
  /// of checkpoints; changes that were made behind its back are noticed later.
  Retention(RetentionScope),
}

/// Which checkpoints retention has to judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionScope {
  /// Those beyond so many of the newest. Pinned ones neither count nor are among them.
  Beyond(usize),
  /// All of them, pinned ones too.
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
  /// Stores a checkpoint whatever else is stored.
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
  /// How many bytes must be stored; 0 for a new base.
  pub known: u64,
  pub added: &'a [u8],
  /// The state of the base when something was last stored on it.
  pub fingerprint: Option<BaseFingerprint>,
}

impl BaseRef<'_> {
  pub(super) fn size(&self) -> u64 {
    self.known + self.added.len() as u64
  }
}

#[derive(Debug, Clone, Copy)]
pub struct BaseFingerprint {
  pub stamp: FileStamp,
  /// The last bytes of what is known.
  pub checksum: u32,
}

/// What happens if a new base meets one of its name. Names are unique, so both begin with the same bytes, unless one was copied
/// here from another store: a base that checkpoints need is never replaced by other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BaseMerge {
  /// There is none, or the new one continues it.
  Write,
  /// The present one continues the new one.
  Keep,
  /// They differ.
  Refuse,
}

impl BaseMerge {
  pub(super) fn of(new: &[u8], present: Option<&[u8]>) -> Self {
    match present {
      Some(present) if present.starts_with(new) => Self::Keep,
      Some(present) if !new.starts_with(present) => Self::Refuse,
      _ => Self::Write,
    }
  }
}

/// What must hold for a checkpoint to be stored. It is decided in the same step as the write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Precondition {
  #[default]
  None,
  /// The checkpoint becomes the newest of its series.
  Newest(Newest),
  /// The checkpoint is stored already, in any encoding.
  Exists,
}

/// The checkpoint that has to be the newest before another one is added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Parent {
  #[default]
  Any,
  /// The series has to be empty.
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

/// What it takes for a checkpoint to become the newest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Newest {
  pub parent: Parent,
  /// Checkpoints that may be newer all the same: those of later calls of the same store.
  pub later: Vec<CheckpointId>,
}

impl Newest {
  /// Why a checkpoint cannot become the newest; `entries` are those of the series, newest first.
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
    // A checkpoint of the same id is another one: two processes may choose the same id.
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
  /// Whether all checkpoints in scope are to be deleted if the session has no retention of its own: a backend may do so in the same
  /// step.
  pub may_delete: bool,
  /// The largest retention document that is read.
  pub limit: u64,
}

impl RetentionQuery {
  /// How many checkpoints are kept, if that is all there is to decide.
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
  /// Durably, whatever it is.
  Always,
  /// A checkpoint, unless it is the newest of its series, is pinned, or has a label by this rule; all of it is decided in the same
  /// step. It may reappear after a power cut, until [`Maintenance::SyncDeletes`].
  UnlessKept(Option<IsLabelled>),
}

/// Whether a labels document gives a checkpoint a label. A document that cannot be read gives one to every checkpoint.
pub type IsLabelled = fn(&[u8], &CheckpointId) -> bool;

/// An attribute of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribute {
  /// Whether retention keeps the checkpoint.
  Pinned(bool),
  /// When it was made, in milliseconds: its position in the order, if its id carries no time.
  MadeAt(u64),
}

/// Housekeeping that no other call waits for.
#[derive(Debug, Clone, Copy)]
pub enum Maintenance<'a> {
  /// Deletes the bases of a series that no checkpoint is based on, such as an interruption may leave.
  DeleteUnusedBases(&'a Series),
  /// Makes earlier deletions by [`DeleteMode::UnlessKept`] durable.
  SyncDeletes(&'a Series),
  /// Makes the link to the newest checkpoint of a series follow, if the backend has one: after checkpoints were added in bulk.
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
  /// For a checkpoint whose id carries no time: when it was made. Without it, it becomes the newest.
  pub made_at: Option<u64>,
}

impl fmt::Debug for NewItem<'_> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "new {}", self.item)
  }
}

/// Takes one item after the other.
pub type ItemSink<'a> = dyn FnMut(NewItem<'_>) -> Result<()> + 'a;

/// Hands over everything that a new session is to hold, one item at a time. An item that comes twice is an error. If a step is
/// repeated, it is called again and starts over.
pub type ItemSource<'a> = dyn FnMut(&mut ItemSink<'_>) -> Result<()> + 'a;

/// Decides by its session document whether a session is deleted.
pub type Condition<'a> = dyn FnMut(Option<&[u8]>) -> Result<bool> + 'a;

/// When a session is deleted.
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

/// Makes the next version of a document; `None` leaves it as it is. For labels, it is also given the checkpoints of the session,
/// newest first; no checkpoint that has a label in the document is missing among them.
pub type DocumentChange<'a> = dyn FnMut(Option<Vec<u8>>, &[CheckpointEntry]) -> Result<Option<DocumentUpdate>> + 'a;

/// Makes the labels document that goes with a new checkpoint, from the old one and the checkpoints before it, newest first.
pub type NewLabels<'a> = dyn Fn(Option<Vec<u8>>, &[CheckpointEntry]) -> Result<Vec<u8>> + 'a;
