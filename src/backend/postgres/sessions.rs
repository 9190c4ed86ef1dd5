//! Sessions as rows: creation, lists and usage.

use tokio_postgres::Row;

use super::connection::Connection;
use super::error::PgError;
use super::payload::to_unsigned;
use super::sql::SQL;
use super::{leases, lists};
use crate::backend::Usage;
use crate::types::error::Result as StoreResult;
use crate::types::id::SessionId;

/// Creates a session if it does not exist.
pub async fn create(connection: &Connection, session: &SessionId, fence: Option<i64>) -> Result<(), PgError> {
  let rows = connection
    .execute(&SQL.create_session, &[&session.as_str(), &fence])
    .await;
  leases::creating_write_outcome(connection, session, fence, rows)
    .await
    .map(drop)
}

/// All sessions, or those with a document of that name.
pub async fn list(connection: &Connection, document: Option<&str>) -> Result<Vec<SessionId>, PgError> {
  let sql = "SELECT id FROM waymark.sessions
    WHERE present AND ($1::text IS NULL OR EXISTS (
      SELECT 1 FROM waymark.documents WHERE session = sessions.id AND name = $1 AND size IS NOT NULL
    ))
    ORDER BY id";
  ids(&connection.query(sql, &[&document]).await?, SessionId::parse)
}

/// The usage of each session, in their order.
pub async fn usage(connection: &Connection, sessions: &[&str]) -> Result<Vec<Usage>, PgError> {
  let rows = connection.query(&SQL.read_usage, &[&sessions]).await?;
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

/// The ids in the first column. Skips names that are not valid ids.
pub fn ids<T>(rows: &[Row], parse: impl Fn(&str) -> StoreResult<T>) -> Result<Vec<T>, PgError> {
  let mut ids = Vec::with_capacity(rows.len());
  for row in rows {
    ids.extend(parse(row.try_get(0)?).ok());
  }
  Ok(ids)
}
