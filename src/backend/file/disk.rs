//! The file system as the file backend uses it: directories that are opened step by step, and names in them.
//!
//! Everything that touches the system goes through these traits, so that tests can put a disk underneath that refuses
//! a call, or forgets what was not synced.

use std::fmt;
use std::io;

/// A tree of directories below one base.
pub trait Disk: Send + Sync + fmt::Debug {
  type Directory: Directory;

  /// Makes the base, and what is missing above it. If `durable` says so, its name is durable afterwards, whoever made it.
  fn make_base(&self, durable: bool) -> io::Result<()>;

  /// Opens the base. It may be reached through links: its owner named it.
  fn open_base(&self) -> io::Result<Self::Directory>;
}

/// An open directory. No call follows a link.
pub trait Directory: Sized + Send {
  /// A file that is being written, locked by its writer until it is dropped.
  type File: Send;
  /// Held until it is dropped.
  type Lock: Send;

  fn open_directory(&self, name: &str) -> io::Result<Self>;

  /// Makes a directory for its owner only.
  fn make_directory(&self, name: &str) -> io::Result<()>;

  /// Makes a file that must not exist yet, for its owner only.
  fn create(&self, name: &str) -> io::Result<Self::File>;

  /// Writes all bytes, or fails.
  fn write(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;

  /// Makes the contents of a file durable. After a failure they must not be trusted.
  fn sync_file(&self, file: &Self::File) -> io::Result<()>;

  /// Makes the names in this directory durable.
  fn sync(&self) -> io::Result<()>;

  /// Reads a file, unless it is larger than `limit`.
  fn read(&self, name: &str, limit: u64) -> io::Result<Contents>;

  /// Moves a name, replacing what was there.
  fn rename(&self, from: &str, to: &Self, new_name: &str) -> io::Result<()>;

  fn remove_file(&self, name: &str) -> io::Result<()>;

  fn remove_directory(&self, name: &str) -> io::Result<()>;

  fn entries(&self) -> io::Result<Vec<Entry>>;

  fn stat(&self, name: &str) -> io::Result<Stat>;

  /// Waits for the lock on a file, which is made if need be. Where the file system has no locks, there is none to wait
  /// for.
  fn lock(&self, name: &str) -> io::Result<Self::Lock>;

  /// Whether nobody holds the file as [`Directory::create`] gave it; `None` where the file system cannot tell.
  fn is_abandoned(&self, name: &str) -> io::Result<Option<bool>>;
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
  File,
  Directory,
  /// A link, a pipe, a device: nothing that this store makes.
  Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
  pub name: String,
  pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
  pub kind: Kind,
  pub size: u64,
  /// Milliseconds since 1970.
  pub modified: u64,
}

/// What reading a name gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
  Bytes(Vec<u8>),
  /// There is something else than a file under that name.
  NotAFile,
  /// More bytes than the limit allows.
  TooLarge(u64),
}
