//! Where bytes live: one small, blocking trait, and the places that implement it.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::slice;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::types::error::{Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId, TaskId};

#[cfg(test)]
mod conformance;
pub mod file;
mod item;
mod lease;
mod location;
mod memory;
mod postgres;
mod sqlite;
pub mod user_files;

pub use file::{Durability, FileBackend};
pub use item::{CheckpointEntry, Document, Encoding, Item, ItemName, Series, time_in_id};
pub use lease::{Acquired, Claim, Fences, Lease, conflict_error};
pub use location::open;
pub use memory::MemoryBackend;
pub use postgres::PostgresBackend;
pub use sqlite::SqliteBackend;

/// What a place is told when it is opened.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
  pub durability: Durability,
  /// Whether a place that is not there is an error, and not made.
  pub must_exist: bool,
  /// How many earlier versions of the session document and the task tree stay.
  pub keep_previous: u32,
  /// How long a call waits for a lock that another process holds; on a server, how long it may take in all, with waiting for
  /// a connection and trying again.
  pub timeout: Duration,
  /// How many connections to a server there are at most.
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

/// Which checkpoints retention wants to hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionScope {
  /// Those beyond so many of the newest; pinned ones are neither counted nor among them.
  Beyond(usize),
  /// All of them, pinned ones too.
  All,
}

/// What retention needs to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionList {
  pub newest: Option<CheckpointEntry>,
  /// Those that were wanted, oldest last.
  pub entries: Vec<CheckpointEntry>,
  /// What went wrong beside the question.
  pub warning: Option<String>,
}

impl RetentionList {
  /// `entries` come newest first.
  pub fn of<'a>(entries: impl Iterator<Item = &'a CheckpointEntry>, wanted: RetentionScope) -> Self {
    let mut entries = entries.peekable();
    let newest = entries.peek().copied().cloned();
    Self {
      newest,
      entries: match wanted {
        RetentionScope::Beyond(keep) => entries.filter(|entry| !entry.is_pinned).skip(keep).cloned().collect(),
        RetentionScope::All => entries.cloned().collect(),
      },
      warning: None,
    }
  }
}

/// Bytes on their way to a place: at hand, or made while they are written. They may be asked for more than once. A
/// `flush` in the middle says that the next ones take a moment, which the place may use.
pub trait Content {
  fn write_to(&self, out: &mut dyn Write) -> io::Result<()>;
}

impl<T: AsRef<[u8]>> Content for T {
  fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(self.as_ref())
  }
}

/// What a delta needs to be there: so many bytes of a key, and those that are added to them.
#[derive(Debug, Clone, Copy)]
pub struct BaseRef<'a> {
  pub key: &'a CheckpointId,
  /// 0 for a key that is made now.
  pub known: u64,
  pub added: &'a [u8],
  /// How the key looked when something was last stored on it.
  pub seen: Option<BaseFingerprint>,
}

#[derive(Debug, Clone, Copy)]
pub struct BaseFingerprint {
  pub look: FileStamp,
  /// The last bytes of what is known.
  pub checksum: u32,
}

impl BaseRef<'_> {
  fn bytes(&self) -> u64 {
    self.known + self.added.len() as u64
  }
}

/// What is done where a new key meets one of its name. Names are unique, so both hold the same bytes from the beginning on,
/// unless one was copied here from elsewhere: a key that checkpoints need is never replaced by other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyMerge {
  /// There is none, or the new one continues it.
  Write,
  /// The present one continues the new one.
  Keep,
  /// They differ.
  Refuse,
}

impl KeyMerge {
  fn of(new: &[u8], present: Option<&[u8]>) -> Self {
    match present {
      Some(present) if present.starts_with(new) => Self::Keep,
      Some(present) if !new.starts_with(present) => Self::Refuse,
      _ => Self::Write,
    }
  }
}

/// What can be seen of a key without reading it. Its maker makes it longer; all other changes are damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
  pub size: u64,
  /// In milliseconds; 0 where nobody can tell.
  pub modified: u64,
}

/// A checkpoint on its way to a place.
#[derive(Clone, Copy)]
pub struct CheckpointWrite<'a> {
  pub encoding: Encoding,
  /// Of a delta, and of no other.
  pub footing: Option<BaseRef<'a>>,
  pub precondition: &'a Precondition,
  pub content: &'a dyn Content,
  /// What will be asked once it is stored.
  pub question: Option<&'a RetentionQuery>,
  /// How the labels of its session become others in the same step.
  pub labels: Option<&'a NewLabels<'a>>,
}

