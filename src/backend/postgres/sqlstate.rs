//! What the server means by an SQLSTATE.

use std::io::ErrorKind as Kind;

use tokio_postgres::error::DbError;

use super::failure::Retry;

/// What it says about the next attempt, and what somebody can do about it.
pub fn meaning(refused: &DbError) -> (Retry, Kind, &'static str) {
  use Retry::{Final, Passing, Unanswered};
  match refused.code().code() {
    "28P01" | "28000" => (
      Final,
      Kind::PermissionDenied,
      "Check the user and the password in the URL, or PGPASSWORD, and what the server's pg_hba.conf allows",
    ),
    "3D000" => (
      Final,
      Kind::NotConnected,
      "Make the database first, with CREATE DATABASE",
    ),
    "42501" => (
      Final,
      Kind::PermissionDenied,
      "To make its tables, the store needs GRANT CREATE ON DATABASE, or a schema that is there and GRANT USAGE, CREATE \
       ON SCHEMA; to use them, GRANT USAGE ON SCHEMA and GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA",
    ),
    "42P01" | "3F000" => (
      Final,
      Kind::NotConnected,
      "The tables of the store are not there any more. initialize() makes them",
    ),
    "25006" => (
      Final,
      Kind::PermissionDenied,
      "The server only reads, as a standby does. Give the URL of the primary, or all hosts and \
       target_session_attrs=read-write",
    ),
    "53100" => (Final, Kind::StorageFull, "The disk of the server is full"),
    "53200" => (Final, Kind::OutOfMemory, "The server is out of memory"),
    "53300" => (
      Passing,
      Kind::ResourceBusy,
      "The server has no connection left. Lower maxConnections, or raise the server's max_connections",
    ),
    // Conflicts, deadlocks and locks: nothing was done. And what was prepared was thrown away meanwhile.
    "40001" | "40P01" | "55P03" | "26000" => (Passing, Kind::ResourceBusy, ""),
    "0A000" if refused.routine() == Some("RevalidateCachedQuery") => (Passing, Kind::ResourceBusy, ""),
    "57P03" => (
      Passing,
      Kind::ResourceBusy,
      "The server is starting up or shutting down",
    ),
    "57014" => (
      Final,
      Kind::Interrupted,
      "Somebody, or the server's statement_timeout, ended it",
    ),
    // The server ends. What it was about to commit may be committed.
    "57P01" | "57P02" | "57P05" => (Unanswered, Kind::ConnectionReset, ""),
    code if code.starts_with("08") => (Unanswered, Kind::ConnectionReset, ""),
    _ => (Final, Kind::Other, ""),
  }
}
