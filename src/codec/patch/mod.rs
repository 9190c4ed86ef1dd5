//! Patches: the parts of an old text to copy, and the bytes to insert between them, that make up a new text.
//!
//! Consecutive checkpoints are equal for most of their length, and comparing is the fastest operation of a processor. A match is
//! searched for only where they differ, and near that position.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;

use crate::codec::zstd::FrameError;

/// Shorter matches are ignored: the names of members are equal everywhere.
const MIN_MATCH: usize = 64;

/// For fewer bytes at the end of a text, only the nearest part of the other text is searched.
const MIN_SEARCH: usize = 1 << 10;

/// The number of bytes that are hashed to find a match.
const SEED: usize = 8;

/// How far around a difference a match is searched for: backward and forward in the old text, and forward in the new one. Usually
/// something was inserted, and the old text continues at the same position.
const REACHES: [(usize, usize, usize); 4] = [
  (0, 1 << 9, 1 << 12),
  (1 << 11, 1 << 12, 1 << 13),
  (1 << 14, 1 << 15, 1 << 15),
  (1 << 18, 1 << 18, 1 << 18),
];

/// The patch that turns `old` into `new`; `None` if they have too little in common.
#[must_use]
pub fn make(new: &[u8], old: &[u8]) -> Option<Vec<u8>> {
  let mut steps = Steps::new(new.len());
  let mut search = Search::new(new, old);
  let (mut at, mut from) = (0, 0);
  loop {
    let length = common(&new[at..], &old[from..]);
    let (copied_to, copied_from) = (at + length, from);
    if copied_to == new.len() {
      steps.push(copied_from, length, &[]);
      return Some(steps.bytes);
    }
    let (next_at, next_from) = match search.next_match(copied_to, from + length)? {
      Some(positions) => positions,
      None => (new.len(), old.len()),
    };
    steps.push(copied_from, length, &new[copied_to..next_at]);
    if steps.bytes.len() > new.len() / 4 {
      return None;
    }
    (at, from) = (next_at, next_from);
  }
}

/// Whether the patch turns `old` into `new`.
#[must_use]
pub fn makes(steps: &[u8], old: &[u8], new: &[u8]) -> bool {
  let mut rest = new;
  let walked = for_each_step(steps, |from, count, inserted| {
    rest = rest.strip_prefix(old.get(from..from.checked_add(count)?)?)?;
    rest = rest.strip_prefix(&steps[inserted])?;
    Some(())
  });
  walked == Some(new.len() as u64) && rest.is_empty()
}

/// Calls `visit` for each step with the position to copy from, the count, and the range of inserted bytes in the patch. Returns the
/// length of the new text; `None` if the patch is damaged or `visit` returned `None`.
fn for_each_step(steps: &[u8], mut visit: impl FnMut(usize, usize, Range<usize>) -> Option<()>) -> Option<u64> {
  let mut reader = Reader { bytes: steps, at: 0 };
  let length = reader.number()?;
  let mut expected = 0;
  while reader.at < steps.len() {
    let count = reader.number()?;
    let from = unsigned(expected, reader.number()?)?;
    let inserted = reader.number()?;
    let inserted = reader.take(inserted)?;
    visit(usize::try_from(from).ok()?, usize::try_from(count).ok()?, inserted)?;
    expected = from.checked_add(count)?;
  }
  Some(length)
}

/// A text as a list of slices of buffers. Patches rearrange the slices without copying, so that a sequence of patches costs one
/// copy of the text.
#[derive(Debug, Default)]
pub struct Pieces<'a> {
  buffers: Vec<Cow<'a, [u8]>>,
  /// In text order.
  parts: Vec<Piece>,
  length: usize,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
  /// Its position in the text.
  at: usize,
  buffer: usize,
  start: usize,
  length: usize,
}

/// With more pieces than this, the text is copied into one buffer.
const MAX_PIECES: usize = 1 << 16;

impl<'a> Pieces<'a> {
  /// A text in one piece.
  #[must_use]
  pub fn whole(text: impl Into<Cow<'a, [u8]>>) -> Self {
    let mut pieces = Self::default();
    pieces.set_whole(text.into());
    pieces
  }

