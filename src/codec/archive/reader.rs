//! Reading an export file.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use super::{
  ArchiveError, ArchiveHead, BLOCK, HEAD, KIND, MANIFEST, Manifest, ManifestEntry, MemberHeader, VERSION, WINDOW_LOG,
  damaged, hex,
};

/// More than any name of an item: two ids of 200 bytes each, a folder and an ending.
const MAX_NAME_BYTES: u64 = 1024;
const MAX_HEAD_BYTES: u64 = 4096;
/// The most that the manifest has for one member, besides its name.
const MANIFEST_ENTRY_BYTES: u64 = 512;

/// Reads an export file, member by member, and trusts nothing in it.
///
/// It parses blocks itself instead of using [`tar::Archive`]: that reads long names and pax records of any size into memory,
/// ignores what is in the padding, and does not tell the end of the archive from the end of the input.
pub struct ArchiveReader<'a, R: BufRead> {
  input: BufReader<zstd::Decoder<'a, R>>,
  /// The members that were read so far.
  read: Manifest,
  current: Option<CurrentMember>,
  /// The manifest of the file, after it was read and compared with the members.
  manifest: Option<Manifest>,
}

/// A member whose content is not read to its end.
struct CurrentMember {
  header: MemberHeader,
  left: u64,
  digest: Sha256,
}

impl<R: Read> ArchiveReader<'_, BufReader<R>> {
  pub fn new(input: R) -> Result<(Self, ArchiveHead), ArchiveError> {
    let mut decoder = zstd::Decoder::new(input)?.single_frame();
    decoder.window_log_max(WINDOW_LOG)?;
    let mut reader = Self {
      input: BufReader::new(decoder),
      read: Manifest::default(),
      current: None,
      manifest: None,
    };
    let json = match reader.head() {
      Err(ArchiveError::Damaged(why)) => return Err(damaged(format!("it is not an export file of a session ({why})"))),
      json => json?,
    };
    Ok((reader, parse_head(&json)?))
  }

  fn head(&mut self) -> Result<Vec<u8>, ArchiveError> {
    match self.header()? {
      Some(MemberHeader { name, size }) if name == HEAD && size <= MAX_HEAD_BYTES => {
        let json = self.content(size)?;
        self.push(name, size, Sha256::new_with_prefix(&json));
        Ok(json)
      }
      _ => Err(damaged(format!("it does not begin with {HEAD}"))),
    }
  }

  /// The header of the next item, whose content must be read to its end before the next call. `None` after the last item: the
  /// manifest matches all members, and nothing follows it.
  pub fn next_member(&mut self) -> Result<Option<MemberHeader>, ArchiveError> {
    if self.current.is_some() {
      return Err(ArchiveError::Io(io::Error::other("a member was not read to its end")));
    }
    let header = self.header()?.ok_or_else(|| damaged("it has no manifest"))?;
    if header.name == MANIFEST {
      self.end(header.size)?;
      return Ok(None);
    }
    self.current = Some(CurrentMember {
      left: header.size,
      header: header.clone(),
      digest: Sha256::new(),
    });
    Ok(Some(header))
  }

  /// Reads the content of the current member into `buffer`. Returns 0 at its end, which must be reached.
  pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
    match self.current.take() {
      None => Ok(0),
      Some(CurrentMember {
        header,
        left: 0,
        digest,
        ..
      }) => {
        self.padding(header.size)?;
        self.push(header.name, header.size, digest);
        Ok(0)
      }
      Some(mut member) => {
        let fits = usize::try_from(member.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = self.input.read(&mut buffer[..fits])?;
        if read == 0 && fits > 0 {
          return Err(damaged("it ends too early"));
        }
        member.digest.update(&buffer[..read]);
        member.left -= read as u64;
        self.current = Some(member);
        Ok(read)
      }
    }
  }

  /// The members that were read so far.
  #[must_use]
  pub fn so_far(&self) -> &Manifest {
    &self.read
  }

  /// The manifest, after [`Self::next_member`] has returned `None`.
  #[must_use]
  pub fn into_manifest(self) -> Option<Manifest> {
    self.manifest
  }

  fn push(&mut self, name: String, size: u64, digest: Sha256) {
    self.read.push(ManifestEntry {
      name,
      size,
      sha256: hex(&digest.finalize()),
      is_pinned: false,
      made_at: None,
    });
  }

  fn end(&mut self, size: u64) -> Result<(), ArchiveError> {
    let names = self.read.members.iter().map(|entry| entry.name.len() as u64);
    // A name may be twice as long in JSON.
    let limit = MANIFEST_ENTRY_BYTES + names.map(|name| 2 * name + MANIFEST_ENTRY_BYTES).sum::<u64>();
    if size > limit {
      return Err(damaged("its manifest is too long for what it holds"));
    }
    let manifest: Manifest = serde_json::from_slice(&self.content(size)?)
      .map_err(|error| damaged(format!("its manifest cannot be read ({error})")))?;
    if let Some(objection) = manifest.objection(&self.read) {
      return Err(damaged(objection));
    }
    if self.header()?.is_some() {
      return Err(damaged("something follows its manifest"));
    }
    // The end of the frame has a checksum, which is verified by reading to the end.
    let in_frame = self.input.read(&mut [0])?;
    let behind_frame = self.input.get_mut().get_mut().read(&mut [0])?;
    if in_frame > 0 || behind_frame > 0 {
      return Err(damaged("something follows its end"));
    }
    self.manifest = Some(manifest);
    Ok(())
  }

  /// The next header; `None` for the zero blocks that end the archive.
  fn header(&mut self) -> Result<Option<MemberHeader>, ArchiveError> {
    let mut long_name = None;
    loop {
      let block = self.block()?;
      if block == [0; BLOCK] {
        return match (self.block()? == [0; BLOCK], long_name) {
          (true, None) => Ok(None),
          _ => Err(damaged("it has a zero block before its end")),
        };
      }
      let header = Header::from_byte_slice(&block);
      let size = size_of(header)?;
      match header.entry_type() {
        EntryType::Regular => {
          let name = long_name.unwrap_or_else(|| header.path_bytes().into_owned());
          let name = String::from_utf8(name).map_err(|_| damaged("a name in it is not UTF-8 text"))?;
          return Ok(Some(MemberHeader { name, size }));
        }
        EntryType::GNULongName if long_name.is_none() => long_name = Some(self.long_name(size)?),
        EntryType::GNULongName => return Err(damaged("it has two long names for one member")),
        EntryType::XHeader | EntryType::XGlobalHeader => return Err(damaged("it has pax headers")),
        other => {
          let kind = char::from(other.as_byte());
          return Err(damaged(format!(
            "it has a member that is not a regular file (type {kind:?})"
          )));
        }
      }
    }
  }

  fn long_name(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
    if size > MAX_NAME_BYTES {
      return Err(damaged("a name in it is too long"));
    }
    let mut name = self.content(size)?;
    match name.pop() {
      Some(0) if !name.contains(&0) => Ok(name),
      _ => Err(damaged("a long name in it does not end where it should")),
    }
  }

  /// A whole content, whose size the caller has checked.
  fn content(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    (&mut self.input).take(size).read_to_end(&mut content)?;
    if (content.len() as u64) < size {
      return Err(damaged("it ends too early"));
    }
    self.padding(size)?;
    Ok(content)
  }

  fn block(&mut self) -> Result<[u8; BLOCK], ArchiveError> {
    let mut block = [0; BLOCK];
    self.input.read_exact(&mut block)?;
    Ok(block)
  }

  /// Reads the padding after a content of `size` bytes.
  fn padding(&mut self, size: u64) -> Result<(), ArchiveError> {
    let rest = usize::try_from(size % BLOCK as u64).unwrap_or_default();
    let mut block = [0; BLOCK];
    let padding = &mut block[..(BLOCK - rest) % BLOCK];
    self.input.read_exact(padding)?;
    if padding.iter().any(|byte| *byte != 0) {
      return Err(damaged("it has something between its members"));
    }
    Ok(())
  }
}

