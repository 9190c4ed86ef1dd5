//! What the server refuses, or does not answer, in the words of the store.

use std::borrow::Cow;
use std::error::Error as _;
use std::io::{self, ErrorKind as Kind};
use std::path::Path;
use std::time::Duration;

use tokio_postgres::error::{DbError as ServerError, SqlState};

use super::sqlstate::meaning;
use crate::backend::sql::row_too_large;
use crate::types::error::{Error, Named, system_code};

/// Why an attempt failed.
#[derive(Debug)]
pub enum Failure {
  Refused(DbError),
  /// Somebody else was quicker, and nothing was done: the next attempt sees what they did.
  Overtaken,
  /// The server had no part in it.
  Ours(Error),
}

/// What a refusal says about the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
  /// It would be refused as well.
  Final,
  /// It may be accepted.
  Passing,
  /// The answer did not come, so nobody knows whether there has to be one.
  Unanswered,
}

/// A refusal of the server, or of whatever lies on the way to it.
#[derive(Debug)]
pub struct DbError {
  pub outlook: Retry,
  kind: Kind,
  /// An SQLSTATE, a name that Node.js gives to a system error, or one of ours.
  name: Cow<'static, str>,
  message: String,
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

impl From<tokio_postgres::Error> for Failure {
  fn from(error: tokio_postgres::Error) -> Self {
    Self::Refused(DbError::of_statement(&error))
  }
}

impl DbError {
  fn new(outlook: Retry, kind: Kind, name: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
    Self {
      outlook,
      kind,
      name: name.into(),
      message: message.into(),
    }
  }

  /// A statement was sent.
  pub fn of_statement(error: &tokio_postgres::Error) -> Self {
    if let Some(refused) = error.as_db_error() {
      return Self::of_server(refused);
    }
    let io = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    if error.is_closed() || io.is_some_and(|io| io.kind() != Kind::InvalidInput) {
      let reason = io.map_or_else(|| "it was closed".to_owned(), ToString::to_string);
      let message = format!("the connection to the server was lost ({reason})");
      return Self::new(Retry::Unanswered, Kind::ConnectionReset, "CONNECTION_LOST", message);
    }
    // A value that does not have the type of its column: this store did not write it.
    let cause = error.source().map(|cause| format!(" ({cause})")).unwrap_or_default();
    Self::new(
      Retry::Final,
      Kind::InvalidData,
      "UNEXPECTED_ANSWER",
      format!("{error}{cause}"),
    )
  }

  /// The connection was still being made.
  pub fn of_connecting(error: &tokio_postgres::Error) -> Self {
    if let Some(refused) = error.as_db_error() {
      return Self::of_server(refused);
    }
    let cause = error.source();
    if let Some(io) = cause.and_then(|cause| cause.downcast_ref::<io::Error>()) {
      return Self::of_network(io);
    }
    let reason = cause.map_or_else(|| error.to_string(), ToString::to_string);
    if error.is_closed() {
      let message = "the server closed the connection while it was being made";
      return Self::new(Retry::Passing, Kind::ConnectionReset, "ECONNRESET", message);
    }
    if reason == "password missing" {
      let message = "the server wants a password, and there is none. PutOutcome one into the URL, or into PGPASSWORD";
      return Self::new(Retry::Final, Kind::PermissionDenied, "28P01", message);
    }
    if is_about_tls(error) {
      return Self::of_tls(&reason);
    }
    Self::new(Retry::Final, Kind::PermissionDenied, "UNEXPECTED_ANSWER", reason)
  }

  fn of_network(error: &io::Error) -> Self {
    if let Some(tls) = error
      .get_ref()
      .and_then(|inside| inside.downcast_ref::<rustls::Error>())
    {
      return match tls {
        rustls::Error::InvalidCertificate(reason) => Self::new(
          Retry::Final,
          Kind::PermissionDenied,
          "CERTIFICATE_NOT_TRUSTED",
          format!(
            "the certificate of the server is not trusted ({reason}). Give the certificate of who signed it as \
             sslrootcert, or, if anybody may answer for the server, sslmode=require"
          ),
        ),
        other => Self::of_tls(&other.to_string()),
      };
    }
    // The resolver's errors have no kind.
    let text = error.to_string();
    if text.contains("lookup address") || text.contains("resolve any address") {
      let message = format!("the name of the host cannot be resolved ({text})");
      return Self::new(Retry::Passing, Kind::HostUnreachable, "ENOTFOUND", message);
    }
    if error.kind() == Kind::PermissionDenied && text.starts_with("database ") {
      return Self::new(
        Retry::Passing,
        Kind::HostUnreachable,
        "25006",
        format!("none of the hosts will do: {text}"),
      );
    }
    let name = system_code(error).map_or(Cow::Borrowed("CONNECTION_LOST"), |name| Cow::Owned(name.to_owned()));
    let message = match error.kind() {
      Kind::ConnectionRefused => format!("nobody listens there ({text}). Is the server running, and is this its port?"),
      Kind::TimedOut => return Self::of_connecting_slowly(),
      _ => format!("the server cannot be reached ({text})"),
    };
    Self::new(Retry::Passing, error.kind(), name, message)
  }

