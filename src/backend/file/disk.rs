//! The system calls of the file backend: on open directories, and on names in them.
//!
//! All calls go through these traits, so that tests can use a disk that fails a call, or loses what was not synced.

use std::fmt;
use std::io;
use std::time::SystemTime;

use crate::backend::Peek;

/// A tree of directories below one base.
pub trait Disk: Send + Sync + fmt::Debug {
  type Directory: Directory;

  /// Creates the base and its missing parents. With `durable`, the name of the base is durable afterwards, even if another
  /// process created it.
  fn make_base(&self, durable: bool) -> io::Result<()>;

  /// Opens the base. The path may contain links: the owner of the store chose it.
  fn open_base(&self) -> io::Result<Self::Directory>;

  /// Whether `path`, below the base, still leads to `directory`, which was opened through it.
  fn is_in_place(&self, path: &[&str], directory: &Self::Directory) -> io::Result<bool>;
}

/// An open directory. No call follows a link.
pub trait Directory: Sized + Send {
  /// A file that is being written. It is locked until it is dropped.
  type File: Send;
  /// A lock, which is held until it is dropped.
  type Lock: Send;

  /// The kind of what [`Directory::link`] creates.
  const LINK: Kind;

  fn open_directory(&self, name: &str) -> io::Result<Self>;

  /// Creates a directory that only its owner can access.
  fn make_directory(&self, name: &str) -> io::Result<()>;

  /// Creates a file, which must not exist, and which only its owner can access.
  fn create(&self, name: &str) -> io::Result<Self::File>;

  /// Opens a file to append to its first `size` bytes, which it must have, and truncates it to them.
  fn reopen(&self, name: &str, size: u64) -> io::Result<Self::File>;

  /// Writes all bytes, or fails.
  fn write(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;

  /// Asks the disk to begin to write the file. Has no guaranteed effect.
  fn begin_sync(&self, _file: &Self::File) {}

  /// Makes the contents of a file durable. After an error the file must not be used.
  fn sync_file(&self, file: &Self::File) -> io::Result<()>;

  /// Makes the names in this directory durable.
  fn sync(&self) -> io::Result<()>;

  /// When the names in this directory last changed.
  fn time(&self) -> io::Result<SystemTime>;

  /// Reads a file, unless it is larger than `limit`.
  fn read(&self, name: &str, limit: u64) -> io::Result<Contents>;

  /// The first `head` and the last `tail` bytes of a file, or fewer if it is shorter; `None` if it is not a file.
  fn peek(&self, name: &str, head: usize, tail: usize) -> io::Result<Option<Peek>>;

  /// Renames a file or directory, and replaces an existing file.
  fn rename(&self, from: &str, to: &Self, new_name: &str) -> io::Result<()>;

  /// Creates a link to a path below this directory, or on systems without links, a file that contains the path.
  fn link(&self, target: &str, name: &str) -> io::Result<()>;

  /// Creates a second name for a file.
  fn hard_link(&self, name: &str, second: &str) -> io::Result<()>;

  fn remove_file(&self, name: &str) -> io::Result<()>;

  fn remove_directory(&self, name: &str) -> io::Result<()>;

  /// The entries of this directory; none if it was removed after it had been opened.
  fn entries(&self) -> io::Result<Vec<Entry>>;

  fn stat(&self, name: &str) -> io::Result<Stat>;

  /// Locks a file, which is created if it is missing; `None` if the lock is held already. Fails with `Unsupported` if the file
  /// system has no locks, and with `Interrupted` if the file was removed meanwhile. `locks::wait` waits for a lock, with a
  /// deadline.
  fn try_lock(&self, name: &str) -> io::Result<Option<Self::Lock>>;

  /// Writes the holder of the lock into the locked file, unless it contains it already. Does not sync.
  fn write_holder(&self, lock: &Self::Lock, holder: &str) -> io::Result<()>;

  /// The time of the last change of a locked file.
  fn time_of(&self, lock: &Self::Lock) -> io::Result<SystemTime>;

  /// Sets the time of the last change of a locked file, as precisely as the file system can.
  fn set_time(&self, lock: &Self::Lock, time: SystemTime) -> io::Result<()>;

  /// Sets the time of the last change of a file, which must exist.
  fn set_modified(&self, name: &str, time: SystemTime) -> io::Result<()>;

  /// Whether no writer holds the lock that [`Directory::create`] takes; `None` if the file system cannot tell.
  fn is_abandoned(&self, name: &str) -> io::Result<Option<bool>>;
}

/// The error of [`Directory::reopen`] if there is no file of at least that size.
#[must_use]
pub fn not_that_file() -> io::Error {
  io::Error::new(io::ErrorKind::NotFound, "the file was replaced or truncated")
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
  File,
  Directory,
  /// A link, a pipe or a device.
  Other,
}

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
  pub name: String,
  pub kind: Kind,
}

/// The metadata of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
  pub kind: Kind,
  pub size: u64,
  /// The time of the last change, in milliseconds since 1970.
  pub modified: u64,
}

/// The parts of a file that make a [`Peek`]: the length of the head, and the offset of the tail.
#[must_use]
pub fn peek_bounds(size: u64, head: usize, tail: usize) -> (usize, u64) {
  let head = usize::try_from(size).map_or(head, |size| size.min(head));
  (head, size.saturating_sub(tail as u64))
}

/// The result of reading a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
  Bytes(Vec<u8>),
  /// The name is not that of a file.
  NotAFile,
  /// The size of a file that is larger than the limit.
  TooLarge(u64),
}
