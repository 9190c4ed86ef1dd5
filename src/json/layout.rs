//! Layout: compact JSON to that of `JSON.stringify(value, null, 2)`, and back; and the limit on the length of a text.

use std::io::{self, Write};

use memchr::memchr2;

use crate::types::error::{Code, Error};

/// The longest string of a JavaScript engine, in UTF-16 code units: V8's limit on 64-bit systems. No longer text can be read back.
#[cfg(not(test))]
pub const MAX_TEXT_UNITS: usize = (1 << 29) - 24;

/// Short enough for tests to exceed.
#[cfg(test)]
pub const MAX_TEXT_UNITS: usize = 1 << 22;

/// The number of UTF-16 code units of a text, if it exceeds the limit.
#[must_use]
pub fn excess_units(text: &str) -> Option<usize> {
  // No text has more units than bytes.
  if text.len() <= MAX_TEXT_UNITS {
    return None;
  }
  Some(units(text.as_bytes())).filter(|units| *units > MAX_TEXT_UNITS)
}

/// The number of UTF-16 code units of the characters that begin in a part of a text, which may be cut anywhere.
#[must_use]
pub fn units(bytes: &[u8]) -> usize {
  let is_first = |byte: u8| byte & 0xc0 != 0x80;
  // A byte can count a chunk, so that the compiler vectorises the loop.
  let in_chunk = |chunk: &[u8]| {
    chunk
      .iter()
      .map(|&byte| u8::from(is_first(byte)) + u8::from(byte >= 0xf0))
      .sum::<u8>()
  };
  bytes.chunks(127).map(|chunk| usize::from(in_chunk(chunk))).sum()
}

/// The error for a text of `units` UTF-16 code units, which exceeds the limit and is not stored.
#[must_use]
pub fn too_long(what: &str, units: usize) -> Error {
  let message = format!(
    "{what} becomes a JSON text of {units} UTF-16 code units or more, and a JavaScript string holds at most \
     {MAX_TEXT_UNITS}: it could not be read back. Store large parts by themselves, as task results or as the context of an \
     agent's checkpoint, and keep references to them"
  );
  Error::new(Code::TooLarge, message)
}

/// The bytes that are buffered before a write: few enough for the processor's cache, and many enough for a system call.
const BUFFER_BYTES: usize = 1 << 18;

/// Most pieces of JSON are shorter than this. Always copying this many bytes, and advancing by the real length, is several times
/// faster than copying a variable number.
const STEP: usize = 32;

/// Writes compact JSON in the two-space layout, value by value.
#[expect(missing_debug_implementations, reason = "a dyn Write has no Debug")]
pub struct Layout<'a> {
  out: &'a mut dyn Write,
  /// Its length is fixed.
  buffer: Vec<u8>,
  filled: usize,
  /// The number of UTF-16 code units that were written to `out`.
  written_units: usize,
}

impl<'a> Layout<'a> {
  /// `expected` is an estimate of the bytes to lay out.
  pub fn new(out: &'a mut dyn Write, expected: usize) -> Self {
    Self {
      out,
      buffer: vec![0; (expected + expected / 2 + 1024).min(BUFFER_BYTES)],
      filled: 0,
      written_units: 0,
    }
  }

  /// Copies text as it is.
  pub fn raw(&mut self, text: &str) -> io::Result<()> {
    self.copy(text.as_bytes(), 0, text.len())
  }

  /// Lays out one value whose surroundings are `depth` levels deep, and counts its members or items. It must be valid and
  /// free of white space between its tokens.
  pub fn value(&mut self, compact: &str, depth: usize) -> io::Result<usize> {
    let bytes = compact.as_bytes();
    let mut level = depth;
    let mut count = 0;
    let mut copied = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
      at += 1;
      match byte {
        b'"' => at = string_end(bytes, at),
        b'{' | b'[' => {
          if matches!(bytes.get(at), Some(b'}' | b']')) {
            at += 1;
          } else {
            count += usize::from(level == depth);
            level += 1;
            self.copy(bytes, copied, at)?;
            copied = at;
            self.new_line(level)?;
          }
        }
        b'}' | b']' => {
          level -= 1;
          self.copy(bytes, copied, at - 1)?;
          copied = at - 1;
          self.new_line(level)?;
        }
        b',' => {
          count += usize::from(level == depth + 1);
          self.copy(bytes, copied, at)?;
          copied = at;
          self.new_line(level)?;
        }
        b':' => {
          self.copy(bytes, copied, at)?;
          copied = at;
          self.raw(" ")?;
        }
        _ => {}
      }
    }
    self.copy(bytes, copied, bytes.len())?;
    Ok(count)
  }

  /// A new line, `depth` levels deep.
  pub fn new_line(&mut self, depth: usize) -> io::Result<()> {
    const LINE: &[u8; 65] = b"\n                                                                ";
    let mut width = 1 + depth * 2;
    let first = width.min(LINE.len());
    self.copy(LINE, 0, first)?;
    width -= first;
    while width > 0 {
      let more = width.min(LINE.len() - 1);
      self.copy(LINE, 1, 1 + more)?;
      width -= more;
    }
    Ok(())
  }

  /// Writes the buffer, and flushes the writer, which may begin with its work while the next bytes are computed.
  pub fn flush(&mut self) -> io::Result<()> {
    self.write_buffer()?;
    self.out.flush()
  }

  pub fn finish(mut self) -> io::Result<()> {
    self.write_buffer()
  }

  /// Copies `source[start..end]`.
  #[inline]
  fn copy(&mut self, source: &[u8], start: usize, end: usize) -> io::Result<()> {
    let length = end - start;
    if length <= STEP
      && let Some(step) = source.get(start..start + STEP)
      && let Some(free) = self.buffer.get_mut(self.filled..self.filled + STEP)
    {
      free.copy_from_slice(step);
      self.filled += length;
      return Ok(());
    }
    self.copy_exactly(&source[start..end])
  }

  #[inline(never)]
  fn copy_exactly(&mut self, bytes: &[u8]) -> io::Result<()> {
    if self.filled + bytes.len() > self.buffer.len() {
      self.write_buffer()?;
      if bytes.len() > self.buffer.len() {
        self.written_units = count_units(self.written_units, bytes)?;
        return self.out.write_all(bytes);
      }
    }
    self.buffer[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
    self.filled += bytes.len();
    Ok(())
  }

  fn write_buffer(&mut self) -> io::Result<()> {
    let buffered = &self.buffer[..self.filled];
    self.written_units = count_units(self.written_units, buffered)?;
    self.out.write_all(buffered)?;
    self.filled = 0;
    Ok(())
  }
}