impl fmt::Debug for CheckpointWrite<'_> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
      formatter,
      "a checkpoint in {:?} if {:?}",
      self.encoding, self.precondition
    )
  }
}

/// What retention asks as soon as a checkpoint is stored. A place to which the way is long may answer it with the same
/// journey; elsewhere it is asked for by itself.
#[derive(Debug)]
pub struct RetentionQuery {
  pub wanted: RetentionScope,
  /// Whether all that is wanted goes, if the session has no retention of its own: a place may remove it in the same step.
  pub may_retire: bool,
  /// The most bytes that the retention of the session may have.
  pub limit: u64,
  answer: Mutex<Option<RetentionAnswer>>,
}

/// What was so when the checkpoint had just been stored.
#[derive(Debug)]
pub struct RetentionAnswer {
  /// The document that says which checkpoints of the session stay.
  pub retention: ReadResult,
  /// What was wanted, if it is known.
  pub surplus: Option<RetentionList>,
}

impl RetentionQuery {
  #[must_use]
  pub fn new(wanted: RetentionScope, may_retire: bool, limit: u64) -> Self {
    Self {
      wanted,
      may_retire,
      limit,
      answer: Mutex::default(),
    }
  }

  /// How many stay with the new one, where that is all there is to know.
  fn keep(&self) -> Option<usize> {
    match self.wanted {
      RetentionScope::Beyond(keep) if self.may_retire && u32::try_from(keep).is_ok() => Some(keep),
      _ => None,
    }
  }

  fn answer(&self, answer: RetentionAnswer) {
    *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
  }

  #[must_use]
  pub fn into_answer(self) -> Option<RetentionAnswer> {
    self.answer.into_inner().unwrap_or_else(PoisonError::into_inner)
  }
}

/// What must hold for a checkpoint to be stored. It is decided in the same step as the write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Precondition {
  #[default]
  None,
  /// The checkpoint becomes the newest of its series.
  Newest(Newest),
  /// The checkpoint is stored already, in this encoding or in another.
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
  fn accepts(&self, newest: Option<&CheckpointId>) -> bool {
    match self {
      Self::Any => true,
      Self::Missing => newest.is_none(),
      Self::Checkpoint(parent) => Some(parent) == newest,
    }
  }
}

/// What it means for a checkpoint to become the newest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Newest {
  pub parent: Parent,
  /// Checkpoints that may be newer all the same: those of later calls of the same store.
  pub later: Vec<CheckpointId>,
}

impl Newest {
  /// Why a checkpoint cannot become the newest; `entries` are those of the series, newest first.
  fn refusal<E: Borrow<CheckpointEntry>>(
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

/// What became of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
  /// It is stored, in so many bytes; a delta on a key that looks like that.
  Stored { size: u64, key: Option<FileStamp> },
  /// Nothing is stored: this is the newest, and not the expected parent.
  Conflict(Option<CheckpointId>),
  /// Nothing is stored: this one, of another writer, is newer.
  Behind(CheckpointEntry),
  /// Nothing is stored: the checkpoint does not exist.
  Missing,
  /// Nothing is stored: the key is not there any more, or not what it was, or its name is taken by another.
  KeyIsGone,
  /// Nothing is stored: the place cannot make sure that the key stays.
  Unguarded,
}

/// The beginning and the end of an item; they overlap if it is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
  pub head: Vec<u8>,
  pub tail: Vec<u8>,
  /// The bytes of the whole.
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

/// What reading one of several gave.
pub type ReadResult = Result<Option<Vec<u8>>>;

/// What looking at one of several gave.
pub type PeekResult = Result<Option<Peek>>;

/// What a session takes up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
  pub total_bytes: u64,
  /// Of the session itself.
  pub checkpoints: u64,
  /// Those among them that retention leaves alone.
  pub pinned: u64,
  pub agent_checkpoints: u64,
  pub results: u64,
  /// The newest checkpoint of the session itself.
  pub newest: Option<CheckpointEntry>,
}

/// Some checkpoints of a series, newest first, and how many there are in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
  pub entries: Vec<CheckpointEntry>,
  pub total: usize,
}

