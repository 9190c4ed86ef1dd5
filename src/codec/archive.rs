//! One session as one file that can be carried: a zstd stream of lines of JSON, each followed by the bytes that it tells of.
//!
//! ```text
//! {"waymark":"session","version":1,"sessionId":"s","madeBy":"0.1.0","items":2}
//! {"name":"session.json","size":15}
//! {"id": "s", …}
//! {"name":"checkpoints/first.json","size":9,"pinned":true,"madeAt":1700000000000}
//! {"id": …}
//! {"items":2,"bytes":24,"sha256":"…"}
//! ```
//!
//! A line feed follows the bytes of every item. How many there are is known in the end only: the number in the first line is
//! what the writer expected. The last line has the SHA-256 of everything before it, and nothing follows it. What the
//! names mean is not known here.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};

use sha2::{Digest, Sha256};

use crate::checkpoint::document::hex;
use crate::json::edit::{ObjectWriter, quoted};
use crate::json::scan::{Member, find, members, text_of};

/// Nearly equal items that are less than this apart, in bytes as a power of two, are stored as their differences. Both
/// ends hold so much in memory, and a reader refuses to hold more.
const WINDOW_LOG: u32 = 26;

/// Quick, and about as small as the slower ones where items repeat each other.
const LEVEL: i32 = 3;

/// What the first line says that it is.
const KIND: &str = "session";

/// A new meaning of a member is a new number.
const VERSION: u64 = 1;

/// Longer than any line of ours: an id has 200 bytes at most.
const LONGEST_LINE: u64 = 4096;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
  pub session_id: String,
  /// How many items were expected when the file was begun.
  pub items: u64,
}

/// The line before the bytes of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
  pub name: String,
  pub size: u64,
  pub is_pinned: bool,
  pub made_at: Option<u64>,
}

/// How much there is in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
  pub items: u64,
  pub bytes: u64,
}

/// Why a file cannot be read.
#[derive(Debug)]
pub enum ReadError {
  /// It is not what the writer made; the text completes a sentence.
  Damaged(String),
  /// The version that made it is newer than this one.
  Newer(u64),
  /// Whatever it is, it could not be read.
  Io(io::Error),
}

impl From<io::Error> for ReadError {
  fn from(error: io::Error) -> Self {
    match error.kind() {
      io::ErrorKind::UnexpectedEof => damaged("it ends too early"),
      // What the system refuses has a number. The rest is zstd's.
      _ if error.raw_os_error().is_some() => Self::Io(error),
      _ => damaged(format!("it is no whole zstd stream ({error})")),
    }
  }
}

fn damaged(why: impl Into<String>) -> ReadError {
  ReadError::Damaged(why.into())
}

/// Everything that is written, counted into the checksum.
pub struct Writer<'a, W: Write> {
  out: zstd::Encoder<'a, W>,
  digest: Sha256,
  totals: Totals,
}

impl<W: Write> Writer<'_, W> {
  pub fn new(out: W, head: &Head) -> io::Result<Self> {
    let mut encoder = zstd::Encoder::new(out, LEVEL)?;
    encoder.window_log(WINDOW_LOG)?;
    encoder.long_distance_matching(true)?;
    encoder.include_checksum(true)?;
    let mut writer = Self {
      out: encoder,
      digest: Sha256::new(),
      totals: Totals::default(),
    };
    let mut line = ObjectWriter::with_capacity(128);
    line.push("waymark", &quoted(KIND));
    line.push("version", &VERSION.to_string());
    line.push("sessionId", &quoted(&head.session_id));
    line.push("madeBy", &quoted(env!("CARGO_PKG_VERSION")));
    line.push("items", &head.items.to_string());
    writer.line(line)?;
    Ok(writer)
  }

  /// Begins an item: as many bytes as it says must follow, then [`Writer::end_item`].
  pub fn begin_item(&mut self, entry: &Entry) -> io::Result<()> {
    let mut line = ObjectWriter::with_capacity(128);
    line.push("name", &quoted(&entry.name));
    line.push("size", &entry.size.to_string());
    if entry.is_pinned {
      line.push("pinned", "true");
    }
    if let Some(made_at) = entry.made_at {
      line.push("madeAt", &made_at.to_string());
    }
    self.totals.items += 1;
    self.totals.bytes += entry.size;
    self.line(line)
  }

  pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
    self.digest.update(bytes);
    self.out.write_all(bytes)
  }

  pub fn end_item(&mut self) -> io::Result<()> {
    self.bytes(b"\n")
  }

  /// Writes the last line.
  pub fn finish(mut self) -> io::Result<(W, Totals)> {
    let mut line = ObjectWriter::with_capacity(128);
    line.push("items", &self.totals.items.to_string());
    line.push("bytes", &self.totals.bytes.to_string());
    line.push("sha256", &quoted(&hex(&self.digest.clone().finalize())));
    self.line(line)?;
    Ok((self.out.finish()?, self.totals))
  }

  fn line(&mut self, line: ObjectWriter) -> io::Result<()> {
    let mut text = line.finish();
    text.push('\n');
    self.bytes(text.as_bytes())
  }
}

