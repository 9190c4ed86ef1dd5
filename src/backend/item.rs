//! The items that a backend stores, and their names.

use std::cmp::Ordering;
use std::fmt;

use crate::types::id::{AgentId, CheckpointId, SessionId, TaskId};
use crate::types::session_cache::SessionKey;
use crate::types::time::Timestamp;

/// How the JSON text of a checkpoint is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
  Json,
  Gzip,
  Zstd,
  /// The difference from a text in a base.
  Delta,
}

impl Encoding {
  /// All encodings, in the order in which a reader tries them.
  pub const ALL: [Self; 4] = [Self::Json, Self::Gzip, Self::Zstd, Self::Delta];

  /// The name in options and results.
  #[must_use]
  pub fn name(self) -> &'static str {
    match self {
      Self::Json => "json",
      Self::Gzip => "gzip",
      Self::Zstd => "zstd",
      Self::Delta => "delta",
    }
  }

  /// The encoding of that name.
  #[must_use]
  pub fn named(name: &str) -> Option<Self> {
    Self::ALL.into_iter().find(|encoding| encoding.name() == name)
  }

  /// The extension of the file name.
  #[must_use]
  pub fn ending(self) -> &'static str {
    match self {
      Self::Json => ".json",
      Self::Gzip => ".json.gz",
      Self::Zstd => ".json.zst",
      Self::Delta => ".delta.zst",
    }
  }
}

/// The checkpoints of one session, or of one of its agents.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Series {
  pub session: SessionId,
  pub agent: Option<AgentId>,
}

impl Series {
  #[must_use]
  pub fn of(session: &SessionId, agent: Option<&AgentId>) -> Self {
    Self {
      session: session.clone(),
      agent: agent.cloned(),
    }
  }

  #[must_use]
  pub fn item<'a>(&'a self, id: &'a CheckpointId, encoding: Encoding) -> Item<'a> {
    Item::Checkpoint(self.agent.as_ref(), id, encoding)
  }

  #[must_use]
  pub fn base<'a>(&'a self, id: &'a CheckpointId) -> Item<'a> {
    Item::Base(self.agent.as_ref(), id)
  }

  #[must_use]
  pub fn item_of<'a>(&'a self, entry: &'a CheckpointEntry) -> Item<'a> {
    self.item(&entry.id, entry.encoding)
  }

  /// The directories below the session that lead to its checkpoints.
  #[must_use]
  pub fn folders(&self) -> Vec<&str> {
    folders(self.agent.as_ref())
  }
}

impl SessionKey for Series {
  fn is_of(&self, session: &SessionId) -> bool {
    self.session == *session
  }
}

impl From<SessionId> for Series {
  fn from(session: SessionId) -> Self {
    Self { session, agent: None }
  }
}

impl From<&SessionId> for Series {
  fn from(session: &SessionId) -> Self {
    session.clone().into()
  }
}

/// The series as error messages name it.
impl fmt::Display for Series {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(agent) = &self.agent {
      write!(formatter, "agent {agent} of ")?;
    }
    write!(formatter, "session {}", self.session)
  }
}

/// A document of a session, which is replaced as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Document {
  Session,
  TaskTree,
  /// Labels that checkpoints were given after their creation.
  Labels,
  /// The retention of the session, if it differs from that of the store.
  Retention,
}

impl Document {
  pub const ALL: [Self; 4] = [Self::Session, Self::TaskTree, Self::Labels, Self::Retention];

  /// The documents whose earlier versions can be kept.
  pub const VERSIONED: [Self; 2] = [Self::Session, Self::TaskTree];

  fn stem(self) -> &'static str {
    match self {
      Self::Session => "session",
      Self::TaskTree => "task-tree",
      Self::Labels => "labels",
      Self::Retention => "retention",
    }
  }
}

/// Anything that is stored below a session under one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item<'a> {
  Document(Document),
  /// An earlier version of a document; 1 is the one before the current.
  Previous(Document, u32),
  /// A checkpoint of the session, or of one of its agents.
  Checkpoint(Option<&'a AgentId>, &'a CheckpointId, Encoding),
  /// A base of deltas.
  Base(Option<&'a AgentId>, &'a CheckpointId),
  TaskResult(&'a TaskId),
}

/// The directories of checkpoints, agents and results below their session.
pub(super) const CHECKPOINTS: &str = "checkpoints";
pub(super) const AGENTS: &str = "agents";
pub(super) const RESULTS: &str = "results";