/// One thing on its way into a session that is being made.
#[derive(Clone, Copy)]
pub struct NewItem<'a> {
  pub item: Item<'a>,
  pub content: &'a dyn Content,
  /// Of a checkpoint: whether retention leaves it alone.
  pub is_pinned: bool,
  /// Of a checkpoint whose id carries no time: its place in the order. Without it, it is the newest of all.
  pub made_at: Option<u64>,
}

impl fmt::Debug for NewItem<'_> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "{} on its way", self.item)
  }
}

/// Takes one thing after the other.
pub type ItemSink<'a> = dyn FnMut(NewItem<'_>) -> Result<()> + 'a;

/// Hands over everything that a new session is to hold, one thing at a time. What comes twice is an error. It may be asked
/// again, from the beginning, if a step has to be repeated, and must not call the place.
pub type ItemSource<'a> = dyn FnMut(&mut ItemSink<'_>) -> Result<()> + 'a;

/// The supply of what is at hand.
pub fn supply_of<'a>(items: &'a [(Item<'a>, &'a dyn Content)]) -> impl FnMut(&mut ItemSink<'_>) -> Result<()> + 'a {
  |receive| {
    items.iter().try_for_each(|&(item, content)| {
      receive(NewItem {
        item,
        content,
        is_pinned: false,
        made_at: None,
      })
    })
  }
}

/// Decides whether a session goes, by its session document.
pub type Condition<'a> = dyn FnMut(Option<&[u8]>) -> Result<bool> + 'a;

/// A session that is gone for every reader.
#[derive(Debug)]
pub struct DeletedSession {
  /// What kept its bytes from being freed.
  pub left: Option<Error>,
}

/// How a document becomes another: `None` leaves it as it is.
pub type Change<'a> = dyn FnMut(Option<Vec<u8>>) -> Result<Option<Vec<u8>>> + 'a;

/// How the labels of a session become others: the document, and the checkpoints of the session, newest first; `None` leaves it as
/// it is.
pub type LabelsChange<'a> = dyn FnMut(Option<Vec<u8>>, &[CheckpointEntry]) -> Result<Option<LabelsUpdate>> + 'a;

/// How the labels of a session become others when a checkpoint is added: the document, and the checkpoints that there are before,
/// newest first. It must not call the backend, and may be called again if a step has to be repeated.
pub type NewLabels<'a> = dyn Fn(Option<Vec<u8>>, &[CheckpointEntry]) -> Result<Vec<u8>> + 'a;

/// New labels of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelsUpdate {
  /// `None` removes the document.
  pub document: Option<Vec<u8>>,
  /// The checkpoint that must still exist when they are stored.
  pub relies_on: Option<CheckpointId>,
}

/// Whether a document of labels gives a checkpoint one. A document that cannot be read gives all of them one.
pub type IsLabelled = fn(&[u8], &CheckpointId) -> bool;

/// A place to keep sessions. Every call blocks until the place has answered, and may come from any thread.
///
/// Where a session is owned, every write to it is refused with [`Code::LeaseLost`](crate::types::error::Code) unless it comes under the
/// number of that lease: as one step with the write, so that nobody can take the session over in between.
pub trait Backend: Send + Sync + fmt::Debug {
  /// The name of the whole place, as `getBaseDir()` gives it.
  fn location(&self) -> String;

  /// The stable name of one thing in it: a path, for files.
  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String;

  /// Opens the place, and makes it first if it is not there, unless it must be.
  fn initialize(&self) -> Result<()>;

  /// Closes all connections and files: the store is closed. [`Backend::initialize`] opens them again. They are closed even if
  /// the answer is an error.
  fn rest(&self) -> Result<()> {
    Ok(())
  }

  fn create_session(&self, session: &SessionId) -> Result<()>;

  /// The sessions that hold a session document, in the order of their ids.
  fn sessions(&self) -> Result<Vec<SessionId>>;

  /// All that could be sessions, whatever they hold, in the order of their ids.
  fn places(&self) -> Result<Vec<SessionId>>;

  /// The agents of a session that have checkpoints, or had some, in the order of their ids.
  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>>;

  /// Removes everything below a session; a missing session is no error. When it returns, the session is gone for
  /// every reader; the answer is what still kept its bytes from being freed.
  fn delete_session(&self, session: &SessionId) -> Result<Option<Error>>;

