//! Documents and task results as rows, with the names that they have below their session.

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::sessions::{self, ids};
use super::stored_bytes::StoredBytes;
use crate::backend::item::RESULTS;
use crate::backend::sql::{FIRST_NUMBER, document_name, task_of_result, to_signed};
use crate::backend::{Document, Item};
use crate::types::id::{SessionId, TaskId};

/// The number of the current version. Earlier versions have greater numbers, the latest of them the greatest, so that no number
/// changes when another version is added.
const CURRENT: i64 = 0;

/// Keeps the current version as the latest of the earlier ones.
const KEEP_CURRENT: &str = r"
  INSERT INTO documents (session, name, number, size, bytes)
  SELECT session, name, (SELECT max(number) FROM documents WHERE session = ?1 AND name = ?2) + 1, size, bytes
  FROM documents WHERE session = ?1 AND name = ?2 AND number = 0";

/// Deletes all but the `?3` latest of the earlier versions.
const DELETE_EARLIER: &str = r"
  DELETE FROM documents
  WHERE session = ?1 AND name = ?2 AND number > 0
    AND number <= (SELECT max(number) FROM documents WHERE session = ?1 AND name = ?2) - ?3";

/// The primary key of a document. Owned, because an operation may run on another thread.
#[derive(Debug, Clone)]
pub struct DocumentKey {
  session: String,
  /// The name of the current version.
  name: String,
  /// How many versions ago; 0 is the current one.
  back: u32,
}

impl DocumentKey {
  /// The key of an item that is neither a checkpoint nor a base.
  pub fn new(session: &SessionId, item: Item<'_>) -> Self {
    let (name, back) = document_name(item);
    Self {
      session: session.to_string(),
      name,
      back,
    }
  }

  /// The number of this version; `None` if it does not exist.
  fn number(&self, connection: &Connection) -> Result<Option<i64>> {
    let Some(skipped) = self.back.checked_sub(1) else {
      return Ok(Some(CURRENT));
    };
    let sql = r"
      SELECT number FROM documents WHERE session = ?1 AND name = ?2 AND number > 0
      ORDER BY number DESC LIMIT 1 OFFSET ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let number = statement.query_row(params![self.session, self.name, skipped], |row| row.get(0));
    number.optional()
  }
}

/// Stores a version of a document in place of the same one. Returns `false` for an earlier version that does not exist.
pub fn put(connection: &Connection, key: &DocumentKey, bytes: &[u8]) -> Result<bool> {
  let Some(number) = key.number(connection)? else {
    return Ok(false);
  };
  sessions::add(connection, &key.session)?;
  let sql = r"
    INSERT INTO documents (session, name, number, size, bytes) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT DO UPDATE SET size = excluded.size, bytes = excluded.bytes";
  let (session, name, size) = (&key.session, &key.name, bytes.len());
  let mut statement = connection.prepare_cached(sql)?;
  statement.execute(params![session, name, number, size, bytes])?;
  Ok(true)
}

/// Stores a version of a document in a session that is being created.
pub fn add(connection: &Connection, key: &DocumentKey, bytes: &[u8]) -> Result<()> {
  let number = match i64::from(key.back) {
    0 => CURRENT,
    back => FIRST_NUMBER - back,
  };
  sessions::add(connection, &key.session)?;
  let sql = "INSERT INTO documents (session, name, number, size, bytes) VALUES (?1, ?2, ?3, ?4, ?5)";
  let (session, name, size) = (&key.session, &key.name, bytes.len());
  let mut statement = connection.prepare_cached(sql)?;
  statement.execute(params![session, name, number, size, bytes])?;
  Ok(())
}

/// The number of earlier versions.
pub fn versions(connection: &Connection, session: &SessionId, document: Document) -> Result<u32> {
  let key = DocumentKey::new(session, Item::Document(document));
  let sql = "SELECT count(*) FROM documents WHERE session = ?1 AND name = ?2 AND number > 0";
  let mut statement = connection.prepare_cached(sql)?;
  statement.query_row([&key.session, &key.name], |row| row.get(0))
}

/// Replaces a document, and keeps `keep` earlier versions.
pub fn replace(
  connection: &Connection,
  session: &SessionId,
  document: Document,
  bytes: &[u8],
  keep: u32,
) -> Result<()> {
  let key = DocumentKey::new(session, Item::Document(document));
  if Document::VERSIONED.contains(&document) {
    if keep > 0 {
      let mut statement = connection.prepare_cached(KEEP_CURRENT)?;
      statement.execute([&key.session, &key.name])?;
    }
    let mut statement = connection.prepare_cached(DELETE_EARLIER)?;
    statement.execute(params![key.session, key.name, keep])?;
  }
  put(connection, &key, bytes).map(drop)
}

pub fn read(connection: &Connection, key: &DocumentKey, limit: u64) -> Result<Option<StoredBytes>> {
  let Some(number) = key.number(connection)? else {
    return Ok(None);
  };
  // SQLite does not load the bytes of a row that is too large.
  let sql = r"
    SELECT size, CASE WHEN size <= ?4 THEN bytes END FROM documents
    WHERE session = ?1 AND name = ?2 AND number = ?3";
  let mut statement = connection.prepare_cached(sql)?;
  let read = statement.query_row(
    params![key.session, key.name, number, to_signed(limit)],
    |row| match row.get(1)? {
      Some(bytes) => Ok(StoredBytes::Complete(bytes)),
      None => Ok(StoredBytes::TooLarge(row.get(0)?)),
    },
  );
  read.optional()
}

pub fn delete(connection: &Connection, key: &DocumentKey) -> Result<bool> {
  let number = key.number(connection)?;
  let sql = "DELETE FROM documents WHERE session = ?1 AND name = ?2 AND number = ?3";
  let mut statement = connection.prepare_cached(sql)?;
  Ok(statement.execute(params![key.session, key.name, number])? > 0)
}

/// The tasks that have a result, ordered by id.
pub fn results(connection: &Connection, session: &SessionId) -> Result<Vec<TaskId>> {
  // `0` is the character after `/`, so these names are all that begin with `results/`.
  let sql = "SELECT name FROM documents WHERE session = ?1 AND name > ?2 || '/' AND name < ?2 || '0'";
  let mut tasks = ids(connection, sql, [session.as_str(), RESULTS], task_of_result)?;
  tasks.sort_unstable();
  Ok(tasks)
}
