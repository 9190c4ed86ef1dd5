use std::io::{Read as _, Write as _};

use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

use super::writer::own_member;
use super::*;
use crate::types::time::Timestamp;

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
  pinned.0.made_at = Some(Timestamp::from_millis(7));
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
      ("b \"quoted\"", 3, true, Some(Timestamp::from_millis(7))),
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
  assert!(tar.ends_with(&[0; 2 * BLOCK]) && tar.len().is_multiple_of(BLOCK));
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
