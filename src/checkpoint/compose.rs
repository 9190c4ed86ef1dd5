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
use crate::json::layout::{Layout, MAX_TEXT_UNITS, excess_units, no_engine_holds, units};
use crate::json::scan::{Member, SyntaxError, count, find, members};
use crate::types::error::{Code, Error, Result, shortened};
use crate::types::id::CheckpointId;

/// What the caller wants stored, as compact JSON in the engine's spelling. The three that may be large come as objects
/// with that one member: `{"taskTree":…}`.
#[derive(Debug, Clone)]
pub struct Parts {
  /// An object with the members `trigger`, `description`, `label`, `session` and `metadata`.
  pub head: String,
  pub task_tree: String,
  pub agent_states: String,
  pub context_store: String,
}

/// The inside of a name's literal, and a JSON text.
pub(super) type NamedValue<'a> = (&'a str, Cow<'a, str>);

/// A checkpoint that is about to be written.
#[derive(Debug)]
pub struct NewCheckpoint<'a> {
  pub(super) kind: &'static Kind,
  /// What comes before the checksum.
  pub(super) first: Vec<NamedValue<'a>>,
  /// What comes after it, up to the counts.
  pub(super) second: Vec<NamedValue<'a>>,
  /// What comes after the counts.
  pub(super) third: Vec<NamedValue<'a>>,
}

/// How the text of a document is put down.
trait Page {
  /// Adds a member.
  fn member(&mut self, name: &str, value: &str) -> io::Result<()> {
    self.counted_member(name, value).map(drop)
  }

  /// Adds a member, and counts what is in its value.
  fn counted_member(&mut self, name: &str, value: &str) -> io::Result<usize>;

  /// What has been added may be on its way already.
  fn pass_on(&mut self) -> io::Result<()>;
}

/// From this size on it is worth while that the medium begins to write while the digests are computed.
const LARGE_BYTES: usize = 1 << 18;

impl<'a> NewCheckpoint<'a> {
  pub fn compose(id: &CheckpointId, timestamp: u64, parts: &'a Parts) -> Result<Self> {
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
    first.push(("timestamp", timestamp.to_string().into()));
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
    let found = self.first.iter().find(|(name, _)| *name == "session");
    found.map_or("{}", |(_, value)| value)
  }

  /// Writes it in the two-space layout.
  pub fn write_laid_out(&self, out: &mut dyn Write) -> io::Result<()> {
    self.check_length()?;
    let mut page = LaidOut {
      layout: Layout::new(out, self.size()),
      is_empty: true,
    };
    self.write(&mut page)?;
    page.layout.new_line(0)?;
    page.layout.raw("}")?;
    page.layout.finish()
  }

  /// Its compact text, and what a list shows of it. An error if no engine could read it back.
  pub fn compact(&self) -> io::Result<(String, Info)> {
    self.check_length()?;
    let (text, info) = self.compact_of_any_length()?;
    if let Some(units) = excess_units(&text).map(|units| units - self.context_bytes())
      && units > MAX_TEXT_UNITS
    {
      return Err(io::Error::other(no_engine_holds("The state", units)));
    }
    Ok((text, info))
  }

  /// The same, however long it is.
  pub(crate) fn compact_of_any_length(&self) -> io::Result<(String, Info)> {
    let mut page = ObjectWriter::with_capacity(self.size() + 512);
    let counts = self.write(&mut page)?;
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
    Ok((page.finish(), info))
  }

  /// An error if the values alone are more than an engine can hold: they need not be hashed then.
  fn check_length(&self) -> io::Result<()> {
    if self.size() <= MAX_TEXT_UNITS {
      return Ok(());
    }
    let units: usize = self.first.iter().map(|(_, value)| units(value.as_bytes())).sum();
    let units = units - self.context_bytes();
    if units > MAX_TEXT_UNITS {
      return Err(io::Error::other(no_engine_holds("The state", units)));
    }
    Ok(())
  }

  /// The base64 of an agent's bytes: it is taken out of the text before an engine reads it.
  fn context_bytes(&self) -> usize {
    let mut all = self.first.iter().filter(|_| !self.kind.has_checksum);
    all
      .find(|(name, _)| *name == CONTEXT)
      .map_or(0, |(_, value)| value.len())
  }

