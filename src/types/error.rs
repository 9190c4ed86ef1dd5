//! The one error type: a stable code for programs, a sentence for people, and the cause.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;

use crate::types::id::SessionId;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it was. Programs switch on [`Code::as_str`]; a code never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
  /// A method was called before `initialize()` had finished.
  NotInitialized,
  /// A method was called after `close()`.
  Closed,
  /// An argument or option has the wrong type, shape or value.
  InvalidArgument,
  /// An id that cannot be the name of a file on every system.
  InvalidId,
  /// A value that JSON cannot hold: a cycle, a `BigInt`, `undefined`, a throwing getter.
  NotSerializable,
  /// The checkpoint that was asked for does not exist.
  NotFound,
  /// Something of that name is there already, and must not be.
  Exists,
  /// Something else is there than the caller had seen.
  Conflict,
  /// Somebody else owns the session.
  LeaseHeld,
  /// The lease under which the caller works is no longer in force, or somebody else holds one.
  LeaseLost,
  /// Another process or call has kept a lock for longer than the caller waits. Nothing was done.
  Busy,
  /// A plain checkpoint id that exists in more than one session.
  Ambiguous,
  /// Something is stored under that name, but it is not what this store writes.
  Corrupt,
  /// The stored checksum and the stored data disagree.
  ChecksumMismatch,
  /// It was written by a later version of the store, whose members may mean something else.
  NewerVersion,
  /// Reading it would take more memory than the limit allows.
  TooLarge,
  /// The system refused to read or write; the cause says why.
  Io,
  /// Written, but the directory or the log could not be synced: it may or may not survive a crash. Or the connection broke
  /// before the server had answered: it may or may not have been done.
  OutcomeUnknown,
  /// Whoever asked for it stopped it. The name is that of Node.js.
  Aborted,
  /// A defect of the store itself.
  Internal,
}

impl Code {
  #[must_use]
  pub fn as_str(self) -> &'static str {
    match self {
      Self::NotInitialized => "WAYMARK_NOT_INITIALIZED",
      Self::Closed => "WAYMARK_CLOSED",
      Self::InvalidArgument => "WAYMARK_INVALID_ARGUMENT",
      Self::InvalidId => "WAYMARK_INVALID_ID",
      Self::NotSerializable => "WAYMARK_NOT_SERIALIZABLE",
      Self::NotFound => "WAYMARK_NOT_FOUND",
      Self::Exists => "WAYMARK_EXISTS",
      Self::Conflict => "WAYMARK_CONFLICT",
      Self::LeaseHeld => "WAYMARK_LEASE_HELD",
      Self::LeaseLost => "WAYMARK_LEASE_LOST",
      Self::Busy => "WAYMARK_BUSY",
      Self::Ambiguous => "WAYMARK_AMBIGUOUS",
      Self::Corrupt => "WAYMARK_CORRUPT",
      Self::ChecksumMismatch => "WAYMARK_CHECKSUM_MISMATCH",
      Self::NewerVersion => "WAYMARK_NEWER_VERSION",
      Self::TooLarge => "WAYMARK_TOO_LARGE",
      Self::Io => "WAYMARK_IO",
      Self::OutcomeUnknown => "WAYMARK_OUTCOME_UNKNOWN",
      Self::Aborted => "ABORT_ERR",
      Self::Internal => "WAYMARK_INTERNAL",
    }
  }
}

#[derive(Debug)]
pub struct Error {
  pub code: Code,
  pub message: String,
  pub cause: Option<Box<dyn StdError + Send + Sync>>,
  /// Of a conflict: what is there now.
  pub current: Option<Current>,
  /// The lease under which a write was refused.
  pub lost: Option<Box<LostLease>>,
}

/// A lease that is not in force any more, though its store wrote under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostLease {
  pub session: SessionId,
  pub number: u64,
}

/// What is there instead of what a caller had seen: the revision of a document, or the id of the newest checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current(pub Option<String>);

impl Error {
  pub fn new(code: Code, message: impl Into<String>) -> Self {
    Self {
      code,
      message: message.into(),
      cause: None,
      current: None,
      lost: None,
    }
  }

  /// Nothing was written: `what` is not what the caller had seen, but `current`.
  #[must_use]
  pub fn conflict(what: &str, current: Option<String>) -> Self {
    let now = current.as_ref().map_or("nothing is there".to_owned(), |current| {
      format!("it is {current:?} now")
    });
    Self {
      current: Some(Current(current)),
      ..Self::new(
        Code::Conflict,
        format!("{what} is not what it was: {now}. FileStamp at it and decide again"),
      )
    }
  }

  pub fn invalid_argument(message: impl Into<String>) -> Self {
    Self::new(Code::InvalidArgument, message)
  }

  #[must_use]
  pub fn no_store(location: &str) -> Self {
    Self::new(Code::NotFound, format!("There is no store at {location}"))
  }

