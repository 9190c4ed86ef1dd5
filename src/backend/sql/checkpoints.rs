//! A checkpoint as columns.

use crate::backend::{CheckpointEntry, Encoding, HEAD_BYTES, Peek, Series, TAIL_BYTES};
use crate::codec::delta::Reference;
use crate::types::id::{AgentId, CheckpointId};
use crate::types::time::Timestamp;

/// The columns `session` and `agent` of a series.
pub fn series_columns(series: &Series) -> (&str, &str) {
  (series.session.as_str(), agent_column(series.agent.as_ref()))
}

/// The column `agent`: empty for the checkpoints of the session itself.
pub fn agent_column(agent: Option<&AgentId>) -> &str {
  agent.map_or("", AgentId::as_str)
}

/// The column `encoding`. Part of the stored format: a number never changes its meaning.
pub fn encoding_number(encoding: Encoding) -> u8 {
  match encoding {
    Encoding::Json => 0,
    Encoding::Gzip => 1,
    Encoding::Zstd => 2,
    Encoding::Delta => 3,
  }
}

/// `None` for a number that no store writes.
pub fn encoding_of_number(number: u8) -> Option<Encoding> {
  Encoding::ALL
    .into_iter()
    .find(|encoding| encoding_number(*encoding) == number)
}

/// An entry from its columns; `None` if no store writes such an id or encoding.
pub fn entry_of(id: &str, encoding: Option<Encoding>, made_at: Timestamp, is_pinned: bool) -> Option<CheckpointEntry> {
  Some(CheckpointEntry {
    id: CheckpointId::parse(id).ok()?,
    encoding: encoding?,
    made_at,
    is_pinned,
  })
}

/// The bytes of a checkpoint in three columns. A list reads `head` and `tail`, but not `middle`.
#[derive(Debug, Clone, Copy)]
pub struct SplitCheckpoint<'a> {
  pub head: &'a [u8],
  pub middle: &'a [u8],
  pub tail: &'a [u8],
}

impl<'a> SplitCheckpoint<'a> {
  pub fn new(bytes: &'a [u8]) -> Self {
    let (head, after_head) = bytes.split_at(bytes.len().min(HEAD_BYTES));
    let (middle, tail) = after_head.split_at(after_head.len().saturating_sub(TAIL_BYTES));
    Self { head, middle, tail }
  }
}

/// The column `key` of a delta: the id of its base; `None` if the delta is damaged.
pub fn base_of_delta(delta: &[u8]) -> Option<String> {
  Reference::of(delta).map(|reference| reference.key.to_string())
}

/// The first `head` and the last `tail` bytes of a checkpoint of `size` bytes, from its columns `head` and `tail`. `None` if that
/// needs the column `middle`.
pub fn peek_columns(head_column: &[u8], tail_column: &[u8], size: u64, head: usize, tail: usize) -> Option<Peek> {
  if (head_column.len() + tail_column.len()) as u64 == size {
    return Some(Peek::of(&[head_column, tail_column].concat(), head, tail));
  }
  let is_enough = head <= head_column.len() && tail <= tail_column.len();
  is_enough.then(|| Peek {
    head: head_column[..head].to_vec(),
    tail: tail_column[tail_column.len() - tail..].to_vec(),
    size,
  })
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn encodings_keep_their_numbers() {
    assert_eq!(Encoding::ALL.map(encoding_number), [0, 1, 2, 3]);
    assert_eq!([0, 1, 2, 3].map(encoding_of_number), Encoding::ALL.map(Some));
    assert_eq!(encoding_of_number(4), None);
  }

  #[test]
  fn split_fills_the_head_first_and_then_the_tail() {
    for (size, head, middle, tail) in [
      (0, 0, 0, 0),
      (2048, 2048, 0, 0),
      (2049, 2048, 0, 1),
      (3072, 2048, 0, 1024),
      (3073, 2048, 1, 1024),
    ] {
      let bytes: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).unwrap()).collect();
      let split = SplitCheckpoint::new(&bytes);
      assert_eq!([split.head, split.middle, split.tail].concat(), bytes);
      assert_eq!(
        (split.head.len(), split.middle.len(), split.tail.len()),
        (head, middle, tail)
      );
    }
  }

  #[test]
  fn peek_columns_is_none_if_the_middle_is_needed() {
    assert_eq!(peek_columns(b"abc", b"yz", 9, 4, 1), None);
    assert_eq!(peek_columns(b"abc", b"yz", 9, 1, 3), None);
    let peek = peek_columns(b"abc", b"yz", 9, 2, 1).unwrap();
    assert_eq!((&*peek.head, &*peek.tail, peek.size), (&b"ab"[..], &b"z"[..], 9));
    let whole = peek_columns(b"abc", b"yz", 5, 4, 9).unwrap();
    assert_eq!((&*whole.head, &*whole.tail), (&b"abcy"[..], &b"abcyz"[..]));
  }
}
