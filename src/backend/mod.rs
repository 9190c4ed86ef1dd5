//! Where bytes live: one small, blocking trait, and the places that implement it.

use std::cmp::Ordering;
use std::fmt;
use std::io::{self, Write};

use crate::error::{Error, Result};
use crate::id::{CheckpointId, SessionId, TaskId};

#[cfg(test)]
mod contract;
pub mod file;
mod location;
mod memory;

pub use file::{Durability, FileBackend};
pub use location::open;
pub use memory::MemoryBackend;

/// How the bytes of a checkpoint spell its JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
  Json,
  Gzip,
}

impl Encoding {
  /// In the order in which a reader looks for them.
  pub const ALL: [Self; 2] = [Self::Json, Self::Gzip];

  /// As callers know it.
  #[must_use]
  pub fn name(self) -> &'static str {
    match self {
      Self::Json => "json",
      Self::Gzip => "gzip",
    }
  }

  #[must_use]
  pub fn ending(self) -> &'static str {
    match self {
      Self::Json => ".json",
      Self::Gzip => ".json.gz",
    }
  }
}

/// One thing that is stored below a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item<'a> {
  Session,
  TaskTree,
  Checkpoint(&'a CheckpointId, Encoding),
  TaskResult(&'a TaskId),
}

/// Where checkpoints and results lie below their session.
const CHECKPOINTS: &str = "checkpoints";
const RESULTS: &str = "results";

impl Item<'_> {
  /// The folder below the session that holds items of this kind, if they have one.
  #[must_use]
  pub fn folder(self) -> Option<&'static str> {
    match self {
      Self::Session | Self::TaskTree => None,
      Self::Checkpoint(..) => Some(CHECKPOINTS),
      Self::TaskResult(_) => Some(RESULTS),
    }
  }

  /// The name in that folder.
  #[must_use]
  pub fn file_name(self) -> String {
    match self {
      Self::Session => "session.json".to_owned(),
      Self::TaskTree => "task-tree.json".to_owned(),
      Self::Checkpoint(id, encoding) => format!("{id}{}", encoding.ending()),
      Self::TaskResult(id) => format!("{id}.json"),
    }
  }
}

/// The name of an item below its session, which is also its path in the file layout.
impl fmt::Display for Item<'_> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(folder) = self.folder() {
      write!(formatter, "{folder}/")?;
    }
    formatter.write_str(&self.file_name())
  }
}

/// A checkpoint as its name shows it; nothing was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointEntry {
  pub id: CheckpointId,
  pub encoding: Encoding,
  /// When it was made, in milliseconds: from the id, or for foreign names from the medium.
  pub made_at: u64,
}

impl CheckpointEntry {
  /// `fallback_time` is asked only for names that carry no time of their own.
  pub fn new(id: CheckpointId, encoding: Encoding, fallback_time: impl FnOnce() -> u64) -> Self {
    let made_at = time_in_id(id.as_str()).unwrap_or_else(fallback_time);
    Self { id, encoding, made_at }
  }

  /// From the name of its file; `None` if it is the name of something else.
  pub fn of_file(name: &str, fallback_time: impl FnOnce() -> u64) -> Option<Self> {
    // The longer ending first: `.json` alone would take `x.json.gz` for nothing, never for `x.json`.
    for encoding in [Encoding::Gzip, Encoding::Json] {
      if let Some(id) = name.strip_suffix(encoding.ending()) {
        return Some(Self::new(CheckpointId::parse(id).ok()?, encoding, fallback_time));
      }
    }
    None
  }

  #[must_use]
  pub fn item(&self) -> Item<'_> {
    Item::Checkpoint(&self.id, self.encoding)
  }

  /// Newest first.
  #[must_use]
  pub fn newest_first(&self, other: &Self) -> Ordering {
    let ours = (self.made_at, &self.id, self.encoding);
    (other.made_at, &other.id, other.encoding).cmp(&ours)
  }
}

/// The milliseconds in `cp-<base 36>-<six>`.
#[must_use]
pub fn time_in_id(id: &str) -> Option<u64> {
  let (time, tail) = id.strip_prefix("cp-")?.split_once('-')?;
  let is_digit = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
  if tail.len() == 6 && tail.bytes().all(is_digit) && time.bytes().all(is_digit) {
    // A number that JavaScript cannot count to is nobody's clock.
    u64::from_str_radix(time, 36).ok().filter(|time| *time < 1 << 53)
  } else {
    None
  }
}

