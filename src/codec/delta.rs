//! A checkpoint as the difference from a text that it shares with others: their key.
//!
//! A key is a row of frames. The first holds a text whole, each of the others the difference of a text from the one before. A
//! delta says how many bytes of the key it stands on: the last frame in them gives the text that it differs from. What comes
//! after them was added later, and is no concern of it.
//!
//! A difference is the steps that lead from one text to the other, packed; or, if they are not alike enough for that, a frame
//! for readers who know the one.

use crate::codec::patch::{self, Pieces};
use crate::codec::zstd::{self, FrameDecoder, FrameError, SkippableFrame};
use crate::json::edit::{ObjectWriter, quoted};
use crate::json::scan::{find, members, text_of};
use crate::types::id::CheckpointId;

/// How many bytes of text a key may lead through, the last of them a text of that length: whoever reads it has to write
/// them all.
#[must_use]
pub fn most_work(length: u64) -> u64 {
  const ALWAYS: u64 = 16 << 20;
  const IN_TEXTS: u64 = 12;
  length.saturating_mul(IN_TEXTS).max(ALWAYS)
}

/// So many bytes at the beginning of a delta say what it stands on.
pub const REFERENCE_BYTES: usize = 512;

/// What a delta stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
  pub key: CheckpointId,
  /// How many bytes of the key; there is no key of none.
  pub bytes: u64,
  /// The checksum at the end of those.
  pub checksum: u32,
  /// Whether it is the text itself: there is no difference.
  pub is_same: bool,
}

impl Reference {
  /// From the beginning of a delta.
  #[must_use]
  pub fn of(head: &[u8]) -> Option<Self> {
    let found = members(SkippableFrame::Reference.find(head)?).ok()?;
    let value = |name| find(&found, name).map(|member| member.value);
    Some(Self {
      key: CheckpointId::parse(&text_of(value("key")?)?).ok()?,
      bytes: value("bytes")?.parse().ok().filter(|bytes| *bytes > 0)?,
      checksum: u32::from_str_radix(&text_of(value("checksum")?)?, 16).ok()?,
      is_same: value("same") == Some("true"),
    })
  }

  fn to_json(&self) -> String {
    let mut out = ObjectWriter::with_capacity(96);
    out.push("key", &quoted(self.key.as_str()));
    out.push("bytes", &self.bytes.to_string());
    out.push("checksum", &format!("\"{:08x}\"", self.checksum));
    if self.is_same {
      out.push("same", "true");
    }
    out.finish()
  }
}

/// The bytes of a delta: what it stands on, what a list shows of it, and a frame, unless there is no difference.
#[must_use]
pub fn compose(reference: &Reference, note: &str, frame: &[u8]) -> Vec<u8> {
  [
    &SkippableFrame::Reference.frame(&reference.to_json()),
    &SkippableFrame::Note.frame(note),
    frame,
  ]
  .concat()
}

/// The text of a delta that stands on that.
pub fn text(delta: &[u8], reference: &Reference, tip: &Tip, limit: u64) -> Result<Vec<u8>, FrameError> {
  match (reference.is_same, zstd::holds_text(delta)) {
    (true, false) => Ok(tip.text.clone()),
    (true, true) => Err(FrameError::Damaged("it goes on where it should end")),
    (false, _) => {
      let mut pieces = Pieces::whole(&tip.text[..]);
      follow(&mut pieces, &mut FrameDecoder::new(limit), delta, limit)?;
      pieces.text()
    }
  }
}

/// What makes `text` of what is known.
#[must_use]
pub fn difference(text: &[u8], known: &[u8]) -> Vec<u8> {
  let steps = patch::make(text, known).filter(|steps| patch::leads_to(steps, known, text));
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

/// What is new in a text is likely to be in the same words as the end of what is known: so many bytes of it.
const CONTEXT: usize = 1 << 15;

/// Follows the first difference from the text that is there, and gives the number of bytes that it ended at.
fn follow(pieces: &mut Pieces<'_>, unpacker: &mut FrameDecoder, bytes: &[u8], limit: u64) -> Result<usize, FrameError> {
  let mut out = Vec::new();
  if SkippableFrame::Steps.find(bytes).is_some() {
    let size = unpacker.decode(bytes, &pieces.end(CONTEXT), &mut out)?;
    pieces.follow(out, limit)?;
    return Ok(size);
  }
  let size = unpacker.decode(bytes, &pieces.text()?, &mut out)?;
  *pieces = Pieces::whole(out);
  Ok(size)
}

/// The way from the beginning of a key to one of its texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Way {
  /// The bytes of the key up to there.
  pub bytes: u64,
  /// The last four of them.
  pub checksum: u32,
  /// How many texts there are on the way, with that one.
  pub texts: usize,
  /// How many bytes these have.
  pub work: u64,
  /// The bytes that the first text takes up, and its length: what a text of this kind takes up when it is stored whole.
  pub first: (u64, u64),
}

