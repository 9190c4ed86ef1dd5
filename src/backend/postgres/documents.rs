//! Documents and task results as rows, under the names that they have in their session.

use tokio_postgres::Row;
use uuid::Uuid;

use super::connection::Connection;
use super::contents::Contents;
use super::error::PgError;
use super::payload::{to_signed, to_unsigned};
use super::sessions::ids;
use crate::backend::item::RESULTS;
use crate::backend::sql::{document_name, task_of_result};
use crate::backend::{Document, Item};
use crate::types::id::{SessionId, TaskId};

/// The primary key of a document or task result, and its version.
#[derive(Debug, Clone)]
pub struct DocumentKey<'a> {
  pub session_id: &'a SessionId,
  pub session: &'a str,
  pub name: String,
  /// 0 for the current version, 1 for the one before it, and so on.
  pub back: u32,
}

impl<'a> DocumentKey<'a> {
  /// `item` is not a checkpoint or a base.
  pub fn new(session: &'a SessionId, item: Item<'_>) -> Self {
    let (name, back) = document_name(item);
    Self {
      session_id: session,
      session: session.as_str(),
      name,
      back,
    }
  }

  /// How many earlier versions are newer than this one; `None` for the current version.
  pub fn skipped(&self) -> Option<i64> {
    self.back.checked_sub(1).map(i64::from)
  }
}

/// The token of the last change of a document, as it was read; `None` if the document never existed.
#[derive(Debug, Clone, Copy)]
pub struct DocumentToken(pub Option<Uuid>);

/// The document that all items name, if there are several and they name the same one.
pub fn same_document<'a>(items: &[(&SessionId, Item<'a>)]) -> Option<Item<'a>> {
  let (_, first) = *items.first()?;
  let is_same = matches!(first, Item::Document(_)) && items.iter().all(|(_, item)| *item == first);
  (items.len() > 1 && is_same).then_some(first)
}

