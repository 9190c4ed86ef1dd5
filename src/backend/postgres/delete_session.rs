//! Deletion of sessions.

use super::connection::{Connection, Params, is_failed_check};
use super::contents::Contents;
use super::error::PgError;
use super::sql::SQL;
use super::{documents, leases};
use crate::backend::Item;
use crate::types::error::Result as StoreResult;
use crate::types::id::SessionId;

/// Deletes everything in a session that the transaction has locked. The first parameter is the session; the flag says whether the
/// fencing token is the second. The row of the session stays if its lease is held, or is the one that this deletion is written
/// under.
const DELETE_ALL: [(&str, bool); 7] = [
  ("DELETE FROM waymark.checkpoints WHERE session = $1", false),
  ("DELETE FROM waymark.keys WHERE session = $1", false),
  ("DELETE FROM waymark.documents WHERE session = $1", false),
  ("DELETE FROM waymark.previous WHERE session = $1", false),
  ("DELETE FROM waymark.damaged WHERE session = $1", false),
  (
    "DELETE FROM waymark.sessions WHERE id = $1 AND (lease_expires IS NULL OR lease_expires = 0
      OR (lease_expires <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
        AND lease_number IS DISTINCT FROM $2::bigint))",
    true,
  ),
  (
    "UPDATE waymark.sessions SET present = false, founder = NULL WHERE id = $1",
    false,
  ),
];

/// Deletes a session, and says whether it existed.
pub async fn delete(connection: &Connection, session: &SessionId, fence: Option<i64>) -> Result<bool, PgError> {
  let id = session.as_str();
  let (named, fenced): (Params<'_>, Params<'_>) = (&[&id], &[&id, &fence]);
  let mut statements = vec![(SQL.lock_session.as_str(), fenced)];
  statements.extend(DELETE_ALL.map(|(sql, is_fenced)| (sql, if is_fenced { fenced } else { named })));
  let deleted = connection.execute_together(&statements).await;
  let deleted = leases::locked_write_outcome(connection, session, fence, deleted).await?;
  Ok(deleted.is_some())
}

/// The outcome of a conditional deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteOutcome {
  Deleted,
  Kept,
  /// The session does not exist.
  Missing,
}

/// Deletes a session if `decide` accepts its document. The session is locked from before the document is read until the end of
/// the transaction, and every write to it needs a share of that lock. `is_sent` is set before the commit, whose answer may be
/// lost.
pub async fn delete_if(
  connection: &Connection,
  session: &SessionId,
  fence: Option<i64>,
  limit: u64,
  decide: &mut impl FnMut(Option<Contents>) -> StoreResult<bool>,
  is_sent: &mut bool,
) -> Result<DeleteOutcome, PgError> {
  let (id, document) = (session.as_str(), documents::DocumentKey::new(session, Item::SESSION));
  connection.begin().await?;
  // Do not check the lease yet: if the session is kept, an expired lease must not be ended.
  let sql = "SELECT 1 FROM waymark.sessions WHERE id = $1 AND present FOR UPDATE";
  if connection.query(sql, &[&id]).await?.is_empty() {
    connection.rollback().await?;
    leases::check_fence(connection, session, fence).await?;
    return Ok(DeleteOutcome::Missing);
  }
  let contents = documents::read(connection, &document, limit).await?;
  match decide(contents) {
    Ok(true) => {}
    decided => {
      connection.rollback().await?;
      leases::check_fence(connection, session, fence).await?;
      decided?;
      return Ok(DeleteOutcome::Kept);
    }
  }
  if let Err(error) = connection.query(&SQL.lock_session, &[&id, &fence]).await {
    connection.rollback().await?;
    if is_failed_check(&error) {
      leases::explain_refusal(connection, session, fence).await?;
      return Err(PgError::RetryNow);
    }
    return Err(error);
  }
  for (sql, is_fenced) in DELETE_ALL {
    let params: Params<'_> = if is_fenced { &[&id, &fence] } else { &[&id] };
    connection.query(sql, params).await?;
  }
  *is_sent = true;
  connection.commit().await?;
  Ok(DeleteOutcome::Deleted)
}
