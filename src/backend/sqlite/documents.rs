//! Documents and results as rows, under the names that they have below their session.

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::contents::Contents;
use super::sessions::{self, ids};
use crate::backend::item::RESULTS;
use crate::backend::{Document, Item};
use crate::types::id::{SessionId, TaskId};

/// Earlier versions of a document have the numbers above, later ones greater: none is moved when another comes.
const CURRENT: i64 = 0;

/// What names one document, in words of its own: an operation may run on another thread.
#[derive(Debug, Clone)]
pub struct DocumentKey {
  session: String,
  /// That of the current version.
  name: String,
  /// How many versions ago; 0 is the current one.
  back: u32,
}

impl DocumentKey {
  /// Of everything but a checkpoint.
  pub fn new(session: &SessionId, item: Item<'_>) -> Self {
    let (item, back) = match item {
      Item::Previous(document, back) => (Item::Document(document), back),
      other => (other, 0),
    };
    Self {
      session: session.to_string(),
      name: item.to_string(),
      back,
    }
  }

  /// `None` if there is no such version.
  fn number(&self, connection: &Connection) -> Result<Option<i64>> {
    let Some(skipped) = self.back.checked_sub(1) else {
      return Ok(Some(CURRENT));
    };
    let sql = "SELECT number FROM documents WHERE session = ?1 AND name = ?2 AND number > 0
      ORDER BY number DESC LIMIT 1 OFFSET ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let number = statement.query_row(params![self.session, self.name, skipped], |row| row.get(0));
    number.optional()
  }
}

/// The answer is whether it was done: only a version that is there can be replaced.
pub fn put(connection: &Connection, key: &DocumentKey, bytes: &[u8]) -> Result<bool> {
  let Some(number) = key.number(connection)? else {
    return Ok(false);
  };
  sessions::add(connection, &key.session)?;
  let sql = "INSERT INTO documents (session, name, number, size, bytes) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT DO UPDATE SET size = excluded.size, bytes = excluded.bytes";
  let (session, name, size) = (&key.session, &key.name, bytes.len());
  let mut statement = connection.prepare_cached(sql)?;
  statement.execute(params![session, name, number, size, bytes])?;
  Ok(true)
}

/// Stores a document of a session that is being made, or an earlier version of one.
pub fn add(connection: &Connection, key: &DocumentKey, bytes: &[u8]) -> Result<()> {
  // Numbers count up; these count down from one that no count of saves comes near, so that they may come in any order.
  const NEWEST_PREVIOUS: i64 = 1 << 32;
  let number = match i64::from(key.back) {
    0 => CURRENT,
    back => NEWEST_PREVIOUS - back,
  };
  sessions::add(connection, &key.session)?;
  let sql = "INSERT INTO documents (session, name, number, size, bytes) VALUES (?1, ?2, ?3, ?4, ?5)";
  let (session, name, size) = (&key.session, &key.name, bytes.len());
  let mut statement = connection.prepare_cached(sql)?;
  statement.execute(params![session, name, number, size, bytes])?;
  Ok(())
}

/// How many earlier versions there are.
pub fn versions(connection: &Connection, session: &SessionId, document: Document) -> Result<u32> {
  let key = DocumentKey::new(session, Item::Document(document));
  let sql = "SELECT count(*) FROM documents WHERE session = ?1 AND name = ?2 AND number > 0";
  let mut statement = connection.prepare_cached(sql)?;
  statement.query_row([&key.session, &key.name], |row| row.get(0))
}

/// Replaces a document; as many earlier ones as are wanted stay.
pub fn replace(
  connection: &Connection,
  session: &SessionId,
  document: Document,
  bytes: &[u8],
  keep: u32,
) -> Result<()> {
  let key = DocumentKey::new(session, Item::Document(document));
  if Document::VERSIONED.contains(&document) {
    let newest = "(SELECT max(number) FROM documents WHERE session = ?1 AND name = ?2)";
    if keep > 0 {
      let sql = format!(
        "INSERT INTO documents (session, name, number, size, bytes)
          SELECT session, name, {newest} + 1, size, bytes FROM documents
          WHERE session = ?1 AND name = ?2 AND number = {CURRENT}"
      );
      connection.prepare_cached(&sql)?.execute([&key.session, &key.name])?;
    }
    let sql = format!(
      "DELETE FROM documents WHERE session = ?1 AND name = ?2 AND number > {CURRENT} AND number <= {newest} - ?3"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    statement.execute(params![key.session, key.name, keep])?;
  }
  put(connection, &key, bytes).map(drop)
}

pub fn read(connection: &Connection, key: &DocumentKey, limit: u64) -> Result<Option<Contents>> {
  let Some(number) = key.number(connection)? else {
    return Ok(None);
  };
  // What is too large is not even loaded.
  let sql = "SELECT size, CASE WHEN size <= ?4 THEN bytes END FROM documents
    WHERE session = ?1 AND name = ?2 AND number = ?3";
  let limit = i64::try_from(limit).unwrap_or(i64::MAX);
  let mut statement = connection.prepare_cached(sql)?;
  let read = statement.query_row(params![key.session, key.name, number, limit], |row| {
    match row.get(1)? {
      Some(bytes) => Ok(Contents::Bytes(bytes)),
      None => Ok(Contents::TooLarge(row.get(0)?)),
    }
  });
  read.optional()
}

pub fn remove(connection: &Connection, key: &DocumentKey) -> Result<bool> {
  let number = key.number(connection)?;
  let sql = "DELETE FROM documents WHERE session = ?1 AND name = ?2 AND number = ?3";
  let mut statement = connection.prepare_cached(sql)?;
  Ok(statement.execute(params![key.session, key.name, number])? > 0)
}

/// The tasks that have a result, in the order of their ids.
pub fn results(connection: &Connection, session: &SessionId) -> Result<Vec<TaskId>> {
  // A slash is followed by a zero in the order of characters.
  let sql = "SELECT name FROM documents WHERE session = ?1 AND name > ?2 || '/' AND name < ?2 || '0'";
  let mut tasks = ids(connection, sql, [session.as_str(), RESULTS], |name| {
    let id = name[RESULTS.len() + 1..].strip_suffix(".json");
    TaskId::parse(id.unwrap_or_default())
  })?;
  tasks.sort_unstable();
  Ok(tasks)
}
