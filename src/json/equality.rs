//! Whether two JSON texts have equal values.
//!
//! Every value gets a number, from the innermost outwards, and equal values get the same one. So each value is read once,
//! whatever its depth, and nothing recurses.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::json::canonical::canonical_string;
use crate::json::layout::string_end;

/// Whether a parser returns equal values for two valid JSON texts. Keys have no order, and of several with one name the last
/// counts.
#[must_use]
pub fn equal_values(a: &str, b: &str) -> bool {
  if a == b {
    return true;
  }
  let mut numbers = Numbers::default();
  matches!((numbers.of_text(a), numbers.of_text(b)), (Some(a), Some(b)) if a == b)
}

/// A value whose parts have been numbered.
#[derive(PartialEq, Eq, Hash)]
enum Value<'a> {
  /// The canonical form of its inside.
  String(Cow<'a, str>),
  /// The bits of a double.
  Number(u64),
  /// `true`, `false` or `null`.
  Word(&'a str),
  Array(Vec<usize>),
  /// In the order of the keys, each once.
  Object(Vec<(Cow<'a, str>, usize)>),
}

/// An array or object whose end has not been reached.
enum Open<'a> {
  Array(Vec<usize>),
  Object {
    members: Vec<(Cow<'a, str>, usize)>,
    /// The key of the member whose value comes next.
    key: Option<Cow<'a, str>>,
  },
}

#[derive(Default)]
struct Numbers<'a> {
  known: HashMap<Value<'a>, usize>,
}

impl<'a> Numbers<'a> {
  /// The number of the value that `text` consists of; `None` if it is not valid.
  fn of_text(&mut self, text: &'a str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut open: Vec<Open<'a>> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
      let start = at;
      at += 1;
      let value = match byte {
        b'[' => {
          open.push(Open::Array(Vec::new()));
          continue;
        }
        b'{' => {
          open.push(Open::Object {
            members: Vec::new(),
            key: None,
          });
          continue;
        }
        b']' | b'}' => open.pop()?.close(),
        b'"' => {
          at = string_end(bytes, at);
          let string = canonical_string(text.get(start + 1..at - 1)?);
          if let Some(Open::Object { key: key @ None, .. }) = open.last_mut() {
            *key = Some(string);
            continue;
          }
          Value::String(string)
        }
        b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => continue,
        _ => {
          while bytes.get(at).is_some_and(|byte| !b",]} \n\r\t".contains(byte)) {
            at += 1;
          }
          Value::of_word(text.get(start..at)?)
        }
      };
      let number = self.of_value(value);
      match open.last_mut() {
        None => return Some(number),
        Some(Open::Array(items)) => items.push(number),
        Some(Open::Object { members, key }) => members.push((key.take()?, number)),
      }
    }
    None
  }

  fn of_value(&mut self, value: Value<'a>) -> usize {
    let next = self.known.len();
    *self.known.entry(value).or_insert(next)
  }
}

impl<'a> Value<'a> {
  fn of_word(word: &'a str) -> Self {
    match word.parse::<f64>() {
      // A double has two zeros.
      Ok(number) => Self::Number(if number == 0.0 { 0 } else { number.to_bits() }),
      Err(_) => Self::Word(word),
    }
  }
}

impl<'a> Open<'a> {
  fn close(self) -> Value<'a> {
    match self {
      Self::Array(items) => Value::Array(items),
      Self::Object { mut members, .. } => {
        // The sort keeps the order of equal keys: the last one comes first and is kept.
        members.reverse();
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        members.dedup_by(|(later, _), (first, _)| later == first);
        Value::Object(members)
      }
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn texts_of_one_value_in_different_forms_are_equal() {
    for (one, other) in [
      ("1", "1.0"),
      ("100", "1e2"),
      ("0", "-0.0"),
      ("9007199254740993", "9007199254740992"),
      (r#""\u00e9\/""#, r#""é/""#),
      (r#""\uD83D\uDFE6""#, r#""🟦""#),
      (r#"{"a":1,"b":[{"c":2,"d":3}]}"#, r#"{ "b": [{"d":3,"c":2}], "a": 1 }"#),
      (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
      (r#"{"a":{"x":0},"b":3,"a":1}"#, r#"{"b":3,"\u0061":1}"#),
      ("[]", "[ ]"),
      ("{}", "{ }"),
      (r#"{"":null}"#, "{\n\"\":\tnull}"),
    ] {
      assert!(
        equal_values(one, other) && equal_values(other, one),
        "{one} and {other}"
      );
    }
  }

  #[test]
  fn texts_of_different_values_are_not_equal() {
    let values = [
      "0",
      "1",
      "-1",
      "1e999",
      "true",
      "false",
      "null",
      r#""""#,
      r#""1""#,
      r#""null""#,
      r#""\ud800""#,
      r#""\ud801""#,
      "\"\u{fffd}\"",
      r#""\\ud800""#,
      "[]",
      "{}",
      "[[]]",
      "[{}]",
      "[1,2]",
      "[2,1]",
      "[1,2,2]",
      "[[1],2]",
      "[[1,2]]",
      r#"["a","b"]"#,
      r#"{"a":"b"}"#,
      r#"{"b":"a"}"#,
      r#"{"a":"b","b":"a"}"#,
      r#"{"a":{"b":"a"}}"#,
      r#"{"a":["b"]}"#,
      r#"{"a":null}"#,
    ];
    for (at, one) in values.iter().enumerate() {
      for other in &values[at + 1..] {
        assert!(!equal_values(one, other), "{one} and {other}");
      }
    }
  }

  #[test]
  fn deep_nesting_needs_no_stack_and_linear_time() {
    let nested = |inside: &str, depth: usize| {
      let (open, close) = (r#"{"b":0,"a":["#.repeat(depth), "]}".repeat(depth));
      open + inside + &close
    };
    let reordered = |inside: &str, depth: usize| {
      let (open, close) = (r#"{"a":["#.repeat(depth), r#"],"b":0}"#.repeat(depth));
      open + inside + &close
    };
    assert!(equal_values(&nested("1", 50_000), &reordered("1", 50_000)));
    assert!(!equal_values(&nested("1", 50_000), &reordered("2", 50_000)));
    assert!(!equal_values(&nested("1", 50_000), &reordered("1", 49_999)));
  }

  #[test]
  fn invalid_json_equals_nothing() {
    for broken in ["", " ", "[", "]", "{\"a\"", "{1}", "\"é", "[1"] {
      assert!(!equal_values(broken, "1") && !equal_values("1", broken), "{broken}");
    }
  }
}