/// What retention needs to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surplus {
  pub newest: Option<CheckpointEntry>,
  /// Those beyond the newest ones that are kept, oldest last.
  pub entries: Vec<CheckpointEntry>,
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

/// The beginning and the end of an item; they overlap if it is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
  pub head: Vec<u8>,
  pub tail: Vec<u8>,
  /// The bytes of the whole.
  pub size: u64,
}

/// What looking at one of several gave.
pub type Peeked = Result<Option<Peek>>;

/// What a session takes up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
  pub total_bytes: u64,
  pub checkpoints: u64,
  pub results: u64,
}

/// A place to keep sessions. Every call blocks until the place has answered, and may come from any thread.
pub trait Backend: Send + Sync + fmt::Debug {
  /// The name of the whole place, as `getBaseDir()` gives it.
  fn location(&self) -> String;

  /// The stable name of one thing in it: a path, for files.
  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String;

  fn initialize(&self) -> Result<()>;

  fn create_session(&self, session: &SessionId) -> Result<()>;

  /// The sessions that hold an [`Item::Session`], in the order of their ids.
  fn sessions(&self) -> Result<Vec<SessionId>>;

  /// Removes everything below a session; a missing session is no error. When it returns, the session is gone for
  /// every reader; the answer is what still kept its bytes from being freed.
  fn delete_session(&self, session: &SessionId) -> Result<Option<Error>>;

  /// Replaces one item, making the session if need be: readers see the old bytes or the new ones, whole. When it
  /// returns, they are as durable as the place can make them. The answer is how many they are.
  fn write(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64>;

  /// Replaces the session document and the task tree as one step: whatever happens, both are old or both are new.
  fn write_state(&self, session: &SessionId, session_document: &dyn Content, task_tree: &dyn Content) -> Result<()>;

  /// The bytes of an item; more than `limit` of them are an error.
  fn read(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>>;

  /// The first `head` and the last `tail` bytes of each of these checkpoints, as far as it has them; `None` for one that is
  /// missing.
  fn peek(&self, session: &SessionId, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<Peeked>>;

  /// Removes an item, and says whether it was there.
  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<bool>;

  /// Removes an item that nobody will miss: after a power cut it may be back.
  fn discard(&self, session: &SessionId, item: Item<'_>) -> Result<()> {
    self.remove(session, item).map(drop)
  }

  /// Moves an item that is damaged to where nobody reads it, and gives its new name; `None` if it is missing.
  fn quarantine(&self, session: &SessionId, item: Item<'_>) -> Result<Option<String>>;

  /// The checkpoints of a session, newest first, from their names alone.
  fn checkpoints(&self, session: &SessionId) -> Result<Vec<CheckpointEntry>>;

  /// The newest checkpoint of a session, and those beyond the `keep` newest. A place may answer from memory, so that it
  /// takes no longer the more there are; what others did to it without telling is then noticed a little later.
  fn surplus(&self, session: &SessionId, keep: usize) -> Result<Surplus> {
    let mut entries = self.checkpoints(session)?;
    Ok(Surplus {
      newest: entries.first().cloned(),
      entries: entries.split_off(keep.min(entries.len())),
    })
  }

  /// The tasks that have a result, in the order of their ids.
  fn results(&self, session: &SessionId) -> Result<Vec<TaskId>>;

  /// The sessions that hold a checkpoint of that id, in the order of their ids.
  fn sessions_with_checkpoint(&self, id: &CheckpointId) -> Result<Vec<SessionId>>;

  fn usage(&self, session: &SessionId) -> Result<Usage>;
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_time_in_an_id_is_read_only_from_ids_of_our_form() {
    assert_eq!(time_in_id("cp-mwima86h-4i7xwg"), Some(1_794_794_464_745));
    for foreign in [
      "backup",
      "cp-",
      "cp-x-12345",
      "cp-x-1234567",
      "cp-X-123456",
      "cp-zzzzzzzzzzzzzzzz-000000",
      "cp-3w5e11264sgsf-zzzzzz",
      "cp--000000",
    ] {
      assert_eq!(time_in_id(foreign), None, "{foreign}");
    }
  }
}