  fn write(&self, page: &mut impl Page) -> io::Result<[usize; 2]> {
    let mut counts = [0; 2];
    for (name, value) in &self.first {
      match self.kind.counted.iter().position(|(counted, _)| counted == name) {
        Some(at) => counts[at] = page.counted_member(name, value)?,
        None => page.member(name, value)?,
      }
    }
    if self.size() >= LARGE_BYTES {
      page.pass_on()?;
    }
    let (checksum, mut seal) = self.digests();
    let mut sealed_member = |name: &str, value: &str| {
      seal.update(",\"");
      seal.update(name);
      seal.update("\":");
      seal.update(value);
      page.member(name, value)
    };
    if self.kind.has_checksum {
      sealed_member(CHECKSUM, &format!("\"{checksum}\""))?;
    }
    for (name, value) in &self.second {
      sealed_member(name, value)?;
    }
    for ((_, name), count) in self.kind.counted.iter().zip(counts) {
      sealed_member(name, &count.to_string())?;
    }
    for (name, value) in &self.third {
      sealed_member(name, value)?;
    }
    seal.update("}");
    page.member(INTEGRITY, &format!("\"{}\"", hex(&seal.finalize())))?;
    Ok(counts)
  }

  /// The checksum, and the beginning of the digest that covers the rest.
  fn digests(&self) -> (String, Sha256) {
    let mut covered = Sha256::new();
    let mut seal = Sha256::new();
    let mut before_covered = "{\"";
    let mut before = "{\"";
    for (name, value) in &self.first {
      seal.update(before);
      seal.update(name);
      seal.update("\":");
      before = ",\"";
      if !(self.kind.has_checksum && LEFT_TO_CHECKSUM.contains(name)) {
        seal.update(value.as_bytes());
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
    (hex(&covered.finalize()), seal)
  }

  fn size(&self) -> usize {
    self
      .first
      .iter()
      .map(|(name, value)| name.len() + value.len() + 8)
      .sum()
  }
}

struct LaidOut<'a> {
  layout: Layout<'a>,
  is_empty: bool,
}

impl Page for LaidOut<'_> {
  fn counted_member(&mut self, name: &str, value: &str) -> io::Result<usize> {
    self.layout.raw(if self.is_empty { "{" } else { "," })?;
    self.is_empty = false;
    self.layout.new_line(1)?;
    self.layout.raw("\"")?;
    self.layout.raw(name)?;
    self.layout.raw("\": ")?;
    self.layout.value(value, 1)
  }

  fn pass_on(&mut self) -> io::Result<()> {
    self.layout.flush()
  }
}

impl Page for ObjectWriter {
  fn member(&mut self, name: &str, value: &str) -> io::Result<()> {
    self.push(name, value);
    Ok(())
  }

  fn counted_member(&mut self, name: &str, value: &str) -> io::Result<usize> {
    self.push(name, value);
    Ok(count(value))
  }