impl<W: Write> fmt::Debug for Writer<'_, W> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "an archive after {:?}", self.totals)
  }
}

/// Reads what a [`Writer`] wrote, and believes none of it.
pub struct Reader<'a, R: BufRead> {
  /// Buffered, for the sake of the lines.
  input: BufReader<zstd::Decoder<'a, R>>,
  digest: Sha256,
  totals: Totals,
  /// The bytes of the current item that were not read yet; `None` between two items.
  left: Option<u64>,
}

impl<R: Read> Reader<'_, BufReader<R>> {
  pub fn new(input: R) -> Result<(Self, Head), ReadError> {
    let mut decoder = zstd::Decoder::new(input)?.single_frame();
    decoder.window_log_max(WINDOW_LOG)?;
    let mut reader = Self {
      input: BufReader::new(decoder),
      digest: Sha256::new(),
      totals: Totals::default(),
      left: None,
    };
    let line = match reader.line() {
      // Nothing of it can be read: it is not one that broke off, it is something else.
      Err(ReadError::Damaged(why)) => return Err(damaged(format!("it is no archive of a session ({why})"))),
      line => line?,
    };
    let found = members(&line).map_err(|_| damaged("it is no archive of a session"))?;
    if text(&found, "waymark").as_deref() != Some(KIND) {
      return Err(damaged("it is no archive of a session"));
    }
    match number(&found, "version") {
      Some(VERSION) => {}
      Some(newer) if newer > VERSION => return Err(ReadError::Newer(newer)),
      _ => return Err(damaged("it has no version")),
    }
    let head = text(&found, "sessionId").zip(number(&found, "items"));
    let (session_id, items) = head.ok_or_else(|| damaged("its first line does not say what is in it"))?;
    Ok((reader, Head { session_id, items }))
  }

  /// The next item, whose bytes have to be read before the one after it; `None` after the last, when everything was as it
  /// should be.
  pub fn next_item(&mut self) -> Result<Option<Entry>, ReadError> {
    if self.left.is_some() {
      return Err(ReadError::Io(io::Error::other("an item was not read to its end")));
    }
    let before = self.digest.clone();
    let line = self.line()?;
    let found = members(&line).map_err(|_| damaged(format!("item {} has no name", self.totals.items + 1)))?;
    if find(&found, "sha256").is_some() {
      self.end(&found, before)?;
      return Ok(None);
    }
    let entry = entry_of(&found).ok_or_else(|| damaged(format!("item {} has no name", self.totals.items + 1)))?;
    self.left = Some(entry.size);
    self.totals.items += 1;
    self.totals.bytes = self.totals.bytes.saturating_add(entry.size);
    Ok(Some(entry))
  }

  /// Some bytes of the current item, as many as fit; none when it is at its end, which has to be seen.
  pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
    let Some(left) = self.left else {
      return Ok(0);
    };
    if left == 0 {
      self.left = None;
      return self.end_item().map(|()| 0);
    }
    let fits = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
    let read = self.input.read(&mut buffer[..fits])?;
    if read == 0 && fits > 0 {
      return Err(damaged("it ends too early"));
    }
    self.digest.update(&buffer[..read]);
    self.left = Some(left - read as u64);
    Ok(read)
  }

  fn end_item(&mut self) -> Result<(), ReadError> {
    let mut feed = [0];
    self.input.read_exact(&mut feed)?;
    self.digest.update(feed);
    match feed {
      [b'\n'] => Ok(()),
      _ => Err(damaged(format!("item {} is longer than it says", self.totals.items))),
    }
  }

  fn end(&mut self, found: &[Member<'_>], digest: Sha256) -> Result<(), ReadError> {
    if text(found, "sha256").as_deref() != Some(&hex(&digest.finalize())) {
      return Err(damaged("its contents do not fit its checksum"));
    }
    let totals = number(found, "items").zip(number(found, "bytes"));
    if totals != Some((self.totals.items, self.totals.bytes)) {
      return Err(damaged("it does not hold as much as it says"));
    }
    // The end of the stream has a checksum of its own, which is looked at when there is no more.
    let more = self.input.read(&mut [0])?;
    let behind = self.input.get_mut().get_mut().read(&mut [0])?;
    if more > 0 || behind > 0 {
      return Err(damaged("something follows its end"));
    }
    Ok(())
  }

  #[must_use]
  pub fn totals(&self) -> Totals {
    self.totals
  }

  fn line(&mut self) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    (&mut self.input).take(LONGEST_LINE).read_until(b'\n', &mut bytes)?;
    self.digest.update(&bytes);
    match bytes.pop() {
      Some(b'\n') => String::from_utf8(bytes).map_err(|_| damaged("a line of it is no text")),
      Some(_) if bytes.len() as u64 + 1 == LONGEST_LINE => Err(damaged("a line of it is too long")),
      _ => Err(damaged("it ends too early")),
    }
  }
}