const BASE_EXTENSION: &str = ".key.zst";

/// The id of a base, from the name of its file.
pub(super) fn base_of_file(name: &str) -> Option<CheckpointId> {
  CheckpointId::parse(name.strip_suffix(BASE_EXTENSION)?).ok()
}

fn folders(agent: Option<&AgentId>) -> Vec<&str> {
  match agent {
    Some(agent) => vec![AGENTS, agent.as_str()],
    None => vec![CHECKPOINTS],
  }
}

impl<'a> Item<'a> {
  pub const SESSION: Item<'static> = Item::Document(Document::Session);
  pub const TASK_TREE: Item<'static> = Item::Document(Document::TaskTree);
  pub const LABELS: Item<'static> = Item::Document(Document::Labels);
  pub const RETENTION: Item<'static> = Item::Document(Document::Retention);

  /// A version of a document; 0 is the current one, 1 the one before it.
  #[must_use]
  pub fn version(document: Document, back: u32) -> Item<'static> {
    match back {
      0 => Item::Document(document),
      back => Item::Previous(document, back),
    }
  }

  /// The directories below the session that lead to the item; none for documents.
  #[must_use]
  pub fn folders(self) -> Vec<&'a str> {
    match self {
      Self::Document(_) | Self::Previous(..) => Vec::new(),
      Self::Checkpoint(agent, ..) | Self::Base(agent, _) => folders(agent),
      Self::TaskResult(_) => vec![RESULTS],
    }
  }

  /// The name in that directory.
  #[must_use]
  pub fn file_name(self) -> String {
    match self {
      Self::Document(document) => format!("{}.json", document.stem()),
      Self::Previous(document, back) => format!("{}.{back}.json", document.stem()),
      Self::Checkpoint(_, id, encoding) => format!("{id}{}", encoding.ending()),
      Self::Base(_, id) => format!("{id}{BASE_EXTENSION}"),
      Self::TaskResult(id) => format!("{id}.json"),
    }
  }
}

/// The name of an item below its session, which is also its path in the file layout.
impl fmt::Display for Item<'_> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    for folder in self.folders() {
      write!(formatter, "{folder}/")?;
    }
    formatter.write_str(&self.file_name())
  }
}

/// An [`Item`] that owns its ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ItemName {
  Document(Document),
  Previous(Document, u32),
  Checkpoint(Option<AgentId>, CheckpointId, Encoding),
  Base(Option<AgentId>, CheckpointId),
  TaskResult(TaskId),
}

impl ItemName {
  /// Parses the name of an [`Item`]; `None` for every other text. No part of the text is ever used as a path.
  #[must_use]
  pub fn parse(text: &str) -> Option<Self> {
    let name = Self::in_folders(&text.split('/').collect::<Vec<_>>())?;
    // Accept only the form that `Item` displays: no item has two names.
    (name.item().to_string() == text).then_some(name)
  }

  fn in_folders(path: &[&str]) -> Option<Self> {
    let checkpoint = |agent, file: &str| {
      if let Some(base) = base_of_file(file) {
        return Some(Self::Base(agent, base));
      }
      let entry = CheckpointEntry::of_file(file, Timestamp::default)?;
      Some(Self::Checkpoint(agent, entry.id, entry.encoding))
    };
    match *path {
      [file] => Self::of_document(file.strip_suffix(".json")?),
      [CHECKPOINTS, file] => checkpoint(None, file),
      [AGENTS, agent, file] => checkpoint(Some(AgentId::parse(agent).ok()?), file),
      [RESULTS, file] => Some(Self::TaskResult(TaskId::parse(file.strip_suffix(".json")?).ok()?)),
      _ => None,
    }
  }

  fn of_document(stem: &str) -> Option<Self> {
    let named = |stem: &str| Document::ALL.into_iter().find(|document| document.stem() == stem);
    if let Some(document) = named(stem) {
      return Some(Self::Document(document));
    }
    let (stem, back) = stem.split_once('.')?;
    let document = named(stem).filter(|document| Document::VERSIONED.contains(document))?;
    let back = back.parse().ok().filter(|back| *back > 0)?;
    Some(Self::Previous(document, back))
  }

  #[must_use]
  pub fn item(&self) -> Item<'_> {
    match self {
      Self::Document(document) => Item::Document(*document),
      Self::Previous(document, back) => Item::Previous(*document, *back),
      Self::Checkpoint(agent, id, encoding) => Item::Checkpoint(agent.as_ref(), id, *encoding),
      Self::Base(agent, id) => Item::Base(agent.as_ref(), id),
      Self::TaskResult(id) => Item::TaskResult(id),
    }
  }
}

