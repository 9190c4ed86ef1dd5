//! zstd: frames with or without a dictionary text, and skippable frames before them, which other readers ignore.

use std::fmt;

use zstd::zstd_safe::{
  self as safe, CCtx, CParameter, DCtx, ErrorCode, find_frame_compressed_size, get_error_name, get_frame_content_size,
};

/// For a text that is stored whole.
const WHOLE_LEVEL: i32 = 3;
/// For a text that is nearly equal to its dictionary, or that must be compressed fast.
const DIFFERENCE_LEVEL: i32 = 1;
/// The largest window that the format allows.
const MAX_WINDOW_LOG: u32 = 31;

/// The skippable frames of the store. They hold no text of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkippableFrame {
  /// What a list shows of a checkpoint.
  Note,
  /// The base of a delta.
  Reference,
  /// Empty: the steps of a delta follow.
  Steps,
}

impl SkippableFrame {
  fn magic(self) -> [u8; 4] {
    let number: u32 = match self {
      Self::Note => 0x184D_2A57,
      Self::Reference => 0x184D_2A58,
      Self::Steps => 0x184D_2A59,
    };
    number.to_le_bytes()
  }

  /// The bytes of the frame; none if the text is too long for one.
  #[must_use]
  pub fn frame(self, text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len());
    length.map_or_else(
      |_| Vec::new(),
      |length| [&self.magic()[..], &length.to_le_bytes(), text.as_bytes()].concat(),
    )
  }

  /// The text of the first frame of this kind in a file that begins with `head`; `None` if there is none, or if it is cut off.
  #[must_use]
  pub fn find(self, mut head: &[u8]) -> Option<&str> {
    loop {
      let (magic, rest) = head.split_first_chunk::<4>()?;
      if !is_skippable(*magic) {
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

fn is_skippable(magic: [u8; 4]) -> bool {
  u32::from_le_bytes(magic) & 0xFFFF_FFF0 == 0x184D_2A50
}

/// Why a frame cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameError {
  Damaged(&'static str),
  /// It has more bytes than the limit.
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

/// Compresses a text into a frame with a checksum.
#[must_use]
pub fn whole(text: &[u8]) -> Vec<u8> {
  frame(text, None, WHOLE_LEVEL)
}

/// Compresses a text faster, for a form that is not kept.
#[must_use]
pub fn quick(text: &[u8]) -> Vec<u8> {
  frame(text, None, DIFFERENCE_LEVEL)
}

/// Compresses a text for readers that have `context`, a short text with common words.
#[must_use]
pub fn in_context(text: &[u8], context: &[u8]) -> Vec<u8> {
  frame(text, Some(context), WHOLE_LEVEL)
}

/// Compresses a text for readers that have `known`, a nearly equal text. The two must not share memory: the library would treat
/// them as one overwritten window.
#[must_use]
pub fn difference(text: &[u8], known: &[u8]) -> Vec<u8> {
  frame(text, Some(known), DIFFERENCE_LEVEL)
}

#[expect(
  clippy::expect_used,
  reason = "the parameters are in bounds, and the output is as large as the library demands"
)]
fn frame(text: &[u8], known: Option<&[u8]>, level: i32) -> Vec<u8> {
  let mut context = CCtx::create();
  let mut set = |parameter| {
    context.set_parameter(parameter).expect("a parameter in its bounds");
  };
  set(CParameter::ChecksumFlag(true));
  set(CParameter::CompressionLevel(level));
  if let Some(known) = known {
    if level == DIFFERENCE_LEVEL {
      // Without it, only near repetitions are found.
      set(CParameter::EnableLongDistanceMatching(true));
    }
    // The window covers both texts.
    let reach = (text.len() + known.len()).max(1 << 10);
    set(CParameter::WindowLog(
      (usize::BITS - (reach - 1).leading_zeros()).min(MAX_WINDOW_LOG),
    ));
    context.ref_prefix(known).expect("an unused context");
  }
  let mut out = Vec::with_capacity(safe::compress_bound(text.len()));
  context.compress2(&mut out, text).expect("output for the worst case");
  // A difference leaves nearly all of it unused.
  out.shrink_to_fit();
  out
}

/// Decodes frame after frame.
pub struct FrameDecoder {
  context: DCtx<'static>,
  limit: u64,
}

impl fmt::Debug for FrameDecoder {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "FrameDecoder of texts of up to {} bytes", self.limit)
  }
}

