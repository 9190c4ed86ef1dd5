//! Sessions as rows: that they are there, what they take up, and how they go.

use rusqlite::{Connection, Result, params};

use super::checkpoints;
use crate::backend::Usage;
use crate::types::id::SessionId;

pub fn add(connection: &Connection, session: &str) -> Result<bool> {
  let sql = "INSERT INTO sessions (id) VALUES (?1) ON CONFLICT DO NOTHING";
  Ok(connection.prepare_cached(sql)?.execute([session])? > 0)
}

/// All of them, or those that hold a document of that name.
pub fn list(connection: &Connection, document: Option<&str>) -> Result<Vec<SessionId>> {
  let sql = "SELECT id FROM sessions
    WHERE ?1 IS NULL OR EXISTS (SELECT 1 FROM documents WHERE session = sessions.id AND name = ?1 AND number = 0)
    ORDER BY id";
  ids(connection, sql, params![document], SessionId::parse)
}

/// Whether a session holds nothing, or does not exist.
pub fn is_empty(connection: &Connection, session: &str) -> Result<bool> {
  let sql = "SELECT EXISTS (SELECT 1 FROM checkpoints WHERE session = ?1)
    OR EXISTS (SELECT 1 FROM documents WHERE session = ?1)
    OR EXISTS (SELECT 1 FROM keys WHERE session = ?1)
    OR EXISTS (SELECT 1 FROM damaged WHERE session = ?1)";
  let holds_something: bool = connection.prepare_cached(sql)?.query_row([session], |row| row.get(0))?;
  Ok(!holds_something)
}

/// Removes everything of a session.
pub fn remove(connection: &Connection, session: &str) -> Result<bool> {
  let mut removed = 0;
  for sql in [
    "DELETE FROM checkpoints WHERE session = ?1",
    "DELETE FROM keys WHERE session = ?1",
    "DELETE FROM documents WHERE session = ?1",
    "DELETE FROM damaged WHERE session = ?1",
    "DELETE FROM unpinned WHERE session = ?1",
    "DELETE FROM sessions WHERE id = ?1",
  ] {
    removed += connection.prepare_cached(sql)?.execute([session])?;
  }
  Ok(removed > 0)
}

/// A slash is followed by a zero in the order of characters.
pub const USAGE: &str = "SELECT
  (SELECT coalesce(sum(size), 0) FROM checkpoints WHERE session = ?1)
    + (SELECT coalesce(sum(size), 0) FROM documents WHERE session = ?1)
    + (SELECT coalesce(sum(size), 0) FROM keys WHERE session = ?1)
    + (SELECT coalesce(sum(size), 0) FROM damaged WHERE session = ?1),
  (SELECT count(*) FROM checkpoints WHERE session = ?1 AND agent = ''),
  (SELECT coalesce(sum(pinned), 0) FROM checkpoints WHERE session = ?1 AND agent = ''),
  (SELECT count(*) FROM checkpoints WHERE session = ?1 AND agent > ''),
  (SELECT count(*) FROM documents WHERE session = ?1 AND name > 'results/' AND name < 'results0')";

pub fn usage(connection: &Connection, session: &SessionId) -> Result<Usage> {
  let newest = checkpoints::newest(connection, &session.into())?;
  connection.prepare_cached(USAGE)?.query_row([session.as_str()], |row| {
    Ok(Usage {
      total_bytes: row.get(0)?,
      checkpoints: row.get(1)?,
      pinned: row.get(2)?,
      agent_checkpoints: row.get(3)?,
      results: row.get(4)?,
      newest,
    })
  })
}

/// The ids in the first column. What is no id was put there by somebody else.
pub fn ids<T>(
  connection: &Connection,
  sql: &str,
  params: impl rusqlite::Params,
  parse: impl Fn(&str) -> crate::types::error::Result<T>,
) -> Result<Vec<T>> {
  let mut statement = connection.prepare_cached(sql)?;
  let mut rows = statement.query(params)?;
  let mut ids = Vec::new();
  while let Some(row) = rows.next()? {
    if let Ok(id) = parse(row.get_ref(0)?.as_str()?) {
      ids.push(id);
    }
  }
  Ok(ids)
}
