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
//!   never a member. The caller interprets the names; no name is used as a path here.

use std::fmt::Write as _;
use std::io;

use crate::types::time::Timestamp;
use serde::{Deserialize, Serialize};

mod reader;
mod writer;

pub use reader::ArchiveReader;
pub use writer::ArchiveWriter;

/// Repetitions up to this distance, in bytes as a power of two, are stored once. Writer and reader each hold a window of
/// that size; a reader refuses a larger one.
const WINDOW_LOG: u32 = 26;

/// The kind of the file, as the first member names it.
const KIND: &str = "session";

/// Changes with every change of the format: a reader that ignored a new member of the manifest would lose data.
const VERSION: u64 = 1;

const HEAD: &str = "waymark.json";
const MANIFEST: &str = "manifest.json";

const BLOCK: usize = 512;

/// The part of the first member that the caller supplies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveHead {
  pub session_id: String,
  /// The number of items that the writer expected when it began.
  pub items: u64,
}

/// The header of a member.
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
  pub made_at: Option<Timestamp>,
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
  pub made_at: Option<Timestamp>,
}

/// The last member: a list of all others, `waymark.json` first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
  /// The number of items; `waymark.json` is not one.
  pub items: u64,
  /// The sum of their sizes.
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

  /// How this manifest differs from the members that were read, as the end of a sentence.
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

fn hex(digest: &[u8]) -> String {
  digest
    .iter()
    .fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
      let _ = write!(text, "{byte:02x}");
      text
    })
}

#[cfg(test)]
mod tests;
