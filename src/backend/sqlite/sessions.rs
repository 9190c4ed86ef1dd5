//! Sessions as rows.

use rusqlite::{Connection, Result, params};

use super::lists;
use crate::backend::Usage;
use crate::types::id::SessionId;

/// Creates a session if it is missing. Returns whether it was missing.
pub fn add(connection: &Connection, session: &str) -> Result<bool> {
  let sql = "INSERT INTO sessions (id) VALUES (?1) ON CONFLICT DO NOTHING";
  Ok(connection.prepare_cached(sql)?.execute([session])? > 0)
}

/// All sessions, or those that hold a document of that name, ordered by id.
pub fn list(connection: &Connection, document: Option<&str>) -> Result<Vec<SessionId>> {
  let sql = r"
    SELECT id FROM sessions
    WHERE ?1 IS NULL OR EXISTS (SELECT 1 FROM documents WHERE session = sessions.id AND name = ?1 AND number = 0)
    ORDER BY id";
  ids(connection, sql, params![document], SessionId::parse)
}

/// Whether a session holds nothing, or does not exist.
pub fn is_empty(connection: &Connection, session: &str) -> Result<bool> {
  let sql = r"
    SELECT EXISTS (SELECT 1 FROM checkpoints WHERE session = ?1)
      OR EXISTS (SELECT 1 FROM documents WHERE session = ?1)
      OR EXISTS (SELECT 1 FROM keys WHERE session = ?1)
      OR EXISTS (SELECT 1 FROM damaged WHERE session = ?1)";
  let has_items: bool = connection.prepare_cached(sql)?.query_row([session], |row| row.get(0))?;
  Ok(!has_items)
}

/// Deletes a session with everything in it. Returns whether there was anything to delete.
pub fn delete(connection: &Connection, session: &str) -> Result<bool> {
  let mut deleted = 0;
  for sql in [
    "DELETE FROM checkpoints WHERE session = ?1",
    "DELETE FROM keys WHERE session = ?1",
    "DELETE FROM documents WHERE session = ?1",
    "DELETE FROM damaged WHERE session = ?1",
    "DELETE FROM unpinned WHERE session = ?1",
    "DELETE FROM sessions WHERE id = ?1",
  ] {
    deleted += connection.prepare_cached(sql)?.execute([session])?;
  }
  Ok(deleted > 0)
}

/// What a session takes up. `0` is the character after `/`, so the last column counts all names that begin with `results/`.
pub const USAGE: &str = r"
  SELECT
    (SELECT coalesce(sum(size), 0) FROM checkpoints WHERE session = ?1)
      + (SELECT coalesce(sum(size), 0) FROM documents WHERE session = ?1)
      + (SELECT coalesce(sum(size), 0) FROM keys WHERE session = ?1)
      + (SELECT coalesce(sum(size), 0) FROM damaged WHERE session = ?1),
    (SELECT count(*) FROM checkpoints WHERE session = ?1 AND agent = ''),
    (SELECT coalesce(sum(pinned), 0) FROM checkpoints WHERE session = ?1 AND agent = ''),
    (SELECT count(*) FROM checkpoints WHERE session = ?1 AND agent > ''),
    (SELECT count(*) FROM documents WHERE session = ?1 AND name > 'results/' AND name < 'results0')";

pub fn usage(connection: &Connection, session: &SessionId) -> Result<Usage> {
  let newest = lists::newest(connection, &session.into())?;
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

/// The ids in the first column. Skips texts that are not valid ids.
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