/// A checkpoint as its name shows it. The payload has not been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointEntry {
  pub id: CheckpointId,
  pub encoding: Encoding,
  /// The time of creation: from the id, or from the backend if the id contains no time.
  pub made_at: Timestamp,
  /// Whether the checkpoint is exempt from retention.
  pub is_pinned: bool,
}

impl CheckpointEntry {
  /// An entry that is not pinned. `fallback_time` is called only if the id contains no time.
  pub fn new(id: CheckpointId, encoding: Encoding, fallback_time: impl FnOnce() -> Timestamp) -> Self {
    let made_at = time_in_id(id.as_str()).unwrap_or_else(fallback_time);
    Self {
      id,
      encoding,
      made_at,
      is_pinned: false,
    }
  }

  /// Parses the name of a file; `None` if it is not the name of a checkpoint.
  pub fn of_file(name: &str, fallback_time: impl FnOnce() -> Timestamp) -> Option<Self> {
    // No extension is the end of another, so at most one matches.
    let mut endings = Encoding::ALL.into_iter();
    let (id, encoding) = endings.find_map(|encoding| Some((name.strip_suffix(encoding.ending())?, encoding)))?;
    Some(Self::new(CheckpointId::parse(id).ok()?, encoding, fallback_time))
  }

  /// Whether the checkpoint comes after another one. The encoding does not matter.
  #[must_use]
  pub fn is_newer_than(&self, other: &Self) -> bool {
    (self.made_at, &self.id) > (other.made_at, &other.id)
  }

  /// Orders by time and id, newest first, for lists that have each id once.
  #[must_use]
  pub fn newest_id_first(&self, other: &Self) -> Ordering {
    (other.made_at, &other.id).cmp(&(self.made_at, &self.id))
  }

  /// Orders by time, id and encoding, newest first.
  #[must_use]
  pub fn newest_first(&self, other: &Self) -> Ordering {
    let ours = (self.made_at, &self.id, self.encoding);
    (other.made_at, &other.id, other.encoding).cmp(&ours)
  }
}

/// The time in an id of the form `cp-<time in base 36>-<six characters>`.
#[must_use]
pub fn time_in_id(id: &str) -> Option<Timestamp> {
  let (time, tail) = id.strip_prefix("cp-")?.split_once('-')?;
  let is_digit = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
  if tail.len() == 6 && tail.bytes().all(is_digit) && time.bytes().all(is_digit) {
    // Ids of this store never have a time beyond JavaScript's safe integers.
    let milliseconds = u64::from_str_radix(time, 36).ok().filter(|time| *time < 1 << 53);
    milliseconds.map(Timestamp::from_millis)
  } else {
    None
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn time_in_id_reads_only_ids_of_the_store() {
    assert_eq!(
      time_in_id("cp-mwima86h-4i7xwg"),
      Some(Timestamp::from_millis(1_794_794_464_745))
    );
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

  #[test]
  fn parse_accepts_exactly_the_names_that_items_display() {
    for text in [
      "session.json",
      "session.12.json",
      "task-tree.json",
      "task-tree.1.json",
      "labels.json",
      "retention.json",
      "checkpoints/cp-1-000000.json",
      "checkpoints/backup.json.gz",
      "checkpoints/cp-1-000000.delta.zst",
      "checkpoints/cp-1-000000.key.zst",
      "agents/a/x.key.key.zst",
      "agents/a b/x.json.json",
      "results/t.1.json",
    ] {
      assert_eq!(ItemName::parse(text).unwrap().item().to_string(), text);
    }
    for text in [
      "",
      "session",
      "session.0.json",
      "session.01.json",
      "session.+1.json",
      "session.1.2.json",
      "session.99999999999.json",
      "labels.1.json",
      "latest",
      "checkpoints",
      "checkpoints/",
      "checkpoints/x",
      "checkpoints/.json",
      "checkpoints/../session.json",
      "checkpoints/a/b.json",
      "checkpoints/x.pin",
      "agents/x.json",
      "agents/../x.json",
      "agents/a/b/x.json",
      "results/.hidden.json",
      "results/../../escaped.json",
      "results\\t.json",
      "/session.json",
      "../session.json",
      "./session.json",
      "logs/x.json",
      "damaged/x.json",
    ] {
      assert_eq!(ItemName::parse(text), None, "{text:?}");
    }
  }
}
