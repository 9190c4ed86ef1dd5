//! Checkpoints as rows.

use tokio_postgres::types::ToSql;

use super::connection::Connection;
use super::contents::Contents;
use super::error::PgError;
use super::leases;
use super::payload::{Payload, to_signed, to_unsigned};
use super::sql::SQL;
pub use crate::backend::sql::agent_column as agent_text;
use crate::backend::sql::{SplitCheckpoint, base_of_delta, encoding_number, encoding_of_number};
use crate::backend::{CheckpointEntry, Encoding, Series, time_in_id};
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::time::Timestamp;

/// The primary key of a checkpoint, and its encoding.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointKey<'a> {
  pub session_id: &'a SessionId,
  pub session: &'a str,
  agent: &'a str,
  id: &'a str,
  encoding: i16,
}

impl<'a> CheckpointKey<'a> {
  pub fn new(session: &'a SessionId, agent: Option<&'a AgentId>, id: &'a CheckpointId, encoding: Encoding) -> Self {
    Self {
      session_id: session,
      session: session.as_str(),
      agent: agent_text(agent),
      id: id.as_str(),
      encoding: number_of(encoding),
    }
  }

  pub fn of(series: &'a Series, entry: &'a CheckpointEntry) -> Self {
    Self::new(&series.session, series.agent.as_ref(), &entry.id, entry.encoding)
  }

  pub fn is_delta(&self) -> bool {
    self.encoding == number_of(Encoding::Delta)
  }

  /// The parameters of a statement that reads: session, agent, id, encoding, then `more`.
  pub fn read_params<'p>(&'p self, more: &[&'p (dyn ToSql + Sync)]) -> Vec<&'p (dyn ToSql + Sync)> {
    let key: [&(dyn ToSql + Sync); 4] = [&self.session, &self.agent, &self.id, &self.encoding];
    [&key, more].concat()
  }

  /// The parameters of a statement that writes: session, fencing token, agent, id, encoding, then `more`.
  pub fn write_params<'p>(
    &'p self,
    fence: &'p (dyn ToSql + Sync),
    more: &[&'p (dyn ToSql + Sync)],
  ) -> Vec<&'p (dyn ToSql + Sync)> {
    let key: [&(dyn ToSql + Sync); 5] = [&self.session, fence, &self.agent, &self.id, &self.encoding];
    [&key, more].concat()
  }
}

pub fn number_of(encoding: Encoding) -> i16 {
  encoding_number(encoding).into()
}

/// `None` for a number that no store writes.
pub fn encoding_of(number: i16) -> Option<Encoding> {
  encoding_of_number(u8::try_from(number).ok()?)
}

/// The columns of a checkpoint. Lists read only its head and its tail.
pub struct Parts<'a> {
  pub size: i64,
  pub made_at: i64,
  pub base: Option<String>,
  pub head: &'a [u8],
  pub middle: Payload<'a>,
  pub tail: &'a [u8],
}

impl<'a> Parts<'a> {
  pub fn of(key: &CheckpointKey<'_>, bytes: &'a [u8]) -> Self {
    let SplitCheckpoint { head, middle, tail } = SplitCheckpoint::new(bytes);
    Self {
      size: to_signed(bytes.len() as u64),
      made_at: to_signed(time_in_id(key.id).unwrap_or_else(Timestamp::now).as_millis()),
      base: if key.is_delta() { base_of_delta(bytes) } else { None },
      head,
      // All other encodings are compressed already.
      middle: if key.encoding == number_of(Encoding::Json) {
        Payload::packed(middle)
      } else {
        Payload::plain(middle)
      },
      tail,
    }
  }
}

/// Stores a checkpoint of a session that is being created. Of two encodings of one checkpoint, the first is kept.
pub async fn add(
  connection: &Connection,
  key: &CheckpointKey<'_>,
  bytes: &[u8],
  made_at: Option<Timestamp>,
  is_pinned: bool,
) -> Result<(), PgError> {
  let parts = Parts::of(key, bytes);
  let (made_at, middle) = (
    made_at.map_or(parts.made_at, |time| to_signed(time.as_millis())),
    &*parts.middle.bytes,
  );
  let sql = "INSERT INTO waymark.checkpoints
      (session, agent, id, encoding, made_at, pinned, size, key, packed, head, tail, middle)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    ON CONFLICT (id, session, agent) DO UPDATE SET pinned = checkpoints.pinned OR excluded.pinned";
  let params = key.read_params(&[
    &made_at,
    &is_pinned,
    &parts.size,
    &parts.base,
    &parts.middle.is_packed,
    &parts.head,
    &parts.tail,
    &middle,
  ]);
  connection.query(sql, &params).await.map(drop)
}

pub async fn read(connection: &Connection, key: &CheckpointKey<'_>, limit: u64) -> Result<Option<Contents>, PgError> {
  // Do not load what is too large, whatever its `size` says.
  let sql = "SELECT size, packed, head, tail,
      CASE WHEN greatest(size, octet_length(head) + octet_length(middle) + octet_length(tail)) <= $5 THEN middle END
    FROM waymark.checkpoints WHERE session = $1 AND agent = $2 AND id = $3 AND encoding = $4";
  let rows = connection.query(sql, &key.read_params(&[&to_signed(limit)])).await?;
  let Some(row) = rows.first() else {
    return Ok(None);
  };
  Ok(Some(Contents {
    size: to_unsigned(row.try_get(0)?),
    is_packed: row.try_get(1)?,
    head: row.try_get(2)?,
    tail: row.try_get(3)?,
    middle: row.try_get(4)?,
  }))
}

pub async fn set_made_at(
  connection: &Connection,
  series: &Series,
  id: &CheckpointId,
  fence: Option<i64>,
  made_at: Timestamp,
) -> Result<bool, PgError> {
  let (session, agent) = (series.session.as_str(), agent_text(series.agent.as_ref()));
  let params: [&(dyn ToSql + Sync); 5] = [&session, &fence, &agent, &id.as_str(), &to_signed(made_at.as_millis())];
  let rows = connection.execute(&SQL.set_made_at, &params).await?;
  leases::write_outcome(connection, &series.session, fence, &rows).await
}

pub async fn set_pinned(
  connection: &Connection,
  series: &Series,
  id: &CheckpointId,
  fence: Option<i64>,
  is_pinned: bool,
) -> Result<bool, PgError> {
  let (session, agent) = (series.session.as_str(), agent_text(series.agent.as_ref()));
  let answers = connection
    .execute_together(&[
      (&SQL.lock_session, &[&session, &fence]),
      // A concurrent write of the same checkpoint in another encoding must see the pin: it repeats itself if `pins` has changed.
      ("UPDATE waymark.sessions SET pins = pins + 1 WHERE id = $1", &[&session]),
      (
        "UPDATE waymark.checkpoints SET pinned = $4 WHERE session = $1 AND agent = $2 AND id = $3 RETURNING 1",
        &[&session, &agent, &id.as_str(), &is_pinned],
      ),
    ])
    .await;
  let answers = leases::locked_write_outcome(connection, &series.session, fence, answers).await?;
  Ok(answers.is_some_and(|answers| answers.last().is_some_and(|rows| !rows.is_empty())))
}
