//! Errors of SQLite, and the errors of the store that report them.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::backend::sql::row_too_large;
use crate::types::error::{Error, Named};

/// Why an operation on the database failed.
#[derive(Debug)]
pub enum SqliteError {
  /// SQLite refused it.
  Database(DbError),
  /// Another part of the store refused it: a lease, a callback, a limit.
  Store(Error),
}

/// An error of SQLite. If a commit fails, each caller with an operation in that transaction gets the same one.
#[derive(Debug, Clone)]
pub struct DbError {
  pub code: ErrorCode,
  message: String,
}

const LOCKED: &str = "the database is locked: another process has kept it locked for longer than timeoutMs. If that \
  process is stopped, resume it or end it; otherwise try again";

impl SqliteError {
  /// `doing` is a verb phrase without its object, which is `name`.
  pub fn into_error(self, doing: &str, name: &str) -> Error {
    match self {
      Self::Database(error) => error.to_error(doing, name),
      Self::Store(error) => error,
    }
  }

  pub fn is_busy(&self) -> bool {
    matches!(self, Self::Database(error) if error.is_busy())
  }
}

impl From<Error> for SqliteError {
  fn from(error: Error) -> Self {
    Self::Store(error)
  }
}

impl From<DbError> for SqliteError {
  fn from(error: DbError) -> Self {
    Self::Database(error)
  }
}

impl From<rusqlite::Error> for SqliteError {
  fn from(error: rusqlite::Error) -> Self {
    Self::Database(error.into())
  }
}

impl From<rusqlite::Error> for DbError {
  fn from(error: rusqlite::Error) -> Self {
    let code = match &error {
      rusqlite::Error::SqlInputError { error, .. } => error.code,
      // Errors without a code are values of another type than their column has, which no store writes.
      other => other.sqlite_error_code().unwrap_or(ErrorCode::TypeMismatch),
    };
    let message = match (code, error.sqlite_extended_error_code()) {
      (ErrorCode::DatabaseBusy, _) => LOCKED.to_owned(),
      // The text does not say which system call failed; the extended code does.
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

  /// Whether another connection holds the lock.
  pub fn is_busy(&self) -> bool {
    self.code == ErrorCode::DatabaseBusy
  }

  /// `doing` is a verb phrase without its object, which is `name`.
  pub fn to_error(&self, doing: &str, name: &str) -> Error {
    match self.code {
      ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch => {
        Error::corrupt(name, &self.message).because(self.to_io())
      }
      ErrorCode::TooBig => row_too_large(name).because(self.to_io()),
      ErrorCode::DatabaseBusy | ErrorCode::FileLockingProtocolFailed => {
        Error::busy(doing, Path::new(name), self.to_io())
      }
      _ => Error::io(doing, Path::new(name), self.to_io()),
    }
  }

  /// The error of a failed commit. After a failed sync the log holds the whole transaction, and it is unknown whether it survives a
  /// crash. After every other error the transaction was rolled back.
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
