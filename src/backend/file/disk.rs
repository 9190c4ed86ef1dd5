//! The file system as the file backend uses it: directories that are opened step by step, and names in them.
//!
//! Everything that touches the system goes through these traits, so that tests can put a disk underneath that refuses
//! a call, or forgets what was not synced.

use std::fmt;
use std::io;
use std::time::SystemTime;

use crate::backend::Peek;

/// A tree of directories below one base.
pub trait Disk: Send + Sync + fmt::Debug {
  type Directory: Directory;

  /// Makes the base, and what is missing above it. If `durable` says so, its name is durable afterwards, whoever made it.
  fn make_base(&self, durable: bool) -> io::Result<()>;

  /// Opens the base. It may be reached through links: its owner named it.
  fn open_base(&self) -> io::Result<Self::Directory>;

  /// Whether the names of `path`, below the base, still lead to `directory`, which was opened through them.
  fn is_in_place(&self, path: &[&str], directory: &Self::Directory) -> io::Result<bool>;
}

/// An open directory. No call follows a link.
pub trait Directory: Sized + Send {
  /// A file that is being written, locked by its writer until it is dropped.
  type File: Send;
  /// Held until it is dropped.
  type Lock: Send;

  /// What [`Directory::link`] makes.
  const LINK: Kind;

  fn open_directory(&self, name: &str) -> io::Result<Self>;

  /// Makes a directory for its owner only.
  fn make_directory(&self, name: &str) -> io::Result<()>;

  /// Makes a file that must not exist yet, for its owner only.
  fn create(&self, name: &str) -> io::Result<Self::File>;

  /// Opens a file to write on after its first `size` bytes, which it must have: what is beyond them goes.
  fn reopen(&self, name: &str, size: u64) -> io::Result<Self::File>;

  /// Writes all bytes, or fails.
  fn write(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;

  /// Lets the disk begin with what a sync will need; nothing is promised.
  fn begin_sync(&self, _file: &Self::File) {}

  /// Makes the contents of a file durable. After a failure they must not be trusted.
  fn sync_file(&self, file: &Self::File) -> io::Result<()>;

  /// Makes the names in this directory durable.
  fn sync(&self) -> io::Result<()>;

  /// When the names in this directory last changed.
  fn time(&self) -> io::Result<SystemTime>;

  /// Reads a file, unless it is larger than `limit`.
  fn read(&self, name: &str, limit: u64) -> io::Result<Contents>;

  /// The first `head` and the last `tail` bytes of a file, as far as it has them; `None` if it is something else.
  fn peek(&self, name: &str, head: usize, tail: usize) -> io::Result<Option<Peek>>;

  /// Moves a name, replacing what was there.
  fn rename(&self, from: &str, to: &Self, new_name: &str) -> io::Result<()>;

  /// Makes a link to a path below this directory, or where there are none, a file that holds the path.
  fn link(&self, target: &str, name: &str) -> io::Result<()>;

  /// Gives a file a second name.
  fn hard_link(&self, name: &str, second: &str) -> io::Result<()>;

  fn remove_file(&self, name: &str) -> io::Result<()>;

  fn remove_directory(&self, name: &str) -> io::Result<()>;

  /// What is in this directory; nothing if it was removed after it had been opened.
  fn entries(&self) -> io::Result<Vec<Entry>>;

  fn stat(&self, name: &str) -> io::Result<Stat>;

  /// Takes the lock on a file, which is made if need be, unless somebody else holds it: then the answer is `None`. Where
  /// the file system has no locks, that is the error `Unsupported`; `Interrupted` if the file was removed meanwhile. Nothing waits for a lock without a deadline: see `locks::wait`.
  fn try_lock(&self, name: &str) -> io::Result<Option<Self::Lock>>;

  /// Writes into a locked file who holds it, unless it says so already. Nothing is synced.
  fn write_holder(&self, lock: &Self::Lock, holder: &str) -> io::Result<()>;

  /// The time that a locked file shows as that of its last change.
  fn time_of(&self, lock: &Self::Lock) -> io::Result<SystemTime>;

  /// Makes a locked file show that time, or one as near as the file system can.
  fn set_time(&self, lock: &Self::Lock, time: SystemTime) -> io::Result<()>;

  /// Sets the time of the last change of a file, which must exist.
  fn set_modified(&self, name: &str, time: SystemTime) -> io::Result<()>;

  /// Whether nobody holds the file as [`Directory::create`] gave it; `None` where the file system cannot tell.
  fn is_abandoned(&self, name: &str) -> io::Result<Option<bool>>;
}

/// The answer of [`Directory::reopen`] for something that is no file of that size.
#[must_use]
pub fn not_that_file() -> io::Error {
  io::Error::new(io::ErrorKind::NotFound, "it is not the file that it was")
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

/// Which parts of a file of that size make a [`Peek`]: how many bytes at its beginning, and where its end begins.
#[must_use]
pub fn peek_bounds(size: u64, head: usize, tail: usize) -> (usize, u64) {
  let head = usize::try_from(size).map_or(head, |size| size.min(head));
  (head, size.saturating_sub(tail as u64))
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
