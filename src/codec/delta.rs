//! A checkpoint as the difference from a text that it shares with others: their base.
//!
//! A base is a sequence of frames. The first holds a whole text, each of the others the difference of a text from the one before.
//! A delta names how many bytes of the base it is based on: the last frame in them gives the text that it differs from. Frames
//! that are added later do not affect it.
//!
//! A difference is a compressed patch that turns one text into the other or, if they have too little in common, a frame that is
//! compressed with the other text as its dictionary.

use serde::{Deserialize, Serialize};

use crate::codec::patch::{self, Pieces};
use crate::codec::zstd::{self, FrameDecoder, FrameError, SkippableFrame};
use crate::types::id::CheckpointId;

/// The most bytes that the texts of a base may have together if the last has `length` bytes: a reader has to produce them all.
#[must_use]
pub fn max_work(length: u64) -> u64 {
  const ALWAYS: u64 = 16 << 20;
  const IN_TEXTS: u64 = 12;
  length.saturating_mul(IN_TEXTS).max(ALWAYS)
}

/// The reference of a delta ends within this many bytes.
pub const REFERENCE_BYTES: usize = 512;

/// What a delta is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
  /// The id of the base.
  pub key: CheckpointId,
  /// The length of the part of the base that the delta needs; at least one byte.
  pub bytes: u64,
  /// The checksum at the end of that part.
  #[serde(with = "hexadecimal")]
  pub checksum: u32,
  /// Whether the text of the delta is the text of the base, so that there is no difference.
  #[serde(rename = "same", default, skip_serializing_if = "std::ops::Not::not")]
  pub is_same: bool,
}

/// A number as a string of eight hexadecimal digits.
mod hexadecimal {
  use serde::de::{Deserialize, Deserializer, Error as _};
  use serde::ser::Serializer;

  #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
  pub(super) fn serialize<S: Serializer>(number: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{number:08x}"))
  }

  pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let digits = String::deserialize(deserializer)?;
    u32::from_str_radix(&digits, 16).map_err(D::Error::custom)
  }
}

impl Reference {
  /// Reads it from the beginning of a delta.
  #[must_use]
  pub fn of(head: &[u8]) -> Option<Self> {
    let reference: Self = serde_json::from_str(SkippableFrame::Reference.find(head)?).ok()?;
    (reference.bytes > 0).then_some(reference)
  }

  fn to_json(&self) -> String {
    // An id, numbers and a boolean always have a JSON form.
    serde_json::to_string(self).unwrap_or_default()
  }
}

/// The bytes of a delta: its reference, the note that a list shows, and the frame of the difference, if there is one.
#[must_use]
pub fn compose(reference: &Reference, note: &str, frame: &[u8]) -> Vec<u8> {
  [
    &SkippableFrame::Reference.frame(&reference.to_json()),
    &SkippableFrame::Note.frame(note),
    frame,
  ]
  .concat()
}

/// The text of a delta that is based on the text of `tip`.
pub fn text(delta: &[u8], reference: &Reference, tip: &Tip, limit: u64) -> Result<Vec<u8>, FrameError> {
  match (reference.is_same, zstd::holds_text(delta)) {
    (true, false) => Ok(tip.text.clone()),
    (true, true) => Err(FrameError::Damaged("it has a difference although it is the same text")),
    (false, _) => {
      let mut pieces = Pieces::whole(&tip.text[..]);
      apply_difference(&mut pieces, &mut FrameDecoder::new(limit), delta, limit)?;
      pieces.text()
    }
  }
}

/// The frame that turns `known` into `text`.
#[must_use]
pub fn difference(text: &[u8], known: &[u8]) -> Vec<u8> {
  let steps = patch::make(text, known).filter(|steps| patch::makes(steps, known, text));
  steps.map_or_else(
    || zstd::difference(text, known),
    |steps| {
      [
        SkippableFrame::Steps.frame(""),
        zstd::in_context(&steps, &known[known.len().saturating_sub(CONTEXT)..]),
      ]
      .concat()
    },
  )
}

/// The last bytes of the known text are the dictionary for a patch: new parts of a text often repeat them.
const CONTEXT: usize = 1 << 15;

