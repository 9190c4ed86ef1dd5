//! What reading a row gave.

use super::payload::unpacked;
use crate::types::error::{Error, Result};

/// Bytes as they are stored.
#[derive(Clone)]
pub struct Contents {
  /// How many they are in all, unpacked.
  pub size: u64,
  pub head: Vec<u8>,
  /// `None` if there are more bytes than the limit allows.
  pub middle: Option<Vec<u8>>,
  pub is_packed: bool,
  pub tail: Vec<u8>,
}

impl Contents {
  /// What is stored in one piece.
  pub fn whole(size: u64, is_packed: bool, bytes: Option<Vec<u8>>) -> Self {
    Self {
      size,
      head: Vec::new(),
      middle: bytes,
      is_packed,
      tail: Vec::new(),
    }
  }

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
