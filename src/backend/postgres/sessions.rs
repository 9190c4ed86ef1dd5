//! Sessions as rows: that they are there, what they take up, and how they go.

use tokio_postgres::Row;

use super::connection::{Connection, Params, is_denied};
use super::failure::Failure;
use super::lists;
use super::payload::to_unsigned;
use super::sql::LOCK_SESSION;
use crate::backend::Usage;
use crate::id::SessionId;

pub async fn add(connection: &Connection, session: &SessionId) -> Result<(), Failure> {
  let sql = "INSERT INTO waymark.sessions (id) VALUES ($1) ON CONFLICT (id) DO NOTHING";
  connection.change(sql, &[&session.as_str()]).await.map(drop)
}

/// All of them, or those that hold a document of that name.
pub async fn list(connection: &Connection, document: Option<&str>) -> Result<Vec<SessionId>, Failure> {
  let sql = "SELECT id FROM waymark.sessions
    WHERE $1::text IS NULL OR EXISTS (
      SELECT 1 FROM waymark.documents WHERE session = sessions.id AND name = $1 AND size IS NOT NULL
    )
    ORDER BY id";
  ids(&connection.query(sql, &[&document]).await?, SessionId::parse)
}

/// Removes everything of a session, and says whether it was there.
pub async fn remove(connection: &Connection, session: &SessionId) -> Result<bool, Failure> {
  let session = session.as_str();
  let params: Params<'_> = &[&session];
  let removed = connection
    .change_together(&[
      (LOCK_SESSION, params),
      ("DELETE FROM waymark.checkpoints WHERE session = $1", params),
      ("DELETE FROM waymark.keys WHERE session = $1", params),
      ("DELETE FROM waymark.documents WHERE session = $1", params),
      ("DELETE FROM waymark.previous WHERE session = $1", params),
      ("DELETE FROM waymark.damaged WHERE session = $1", params),
      ("DELETE FROM waymark.sessions WHERE id = $1", params),
    ])
    .await;
  match removed {
    Ok(_) => Ok(true),
    Err(failure) if is_denied(&failure) => Ok(false),
    Err(failure) => Err(failure),
  }
}

/// A slash is followed by a zero in the order of characters.
pub const USAGE: &str = "SELECT
    checkpoints.bytes
      + (SELECT coalesce(sum(size), 0)::bigint FROM waymark.documents WHERE session = $1)
      + (SELECT coalesce(sum(p.size), 0)::bigint FROM waymark.previous p
          JOIN waymark.documents d ON d.session = p.session AND d.name = p.name
          WHERE p.session = $1 AND p.number >= d.oldest AND p.number < d.number)
      + (SELECT coalesce(sum(size), 0)::bigint FROM waymark.keys WHERE session = $1)
      + (SELECT coalesce(sum(size), 0)::bigint FROM waymark.damaged WHERE session = $1),
    checkpoints.own, checkpoints.pinned, checkpoints.of_agents,
    (SELECT count(*) FROM waymark.documents
      WHERE session = $1 AND name > 'results/' AND name < 'results0' AND size IS NOT NULL),
    newest.id, newest.encoding, newest.made_at, newest.pinned
  FROM (
    SELECT coalesce(sum(size), 0)::bigint AS bytes, count(*) FILTER (WHERE agent = '') AS own,
      count(*) FILTER (WHERE agent = '' AND pinned) AS pinned, count(*) FILTER (WHERE agent > '') AS of_agents
    FROM waymark.checkpoints WHERE session = $1
  ) checkpoints
  LEFT JOIN (
    SELECT id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = $1 AND agent = ''
    ORDER BY made_at DESC, id DESC, encoding DESC LIMIT 1
  ) newest ON true";

pub async fn usage(connection: &Connection, session: &SessionId) -> Result<Usage, Failure> {
  let rows = connection.query(USAGE, &[&session.as_str()]).await?;
  let Some(row) = rows.first() else {
    return Ok(Usage::default());
  };
  let number = |at| row.try_get(at).map(to_unsigned);
  let has_newest = row.try_get::<_, Option<&str>>(5)?.is_some();
  Ok(Usage {
    total_bytes: number(0)?,
    checkpoints: number(1)?,
    pinned: number(2)?,
    agent_checkpoints: number(3)?,
    results: number(4)?,
    newest: if has_newest { lists::entry(row, 5)? } else { None },
  })
}

/// The ids in the first column. What is no id was put there by somebody else.
pub fn ids<T>(rows: &[Row], parse: impl Fn(&str) -> crate::error::Result<T>) -> Result<Vec<T>, Failure> {
  let mut ids = Vec::with_capacity(rows.len());
  for row in rows {
    ids.extend(parse(row.try_get(0)?).ok());
  }
  Ok(ids)
}
