//! The info that a list shows of a checkpoint, without reading the payload.
//!
//! A plain checkpoint has it in its first and last lines, a compressed one in the header of its container. Documents in another
//! layout are read whole.

use memchr::memmem;

use crate::checkpoint::document::{Document, EXPIRES_AT, Kind, LABEL};
use crate::json::edit::ObjectWriter;
use crate::json::scan::{Member, SyntaxError, find, items, members, text_of};

/// JSON values, as the document has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
  id: String,
  /// The members that a list shows, in the order of its [`Kind`].
  shown: Vec<(&'static str, String)>,
}

impl Info {
  /// `value` gives a member by its name. `None` if there is no id, no time or no count.
  pub fn new(kind: &Kind, value: impl Fn(&str) -> Option<String>) -> Option<Self> {
    let mut shown = Vec::with_capacity(kind.shown.len());
    for name in kind.shown {
      let is_count = kind.counted.iter().any(|(_, count)| count == name);
      match value(name) {
        Some(value) if *name == TIMESTAMP && !is_number(&value) => return None,
        Some(value) if is_count && value.parse::<usize>().is_err() => return None,
        Some(value) => shown.push((*name, value)),
        None if *name == TIMESTAMP || is_count => return None,
        None => {}
      }
    }
    Some(Self {
      id: value("id")?,
      shown,
    })
  }

  /// From the beginning and the end of a document; `None` if it is not in our layout.
  #[must_use]
  pub fn peek(kind: &Kind, head: &[u8], tail: &[u8]) -> Option<Self> {
    // A line break is never inside a string, and two spaces mean the outermost object.
    let head_end = memmem::find(head, kind.payload.as_bytes())?;
    let tail_start = memmem::rfind(tail, format!("\n  \"{}\": ", kind.counted[0].1).as_bytes())?;
    let first = format!("{}}}", str::from_utf8(&head[..head_end]).ok()?);
    let last = format!("{{{}", str::from_utf8(&tail[tail_start..]).ok()?);
    let (first, mut last) = (members(&first).ok()?, members(&last).ok()?);
    last.extend(first);
    Self::of_members(kind, &last)
  }

  /// From the text of [`Info::to_note`].
  #[must_use]
  pub fn from_note(kind: &Kind, text: &str) -> Option<Self> {
    Self::of_members(kind, &members(text).ok()?)
  }

  /// From a whole document of any program: missing members get the values `null` and 0.
  pub fn of_document(kind: &Kind, document: &Document<'_>) -> Result<Self, SyntaxError> {
    let count = |name: &str| match document.member(name) {
      Some(object) if object.starts_with('{') => members(object).map(|members| members.len()),
      Some(array) if array.starts_with('[') => items(array).map(|items| items.len()),
      _ => Ok(0),
    };
    let mut shown = Vec::with_capacity(kind.shown.len());
    for name in kind.shown {
      let text = document.member(name).map(str::to_owned);
      let value = match kind.counted.iter().find(|(_, count)| count == name) {
        Some((counted, _)) => Some(count(counted)?.to_string()),
        None if *name == TIMESTAMP => text.filter(|text| is_number(text)).or_else(|| Some("0".to_owned())),
        None => text,
      };
      shown.extend(value.map(|value| (*name, value)));
    }
    let id = document.member("id").unwrap_or("null").to_owned();
    Ok(Self { id, shown })
  }

  /// The text for the header of a container.
  #[must_use]
  pub fn to_note(&self) -> String {
    let mut out = ObjectWriter::with_capacity(256);
    out.push("id", &self.id);
    self.write(&mut out);
    out.finish()
  }

  pub fn write(&self, out: &mut ObjectWriter) {
    for (name, value) in &self.shown {
      out.push(name, value);
    }
  }

  /// The JSON of a member.
  #[must_use]
  pub fn get(&self, name: &str) -> Option<&str> {
    let member = self.shown.iter().find(|(known, _)| *known == name);
    member.map(|(_, value)| value.as_str())
  }

  /// Replaces the label.
  pub fn relabel(&mut self, literal: Option<&str>) {
    self.shown.retain(|(name, _)| *name != LABEL);
    if let Some(literal) = literal {
      self.shown.push((LABEL, literal.to_owned()));
    }
  }

  /// Whether it has that id.
  #[must_use]
  pub fn is_of(&self, id: &str) -> bool {
    is_text(Some(&self.id), id)
  }

