//! Bytes as they travel: packed, where that makes them fewer.

use std::borrow::Cow;

use crate::codec::zstd::{self, FrameError};
use crate::types::error::{Error, Result};

/// What is shorter than this has little to gain.
const WORTH_PACKING: usize = 256;

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
    if bytes.len() >= WORTH_PACKING {
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

/// What is stored, as it was before it was packed: `size` bytes, neither more nor fewer. Nothing is made room for beyond that.
pub fn unpacked(bytes: Vec<u8>, is_packed: bool, size: u64, name: &str) -> Result<Vec<u8>> {
  let bytes = if is_packed {
    zstd::text_of(&bytes, b"", size).map_err(|error| match error {
      FrameError::Damaged(why) => Error::corrupt(name, why),
      FrameError::TooLarge(_) => Error::corrupt(name, "it is longer than it says"),
    })?
  } else {
    bytes
  };
  if bytes.len() as u64 == size {
    Ok(bytes)
  } else {
    Err(Error::corrupt(name, "it is not as long as it says"))
  }
}

/// A size or a time as the database counts.
pub fn to_signed(number: u64) -> i64 {
  i64::try_from(number).unwrap_or(i64::MAX)
}

/// A size or a time from the database; what is negative was put there by somebody else.
pub fn to_unsigned(number: i64) -> u64 {
  u64::try_from(number).unwrap_or(0)
}
