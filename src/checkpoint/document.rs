//! The members of a checkpoint document, and its checksums.

use sha2::{Digest, Sha256};

use crate::json::scan::{Member, SyntaxError, find, members};
use crate::types::fault_injection;

/// The version of the format. A member with a new meaning needs a new major version.
pub const VERSION: &str = "1.0.0";

/// The greatest major version that this code can read.
const MAJOR_VERSION: u64 = 1;

/// The members of a session that come first, in this order; all others follow.
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

pub const CHECKSUM: &str = "checksum";

/// The members that `checksum` covers, in this order.
pub const CHECKSUM_MEMBERS: [&str; 4] = ["sessionId", "timestamp", "taskTree", "agentStates"];

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

/// Members that this store adds after those of the original: a list shows them without reading the payload.
pub const TASK_COUNT: &str = "taskCount";
pub const AGENT_COUNT: &str = "agentCount";
pub const LABEL: &str = "label";
pub const PARENT: &str = "parent";

/// Members of an agent checkpoint.
pub const AGENT_ID: &str = "agentId";
pub const EXPIRES_AT: &str = "expiresAt";

/// The last member: a digest of all others. Of the two large ones it covers the names alone: `checksum`, which it covers, covers
/// their values. So each byte is hashed once.
pub const INTEGRITY: &str = "integrity";

/// The members whose values `checksum` covers instead of `integrity`.
pub const LEFT_TO_CHECKSUM: [&str; 2] = ["taskTree", "agentStates"];

/// The differences between session checkpoints and agent checkpoints.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
  /// The members that a list shows beside the id, in this order.
  pub shown: &'static [&'static str],
  /// Members whose parts are counted, and the names of their counts. The first of them is at or near the beginning of the payload.
  pub counted: [(&'static str, &'static str); 2],
  /// The beginning of the payload in our layout: a list shows members before it, and from the first of the counts on.
  pub payload: &'static str,
  /// Whether [`CHECKSUM`] covers a part; otherwise [`INTEGRITY`] covers everything.
  pub has_checksum: bool,
}

impl Kind {
  pub const SESSION: Self = Self {
    shown: &[
      "timestamp",
      "trigger",
      "description",
      LABEL,
      PARENT,
      TASK_COUNT,
      AGENT_COUNT,
    ],
    counted: [("taskTree", TASK_COUNT), ("agentStates", AGENT_COUNT)],
    payload: ",\n  \"session\": {",
    has_checksum: true,
  };

  pub const AGENT: Self = Self {
    shown: &[
      "timestamp",
      "iteration",
      "status",
      "statusReason",
      LABEL,
      "tokensUsed",
      "costEstimate",
      EXPIRES_AT,
      "messageCount",
      "toolCallCount",
    ],
    counted: [("messages", "messageCount"), ("toolCalls", "toolCallCount")],
    payload: ",\n  \"messages\": [",
    has_checksum: false,
  };
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

#[must_use]
pub fn hex(digest: &[u8]) -> String {
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

  /// The version, if this code is too old to read it.
  #[must_use]
  pub fn newer_version(&self) -> Option<&'a str> {
    let version = self.member("version")?.trim_matches('"');
    let major = version.split('.').next()?.parse::<u64>().ok()?;
    (major > MAJOR_VERSION).then_some(version)
  }

  /// Only agent checkpoints name an agent.
  #[must_use]
  pub fn kind(&self) -> &'static Kind {
    match self.member(AGENT_ID) {
      Some(_) => &Kind::AGENT,
      None => &Kind::SESSION,
    }
  }

  /// Whether the checksums match the text. They cover canonical JSON: if they do not match a text in another form, they may match its
  /// canonical form. Files of the original have the first checksum only.
  #[must_use]
  pub fn checksums_match(&self) -> bool {
    let covered = CHECKSUM_MEMBERS
      .into_iter()
      .filter_map(|name| Some((name, self.member(name)?)));
    if fault_injection::is_enabled("checksum") {
      return true;
    }
    if !self.kind().has_checksum {
      return find(&self.members, INTEGRITY).is_some() && self.integrity_matches();
    }
    self.member("checksum") == Some(&format!("\"{}\"", checksum(covered))) && self.integrity_matches()
  }

  fn integrity_matches(&self) -> bool {
    let Some(integrity) = find(&self.members, INTEGRITY) else {
      // Only the original writes none, and it writes no other members than these.
      return self.member("version") == Some("\"1.0.0\"")
        && self.member("sizeBytes") == Some("0")
        && self
          .members
          .iter()
          .all(|member| ORIGINAL_MEMBERS.iter().any(|name| member.is_named(name)));
    };
    // The checksum covers the last of two members with one name.
    let left_out = LEFT_TO_CHECKSUM.map(|name| {
      let last = find(&self.members, name).map(|last| last.start);
      last.filter(|_| self.kind().has_checksum)
    });
    let mut hasher = Sha256::new();
    let mut covered_to = 0;
    for member in &self.members {
      let value_end = member.value_start() + member.value.len();
      if member.start == integrity.start {
        // The comma before the member is left out too.
        hasher.update(&self.compact[covered_to..member.start.saturating_sub(1).max(covered_to)]);
        covered_to = value_end;
      } else if left_out.contains(&Some(member.start)) {
        hasher.update(&self.compact[covered_to..member.value_start()]);
        covered_to = value_end;
      }
    }
    hasher.update(&self.compact[covered_to..]);
    integrity.value == format!("\"{}\"", hex(&hasher.finalize()))
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn only_a_greater_major_version_is_newer() {
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
}
