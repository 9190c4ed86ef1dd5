//! A new checkpoint: its members in order, its checksums, and its text.

use std::borrow::Cow;
use std::io::{self, Write};

use sha2::{Digest, Sha256};

use crate::checkpoint::agent::CONTEXT;
use crate::checkpoint::document::{
  CHECKSUM, CHECKSUM_MEMBERS, INTEGRITY, Kind, LABEL, LEFT_TO_CHECKSUM, PARENT, SESSION_MEMBERS, VERSION, hex,
};
use crate::checkpoint::summary::Info;
use crate::json::canonical::array_index;
use crate::json::edit::ObjectWriter;
use crate::json::layout::{Layout, MAX_TEXT_UNITS, excess_units, too_long, units};
use crate::json::scan::{Member, SyntaxError, count, find, members};
use crate::types::error::{Code, Error, Result, shortened};
use crate::types::id::CheckpointId;
use crate::types::time::Timestamp;

/// The state to store, as canonical JSON. The three parts that may be large are objects with that one member: `{"taskTree":…}`.
#[derive(Debug, Clone)]
pub struct Parts {
  /// An object with the members `trigger`, `description`, `label`, `session` and `metadata`.
  pub head: String,
  pub task_tree: String,
  pub agent_states: String,
  pub context_store: String,
}

/// A key without its quotes, and a JSON text.
pub(super) type NamedValue<'a> = (&'a str, Cow<'a, str>);

/// A checkpoint that has not been written.
#[derive(Debug)]
pub struct NewCheckpoint<'a> {
  pub(super) kind: &'static Kind,
  /// The members before the checksum.
  pub(super) first: Vec<NamedValue<'a>>,
  /// The members between the checksum and the counts.
  pub(super) second: Vec<NamedValue<'a>>,
  /// The members after the counts.
  pub(super) third: Vec<NamedValue<'a>>,
}

/// Writes the members of a document.
trait MemberWriter {
  /// Adds a member.
  fn member(&mut self, name: &str, value: &str) -> io::Result<()> {
    self.counted_member(name, value).map(drop)
  }

  /// Adds a member, and counts the members or items of its value.
  fn counted_member(&mut self, name: &str, value: &str) -> io::Result<usize>;

  /// Lets the backend begin to write the members so far.
  fn flush(&mut self) -> io::Result<()>;
}

/// From this size on, the backend writes while the digests are computed.
const LARGE_BYTES: usize = 1 << 18;

impl<'a> NewCheckpoint<'a> {
  pub fn compose(id: &CheckpointId, timestamp: Timestamp, parts: &'a Parts) -> Result<Self> {
    let head = members(&parts.head).map_err(internal)?;
    let optional = |name: &'static str| find(&head, name).map(|part| (name, Cow::Borrowed(part.value)));
    let session_text = find(&head, "session").map_or("nothing", |part| part.value);
    let session = members(object("session", session_text)?).map_err(internal)?;
    let of_session = |name| find(&session, name).map(|member| member.value);

    let id = format!("\"{id}\"");
    let session_id = of_session("id").unwrap_or("null");
    let (tree, agents, context) = (
      only_member("taskTree", &parts.task_tree)?,
      only_member("agentStates", &parts.agent_states)?,
      only_member("contextStore", &parts.context_store)?,
    );

    let mut first: Vec<NamedValue<'a>> = Vec::with_capacity(9);
    let composed_session = compose_session(&session, &id)?;
    first.push(("id", id.into()));
    first.push(("sessionId", session_id.into()));
    first.push(("timestamp", timestamp.as_millis().to_string().into()));
    first.extend([optional("trigger"), optional("description")].into_iter().flatten());
    first.push(("session", composed_session.into()));
    first.push(("taskTree", tree.into()));
    first.push(("agentStates", agents.into()));
    first.push(("contextStore", context.into()));

    let mut second: Vec<NamedValue<'a>> = Vec::with_capacity(3);
    second.push(("version", format!("\"{VERSION}\"").into()));
    second.push(("sizeBytes", "0".into()));
    second.extend(optional("metadata"));

    let parent = of_session("lastCheckpointId").filter(|last| last.starts_with('"') && last.len() > 2);
    let mut third: Vec<NamedValue<'a>> = Vec::with_capacity(2);
    third.extend(optional(LABEL));
    third.extend(parent.map(|parent| (PARENT, Cow::Borrowed(parent))));
    Ok(Self {
      kind: &Kind::SESSION,
      first,
      second,
      third,
    })
  }

