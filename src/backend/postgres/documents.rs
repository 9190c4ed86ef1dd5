//! Documents and results as rows, under the names that they have below their session.

use tokio_postgres::Row;
use uuid::Uuid;

use super::connection::Connection;
use super::contents::Contents;
use super::failure::Failure;
use super::payload::{to_signed, to_unsigned};
use super::sessions::ids;
use crate::backend::item::RESULTS;
use crate::backend::sql::{document_name, task_of_result};
use crate::backend::{Document, Item};
use crate::types::id::{SessionId, TaskId};

/// What names one document.
#[derive(Debug, Clone)]
pub struct DocumentKey<'a> {
  pub of: &'a SessionId,
  pub session: &'a str,
  /// That of the current version.
  pub name: String,
  /// How many versions ago; 0 is the current one.
  pub back: u32,
}

impl<'a> DocumentKey<'a> {
  /// Of everything but a checkpoint.
  pub fn new(session: &'a SessionId, item: Item<'_>) -> Self {
    let (name, back) = document_name(item);
    Self {
      of: session,
      session: session.as_str(),
      name,
      back,
    }
  }

  /// How many later ones an earlier version has among the earlier ones; `None` for the current one.
  pub fn skipped(&self) -> Option<i64> {
    self.back.checked_sub(1).map(i64::from)
  }
}

/// What a document must still be for it to be replaced: the token of its last change, if it ever had one.
#[derive(Debug, Clone, Copy)]
pub struct DocumentToken(pub Option<Uuid>);

/// The condition for the earlier versions of a document that are kept.
macro_rules! kept {
  ($columns:literal, $rest:literal) => {
    concat!(
      "SELECT ",
      $columns,
      " FROM waymark.previous p JOIN waymark.documents d ON d.session = p.session AND d.name = p.name
        WHERE p.session = $1 AND p.name = $2 AND p.number >= d.oldest AND p.number < d.number ",
      $rest
    )
  };
}

/// The document that all of these items are, if they are several and all the same.
pub fn same_document<'a>(items: &[(&SessionId, Item<'a>)]) -> Option<Item<'a>> {
  let (_, first) = *items.first()?;
  let is_same = matches!(first, Item::Document(_)) && items.iter().all(|(_, item)| *item == first);
  (items.len() > 1 && is_same).then_some(first)
}

/// The number of an earlier version; `None` if it is missing.
pub async fn number(connection: &Connection, key: &DocumentKey<'_>, skipped: i64) -> Result<Option<i64>, Failure> {
  let sql = kept!("p.number", "ORDER BY p.number DESC LIMIT 1 OFFSET $3");
  let rows = connection.query(sql, &[&key.session, &key.name, &skipped]).await?;
  Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// How many earlier versions there are.
pub async fn versions(connection: &Connection, session: &SessionId, document: Document) -> Result<u32, Failure> {
  let key = DocumentKey::new(session, Item::Document(document));
  let rows = connection
    .query(kept!("count(*)", ""), &[&key.session, &key.name])
    .await?;
  let count: i64 = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
  Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

pub async fn read(connection: &Connection, key: &DocumentKey<'_>, limit: u64) -> Result<Option<Contents>, Failure> {
  let Some(skipped) = key.skipped() else {
    let rows = connection
      .query(READ, &[&key.session, &key.name, &to_signed(limit)])
      .await?;
    return Ok(rows.first().map(|row| contents(row, 0)).transpose()?.flatten());
  };
  let sql = kept!(
    "p.size, p.packed, CASE WHEN greatest(p.size, octet_length(p.bytes)) <= $4 THEN p.bytes END",
    "ORDER BY p.number DESC LIMIT 1 OFFSET $3"
  );
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

/// What is read of a document. What has more bytes than a limit is not even loaded, whatever it says of itself.
macro_rules! columns {
  ($limit:literal) => {
    concat!(
      "SELECT d.size, d.packed, CASE WHEN greatest(d.size, octet_length(d.bytes)) <= ",
      $limit,
      " THEN d.bytes END AS bytes"
    )
  };
}
pub(super) use columns;

/// A document.
pub const READ: &str = concat!(
  columns!("$3"),
  " FROM waymark.documents d WHERE d.session = $1 AND d.name = $2"
);

/// A document of each of some sessions.
const READ_EACH: &str = concat!(
  columns!("$3"),
  " FROM unnest($1::text[]) WITH ORDINALITY AS wanted (session, place)
  LEFT JOIN waymark.documents d ON d.session = wanted.session AND d.name = $2
  ORDER BY wanted.place"
);

/// The document of that name of each of these sessions, in their order.
pub async fn read_each(
  connection: &Connection,
  sessions: &[&str],
  name: &str,
  limit: u64,
) -> Result<Vec<Option<Contents>>, Failure> {
  let rows = connection
    .query(READ_EACH, &[&sessions, &name, &to_signed(limit)])
    .await?;
  rows.iter().map(|row| contents(row, 0)).collect()
}

/// A document from three columns; `None` if it is not there.
pub fn contents(row: &Row, first_column: usize) -> Result<Option<Contents>, Failure> {
  let Some(size) = row.try_get::<_, Option<i64>>(first_column)? else {
    return Ok(None);
  };
  let is_packed = row.try_get::<_, Option<bool>>(first_column + 1)?.unwrap_or(false);
  let bytes = row.try_get(first_column + 2)?;
  Ok(Some(Contents::whole(to_unsigned(size), is_packed, bytes)))
}

/// What somebody who changes a document is shown.
pub struct Current {
  pub contents: Option<Contents>,
  /// What it must still be when it is replaced.
  pub seen: DocumentToken,
  /// Whether an earlier attempt has changed it already.
  pub is_done: bool,
}

pub async fn read_current(
  connection: &Connection,
  key: &DocumentKey<'_>,
  token: Uuid,
  limit: u64,
) -> Result<Current, Failure> {
  let sql = "SELECT size, packed, CASE WHEN greatest(size, octet_length(bytes)) <= $3 THEN bytes END,
      tokens[1], $4 = ANY (tokens)
    FROM waymark.documents WHERE session = $1 AND name = $2";
  let rows = connection
    .query(sql, &[&key.session, &key.name, &to_signed(limit), &token])
    .await?;
  let Some(row) = rows.first() else {
    return Ok(Current {
      contents: None,
      seen: DocumentToken(None),
      is_done: false,
    });
  };
  Ok(Current {
    contents: contents(row, 0)?,
    seen: DocumentToken(row.try_get(3)?),
    is_done: row.try_get(4)?,
  })
}

/// The tasks that have a result, in the order of their ids.
pub async fn results(connection: &Connection, session: &SessionId) -> Result<Vec<TaskId>, Failure> {
  // A slash is followed by a zero in the order of characters.
  let sql = "SELECT name FROM waymark.documents
    WHERE session = $1 AND name > $2::text || '/' AND name < $2 || '0' AND size IS NOT NULL";
  let rows = connection.query(sql, &[&session.as_str(), &RESULTS]).await?;
  let mut tasks = ids(&rows, task_of_result)?;
  tasks.sort_unstable();
  Ok(tasks)
}
