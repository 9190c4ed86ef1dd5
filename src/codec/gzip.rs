//! gzip, as Node.js reads and writes it, with a note in the header and a limit for decompression.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use libdeflater::{CompressionLvl, Compressor};

const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// The header without optional fields: magic, flags, time, extra flags, system.
const HEADER_BYTES: usize = 10;
const FLAGS: usize = 3;
const HAS_EXTRA_FIELD: u8 = 4;
const OS: usize = 9;
/// `OS` field of the header: Unix, which is what Node's zlib writes on every system.
const OS_UNIX: u8 = 3;
/// The subfield of the extra field that holds the note.
const NOTE: [u8; 2] = *b"WM";
/// Name and length of a subfield.
const SUBFIELD_HEADER_BYTES: usize = 4;

/// Compresses at the default level, 6. The `note` is stored in the header, where other readers ignore it. A note that is too
/// long for the header is left out.
#[must_use]
#[expect(
  clippy::missing_panics_doc,
  reason = "the output is as large as the compressor demands"
)]
pub fn compress(bytes: &[u8], note: &str) -> Vec<u8> {
  let mut header = MAGIC.to_vec();
  header.resize(HEADER_BYTES, 0);
  header[OS] = OS_UNIX;
  let note_length = u16::try_from(note.len());
  let extra_length = u16::try_from(note.len() + SUBFIELD_HEADER_BYTES);
  if let (Ok(note_length), Ok(extra_length)) = (note_length, extra_length) {
    header[FLAGS] = HAS_EXTRA_FIELD;
    header.extend(extra_length.to_le_bytes());
    header.extend(NOTE);
    header.extend(note_length.to_le_bytes());
    header.extend(note.as_bytes());
  }
  // The compressor writes a plain header, which the longer one then overwrites.
  let start = header.len() - HEADER_BYTES;
  let mut compressor = Compressor::new(CompressionLvl::default());
  let mut out = vec![0; start + compressor.gzip_compress_bound(bytes.len())];
  let size = compressor
    .gzip_compress(bytes, &mut out[start..])
    .expect("output for the worst case");
  out.truncate(start + size);
  out[..header.len()].copy_from_slice(&header);
  out
}

/// The note in the header of a file that begins with `head`; `None` if there is none, or if it is cut off.
#[must_use]
pub fn note(head: &[u8]) -> Option<&str> {
  let (header, rest) = head.split_at_checked(HEADER_BYTES)?;
  if !header.starts_with(&MAGIC) || header[FLAGS] & HAS_EXTRA_FIELD == 0 {
    return None;
  }
  let (extra_length, rest) = rest.split_first_chunk()?;
  let mut parts = rest.get(..usize::from(u16::from_le_bytes(*extra_length)))?;
  loop {
    let (name, rest) = parts.split_first_chunk::<2>()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (part, others) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    if *name == NOTE {
      return str::from_utf8(part).ok();
    }
    parts = others;
  }
}

/// Why a stream could not be decompressed.
#[derive(Debug)]
pub enum InflateError {
  NotGzip(io::Error),
  /// It has more bytes than the limit.
  TooLarge,
}

/// Decompresses at most `limit` bytes.
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
  fn decompressing_returns_what_was_compressed_and_the_header_has_the_note() {
    let text = "checkpoint ".repeat(1000);
    let packed = compress(text.as_bytes(), "remember");
    assert_eq!(packed[..10], [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 3]);
    assert!(packed.len() < 200);
    assert_eq!(decompress(&packed, 11_000).unwrap(), text.as_bytes());
    assert_eq!(note(&packed), Some("remember"));
    assert_eq!(note(&packed[..20]), None);
  }

  #[test]
  fn compressing_leaves_out_only_a_note_that_is_too_long() {
    for length in [0, 1, 65_531, 65_532, 100_000] {
      let long = "x".repeat(length);
      let packed = compress(b"some text", &long);
      assert_eq!(note(&packed), (length <= 65_531).then_some(long.as_str()), "{length}");
      assert_eq!(decompress(&packed, 100).unwrap(), b"some text");
    }
  }

  #[test]
  fn note_ignores_other_subfields() {
    let mut packed = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 3];
    packed.extend([13, 0, b'A', b'B', 3, 0, 1, 2, 3, b'W', b'M', 2, 0, b'o', b'k']);
    assert_eq!(note(&packed), Some("ok"));
    packed[10] = 7;
    assert_eq!(note(&packed), None);
    for foreign in [&b""[..], b"{}", &packed[..12], b"\x1f\x8b\x08\0\0\0\0\0\0\x03ab"] {
      assert_eq!(note(foreign), None);
    }
  }

  #[test]
  fn decompressing_stops_at_the_limit() {
    let bomb = compress(&vec![0; 1_000_000], "");
    assert!(matches!(decompress(&bomb, 999_999), Err(InflateError::TooLarge)));
    assert_eq!(decompress(&bomb, 1_000_000).unwrap().len(), 1_000_000);
  }

  #[test]
  fn decompressing_refuses_what_is_not_gzip() {
    let packed = compress(b"some text", "");
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
