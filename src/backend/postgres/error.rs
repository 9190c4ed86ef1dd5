//! Errors of the server and of the connection to it, and what they mean for the next attempt.

use std::borrow::Cow;
use std::error::Error as _;
use std::io::{self, ErrorKind as Kind};
use std::path::Path;
use std::time::Duration;

use tokio_postgres::error::{DbError as ServerError, SqlState};

use super::sqlstate::classify;
use crate::backend::sql::row_too_large;
use crate::types::error::{Error, Named, system_code};

/// Why an attempt failed.
#[derive(Debug)]
pub enum PgError {
  Db(DbError),
  /// A concurrent change came first, and nothing was stored. The next attempt sees that change.
  RetryNow,
  /// An error that the server has no part in.
  Store(Error),
}

/// What an error says about the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
  /// It would fail as well.
  Never,
  /// Nothing was stored, and it may succeed.
  Later,
  /// It may succeed. Whether anything was stored is unknown, because the answer did not arrive.
  Unanswered,
}

/// An error of the server, or of the connection to it.
#[derive(Debug)]
pub struct DbError {
  pub retry: Retry,
  kind: Kind,
  /// An SQLSTATE, the name that Node.js gives to a system error, or a name of this backend.
  code: Cow<'static, str>,
  message: String,
}

impl From<Error> for PgError {
  fn from(error: Error) -> Self {
    Self::Store(error)
  }
}

impl From<DbError> for PgError {
  fn from(error: DbError) -> Self {
    Self::Db(error)
  }
}

impl From<tokio_postgres::Error> for PgError {
  fn from(error: tokio_postgres::Error) -> Self {
    Self::Db(DbError::from_statement(&error))
  }
}

impl DbError {
  fn new(retry: Retry, kind: Kind, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
    Self {
      retry,
      kind,
      code: code.into(),
      message: message.into(),
    }
  }

  /// An error after a statement was sent.
  pub fn from_statement(error: &tokio_postgres::Error) -> Self {
    if let Some(error) = error.as_db_error() {
      return Self::from_server(error);
    }
    let io = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    if error.is_closed() || io.is_some_and(|io| io.kind() != Kind::InvalidInput) {
      let reason = io.map_or_else(|| "it was closed".to_owned(), ToString::to_string);
      let message = format!("the connection to the server was lost ({reason})");
      return Self::new(Retry::Unanswered, Kind::ConnectionReset, "CONNECTION_LOST", message);
    }
    // A value does not have the type of its column: another program wrote it.
    let cause = error.source().map(|cause| format!(" ({cause})")).unwrap_or_default();
    let message = format!("{error}{cause}");
    Self::new(Retry::Never, Kind::InvalidData, "UNEXPECTED_ANSWER", message)
  }

  /// An error while a connection was being opened.
  pub fn from_connecting(error: &tokio_postgres::Error) -> Self {
    if let Some(error) = error.as_db_error() {
      return Self::from_server(error);
    }
    let cause = error.source();
    if let Some(io) = cause.and_then(|cause| cause.downcast_ref::<io::Error>()) {
      return Self::from_network(io);
    }
    let reason = cause.map_or_else(|| error.to_string(), ToString::to_string);
    if error.is_closed() {
      let message = "the server closed the connection while it was being opened";
      return Self::new(Retry::Later, Kind::ConnectionReset, "ECONNRESET", message);
    }
    if reason == "password missing" {
      let message = "the server requires a password. Add it to the URL, or set PGPASSWORD";
      return Self::new(Retry::Never, Kind::PermissionDenied, "28P01", message);
    }
    if is_tls_error(error) {
      return Self::from_tls(&reason);
    }
    Self::new(Retry::Never, Kind::PermissionDenied, "UNEXPECTED_ANSWER", reason)
  }

