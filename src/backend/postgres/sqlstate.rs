//! The classification of errors by their SQLSTATE.

use std::io::ErrorKind as Kind;

use tokio_postgres::error::DbError;

use super::error::Retry;

/// What an error means for the next attempt, and advice to the user, which may be empty.
pub fn classify(error: &DbError) -> (Retry, Kind, &'static str) {
  use Retry::{Later, Never, Unanswered};
  match error.code().code() {
    "28P01" | "28000" => (
      Never,
      Kind::PermissionDenied,
      "Check the user and the password in the URL, or PGPASSWORD, and what the server's pg_hba.conf allows",
    ),
    "3D000" => (
      Never,
      Kind::NotConnected,
      "Create the database first, with CREATE DATABASE",
    ),
    "42501" => (
      Never,
      Kind::PermissionDenied,
      "To create its tables, the store needs GRANT CREATE ON DATABASE, or an existing schema and GRANT USAGE, CREATE \
       ON SCHEMA; to use them, GRANT USAGE ON SCHEMA and GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA",
    ),
    "42P01" | "3F000" => (
      Never,
      Kind::NotConnected,
      "The tables of the store do not exist any more. initialize() creates them",
    ),
    "25006" => (
      Never,
      Kind::PermissionDenied,
      "The server is read-only, as a standby is. Give the URL of the primary, or all hosts and \
       target_session_attrs=read-write",
    ),
    "53100" => (Never, Kind::StorageFull, "The disk of the server is full"),
    "53200" => (Never, Kind::OutOfMemory, "The server is out of memory"),
    "53300" => (
      Later,
      Kind::ResourceBusy,
      "The server has no connection left. Lower maxConnections, or raise the server's max_connections",
    ),
    // Serialization failures, deadlocks, locks, and prepared statements that became invalid. Nothing was stored.
    "40001" | "40P01" | "55P03" | "26000" => (Later, Kind::ResourceBusy, ""),
    "0A000" if error.routine() == Some("RevalidateCachedQuery") => (Later, Kind::ResourceBusy, ""),
    "57P03" => (Later, Kind::ResourceBusy, "The server is starting up or shutting down"),
    "57014" => (
      Never,
      Kind::Interrupted,
      "An administrator, or the server's statement_timeout, cancelled the statement",
    ),
    // The server shuts down. A commit that was in progress may be durable.
    "57P01" | "57P02" | "57P05" => (Unanswered, Kind::ConnectionReset, ""),
    code if code.starts_with("08") => (Unanswered, Kind::ConnectionReset, ""),
    _ => (Never, Kind::Other, ""),
  }
}
