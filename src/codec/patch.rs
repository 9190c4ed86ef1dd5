//! Patches: which parts of an old text to copy, and what to insert between them, to make a new text.
//!
//! Consecutive checkpoints are equal for most of their length, and comparing is the fastest operation of a processor. A match is
//! searched for only where they differ, and near that position.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;

use crate::codec::zstd::FrameError;

/// Shorter matches are ignored: the names of members are equal everywhere.
const MIN_MATCH: usize = 64;

/// A shorter rest at the end of a text is searched for only nearby.
const WORTH_A_SEARCH: usize = 1 << 10;

/// How many bytes are hashed to find a match.
const SEED: usize = 8;

/// How far around a difference a match is searched for: backward and forward in the old text, and forward in the new one. Usually
/// something was inserted, and the old text continues at the same position.
const REACHES: [(usize, usize, usize); 4] = [
  (0, 1 << 9, 1 << 12),
  (1 << 11, 1 << 12, 1 << 13),
  (1 << 14, 1 << 15, 1 << 15),
  (1 << 18, 1 << 18, 1 << 18),
];

/// The patch that makes `new` of `old`; `None` if they have too little in common.
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
    let (next_at, next_from) = match search.meet(copied_to, from + length)? {
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

/// Whether the patch makes `new` of `old`.
#[must_use]
pub fn leads_to(steps: &[u8], old: &[u8], new: &[u8]) -> bool {
  let mut rest = new;
  let walked = walk(steps, |from, count, inserted| {
    rest = rest.strip_prefix(old.get(from..from.checked_add(count)?)?)?;
    rest = rest.strip_prefix(&steps[inserted])?;
    Some(())
  });
  walked == Some(new.len() as u64) && rest.is_empty()
}

/// Calls `visit` for each step with the position to copy from, the count, and the range of inserted bytes in the patch. Returns the
/// length of the new text; `None` if the patch is damaged or `visit` returned `None`.
fn walk(steps: &[u8], mut visit: impl FnMut(usize, usize, Range<usize>) -> Option<()>) -> Option<u64> {
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
  pieces: Vec<Piece>,
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
    pieces.hold(text.into());
    pieces
  }

  #[must_use]
  pub fn length(&self) -> usize {
    self.length
  }

  fn hold(&mut self, text: Cow<'a, [u8]>) {
    let length = text.len();
    (self.length, self.pieces) = (0, Vec::new());
    self.buffers = vec![text];
    self.push(0, 0..length);
  }

  fn push(&mut self, buffer: usize, range: Range<usize>) {
    if !range.is_empty() {
      self.pieces.push(Piece {
        at: self.length,
        buffer,
        start: range.start,
        length: range.len(),
      });
      self.length += range.len();
    }
  }

  /// Applies a patch.
  pub fn follow(&mut self, steps: Vec<u8>, limit: u64) -> Result<(), FrameError> {
    const WRONG: FrameError = FrameError::Damaged("its patch does not fit the text");
    let length = Reader { bytes: &steps, at: 0 }.number().ok_or(WRONG)?;
    if length > limit {
      return Err(FrameError::TooLarge(length));
    }
    let end = usize::try_from(length).map_err(|_| FrameError::TooLarge(length))?;
    let old = mem::take(&mut self.pieces);
    let old_length = mem::take(&mut self.length);
    let buffer = self.buffers.len();
    let walked = walk(&steps, |from, count, inserted| {
      let to = from.checked_add(count).filter(|to| *to <= old_length)?;
      let first = old.partition_point(|piece| piece.at + piece.length <= from);
      for piece in old[first..].iter().take_while(|piece| piece.at < to) {
        let start = piece.start + from.saturating_sub(piece.at);
        let end = piece.start + piece.length.min(to - piece.at);
        self.push(piece.buffer, start..end);
      }
      self.push(buffer, inserted);
      (self.length <= end && self.pieces.len() <= 2 * MAX_PIECES).then_some(())
    });
    if walked.is_none() || self.length != end {
      return Err(WRONG);
    }
    self.buffers.push(steps.into());
    if self.pieces.len() > MAX_PIECES {
      let text = self.text()?;
      self.hold(text.into());
    }
    Ok(())
  }

  /// The last `count` bytes of the text.
  #[must_use]
  pub fn end(&self, count: usize) -> Vec<u8> {
    let from = self.length.saturating_sub(count);
    let first = self.pieces.partition_point(|piece| piece.at + piece.length <= from);
    let mut end = Vec::with_capacity(self.length - from);
    for piece in &self.pieces[first..] {
      end.extend_from_slice(&self.bytes_of(piece)[from.saturating_sub(piece.at)..]);
    }
    end
  }

  /// The text in one buffer.
  pub fn text(&self) -> Result<Vec<u8>, FrameError> {
    let mut text = Vec::new();
    let reserved = text.try_reserve_exact(self.length);
    reserved.map_err(|_| FrameError::TooLarge(self.length as u64))?;
    for piece in &self.pieces {
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
  /// How many more bytes may be searched.
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
  fn meet(&mut self, at: usize, from: usize) -> Option<Option<(usize, usize)>> {
    for (back, on, ahead) in REACHES {
      let (low, high) = (from.saturating_sub(back), (from + on).min(self.old.len()));
      let limit = (at + ahead).min(self.new.len());
      self.budget = self.budget.checked_sub((high - low) + (limit - at))?;
      if let Some(positions) = self.meet_within(at, limit, low, high) {
        return Some(Some(positions));
      }
      let is_all = low == 0 && high == self.old.len();
      if limit == self.new.len() && (is_all || limit - at < WORTH_A_SEARCH) {
        break;
      }
    }
    Some(None)
  }

  fn meet_within(&mut self, at: usize, limit: usize, low: usize, high: usize) -> Option<(usize, usize)> {
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
mod tests {
  use super::*;

  fn random(seed: &mut u64) -> usize {
    *seed = seed
      .wrapping_mul(6_364_136_223_846_793_005)
      .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap()
  }

  /// A repetitive text.
  fn text(seed: &mut u64, words: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..words {
      let number = random(seed);
      text.extend(format!("{{\"status\":\"completed\",\"priority\":\"high\",\"n\":{number}}},").bytes());
    }
    text
  }

  fn applied(steps: &[u8], old: &[u8]) -> Result<Vec<u8>, FrameError> {
    let mut pieces = Pieces::whole(old.to_vec());
    pieces.follow(steps.to_vec(), u64::MAX)?;
    let made = pieces.text()?;
    assert_eq!(pieces.end(100), &made[made.len().saturating_sub(100)..]);
    Ok(made)
  }

  #[test]
  fn a_patch_makes_the_new_text_after_random_edits() {
    let mut seed = 7;
    for round in 0..300 {
      let words = random(&mut seed) % 400;
      let old = text(&mut seed, words);
      let mut new = old.clone();
      for _ in 0..random(&mut seed) % 20 {
        let at = random(&mut seed) % (new.len() + 1);
        let removed = random(&mut seed) % 300;
        let end = (at + removed).min(new.len());
        let words = random(&mut seed) % 4;
        let come = text(&mut seed, words);
        new.splice(at..end, come);
      }
      if let Some(steps) = make(&new, &old) {
        assert!(leads_to(&steps, &old, &new), "round {round}");
        assert_eq!(applied(&steps, &old).unwrap(), new, "round {round}");
        assert!(steps.len() <= new.len() / 4 + 400, "round {round}");
      }
    }
  }

  #[test]
  fn a_small_change_makes_a_small_patch() {
    let mut seed = 3;
    let old = text(&mut seed, 20_000);
    let mut new = old.clone();
    for at in [10, 200_000, 500_000, 900_000] {
      new.splice(at..at + 5, *b"something else");
    }
    let moved: Vec<u8> = new.drain(100_000..103_000).collect();
    new.splice(120_000..120_000, moved[..500].to_vec());
    let steps = make(&new, &old).unwrap();
    assert!(steps.len() < 800, "{}", steps.len());
    assert_eq!(applied(&steps, &old).unwrap(), new);
    assert_eq!(applied(&make(&old, &old).unwrap(), &old).unwrap(), old);
  }

  #[test]
  fn a_sequence_of_patches_makes_the_last_text() {
    let mut seed = 11;
    let mut texts = vec![text(&mut seed, 500)];
    for _ in 0..60 {
      let mut next = texts[texts.len() - 1].clone();
      for _ in 0..5 {
        let at = random(&mut seed) % (next.len() - 50);
        let come = text(&mut seed, 1);
        next.splice(at..at + 30, come);
      }
      texts.push(next);
    }
    let mut pieces = Pieces::whole(texts[0].clone());
    for pair in texts.windows(2) {
      pieces.follow(make(&pair[1], &pair[0]).unwrap(), u64::MAX).unwrap();
      assert_eq!(
        (pieces.text().unwrap() == pair[1], pieces.length()),
        (true, pair[1].len())
      );
    }
    assert_eq!(pieces.end(usize::MAX), texts[60]);
    // A patch that copies single bytes exceeds the limit of pieces.
    let bytes = vec![b'x'; MAX_PIECES + 10];
    let mut steps = Steps::new(bytes.len());
    for at in (0..bytes.len()).rev() {
      steps.push(at, 1, &[]);
    }
    let mut pieces = Pieces::whole(bytes.clone());
    pieces.follow(steps.bytes, u64::MAX).unwrap();
    assert_eq!((pieces.pieces.len(), pieces.text().unwrap()), (1, bytes));
  }

  #[test]
  fn texts_without_common_parts_make_no_patch() {
    let (mut one, mut other) = (1, 2);
    let (new, old) = (text(&mut one, 5000), vec![b'x'; 100_000]);
    assert_eq!(make(&new, &old), None);
    let noise: Vec<u8> = (0..200_000).map(|_| random(&mut other).to_le_bytes()[0]).collect();
    assert_eq!(make(&noise, &new), None);
  }

  #[test]
  fn a_damaged_patch_is_rejected() {
    let mut seed = 5;
    let old = text(&mut seed, 50);
    let mut new = old.clone();
    new.splice(500..510, *b"other");
    let steps = make(&new, &old).unwrap();
    assert!(matches!(
      Pieces::whole(old.clone()).follow(steps.clone(), 100),
      Err(FrameError::TooLarge(_))
    ));
    for cut in 0..steps.len() {
      assert!(applied(&steps[..cut], &old).is_err(), "{cut}");
    }
    for at in 0..steps.len() {
      for bit in 0..8 {
        let mut flipped = steps.clone();
        flipped[at] ^= 1 << bit;
        // It may make another text, but must not be taken for this one.
        let same = applied(&flipped, &old).is_ok_and(|made| made == new);
        assert!(same || !leads_to(&flipped, &old, &new));
      }
    }
    for wrong in [
      &b""[..],
      b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
      b"\x05\x05\x00\xff",
    ] {
      assert!(applied(wrong, &old).is_err());
    }
  }
}
