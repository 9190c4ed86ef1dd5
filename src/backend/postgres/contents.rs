//! The bytes of a row, as a query returned them.

use super::payload::unpacked;
use crate::types::error::{Error, Result};

/// The stored bytes of an item.
#[derive(Clone)]
pub struct Contents {
  /// The number of all bytes, after decompression.
  pub size: u64,
  pub head: Vec<u8>,
  /// `None` if the item has more bytes than the limit of the query.
  pub middle: Option<Vec<u8>>,
  pub is_packed: bool,
  pub tail: Vec<u8>,
}

impl Contents {
  /// The bytes of an item that is stored in one column.
  pub fn whole(size: u64, is_packed: bool, bytes: Option<Vec<u8>>) -> Self {
    Self {
      size,
      head: Vec::new(),
      middle: bytes,
      is_packed,
      tail: Vec::new(),
    }
  }

  /// All bytes, decompressed; an error if the query did not return them because they exceed `limit`.
  pub fn within(self, name: &str, limit: u64) -> Result<Vec<u8>> {
    let Some(middle) = self.middle else {
      return Err(Error::too_large(name, self.size, limit));
    };
    let ends = (self.head.len() + self.tail.len()) as u64;
    let middle = unpacked(middle, self.is_packed, self.size.saturating_sub(ends), name)?;
    Ok(if ends == 0 {
      middle
    } else {
      [self.head, middle, self.tail].concat()
    })
  }
}