  /// Milliseconds since 1970.
  #[must_use]
  pub fn time(&self) -> f64 {
    self.number(TIMESTAMP).unwrap_or(0.0)
  }

  #[must_use]
  pub fn number(&self, name: &str) -> Option<f64> {
    self.get(name)?.parse().ok()
  }

  #[must_use]
  pub fn is_expired(&self, now: u64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "times are below 2^53")]
    let now = now as f64;
    self.number(EXPIRES_AT).is_some_and(|time| time <= now)
  }

  /// Whether a member is the string `text`.
  #[must_use]
  pub fn has(&self, name: &str, text: &str) -> bool {
    is_text(self.get(name), text)
  }

  fn of_members(kind: &Kind, members: &[Member<'_>]) -> Option<Self> {
    Self::new(kind, |name| find(members, name).map(|member| member.value.to_owned()))
  }
}

const TIMESTAMP: &str = "timestamp";

/// Whether it is a finite number: damage may have made `1e999999` of it.
fn is_number(text: &str) -> bool {
  text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Whether a string literal has the value `text`.
fn is_text(literal: Option<&str>, text: &str) -> bool {
  literal.and_then(text_of).is_some_and(|value| value == text)
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::checkpoint::compose::{NewCheckpoint, Parts};
  use crate::types::id::CheckpointId;
  use crate::types::time::Timestamp;

  const KIND: &Kind = &Kind::SESSION;

  fn parts() -> Parts {
    Parts {
      head: concat!(
        r#"{"trigger":"auto","description":"a \"word\",\n  \"session\": {","label":"green \u00e9","#,
        r#""session":{"id":"s","lastCheckpointId":"cp-0","checkpointIds":[]},"#,
        r#""metadata":{"taskCount":7,"deep":{"taskCount":8}}}"#
      )
      .to_owned(),
      task_tree: r#"{"taskTree":{"a":{},"b":{"taskCount":9}}}"#.to_owned(),
      agent_states: r#"{"agentStates":{"x":{}}}"#.to_owned(),
      context_store: r#"{"contextStore":{"taskCount":6}}"#.to_owned(),
    }
  }

  fn laid_out(checkpoint: &NewCheckpoint<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    checkpoint.write_laid_out(&mut out).unwrap();
    out
  }

  #[test]
  fn peek_note_and_whole_document_give_the_same_info() {
    let parts = parts();
    let checkpoint = NewCheckpoint::compose(
      &CheckpointId::parse("cp-1").unwrap(),
      Timestamp::from_millis(42),
      &parts,
    )
    .unwrap();
    let (compact, info) = checkpoint.compact().unwrap();
    assert_eq!((info.get("taskCount"), info.get("agentCount")), (Some("2"), Some("1")));
    assert_eq!((info.get("parent"), info.time()), (Some("\"cp-0\""), 42.0));
    assert!(info.has("label", "green é") && !info.has("label", "green"));
    assert!(info.has("trigger", "auto"));
    assert!(info.is_of("cp-1") && !info.is_of("cp-2"));
    assert_eq!(Info::from_note(KIND, &info.to_note()).as_ref(), Some(&info));
    assert_eq!(
      Info::of_document(KIND, &Document::parse(&compact).unwrap()).unwrap(),
      info
    );
    let text = laid_out(&checkpoint);
    assert_eq!(Info::peek(KIND, &text, &text).as_ref(), Some(&info));
  }

  #[test]
  fn peek_gives_nothing_for_a_document_in_another_layout() {
    let parts = parts();
    let checkpoint = NewCheckpoint::compose(
      &CheckpointId::parse("cp-1").unwrap(),
      Timestamp::from_millis(42),
      &parts,
    )
    .unwrap();
    let (compact, _) = checkpoint.compact().unwrap();
    let text = laid_out(&checkpoint);
    assert_eq!(Info::peek(KIND, compact.as_bytes(), compact.as_bytes()), None);
    assert_eq!(Info::peek(KIND, &text[..50], &text), None);
    assert_eq!(Info::peek(KIND, &text, &text[text.len() - 50..]), None);
    assert_eq!(Info::peek(KIND, b"", b""), None);
    let text = String::from_utf8(text).unwrap().replace(": 42,", ": 1e999,");
    assert_eq!(Info::peek(KIND, text.as_bytes(), text.as_bytes()), None);
  }
}