/// The number of an earlier version; `None` if it is missing.
pub async fn version_number(
  connection: &Connection,
  key: &DocumentKey<'_>,
  skipped: i64,
) -> Result<Option<i64>, PgError> {
  let sql = "SELECT p.number
    FROM waymark.previous p JOIN waymark.documents d ON d.session = p.session AND d.name = p.name
    WHERE p.session = $1 AND p.name = $2 AND p.number >= d.oldest AND p.number < d.number
    ORDER BY p.number DESC LIMIT 1 OFFSET $3";
  let rows = connection.query(sql, &[&key.session, &key.name, &skipped]).await?;
  Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// The number of earlier versions.
pub async fn versions(connection: &Connection, session: &SessionId, document: Document) -> Result<u32, PgError> {
  let key = DocumentKey::new(session, Item::Document(document));
  let sql = "SELECT count(*)
    FROM waymark.previous p JOIN waymark.documents d ON d.session = p.session AND d.name = p.name
    WHERE p.session = $1 AND p.name = $2 AND p.number >= d.oldest AND p.number < d.number";
  let rows = connection.query(sql, &[&key.session, &key.name]).await?;
  let count: i64 = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
  Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

pub async fn read(connection: &Connection, key: &DocumentKey<'_>, limit: u64) -> Result<Option<Contents>, PgError> {
  let Some(skipped) = key.skipped() else {
    let rows = connection
      .query(READ, &[&key.session, &key.name, &to_signed(limit)])
      .await?;
    return Ok(rows.first().map(|row| contents(row, 0)).transpose()?.flatten());
  };
  let sql = "SELECT p.size, p.packed, CASE WHEN greatest(p.size, octet_length(p.bytes)) <= $4 THEN p.bytes END
    FROM waymark.previous p JOIN waymark.documents d ON d.session = p.session AND d.name = p.name
    WHERE p.session = $1 AND p.name = $2 AND p.number >= d.oldest AND p.number < d.number
    ORDER BY p.number DESC LIMIT 1 OFFSET $3";
  let limit = to_signed(limit);
  let rows = connection
    .query(sql, &[&key.session, &key.name, &skipped, &limit])
    .await?;
  let Some(row) = rows.first() else {
    return Ok(None);
  };
  let (size, is_packed) = (to_unsigned(row.try_get(0)?), row.try_get(1)?);
  Ok(Some(Contents::whole(size, is_packed, row.try_get(2)?)))
}

/// Reads a document, unless it has more bytes than a limit, whatever its `size` says.
pub const READ: &str =
  "SELECT d.size, d.packed, CASE WHEN greatest(d.size, octet_length(d.bytes)) <= $3 THEN d.bytes END AS bytes
  FROM waymark.documents d WHERE d.session = $1 AND d.name = $2";

/// The document of that name of each session, in their order.
pub async fn read_each(
  connection: &Connection,
  sessions: &[&str],
  name: &str,
  limit: u64,
) -> Result<Vec<Option<Contents>>, PgError> {
  let sql = "SELECT d.size, d.packed, CASE WHEN greatest(d.size, octet_length(d.bytes)) <= $3 THEN d.bytes END AS bytes
    FROM unnest($1::text[]) WITH ORDINALITY AS wanted (session, position)
    LEFT JOIN waymark.documents d ON d.session = wanted.session AND d.name = $2
    ORDER BY wanted.position";
  let rows = connection.query(sql, &[&sessions, &name, &to_signed(limit)]).await?;
  rows.iter().map(|row| contents(row, 0)).collect()
}

/// A document from three columns: size, packed, bytes. `None` if it does not exist.
pub fn contents(row: &Row, first_column: usize) -> Result<Option<Contents>, PgError> {
  let Some(size) = row.try_get::<_, Option<i64>>(first_column)? else {
    return Ok(None);
  };
  let is_packed = row.try_get::<_, Option<bool>>(first_column + 1)?.unwrap_or(false);
  let bytes = row.try_get(first_column + 2)?;
  Ok(Some(Contents::whole(to_unsigned(size), is_packed, bytes)))
}

/// The current state of a document that is about to be changed.
pub struct CurrentDocument {
  pub contents: Option<Contents>,
  /// It must still have this token when it is replaced.
  pub seen: DocumentToken,
  /// Whether an earlier attempt has made this change.
  pub is_changed: bool,
}

pub async fn read_current(
  connection: &Connection,
  key: &DocumentKey<'_>,
  token: Uuid,
  limit: u64,
) -> Result<CurrentDocument, PgError> {
  let sql = "SELECT size, packed, CASE WHEN greatest(size, octet_length(bytes)) <= $3 THEN bytes END,
      tokens[1], $4 = ANY (tokens)
    FROM waymark.documents WHERE session = $1 AND name = $2";
  let rows = connection
    .query(sql, &[&key.session, &key.name, &to_signed(limit), &token])
    .await?;
  let Some(row) = rows.first() else {
    return Ok(CurrentDocument {
      contents: None,
      seen: DocumentToken(None),
      is_changed: false,
    });
  };
  Ok(CurrentDocument {
    contents: contents(row, 0)?,
    seen: DocumentToken(row.try_get(3)?),
    is_changed: row.try_get(4)?,
  })
}

/// The tasks that have a result, ordered by id.
pub async fn results(connection: &Connection, session: &SessionId) -> Result<Vec<TaskId>, PgError> {
  // A zero sorts directly after a slash, so this is the range of all names below the folder.
  let sql = "SELECT name FROM waymark.documents
    WHERE session = $1 AND name > $2::text || '/' AND name < $2 || '0' AND size IS NOT NULL";
  let rows = connection.query(sql, &[&session.as_str(), &RESULTS]).await?;
  let mut tasks = ids(&rows, task_of_result)?;
  tasks.sort_unstable();
  Ok(tasks)
}