  fn from_network(error: &io::Error) -> Self {
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
      let rustls::Error::InvalidCertificate(reason) = tls else {
        return Self::from_tls(&tls.to_string());
      };
      let message = format!(
        "the certificate of the server is not trusted ({reason}). Give the certificate of the authority that signed it as \
         sslrootcert. To accept any certificate, use sslmode=require"
      );
      return Self::new(Retry::Never, Kind::PermissionDenied, "CERTIFICATE_NOT_TRUSTED", message);
    }
    // The resolver's errors have no kind.
    let text = error.to_string();
    if text.contains("lookup address") || text.contains("resolve any address") {
      let message = format!("the host name cannot be resolved ({text})");
      return Self::new(Retry::Later, Kind::HostUnreachable, "ENOTFOUND", message);
    }
    if error.kind() == Kind::PermissionDenied && text.starts_with("database ") {
      let message = format!("no host has the state that target_session_attrs requires: {text}");
      return Self::new(Retry::Later, Kind::HostUnreachable, "25006", message);
    }
    let code = system_code(error).map_or(Cow::Borrowed("CONNECTION_LOST"), |code| Cow::Owned(code.to_owned()));
    let message = match error.kind() {
      Kind::ConnectionRefused => {
        format!("no server listens at this address ({text}). Check that it is running, and check the port in the URL")
      }
      Kind::TimedOut => return Self::connect_timeout(),
      _ => format!("the server cannot be reached ({text})"),
    };
    Self::new(Retry::Later, error.kind(), code, message)
  }

  fn from_tls(reason: &str) -> Self {
    let message = if reason.contains("does not support TLS") {
      "the server has no TLS, and sslmode requires it. Enable ssl on the server, or use sslmode=prefer".to_owned()
    } else {
      format!("the TLS handshake failed ({reason})")
    };
    Self::new(Retry::Never, Kind::PermissionDenied, "TLS_FAILED", message)
  }

  fn from_server(error: &ServerError) -> Self {
    let (retry, kind, advice) = classify(error);
    let message = match advice {
      "" => error.message().to_owned(),
      advice => format!("{}. {advice}", error.message()),
    };
    Self::new(retry, kind, error.code().code().to_owned(), message)
  }

  pub fn from_certificates(reason: String) -> Self {
    Self::new(Retry::Never, Kind::PermissionDenied, "CERTIFICATES_UNREADABLE", reason)
  }

  pub fn from_system(error: &io::Error) -> Self {
    let code = system_code(error).unwrap_or("UNKNOWN").to_owned();
    Self::new(Retry::Never, error.kind(), code, error.to_string())
  }

  pub fn pool_exhausted(connections: usize, timeout: Duration) -> Self {
    let message = format!(
      "all {connections} connections were in use for {} ms. Raise maxConnections, or timeoutMs",
      timeout.as_millis()
    );
    Self::new(Retry::Never, Kind::TimedOut, "POOL_TIMEOUT", message)
  }

  pub fn answer_timeout(timeout: Duration) -> Self {
    let message = format!(
      "the server did not answer within {} ms. Raise timeoutMs if it may take longer",
      timeout.as_millis()
    );
    Self::new(Retry::Unanswered, Kind::TimedOut, "ETIMEDOUT", message)
  }

  pub fn connect_timeout() -> Self {
    let message = "the server cannot be reached: it did not answer in time";
    Self::new(Retry::Later, Kind::TimedOut, "ETIMEDOUT", message)
  }

  /// Every attempt until the deadline ended with [`PgError::RetryNow`].
  pub fn contention(timeout: Duration) -> Self {
    let message = format!(
      "concurrent changes prevented this one for {} ms. Try again",
      timeout.as_millis()
    );
    Self::new(Retry::Later, Kind::ResourceBusy, "EBUSY", message)
  }

  /// An earlier attempt may have succeeded, and too many changes came after it to tell.
  pub fn untraceable_attempt() -> Self {
    let message = "too many concurrent changes were made since to tell whether this one was";
    Self::new(Retry::Never, Kind::ResourceBusy, "EBUSY", message)
  }

  /// Whether the server may still be executing the statement.
  pub fn is_answer_timeout(&self) -> bool {
    self.retry == Retry::Unanswered && self.kind == Kind::TimedOut
  }

  pub fn has_sqlstate(&self, state: &SqlState) -> bool {
    self.code == state.code()
  }

  /// Whether the connection must not be used again.
  pub fn spoils_connection(&self) -> bool {
    let is_connection_error = self.retry == Retry::Unanswered || self.kind == Kind::InvalidData;
    // A new connection may reach a server that accepts writes, and has no prepared statements that are invalid by now.
    is_connection_error || ["25006", "26000", "0A000", "57P01", "57P02", "57P03", "57P05"].contains(&&*self.code)
  }

  /// `doing` is a verb phrase without its object.
  pub fn into_error(self, doing: &str, name: &str) -> Error {
    match &*self.code {
      "UNEXPECTED_ANSWER" | "XX001" | "XX002" => Error::corrupt(name, &self.message).because(self.into_io()),
      "54000" => row_too_large(name).because(self.into_io()),
      // Other writers held a lock or changed the data until the deadline. Nothing was stored.
      "EBUSY" | "40001" | "40P01" | "55P03" => Error::busy(doing, Path::new(name), self.into_io()),
      _ => Error::io(doing, Path::new(name), self.into_io()),
    }
  }

  /// The answer to an attempt did not arrive, and no later attempt could find out its outcome.
  pub fn into_outcome_unknown(mut self, doing: &str, name: &str) -> Error {
    self.message.push_str(
      ". It may or may not have been done, because the answer did not arrive in time. Read the stored data, or repeat the call",
    );
    Error::outcome_unknown(doing, Path::new(name), self.into_io())
  }

  fn into_io(self) -> io::Error {
    let Self {
      kind, code, message, ..
    } = self;
    io::Error::new(kind, Named { name: code, message })
  }
}

/// Whether the TLS handshake failed.
pub fn is_tls_error(error: &tokio_postgres::Error) -> bool {
  // The kind of an error is private; this is how it is displayed.
  error.to_string().contains("TLS handshake")
}
