//! What a list shows of a checkpoint, found without reading the payload.
//!
//! A plain checkpoint has it in its first and last lines, a compressed one in the header of its container. Documents of
//! another hand are read whole.

use memchr::memmem;

use super::checkpoint::{AGENT_COUNT, Document, LABEL, PARENT, TASK_COUNT};
use super::object::ObjectWriter;
use super::scan::{Member, SyntaxError, find, members, unescape};

/// How much of a file's beginning and end [`Info::peek`] needs. A longer description means that the whole is read.
pub const HEAD_BYTES: usize = 2048;
pub const TAIL_BYTES: usize = 1024;

/// JSON values, in the spelling of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
  pub id: String,
  pub timestamp: String,
  pub trigger: Option<String>,
  pub description: Option<String>,
  pub label: Option<String>,
  pub parent: Option<String>,
  pub task_count: usize,
  pub agent_count: usize,
}

impl Info {
  /// From the beginning and the end of a document in our layout; `None` if it is not in it.
  #[must_use]
  pub fn peek(head: &[u8], tail: &[u8]) -> Option<Self> {
    // A line break is never inside a string, and two spaces mean the outermost object.
    let head_end = memmem::find(head, b",\n  \"session\": {")?;
    let tail_start = memmem::rfind(tail, b"\n  \"taskCount\": ")?;
    let first = format!("{}}}", str::from_utf8(&head[..head_end]).ok()?);
    let last = format!("{{{}", str::from_utf8(&tail[tail_start..]).ok()?);
    let (first, mut last) = (members(&first).ok()?, members(&last).ok()?);
    last.extend(first);
    Self::of_members(&last)
  }

  /// From the text that [`Info::to_note`] makes.
  #[must_use]
  pub fn from_note(text: &str) -> Option<Self> {
    Self::of_members(&members(text).ok()?)
  }

  /// From a whole document, whoever wrote it.
  pub fn of_document(document: &Document<'_>) -> Result<Self, SyntaxError> {
    let count = |name| match document.member(name) {
      Some(value) if value.starts_with('{') => Ok(members(value)?.len()),
      _ => Ok(0),
    };
    let text = |name| document.member(name).map(str::to_owned);
    Ok(Self {
      id: text("id").unwrap_or_else(|| "null".to_owned()),
      timestamp: text("timestamp").filter(is_number).unwrap_or_else(|| "0".to_owned()),
      trigger: text("trigger"),
      description: text("description"),
      label: text(LABEL),
      parent: text(PARENT),
      task_count: count("taskTree")?,
      agent_count: count("agentStates")?,
    })
  }

  /// What goes into the header of a container.
  #[must_use]
  pub fn to_note(&self) -> String {
    let mut out = ObjectWriter::with_capacity(256);
    out.push("id", &self.id);
    self.write(&mut out);
    out.finish()
  }

  pub fn write(&self, out: &mut ObjectWriter) {
    out.push("timestamp", &self.timestamp);
    let texts = [
      ("trigger", &self.trigger),
      ("description", &self.description),
      (LABEL, &self.label),
      (PARENT, &self.parent),
    ];
    for (name, value) in texts {
      if let Some(value) = value {
        out.push(name, value);
      }
    }
    out.push(TASK_COUNT, &self.task_count.to_string());
    out.push(AGENT_COUNT, &self.agent_count.to_string());
  }

  /// Whether it says that it is the checkpoint of that id.
  #[must_use]
  pub fn is_of(&self, id: &str) -> bool {
    is_text(Some(&self.id), id)
  }

  /// Milliseconds since 1970.
  #[must_use]
  pub fn time(&self) -> f64 {
    self.timestamp.parse().unwrap_or(0.0)
  }

  #[must_use]
  pub fn has_trigger(&self, trigger: &str) -> bool {
    is_text(self.trigger.as_deref(), trigger)
  }

  #[must_use]
  pub fn has_label(&self, label: &str) -> bool {
    is_text(self.label.as_deref(), label)
  }

  fn of_members(members: &[Member<'_>]) -> Option<Self> {
    let text = |name| find(members, name).map(|member| member.value.to_owned());
    let count = |name| find(members, name)?.value.parse().ok();
    Some(Self {
      id: text("id")?,
      timestamp: text("timestamp").filter(is_number)?,
      trigger: text("trigger"),
      description: text("description"),
      label: text(LABEL),
      parent: text(PARENT),
      task_count: count(TASK_COUNT)?,
      agent_count: count(AGENT_COUNT)?,
    })
  }
}

/// Whether it is a number that an engine can tell from others: damage may have made `1e999999` of it.
#[expect(clippy::ptr_arg, reason = "it filters an Option<String>")]
fn is_number(text: &String) -> bool {
  text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Whether a string literal means `text`.
fn is_text(literal: Option<&str>, text: &str) -> bool {
  let inside = literal.and_then(|literal| literal.strip_prefix('"')?.strip_suffix('"'));
  inside.is_some_and(|inside| unescape(inside) == text)
}

#[cfg(test)]
mod tests {
  use super::super::compose::{NewCheckpoint, Parts};
  use super::*;
  use crate::id::CheckpointId;

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
  fn a_peek_a_header_and_the_whole_document_say_the_same() {
    let parts = parts();
    let checkpoint = NewCheckpoint::compose(&CheckpointId::parse("cp-1").unwrap(), 42, &parts).unwrap();
    let (compact, info) = checkpoint.compact().unwrap();
    assert_eq!((info.task_count, info.agent_count, info.time()), (2, 1, 42.0));
    assert_eq!(info.parent.as_deref(), Some("\"cp-0\""));
    assert!(info.has_label("green é") && !info.has_label("green"));
    assert!(info.has_trigger("auto"));
    assert!(info.is_of("cp-1") && !info.is_of("cp-2"));
    assert_eq!(Info::from_note(&info.to_note()).as_ref(), Some(&info));
    assert_eq!(Info::of_document(&Document::parse(&compact).unwrap()).unwrap(), info);
    let text = laid_out(&checkpoint);
    assert_eq!(Info::peek(&text, &text).as_ref(), Some(&info));
  }

  #[test]
  fn a_document_in_another_layout_is_not_guessed_at() {
    let parts = parts();
    let checkpoint = NewCheckpoint::compose(&CheckpointId::parse("cp-1").unwrap(), 42, &parts).unwrap();
    let (compact, _) = checkpoint.compact().unwrap();
    let text = laid_out(&checkpoint);
    assert_eq!(Info::peek(compact.as_bytes(), compact.as_bytes()), None);
    assert_eq!(Info::peek(&text[..50], &text), None);
    assert_eq!(Info::peek(&text, &text[text.len() - 50..]), None);
    assert_eq!(Info::peek(b"", b""), None);
    let text = String::from_utf8(text).unwrap().replace(": 42,", ": 1e999,");
    assert_eq!(Info::peek(text.as_bytes(), text.as_bytes()), None);
  }
}