  /// The session as this checkpoint holds it.
  #[must_use]
  pub fn session(&self) -> &str {
    let session = self.first.iter().find(|(name, _)| *name == "session");
    session.map_or("{}", |(_, value)| value)
  }

  /// Writes it in the two-space layout.
  pub fn write_laid_out(&self, out: &mut dyn Write) -> io::Result<()> {
    self.check_length()?;
    let mut out = LaidOutWriter {
      layout: Layout::new(out, self.size()),
      is_empty: true,
    };
    self.write(&mut out)?;
    out.layout.new_line(0)?;
    out.layout.raw("}")?;
    out.layout.finish()
  }

  /// Its compact text, and its info for lists. An error if the text is too long to be read back.
  pub fn compact(&self) -> io::Result<(String, Info)> {
    self.check_length()?;
    let (text, info) = self.compact_of_any_length()?;
    if let Some(units) = excess_units(&text).map(|units| units - self.context_bytes())
      && units > MAX_TEXT_UNITS
    {
      return Err(io::Error::other(too_long("The state", units)));
    }
    Ok((text, info))
  }

  /// [`NewCheckpoint::compact`] without the limit on the length.
  pub(crate) fn compact_of_any_length(&self) -> io::Result<(String, Info)> {
    let mut out = ObjectWriter::with_capacity(self.size() + 512);
    let counts = self.write(&mut out)?;
    let value = |name: &str| {
      let count = self
        .kind
        .counted
        .iter()
        .zip(counts)
        .find(|((_, count), _)| *count == name);
      if let Some((_, count)) = count {
        return Some(count.to_string());
      }
      let mut all = self.first.iter().chain(&self.third);
      all
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value.to_string())
    };
    let info = Info::new(self.kind, value).ok_or_else(|| io::Error::other("a checkpoint without id or time"))?;
    Ok((out.finish(), info))
  }

  /// An error if the values alone are too long, before they are hashed.
  fn check_length(&self) -> io::Result<()> {
    if self.size() <= MAX_TEXT_UNITS {
      return Ok(());
    }
    let units: usize = self.first.iter().map(|(_, value)| units(value.as_bytes())).sum();
    let units = units - self.context_bytes();
    if units > MAX_TEXT_UNITS {
      return Err(io::Error::other(too_long("The state", units)));
    }
    Ok(())
  }

  /// The length of an agent's bytes in base64, which are removed from the text before an engine reads it.
  fn context_bytes(&self) -> usize {
    let mut all = self.first.iter().filter(|_| !self.kind.has_checksum);
    all
      .find(|(name, _)| *name == CONTEXT)
      .map_or(0, |(_, value)| value.len())
  }

  fn write(&self, out: &mut impl MemberWriter) -> io::Result<[usize; 2]> {
    let mut counts = [0; 2];
    for (name, value) in &self.first {
      match self.kind.counted.iter().position(|(counted, _)| counted == name) {
        Some(at) => counts[at] = out.counted_member(name, value)?,
        None => out.member(name, value)?,
      }
    }
    if self.size() >= LARGE_BYTES {
      out.flush()?;
    }
    let (checksum, mut integrity) = self.digests();
    let mut covered_member = |name: &str, value: &str| {
      integrity.update(",\"");
      integrity.update(name);
      integrity.update("\":");
      integrity.update(value);
      out.member(name, value)
    };
    if self.kind.has_checksum {
      covered_member(CHECKSUM, &format!("\"{checksum}\""))?;
    }
    for (name, value) in &self.second {
      covered_member(name, value)?;
    }
    for ((_, name), count) in self.kind.counted.iter().zip(counts) {
      covered_member(name, &count.to_string())?;
    }
    for (name, value) in &self.third {
      covered_member(name, value)?;
    }
    integrity.update("}");
    out.member(INTEGRITY, &format!("\"{}\"", hex(&integrity.finalize())))?;
    Ok(counts)
  }

  /// The checksum, and the integrity digest of the members before it.
  fn digests(&self) -> (String, Sha256) {
    let mut covered = Sha256::new();
    let mut integrity = Sha256::new();
    let mut before_covered = "{\"";
    let mut before = "{\"";
    for (name, value) in &self.first {
      integrity.update(before);
      integrity.update(name);
      integrity.update("\":");
      before = ",\"";
      if !(self.kind.has_checksum && LEFT_TO_CHECKSUM.contains(name)) {
        integrity.update(value.as_bytes());
      }
      if self.kind.has_checksum && CHECKSUM_MEMBERS.contains(name) {
        covered.update(before_covered);
        covered.update(name);
        covered.update("\":");
        covered.update(value.as_bytes());
        before_covered = ",\"";
      }
    }
    covered.update("}");
    (hex(&covered.finalize()), integrity)
  }

  fn size(&self) -> usize {
    self
      .first
      .iter()
      .map(|(name, value)| name.len() + value.len() + 8)
      .sum()
  }
}