impl FrameDecoder {
  /// Texts of more than `limit` bytes are an error.
  #[must_use]
  pub fn new(limit: u64) -> Self {
    Self {
      context: DCtx::create(),
      limit,
    }
  }

  /// Decodes the first frame that is not skippable into `text`. Returns the offset in `bytes` at which the frame ends.
  /// `known` is the dictionary text of a difference.
  pub fn decode(&mut self, bytes: &[u8], known: &[u8], text: &mut Vec<u8>) -> Result<usize, FrameError> {
    let start = end_of_skippable_frames(bytes);
    let rest = &bytes[start..];
    let size = find_frame_compressed_size(rest).map_err(damaged)?;
    let frame = &rest[..size];
    let length = get_frame_content_size(frame).map_err(|_| FrameError::Damaged("it has no beginning"))?;
    let length = length.ok_or(FrameError::Damaged("it does not say how long it is"))?;
    let capacity = usize::try_from(length).ok().filter(|_| length <= self.limit);
    text.clear();
    capacity
      .and_then(|capacity| text.try_reserve_exact(capacity).ok())
      .ok_or(FrameError::TooLarge(length))?;
    let decoded = self.context.decompress_using_dict(text, frame, known);
    decoded.map_err(damaged)?;
    Ok(start + size)
  }
}

/// The offset after the skippable frames at the beginning.
fn end_of_skippable_frames(bytes: &[u8]) -> usize {
  let mut end = 0;
  while let Some((magic, length)) = bytes[end..].first_chunk::<8>().map(|head| head.split_at(4))
    && is_skippable([magic[0], magic[1], magic[2], magic[3]])
    && let Ok(length) = length.try_into().map(u32::from_le_bytes)
    && let Some(next) = usize::try_from(length)
      .ok()
      .and_then(|length| end.checked_add(length + 8))
    && next <= bytes.len()
  {
    end = next;
  }
  end
}

/// Whether a file has anything but skippable frames.
#[must_use]
pub fn holds_text(bytes: &[u8]) -> bool {
  end_of_skippable_frames(bytes) < bytes.len()
}

/// Decodes the first frame that is not skippable.
pub fn text_of(bytes: &[u8], known: &[u8], limit: u64) -> Result<Vec<u8>, FrameError> {
  let mut text = Vec::new();
  FrameDecoder::new(limit).decode(bytes, known, &mut text)?;
  Ok(text)
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
  fn decoding_returns_what_was_compressed() {
    let text = text();
    let packed = whole(&text);
    assert!(packed.len() < text.len());
    assert_eq!(text_of(&packed, b"", u64::MAX), Ok(text));
    assert_eq!(text_of(&whole(b""), b"", 0).unwrap(), b"");
  }

  #[test]
  fn difference_is_small_and_needs_its_dictionary_text() {
    let known = text();
    let mut changed = known.clone();
    changed.splice(100_000..100_010, *b"something else");
    let packed = difference(&changed, &known);
    assert!(packed.len() < 500, "{}", packed.len());
    assert_eq!(text_of(&packed, &known, u64::MAX).unwrap(), changed);
    assert!(matches!(text_of(&packed, b"", u64::MAX), Err(FrameError::Damaged(_))));
    let mut other = known;
    other[50_000] ^= 1;
    assert!(matches!(
      text_of(&packed, &other, u64::MAX),
      Err(FrameError::Damaged(_))
    ));
  }

  #[test]
  fn skippable_frames_are_found_and_skipped() {
    let mut bytes = SkippableFrame::Reference.frame("this");
    bytes.extend(SkippableFrame::Note.frame("that"));
    bytes.extend(whole(b"text"));
    assert_eq!(SkippableFrame::Note.find(&bytes), Some("that"));
    assert_eq!(SkippableFrame::Reference.find(&bytes), Some("this"));
    assert_eq!(SkippableFrame::Note.find(&bytes[..20]), None);
    assert_eq!(SkippableFrame::Note.find(&whole(b"text")), None);
    assert_eq!(SkippableFrame::Note.find(b""), None);
    assert_eq!(text_of(&bytes, b"", 4).unwrap(), b"text");
    assert!(holds_text(&bytes) && !holds_text(&bytes[..bytes.len() - whole(b"text").len()]));
  }

  #[test]
  fn decoding_refuses_damaged_and_large_frames() {
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