/// Applies the first difference in `bytes` and returns the number of bytes that it occupies.
fn apply_difference(
  pieces: &mut Pieces<'_>,
  decoder: &mut FrameDecoder,
  bytes: &[u8],
  limit: u64,
) -> Result<usize, FrameError> {
  let mut out = Vec::new();
  if SkippableFrame::Steps.find(bytes).is_some() {
    let size = decoder.decode(bytes, &pieces.tail(CONTEXT), &mut out)?;
    pieces.apply(out, limit)?;
    return Ok(size);
  }
  let size = decoder.decode(bytes, &pieces.text()?, &mut out)?;
  *pieces = Pieces::whole(out);
  Ok(size)
}

/// The beginning of a base up to one of its texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BasePrefix {
  /// The length of that beginning.
  pub bytes: u64,
  /// The last four of those bytes.
  pub checksum: u32,
  /// The number of texts in it.
  pub texts: usize,
  /// The sum of the lengths of the texts.
  pub work: u64,
  /// The compressed size and the length of the first text, from which the compressed size of others is estimated.
  pub first: (u64, u64),
}

impl BasePrefix {
  /// With one more frame, `packed`, of a text of `length` bytes.
  fn extended_by(self, packed: &[u8], length: usize) -> Self {
    let (size, length) = (packed.len() as u64, length as u64);
    Self {
      bytes: self.bytes + size,
      checksum: zstd::checksum(packed).unwrap_or_default(),
      texts: self.texts + 1,
      work: self.work.saturating_add(length),
      first: if self.texts == 0 { (size, length) } else { self.first },
    }
  }
}

/// The last text of a base, or of its beginning.
#[derive(Debug)]
pub struct Tip {
  pub text: Vec<u8>,
  pub prefix: BasePrefix,
}

impl Tip {
  /// The tip of a new base, and its frame.
  #[must_use]
  pub fn first(text: Vec<u8>) -> (Self, Vec<u8>) {
    let frame = zstd::whole(&text);
    let prefix = BasePrefix::default().extended_by(&frame, text.len());
    (Self { text, prefix }, frame)
  }

  /// The tip after the frame `packed` of `text` was added to the base.
  #[must_use]
  pub fn next(&self, text: Vec<u8>, packed: &[u8]) -> Self {
    let prefix = self.prefix.extended_by(packed, text.len());
    Self { text, prefix }
  }

  /// Reads the first `bytes` bytes of a base.
  pub fn read(base: &[u8], bytes: u64, limit: u64) -> Result<Self, FrameError> {
    let too_short = FrameError::Damaged("it is shorter than it was");
    let mut rest = usize::try_from(bytes)
      .ok()
      .and_then(|bytes| base.get(..bytes))
      .ok_or(too_short)?;
    let mut decoder = FrameDecoder::new(limit);
    let mut text = Vec::new();
    let size = decoder.decode(rest, b"", &mut text)?;
    let mut prefix = BasePrefix::default().extended_by(&rest[..size], text.len());
    let mut pieces = Pieces::whole(text);
    rest = &rest[size..];
    while !rest.is_empty() {
      let size = apply_difference(&mut pieces, &mut decoder, rest, limit)?;
      prefix = prefix.extended_by(&rest[..size], pieces.length());
      if prefix.work > max_work(limit) {
        return Err(FrameError::TooLarge(prefix.work));
      }
      rest = &rest[size..];
    }
    Ok(Self {
      text: pieces.text()?,
      prefix,
    })
  }

  /// The estimated compressed size of a whole text of `length` bytes.
  #[must_use]
  pub fn whole_size(&self, length: usize) -> u64 {
    let (size, of) = self.prefix.first;
    let whole = u128::from(size) * length as u128 / u128::from(of.max(1));
    u64::try_from(whole).unwrap_or(u64::MAX)
  }

  #[must_use]
  pub fn reference(&self, base: &CheckpointId, is_same: bool) -> Reference {
    Reference {
      key: base.clone(),
      bytes: self.prefix.bytes,
      checksum: self.prefix.checksum,
      is_same,
    }
  }

