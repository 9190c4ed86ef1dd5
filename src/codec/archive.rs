//! The export file: one session as a tar in one zstd frame, written and read as a stream.
//!
//! ```text
//! waymark.json            {"waymark":"session","version":1,"sessionId":"s","madeBy":"0.1.0","items":2}
//! session.json            the items, byte for byte, in the order of the writer
//! checkpoints/first.json
//! manifest.json           name, size and SHA-256 of every member before it, and the totals
//! ```
//!
//! - Headers are GNU headers: mode 0644, owner and group 0, the time of the checkpoint or 0. A name of more than 100 bytes
//!   precedes its member in a GNU long name (`L`). Equal contents give equal files.
//! - The archive ends with two zero blocks, which end the frame, which ends the file.
//! - The reader accepts regular members and long names only. It holds the name and the hash of each member in memory,
//!   never a member. What a name means is decided by the caller; no name is used as a path here.

use std::fmt::{self, Write as _};
use std::io::{self, BufRead, BufReader, Read, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

/// Repetitions up to this distance, in bytes as a power of two, are stored once. Writer and reader each hold a window of
/// that size; a reader refuses a larger one.
const WINDOW_LOG: u32 = 26;

/// Fast, and nearly as small as the slower levels where items repeat each other.
const LEVEL: i32 = 3;

/// What the first member says that the file is.
const KIND: &str = "session";

/// Changes with every change of the format: a reader that ignored a new member of the manifest would lose what it says.
const VERSION: u64 = 1;

const HEAD: &str = "waymark.json";
const MANIFEST: &str = "manifest.json";

const BLOCK: usize = 512;

/// More than any name of an item: two ids of 200 bytes each, a folder and an ending.
const MAX_NAME_BYTES: u64 = 1024;
const MAX_HEAD_BYTES: u64 = 4096;
/// The most that the manifest has for one member, besides its name.
const MANIFEST_ENTRY_BYTES: u64 = 512;

/// The first member, as far as the caller knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveHead {
  pub session_id: String,
  /// How many items the writer expected when it began.
  pub items: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeadJson<'a> {
  waymark: &'a str,
  version: u64,
  session_id: &'a str,
  made_by: &'a str,
  items: u64,
}

/// What the header of a member says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberHeader {
  pub name: String,
  pub size: u64,
}

/// A member to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMember {
  pub name: String,
  pub size: u64,
  /// In seconds since 1970.
  pub modified: u64,
  pub is_pinned: bool,
  pub made_at: Option<u64>,
}

/// One line of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestEntry {
  pub name: String,
  pub size: u64,
  sha256: String,
  #[serde(rename = "pinned", default, skip_serializing_if = "std::ops::Not::not")]
  pub is_pinned: bool,
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub made_at: Option<u64>,
}

/// The last member: what all others are, `waymark.json` first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
  /// Without `waymark.json`.
  pub items: u64,
  /// Of the items.
  pub bytes: u64,
  members: Vec<ManifestEntry>,
}

impl Manifest {
  /// The entries of the items, in their order in the file.
  #[must_use]
  pub fn entries(&self) -> &[ManifestEntry] {
    self.members.get(1..).unwrap_or_default()
  }

  fn push(&mut self, entry: ManifestEntry) {
    if entry.name != HEAD {
      self.items += 1;
      self.bytes = self.bytes.saturating_add(entry.size);
    }
    self.members.push(entry);
  }

  /// What this manifest says otherwise than the members that were read, as the end of a sentence.
  fn objection(&self, read: &Self) -> Option<String> {
    let lists_others = || Some("its manifest lists other members than it holds".to_owned());
    if self.members.len() != read.members.len() {
      return lists_others();
    }
    for (listed, read) in self.members.iter().zip(&read.members) {
      if (&listed.name, listed.size) != (&read.name, read.size) {
        return lists_others();
      }
      if listed.sha256 != read.sha256 {
        return Some(format!("{:?} does not match its checksum", read.name));
      }
    }
    let has_totals = (self.items, self.bytes) == (read.items, read.bytes);
    (!has_totals).then(|| "the totals in its manifest are wrong".to_owned())
  }
}

/// Why a file cannot be read.
#[derive(Debug)]
pub enum ArchiveError {
  /// It is not what the writer made; the text completes a sentence about the file.
  Damaged(String),
  /// Written in a later version of the format.
  Newer(u64),
  /// The system could not read it.
  Io(io::Error),
}

impl From<io::Error> for ArchiveError {
  fn from(error: io::Error) -> Self {
    match error.kind() {
      io::ErrorKind::UnexpectedEof => damaged("it ends too early"),
      // Errors of the system have a number; the others come from zstd.
      _ if error.raw_os_error().is_some() => Self::Io(error),
      _ => damaged(format!("it is not a complete zstd stream ({error})")),
    }
  }
}