  /// Deletes a session likewise, if `condition` accepts its session document; `None` if the session stays. The decision and
  /// the deletion are one step: every write that is acknowledged later goes to a new session. More than `limit` bytes are an
  /// error. `condition` must not call the backend, and may be called again if a step has to be repeated.
  fn delete_session_if(
    &self,
    session: &SessionId,
    limit: u64,
    condition: &mut Condition<'_>,
  ) -> Result<Option<DeletedSession>>;

  /// Makes a session that holds what `supply` hands over, as one step: it is there when all of it is, and not at all if
  /// `supply` fails. The answer is whether it did: a session that holds anything already is left as it is.
  fn found(&self, session: &SessionId, supply: &mut ItemSource<'_>) -> Result<bool>;

  /// Replaces one item, making the session if need be: readers see the old bytes or the new ones, whole. When it
  /// returns, they are as durable as the place can make them. The answer is how many they are.
  fn write(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64>;

  /// Stores a checkpoint, and what a delta adds to its key, as durable as [`Backend::write`] would. It takes the place of the
  /// same checkpoint in any other encoding. Only the store that made a key may add to it.
  fn write_checkpoint(&self, series: &Series, id: &CheckpointId, new: CheckpointWrite<'_>) -> Result<PutOutcome>;

  /// The keys of a series, in the order of their ids, and how many bytes each has.
  fn keys(&self, series: &Series) -> Result<Vec<(CheckpointId, u64)>>;

  /// Removes keys that no checkpoint stands on, such as an interruption may leave. The answer is how many bytes they had.
  fn remove_unused_keys(&self, series: &Series) -> Result<u64>;

  /// Replaces the session document and the task tree as one step: whatever happens, both are old or both are new.
  fn write_state(&self, session: &SessionId, session_document: &dyn Content, task_tree: &dyn Content) -> Result<()>;

  /// Replaces a document by what `change` makes of it, as one step: nobody else changes it in between. More than `limit`
  /// bytes are an error. `change` must not call the place, and may be called again if a step has to be repeated.
  fn update(&self, session: &SessionId, document: Document, limit: u64, change: &mut Change<'_>) -> Result<()>;

  /// The same for the labels of a session, whose change depends on which checkpoints exist. A checkpoint that is stored before its
  /// label is given is among them.
  fn update_labels(&self, session: &SessionId, limit: u64, change: &mut LabelsChange<'_>) -> Result<()>;

  /// The bytes of an item; more than `limit` of them are an error.
  fn read(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>>;

  /// The first `head` and the last `tail` bytes of each of these checkpoints, as far as it has them; `None` for one that is
  /// missing.
  fn peek(&self, series: &Series, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<PeekResult>>;

  /// How many earlier versions of a document there are.
  fn versions(&self, session: &SessionId, document: Document) -> Result<u32>;

  /// Removes an item, and says whether it was there; a checkpoint in whatever encoding it has. With the last checkpoint that stands
  /// on a key, the key goes too.
  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<bool>;

  /// Removes a checkpoint likewise, unless it is the newest of its series or pinned, or has a label that was given later and `spare`
  /// is asked: all of it is decided in the same step. The answer is whether it was removed; after a power cut it may be back.
  fn retire(&self, series: &Series, entry: &CheckpointEntry, spare: Option<IsLabelled>) -> Result<bool>;

  /// Makes it last: what was retired of a series before this call does not come back, not even after a power cut.
  fn confirm_retired(&self, series: &Series) -> Result<()>;

  /// Gives what removed checkpoints took up back to whoever has the space, if the place kept it for itself.
  fn give_back_space(&self) -> Result<()> {
    Ok(())
  }

  /// Gives a checkpoint the place in the order that `entry` has, if its id carries no time of its own.
  fn set_made_at(&self, series: &Series, entry: &CheckpointEntry) -> Result<()>;

  /// Keeps retention from a checkpoint, or lets it go again. The answer is whether it was there.
  fn set_pinned(&self, series: &Series, id: &CheckpointId, is_pinned: bool) -> Result<bool>;

  /// Moves a damaged checkpoint to `damaged/`, and gives its new name; `None` if it is missing, or does not hold the `judged` bytes any
  /// more, which is decided in the same step. Without `judged`, it must be one of which the bytes cannot be read.
  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>>;

  /// The checkpoints of a series, each once, newest first, from their names alone.
  fn checkpoints(&self, series: &Series) -> Result<Vec<CheckpointEntry>>;

  /// One of them, in the encoding that it has now.
  fn find(&self, series: &Series, id: &CheckpointId) -> Result<Option<CheckpointEntry>>;

  /// So many of them that come after one in that order, or from the newest on.
  fn page(&self, series: &Series, after: Option<&CheckpointEntry>, limit: usize) -> Result<Page> {
    let mut entries = self.checkpoints(series)?;
    let total = entries.len();
    if let Some(after) = after {
      entries.drain(..entries.partition_point(|entry| entry.newest_first(after).is_le()));
    }
    entries.truncate(limit);
    Ok(Page { entries, total })
  }

  /// The newest checkpoint of a series, and those that are wanted. A place may answer from memory, so that it takes no
  /// longer the more there are; what others did to it without telling is then noticed a little later.
  fn surplus(&self, series: &Series, wanted: RetentionScope) -> Result<RetentionList> {
    Ok(RetentionList::of(self.checkpoints(series)?.iter(), wanted))
  }

  /// Lets whatever points to the newest checkpoint of a series point there, if the place has such a thing: for checkpoints
  /// that came in another way than one by one.
  fn settle_newest(&self, _series: &Series) -> Result<()> {
    Ok(())
  }

  /// The tasks that have a result, in the order of their ids.
  fn results(&self, session: &SessionId) -> Result<Vec<TaskId>>;

  /// The sessions that hold a checkpoint of their own of that id, in the order of their ids.
  fn sessions_with_checkpoint(&self, id: &CheckpointId) -> Result<Vec<SessionId>>;

  fn usage(&self, session: &SessionId) -> Result<Usage>;

  /// [`Backend::read`] for a document of each of these sessions. Like the next two, for a place that can answer many questions
  /// at once.
  fn read_each(&self, sessions: &[SessionId], document: Document, limit: u64) -> Result<Vec<ReadResult>> {
    let read = |session| self.read(session, Item::Document(document), limit);
    Ok(sessions.iter().map(read).collect())
  }

  /// [`Backend::usage`] for each of these sessions.
  fn usage_each(&self, sessions: &[SessionId]) -> Result<Vec<Result<Usage>>> {
    Ok(sessions.iter().map(|session| self.usage(session)).collect())
  }

  /// [`Backend::checkpoints`] for each of these sessions, without those of their agents.
  fn checkpoints_each(&self, sessions: &[SessionId]) -> Result<Vec<Vec<CheckpointEntry>>> {
    let list = |session: &SessionId| self.checkpoints(&session.into());
    sessions.iter().map(list).collect()
  }

  /// [`Backend::peek`] for checkpoints of several series.
  fn peek_each(&self, of: &[(Series, CheckpointEntry)], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    let mut by_series: HashMap<&Series, Vec<usize>> = HashMap::new();
    for (at, (series, _)) in of.iter().enumerate() {
      by_series.entry(series).or_default().push(at);
    }
    let mut all: Vec<PeekResult> = of.iter().map(|_| Ok(None)).collect();
    for (series, places) in by_series {
      let entries: Vec<_> = places.iter().map(|at| of[*at].1.clone()).collect();
      match self.peek(series, &entries, head, tail) {
        Ok(peeked) => {
          for (at, peeked) in places.into_iter().zip(peeked) {
            all[at] = peeked;
          }
        }
        // The error belongs to each of them, and there is only one: ask for each alone.
        Err(_) => {
          for (at, entry) in places.into_iter().zip(&entries) {
            let peeked = self.peek(series, slice::from_ref(entry), head, tail);
            all[at] = peeked.and_then(|mut peeked| peeked.pop().unwrap_or(Ok(None)));
          }
        }
      }
    }
    Ok(all)
  }

  /// Under which numbers the owner of this place writes.
  fn fences(&self) -> &Fences;

  /// Makes somebody the owner of a session, which need not exist yet, unless somebody else is.
  fn acquire(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired>;

  /// Lets a lease last for so long from now; `None` if it is lost.
  fn renew(&self, session: &SessionId, number: u64, ttl_ms: u64) -> Result<Option<Lease>>;

  /// Gives a lease back, and says whether it was still there.
  fn release(&self, session: &SessionId, number: u64) -> Result<bool>;

  /// The leases that somebody holds, in the order of the sessions.
  fn leases(&self) -> Result<Vec<(SessionId, Lease)>>;
}