  fn pass_on(&mut self) -> io::Result<()> {
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

/// The value, which must be an object: a `toJSON()` may have made something else of it.
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
  // An engine puts these first whenever it reads the document, so they had better be there.
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
mod tests {
  use super::*;
  use crate::checkpoint::document::Document;
  use crate::json::layout::compact;

  fn parts() -> Parts {
    Parts {
      head: concat!(
        r#"{"trigger":"manual","description":"d","label":"l","session":{"7":"extra","id":"s","mine":1,"name":"n","#,
        r#""lastCheckpointId":"cp-0","checkpointIds":["cp-0"],"metadata":{"m":1}},"metadata":{"why":"not"}}"#
      )
      .to_owned(),
      task_tree: r#"{"taskTree":{"t":{"x":"é \" }"}}}"#.to_owned(),
      agent_states: r#"{"agentStates":{}}"#.to_owned(),
      context_store: r#"{"contextStore":{"k":1}}"#.to_owned(),
    }
  }

  fn composed(parts: &Parts) -> Result<String> {
    let checkpoint = NewCheckpoint::compose(&CheckpointId::parse("cp-1").unwrap(), 42, parts)?;
    Ok(checkpoint.compact().unwrap().0)
  }

  #[test]
  fn members_come_in_the_order_of_the_contract_and_ours_after_them() {
    let text = composed(&parts()).unwrap();
    let keys: Vec<_> = members(&text).unwrap().iter().map(|m| m.raw_key).collect();
    assert_eq!(
      keys,
      [
        "id",
        "sessionId",
        "timestamp",
        "trigger",
        "description",
        "session",
        "taskTree",
        "agentStates",
        "contextStore",
        "checksum",
        "version",
        "sizeBytes",
        "metadata",
        "taskCount",
        "agentCount",
        "label",
        "parent",
        "integrity"
      ]
    );
    assert_eq!(
      Document::parse(&text).unwrap().member("session").unwrap(),
      r#"{"7":"extra","id":"s","name":"n","lastCheckpointId":"cp-1","checkpointIds":["cp-0","cp-1"],"metadata":{"m":1},"mine":1}"#
    );
  }

  #[test]
  fn the_layout_is_the_same_document_whatever_its_size() {
    let mut parts = parts();
    for filling in ["", &"long ".repeat(LARGE_BYTES)] {
      parts.agent_states = format!(r#"{{"agentStates":{{"filling":"{filling}"}}}}"#);
      let checkpoint = NewCheckpoint::compose(&CheckpointId::parse("cp-1").unwrap(), 42, &parts).unwrap();
      let mut laid_out = Vec::new();
      checkpoint.write_laid_out(&mut laid_out).unwrap();
      let laid_out = String::from_utf8(laid_out).unwrap();
      assert!(laid_out.starts_with("{\n  \"id\": \"cp-1\",\n") && laid_out.ends_with("\"\n}"));
      assert_eq!(compact(&laid_out), composed(&parts).unwrap());
      assert!(Document::parse(&compact(&laid_out)).unwrap().checksums_match());
    }
  }

  #[test]
  fn both_checksums_match_what_was_composed_and_nothing_else() {
    let text = composed(&parts()).unwrap();
    assert!(Document::parse(&text).unwrap().checksums_match());
    for (from, to) in [
      ("é", "è"),
      ("\"k\":1", "\"k\":2"),
      ("\"why\":\"not\"", "\"why\":\"yes\""),
      ("\"d\"", "\"e\""),
    ] {
      let changed = text.replacen(from, to, 1);
      assert_ne!(changed, text);
      assert!(!Document::parse(&changed).unwrap().checksums_match(), "{from} -> {to}");
    }
    assert!(!Document::parse("{}").unwrap().checksums_match());
    // Without the member that covers all, nothing but what the original writes is believed.
    let (original, _) = text.rsplit_once(",\"taskCount\"").unwrap();
    assert!(Document::parse(&format!("{original}}}")).unwrap().checksums_match());
    assert!(
      !Document::parse(&text.replace("\"integrity\"", "\"integrItY\""))
        .unwrap()
        .checksums_match()
    );
  }

  #[test]
  fn no_byte_of_the_layout_is_left_uncovered() {
    let parts = parts();
    let checkpoint = NewCheckpoint::compose(&CheckpointId::parse("cp-1").unwrap(), 42, &parts).unwrap();
    let mut laid_out = Vec::new();
    checkpoint.write_laid_out(&mut laid_out).unwrap();
    let fits = |bytes: &[u8]| {
      let text = compact(str::from_utf8(bytes).ok()?);
      let fits = Document::parse(&text).ok()?.checksums_match();
      fits.then_some(text)
    };
    let whole = fits(&laid_out).unwrap();
    for at in 0..laid_out.len() {
      for other in *b";x{}[],:\" \n0\\" {
        let (before, after) = laid_out.split_at(at);
        let replaced = [before, &[other], &after[1..]].concat();
        let inserted = [before, &[other], after].concat();
        let removed = [before, &after[1..]].concat();
        for changed in [replaced, inserted, removed] {
          // Only changes of white space go unnoticed.
          assert!(fits(&changed).is_none_or(|text| text == whole), "{other} at {at}");
        }
      }
    }
  }

  #[test]
  fn a_second_member_of_a_name_is_not_left_uncovered() {
    let text = composed(&parts()).unwrap();
    let doubled = text.replacen("\"taskTree\":", "\"taskTree\":{\"smuggled\":1},\"taskTree\":", 1);
    assert!(!Document::parse(&doubled).unwrap().checksums_match());
  }

  #[test]
  fn a_part_that_is_not_an_object_is_refused_by_name() {
    let mut wrong = parts();
    wrong.agent_states = r#"{"agentStates":"gone"}"#.to_owned();
    let error = composed(&wrong).unwrap_err();
    assert_eq!(error.code, Code::NotSerializable);
    assert!(
      error.message.starts_with("agentStates must become a JSON object"),
      "{error}"
    );
    let mut wrong = parts();
    wrong.head = wrong.head.replace(r#"["cp-0"]"#, "{}");
    assert_eq!(composed(&wrong).unwrap_err().code, Code::InvalidArgument);
  }
}
