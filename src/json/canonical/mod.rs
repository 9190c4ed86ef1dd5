//! Canonical JSON: the text that `JSON.stringify(JSON.parse(text))` returns.
//!
//! Values are collected in one list in which containers refer to their parts by index: nothing recurses, so that no depth
//! exhausts the stack. A container that is canonical already is kept as a slice of the text.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use memchr::memchr;

use crate::json::scan::{Scanner, SyntaxError};

/// The canonical form of a JSON text; borrowed if the text is in it, apart from white space around the value.
pub fn canonical(text: &str) -> Result<Cow<'_, str>, SyntaxError> {
  Reader {
    text,
    scanner: Scanner::new(text),
    values: Vec::new(),
    open: Vec::new(),
  }
  .read()
}

/// The canonical form of the inside of a string literal. Two literals have the same value if and only if it is the same.
#[must_use]
pub fn canonical_string(raw: &str) -> Cow<'_, str> {
  let Some(first) = memchr(b'\\', raw.as_bytes()) else {
    return Cow::Borrowed(raw);
  };
  let mut out = String::with_capacity(raw.len());
  out.push_str(&raw[..first]);
  let mut rest = &raw[first..];
  while let Some(escape) = rest.strip_prefix('\\') {
    rest = push_escape(&mut out, escape);
    let run = memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
    out.push_str(&rest[..run]);
    rest = &rest[run..];
  }
  if out == raw {
    Cow::Borrowed(raw)
  } else {
    Cow::Owned(out)
  }
}

/// The number that a key of an object is, if it is an array index: JavaScript orders those before all other keys.
#[must_use]
pub fn array_index(raw_key: &str) -> Option<u32> {
  let is_plain = matches!(raw_key.as_bytes(), [b'0'] | [b'1'..=b'9', ..]) && raw_key.len() <= "4294967294".len();
  let index = raw_key.parse().ok().filter(|_| is_plain)?;
  (index < u32::MAX).then_some(index)
}

enum Value<'a> {
  /// The canonical text of a scalar, of an empty container, or of a container that is canonical in the text that is read.
  Text(Cow<'a, str>),
  Array(Vec<usize>),
  Object(Vec<Member<'a>>),
}

/// The canonical form of a key, and the index of its value.
type Member<'a> = (Cow<'a, str>, usize);

/// A container whose end has not been reached.
struct Open<'a> {
  start: usize,
  /// The number of values before its first part.
  first_value: usize,
  is_canonical: bool,
  parts: Parts<'a>,
}

enum Parts<'a> {
  Items(Vec<usize>),
  Members {
    members: Vec<Member<'a>>,
    /// The key of the member whose value comes next.
    key: Cow<'a, str>,
  },
}

struct Reader<'a> {
  text: &'a str,
  scanner: Scanner<'a>,
  values: Vec<Value<'a>>,
  open: Vec<Open<'a>>,
}

