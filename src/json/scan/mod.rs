//! A strict JSON scanner that finds where values begin and end, and builds none of them.
//!
//! It never recurses: nesting costs one byte a level on the heap, so that no document can exhaust the stack.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memchr2};

/// The position of the first byte that is not valid JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntaxError {
  pub at: usize,
}

impl fmt::Display for SyntaxError {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "not valid JSON at byte {}", self.at)
  }
}

impl std::error::Error for SyntaxError {}

/// A member of an object in a text.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
  /// The key without its quotes, escapes untouched.
  pub raw_key: &'a str,
  /// The value, escapes and inner white space untouched.
  pub value: &'a str,
  /// The position of the key's opening quote in the scanned text.
  pub start: usize,
}

impl Member<'_> {
  /// The position of its value, in a text without white space.
  #[must_use]
  pub fn value_start(&self) -> usize {
    self.start + self.raw_key.len() + "\"\":".len()
  }

  #[must_use]
  pub fn is_named(&self, name: &str) -> bool {
    unescape(self.raw_key) == name
  }
}

/// The members of the object that `text` consists of, in the order of the text.
pub fn members(text: &str) -> Result<Vec<Member<'_>>, SyntaxError> {
  let mut scanner = Scanner::new(text);
  let mut members = Vec::new();
  scanner.skip_space();
  scanner.expect(b'{')?;
  scanner.skip_space();
  if scanner.peek() == Some(b'}') {
    scanner.at += 1;
  } else {
    loop {
      let start = scanner.at;
      let raw_key = scanner.string()?;
      scanner.skip_space();
      scanner.expect(b':')?;
      scanner.skip_space();
      let value_start = scanner.at;
      scanner.skip_value()?;
      members.push(Member {
        raw_key,
        value: &text[value_start..scanner.at],
        start,
      });
      scanner.skip_space();
      match scanner.next()? {
        b',' => scanner.skip_space(),
        b'}' => break,
        _ => return Err(scanner.error_before()),
      }
    }
  }
  scanner.end()?;
  Ok(members)
}

/// The items of the array that `text` consists of.
pub fn items(text: &str) -> Result<Vec<&str>, SyntaxError> {
  let mut scanner = Scanner::new(text);
  let mut items = Vec::new();
  scanner.skip_space();
  scanner.expect(b'[')?;
  scanner.skip_space();
  if scanner.peek() == Some(b']') {
    scanner.at += 1;
  } else {
    loop {
      let start = scanner.at;
      scanner.skip_value()?;
      items.push(&text[start..scanner.at]);
      scanner.skip_space();
      match scanner.next()? {
        b',' => scanner.skip_space(),
        b']' => break,
        _ => return Err(scanner.error_before()),
      }
    }
  }
  scanner.end()?;
  Ok(items)
}

/// How many members or items an object or an array has. The text must be valid JSON without white space: it is not checked.
#[must_use]
pub fn count(text: &str) -> usize {
  let bytes = text.as_bytes();
  let (mut at, mut depth, mut commas) = (0, 0_usize, 0);
  while let Some(byte) = bytes.get(at) {
    at += 1;
    match byte {
      b'"' => at = end_of_string(bytes, at),
      b'{' | b'[' => depth += 1,
      b'}' | b']' => depth = depth.saturating_sub(1),
      b',' if depth == 1 => commas += 1,
      _ => {}
    }
  }
  if bytes.len() > 2 { commas + 1 } else { 0 }
}

/// The position after the string whose inside begins at `start`. Quotes are rarer than other escapes.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
  let mut at = start;
  while let Some(quote) = memchr(b'"', &bytes[at..]) {
    at += quote + 1;
    let inside = &bytes[start..at - 1];
    let escapes = inside.iter().rev().take_while(|byte| **byte == b'\\').count();
    if escapes % 2 == 0 {
      return at;
    }
  }
  bytes.len()
}

/// The last member of that name, which is the one that a JSON parser keeps.
#[must_use]
pub fn find<'a>(members: &[Member<'a>], name: &str) -> Option<Member<'a>> {
  members.iter().rev().find(|member| member.is_named(name)).copied()
}

/// Whether `text` is one JSON value and nothing else.
pub fn validate(text: &str) -> Result<(), SyntaxError> {
  let mut scanner = Scanner::new(text);
  scanner.skip_space();
  scanner.skip_value()?;
  scanner.end()
}

/// The value of a string literal; `None` for every other value.
#[must_use]
pub fn text_of(literal: &str) -> Option<Cow<'_, str>> {
  Some(unescape(literal.strip_prefix('"')?.strip_suffix('"')?))
}

/// The value of the inside of a string literal. Lone surrogates become U+FFFD: good enough to compare, not to store.
#[must_use]
pub fn unescape(raw: &str) -> Cow<'_, str> {
  if !raw.contains('\\') {
    return Cow::Borrowed(raw);
  }
  Cow::Owned(String::from_utf16_lossy(&units(raw)))
}

/// The UTF-16 code units of the inside of a string literal.
fn units(raw: &str) -> Vec<u16> {
  let mut units: Vec<u16> = Vec::with_capacity(raw.len());
  let mut chars = raw.chars();
  while let Some(c) = chars.next() {
    let plain = match c {
      '\\' => match chars.next() {
        Some('n') => '\n',
        Some('t') => '\t',
        Some('r') => '\r',
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('u') => {
          let hex: String = chars.by_ref().take(4).collect();
          units.push(u16::from_str_radix(&hex, 16).unwrap_or(0xfffd));
          continue;
        }
        Some(other) => other,
        None => break,
      },
      other => other,
    };
    units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
  }
  units
}

