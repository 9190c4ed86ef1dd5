//! Edits of an object's text that copy all other members unchanged.

use crate::json::scan::{Member, SyntaxError, members};

/// A change of one member of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit<'a> {
  /// Replaces the value of the member, or adds the member at the end.
  Set(&'a str, &'a str),
  Remove(&'a str),
}

impl Edit<'_> {
  fn name(&self) -> &str {
    match self {
      Self::Set(name, _) | Self::Remove(name) => name,
    }
  }
}

/// Writes an object member by member.
#[derive(Debug)]
pub struct ObjectWriter {
  text: String,
}

impl ObjectWriter {
  #[must_use]
  pub fn with_capacity(capacity: usize) -> Self {
    let mut text = String::with_capacity(capacity);
    text.push('{');
    Self { text }
  }

  /// `raw_key` is the inside of a string literal, `value` a JSON text.
  pub fn push(&mut self, raw_key: &str, value: &str) {
    if self.text.len() > 1 {
      self.text.push(',');
    }
    self.text.push('"');
    self.text.push_str(raw_key);
    self.text.push_str("\":");
    self.text.push_str(value);
  }

  #[must_use]
  pub fn finish(mut self) -> String {
    self.text.push('}');
    self.text
  }
}

/// The string literal of an id.
#[must_use]
pub fn quoted(id: &str) -> String {
  format!("\"{}\"", escaped(id))
}

/// The inside of the string literal of an id, in which only quotes need escapes.
#[must_use]
pub fn escaped(id: &str) -> String {
  id.replace('"', "\\\"")
}

/// The string literal of a message or a user's name, in which control characters become spaces.
#[must_use]
pub fn text_literal(text: &str) -> String {
  let mut literal = String::with_capacity(text.len() + 2);
  literal.push('"');
  for character in text.chars() {
    match character {
      '"' | '\\' => literal.extend(['\\', character]),
      control if control.is_control() => literal.push(' '),
      plain => literal.push(plain),
    }
  }
  literal.push('"');
  literal
}

/// The object `text` after `edits`.
pub fn edit(text: &str, edits: &[Edit<'_>]) -> Result<String, SyntaxError> {
  Ok(edit_members(&members(text)?, edits))
}

/// The object with these members after `edits`.
#[must_use]
pub fn edit_members(members: &[Member<'_>], edits: &[Edit<'_>]) -> String {
  let size: usize = members
    .iter()
    .map(|member| member.raw_key.len() + member.value.len() + 4)
    .sum();
  let mut out = ObjectWriter::with_capacity(size + 64);
  for member in members {
    match edits.iter().find(|edit| member.is_named(edit.name())) {
      None => out.push(member.raw_key, member.value),
      Some(Edit::Set(_, value)) => out.push(member.raw_key, value),
      Some(Edit::Remove(_)) => {}
    }
  }
  for edit in edits {
    if let Edit::Set(name, value) = edit
      && !members.iter().any(|member| member.is_named(name))
    {
      out.push(name, value);
    }
  }
  out.finish()
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_set_member_keeps_its_position_and_a_new_one_is_appended() {
    let edits = [
      Edit::Set("b", "0"),
      Edit::Remove("c"),
      Edit::Remove("zz"),
      Edit::Set("d", "[]"),
    ];
    assert_eq!(
      edit(r#"{"a":1,"b":{"c":2},"c":3}"#, &edits).unwrap(),
      r#"{"a":1,"b":0,"d":[]}"#
    );
    assert_eq!(edit("{}", &[Edit::Remove("a")]).unwrap(), "{}");
  }
}
