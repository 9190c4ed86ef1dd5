//! Ids, validated when they are parsed: every value of these types is a safe path segment.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::error::{Code, Error, Result, shortened};

/// The longest id in bytes. With the extensions and temporary suffixes of the store, a file name stays below the 255 bytes
/// that file systems allow.
pub const MAX_ID_BYTES: usize = 200;

macro_rules! id_type {
  ($(#[$doc:meta])* $name:ident, $noun:literal) => {
    $(#[$doc])*
    #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(try_from = "String")]
    pub struct $name(String);

    impl $name {
      /// Accepts exactly the names that are one path segment on every system.
      pub fn parse(text: &str) -> Result<Self> {
        Self::try_from(text.to_owned())
      }

      #[must_use]
      pub fn as_str(&self) -> &str {
        &self.0
      }
    }

    impl TryFrom<String> for $name {
      type Error = Error;

      fn try_from(text: String) -> Result<Self> {
        match invalid_reason(&text) {
          None => Ok(Self(text)),
          Some(reason) => Err(Error::new(
            Code::InvalidId,
            format!("Invalid {} {:?}: {reason}", $noun, shortened(&text)),
          )),
        }
      }
    }

    impl From<$name> for String {
      fn from(id: $name) -> Self {
        id.0
      }
    }

    impl fmt::Display for $name {
      fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
      }
    }
  };
}

id_type!(
  /// The id of a session, and the name of its directory.
  SessionId,
  "session id"
);
id_type!(
  /// The id of a task, and the name of the file of its result.
  TaskId,
  "task id"
);
id_type!(
  /// The id of a checkpoint, and the name of its file without the extensions.
  CheckpointId,
  "checkpoint id"
);

id_type!(
  /// The id of an agent of a session, and the name of the directory of its checkpoints.
  AgentId,
  "agent id"
);

/// Why `text` is not a valid id, as the end of a sentence.
fn invalid_reason(text: &str) -> Option<String> {
  if text.is_empty() {
    return Some("it is empty".into());
  }
  if text.len() > MAX_ID_BYTES {
    return Some(format!(
      "it has {} bytes; at most {MAX_ID_BYTES} are allowed",
      text.len()
    ));
  }
  if let Some(bad) = text.chars().find(|&c| is_forbidden(c)) {
    return Some(format!(
      "it contains {bad:?}, which cannot be part of a file name on every system"
    ));
  }
  if text.starts_with(['.', ' ']) || text.ends_with(['.', ' ']) {
    return Some("it begins or ends with a dot or a space".into());
  }
  if is_windows_device(text) {
    return Some("Windows reserves this name for a device".into());
  }
  None
}

fn is_forbidden(c: char) -> bool {
  // U+FFFD replaces a lone surrogate: two different ids would become one name. The characters that only Windows forbids are
  // legal elsewhere, and stores with such ids exist there.
  matches!(c, '/' | '\\' | '\u{fffd}')
    || c.is_control()
    || (cfg!(windows) && matches!(c, '<' | '>' | ':' | '"' | '|' | '?' | '*'))
}

fn is_windows_device(text: &str) -> bool {
  let stem = text.split('.').next().unwrap_or(text).trim_end();
  let upper = stem.to_ascii_uppercase();
  match upper.as_str() {
    "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" => true,
    _ => upper
      .strip_prefix("COM")
      .or_else(|| upper.strip_prefix("LPT"))
      .is_some_and(|port| {
        matches!(
          port,
          "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³"
        )
      }),
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn parse_accepts_ordinary_names() {
    for name in [
      "plain-session",
      "cp-mwima86h-4i7xwg",
      "a",
      "task.1",
      "検査点",
      "with space",
      "__proto__",
      "CONSOLE",
      "x.con",
    ] {
      assert_eq!(SessionId::parse(name).unwrap().as_str(), name);
    }
    assert!(SessionId::parse(&"x".repeat(MAX_ID_BYTES)).is_ok());
  }

  #[test]
  fn parse_rejects_names_that_are_not_a_path_segment_on_every_system() {
    for name in [
      "",
      ".",
      "..",
      "../escaped",
      "a/b",
      "a\\b",
      "/abs",
      "nul\0",
      "line\n",
      "\u{7f}",
      "\u{85}",
      ".hidden",
      "end.",
      " lead",
      "trail ",
      "CON",
      "nul",
      "com1",
      "\u{fffd}",
      "LPT9.txt",
      "Aux.json",
      "COM¹",
    ] {
      let error = TaskId::parse(name).unwrap_err();
      assert_eq!(error.code, Code::InvalidId, "{name:?}");
      assert!(error.message.starts_with("Invalid task id "), "{}", error.message);
    }
    assert!(serde_json::from_str::<TaskId>(r#""../escaped""#).is_err());
    assert_eq!(serde_json::from_str::<TaskId>(r#""a\"b""#).unwrap().as_str(), "a\"b");
    let long = SessionId::parse(&"é".repeat(101)).unwrap_err();
    assert!(long.message.contains("202 bytes"), "{}", long.message);
  }
}
