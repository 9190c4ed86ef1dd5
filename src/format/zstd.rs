//! zstd: frames with or without a text that both sides know, and a note in front that other readers pass over.

use std::fmt;

use zstd::zstd_safe::{
  self as safe, CCtx, CParameter, DCtx, ErrorCode, find_frame_compressed_size, get_error_name, get_frame_content_size,
};

/// For a text that is stored whole.
const WHOLE_LEVEL: i32 = 3;
/// For one of which nearly all is known already: what is left is little, and finding it is what takes the time.
const DIFFERENCE_LEVEL: i32 = 1;
/// The largest window that the format allows.
const MAX_WINDOW_LOG: u32 = 31;

/// Kinds of frames that hold no text: readers that do not know them pass over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aside {
  /// What a list shows of a checkpoint.
  Note,
  /// What a difference stands on.
  Reference,
}

impl Aside {
  fn magic(self) -> [u8; 4] {
    let number: u32 = match self {
      Self::Note => 0x184D_2A57,
      Self::Reference => 0x184D_2A58,
    };
    number.to_le_bytes()
  }

  /// The frame; it is empty if there is too much to put down.
  #[must_use]
  pub fn frame(self, text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len());
    length.map_or_else(
      |_| Vec::new(),
      |length| [&self.magic()[..], &length.to_le_bytes(), text.as_bytes()].concat(),
    )
  }

  /// The text of the first frame of this kind, from the beginning of a file; `None` if there is none, or not all of it.
  #[must_use]
  pub fn find(self, mut head: &[u8]) -> Option<&str> {
    loop {
      let (magic, rest) = head.split_first_chunk::<4>()?;
      if !is_aside(*magic) {
        return None;
      }
      let (length, rest) = rest.split_first_chunk()?;
      let (text, others) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
      if *magic == self.magic() {
        return str::from_utf8(text).ok();
      }
      head = others;
    }
  }
}

fn is_aside(magic: [u8; 4]) -> bool {
  u32::from_le_bytes(magic) & 0xFFFF_FFF0 == 0x184D_2A50
}

/// Why there is no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameError {
  Damaged(&'static str),
  /// It holds more than the limit.
  TooLarge(u64),
}

impl fmt::Display for FrameError {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    match self {
      Self::Damaged(why) => formatter.write_str(why),
      Self::TooLarge(size) => write!(formatter, "it holds {size} bytes"),
    }
  }
}

impl std::error::Error for FrameError {}

fn damaged(code: ErrorCode) -> FrameError {
  FrameError::Damaged(get_error_name(code))
}

/// A text as a frame of its own, with a checksum of its contents.
#[must_use]
pub fn whole(text: &[u8]) -> Vec<u8> {
  frame(text, None)
}

/// A text as a frame for readers who know another text, which it is nearly the same as. The two must not share memory: the
/// library takes that for a window that is written over.
#[must_use]
pub fn difference(text: &[u8], known: &[u8]) -> Vec<u8> {
  frame(text, Some(known))
}

#[expect(
  clippy::expect_used,
  reason = "all of it is in bounds, and the room is what the library asks for"
)]
fn frame(text: &[u8], known: Option<&[u8]>) -> Vec<u8> {
  let mut context = CCtx::create();
  let mut set = |parameter| {
    context.set_parameter(parameter).expect("a parameter in its bounds");
  };
  set(CParameter::ChecksumFlag(true));
  match known {
    None => set(CParameter::CompressionLevel(WHOLE_LEVEL)),
    Some(known) => {
      set(CParameter::CompressionLevel(DIFFERENCE_LEVEL));
      // Without it, only what is near is found. The window has to reach over all of both.
      set(CParameter::EnableLongDistanceMatching(true));
      let reach = (text.len() + known.len()).max(1 << 10);
      set(CParameter::WindowLog(
        (usize::BITS - (reach - 1).leading_zeros()).min(MAX_WINDOW_LOG),
      ));
      context.ref_prefix(known).expect("a context that has not begun");
    }
  }
  let mut out = Vec::with_capacity(safe::compress_bound(text.len()));
  context.compress2(&mut out, text).expect("room for the worst case");
  // Of a difference, nearly all of that room is left over.
  out.shrink_to_fit();
  out
}