  fn of_tls(reason: &str) -> Self {
    let message = if reason.contains("does not support TLS") {
      "the server has no TLS, and sslmode demands it. Switch ssl on in the server, or write sslmode=prefer".to_owned()
    } else {
      format!("no encrypted connection could be made ({reason})")
    };
    Self::new(Retry::Final, Kind::PermissionDenied, "TLS_FAILED", message)
  }

  fn of_server(refused: &ServerError) -> Self {
    let state = refused.code();
    let (outlook, kind, advice) = meaning(refused);
    let said = refused.message();
    let message = match advice {
      "" => said.to_owned(),
      advice => format!("{said}. {advice}"),
    };
    Self::new(outlook, kind, state.code().to_owned(), message)
  }

  pub fn of_certificates(reason: String) -> Self {
    Self::new(Retry::Final, Kind::PermissionDenied, "CERTIFICATES_UNREADABLE", reason)
  }

  pub fn of_system(error: &io::Error) -> Self {
    let name = system_code(error).unwrap_or("UNKNOWN").to_owned();
    Self::new(Retry::Final, error.kind(), name, error.to_string())
  }

  pub fn pool_exhausted(connections: usize, patience: Duration) -> Self {
    let message = format!(
      "all {connections} connections were in use for {} ms. Raise maxConnections, or timeoutMs",
      patience.as_millis()
    );
    Self::new(Retry::Final, Kind::TimedOut, "POOL_TIMEOUT", message)
  }

  pub fn too_slow(patience: Duration) -> Self {
    let message = format!(
      "the server did not answer within {} ms. Raise timeoutMs if it may take longer",
      patience.as_millis()
    );
    Self::new(Retry::Unanswered, Kind::TimedOut, "ETIMEDOUT", message)
  }

  pub fn of_connecting_slowly() -> Self {
    let message = "the server cannot be reached: it did not answer in time";
    Self::new(Retry::Passing, Kind::TimedOut, "ETIMEDOUT", message)
  }

  pub fn overtaken(patience: Duration) -> Self {
    let message = format!(
      "others changed it again and again for {} ms. Try again",
      patience.as_millis()
    );
    Self::new(Retry::Passing, Kind::ResourceBusy, "EBUSY", message)
  }

  /// An earlier attempt may have been made, and too much has happened since to tell.
  pub fn forgotten() -> Self {
    let message = "others changed it too often since to tell whether it was done";
    Self::new(Retry::Final, Kind::ResourceBusy, "EBUSY", message)
  }

  /// Whether the server may still be at it.
  pub fn is_timeout(&self) -> bool {
    self.outlook == Retry::Unanswered && self.kind == Kind::TimedOut
  }

  pub fn has_state(&self, state: &SqlState) -> bool {
    self.name == state.code()
  }

  /// Whether the connection that it came from is good for nothing else.
  pub fn spoils_connection(&self) -> bool {
    let is_of_connection = self.outlook == Retry::Unanswered || self.kind == Kind::InvalidData;
    // Elsewhere there may be a server that accepts it; and what was prepared may have to be prepared again.
    is_of_connection || ["25006", "26000", "0A000", "57P01", "57P02", "57P03", "57P05"].contains(&&*self.name)
  }

  /// `doing` is a verb phrase without its object.
  pub fn into_error(self, doing: &str, name: &str) -> Error {
    match &*self.name {
      "UNEXPECTED_ANSWER" | "XX001" | "XX002" => Error::corrupt(name, &self.message).because(self.into_io()),
      "54000" => row_too_large(name).because(self.into_io()),
      // Others held what was needed, or changed it, until the time was over. Nothing was done.
      "EBUSY" | "40001" | "40P01" | "55P03" => Error::busy(doing, Path::new(name), self.into_io()),
      _ => Error::io(doing, Path::new(name), self.into_io()),
    }
  }

  /// The answer to an attempt did not come, and no later one could find out what became of it.
  pub fn into_unknown(mut self, doing: &str, name: &str) -> Error {
    self.message.push_str(
      ". It may or may not have been done: nobody answered in time. FileStamp at what is there, or do it again",
    );
    Error::outcome_unknown(doing, Path::new(name), self.into_io())
  }

  fn into_io(self) -> io::Error {
    let Self {
      kind, name, message, ..
    } = self;
    io::Error::new(kind, Named { name, message })
  }
}

/// Whether a connection could not be encrypted.
pub fn is_about_tls(error: &tokio_postgres::Error) -> bool {
  // The kind of an error is private; this is how it is displayed.
  error.to_string().contains("TLS handshake")
}