impl<'a> Reader<'a> {
  fn read(mut self) -> Result<Cow<'a, str>, SyntaxError> {
    self.scanner.skip_space();
    loop {
      // A value begins here.
      let start = self.scanner.at;
      match self.scanner.next()? {
        b'{' => {
          self.skip_space();
          if self.scanner.peek() == Some(b'}') {
            self.scanner.at += 1;
            self.add_text(start, Cow::Borrowed("{}"));
          } else {
            let parts = Parts::Members {
              members: Vec::new(),
              key: Cow::Borrowed(""),
            };
            self.open(start, parts);
            self.read_key()?;
            continue;
          }
        }
        b'[' => {
          self.skip_space();
          if self.scanner.peek() == Some(b']') {
            self.scanner.at += 1;
            self.add_text(start, Cow::Borrowed("[]"));
          } else {
            self.open(start, Parts::Items(Vec::new()));
            continue;
          }
        }
        _ => {
          self.scanner.at = start;
          self.read_scalar()?;
        }
      }
      // A value has ended here. Close containers until a comma announces the next value.
      if self.close_containers()? {
        self.scanner.end()?;
        return Ok(self.finish());
      }
    }
  }

  fn read_scalar(&mut self) -> Result<(), SyntaxError> {
    let start = self.scanner.at;
    let text = match self.scanner.next()? {
      b'"' => {
        self.scanner.at = start;
        let raw = self.scanner.string()?;
        match canonical_string(raw) {
          Cow::Borrowed(_) => Cow::Borrowed(&self.text[start..self.scanner.at]),
          Cow::Owned(inside) => Cow::Owned(format!("\"{inside}\"")),
        }
      }
      b't' => self.scanner.literal("rue").map(|()| Cow::Borrowed("true"))?,
      b'f' => self.scanner.literal("alse").map(|()| Cow::Borrowed("false"))?,
      b'n' => self.scanner.literal("ull").map(|()| Cow::Borrowed("null"))?,
      b'-' | b'0'..=b'9' => {
        self.scanner.at = start;
        self.scanner.number()?;
        canonical_number(&self.text[start..self.scanner.at])
      }
      _ => return Err(self.scanner.error_before()),
    };
    self.add_text(start, text);
    Ok(())
  }

  /// A key, its colon, and the white space up to its value.
  fn read_key(&mut self) -> Result<(), SyntaxError> {
    let raw = self.scanner.string()?;
    self.skip_space();
    self.scanner.expect(b':')?;
    self.skip_space();
    let canonical_key = canonical_string(raw);
    if let Some(open) = self.open.last_mut() {
      open.is_canonical &= matches!(canonical_key, Cow::Borrowed(_));
      if let Parts::Members { key, .. } = &mut open.parts {
        *key = canonical_key;
      }
    }
    Ok(())
  }

  /// Skips the white space inside a container, which is not canonical if it has any.
  fn skip_space(&mut self) {
    let before = self.scanner.at;
    self.scanner.skip_space();
    if let Some(open) = self.open.last_mut() {
      open.is_canonical &= self.scanner.at == before;
    }
  }

  fn open(&mut self, start: usize, parts: Parts<'a>) {
    self.open.push(Open {
      start,
      first_value: self.values.len(),
      // The white space after its bracket was skipped as a part of its parent.
      is_canonical: self.scanner.at == start + 1,
      parts,
    });
  }

  /// Whether the outermost value has ended.
  fn close_containers(&mut self) -> Result<bool, SyntaxError> {
    while let Some(open) = self.open.last() {
      let closer = match open.parts {
        Parts::Items(_) => b']',
        Parts::Members { .. } => b'}',
      };
      self.skip_space();
      match self.scanner.next()? {
        b',' => {
          self.skip_space();
          if closer == b'}' {
            self.read_key()?;
          }
          return Ok(false);
        }
        byte if byte == closer => {
          if let Some(open) = self.open.pop() {
            self.close(open);
          }
        }
        _ => return Err(self.scanner.error_before()),
      }
    }
    Ok(true)
  }

  fn close(&mut self, open: Open<'a>) {
    let mut is_canonical = open.is_canonical;
    let value = match open.parts {
      Parts::Items(items) => Value::Array(items),
      Parts::Members { mut members, .. } => {
        if !is_ordered(&members) {
          is_canonical = false;
          members = ordered(members);
        }
        Value::Object(members)
      }
    };
    if is_canonical {
      self.values.truncate(open.first_value);
      self.add_text(open.start, Cow::Borrowed(&self.text[open.start..self.scanner.at]));
    } else {
      self.add(value, false);
    }
  }

  /// Adds a value whose text began at `start`.
  fn add_text(&mut self, start: usize, text: Cow<'a, str>) {
    let is_canonical = matches!(text, Cow::Borrowed(_)) && text.len() == self.scanner.at - start;
    self.add(Value::Text(text), is_canonical);
  }

  fn add(&mut self, value: Value<'a>, is_canonical: bool) {
    let index = self.values.len();
    self.values.push(value);
    if let Some(open) = self.open.last_mut() {
      open.is_canonical &= is_canonical;
      match &mut open.parts {
        Parts::Items(items) => items.push(index),
        Parts::Members { members, key } => members.push((std::mem::take(key), index)),
      }
    }
  }

  /// The text of the last value, which contains all others.
  fn finish(mut self) -> Cow<'a, str> {
    if let Some(Value::Text(text)) = self.values.last_mut() {
      return std::mem::take(text);
    }
    let mut out = String::with_capacity(self.text.len());
    // Containers whose end was not written yet, and how many of their parts were.
    let mut open = vec![(self.values.len() - 1, 0)];
    while let Some((value, written)) = open.last_mut() {
      let at = *written;
      *written += 1;
      let next = match &self.values[*value] {
        Value::Text(text) => {
          out.push_str(text);
          None
        }
        Value::Array(items) => {
          out.push(separator(at, items.len(), ['[', ']']));
          items.get(at).copied()
        }
        Value::Object(members) => {
          out.push(separator(at, members.len(), ['{', '}']));
          members.get(at).map(|(key, value)| {
            out.push('"');
            out.push_str(key);
            out.push_str("\":");
            *value
          })
        }
      };
      match next {
        Some(value) => open.push((value, 0)),
        None => drop(open.pop()),
      }
    }
    Cow::Owned(out)
  }
}