/// The text in the first frame that holds one, and how many bytes of `bytes` it ended at. `known` is what the writer of a
/// difference knew.
pub fn text_of(bytes: &[u8], known: &[u8], limit: u64) -> Result<(Vec<u8>, usize), FrameError> {
  let mut start = 0;
  loop {
    let rest = &bytes[start..];
    let size = find_frame_compressed_size(rest).map_err(damaged)?;
    let frame = &rest[..size];
    start += size;
    if frame.first_chunk().is_some_and(|magic| is_aside(*magic)) {
      continue;
    }
    let length = get_frame_content_size(frame).map_err(|_| FrameError::Damaged("it has no beginning"))?;
    let length = length.ok_or(FrameError::Damaged("it does not say how long it is"))?;
    if length > limit {
      return Err(FrameError::TooLarge(length));
    }
    let room = usize::try_from(length).map_err(|_| FrameError::TooLarge(length))?;
    let mut text = Vec::new();
    if text.try_reserve_exact(room).is_err() {
      return Err(FrameError::TooLarge(length));
    }
    let mut context = DCtx::create();
    context.ref_prefix(known).map_err(damaged)?;
    context.decompress(&mut text, frame).map_err(damaged)?;
    return Ok((text, start));
  }
}

/// The checksum that ends a frame.
#[must_use]
pub fn checksum(frame: &[u8]) -> Option<u32> {
  frame.last_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
  use super::*;

  fn text() -> Vec<u8> {
    let lines = (0..20_000_u32).map(|number| format!("{:x}\n", number.wrapping_mul(2_654_435_761)));
    lines.collect::<String>().into_bytes()
  }

  #[test]
  fn what_is_packed_comes_back() {
    let text = text();
    let packed = whole(&text);
    assert!(packed.len() < text.len());
    assert_eq!(text_of(&packed, b"", u64::MAX), Ok((text, packed.len())));
    assert_eq!(text_of(&whole(b""), b"", 0).unwrap().0, b"");
  }

  #[test]
  fn a_difference_is_small_and_needs_the_text_that_it_differs_from() {
    let known = text();
    let mut changed = known.clone();
    changed.splice(100_000..100_010, *b"something else");
    let packed = difference(&changed, &known);
    assert!(packed.len() < 500, "{}", packed.len());
    assert_eq!(text_of(&packed, &known, u64::MAX).unwrap().0, changed);
    assert!(matches!(text_of(&packed, b"", u64::MAX), Err(FrameError::Damaged(_))));
    let mut other = known;
    other[50_000] ^= 1;
    assert!(matches!(
      text_of(&packed, &other, u64::MAX),
      Err(FrameError::Damaged(_))
    ));
  }

  #[test]
  fn what_stands_aside_is_found_and_passed_over() {
    let mut bytes = Aside::Reference.frame("this");
    bytes.extend(Aside::Note.frame("that"));
    bytes.extend(whole(b"text"));
    assert_eq!(Aside::Note.find(&bytes), Some("that"));
    assert_eq!(Aside::Reference.find(&bytes), Some("this"));
    assert_eq!(Aside::Note.find(&bytes[..20]), None);
    assert_eq!(Aside::Note.find(&whole(b"text")), None);
    assert_eq!(Aside::Note.find(b""), None);
    assert_eq!(text_of(&bytes, b"", 4).unwrap(), (b"text".to_vec(), bytes.len()));
  }

  #[test]
  fn what_is_damaged_or_too_large_is_an_error() {
    let packed = whole(&text());
    assert!(matches!(text_of(&packed, b"", 1000), Err(FrameError::TooLarge(_))));
    for cut in [0, 1, 5, packed.len() / 2, packed.len() - 1] {
      assert!(
        matches!(text_of(&packed[..cut], b"", u64::MAX), Err(FrameError::Damaged(_))),
        "{cut}"
      );
    }
    for at in [0, 6, packed.len() / 2, packed.len() - 1] {
      let mut flipped = packed.clone();
      flipped[at] ^= 1;
      assert!(text_of(&flipped, b"", 1 << 20).is_err(), "{at}");
    }
  }
}
