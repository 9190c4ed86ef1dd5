//! The bytes of a row, as a query returned them.

use crate::types::error::{Error, Result};

pub enum StoredBytes {
  Complete(Vec<u8>),
  /// The item has this many bytes, which is more than the limit of the query. They were not loaded.
  TooLarge(u64),
}

impl StoredBytes {
  /// All bytes; an error if the query did not load them because they exceed `limit`.
  pub fn within(self, name: &str, limit: u64) -> Result<Vec<u8>> {
    match self {
      Self::Complete(bytes) => Ok(bytes),
      Self::TooLarge(size) => Err(Error::too_large(name, size, limit)),
    }
  }
}