/// Adds the units of the next bytes; an error if the text becomes too long to read back, as deep nesting can make it.
fn count_units(written: usize, bytes: &[u8]) -> io::Result<usize> {
  let total = written + units(bytes);
  if total > MAX_TEXT_UNITS {
    return Err(io::Error::other(too_long("The document", total)));
  }
  Ok(total)
}

/// Removes the white space between tokens. Invalid JSON stays invalid.
#[must_use]
pub fn compact(text: &str) -> String {
  let bytes = text.as_bytes();
  let mut out = Vec::with_capacity(text.len());
  let mut copied = 0;
  let mut at = 0;
  while let Some(&byte) = bytes.get(at) {
    at += 1;
    match byte {
      b'"' => at = string_end(bytes, at),
      b' ' | b'\n' | b'\r' | b'\t' => {
        let space = at - 1;
        while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
          at += 1;
        }
        // `1 2` must not become a number.
        let is_needed = is_in_word(bytes, space.wrapping_sub(1)) && is_in_word(bytes, at);
        out.extend_from_slice(&bytes[copied..space + usize::from(is_needed)]);
        copied = at;
      }
      _ => {}
    }
  }
  out.extend_from_slice(&bytes[copied..]);
  into_text(out)
}

/// Whether a byte may be part of a number, `true`, `false` or `null`.
fn is_in_word(bytes: &[u8], at: usize) -> bool {
  bytes
    .get(at)
    .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

/// The position after the closing quote of the string whose inside begins at `at`.
#[inline]
pub(super) fn string_end(bytes: &[u8], mut at: usize) -> usize {
  while let Some(found) = bytes.get(at..).and_then(find_special) {
    at += found + 1;
    if bytes[at - 1] == b'"' {
      return at;
    }
    at += 1;
  }
  bytes.len()
}

/// The position of the first quote or backslash. Most strings are short, and end within a word or two.
#[inline]
fn find_special(bytes: &[u8]) -> Option<usize> {
  const ONES: u64 = u64::MAX / 255;
  let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
  let (words, _) = bytes.as_chunks::<8>();
  for (index, word) in words.iter().take(3).enumerate() {
    let word = u64::from_le_bytes(*word);
    let special = zero_bytes(word ^ (ONES * 0x22)) | zero_bytes(word ^ (ONES * 0x5c));
    if special != 0 {
      return Some(index * 8 + special.trailing_zeros() as usize / 8);
    }
  }
  let rest = bytes.len().min(words.len().min(3) * 8);
  Some(rest + memchr2(b'"', b'\\', &bytes[rest..])?)
}

fn into_text(bytes: Vec<u8>) -> String {
  String::from_utf8(bytes).expect("text is cut beside ASCII bytes only")
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::json::scan::validate;

  const COMPACT: &str =
    r#"{"a":[],"b":{},"c":[1,"x, {y}: \"z\" [","é",[[2]],{"d":null}],"":{"deep":{"er":[true,false]}}}"#;

  fn indent(compact: &str) -> io::Result<(String, usize)> {
    let mut out = Vec::new();
    let mut layout = Layout::new(&mut out, compact.len());
    let count = layout.value(compact, 0)?;
    layout.finish()?;
    Ok((into_text(out), count))
  }

  fn indented(compact: &str) -> String {
    indent(compact).unwrap().0
  }

  #[test]
  fn a_layout_with_too_much_white_space_is_refused() {
    let depth = 3000;
    let deep = "[".repeat(depth) + "1" + &"]".repeat(depth);
    let refused = indent(&deep).unwrap_err().downcast::<Error>().unwrap();
    assert_eq!(refused.code, Code::TooLarge);
    let half = "[".repeat(depth / 4) + "1" + &"]".repeat(depth / 4);
    assert!(indent(&half).is_ok());
  }

  #[test]
  fn value_counts_members_and_items() {
    for (text, count) in [
      ("{}", 0),
      ("[]", 0),
      ("5", 0),
      (r#""a,b""#, 0),
      (r#"{"a":[1,2,3]}"#, 1),
      (r#"{"a":{},"b":{"x":1,"y":2},"c":"d,e"}"#, 3),
      ("[[1,2],[3],[]]", 3),
    ] {
      assert_eq!(indent(text).unwrap().1, count, "{text}");
    }
  }

  #[test]
  fn texts_larger_than_the_buffer_are_laid_out_whole() {
    let long = "x".repeat(BUFFER_BYTES + 1);
    let text = format!(r#"["{long}",1,"{long}","short"]"#);
    assert_eq!(compact(&indented(&text)), text);
    let many = format!("[{}0]", "123456,".repeat(BUFFER_BYTES / 4));
    assert_eq!(compact(&indented(&many)), many);
  }

  #[test]
  fn the_layout_is_that_of_two_spaces() {
    let value: serde_json::Value =
      serde_json::from_str(r#"{"a":[],"b":{},"c":[1,"x, {y}: \"z\" [",[[2]],{"d":null}]}"#).unwrap();
    assert_eq!(
      indented(&serde_json::to_string(&value).unwrap()),
      serde_json::to_string_pretty(&value).unwrap()
    );
    assert_eq!(indented("5"), "5");
    assert_eq!(indented("{}"), "{}");
    assert_eq!(indented(r#""a\\""#), r#""a\\""#);
    let deep = "[".repeat(50) + "1" + &"]".repeat(50);
    assert!(indented(&deep).contains(&format!("\n{}1\n", " ".repeat(100))));
  }

  #[test]
  fn units_are_those_of_utf16_wherever_the_text_is_cut() {
    let text = "aé検🟦\u{7f}\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}".repeat(40);
    assert_eq!(units(text.as_bytes()), text.encode_utf16().count());
    for at in 0..text.len() {
      let (start, end) = text.as_bytes().split_at(at);
      assert_eq!(units(start) + units(end), text.encode_utf16().count(), "{at}");
    }
  }

  #[test]
  fn a_text_is_laid_out_up_to_the_limit_of_an_engine() {
    let laid_out = |text: &str| {
      let mut layout = Vec::new();
      let mut writer = Layout::new(&mut layout, text.len());
      writer.value(text, 0).and_then(|_| writer.finish())
    };
    for character in ["x", "é", "検", "🟦"] {
      let most = (MAX_TEXT_UNITS - 2) / character.encode_utf16().count();
      let fits = format!("\"{}\"", character.repeat(most));
      laid_out(&fits).unwrap();
      assert_eq!(excess_units(&fits), None);
      let too_long = format!("\"{}\"", character.repeat(most + 1));
      let refused = laid_out(&too_long).unwrap_err().downcast::<Error>().unwrap();
      assert_eq!(refused.code, Code::TooLarge);
      assert_eq!(excess_units(&too_long), Some(too_long.encode_utf16().count()));
    }
    let deep = "[".repeat(1000) + &"]".repeat(1000);
    assert!(laid_out(&deep).is_ok());
    let deeper = "[".repeat(2000) + &"]".repeat(2000);
    assert!(laid_out(&deeper).is_err(), "white space counts");
  }

  #[test]
  fn compacting_undoes_indenting() {
    assert_eq!(compact(&indented(COMPACT)), COMPACT);
    assert_eq!(compact(COMPACT), COMPACT);
    assert_eq!(compact(" [ 1 ,\t\"a b\" ]\r\n"), "[1,\"a b\"]");
  }

  #[test]
  fn string_end_skips_escaped_quotes() {
    for length in 0..60 {
      for tail in ["\"", "\\\"\"", "\\\\\"", "é\"", "\\u0041\"x\""] {
        let text = format!("{}{tail},1", "a".repeat(length));
        let end = format!("{}{tail}", "a".repeat(length)).trim_end_matches("x\"").len();
        assert_eq!(string_end(text.as_bytes(), 0), end, "{text}");
      }
    }
    assert_eq!(string_end(b"open", 0), 4);
    assert_eq!(string_end(b"open\\", 0), 5);
  }

  #[test]
  fn compact_keeps_invalid_json_invalid() {
    for broken in [
      "[1 2]",
      "[- 1]",
      "[tr\nue]",
      "[1 .5]",
      "[1e +5]",
      "[\"a\" \"b\"]",
      "{\"a\" 1}",
      "1 2",
      "[1] [2]",
      " ",
    ] {
      assert!(validate(&compact(broken)).is_err(), "{broken:?}");
    }
    for good in ["[ 1 , -2 ]", "{ \"a\" : true , \"b\":null }", " 1 "] {
      assert!(validate(&compact(good)).is_ok(), "{good:?}");
    }
  }
}