/// Reads tokens; an error for everything that is not JSON.
pub(super) struct Scanner<'a> {
  text: &'a str,
  bytes: &'a [u8],
  pub(super) at: usize,
  /// The closing brackets that are still expected, innermost last. Kept between values to save allocations.
  open: Vec<u8>,
}

impl<'a> Scanner<'a> {
  pub(super) fn new(text: &'a str) -> Self {
    Self {
      text,
      bytes: text.as_bytes(),
      at: 0,
      open: Vec::new(),
    }
  }

  pub(super) fn peek(&self) -> Option<u8> {
    self.bytes.get(self.at).copied()
  }

  pub(super) fn next(&mut self) -> Result<u8, SyntaxError> {
    let byte = self.peek().ok_or(SyntaxError { at: self.at })?;
    self.at += 1;
    Ok(byte)
  }

  pub(super) fn error_before(&self) -> SyntaxError {
    SyntaxError { at: self.at - 1 }
  }

  pub(super) fn expect(&mut self, expected: u8) -> Result<(), SyntaxError> {
    if self.next()? == expected {
      Ok(())
    } else {
      Err(self.error_before())
    }
  }

  pub(super) fn skip_space(&mut self) {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
      self.at += 1;
    }
  }

  pub(super) fn end(&mut self) -> Result<(), SyntaxError> {
    self.skip_space();
    if self.at == self.bytes.len() {
      Ok(())
    } else {
      Err(SyntaxError { at: self.at })
    }
  }

  fn skip_value(&mut self) -> Result<(), SyntaxError> {
    debug_assert!(self.open.is_empty(), "a value is skipped whole");
    loop {
      // A value begins here.
      match self.next()? {
        b'"' => {
          self.at -= 1;
          self.string()?;
        }
        b'{' => {
          self.skip_space();
          if self.peek() == Some(b'}') {
            self.at += 1;
          } else {
            self.open.push(b'}');
            self.key()?;
            continue;
          }
        }
        b'[' => {
          self.skip_space();
          if self.peek() == Some(b']') {
            self.at += 1;
          } else {
            self.open.push(b']');
            continue;
          }
        }
        b't' => self.literal("rue")?,
        b'f' => self.literal("alse")?,
        b'n' => self.literal("ull")?,
        b'-' | b'0'..=b'9' => {
          self.at -= 1;
          self.number()?;
        }
        _ => return Err(self.error_before()),
      }
      // A value has ended here. Close containers until a comma announces the next value.
      loop {
        let Some(&closer) = self.open.last() else {
          return Ok(());
        };
        self.skip_space();
        match self.next()? {
          b',' => {
            self.skip_space();
            if closer == b'}' {
              self.key()?;
            }
            break;
          }
          byte if byte == closer => {
            self.open.pop();
          }
          _ => return Err(self.error_before()),
        }
      }
    }
  }

  /// A key, its colon, and the white space up to its value.
  fn key(&mut self) -> Result<(), SyntaxError> {
    self.string()?;
    self.skip_space();
    self.expect(b':')?;
    self.skip_space();
    Ok(())
  }

  pub(super) fn literal(&mut self, rest: &str) -> Result<(), SyntaxError> {
    if self.bytes[self.at..].starts_with(rest.as_bytes()) {
      self.at += rest.len();
      Ok(())
    } else {
      Err(SyntaxError { at: self.at })
    }
  }

  pub(super) fn number(&mut self) -> Result<(), SyntaxError> {
    if self.peek() == Some(b'-') {
      self.at += 1;
    }
    if self.peek() == Some(b'0') {
      self.at += 1;
    } else {
      self.digits()?;
    }
    if self.peek() == Some(b'.') {
      self.at += 1;
      self.digits()?;
    }
    if let Some(b'e' | b'E') = self.peek() {
      self.at += 1;
      if let Some(b'+' | b'-') = self.peek() {
        self.at += 1;
      }
      self.digits()?;
    }
    Ok(())
  }

  fn digits(&mut self) -> Result<(), SyntaxError> {
    let start = self.at;
    while let Some(b'0'..=b'9') = self.peek() {
      self.at += 1;
    }
    if self.at == start {
      Err(SyntaxError { at: start })
    } else {
      Ok(())
    }
  }

  /// The inside of the string literal that begins here.
  pub(super) fn string(&mut self) -> Result<&'a str, SyntaxError> {
    self.expect(b'"')?;
    let start = self.at;
    loop {
      let run_start = self.at;
      let Some(run) = memchr2(b'"', b'\\', &self.bytes[run_start..]) else {
        return Err(SyntaxError { at: self.bytes.len() });
      };
      self.at += run;
      // Without an early exit this runs many bytes at a time.
      let lowest = self.bytes[run_start..self.at]
        .iter()
        .fold(u8::MAX, |lowest, &byte| lowest.min(byte));
      if lowest < 0x20 {
        return Err(SyntaxError { at: run_start });
      }
      if self.next()? == b'"' {
        return Ok(&self.text[start..self.at - 1]);
      }
      match self.next()? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
        b'u' => {
          for _ in 0..4 {
            if !self.next()?.is_ascii_hexdigit() {
              return Err(self.error_before());
            }
          }
        }
        _ => return Err(self.error_before()),
      }
    }
  }
}

#[cfg(test)]
mod tests;