  #[must_use]
  pub fn length(&self) -> usize {
    self.length
  }

  fn set_whole(&mut self, text: Cow<'a, [u8]>) {
    let length = text.len();
    (self.length, self.parts) = (0, Vec::new());
    self.buffers = vec![text];
    self.push(0, 0..length);
  }

  fn push(&mut self, buffer: usize, range: Range<usize>) {
    if !range.is_empty() {
      self.parts.push(Piece {
        at: self.length,
        buffer,
        start: range.start,
        length: range.len(),
      });
      self.length += range.len();
    }
  }

  /// Applies a patch.
  pub fn apply(&mut self, steps: Vec<u8>, limit: u64) -> Result<(), FrameError> {
    const WRONG: FrameError = FrameError::Damaged("its patch does not fit the text");
    let length = Reader { bytes: &steps, at: 0 }.number().ok_or(WRONG)?;
    if length > limit {
      return Err(FrameError::TooLarge(length));
    }
    let end = usize::try_from(length).map_err(|_| FrameError::TooLarge(length))?;
    let old = mem::take(&mut self.parts);
    let old_length = mem::take(&mut self.length);
    let buffer = self.buffers.len();
    let walked = for_each_step(&steps, |from, count, inserted| {
      let to = from.checked_add(count).filter(|to| *to <= old_length)?;
      let first = old.partition_point(|piece| piece.at + piece.length <= from);
      for piece in old[first..].iter().take_while(|piece| piece.at < to) {
        let start = piece.start + from.saturating_sub(piece.at);
        let end = piece.start + piece.length.min(to - piece.at);
        self.push(piece.buffer, start..end);
      }
      self.push(buffer, inserted);
      (self.length <= end && self.parts.len() <= 2 * MAX_PIECES).then_some(())
    });
    if walked.is_none() || self.length != end {
      return Err(WRONG);
    }
    self.buffers.push(steps.into());
    if self.parts.len() > MAX_PIECES {
      let text = self.text()?;
      self.set_whole(text.into());
    }
    Ok(())
  }

  /// The last `count` bytes of the text.
  #[must_use]
  pub fn tail(&self, count: usize) -> Vec<u8> {
    let from = self.length.saturating_sub(count);
    let first = self.parts.partition_point(|piece| piece.at + piece.length <= from);
    let mut tail = Vec::with_capacity(self.length - from);
    for piece in &self.parts[first..] {
      tail.extend_from_slice(&self.bytes_of(piece)[from.saturating_sub(piece.at)..]);
    }
    tail
  }

  /// The text in one buffer.
  pub fn text(&self) -> Result<Vec<u8>, FrameError> {
    let mut text = Vec::new();
    let reserved = text.try_reserve_exact(self.length);
    reserved.map_err(|_| FrameError::TooLarge(self.length as u64))?;
    for piece in &self.parts {
      text.extend_from_slice(self.bytes_of(piece));
    }
    Ok(text)
  }

  fn bytes_of(&self, piece: &Piece) -> &[u8] {
    &self.buffers[piece.buffer][piece.start..piece.start + piece.length]
  }
}

/// The length of the common prefix of two texts.
fn common(one: &[u8], other: &[u8]) -> usize {
  const AT_ONCE: usize = 64;
  let pairs = one.chunks_exact(AT_ONCE).zip(other.chunks_exact(AT_ONCE));
  let start = pairs.take_while(|(one, other)| one == other).count() * AT_ONCE;
  let rest = one[start..].iter().zip(&other[start..]);
  start + rest.take_while(|(one, other)| one == other).count()
}

/// The search for the next match after a difference.
struct Search<'a> {
  new: &'a [u8],
  old: &'a [u8],
  /// Positions of seeds in the old text, by hash, plus 1; 0 is none.
  table: Vec<u32>,
  /// The number of bytes that may still be searched.
  budget: usize,
}

impl<'a> Search<'a> {
  fn new(new: &'a [u8], old: &'a [u8]) -> Self {
    Self {
      new,
      old,
      table: Vec::new(),
      budget: 4 * (new.len() + old.len()) + (1 << 16),
    }
  }