fn damaged(why: impl Into<String>) -> ArchiveError {
  ArchiveError::Damaged(why.into())
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

  /// Writes a member whose content is exactly as long as `member` says.
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

  /// Writes the manifest and the end.
  pub fn finish(mut self) -> io::Result<W> {
    let json = serde_json::to_vec_pretty(&self.manifest)?;
    self.append_unlisted(&own_member(MANIFEST, &json), &*json)?;
    self.tar.into_inner()?.finish()
  }
}

fn own_member(name: &str, content: &[u8]) -> NewMember {
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

/// Reads an export file, member by member, and trusts nothing in it.
///
/// It parses blocks itself instead of using [`tar::Archive`]: that reads long names and pax records of any size into memory,
/// ignores what is in the padding, and does not tell the end of the archive from the end of the input.
pub struct ArchiveReader<'a, R: BufRead> {
  input: BufReader<zstd::Decoder<'a, R>>,
  /// What the members read so far are.
  read: Manifest,
  current: Option<CurrentMember>,
  /// The manifest of the file, once it is read and everything agrees with it.
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

  /// The header of the next item, whose content must be read to its end before the call after this one. `None` after the
  /// last item: the manifest agrees with all that was read, and nothing follows it.
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

  /// Reads the content of the current member, as much of it as fits; 0 at its end, which must be reached.
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

  /// The manifest, after [`Self::next_member`] has answered `None`.
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

  /// Reads what fills up the last block of a content.
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

/// Verifies the checksum of a header. The answer is the size of its content.
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

fn hex(digest: &[u8]) -> String {
  digest
    .iter()
    .fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
      let _ = write!(text, "{byte:02x}");
      text
    })
}

#[cfg(test)]
mod tests {
  use super::*;

  type Item = (NewMember, Vec<u8>);

  fn member(name: &str, content: &[u8]) -> Item {
    (own_member(name, content), content.to_vec())
  }

  fn head() -> ArchiveHead {
    ArchiveHead {
      session_id: "s \"1\"".to_owned(),
      items: 9,
    }
  }

