//! What SQLite refuses, in the words of the store.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::types::error::{Code, Error, Named};

/// Why an operation on the database failed.
#[derive(Debug)]
pub enum Failure {
  Refused(DbError),
  /// The database had no part in it.
  Ours(Error),
}

/// A refusal of SQLite. A failed commit hands the same to everybody who was in it.
#[derive(Debug, Clone)]
pub struct DbError {
  pub code: ErrorCode,
  message: String,
}

const LOCKED: &str = "the database is locked: another process has kept it locked for longer than timeoutMs. If that \
  process is stopped, resume it or end it; otherwise try again";

impl Failure {
  /// `doing` is a verb phrase without its object.
  pub fn into_error(self, doing: &str, name: &str) -> Error {
    match self {
      Self::Refused(refusal) => refusal.to_error(doing, name),
      Self::Ours(error) => error,
    }
  }

  pub fn is_busy(&self) -> bool {
    matches!(self, Self::Refused(refusal) if refusal.is_busy())
  }
}

impl From<Error> for Failure {
  fn from(error: Error) -> Self {
    Self::Ours(error)
  }
}

impl From<DbError> for Failure {
  fn from(refusal: DbError) -> Self {
    Self::Refused(refusal)
  }
}

impl From<rusqlite::Error> for Failure {
  fn from(error: rusqlite::Error) -> Self {
    Self::Refused(error.into())
  }
}

impl From<rusqlite::Error> for DbError {
  fn from(error: rusqlite::Error) -> Self {
    // What is left are values that do not have the type of their column: this store did not write them.
    let code = match &error {
      rusqlite::Error::SqlInputError { error, .. } => error.code,
      other => other.sqlite_error_code().unwrap_or(ErrorCode::TypeMismatch),
    };
    let message = match (code, error.sqlite_extended_error_code()) {
      (ErrorCode::DatabaseBusy, _) => LOCKED.to_owned(),
      // The kinds of this one have no words of their own.
      (ErrorCode::SystemIoFailure, Some(number)) => format!("{error} (extended code {number})"),
      _ => error.to_string(),
    };
    Self { code, message }
  }
}

impl DbError {
  pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
    Self {
      code,
      message: message.into(),
    }
  }

  /// Whether somebody else holds the lock that is needed.
  pub fn is_busy(&self) -> bool {
    self.code == ErrorCode::DatabaseBusy
  }

  pub fn to_error(&self, doing: &str, name: &str) -> Error {
    match self.code {
      ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch => {
        Error::corrupt(name, &self.message).because(self.to_io())
      }
      ErrorCode::TooBig => {
        let message =
          format!("{name} has more bytes than a database can hold in one row. A directory has no such limit");
        Error::new(Code::TooLarge, message).because(self.to_io())
      }
      ErrorCode::DatabaseBusy | ErrorCode::FileLockingProtocolFailed => {
        Error::busy(doing, Path::new(name), self.to_io())
      }
      _ => Error::io(doing, Path::new(name), self.to_io()),
    }
  }

  /// A commit failed. If that was for want of a sync, the log holds all of it: whether a crash would bring it back is not
  /// known. Everything else was rolled back.
  pub fn to_commit_error(&self, doing: &str, name: &str) -> Error {
    match self.code {
      ErrorCode::SystemIoFailure => Error::outcome_unknown(doing, Path::new(name), self.to_io()),
      _ => self.to_error(doing, name),
    }
  }

  fn to_io(&self) -> io::Error {
    let (kind, name) = kind_and_name(self.code);
    let message = self.message.clone();
    let name = name.into();
    io::Error::new(kind, Named { name, message })
  }
}

fn kind_and_name(code: ErrorCode) -> (io::ErrorKind, &'static str) {
  use io::ErrorKind as Kind;
  match code {
    ErrorCode::DatabaseBusy => (Kind::ResourceBusy, "SQLITE_BUSY"),
    ErrorCode::DatabaseLocked => (Kind::ResourceBusy, "SQLITE_LOCKED"),
    ErrorCode::FileLockingProtocolFailed => (Kind::ResourceBusy, "SQLITE_PROTOCOL"),
    ErrorCode::DiskFull => (Kind::StorageFull, "SQLITE_FULL"),
    ErrorCode::ReadOnly => (Kind::PermissionDenied, "SQLITE_READONLY"),
    ErrorCode::CannotOpen => (Kind::PermissionDenied, "SQLITE_CANTOPEN"),
    ErrorCode::PermissionDenied => (Kind::PermissionDenied, "SQLITE_PERM"),
    ErrorCode::AuthorizationForStatementDenied => (Kind::PermissionDenied, "SQLITE_AUTH"),
    ErrorCode::OutOfMemory => (Kind::OutOfMemory, "SQLITE_NOMEM"),
    ErrorCode::OperationInterrupted => (Kind::Interrupted, "SQLITE_INTERRUPT"),
    ErrorCode::SystemIoFailure => (Kind::Other, "SQLITE_IOERR"),
    ErrorCode::DatabaseCorrupt => (Kind::InvalidData, "SQLITE_CORRUPT"),
    ErrorCode::NotADatabase => (Kind::InvalidData, "SQLITE_NOTADB"),
    ErrorCode::TypeMismatch => (Kind::InvalidData, "SQLITE_MISMATCH"),
    ErrorCode::TooBig => (Kind::FileTooLarge, "SQLITE_TOOBIG"),
    ErrorCode::SchemaChanged => (Kind::Other, "SQLITE_SCHEMA"),
    ErrorCode::ConstraintViolation => (Kind::Other, "SQLITE_CONSTRAINT"),
    ErrorCode::ApiMisuse => (Kind::Other, "SQLITE_MISUSE"),
    ErrorCode::InternalMalfunction => (Kind::Other, "SQLITE_INTERNAL"),
    _ => (Kind::Other, "SQLITE_ERROR"),
  }
}
