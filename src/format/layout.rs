//! White space: compact JSON to the two-space layout of `JSON.stringify(value, null, 2)`, and back.

use memchr::memchr2;

/// Lays out compact JSON. The input must be valid and free of white space between its tokens.
#[must_use]
pub fn indent(compact: &str) -> String {
  let bytes = compact.as_bytes();
  let mut out = Vec::with_capacity(compact.len() + compact.len() / 2);
  let mut depth = 0;
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
  into_text(out)
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
  // Text was only cut beside ASCII bytes.
  String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
  use super::*;

  const COMPACT: &str =
    r#"{"a":[],"b":{},"c":[1,"x, {y}: \"z\" [","é",[[2]],{"d":null}],"":{"deep":{"er":[true,false]}}}"#;

  #[test]
  fn indented_text_is_what_the_two_space_layout_says() {
    let value: serde_json::Value =
      serde_json::from_str(r#"{"a":[],"b":{},"c":[1,"x, {y}: \"z\" [",[[2]],{"d":null}]}"#).unwrap();
    assert_eq!(
      indent(&serde_json::to_string(&value).unwrap()),
      serde_json::to_string_pretty(&value).unwrap()
    );
    assert_eq!(indent("5"), "5");
    assert_eq!(indent("{}"), "{}");
    assert_eq!(indent(r#""a\\""#), r#""a\\""#);
    let deep = "[".repeat(50) + "1" + &"]".repeat(50);
    assert!(indent(&deep).contains(&format!("\n{}1\n", " ".repeat(100))));
  }

  #[test]
  fn compacting_undoes_indenting() {
    assert_eq!(compact(&indent(COMPACT)), COMPACT);
    assert_eq!(compact(COMPACT), COMPACT);
    assert_eq!(compact(" [ 1 ,\t\"a b\" ]\r\n"), "[1,\"a b\"]");
  }
}