  #[must_use]
  pub fn no_session(session: &SessionId) -> Self {
    Self::new(Code::NotFound, format!("Session not found: {session}"))
  }

  /// `doing` is a verb phrase without its object, such as `write` or `create directory`.
  #[must_use]
  pub fn io(doing: &str, path: &Path, cause: io::Error) -> Self {
    // What went wrong while the bytes were made is no failure of the system.
    cause
      .downcast::<Self>()
      .unwrap_or_else(|cause| Self::failed_io(Code::Io, doing, path, cause))
  }

  /// Nothing was done: another process or call keeps what is needed.
  #[must_use]
  pub fn busy(doing: &str, path: &Path, cause: io::Error) -> Self {
    Self::failed_io(Code::Busy, doing, path, cause)
  }

  #[must_use]
  pub fn outcome_unknown(doing: &str, path: &Path, cause: io::Error) -> Self {
    Self::failed_io(Code::OutcomeUnknown, doing, path, cause)
  }

  fn failed_io(code: Code, doing: &str, path: &Path, cause: io::Error) -> Self {
    let system = match system_code(&cause) {
      Some(name) => format!("{name}: {cause}"),
      None => cause.to_string(),
    };
    Self::new(code, format!("Could not {doing} {}: {system}", path.display())).because(cause)
  }

  /// Something under `name` is not what this store writes; `why` completes the sentence.
  pub fn corrupt(name: &str, why: impl fmt::Display) -> Self {
    Self::new(Code::Corrupt, format!("{name} is damaged: {why}"))
  }

  #[must_use]
  pub fn too_large(name: &str, size: u64, limit: u64) -> Self {
    let message = format!("{name} has {size} bytes or more; the limit is {limit}. If you trust it, raise maxReadBytes");
    Self::new(Code::TooLarge, message)
  }

  #[must_use]
  pub fn because(mut self, cause: impl StdError + Send + Sync + 'static) -> Self {
    self.cause = Some(Box::new(cause));
    self
  }
}

impl fmt::Display for Error {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.write_str(&self.message)
  }
}

impl StdError for Error {
  fn source(&self) -> Option<&(dyn StdError + 'static)> {
    match &self.cause {
      Some(cause) => Some(cause.as_ref()),
      None => None,
    }
  }
}

/// Enough of a text from outside to recognise it in a message.
#[must_use]
pub fn shortened(text: &str) -> String {
  const SHOWN: usize = 60;
  match text.char_indices().nth(SHOWN) {
    Some((end, _)) => format!("{}…", &text[..end]),
    None => text.to_owned(),
  }
}

/// A refusal of something that is no operating system, but gives its refusals names. It travels inside an [`io::Error`],
/// whose kind says what kind of refusal it is.
#[derive(Debug)]
pub struct Named {
  /// Such as `SQLITE_BUSY`, or the five characters of an SQLSTATE.
  pub name: Cow<'static, str>,
  pub message: String,
}

impl fmt::Display for Named {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.write_str(&self.message)
  }
}

impl StdError for Named {}

/// The name that Node.js gives to a system error, such as `ENOSPC`, or the one that it brings along.
#[must_use]
pub fn system_code(error: &io::Error) -> Option<&str> {
  use io::ErrorKind as Kind;
  if let Some(named) = error.get_ref().and_then(|inside| inside.downcast_ref::<Named>()) {
    return Some(&named.name);
  }
  // The kinds cover what differs between systems; the numbers below mean the same on every Unix.
  let name = match error.kind() {
    Kind::NotFound => "ENOENT",
    Kind::PermissionDenied => "EACCES",
    Kind::AlreadyExists => "EEXIST",
    Kind::StorageFull => "ENOSPC",
    Kind::QuotaExceeded => "EDQUOT",
    Kind::FileTooLarge => "EFBIG",
    Kind::ReadOnlyFilesystem => "EROFS",
    Kind::NotADirectory => "ENOTDIR",
    Kind::IsADirectory => "EISDIR",
    Kind::DirectoryNotEmpty => "ENOTEMPTY",
    Kind::InvalidFilename => "ENAMETOOLONG",
    Kind::OutOfMemory => "ENOMEM",
    Kind::ResourceBusy => "EBUSY",
    Kind::Interrupted => "EINTR",
    Kind::ConnectionRefused => "ECONNREFUSED",
    Kind::ConnectionReset => "ECONNRESET",
    Kind::ConnectionAborted => "ECONNABORTED",
    Kind::HostUnreachable => "EHOSTUNREACH",
    Kind::NetworkUnreachable => "ENETUNREACH",
    Kind::TimedOut => "ETIMEDOUT",
    Kind::BrokenPipe => "EPIPE",
    _ => match error.raw_os_error() {
      Some(5) if cfg!(unix) => "EIO",
      Some(23) if cfg!(unix) => "ENFILE",
      Some(24) if cfg!(unix) => "EMFILE",
      _ => return None,
    },
  };
  Some(name)
}
