//! White space: compact JSON to the two-space layout of `JSON.stringify(value, null, 2)`, and back.

use memchr::memchr2;

/// The longest text that a JavaScript engine can hold, and so read back: V8's limit on 64-bit systems.
pub const MAX_TEXT_BYTES: usize = (1 << 29) - 24;

/// Lays out compact JSON; `None` if that would be longer than [`MAX_TEXT_BYTES`]. Deep nesting takes much white space.
///
/// The input must be valid and free of white space between its tokens.
#[must_use]
pub fn indent(compact: &str) -> Option<String> {
  let bytes = compact.as_bytes();
  let mut out = Vec::with_capacity(compact.len() + compact.len() / 2);
  let mut depth = 0;
  let mut copied = 0;
  let mut at = 0;
  while let Some(&byte) = bytes.get(at) {
    at += 1;
    if out.len() > MAX_TEXT_BYTES {
      return None;
    }
    match byte {
      b'"' => at = string_end(bytes, at),
      b'{' | b'[' => {
        if matches!(bytes.get(at), Some(b'}' | b']')) {
          at += 1;
        } else {
          depth += 1;
          out.extend_from_slice(&bytes[copied..at]);
          copied = at;
          new_line(&mut out, depth);
        }
      }
      b'}' | b']' => {
        depth -= 1;
        out.extend_from_slice(&bytes[copied..at - 1]);
        copied = at - 1;
        new_line(&mut out, depth);
      }
      b',' => {
        out.extend_from_slice(&bytes[copied..at]);
        copied = at;
        new_line(&mut out, depth);
      }
      b':' => {
        out.extend_from_slice(&bytes[copied..at]);
        copied = at;
        out.push(b' ');
      }
      _ => {}
    }
  }
  out.extend_from_slice(&bytes[copied..]);
  (out.len() <= MAX_TEXT_BYTES).then(|| into_text(out))
}

/// Leaves out the white space between tokens. The input must be valid.
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
        out.extend_from_slice(&bytes[copied..at - 1]);
        while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
          at += 1;
        }
        copied = at;
      }
      _ => {}
    }
  }
  out.extend_from_slice(&bytes[copied..]);
  into_text(out)
}

/// The position after the closing quote of the string whose inside begins at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
  while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
    at += found + 1;
    if bytes[at - 1] == b'"' {
      return at;
    }
    at += 1;
  }
  bytes.len()
}

fn new_line(out: &mut Vec<u8>, depth: usize) {
  const SPACES: &[u8; 64] = &[b' '; 64];
  out.push(b'\n');
  let mut width = depth * 2;
  while width > 0 {
    let step = width.min(SPACES.len());
    out.extend_from_slice(&SPACES[..step]);
    width -= step;
  }
}

fn into_text(bytes: Vec<u8>) -> String {
  String::from_utf8(bytes).expect("text is cut beside ASCII bytes only")
}

#[cfg(test)]
mod tests {
  use super::*;

  const COMPACT: &str =
    r#"{"a":[],"b":{},"c":[1,"x, {y}: \"z\" [","é",[[2]],{"d":null}],"":{"deep":{"er":[true,false]}}}"#;

  fn indented(compact: &str) -> String {
    indent(compact).unwrap()
  }

  #[test]
  fn white_space_that_no_engine_could_read_back_is_not_made() {
    let depth = 30_000;
    let deep = "[".repeat(depth) + "1" + &"]".repeat(depth);
    assert_eq!(indent(&deep), None);
    let half = "[".repeat(depth / 4) + "1" + &"]".repeat(depth / 4);
    assert!(indent(&half).is_some());
  }

  #[test]
  fn indented_text_is_what_the_two_space_layout_says() {
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
  fn compacting_undoes_indenting() {
    assert_eq!(compact(&indented(COMPACT)), COMPACT);
    assert_eq!(compact(COMPACT), COMPACT);
    assert_eq!(compact(" [ 1 ,\t\"a b\" ]\r\n"), "[1,\"a b\"]");
  }
}
