//! Bases of deltas, in pieces: appending to a base rewrites nothing. Appending is part of storing a delta.

use super::checkpoints::agent_text;
use super::connection::Connection;
use super::contents::Contents;
use super::error::PgError;
use super::leases;
use super::payload::{to_signed, to_unsigned};
use super::sql::{LOCK_SESSION_IF_PRESENT, SQL};
use crate::backend::Series;
use crate::types::id::{AgentId, CheckpointId, SessionId};

/// The primary key of a base.
#[derive(Debug, Clone, Copy)]
pub struct BaseKey<'a> {
  session_id: &'a SessionId,
  session: &'a str,
  agent: &'a str,
  id: &'a str,
}

impl<'a> BaseKey<'a> {
  pub fn new(session: &'a SessionId, agent: Option<&'a AgentId>, id: &'a CheckpointId) -> Self {
    Self {
      session_id: session,
      session: session.as_str(),
      agent: agent_text(agent),
      id: id.as_str(),
    }
  }
}

/// Replaces a whole base.
pub async fn put(connection: &Connection, key: &BaseKey<'_>, fence: Option<i64>, bytes: &[u8]) -> Result<(), PgError> {
  let rows = connection
    .execute(&SQL.put_base, &[&key.session, &fence, &key.agent, &key.id, &bytes])
    .await;
  if leases::creating_write_outcome(connection, key.session_id, fence, rows).await? {
    Ok(())
  } else {
    Err(PgError::RetryNow)
  }
}

/// Stores a base of a session that is being created.
pub async fn add(connection: &Connection, key: &BaseKey<'_>, bytes: &[u8]) -> Result<(), PgError> {
  let sql = "INSERT INTO waymark.keys (session, agent, id, start, size, bytes)
    VALUES ($1, $2, $3, 0, octet_length($4::bytea), $4)";
  connection
    .query(sql, &[&key.session, &key.agent, &key.id, &bytes])
    .await
    .map(drop)
}

pub async fn read(connection: &Connection, key: &BaseKey<'_>, limit: u64) -> Result<Option<Contents>, PgError> {
  // Do not load what is too large.
  let sql = "WITH total AS (
      SELECT coalesce(sum(octet_length(bytes)), 0)::bigint AS size FROM waymark.keys
      WHERE session = $1 AND agent = $2 AND id = $3
    )
    SELECT total.size, k.bytes FROM total
    LEFT JOIN waymark.keys k ON k.session = $1 AND k.agent = $2 AND k.id = $3 AND total.size <= $4
    ORDER BY k.start";
  let rows = connection
    .query(sql, &[&key.session, &key.agent, &key.id, &to_signed(limit)])
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

pub async fn delete(connection: &Connection, key: &BaseKey<'_>, fence: Option<i64>) -> Result<bool, PgError> {
  let rows = connection
    .execute(&SQL.delete_base, &[&key.session, &fence, &key.agent, &key.id])
    .await?;
  let is_deleted = leases::write_outcome(connection, key.session_id, fence, &rows).await?;
  Ok(is_deleted || connection.is_retry)
}

/// The bases of a series, with their sizes.
pub async fn list(connection: &Connection, series: &Series) -> Result<Vec<(CheckpointId, u64)>, PgError> {
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

/// Deletes the unused bases of a series, and returns how many bytes they had. Needs no lease if there are none.
pub async fn delete_unused(connection: &Connection, series: &Series, fence: Option<i64>) -> Result<u64, PgError> {
  let (session, agent) = (series.session.as_str(), agent_text(series.agent.as_ref()));
  let answers = connection
    .execute_together(&[
      (LOCK_SESSION_IF_PRESENT, &[&session]),
      (&SQL.delete_unused_bases, &[&session, &fence, &agent]),
    ])
    .await?;
  let row = answers.last().and_then(|rows| rows.first()).ok_or(PgError::RetryNow)?;
  let is_refused = row.try_get(0)?;
  if is_refused {
    leases::explain_refusal(connection, &series.session, fence).await?;
  }
  Ok(to_unsigned(row.try_get(1)?))
}