  /// The first match from `at` on in the new text and near `from` in the old one: both positions. The inner `None` means that there
  /// is no match, the outer one that the budget is used up.
  #[expect(clippy::option_option, reason = "a search fails in two ways")]
  fn next_match(&mut self, at: usize, from: usize) -> Option<Option<(usize, usize)>> {
    for (back, on, ahead) in REACHES {
      let (low, high) = (from.saturating_sub(back), (from + on).min(self.old.len()));
      let limit = (at + ahead).min(self.new.len());
      self.budget = self.budget.checked_sub((high - low) + (limit - at))?;
      if let Some(positions) = self.match_within(at, limit, low, high) {
        return Some(Some(positions));
      }
      let is_all = low == 0 && high == self.old.len();
      if limit == self.new.len() && (is_all || limit - at < MIN_SEARCH) {
        break;
      }
    }
    Some(None)
  }

  fn match_within(&mut self, at: usize, limit: usize, low: usize, high: usize) -> Option<(usize, usize)> {
    let bits = usize::BITS - (high - low).max(256).leading_zeros();
    self.table.clear();
    self.table.resize(1 << bits, 0);
    let slot = |seed: u64| usize::try_from(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)).unwrap_or(0);
    for (number, window) in self.old[low..high].windows(SEED).enumerate() {
      self.table[slot(seed(window))] = u32::try_from(number + 1).unwrap_or(0);
    }
    for (number, window) in self.new[at..limit].windows(SEED).enumerate() {
      let Some(found) = self.table[slot(seed(window))].checked_sub(1) else {
        continue;
      };
      let (here, there) = (at + number, low + found as usize);
      // A match may begin earlier: its first seeds may have been overwritten in the table by later ones.
      let before = self.new[at..here].iter().rev().zip(self.old[..there].iter().rev());
      let before = before.take_while(|(new, old)| new == old).count();
      if before + common(&self.new[here..], &self.old[there..]) >= MIN_MATCH {
        return Some((here - before, there - before));
      }
    }
    None
  }
}

fn seed(window: &[u8]) -> u64 {
  window.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Builds a patch of variable-length numbers: the length of the new text; then for each step the number of bytes to copy, their
/// distance from the end of the last copy, the number of inserted bytes, and these.
struct Steps {
  bytes: Vec<u8>,
  expected: u64,
}

impl Steps {
  fn new(length: usize) -> Self {
    let mut steps = Self {
      bytes: Vec::new(),
      expected: 0,
    };
    steps.number(length as u64);
    steps
  }

  fn push(&mut self, from: usize, count: usize, inserted: &[u8]) {
    let from = from as u64;
    self.number(count as u64);
    self.number(signed(self.expected, from));
    self.number(inserted.len() as u64);
    self.bytes.extend_from_slice(inserted);
    self.expected = from + count as u64;
  }

  fn number(&mut self, mut number: u64) {
    while number >= 0x80 {
      self.bytes.push(number.to_le_bytes()[0] | 0x80);
      number >>= 7;
    }
    self.bytes.push(number.to_le_bytes()[0]);
  }
}

struct Reader<'a> {
  bytes: &'a [u8],
  at: usize,
}

impl Reader<'_> {
  fn number(&mut self) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..63).step_by(7) {
      let byte = self.bytes.get(self.at)?;
      self.at += 1;
      number |= u64::from(byte & 0x7f) << shift;
      if byte & 0x80 == 0 {
        return Some(number);
      }
    }
    None
  }

  /// The range of the next `count` bytes.
  fn take(&mut self, count: u64) -> Option<Range<usize>> {
    let end = self.at.checked_add(usize::try_from(count).ok()?)?;
    let range = (end <= self.bytes.len()).then_some(self.at..end)?;
    self.at = end;
    Some(range)
  }
}

/// A signed distance as one number, whose lowest bit is set if it is backward.
fn signed(expected: u64, from: u64) -> u64 {
  if from >= expected {
    (from - expected) << 1
  } else {
    ((expected - from) << 1) | 1
  }
}

fn unsigned(expected: u64, distance: u64) -> Option<u64> {
  if distance & 1 == 0 {
    expected.checked_add(distance >> 1)
  } else {
    expected.checked_sub(distance >> 1)
  }
}

#[cfg(test)]
mod tests;
