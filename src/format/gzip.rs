//! gzip, as Node.js writes it, and inflating under a limit.

use std::io::{self, Read, Write};

use flate2::{Compression, GzBuilder, read::MultiGzDecoder};

/// `OS` field of the header: Unix, which is what Node's zlib writes on every system.
const OS_UNIX: u8 = 3;
const LEVEL: u32 = 6;

/// Compresses as Node's `zlib.gzip` does.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "writing to memory does not fail")]
pub fn compress(bytes: &[u8]) -> Vec<u8> {
  let mut encoder = GzBuilder::new()
    .operating_system(OS_UNIX)
    .write(Vec::with_capacity(bytes.len() / 3), Compression::new(LEVEL));
  let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
  written.expect("a Vec takes every byte")
}

/// Why a stream could not be inflated.
#[derive(Debug)]
pub enum InflateError {
  NotGzip(io::Error),
  /// It holds more than the limit.
  TooLarge,
}

/// Inflates at most `limit` bytes.
pub fn decompress(bytes: &[u8], limit: u64) -> Result<Vec<u8>, InflateError> {
  let mut out = Vec::with_capacity(bytes.len().saturating_mul(4));
  MultiGzDecoder::new(bytes)
    .take(limit.saturating_add(1))
    .read_to_end(&mut out)
    .map_err(InflateError::NotGzip)?;
  if out.len() as u64 > limit {
    return Err(InflateError::TooLarge);
  }
  Ok(out)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn what_is_compressed_comes_back_and_the_header_is_nodes() {
    let text = "checkpoint ".repeat(1000);
    let packed = compress(text.as_bytes());
    assert_eq!(packed[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
    assert!(packed.len() < 200);
    assert_eq!(decompress(&packed, 11_000).unwrap(), text.as_bytes());
  }

  #[test]
  fn inflating_stops_at_the_limit() {
    let bomb = compress(&vec![0; 1_000_000]);
    assert!(matches!(decompress(&bomb, 999_999), Err(InflateError::TooLarge)));
    assert_eq!(decompress(&bomb, 1_000_000).unwrap().len(), 1_000_000);
  }

  #[test]
  fn what_is_not_gzip_is_an_error() {
    let packed = compress(b"some text");
    for damaged in [&b""[..], b"{}", &packed[..packed.len() - 1], &packed[..5]] {
      assert!(
        matches!(decompress(damaged, 100), Err(InflateError::NotGzip(_))),
        "{damaged:?}"
      );
    }
    let mut flipped = packed.clone();
    let crc = flipped.len() - 6;
    flipped[crc] ^= 1;
    assert!(matches!(decompress(&flipped, 100), Err(InflateError::NotGzip(_))));
  }
}