impl Way {
  /// A text of that length further, which is packed like that.
  fn further(self, packed: &[u8], length: usize) -> Self {
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

/// The last text of a key, or of a part of it.
#[derive(Debug)]
pub struct Tip {
  pub text: Vec<u8>,
  pub way: Way,
}

impl Tip {
  /// The tip of a new key, and its frame.
  #[must_use]
  pub fn first(text: Vec<u8>) -> (Self, Vec<u8>) {
    let frame = zstd::whole(&text);
    let way = Way::default().further(&frame, text.len());
    (Self { text, way }, frame)
  }

  /// The next tip, when that text is added to the key, packed like that.
  #[must_use]
  pub fn next(&self, text: Vec<u8>, packed: &[u8]) -> Self {
    let way = self.way.further(packed, text.len());
    Self { text, way }
  }

  /// Reads the beginning of a key, of so many bytes.
  pub fn read(key: &[u8], bytes: u64, limit: u64) -> Result<Self, FrameError> {
    let too_short = FrameError::Damaged("it is shorter than it was");
    let mut rest = usize::try_from(bytes)
      .ok()
      .and_then(|bytes| key.get(..bytes))
      .ok_or(too_short)?;
    let mut unpacker = FrameDecoder::new(limit);
    let mut text = Vec::new();
    let size = unpacker.decode(rest, b"", &mut text)?;
    let mut way = Way::default().further(&rest[..size], text.len());
    let mut pieces = Pieces::whole(text);
    rest = &rest[size..];
    while !rest.is_empty() {
      let size = follow(&mut pieces, &mut unpacker, rest, limit)?;
      way = way.further(&rest[..size], pieces.length());
      if way.work > most_work(limit) {
        return Err(FrameError::TooLarge(way.work));
      }
      rest = &rest[size..];
    }
    Ok(Self {
      text: pieces.text()?,
      way,
    })
  }

  /// What a text of that length would take up if it were stored whole, as far as one can tell.
  #[must_use]
  pub fn whole_size(&self, length: usize) -> u64 {
    let (size, of) = self.way.first;
    let whole = u128::from(size) * length as u128 / u128::from(of.max(1));
    u64::try_from(whole).unwrap_or(u64::MAX)
  }

  #[must_use]
  pub fn reference(&self, key: &CheckpointId, is_same: bool) -> Reference {
    Reference {
      key: key.clone(),
      bytes: self.way.bytes,
      checksum: self.way.checksum,
      is_same,
    }
  }

  /// Whether that is what it stands on.
  #[must_use]
  pub fn is_under(&self, reference: &Reference) -> bool {
    (self.way.bytes, self.way.checksum) == (reference.bytes, reference.checksum)
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn key() -> CheckpointId {
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
  fn a_key_gives_back_every_text_that_was_its_tip() {
    let texts = texts();
    let (mut tip, mut bytes) = Tip::first(texts[0].clone());
    let mut lengths = vec![tip.way.bytes];
    for text in &texts[1..] {
      let frame = difference(text, &tip.text);
      tip = tip.next(text.clone(), &frame);
      bytes.extend(frame);
      lengths.push(tip.way.bytes);
    }
    for (text, length) in texts.iter().zip(&lengths) {
      let read = Tip::read(&bytes, *length, u64::MAX).unwrap();
      assert_eq!((&read.text, read.way.bytes), (text, *length));
    }
    let read = Tip::read(&bytes, lengths[3], u64::MAX).unwrap();
    assert_eq!((read.way, read.way.texts), (tip.way, 4));
    for wrong in [0, 1, lengths[0] - 1, lengths[1] + 1, lengths[3] + 1] {
      assert!(Tip::read(&bytes, wrong, u64::MAX).is_err(), "{wrong}");
    }
    assert!(matches!(
      Tip::read(&bytes, lengths[0], 10),
      Err(FrameError::TooLarge(_))
    ));
  }

  #[test]
  fn a_key_that_leads_through_more_text_than_any_is_not_followed_to_its_end() {
    let text = vec![b' '; 1 << 20];
    let mut bytes = zstd::whole(&text);
    let again = zstd::difference(&text, &text.clone());
    for _ in 0..1000 {
      bytes.extend(&again);
    }
    let read = Tip::read(&bytes, bytes.len() as u64, 1 << 20);
    assert!(matches!(read, Err(FrameError::TooLarge(work)) if work <= 18 << 20));
    assert_eq!((most_work(1000), most_work(4 << 20)), (16 << 20, 48 << 20));
    assert_eq!(most_work(u64::MAX), u64::MAX);
  }

  #[test]
  fn a_delta_says_what_it_stands_on_in_its_first_bytes() {
    let (tip, _) = Tip::first(b"text".to_vec());
    let reference = tip.reference(&key(), false);
    let delta = compose(&reference, "note", &difference(b"text!", b"text"));
    assert_eq!(Reference::of(&delta[..90]), Some(reference));
    let same = tip.reference(&key(), true);
    let empty = compose(&same, "note", b"");
    assert_eq!(text(&empty, &same, &tip, 100).unwrap(), b"text");
    assert!(text(&delta, &same, &tip, 100).is_err());
    assert!(text(&empty, &tip.reference(&key(), false), &tip, 100).is_err());
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
