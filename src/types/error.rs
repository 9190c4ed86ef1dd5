//! The one error type: a stable code for programs, a sentence for people, and the cause.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::iter;
use std::path::Path;

use crate::types::id::SessionId;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure. Programs switch on [`Code::as_str`]; a code never changes its meaning.
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
  /// The requested session, checkpoint or document does not exist.
  NotFound,
  /// The name is taken.
  Exists,
  /// A precondition failed: the stored revision or newest checkpoint is not the one that the caller expected.
  Conflict,
  /// Another owner holds the lease of the session.
  LeaseHeld,
  /// The caller's lease is no longer in force, or the caller has none and another owner has.
  LeaseLost,
  /// Another process or call held a lock for longer than the timeout. Nothing was done.
  Busy,
  /// A plain checkpoint id that exists in more than one session.
  Ambiguous,
  /// The stored bytes are not in a format that this store writes.
  Corrupt,
  /// The stored checksum does not match the stored data.
  ChecksumMismatch,
  /// A later version of the store wrote it. Its members may have other meanings.
  NewerVersion,
  /// Reading it would take more memory than the limit allows.
  TooLarge,
  /// The system refused to read or write; the cause says why.
  Io,
  /// Whether the change is durable is not known: it was written, but a sync failed, or the connection broke before the server
  /// answered.
  OutcomeUnknown,
  /// The caller aborted the operation. Node.js uses the same code.
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
  /// Of a conflict: the stored state.
  pub current: Option<Current>,
  /// The lost lease that made the write fail.
  pub lost: Option<Box<LostLease>>,
}

/// A lease that a store still used and that is no longer in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostLease {
  pub session: SessionId,
  /// Its fencing token.
  pub number: u64,
}

/// What a failed precondition found: the revision of a document, or the id of the newest checkpoint; `None` if there is none.
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

  /// A precondition failed and nothing was written. `subject` begins the message; `current` is its stored state.
  #[must_use]
  pub fn conflict(subject: &str, current: Option<String>) -> Self {
    let state = current.as_ref().map_or("it does not exist".to_owned(), |current| {
      format!("it is {current:?} now")
    });
    Self {
      current: Some(Current(current)),
      ..Self::new(
        Code::Conflict,
        format!("{subject} has changed: {state}. Read it again before you retry"),
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

  /// The error of a failed system call. `action` is a verb phrase without its object, such as `write` or `create directory`.
  #[must_use]
  pub fn io(action: &str, path: &Path, cause: io::Error) -> Self {
    // An error of our own that passed through an `io::Write` is not a system error.
    cause
      .downcast::<Self>()
      .unwrap_or_else(|cause| Self::failed_io(Code::Io, action, path, cause))
  }

  /// Another process or call holds the lock. Nothing was done.
  #[must_use]
  pub fn busy(action: &str, path: &Path, cause: io::Error) -> Self {
    Self::failed_io(Code::Busy, action, path, cause)
  }

  /// It is unknown whether a change is durable.
  #[must_use]
  pub fn outcome_unknown(action: &str, path: &Path, cause: io::Error) -> Self {
    Self::failed_io(Code::OutcomeUnknown, action, path, cause)
  }

  fn failed_io(code: Code, action: &str, path: &Path, cause: io::Error) -> Self {
    let system = match system_code(&cause) {
      Some(name) => format!("{name}: {cause}"),
      None => cause.to_string(),
    };
    Self::new(code, format!("Could not {action} {}: {system}", path.display())).because(cause)
  }

  /// `name` is not in a format that this store writes; `why` completes the sentence.
  pub fn corrupt(name: &str, why: impl fmt::Display) -> Self {
    Self::new(Code::Corrupt, format!("{name} is damaged: {why}"))
  }

  #[must_use]
  pub fn too_large(name: &str, size: u64, limit: u64) -> Self {
    let message = format!("{name} has {size} bytes or more; the limit is {limit}. If you trust it, raise maxReadBytes");
    Self::new(Code::TooLarge, message)
  }

  /// Adds the cause.
  #[must_use]
  pub fn because(mut self, cause: impl StdError + Send + Sync + 'static) -> Self {
    self.cause = Some(Box::new(cause));
    self
  }

  /// Whether the error comes from this process or its connection, and not from the stored data: another process may be able to read
  /// them, or the same one later.
  #[must_use]
  pub fn is_environmental(&self) -> bool {
    use io::ErrorKind as Kind;
    // The error of a delta may have that of its base as its cause.
    let mut causes = iter::successors(self.source(), |&cause| cause.source());
    let cause = causes.find_map(|cause| cause.downcast_ref::<io::Error>());
    matches!(self.code, Code::Io | Code::Busy)
      && cause.is_some_and(|cause| {
        let kinds = [
          Kind::PermissionDenied,
          Kind::OutOfMemory,
          Kind::TimedOut,
          Kind::Interrupted,
          Kind::ResourceBusy,
          Kind::StaleNetworkFileHandle,
          Kind::ConnectionRefused,
          Kind::ConnectionReset,
          Kind::ConnectionAborted,
          Kind::NotConnected,
          Kind::HostUnreachable,
          Kind::NetworkUnreachable,
          Kind::BrokenPipe,
        ];
        kinds.contains(&cause.kind()) || matches!(system_code(cause), Some("EMFILE" | "ENFILE"))
      })
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

/// The beginning of a text from outside, for messages.
#[must_use]
pub fn shortened(text: &str) -> String {
  const SHOWN: usize = 60;
  match text.char_indices().nth(SHOWN) {
    Some((end, _)) => format!("{}…", &text[..end]),
    None => text.to_owned(),
  }
}

/// An error of a database, inside an [`io::Error`] whose kind classifies it.
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

/// The name that Node.js gives to a system error, such as `ENOSPC`, or the name of a database error.
#[must_use]
pub fn system_code(error: &io::Error) -> Option<&str> {
  use io::ErrorKind as Kind;
  if let Some(named) = error.get_ref().and_then(|inside| inside.downcast_ref::<Named>()) {
    return Some(&named.name);
  }
  // Kinds cover the errors whose numbers differ between systems; the numbers below are the same on every Unix.
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

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn is_environmental_looks_at_the_system_error_of_a_checkpoint_or_of_its_base() {
    let system_error = |kind: io::ErrorKind| Error::io("read", Path::new("x.key.zst"), kind.into());
    let delta_error = |base: Error| Error::new(base.code, "it cannot be read without its base").because(base);
    for kind in [
      io::ErrorKind::PermissionDenied,
      io::ErrorKind::TimedOut,
      io::ErrorKind::ConnectionReset,
    ] {
      assert!(system_error(kind).is_environmental());
      assert!(delta_error(system_error(kind)).is_environmental());
    }
    assert!(!delta_error(system_error(io::ErrorKind::InvalidData)).is_environmental());
    assert!(!delta_error(Error::corrupt("x.key.zst", "it is missing")).is_environmental());
  }
}
