//! Bases of deltas, in pieces: appending to a base rewrites nothing. Appending is part of storing a delta.

use super::checkpoints::agent_text;
use super::connection::Connection;
use super::contents::Contents;
use super::failure::Failure;
use super::leases;
use super::payload::{to_signed, to_unsigned};
use crate::backend::Series;
use crate::types::id::{AgentId, CheckpointId, SessionId};

/// The primary key of a base.
#[derive(Debug, Clone, Copy)]
pub struct BaseKey<'a> {
  of: &'a SessionId,
  session: &'a str,
  agent: &'a str,
  id: &'a str,
}

impl<'a> BaseKey<'a> {
  pub fn new(session: &'a SessionId, agent: Option<&'a AgentId>, id: &'a CheckpointId) -> Self {
    Self {
      of: session,
      session: session.as_str(),
      agent: agent_text(agent),
      id: id.as_str(),
    }
  }
}

/// Replaces a whole base.
pub async fn put(connection: &Connection, key: &BaseKey<'_>, fence: Option<i64>, bytes: &[u8]) -> Result<(), Failure> {
  let sql = with_place!(
    "pieces AS (
      SELECT start FROM waymark.keys
      WHERE session = $1 AND agent = $3::text AND id = $4::text AND EXISTS (SELECT 1 FROM place) ORDER BY start FOR UPDATE
    ),
    ground AS (SELECT (SELECT count(*) FROM pieces) AS pieces FROM place),
    cut AS (
      DELETE FROM waymark.keys
      WHERE session = $1 AND agent = $3 AND id = $4 AND start > 0 AND EXISTS (SELECT 1 FROM ground WHERE pieces >= 0)
    ),
    put AS (
      INSERT INTO waymark.keys (session, agent, id, start, size, bytes)
      SELECT $1, $3, $4, 0, octet_length($5::bytea), $5 FROM ground WHERE pieces >= 0
      ON CONFLICT (session, agent, id, start) DO UPDATE SET size = excluded.size, bytes = excluded.bytes
      RETURNING 1
    )",
    answer!("put")
  );
  let rows = connection
    .change(sql, &[&key.session, &fence, &key.agent, &key.id, &bytes])
    .await;
  if leases::placed(connection, key.of, fence, rows).await? {
    Ok(())
  } else {
    Err(Failure::Overtaken)
  }
}

/// For a session that is being created.
pub async fn add(connection: &Connection, key: &BaseKey<'_>, bytes: &[u8]) -> Result<(), Failure> {
  let sql = "INSERT INTO waymark.keys (session, agent, id, start, size, bytes)
    VALUES ($1, $2, $3, 0, octet_length($4::bytea), $4)";
  let params = [&key.session, &key.agent, &key.id];
  connection
    .query(sql, &[params[0], params[1], params[2], &bytes])
    .await
    .map(drop)
}

pub async fn read(connection: &Connection, key: &BaseKey<'_>, limit: u64) -> Result<Option<Contents>, Failure> {
  // Do not load what is too large.
  let sql = "WITH total AS (
      SELECT coalesce(sum(octet_length(bytes)), 0)::bigint AS size FROM waymark.keys
      WHERE session = $1 AND agent = $2 AND id = $3
    )
    SELECT total.size, k.bytes FROM total
    LEFT JOIN waymark.keys k ON k.session = $1 AND k.agent = $2 AND k.id = $3 AND total.size <= $4
    ORDER BY k.start";
  let limit_here = to_signed(limit);
  let rows = connection
    .query(sql, &[&key.session, &key.agent, &key.id, &limit_here])
    .await?;
  let size = rows
    .first()
    .map(|row| row.try_get(0))
    .transpose()?
    .map_or(0, to_unsigned);
  if size == 0 {
    return Ok(None);
  }
  if size > limit {
    return Ok(Some(Contents::whole(size, false, None)));
  }
  let mut bytes = Vec::new();
  for row in &rows {
    bytes.extend_from_slice(row.try_get::<_, Option<&[u8]>>(1)?.unwrap_or_default());
  }
  Ok(Some(Contents::whole(size, false, Some(bytes))))
}

pub async fn remove(connection: &Connection, key: &BaseKey<'_>, fence: Option<i64>) -> Result<bool, Failure> {
  let sql = with_session!(
    "gone AS (
      DELETE FROM waymark.keys WHERE session = $1 AND agent = $3 AND id = $4 AND EXISTS (SELECT 1 FROM place) RETURNING 1
    )",
    answer!("gone")
  );
  let rows = connection
    .change(sql, &[&key.session, &fence, &key.agent, &key.id])
    .await?;
  let gone = leases::let_in(connection, key.of, fence, &rows).await?;
  Ok(gone || connection.is_repeat)
}

/// The bases of a series, with their sizes.
pub async fn list(connection: &Connection, series: &Series) -> Result<Vec<(CheckpointId, u64)>, Failure> {
  let sql = "SELECT id, sum(size)::bigint FROM waymark.keys WHERE session = $1 AND agent = $2 GROUP BY id ORDER BY id";
  let (session, agent) = (series.session.as_str(), agent_text(series.agent.as_ref()));
  let mut bases = Vec::new();
  for row in connection.query(sql, &[&session, &agent]).await? {
    // Skip names that are not valid ids.
    if let Ok(id) = CheckpointId::parse(row.try_get(0)?) {
      bases.push((id, to_unsigned(row.try_get(1)?)));
    }
  }
  Ok(bases)
}

/// Deletes the unused bases of a series, and returns how many bytes they had. The session is locked meanwhile. Where there is nothing
/// to delete, no lease is needed.
pub async fn remove_unused(connection: &Connection, series: &Series, fence: Option<i64>) -> Result<u64, Failure> {
  let sql = concat!(
    "WITH unused AS (
      SELECT id, start FROM waymark.keys WHERE session = $1 AND agent = $3 AND NOT EXISTS (
        SELECT 1 FROM waymark.checkpoints c WHERE c.session = $1 AND c.agent = $3 AND c.key = keys.id
      )
    ),
    gone AS (
      DELETE FROM waymark.keys USING unused, waymark.sessions s
      WHERE keys.session = $1 AND keys.agent = $3 AND keys.id = unused.id AND keys.start = unused.start AND s.id = $1 AND ",
    admitted!("s"),
    " RETURNING keys.size
    )
    SELECT EXISTS (SELECT 1 FROM unused) AND NOT EXISTS (SELECT 1 FROM gone),
      (SELECT coalesce(sum(size), 0)::bigint FROM gone)"
  );
  let (session, agent) = (series.session.as_str(), agent_text(series.agent.as_ref()));
  let answers = connection
    .change_together(&[
      ("SELECT 1 FROM waymark.sessions WHERE id = $1 FOR UPDATE", &[&session]),
      (sql, &[&session, &fence, &agent]),
    ])
    .await?;
  let row = answers.last().and_then(|rows| rows.first()).ok_or(Failure::Overtaken)?;
  if row.try_get(0)? {
    leases::explain(connection, &series.session, fence).await?;
  }
  Ok(to_unsigned(row.try_get(1)?))
}