/// The character before the part at `at` of a container, or after its last one.
fn separator(at: usize, parts: usize, [opener, closer]: [char; 2]) -> char {
  match at {
    0 => opener,
    _ if at < parts => ',',
    _ => closer,
  }
}

/// Whether JavaScript would keep the members in this order: array indexes first, ascending, and every key once.
fn is_ordered(members: &[Member<'_>]) -> bool {
  const FEW: usize = 12;
  let mut last_index = None;
  let mut names = members;
  while let Some(index) = names.first().and_then(|(key, _)| array_index(key)) {
    if last_index >= Some(index) {
      return false;
    }
    last_index = Some(index);
    names = &names[1..];
  }
  let is_unique = |at: usize| names[..at].iter().all(|(key, _)| *key != names[at].0);
  names.iter().all(|(key, _)| array_index(key).is_none())
    && if names.len() <= FEW {
      (1..names.len()).all(is_unique)
    } else {
      let mut keys = HashSet::with_capacity(names.len());
      names.iter().all(|(key, _)| keys.insert(key.as_ref()))
    }
}

/// The members as JavaScript keeps them: of several with one key, the last value at the position of the first.
fn ordered(members: Vec<Member<'_>>) -> Vec<Member<'_>> {
  let mut positions: HashMap<Cow<'_, str>, usize> = HashMap::with_capacity(members.len());
  let mut unique: Vec<Member<'_>> = Vec::with_capacity(members.len());
  for (key, value) in members {
    let position = *positions.entry(key.clone()).or_insert(unique.len());
    match unique.get_mut(position) {
      Some(earlier) => earlier.1 = value,
      None => unique.push((key, value)),
    }
  }
  // The sort is stable: keys that are no indexes stay as they are.
  unique.sort_by_cached_key(|(key, _)| array_index(key).unwrap_or(u32::MAX));
  unique
}

fn canonical_number(literal: &str) -> Cow<'_, str> {
  // Every integer with at most this many digits is a double.
  const SAFE_DIGITS: usize = 15;
  if literal.len() <= SAFE_DIGITS && literal != "-0" && literal.bytes().skip(1).all(|byte| byte.is_ascii_digit()) {
    return Cow::Borrowed(literal);
  }
  // Every number of the scanner is a number in Rust too.
  let number = literal.parse().unwrap_or(f64::NAN);
  if !number.is_finite() {
    return Cow::Borrowed("null");
  }
  let mut buffer = ryu_js::Buffer::new();
  let formatted = buffer.format_finite(number);
  if formatted == literal {
    Cow::Borrowed(literal)
  } else {
    Cow::Owned(formatted.to_owned())
  }
}

/// Writes the canonical form of an escape whose backslash comes before `rest`, and returns the text after it.
fn push_escape<'a>(out: &mut String, rest: &'a str) -> &'a str {
  let mut chars = rest.chars();
  let escaped = chars.next();
  if escaped != Some('u') {
    match escaped {
      Some('/') => out.push('/'),
      Some(character) => out.extend(['\\', character]),
      None => {}
    }
    return chars.as_str();
  }
  let (unit, rest) = unit(chars.as_str());
  match unit {
    0x8 => out.push_str("\\b"),
    0x9 => out.push_str("\\t"),
    0xa => out.push_str("\\n"),
    0xc => out.push_str("\\f"),
    0xd => out.push_str("\\r"),
    0x22 => out.push_str("\\\""),
    0x5c => out.push_str("\\\\"),
    0x20..0xd800 | 0xe000.. => out.extend(char::from_u32(unit.into())),
    0xd800..0xdc00 => {
      // Only an escape can complete a pair: a text cannot contain half of one.
      if let Some((low @ 0xdc00..0xe000, rest)) = rest.strip_prefix("\\u").map(self::unit) {
        out.extend(char::decode_utf16([unit, low]).filter_map(Result::ok));
        return rest;
      }
      push_unit(out, unit);
    }
    0..0x20 | 0xdc00..0xe000 => push_unit(out, unit),
  }
  rest
}

/// The UTF-16 code unit whose four hexadecimal digits `text` begins with, and the text after them.
fn unit(text: &str) -> (u16, &str) {
  let (digits, rest) = text.split_at_checked(4).unwrap_or((text, ""));
  (u16::from_str_radix(digits, 16).unwrap_or(0xfffd), rest)
}

fn push_unit(out: &mut String, unit: u16) {
  // Writing into a String cannot fail.
  let _ = write!(out, "\\u{unit:04x}");
}

#[cfg(test)]
mod tests;
