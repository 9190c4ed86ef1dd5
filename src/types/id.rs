//! Ids, parsed once: whoever holds one of these types may use it as a path segment without a second look.

use std::fmt;

use crate::types::error::{Code, Error, Result, shortened};

/// The longest id in bytes: with the endings and the temporary marks that the store adds, a file name stays below
/// the 255 bytes that file systems allow.
pub const MAX_ID_BYTES: usize = 200;

macro_rules! id_type {
  ($(#[$doc:meta])* $name:ident, $noun:literal) => {
    $(#[$doc])*
    #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub struct $name(String);

    impl $name {
      /// Accepts what can be one path segment on every system, and nothing else.
      pub fn parse(text: &str) -> Result<Self> {
        match objection(text) {
          None => Ok(Self(text.to_owned())),
          Some(objection) => Err(Error::new(
            Code::InvalidId,
            format!("Invalid {} {:?}: {objection}", $noun, shortened(text)),
          )),
        }
      }

      #[must_use]
      pub fn as_str(&self) -> &str {
        &self.0
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
  /// Names a session, and its directory.
  SessionId,
  "session id"
);
id_type!(
  /// Names a task, and the file of its result.
  TaskId,
  "task id"
);
id_type!(
  /// Names a checkpoint, and its file without the endings.
  CheckpointId,
  "checkpoint id"
);

id_type!(
  /// Names an agent of a session, and the directory of its checkpoints.
  AgentId,
  "agent id"
);

/// Why `text` cannot be an id, as the end of a sentence.
fn objection(text: &str) -> Option<String> {
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
  // U+FFFD stands where a lone surrogate was: two different ids would become one name. The rest of Windows' list is
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
  fn ordinary_names_are_ids() {
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
  fn what_cannot_be_one_path_segment_everywhere_is_refused_by_name() {
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
    let long = SessionId::parse(&"é".repeat(101)).unwrap_err();
    assert!(long.message.contains("202 bytes"), "{}", long.message);
  }
}
