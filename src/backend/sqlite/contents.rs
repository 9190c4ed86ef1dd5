//! What reading a row gave.

use crate::types::error::{Error, Result};

pub enum Contents {
  Bytes(Vec<u8>),
  /// More bytes than the limit allows.
  TooLarge(u64),
}

impl Contents {
  pub fn within(self, name: &str, limit: u64) -> Result<Vec<u8>> {
    match self {
      Self::Bytes(bytes) => Ok(bytes),
      Self::TooLarge(size) => Err(Error::too_large(name, size, limit)),
    }
  }
}
