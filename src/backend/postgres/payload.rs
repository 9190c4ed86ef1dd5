//! Bytes as they are sent and stored: compressed with zstd if that makes them fewer.

use std::borrow::Cow;

pub use crate::backend::sql::{to_signed, to_unsigned};
use crate::codec::zstd::{self, FrameError};
use crate::types::error::{Error, Result};

/// Fewer bytes are stored as they are.
const MIN_PACKED_BYTES: usize = 256;

pub struct Payload<'a> {
  pub is_packed: bool,
  pub bytes: Cow<'a, [u8]>,
}

impl<'a> Payload<'a> {
  pub fn plain(bytes: &'a [u8]) -> Self {
    Self {
      is_packed: false,
      bytes: Cow::Borrowed(bytes),
    }
  }

  pub fn packed(bytes: &'a [u8]) -> Self {
    if bytes.len() >= MIN_PACKED_BYTES {
      let packed = zstd::quick(bytes);
      if packed.len() < bytes.len() {
        return Self {
          is_packed: true,
          bytes: Cow::Owned(packed),
        };
      }
    }
    Self::plain(bytes)
  }
}

/// The original bytes of a payload. An error if they are not exactly `size` bytes; no memory is reserved for more.
pub fn unpacked(bytes: Vec<u8>, is_packed: bool, size: u64, name: &str) -> Result<Vec<u8>> {
  let bytes = if is_packed {
    zstd::text_of(&bytes, b"", size).map_err(|error| match error {
      FrameError::Damaged(why) => Error::corrupt(name, why),
      FrameError::TooLarge(_) => Error::corrupt(name, "it is longer than its stored size"),
    })?
  } else {
    bytes
  };
  if bytes.len() as u64 == size {
    Ok(bytes)
  } else {
    Err(Error::corrupt(name, "its length is not its stored size"))
  }
}
