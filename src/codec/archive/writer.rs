//! Writing an export file.

use std::fmt;
use std::io::{self, Read, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use super::{ArchiveHead, HEAD, KIND, MANIFEST, Manifest, ManifestEntry, NewMember, VERSION, WINDOW_LOG, hex};

/// Fast, and nearly as small as the slower levels where items repeat each other.
const LEVEL: i32 = 3;

/// The first member.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeadJson<'a> {
  waymark: &'a str,
  version: u64,
  session_id: &'a str,
  made_by: &'a str,
  items: u64,
}

/// Writes an export file, member by member.
pub struct ArchiveWriter<'a, W: Write> {
  tar: tar::Builder<zstd::Encoder<'a, W>>,
  manifest: Manifest,
}

impl<W: Write> ArchiveWriter<'_, W> {
  pub fn new(out: W, head: &ArchiveHead) -> io::Result<Self> {
    let mut encoder = zstd::Encoder::new(out, LEVEL)?;
    encoder.window_log(WINDOW_LOG)?;
    encoder.long_distance_matching(true)?;
    encoder.include_checksum(true)?;
    let mut writer = Self {
      tar: tar::Builder::new(encoder),
      manifest: Manifest::default(),
    };
    let json = serde_json::to_vec(&HeadJson {
      waymark: KIND,
      version: VERSION,
      session_id: &head.session_id,
      made_by: env!("CARGO_PKG_VERSION"),
      items: head.items,
    })?;
    writer.append(&own_member(HEAD, &json), &*json)?;
    Ok(writer)
  }

  /// Writes a member. Its content must have exactly the size in `member`.
  pub fn append(&mut self, member: &NewMember, content: impl Read) -> io::Result<()> {
    let mut content = HashingReader {
      inner: content,
      digest: Sha256::new(),
      bytes: 0,
    };
    self.append_unlisted(member, &mut content)?;
    if content.bytes != member.size {
      return Err(io::Error::other(format!(
        "{:?} has {} bytes instead of {}",
        member.name, content.bytes, member.size
      )));
    }
    self.manifest.push(ManifestEntry {
      name: member.name.clone(),
      size: member.size,
      sha256: hex(&content.digest.finalize()),
      is_pinned: member.is_pinned,
      made_at: member.made_at,
    });
    Ok(())
  }

  fn append_unlisted(&mut self, member: &NewMember, content: impl Read) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(member.size);
    header.set_mtime(member.modified);
    self.tar.append_data(&mut header, &member.name, content)
  }

  /// Writes the manifest and the end of the file.
  pub fn finish(mut self) -> io::Result<W> {
    let json = serde_json::to_vec_pretty(&self.manifest)?;
    self.append_unlisted(&own_member(MANIFEST, &json), &*json)?;
    self.tar.into_inner()?.finish()
  }
}

/// A member that the writer adds to the items.
pub(super) fn own_member(name: &str, content: &[u8]) -> NewMember {
  NewMember {
    name: name.to_owned(),
    size: content.len() as u64,
    modified: 0,
    is_pinned: false,
    made_at: None,
  }
}

impl<W: Write> fmt::Debug for ArchiveWriter<'_, W> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "ArchiveWriter after {} items", self.manifest.items)
  }
}

struct HashingReader<R> {
  inner: R,
  digest: Sha256,
  bytes: u64,
}

impl<R: Read> Read for HashingReader<R> {
  fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
    let read = self.inner.read(buffer)?;
    self.digest.update(&buffer[..read]);
    self.bytes += read as u64;
    Ok(read)
  }
}
