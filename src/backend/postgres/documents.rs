//! Documents and results as rows, under the names that they have below their session.

use uuid::Uuid;

use super::connection::Connection;
use super::contents::Contents;
use super::failure::Failure;
use super::payload::{to_signed, to_unsigned};
use super::sessions::ids;
use super::sql::{is_set_aside, set_aside_answer};
use crate::backend::item::RESULTS;
use crate::backend::{Document, Item};
use crate::id::{SessionId, TaskId};

/// What names one document.
#[derive(Debug, Clone)]
pub struct Key<'a> {
  pub session: &'a str,
  /// That of the current version.
  pub name: String,
  /// How many versions ago; 0 is the current one.
  pub back: u32,
}

impl<'a> Key<'a> {
  /// Of everything but a checkpoint.
  pub fn new(session: &'a SessionId, item: Item<'_>) -> Self {
    let (item, back) = match item {
      Item::Previous(document, back) => (Item::Document(document), back),
      other => (other, 0),
    };
    Self {
      session: session.as_str(),
      name: item.to_string(),
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
pub struct Seen(pub Option<Uuid>);

impl Seen {
  /// Whether somebody's change was the last.
  pub fn is_of(self, token: Uuid) -> bool {
    self.0 == Some(token)
  }
}

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

/// The number of an earlier version; `None` if it is not there.
pub async fn number(connection: &Connection, key: &Key<'_>, skipped: i64) -> Result<Option<i64>, Failure> {
  let sql = kept!("p.number", "ORDER BY p.number DESC LIMIT 1 OFFSET $3");
  let rows = connection.query(sql, &[&key.session, &key.name, &skipped]).await?;
  Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// How many earlier versions there are.
pub async fn versions(connection: &Connection, session: &SessionId, document: Document) -> Result<u32, Failure> {
  let key = Key::new(session, Item::Document(document));
  let rows = connection
    .query(kept!("count(*)", ""), &[&key.session, &key.name])
    .await?;
  let count: i64 = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
  Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

pub async fn read(connection: &Connection, key: &Key<'_>, limit: u64) -> Result<Option<Contents>, Failure> {
  let limit = to_signed(limit);
  let Some(skipped) = key.skipped() else {
    return Ok(read_current(connection, key, limit).await?.0);
  };
  // What is too large is not even loaded, whatever it says of itself.
  let sql = kept!(
    "p.size, p.packed, CASE WHEN greatest(p.size, octet_length(p.bytes)) <= $4 THEN p.bytes END",
    "ORDER BY p.number DESC LIMIT 1 OFFSET $3"
  );
  let rows = connection
    .query(sql, &[&key.session, &key.name, &skipped, &limit])
    .await?;
  let Some(row) = rows.first() else {
    return Ok(None);
  };
  let (size, is_packed) = (to_unsigned(row.try_get(0)?), row.try_get(1)?);
  Ok(Some(Contents::whole(size, is_packed, row.try_get(2)?)))
}

/// A document, and what it must still be when it is replaced.
pub async fn read_seen(
  connection: &Connection,
  key: &Key<'_>,
  limit: u64,
) -> Result<(Option<Contents>, Seen), Failure> {
  read_current(connection, key, to_signed(limit)).await
}

async fn read_current(connection: &Connection, key: &Key<'_>, limit: i64) -> Result<(Option<Contents>, Seen), Failure> {
  let sql = "SELECT size, packed, CASE WHEN greatest(size, octet_length(bytes)) <= $3 THEN bytes END, tokens[1]
    FROM waymark.documents WHERE session = $1 AND name = $2";
  let rows = connection.query(sql, &[&key.session, &key.name, &limit]).await?;
  let Some(row) = rows.first() else {
    return Ok((None, Seen(None)));
  };
  let contents = match row.try_get::<_, Option<i64>>(0)? {
    Some(size) => {
      let is_packed = row.try_get::<_, Option<bool>>(1)?.unwrap_or(false);
      Some(Contents::whole(to_unsigned(size), is_packed, row.try_get(2)?))
    }
    None => None,
  };
  Ok((contents, Seen(row.try_get(3)?)))
}

/// Removes a document, or an earlier version of it. `number` is the one that an earlier attempt found.
pub async fn remove(
  connection: &Connection,
  key: &Key<'_>,
  token: Uuid,
  number: &mut Option<i64>,
) -> Result<bool, Failure> {
  let Some(skipped) = key.skipped() else {
    // Its row stays, for the sake of earlier versions and of those who make a change a second time.
    let sql = "WITH gone AS (
        UPDATE waymark.documents SET size = NULL, packed = NULL, bytes = NULL, tokens = (ARRAY[$3::uuid] || tokens)[1:8]
        WHERE session = $1 AND name = $2 AND size IS NOT NULL RETURNING 1
      )
      SELECT EXISTS (SELECT 1 FROM gone) OR EXISTS (
        SELECT 1 FROM waymark.documents WHERE session = $1 AND name = $2 AND $3 = ANY (tokens)
      )";
    let rows = connection.change(sql, &[&key.session, &key.name, &token]).await?;
    return is_set_aside(&rows);
  };
  // Once it is gone, another one is as many versions ago.
  if number.is_none() {
    *number = self::number(connection, key, skipped).await?;
  }
  let sql = "DELETE FROM waymark.previous WHERE session = $1 AND name = $2 AND number = $3 RETURNING 1";
  let rows = connection.change(sql, &[&key.session, &key.name, number]).await?;
  Ok(!rows.is_empty() || (number.is_some() && connection.is_repeat))
}

/// Moves a document to where nobody reads it, or an earlier version of it.
pub async fn set_aside(
  connection: &Connection,
  key: &Key<'_>,
  new_name: &str,
  number: &mut Option<i64>,
) -> Result<bool, Failure> {
  macro_rules! moved {
    ($old:literal, $clear:literal) => {
      concat!(
        "WITH held AS (SELECT 1 FROM waymark.sessions WHERE id = $1 FOR SHARE),
        old AS (",
        $old,
        "),
        moved AS (
          INSERT INTO waymark.damaged (session, name, size, packed, head, tail, middle)
          SELECT $1, $3::text, size, packed, ''::bytea, ''::bytea, bytes FROM old RETURNING 1
        ),
        cleared AS (",
        $clear,
        ")",
        set_aside_answer!("$3")
      )
    };
  }
  let Some(skipped) = key.skipped() else {
    let sql = moved!(
      "SELECT size, packed, bytes FROM waymark.documents
        WHERE session = $1 AND name = $2 AND size IS NOT NULL AND EXISTS (SELECT 1 FROM held) FOR UPDATE",
      "UPDATE waymark.documents SET size = NULL, packed = NULL, bytes = NULL
        WHERE session = $1 AND name = $2 AND EXISTS (SELECT 1 FROM old)"
    );
    return is_set_aside(&connection.change(sql, &[&key.session, &key.name, &new_name]).await?);
  };
  if number.is_none() {
    *number = self::number(connection, key, skipped).await?;
  }
  let sql = moved!(
    "SELECT size, packed, bytes FROM waymark.previous
      WHERE session = $1 AND name = $2 AND number = $4 AND EXISTS (SELECT 1 FROM held) FOR UPDATE",
    "DELETE FROM waymark.previous WHERE session = $1 AND name = $2 AND number = $4 AND EXISTS (SELECT 1 FROM old)"
  );
  is_set_aside(
    &connection
      .change(sql, &[&key.session, &key.name, &new_name, number])
      .await?,
  )
}

/// The tasks that have a result, in the order of their ids.
pub async fn results(connection: &Connection, session: &SessionId) -> Result<Vec<TaskId>, Failure> {
  // A slash is followed by a zero in the order of characters.
  let sql = "SELECT name FROM waymark.documents
    WHERE session = $1 AND name > $2::text || '/' AND name < $2 || '0' AND size IS NOT NULL";
  let rows = connection.query(sql, &[&session.as_str(), &RESULTS]).await?;
  let mut tasks = ids(&rows, |name| {
    let id = name[RESULTS.len() + 1..].strip_suffix(".json");
    TaskId::parse(id.unwrap_or_default())
  })?;
  tasks.sort_unstable();
  Ok(tasks)
}
