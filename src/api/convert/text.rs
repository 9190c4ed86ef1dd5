//! Long texts, copied out of and into the engine in one pass. Worker threads convert their encoding.

use std::sync::atomic::{AtomicBool, Ordering};

use napi::bindgen_prelude::{FromNapiValue, JsValue, Utf16String};
use napi::{Env, JsString, Status, sys};

/// A copy of a JavaScript string.
pub enum Text {
  Utf8(String),
  /// The engine's own form of texts with characters outside Latin-1.
  Utf16(Utf16String),
}

/// Shorter texts are converted immediately.
const SHORT: usize = 1 << 14;

/// Whether the last long text was not ASCII: a guess for the next one. The engine converts ASCII to UTF-8 as fast as it copies,
/// but other texts several times slower.
static LAST_WAS_WIDE: AtomicBool = AtomicBool::new(false);

impl Text {
  pub fn copy(env: Env, text: JsString<'_>) -> napi::Result<Self> {
    let length = text.utf16_len()?;
    if length < SHORT {
      return Ok(Self::Utf8(String::from_unknown(text.to_unknown())?));
    }
    if !LAST_WAS_WIDE.load(Ordering::Relaxed) {
      if let Some(ascii) = copy_ascii(env, text, length)? {
        return Ok(Self::Utf8(ascii));
      }
      LAST_WAS_WIDE.store(true, Ordering::Relaxed);
    }
    Ok(Self::Utf16(Utf16String::from_unknown(text.to_unknown())?))
  }

  /// Takes time in proportion to the text: call it on a worker thread.
  pub fn into_string(self) -> String {
    match self {
      Self::Utf8(text) => text,
      Self::Utf16(units) => {
        let text = utf8_of(&units);
        if text.len() == units.len() {
          LAST_WAS_WIDE.store(false, Ordering::Relaxed);
        }
        text
      }
    }
  }
}

/// A stored item whose text is ready to be parsed by the engine.
pub struct Readable<T> {
  pub stored: T,
  /// The text in UTF-16 if it is long and not ASCII: the engine would convert UTF-8 slowly.
  pub wide: Option<Utf16String>,
}

impl<T> Readable<T> {
  /// Takes time in proportion to the text: call it on a worker thread.
  pub fn new(stored: T, text: impl FnOnce(&T) -> &str) -> Self {
    let text = text(&stored);
    let is_wide = text.len() >= SHORT && !text.is_ascii();
    let wide = is_wide.then(|| Utf16String::from(utf16_of(text)));
    Self { stored, wide }
  }
}

/// Copies a text of `length` UTF-16 units in one pass; `None` if it is not all ASCII. The function of napi reads the text twice,
/// because it determines the length first.
#[expect(unsafe_code, reason = "the engine writes into a buffer of the caller")]
fn copy_ascii(env: Env, text: JsString<'_>, length: usize) -> napi::Result<Option<String>> {
  // The capacity leaves space for one more character. Exactly `length` bytes then mean that every unit became one byte: other
  // texts become longer, or do not fit.
  let capacity = length + 5;
  let mut bytes: Vec<u8> = Vec::with_capacity(capacity);
  let mut written = 0;
  // SAFETY: `env` and `text` belong to the running callback. The engine writes at most `capacity` bytes, the last of them 0, into
  // a buffer of that capacity, and sets `written` to the number of bytes before the 0.
  let status = unsafe {
    sys::napi_get_value_string_utf8(
      env.raw(),
      text.raw(),
      bytes.as_mut_ptr().cast(),
      capacity,
      &raw mut written,
    )
  };
  if status != sys::Status::napi_ok {
    return Err(napi::Error::from_status(Status::from(status)));
  }
  if written != length {
    return Ok(None);
  }
  // SAFETY: the engine has initialized that many bytes.
  unsafe { bytes.set_len(written) };
  Ok(String::from_utf8(bytes).ok())
}

/// Converts to UTF-8. JSON of the engine has no lone surrogates; one would become U+FFFD.
fn utf8_of(units: &[u16]) -> String {
  const RUN: usize = 32;
  let mut bytes = Vec::with_capacity(units.len() + units.len() / 16);
  let mut rest = units;
  while !rest.is_empty() {
    let mut end = rest.len().min(RUN);
    // Without an early exit this runs many units at a time, and so does the narrowing.
    if rest[..end].iter().fold(0, |all, unit| all | unit) < 0x80 {
      bytes.extend(rest[..end].iter().map(|unit| unit.to_le_bytes()[0]));
    } else {
      // A pair is not torn.
      end += usize::from(matches!(rest[end - 1], 0xd800..0xdc00) && end < rest.len());
      for unit in char::decode_utf16(rest[..end].iter().copied()) {
        let character = unit.unwrap_or(char::REPLACEMENT_CHARACTER);
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
      }
    }
    rest = &rest[end..];
  }
  String::from_utf8(bytes).expect("every piece is UTF-8")
}

fn utf16_of(text: &str) -> Vec<u16> {
  const RUN: usize = 32;
  let mut units = Vec::with_capacity(text.len());
  let mut rest = text;
  while !rest.is_empty() {
    let mut end = rest.len().min(RUN);
    while !rest.is_char_boundary(end) {
      end -= 1;
    }
    let (run, others) = rest.split_at(end);
    if run.is_ascii() {
      units.extend(run.bytes().map(u16::from));
    } else {
      units.extend(run.encode_utf16());
    }
    rest = others;
  }
  units
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn utf16_becomes_utf8_and_back_wherever_the_runs_end() {
    let pieces = [
      "",
      "a",
      "plain text of some length, all of it ASCII",
      "é",
      "検査",
      "🟦",
      "🟦🟦🟦🟦🟦🟦🟦🟦🟦🟦",
    ];
    for first in pieces {
      for length in 0..70 {
        let text = format!("{}{first}{}", "x".repeat(length), "y".repeat(70 - length));
        let units: Vec<u16> = text.encode_utf16().collect();
        assert_eq!(utf8_of(&units), text);
        assert_eq!(utf16_of(&text), units);
      }
    }
  }
}