impl<R: BufRead> fmt::Debug for ArchiveReader<'_, R> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "ArchiveReader after {} items", self.read.items)
  }
}

/// Verifies the checksum of a header. Returns the size of its content.
fn size_of(header: &Header) -> Result<u64, ArchiveError> {
  let is_known = header.as_gnu().is_some() || header.as_ustar().is_some();
  let mut with_checksum = header.clone();
  with_checksum.set_cksum();
  let checksums = header.cksum().ok().zip(with_checksum.cksum().ok());
  // The first byte of a binary number is a mark. The parser skips the next three.
  let is_whole = matches!(header.as_old().size, [0..0x80, ..] | [0x80, 0, 0, 0, ..]);
  match header.entry_size() {
    Ok(size) if is_known && is_whole && checksums.is_some_and(|(stored, right)| stored == right) => Ok(size),
    _ => Err(damaged("it has a damaged tar header")),
  }
}

fn parse_head(json: &[u8]) -> Result<ArchiveHead, ArchiveError> {
  let head: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
  if head["waymark"] != KIND {
    return Err(damaged("it is not an export file of a session"));
  }
  match head["version"].as_u64() {
    Some(VERSION) => {}
    Some(newer) if newer > VERSION => return Err(ArchiveError::Newer(newer)),
    _ => return Err(damaged("it has no version")),
  }
  let session_id = head["sessionId"].as_str().map(str::to_owned);
  let (session_id, items) = session_id
    .zip(head["items"].as_u64())
    .ok_or_else(|| damaged(format!("its {HEAD} does not say what is in it")))?;
  Ok(ArchiveHead { session_id, items })
}
