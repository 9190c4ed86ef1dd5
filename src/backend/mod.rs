//! Where bytes are stored: one small, blocking trait, and the backends that implement it.
//!
//! Belongs here: durability, locks, atomic steps, leases. Does not belong here: what a document or a checkpoint means. Uses
//! `codec`, for the references of deltas and the frames that the databases store, and `types`.

use std::fmt;

use crate::types::error::Result;
use crate::types::id::{AgentId, CheckpointId, SessionId};

#[cfg(test)]
pub mod conformance;
mod ext;
mod fences;
pub mod file;
mod item;
mod lease;
mod location;
mod memory;
mod options;
mod outcome;
mod postgres;
mod sql;
mod sqlite;
pub mod user_files;

pub use ext::{BackendExt, source_of};
pub use fences::Fences;
pub use file::{Durability, FileBackend};
pub use item::{CheckpointEntry, Document, Encoding, Item, ItemName, Series, time_in_id};
pub use lease::{Acquired, Claim, Lease, conflict_error};
pub use location::open;
pub use memory::MemoryBackend;
pub use options::{
  Attribute, BaseFingerprint, BaseRef, Condition, Content, DeleteCondition, DeleteMode, DocumentChange, IsLabelled,
  ItemKind, ItemSink, ItemSource, Maintenance, NewItem, NewLabels, Newest, Parent, Precondition, PutOptions,
  RetentionQuery, RetentionScope, Selection, SessionFilter, Settings,
};
pub use outcome::{
  CheckpointPage, DeletedSession, DocumentUpdate, FileStamp, HEAD_BYTES, ListedItem, Peek, PeekResult, PutOutcome,
  ReadResult, RetentionAnswer, TAIL_BYTES, Usage,
};
pub use postgres::PostgresBackend;
pub use sqlite::SqliteBackend;

use options::BaseMerge;

/// Stores sessions at one location. Every call blocks until it is done, and may come from any thread. [`BackendExt`] has
/// shorthands for frequent calls.
///
/// While a session is leased, every write to it fails with [`Code::LeaseLost`](crate::types::error::Code) unless the backend's
/// [`Fences`] hold the fencing token of that lease. The token is checked in the same atomic step as the write.
///
/// Closures that a caller passes must not call the backend, and may be called again if a step has to be repeated.
pub trait Backend: Send + Sync + fmt::Debug {
  /// The name of the location, as `getBaseDir()` gives it.
  fn location(&self) -> String;

  /// The stable name of an item: a path, for files.
  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String;

  /// Opens the location, and creates it if it is missing and [`Settings::must_exist`] is not set.
  fn open(&self) -> Result<()>;

  /// Closes all connections and files, even if it fails. [`Backend::open`] opens them again.
  fn close(&self) -> Result<()>;

  /// The sessions that `filter` selects, ordered by id.
  fn sessions(&self, filter: SessionFilter<'_>) -> Result<Vec<SessionId>>;

  /// The agents of a session that have or had checkpoints, ordered by id.
  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>>;

  /// The items of one kind that a session holds, ordered by name.
  fn items(&self, session: &SessionId, kind: ItemKind<'_>) -> Result<Vec<ListedItem>>;

  /// Creates a session. Without `source` it is empty, and an existing session is left unchanged. With `source`, its items are
  /// stored in one atomic step: if the source fails, or the session has any item already, nothing is stored. Returns `false` only
  /// if the session had items already.
  fn create_session(&self, session: &SessionId, source: Option<&mut ItemSource<'_>>) -> Result<bool>;

  /// Deletes a session and everything in it, if it meets the condition. Decision and deletion are one atomic step, and every
  /// write that is acknowledged later goes to a new session. `None` if the session was kept.
  fn delete_session(
    &self,
    session: &SessionId,
    condition: Option<DeleteCondition<'_>>,
  ) -> Result<Option<DeletedSession>>;

  /// Replaces an item atomically and durably, and creates the session if it is missing. Returns the size in bytes.
  fn put(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64>;

  /// Stores a checkpoint, and what a delta adds to its base, atomically and durably. It replaces the same checkpoint in any other
  /// encoding. Only the store that created a base may add to it.
  fn put_checkpoint(
    &self,
    series: &Series,
    id: &CheckpointId,
    content: &dyn Content,
    options: &PutOptions<'_>,
  ) -> Result<PutOutcome>;

  /// Replaces the session document and the task tree in one atomic step, if `confirm` returns true. It is called when both are
  /// staged, while the disk writes them. Returns whether they were replaced.
  fn put_state_if(
    &self,
    session: &SessionId,
    session_document: &dyn Content,
    task_tree: &dyn Content,
    confirm: &dyn Fn() -> bool,
  ) -> Result<bool>;

  /// Replaces a document by what `change` returns for it, in one atomic step. A document of more than `limit` bytes is an error.
  fn update_document(
    &self,
    session: &SessionId,
    document: Document,
    limit: u64,
    change: &mut DocumentChange<'_>,
  ) -> Result<()>;

  /// The bytes of each item. More than `limit` bytes are an error for that item.
  fn read_all(&self, items: &[(&SessionId, Item<'_>)], limit: u64) -> Result<Vec<ReadResult>>;

  /// The first `head` and the last `tail` bytes of each checkpoint.
  fn peek(&self, checkpoints: &[(&Series, &CheckpointEntry)], head: usize, tail: usize) -> Result<Vec<PeekResult>>;

  /// The checkpoints of each series that `selection` selects, newest first, from their names alone.
  fn list(&self, series: &[Series], selection: Selection<'_>) -> Result<Vec<CheckpointPage>>;

  /// Deletes an item, and returns whether it did. A checkpoint is deleted in every encoding. With the last checkpoint that is
  /// based on a base, the base is deleted too.
  fn delete(&self, session: &SessionId, item: Item<'_>, mode: DeleteMode) -> Result<bool>;

  /// Sets an attribute of a checkpoint, and returns whether the checkpoint exists.
  fn set_attribute(&self, series: &Series, id: &CheckpointId, attribute: Attribute) -> Result<bool>;

  /// Moves a damaged checkpoint to `damaged/`, and returns its new name; `None` if it is missing, or no longer holds the `judged`
  /// bytes, which is decided in the same step. Without `judged`, its bytes must be unreadable.
  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>>;

  /// The usage of each session.
  fn usage(&self, sessions: &[SessionId]) -> Result<Vec<Result<Usage>>>;

  /// Performs a maintenance task. Returns the size of the deleted bases in bytes.
  fn maintain(&self, task: Maintenance<'_>) -> Result<u64>;

  /// The fencing tokens that this backend writes with.
  fn fences(&self) -> &Fences;

  /// Leases a session, which need not exist, unless it is leased to another owner.
  fn acquire(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired>;

  /// Extends a lease from now on; `None` if it is lost.
  fn renew(&self, session: &SessionId, token: u64, ttl_ms: u64) -> Result<Option<Lease>>;

  /// Releases a lease, and returns whether it was still in force.
  fn release(&self, session: &SessionId, token: u64) -> Result<bool>;

  /// The leases that are held, ordered by session.
  fn leases(&self) -> Result<Vec<(SessionId, Lease)>>;
}