  fn written(items: &[Item]) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Vec::new(), &head()).unwrap();
    for (member, content) in items {
      writer.append(member, &**content).unwrap();
    }
    writer.finish().unwrap()
  }

  fn long_name() -> String {
    format!("agents/{}/{}.json.gz", "é".repeat(100), "x".repeat(200))
  }

  fn sample() -> Vec<u8> {
    let mut pinned = member("b \"quoted\"", b"x\ny");
    pinned.0.is_pinned = true;
    pinned.0.made_at = Some(7);
    pinned.0.modified = 1_700_000_000;
    let block = vec![b'x'; BLOCK];
    written(&[
      member("a", b"{}"),
      member("empty", b""),
      pinned,
      member(&long_name(), &block),
      member("é", b"1"),
    ])
  }

  fn read_all(bytes: &[u8]) -> Result<(ArchiveHead, Vec<Vec<u8>>, Manifest), ArchiveError> {
    let (mut reader, head) = ArchiveReader::new(bytes)?;
    let mut contents = Vec::new();
    while let Some(header) = reader.next_member()? {
      let (mut content, mut buffer) = (Vec::new(), [0; 2]);
      loop {
        match reader.read(&mut buffer)? {
          0 => break,
          read => content.extend_from_slice(&buffer[..read]),
        }
      }
      assert_eq!(content.len() as u64, header.size);
      contents.push(content);
    }
    Ok((head, contents, reader.into_manifest().unwrap()))
  }

  fn objection(bytes: &[u8]) -> String {
    match read_all(bytes) {
      Err(ArchiveError::Damaged(why)) => why,
      other => panic!("{other:?}"),
    }
  }

  fn compressed(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 1).unwrap()
  }

  fn decompressed(bytes: &[u8]) -> Vec<u8> {
    zstd::decode_all(bytes).unwrap()
  }

  /// The sample with another text in one member, of the same length or not; all headers are right.
  fn rewritten(name: &str, change: impl Fn(&str) -> String) -> Vec<u8> {
    let tar = decompressed(&sample());
    let mut builder = tar::Builder::new(Vec::new());
    for entry in tar::Archive::new(&*tar).entries().unwrap() {
      let mut entry = entry.unwrap();
      let path = entry.path().unwrap().into_owned();
      let mut content = String::new();
      entry.read_to_string(&mut content).unwrap();
      if path.to_str() == Some(name) {
        let changed = change(&content);
        assert_ne!(changed, content);
        content = changed;
      }
      let mut header = entry.header().clone();
      header.set_size(content.len() as u64);
      builder.append_data(&mut header, &path, content.as_bytes()).unwrap();
    }
    compressed(&builder.into_inner().unwrap())
  }

  /// The sample with one header changed and its checksum right again.
  fn with_header(index: usize, change: impl Fn(&mut Header)) -> Vec<u8> {
    let mut tar = decompressed(&sample());
    let positions: Vec<_> = {
      let mut archive = tar::Archive::new(&*tar);
      let entries = archive.entries().unwrap().raw(true);
      entries.map(|entry| entry.unwrap().raw_header_position()).collect()
    };
    let start = usize::try_from(positions[index]).unwrap();
    let mut header = Header::from_byte_slice(&tar[start..start + BLOCK]).clone();
    change(&mut header);
    header.set_cksum();
    tar[start..start + BLOCK].copy_from_slice(header.as_bytes());
    compressed(&tar)
  }

  #[test]
  fn reader_returns_what_the_writer_was_given() {
    let (read_head, contents, manifest) = read_all(&sample()).unwrap();
    assert_eq!(read_head, head());
    let read: Vec<_> = manifest
      .entries()
      .iter()
      .zip(&contents)
      .map(|(entry, content)| (entry.name.as_str(), content.len(), entry.is_pinned, entry.made_at))
      .collect();
    assert_eq!(
      read,
      [
        ("a", 2, false, None),
        ("empty", 0, false, None),
        ("b \"quoted\"", 3, true, Some(7)),
        (&*long_name(), BLOCK, false, None),
        ("é", 1, false, None),
      ]
    );
    assert_eq!(contents[2], b"x\ny");
    assert_eq!((manifest.items, manifest.bytes), (5, 6 + BLOCK as u64));
  }

  #[test]
  fn equal_contents_give_equal_files() {
    assert_eq!(sample(), sample());
  }

  #[test]
  fn writer_refuses_a_content_of_another_length() {
    for content in [&b"1"[..], b"123"] {
      let mut writer = ArchiveWriter::new(Vec::new(), &head()).unwrap();
      let error = writer.append(&own_member("a", b"12"), content).unwrap_err();
      assert!(error.to_string().contains("bytes instead of 2"), "{error}");
    }
  }

  #[test]
  fn file_is_a_tar_with_plain_headers() {
    let tar = decompressed(&sample());
    let mut archive = tar::Archive::new(&*tar);
    let mut names = Vec::new();
    for entry in archive.entries().unwrap() {
      let entry = entry.unwrap();
      let header = entry.header();
      let owner = (header.uid().unwrap(), header.gid().unwrap(), header.mode().unwrap());
      assert_eq!(owner, (0, 0, 0o644));
      let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
      assert_eq!(
        header.mtime().unwrap(),
        if name.starts_with('b') { 1_700_000_000 } else { 0 }
      );
      names.push(name);
    }
    let long_name = long_name();
    let expected = [
      "waymark.json",
      "a",
      "empty",
      "b \"quoted\"",
      &long_name,
      "é",
      "manifest.json",
    ];
    assert_eq!(names, expected);
    assert!(tar.ends_with(&[0; 2 * BLOCK]) && tar.len() % BLOCK == 0);
  }

  #[test]
  fn first_and_last_member_are_json() {
    let tar = decompressed(&sample());
    let mut texts = Vec::new();
    for entry in tar::Archive::new(&*tar).entries().unwrap() {
      let mut content = String::new();
      entry.unwrap().read_to_string(&mut content).unwrap();
      texts.push(content);
    }
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
      texts[0],
      format!(r#"{{"waymark":"session","version":1,"sessionId":"s \"1\"","madeBy":"{version}","items":9}}"#)
    );
    let manifest: serde_json::Value = serde_json::from_str(texts.last().unwrap()).unwrap();
    assert_eq!((&manifest["items"], &manifest["bytes"]), (&5.into(), &518.into()));
    let pinned = serde_json::json!({
      "name": "b \"quoted\"",
      "size": 3,
      "sha256": hex(&Sha256::digest(b"x\ny")),
      "pinned": true,
      "madeAt": 7,
    });
    assert_eq!(manifest["members"][3], pinned);
    assert_eq!(manifest["members"][0]["name"], "waymark.json");
  }

  #[test]
  fn reader_refuses_a_file_that_is_cut_off_anywhere() {
    let file = sample();
    for end in 0..file.len() {
      objection(&file[..end]);
    }
    let tar = decompressed(&file);
    for end in (0..tar.len()).step_by(37).chain(tar.len() - 2 * BLOCK - 3..tar.len()) {
      objection(&compressed(&tar[..end]));
    }
  }

  #[test]
  fn reader_notices_every_changed_bit() {
    let file = sample();
    let whole = read_all(&file).unwrap();
    for at in 0..file.len() {
      for bit in 0..8 {
        let mut changed = file.clone();
        changed[at] ^= 1 << bit;
        // The header of the frame can say the same in several ways.
        if let Ok(read) = read_all(&changed) {
          assert_eq!(read, whole, "byte {at}, bit {bit}");
        }
      }
    }
  }

  #[test]
  fn reader_notices_every_changed_byte_of_a_content_header_or_padding() {
    let tar = decompressed(&sample());
    let whole = read_all(&sample()).unwrap();
    for at in (0..tar.len()).step_by(3) {
      let mut changed = tar.clone();
      changed[at] ^= 0x20;
      // Names, times and owners are not read from every byte of their fields.
      if let Ok(read) = read_all(&compressed(&changed)) {
        assert_eq!(read, whole, "byte {at}");
      }
    }
  }

  #[test]
  fn reader_refuses_what_follows_the_end() {
    let tar = decompressed(&sample());
    let zeros = [&*tar, &[0; BLOCK]].concat();
    let byte = [&*tar, b"x"].concat();
    for file in [
      [&*sample(), &[0]].concat(),
      [sample(), sample()].concat(),
      compressed(&zeros),
      compressed(&byte),
    ] {
      assert_eq!(objection(&file), "something follows its end");
    }
    let end = tar.len() - 2 * BLOCK;
    let member_behind = [&tar[..end], &tar[..]].concat();
    assert_eq!(objection(&compressed(&member_behind)), "something follows its manifest");
    let lone_zero_block = [&tar[..BLOCK * 2], &[0; BLOCK], &tar[BLOCK * 2..]].concat();
    assert_eq!(
      objection(&compressed(&lone_zero_block)),
      "it has a zero block before its end"
    );
  }

  #[test]
  fn reader_refuses_other_files() {
    let tar = decompressed(&sample());
    let gzip = crate::codec::gzip::compress(&tar, "");
    let without_head = &tar[2 * BLOCK..];
    for other in [
      &b""[..],
      b"\n",
      b"{}",
      &gzip,
      &tar,
      &compressed(b""),
      &compressed(b"{}\n"),
      &compressed(without_head),
      &compressed(&[0; 2 * BLOCK]),
      &compressed(&vec![b' '; 1 << 20]),
      &rewritten(HEAD, |_| "[1]".to_owned()),
      &rewritten(HEAD, |_| "{}".to_owned()),
      &rewritten(HEAD, |head| head.replace(r#""session""#, r#""database""#)),
      &rewritten(HEAD, |head| format!("{head}{}", " ".repeat(5000))),
    ] {
      let objection = objection(other);
      assert!(objection.contains("not an export file of a session"), "{objection}");
    }
  }

  #[test]
  fn reader_names_a_newer_version() {
    let with_version = |version: &str| {
      let member = format!("\"version\":{version}");
      rewritten(HEAD, |head| head.replace("\"version\":1", &member))
    };
    assert!(matches!(read_all(&with_version("2")), Err(ArchiveError::Newer(2))));
    for version in ["0", "-1", "1.5", "\"1\"", "null", "1e99"] {
      assert_eq!(objection(&with_version(version)), "it has no version");
    }
    let without_id = rewritten(HEAD, |head| head.replace("sessionId", "sessionID"));
    assert_eq!(objection(&without_id), "its waymark.json does not say what is in it");
  }

  #[test]
  fn reader_refuses_a_manifest_that_does_not_match() {
    let others = "its manifest lists other members than it holds";
    for (from, to, expected) in [
      ("\"size\": 2", "\"size\": 1", others),
      ("\"name\": \"a\"", "\"name\": \"c\"", others),
      ("\"items\": 5", "\"items\": 4", "the totals in its manifest are wrong"),
      ("\"bytes\": 518", "\"bytes\": 9", "the totals in its manifest are wrong"),
      ("\"size\": 2", "\"size\": -2", "its manifest cannot be read"),
      ("\"pinned\": true", "\"pinned\": 1", "its manifest cannot be read"),
      ("\"madeAt\": 7", "\"madeAt\": 1e300", "its manifest cannot be read"),
      (
        "\"madeAt\": 7",
        "\"madeAt\": 7, \"madeAt\": 7",
        "its manifest cannot be read",
      ),
      ("\"items\"", "\"item\"", "its manifest cannot be read"),
      ("\"pinned\"", "\"Pinned\"", "its manifest cannot be read"),
      ("{", "{\"later\": 1,", "its manifest cannot be read"),
    ] {
      let objection = objection(&rewritten(MANIFEST, |json| json.replacen(from, to, 1)));
      assert!(objection.starts_with(expected), "{to}: {objection}");
    }
    assert_eq!(
      objection(&rewritten("a", |_| "[]".to_owned())),
      "\"a\" does not match its checksum"
    );
    assert_eq!(objection(&rewritten("a", |_| "[1]".to_owned())), others);
    let other_head = rewritten(HEAD, |head| head.replace("items\":9", "items\":8"));
    assert_eq!(objection(&other_head), "\"waymark.json\" does not match its checksum");
    let padded = rewritten(MANIFEST, |json| format!("{json}{}", " ".repeat(10_000)));
    assert_eq!(objection(&padded), "its manifest is too long for what it holds");
  }

  #[test]
  fn reader_refuses_members_that_are_not_regular_files() {
    for kind in b"1234567DKMSVNX\x01" {
      let file = with_header(1, |header| header.set_entry_type(EntryType::new(*kind)));
      assert!(objection(&file).contains("not a regular file"), "{kind}");
    }
    for kind in *b"xg" {
      let file = with_header(1, |header| header.set_entry_type(EntryType::new(kind)));
      assert_eq!(objection(&file), "it has pax headers");
    }
  }

  #[test]
  fn reader_refuses_headers_that_lie() {
    let header_of = |change: fn(&mut Header)| objection(&with_header(1, change));
    assert_eq!(
      header_of(|header| header.set_size(1)),
      "it has something between its members"
    );
    assert_eq!(
      header_of(|header| header.set_size(3)),
      "its manifest lists other members than it holds"
    );
    assert_eq!(header_of(|header| header.set_size(1 << 50)), "it ends too early");
    assert_eq!(header_of(|header| header.set_size(u64::MAX)), "it ends too early");
    for spelling in [*b"-0000000002\0", *b"0x000000002\0", *b"        \0   ", [0xff; 12]] {
      let file = with_header(1, |header| header.as_old_mut().size = spelling);
      assert_eq!(objection(&file), "it has a damaged tar header", "{spelling:?}");
    }
    let huge = with_header(1, |header| {
      header.as_old_mut().size = [0x80, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    });
    assert_eq!(objection(&huge), "it has a damaged tar header");
    assert_eq!(
      header_of(|header| header.as_old_mut().name[0] = 0xff),
      "a name in it is not UTF-8 text"
    );
    assert_eq!(
      header_of(|header| header.as_mut_bytes()[257] = b'V'),
      "it has a damaged tar header"
    );
  }

  #[test]
  fn reader_refuses_long_names_that_lie() {
    // The long name is the fifth header.
    assert_eq!(
      objection(&with_header(4, |header| header.set_size(1 << 20))),
      "a name in it is too long"
    );
    assert_eq!(
      objection(&with_header(4, |header| header.set_size(10))),
      "it has something between its members"
    );
    let twice = with_header(5, |header| header.set_entry_type(EntryType::GNULongName));
    assert_eq!(objection(&twice), "it has two long names for one member");
    assert_eq!(
      objection(&with_header(4, |header| header.set_size(0))),
      "a long name in it does not end where it should"
    );
  }

  #[test]
  fn reader_stops_at_the_first_block_of_a_bomb() {
    let mut bomb = zstd::Encoder::new(Vec::new(), 1).unwrap();
    bomb.write_all(&decompressed(&sample())[..2 * BLOCK]).unwrap();
    for _ in 0..200 {
      bomb.write_all(&vec![b'0'; 1 << 20]).unwrap();
    }
    assert_eq!(objection(&bomb.finish().unwrap()), "it has a damaged tar header");
  }

  #[test]
  fn reader_refuses_a_window_that_is_larger_than_the_writers() {
    let mut greedy = zstd::Encoder::new(Vec::new(), 1).unwrap();
    greedy.window_log(27).unwrap();
    greedy.write_all(&decompressed(&sample())).unwrap();
    assert!(objection(&greedy.finish().unwrap()).contains("too much memory"));
  }

  #[test]
  fn repeated_contents_are_stored_once() {
    // Not compressible by itself.
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..4 << 20)
      .map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u8::try_from(state >> 56).unwrap()
      })
      .collect();
    let once = written(&[member("a", &noise)]).len();
    let twice = written(&[member("a", &noise), member("b", &noise)]).len();
    assert!(once > 4 << 20 && twice < once + 10_000, "{once} and {twice}");
  }
}
