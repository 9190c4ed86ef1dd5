//! The text of a checkpoint: how one is laid out, and how it is checked.

use sha2::{Digest, Sha256};

use super::object::ObjectWriter;
use super::scan::{Member, SyntaxError, find, members};
use crate::error::{Code, Error, Result, shortened};
use crate::id::CheckpointId;
use crate::weakened;

/// The version that every checkpoint carries. A new meaning of a member is a new first number.
pub const VERSION: &str = "1.0.0";

/// The greatest first number of a version that this code understands.
const MAJOR_VERSION: u64 = 1;

/// The members of a session that a checkpoint names first, in this order; all others follow.
pub const SESSION_MEMBERS: [&str; 18] = [
  "id",
  "name",
  "description",
  "status",
  "rootTaskId",
  "lastCheckpointId",
  "checkpointIds",
  "autoCheckpointIntervalMs",
  "config",
  "createdAt",
  "startedAt",
  "pausedAt",
  "resumedAt",
  "completedAt",
  "expiresAt",
  "metrics",
  "errors",
  "metadata",
];

/// The members that `checksum` covers, in this order.
const CHECKSUM_MEMBERS: [&str; 4] = ["sessionId", "timestamp", "taskTree", "agentStates"];

/// All members of a checkpoint that the original writes.
const ORIGINAL_MEMBERS: [&str; 13] = [
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
];

/// The added last member: covers every other member of the document.
const INTEGRITY: &str = "integrity";

/// What a new checkpoint is made from.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
  pub id: &'a CheckpointId,
  pub timestamp: u64,
  /// Compact JSON of one object with the members `trigger`, `description`, `session`, `taskTree`, `agentStates`,
  /// `contextStore` and `metadata`, as the engine spells them.
  pub parts: &'a str,
}

/// Lays a checkpoint out as compact JSON.
pub fn compose(draft: Draft<'_>) -> Result<String> {
  let parts = members(draft.parts).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
  let object = |name: &str| object_part(&parts, name);
  let optional = |name: &str| find(&parts, name).map(|part| part.value);

  let id = format!("\"{}\"", draft.id);
  let timestamp = draft.timestamp.to_string();
  let session = members(object("session")?).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
  let session_id = find(&session, "id").map_or("null", |member| member.value);

  let mut out = ObjectWriter::with_capacity(draft.parts.len() + 1024);
  out.push("id", &id);
  out.push("sessionId", session_id);
  out.push("timestamp", &timestamp);
  for name in ["trigger", "description"] {
    if let Some(value) = optional(name) {
      out.push(name, value);
    }
  }
  out.push("session", &compose_session(&session, &id)?);
  let (tree, agents) = (object("taskTree")?, object("agentStates")?);
  out.push("taskTree", tree);
  out.push("agentStates", agents);
  out.push("contextStore", object("contextStore")?);
  let covered = CHECKSUM_MEMBERS.into_iter().zip([session_id, &timestamp, tree, agents]);
  out.push("checksum", &format!("\"{}\"", checksum(covered)));
  out.push("version", &format!("\"{VERSION}\""));
  out.push("sizeBytes", "0");
  if let Some(metadata) = optional("metadata") {
    out.push("metadata", metadata);
  }
  Ok(sealed(out.finish()))
}

fn object_part<'a>(parts: &[Member<'a>], name: &str) -> Result<&'a str> {
  let value = find(parts, name).map_or("nothing", |part| part.value);
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

fn compose_session(session: &[Member<'_>], id: &str) -> Result<String> {
  let size: usize = session.iter().map(|member| member.value.len() + 32).sum();
  let mut out = ObjectWriter::with_capacity(size);
  let (numbered, named): (Vec<&Member<'_>>, Vec<&Member<'_>>) =
    session.iter().partition(|member| is_index(member.raw_key));
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

/// Whether a key is an array index, which engines keep in a part of an object that comes first.
fn is_index(raw_key: &str) -> bool {
  raw_key
    .parse::<u32>()
    .is_ok_and(|index| index < u32::MAX && index.to_string() == raw_key)
}

fn appended(list: &str, item: &str) -> Result<String> {
  match list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
    Some("") => Ok(format!("[{item}]")),
    Some(items) => Ok(format!("[{items},{item}]")),
    None => Err(Error::invalid_argument("session.checkpointIds must be an array")),
  }
}

/// Adds the member that covers the whole document.
fn sealed(mut text: String) -> String {
  let digest = hex(&Sha256::digest(text.as_bytes()));
  text.pop();
  text.push_str(",\"");
  text.push_str(INTEGRITY);
  text.push_str("\":\"");
  text.push_str(&digest);
  text.push_str("\"}");
  text
}

fn checksum<'a>(covered: impl Iterator<Item = (&'a str, &'a str)>) -> String {
  let mut hasher = Sha256::new();
  let mut before = "{\"";
  for (name, value) in covered {
    hasher.update(before);
    hasher.update(name);
    hasher.update("\":");
    hasher.update(value);
    before = ",\"";
  }
  hasher.update(if before == "{\"" { "{}" } else { "}" });
  hex(&hasher.finalize())
}

fn hex(digest: &[u8]) -> String {
  const DIGITS: &[u8; 16] = b"0123456789abcdef";
  let mut text = String::with_capacity(digest.len() * 2);
  for byte in digest {
    text.push(char::from(DIGITS[usize::from(byte >> 4)]));
    text.push(char::from(DIGITS[usize::from(byte & 15)]));
  }
  text
}