  /// Whether the delta with that reference is based on this text.
  #[must_use]
  pub fn is_base_of(&self, reference: &Reference) -> bool {
    (self.prefix.bytes, self.prefix.checksum) == (reference.bytes, reference.checksum)
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn base() -> CheckpointId {
    CheckpointId::parse("cp-1-000001").unwrap()
  }

  fn texts() -> Vec<Vec<u8>> {
    let text = |last: u32| {
      let lines = (0..5_000_u32).map(|number| format!("{:x}\n", number.wrapping_mul(2_654_435_761)));
      format!("{}{last}", lines.collect::<String>()).into_bytes()
    };
    (0..4).map(text).collect()
  }

  #[test]
  fn a_base_contains_every_text_that_was_its_tip() {
    let texts = texts();
    let (mut tip, mut bytes) = Tip::first(texts[0].clone());
    let mut lengths = vec![tip.prefix.bytes];
    for text in &texts[1..] {
      let frame = difference(text, &tip.text);
      tip = tip.next(text.clone(), &frame);
      bytes.extend(frame);
      lengths.push(tip.prefix.bytes);
    }
    for (text, length) in texts.iter().zip(&lengths) {
      let read = Tip::read(&bytes, *length, u64::MAX).unwrap();
      assert_eq!((&read.text, read.prefix.bytes), (text, *length));
    }
    let read = Tip::read(&bytes, lengths[3], u64::MAX).unwrap();
    assert_eq!((read.prefix, read.prefix.texts), (tip.prefix, 4));
    for wrong in [0, 1, lengths[0] - 1, lengths[1] + 1, lengths[3] + 1] {
      assert!(Tip::read(&bytes, wrong, u64::MAX).is_err(), "{wrong}");
    }
    assert!(matches!(
      Tip::read(&bytes, lengths[0], 10),
      Err(FrameError::TooLarge(_))
    ));
  }

  #[test]
  fn a_base_with_more_text_than_allowed_is_not_read_to_its_end() {
    let text = vec![b' '; 1 << 20];
    let mut bytes = zstd::whole(&text);
    let again = zstd::difference(&text, &text.clone());
    for _ in 0..1000 {
      bytes.extend(&again);
    }
    let read = Tip::read(&bytes, bytes.len() as u64, 1 << 20);
    assert!(matches!(read, Err(FrameError::TooLarge(work)) if work <= 18 << 20));
    assert_eq!((max_work(1000), max_work(4 << 20)), (16 << 20, 48 << 20));
    assert_eq!(max_work(u64::MAX), u64::MAX);
  }

  #[test]
  fn the_reference_of_a_delta_is_in_its_first_bytes() {
    let (tip, _) = Tip::first(b"text".to_vec());
    let reference = tip.reference(&base(), false);
    let delta = compose(&reference, "note", &difference(b"text!", b"text"));
    assert_eq!(Reference::of(&delta[..90]), Some(reference));
    let checksum = format!("{:08x}", Reference::of(&delta).unwrap().checksum);
    assert_eq!(
      SkippableFrame::Reference.find(&delta),
      Some(
        format!(
          r#"{{"key":"cp-1-000001","bytes":{},"checksum":"{checksum}"}}"#,
          tip.prefix.bytes
        )
        .as_str()
      )
    );
    let same = tip.reference(&base(), true);
    let empty = compose(&same, "note", b"");
    assert!(
      SkippableFrame::Reference
        .find(&empty)
        .unwrap()
        .ends_with(r#"","same":true}"#)
    );
    assert_eq!(text(&empty, &same, &tip, 100).unwrap(), b"text");
    assert!(text(&delta, &same, &tip, 100).is_err());
    assert!(text(&empty, &tip.reference(&base(), false), &tip, 100).is_err());
    assert_eq!(SkippableFrame::Note.find(&delta), Some("note"));
    assert_eq!(
      text(&delta, &Reference::of(&delta).unwrap(), &tip, 100).unwrap(),
      b"text!"
    );
    for foreign in [&b""[..], b"{}", &delta[..40]] {
      assert_eq!(Reference::of(foreign), None);
    }
    for wrong in [
      "{}",
      r#"{"key":"../x","bytes":1,"checksum":"0"}"#,
      r#"{"key":"x","bytes":-1,"checksum":"0"}"#,
      r#"{"key":"x","bytes":0,"checksum":"0"}"#,
    ] {
      assert_eq!(Reference::of(&SkippableFrame::Reference.frame(wrong)), None, "{wrong}");
    }
  }
}