struct LaidOutWriter<'a> {
  layout: Layout<'a>,
  is_empty: bool,
}

impl MemberWriter for LaidOutWriter<'_> {
  fn counted_member(&mut self, name: &str, value: &str) -> io::Result<usize> {
    self.layout.raw(if self.is_empty { "{" } else { "," })?;
    self.is_empty = false;
    self.layout.new_line(1)?;
    self.layout.raw("\"")?;
    self.layout.raw(name)?;
    self.layout.raw("\": ")?;
    self.layout.value(value, 1)
  }

  fn flush(&mut self) -> io::Result<()> {
    self.layout.flush()
  }
}

impl MemberWriter for ObjectWriter {
  fn member(&mut self, name: &str, value: &str) -> io::Result<()> {
    self.push(name, value);
    Ok(())
  }

  fn counted_member(&mut self, name: &str, value: &str) -> io::Result<usize> {
    self.push(name, value);
    Ok(count(value))
  }

  fn flush(&mut self) -> io::Result<()> {
    Ok(())
  }
}

/// The value of the one member of `{"name":value}`, which must be an object.
fn only_member<'a>(name: &str, text: &'a str) -> Result<&'a str> {
  let value = text
    .strip_prefix("{\"")
    .and_then(|rest| rest.strip_prefix(name)?.strip_prefix("\":")?.strip_suffix('}'));
  object(name, value.unwrap_or("nothing"))
}

/// The value, which must be an object: a `toJSON()` may have returned something else.
pub fn object<'a>(name: &str, value: &'a str) -> Result<&'a str> {
  if value.starts_with('{') {
    return Ok(value);
  }
  Err(Error::new(
    Code::NotSerializable,
    format!(
      "{name} must become a JSON object; its toJSON() made {} of it",
      shortened(value)
    ),
  ))
}

fn internal(error: SyntaxError) -> Error {
  Error::new(Code::Internal, error.to_string())
}

fn compose_session(session: &[Member<'_>], id: &str) -> Result<String> {
  let size: usize = session.iter().map(|member| member.value.len() + 32).sum();
  let mut out = ObjectWriter::with_capacity(size);
  let (numbered, named): (Vec<&Member<'_>>, Vec<&Member<'_>>) =
    session.iter().partition(|member| array_index(member.raw_key).is_some());
  // JavaScript orders array indexes first.
  for member in numbered {
    out.push(member.raw_key, member.value);
  }
  for name in SESSION_MEMBERS {
    match (name, find(session, name)) {
      ("lastCheckpointId", _) => out.push(name, id),
      ("checkpointIds", old) => out.push(name, &appended(old.map_or("[]", |member| member.value), id)?),
      (_, Some(member)) => out.push(name, member.value),
      (_, None) => {}
    }
  }
  for member in named {
    if !SESSION_MEMBERS.iter().any(|name| member.is_named(name)) {
      out.push(member.raw_key, member.value);
    }
  }
  Ok(out.finish())
}

fn appended(list: &str, item: &str) -> Result<String> {
  match list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
    Some("") => Ok(format!("[{item}]")),
    Some(items) => Ok(format!("[{items},{item}]")),
    None => Err(Error::invalid_argument("session.checkpointIds must be an array")),
  }
}

#[cfg(test)]
mod tests;