/// A stored checkpoint, without white space, split into its members.
#[derive(Debug)]
pub struct Document<'a> {
  compact: &'a str,
  members: Vec<Member<'a>>,
}

impl<'a> Document<'a> {
  pub fn parse(compact: &'a str) -> Result<Self, SyntaxError> {
    Ok(Self {
      compact,
      members: members(compact)?,
    })
  }

  #[must_use]
  pub fn member(&self, name: &str) -> Option<&'a str> {
    find(&self.members, name).map(|member| member.value)
  }

  /// The version, if it is later than what this code understands.
  #[must_use]
  pub fn newer_version(&self) -> Option<&'a str> {
    let version = self.member("version")?.trim_matches('"');
    let major = version.split('.').next()?.parse::<u64>().ok()?;
    (major > MAJOR_VERSION).then_some(version)
  }

  /// Whether the stored checksums fit the stored text. Files of the original have the first one only.
  ///
  /// A `false` may still be a different spelling of the same data: only the engine that wrote it can tell.
  #[must_use]
  pub fn checksums_fit(&self) -> bool {
    let covered = CHECKSUM_MEMBERS
      .into_iter()
      .filter_map(|name| Some((name, self.member(name)?)));
    if weakened::by("checksum") {
      return true;
    }
    self.member("checksum") == Some(&format!("\"{}\"", checksum(covered))) && self.integrity_fits()
  }

  fn integrity_fits(&self) -> bool {
    let Some(integrity) = find(&self.members, INTEGRITY) else {
      // Only the original writes none, and it writes these and nothing else.
      return self.member("version") == Some("\"1.0.0\"")
        && self.member("sizeBytes") == Some("0")
        && self
          .members
          .iter()
          .all(|member| ORIGINAL_MEMBERS.iter().any(|name| member.is_named(name)));
    };
    let end = integrity.start + integrity.raw_key.len() + 3 + integrity.value.len();
    let mut hasher = Sha256::new();
    hasher.update(&self.compact[..integrity.start.saturating_sub(1)]);
    hasher.update(&self.compact[end..]);
    integrity.value == format!("\"{}\"", hex(&hasher.finalize()))
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  const PARTS: &str = concat!(
    r#"{"trigger":"manual","description":"d","session":{"7":"extra","id":"s","mine":1,"name":"n","#,
    r#""lastCheckpointId":null,"checkpointIds":["cp-0"],"metadata":{"m":1}},"taskTree":{"t":{"x":"é \" }"}},"#,
    r#""agentStates":{},"contextStore":{"k":1},"metadata":{"why":"not"}}"#
  );

  fn composed(parts: &str) -> Result<String> {
    compose(Draft {
      id: &CheckpointId::parse("cp-1").unwrap(),
      timestamp: 42,
      parts,
    })
  }

  #[test]
  fn members_come_in_the_order_of_the_contract() {
    let text = composed(PARTS).unwrap();
    let document = Document::parse(&text).unwrap();
    let keys: Vec<_> = document.members.iter().map(|m| m.raw_key).collect();
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
        "integrity"
      ]
    );
    assert_eq!(
      document.member("session").unwrap(),
      r#"{"7":"extra","id":"s","name":"n","lastCheckpointId":"cp-1","checkpointIds":["cp-0","cp-1"],"metadata":{"m":1},"mine":1}"#
    );
  }

  #[test]
  fn both_checksums_fit_what_was_composed_and_nothing_else() {
    let text = composed(PARTS).unwrap();
    assert!(Document::parse(&text).unwrap().checksums_fit());
    for (from, to) in [
      ("é", "è"),
      ("\"k\":1", "\"k\":2"),
      ("\"why\":\"not\"", "\"why\":\"yes\""),
      ("\"d\"", "\"e\""),
    ] {
      let changed = text.replacen(from, to, 1);
      assert_ne!(changed, text);
      assert!(!Document::parse(&changed).unwrap().checksums_fit(), "{from} -> {to}");
    }
    assert!(!Document::parse("{}").unwrap().checksums_fit());
    // Without the member that covers all, nothing but what the original writes is believed.
    let (original, _) = text.rsplit_once(",\"integrity\"").unwrap();
    assert!(Document::parse(&format!("{original}}}")).unwrap().checksums_fit());
    assert!(
      !Document::parse(&text.replace("\"integrity\"", "\"integrItY\""))
        .unwrap()
        .checksums_fit()
    );
  }

  #[test]
  fn only_a_later_first_number_is_a_newer_version() {
    for (version, is_newer) in [
      ("1.0.0", false),
      ("1.9.3", false),
      ("2.0.0", true),
      ("10", true),
      ("next", false),
    ] {
      let text = format!(r#"{{"version":"{version}"}}"#);
      assert_eq!(
        Document::parse(&text).unwrap().newer_version().is_some(),
        is_newer,
        "{version}"
      );
    }
    assert_eq!(Document::parse("{}").unwrap().newer_version(), None);
  }

  #[test]
  fn a_part_that_is_not_an_object_is_refused_by_name() {
    let error = composed(&PARTS.replace(r#""agentStates":{}"#, r#""agentStates":"gone""#)).unwrap_err();
    assert_eq!(error.code, Code::NotSerializable);
    assert!(
      error.message.starts_with("agentStates must become a JSON object"),
      "{error}"
    );
    let error = composed(&PARTS.replace(r#"["cp-0"]"#, "{}")).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
  }
}