impl<R: BufRead> fmt::Debug for Reader<'_, R> {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "an archive after {:?}", self.totals)
  }
}

fn entry_of(found: &[Member<'_>]) -> Option<Entry> {
  let is_pinned = match find(found, "pinned").map(|member| member.value) {
    None => false,
    Some("true") => true,
    Some(_) => return None,
  };
  let made_at = match find(found, "madeAt") {
    None => None,
    // A number that JavaScript cannot count to is nobody's clock.
    Some(_) => Some(number(found, "madeAt").filter(|time| *time < 1 << 53)?),
  };
  Some(Entry {
    name: text(found, "name")?,
    size: number(found, "size")?,
    is_pinned,
    made_at,
  })
}

fn text(found: &[Member<'_>], name: &str) -> Option<String> {
  Some(text_of(find(found, name)?.value)?.into_owned())
}

fn number(found: &[Member<'_>], name: &str) -> Option<u64> {
  find(found, name)?.value.parse().ok()
}

#[cfg(test)]
mod tests {
  use super::*;

  fn entry(name: &str, size: usize) -> Entry {
    Entry {
      name: name.to_owned(),
      size: size as u64,
      is_pinned: false,
      made_at: None,
    }
  }

  fn head() -> Head {
    Head {
      session_id: "s \"1\"".to_owned(),
      items: 9,
    }
  }

  fn written(items: &[(Entry, &[u8])]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &head()).unwrap();
    for (entry, bytes) in items {
      writer.begin_item(entry).unwrap();
      writer.bytes(bytes).unwrap();
      writer.end_item().unwrap();
    }
    writer.finish().unwrap().0
  }

  fn sample() -> Vec<u8> {
    let pinned = Entry {
      is_pinned: true,
      made_at: Some(7),
      ..entry("b \"quoted\"", 3)
    };
    written(&[(entry("a", 2), b"{}"), (entry("empty", 0), b""), (pinned, b"x\ny")])
  }

  fn all(bytes: &[u8]) -> Result<Vec<(Entry, Vec<u8>)>, ReadError> {
    let (mut reader, read_head) = Reader::new(bytes)?;
    assert_eq!(read_head, head());
    let mut items = Vec::new();
    while let Some(entry) = reader.next_item()? {
      let (mut bytes, mut buffer) = (Vec::new(), [0; 2]);
      loop {
        match reader.read(&mut buffer)? {
          0 => break,
          read => bytes.extend_from_slice(&buffer[..read]),
        }
      }
      items.push((entry, bytes));
    }
    Ok(items)
  }

  fn why(bytes: &[u8]) -> String {
    match all(bytes) {
      Err(ReadError::Damaged(why)) => why,
      other => panic!("{other:?}"),
    }
  }

  /// A stream of that text, made by somebody else.
  fn compressed(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).unwrap()
  }

  fn text_of_sample() -> String {
    String::from_utf8(zstd::decode_all(&*sample()).unwrap()).unwrap()
  }

  #[test]
  fn what_was_written_is_read_back() {
    let items = all(&sample()).unwrap();
    let read: Vec<_> = items
      .iter()
      .map(|(entry, bytes)| (entry.name.as_str(), &bytes[..], entry.is_pinned, entry.made_at))
      .collect();
    assert_eq!(
      read,
      [
        ("a", &b"{}"[..], false, None),
        ("empty", b"", false, None),
        ("b \"quoted\"", b"x\ny", true, Some(7)),
      ]
    );
  }

  #[test]
  fn a_person_can_read_it() {
    let text = text_of_sample();
    let lines: Vec<_> = text.lines().collect();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
      lines[0],
      format!(r#"{{"waymark":"session","version":1,"sessionId":"s \"1\"","madeBy":"{version}","items":9}}"#)
    );
    assert_eq!(lines[1..3], [r#"{"name":"a","size":2}"#, "{}"]);
    assert!(lines.last().unwrap().starts_with(r#"{"items":3,"bytes":5,"sha256":""#));
  }

  #[test]
  fn it_cannot_be_cut_off_anywhere() {
    let whole = sample();
    for end in 0..whole.len() {
      why(&whole[..end]);
    }
    let text = text_of_sample();
    for end in 0..text.len() {
      why(&compressed(&text.as_bytes()[..end]));
    }
  }

  #[test]
  fn no_byte_of_it_can_be_changed() {
    let whole = sample();
    for at in 0..whole.len() {
      for bit in 0..8 {
        let mut changed = whole.clone();
        changed[at] ^= 1 << bit;
        // The header says how the rest is packed: there are other ways to say the same.
        if let Ok(items) = all(&changed) {
          assert_eq!(items, all(&whole).unwrap(), "byte {at}, bit {bit}");
        }
      }
    }
  }

  #[test]
  fn nothing_may_follow_it() {
    let mut whole = sample();
    whole.push(0);
    assert_eq!(why(&whole), "something follows its end");
    let twice = [sample(), sample()].concat();
    assert_eq!(why(&twice), "something follows its end");
    let text = text_of_sample();
    assert_eq!(
      why(&compressed(format!("{text}x").as_bytes())),
      "something follows its end"
    );
  }

  #[test]
  fn what_is_no_archive_is_none() {
    let gzip = crate::codec::gzip::compress(text_of_sample().as_bytes(), "");
    for other in [
      &b""[..],
      b"\n",
      b"{}",
      &gzip,
      text_of_sample().as_bytes(),
      &compressed(b""),
      &compressed(b"{}\n"),
      &compressed(b"[1]\n"),
      &compressed(b"\xff\xfe\n"),
      &compressed(br#"{"waymark":"other","version":1,"sessionId":"s","items":0}"#),
      &compressed(&vec![b' '; 1 << 20]),
    ] {
      assert!(why(other).contains("no archive of a session"), "{:?}", why(other));
    }
  }

  #[test]
  fn a_newer_version_says_so() {
    let text = text_of_sample().replacen("\"version\":1", "\"version\":2", 1);
    assert!(matches!(all(&compressed(text.as_bytes())), Err(ReadError::Newer(2))));
    for version in ["0", "-1", "1.5", "\"1\"", "null", "1e99"] {
      let text = text_of_sample().replacen("\"version\":1", &format!("\"version\":{version}"), 1);
      assert_eq!(why(&compressed(text.as_bytes())), "it has no version");
    }
  }

  #[test]
  fn a_line_that_lies_is_found_out() {
    let text = text_of_sample();
    for (from, to, complaint) in [
      ("\"size\":2", "\"size\":1", "item 1 is longer than it says"),
      ("\"size\":2", "\"size\":3", "item 1 is longer than it says"),
      ("\"size\":2", "\"size\":99999999999999", "it ends too early"),
      ("\"size\":2", "\"size\":-2", "item 1 has no name"),
      ("\"name\":\"a\"", "\"name\":7", "item 1 has no name"),
      ("\"pinned\":true", "\"pinned\":1", "item 3 has no name"),
      ("\"madeAt\":7", "\"madeAt\":9007199254740992", "item 3 has no name"),
      (
        "\"name\":\"a\"",
        "\"name\":\"c\"",
        "its contents do not fit its checksum",
      ),
      ("\"items\":3", "\"items\":4", "it does not hold as much as it says"),
      ("\"bytes\":5", "\"bytes\":6", "it does not hold as much as it says"),
    ] {
      let changed = text.replacen(from, to, 1);
      assert_ne!(changed, text, "{from}");
      assert_eq!(why(&compressed(changed.as_bytes())), complaint, "{to}");
    }
  }

  #[test]
  fn a_bomb_is_put_out_at_its_first_line() {
    let head = text_of_sample().lines().next().unwrap().to_owned();
    let mut bomb = zstd::Encoder::new(Vec::new(), 1).unwrap();
    writeln!(bomb, "{head}").unwrap();
    for _ in 0..200 {
      bomb.write_all(&vec![b'0'; 1 << 20]).unwrap();
    }
    assert_eq!(why(&bomb.finish().unwrap()), "a line of it is too long");
  }

  #[test]
  fn more_memory_than_our_own_needs_is_not_given() {
    let mut greedy = zstd::Encoder::new(Vec::new(), 1).unwrap();
    greedy.window_log(27).unwrap();
    greedy.write_all(text_of_sample().as_bytes()).unwrap();
    assert!(why(&greedy.finish().unwrap()).contains("too much memory"));
  }

  #[test]
  fn what_repeats_far_back_costs_almost_nothing() {
    // Nothing that can be made smaller by itself.
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..4 << 20)
      .map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u8::try_from(state >> 56).unwrap()
      })
      .collect();
    let once = written(&[(entry("a", noise.len()), &noise)]).len();
    let twice = written(&[(entry("a", noise.len()), &noise), (entry("b", noise.len()), &noise)]).len();
    assert!(once > 4 << 20 && twice < once + 10_000, "{once} and {twice}");
  }
}
