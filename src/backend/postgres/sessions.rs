//! Sessions as rows: that they are there, what they take up, and how they go.

use tokio_postgres::Row;

use super::connection::{Connection, Params, is_denied};
use super::contents::Contents;
use super::documents;
use super::failure::Failure;
use super::leases;
use super::lists;
use super::payload::to_unsigned;
use super::sql::LOCK_SESSION;
use crate::backend::{Item, Usage};
use crate::types::id::SessionId;

pub async fn add(connection: &Connection, session: &SessionId, fence: Option<i64>) -> Result<(), Failure> {
  let sql = with_place!("done AS (SELECT 1) ", answer!("done"));
  let rows = connection.change(sql, &[&session.as_str(), &fence]).await;
  leases::placed(connection, session, fence, rows).await.map(drop)
}

/// All of them, or those that hold a document of that name.
pub async fn list(connection: &Connection, document: Option<&str>) -> Result<Vec<SessionId>, Failure> {
  let sql = "SELECT id FROM waymark.sessions
    WHERE present AND ($1::text IS NULL OR EXISTS (
      SELECT 1 FROM waymark.documents WHERE session = sessions.id AND name = $1 AND size IS NOT NULL
    ))
    ORDER BY id";
  ids(&connection.query(sql, &[&document]).await?, SessionId::parse)
}

/// Removes everything of a session, and says whether it was there. Only its lease stays, while somebody holds it, or if it is
/// that of who writes.
pub async fn remove(connection: &Connection, session: &SessionId, fence: Option<i64>) -> Result<bool, Failure> {
  let id = session.as_str();
  let (named, under): (Params<'_>, Params<'_>) = (&[&id], &[&id, &fence]);
  let mut statements = vec![(LOCK_SESSION, under)];
  statements.extend(REMOVE.map(|(sql, is_fenced)| (sql, if is_fenced { under } else { named })));
  let removed = connection.change_together(&statements).await;
  let removed = leases::unless_denied(connection, session, fence, removed).await?;
  Ok(removed.is_some())
}

/// What removes everything of a session that is locked, and whether it takes the fencing token as its second parameter.
const REMOVE: [(&str, bool); 7] = [
  ("DELETE FROM waymark.checkpoints WHERE session = $1", false),
  ("DELETE FROM waymark.keys WHERE session = $1", false),
  ("DELETE FROM waymark.documents WHERE session = $1", false),
  ("DELETE FROM waymark.previous WHERE session = $1", false),
  ("DELETE FROM waymark.damaged WHERE session = $1", false),
  (
    concat!(
      "DELETE FROM waymark.sessions WHERE id = $1 AND (lease_expires IS NULL OR lease_expires = 0
        OR (lease_expires <= ",
      now!(),
      " AND lease_number IS DISTINCT FROM $2::bigint))"
    ),
    true,
  ),
  (
    "UPDATE waymark.sessions SET present = false, founder = NULL WHERE id = $1",
    false,
  ),
];

/// What became of a session that was to be removed on a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
  Gone,
  Kept,
  /// There was no such session.
  Missing,
}

/// Removes a session if `decide` accepts its document. The session is locked from before the document is read until the end
/// of the transaction: every write to the session holds a share of that lock. `is_sent` is set when the outcome may become
/// unknown.
pub async fn remove_if(
  connection: &Connection,
  session: &SessionId,
  fence: Option<i64>,
  limit: u64,
  decide: &mut impl FnMut(Option<Contents>) -> crate::types::error::Result<bool>,
  is_sent: &mut bool,
) -> Result<Removed, Failure> {
  let (id, document) = (session.as_str(), documents::DocumentKey::new(session, Item::SESSION));
  connection.begin().await?;
  // Without a look at the lease: a decision against the removal must not end one that is past its time.
  let sql = "SELECT 1 FROM waymark.sessions WHERE id = $1 AND present FOR UPDATE";
  if connection.query(sql, &[&id]).await?.is_empty() {
    connection.roll_back().await?;
    leases::look(connection, session, fence).await?;
    return Ok(Removed::Missing);
  }
  let contents = documents::read(connection, &document, limit).await?;
  match decide(contents) {
    Ok(true) => {}
    decided => {
      connection.roll_back().await?;
      leases::look(connection, session, fence).await?;
      decided?;
      return Ok(Removed::Kept);
    }
  }
  if let Err(failure) = connection.query(LOCK_SESSION, &[&id, &fence]).await {
    connection.roll_back().await?;
    if is_denied(&failure) {
      // Ends a lease that is past its time, or says who holds the session.
      leases::explain(connection, session, fence).await?;
      return Err(Failure::Overtaken);
    }
    return Err(failure);
  }
  for (sql, is_fenced) in REMOVE {
    let params: Params<'_> = if is_fenced { &[&id, &fence] } else { &[&id] };
    connection.query(sql, params).await?;
  }
  *is_sent = true;
  connection.commit().await?;
  Ok(Removed::Gone)
}

/// What each of some sessions takes up, in their order. A slash is followed by a zero in the order of characters.
pub const USAGE: &str = "SELECT
    checkpoints.bytes + documents.bytes + previous.bytes + keys.bytes + damaged.bytes,
    checkpoints.own, checkpoints.pinned, checkpoints.of_agents, documents.results,
    newest.id, newest.encoding, newest.made_at, newest.pinned
  FROM unnest($1::text[]) WITH ORDINALITY AS wanted (session, place)
  CROSS JOIN LATERAL (
    SELECT coalesce(sum(size), 0)::bigint AS bytes, count(*) FILTER (WHERE agent = '') AS own,
      count(*) FILTER (WHERE agent = '' AND pinned) AS pinned, count(*) FILTER (WHERE agent > '') AS of_agents
    FROM waymark.checkpoints WHERE session = wanted.session
  ) checkpoints
  CROSS JOIN LATERAL (
    SELECT coalesce(sum(size), 0)::bigint AS bytes,
      count(size) FILTER (WHERE name > 'results/' AND name < 'results0') AS results
    FROM waymark.documents WHERE session = wanted.session
  ) documents
  CROSS JOIN LATERAL (
    SELECT coalesce(sum(p.size), 0)::bigint AS bytes FROM waymark.previous p
    JOIN waymark.documents d ON d.session = p.session AND d.name = p.name
    WHERE p.session = wanted.session AND p.number >= d.oldest AND p.number < d.number
  ) previous
  CROSS JOIN LATERAL (
    SELECT coalesce(sum(size), 0)::bigint AS bytes FROM waymark.keys WHERE session = wanted.session
  ) keys
  CROSS JOIN LATERAL (
    SELECT coalesce(sum(size), 0)::bigint AS bytes FROM waymark.damaged WHERE session = wanted.session
  ) damaged
  LEFT JOIN LATERAL (
    SELECT id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = wanted.session AND agent = ''
    ORDER BY made_at DESC, id DESC, encoding DESC LIMIT 1
  ) newest ON true
  ORDER BY wanted.place";

pub async fn usage(connection: &Connection, sessions: &[&str]) -> Result<Vec<Usage>, Failure> {
  let rows = connection.query(USAGE, &[&sessions]).await?;
  let usage = |row: &Row| {
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
  };
  rows.iter().map(usage).collect()
}

/// The ids in the first column. What is no id was put there by somebody else.
pub fn ids<T>(rows: &[Row], parse: impl Fn(&str) -> crate::types::error::Result<T>) -> Result<Vec<T>, Failure> {
  let mut ids = Vec::with_capacity(rows.len());
  for row in rows {
    ids.extend(parse(row.try_get(0)?).ok());
  }
  Ok(ids)
}
