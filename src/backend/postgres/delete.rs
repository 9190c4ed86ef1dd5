//! Deletion and quarantine of items.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::checkpoints::CheckpointKey;
use super::connection::Connection;
use super::contents::Contents;
use super::documents::{DocumentKey, DocumentToken, version_number};
use super::error::PgError;
use super::leases;
use super::payload::to_signed;
use super::sql::{LOCK_SESSION_IF_PRESENT, SQL};
use crate::backend::Item;

/// Deletes a checkpoint, in any encoding.
pub async fn delete_checkpoint(
  connection: &Connection,
  key: &CheckpointKey<'_>,
  fence: Option<i64>,
) -> Result<bool, PgError> {
  let params = key.write_params(&fence, &[]);
  delete_with(connection, key, fence, &SQL.delete_checkpoint, &params[..4]).await
}

/// Deletes a checkpoint unless it is pinned or the newest of its series.
pub async fn delete_checkpoint_if_deletable(
  connection: &Connection,
  key: &CheckpointKey<'_>,
  fence: Option<i64>,
) -> Result<bool, PgError> {
  let params = key.write_params(&fence, &[]);
  delete_with(
    connection,
    key,
    fence,
    &SQL.delete_checkpoint_if_deletable,
    &params[..4],
  )
  .await
}

/// The same, if the labels of the session still have the token `seen`. Labels are given under the lock of the session, so none is
/// given between this check and the deletion.
pub async fn delete_checkpoint_if_unlabelled(
  connection: &Connection,
  key: &CheckpointKey<'_>,
  fence: Option<i64>,
  seen: DocumentToken,
) -> Result<bool, PgError> {
  let labels = Item::LABELS.to_string();
  let params = key.write_params(&fence, &[&labels, &seen.0]);
  // Without the encoding.
  let params = [&params[..4], &params[5..]].concat();
  delete_with(connection, key, fence, &SQL.delete_checkpoint_if_unlabelled, &params).await
}

async fn delete_with(
  connection: &Connection,
  key: &CheckpointKey<'_>,
  fence: Option<i64>,
  sql: &str,
  params: &[&(dyn ToSql + Sync)],
) -> Result<bool, PgError> {
  let is_deleted = run_locked(connection, key, fence, sql, params).await?;
  if is_deleted || !connection.is_retry {
    return Ok(is_deleted);
  }
  // If the checkpoint is missing now, an earlier attempt has deleted it.
  let sql = "SELECT 1 FROM waymark.checkpoints WHERE session = $1 AND agent = $2 AND id = $3";
  Ok(connection.query(sql, &key.read_params(&[])[..3]).await?.is_empty())
}

/// Moves a checkpoint to the table of damaged ones, if it still holds the bytes of `judged`. Its base stays: it may show what was
/// damaged.
pub async fn quarantine(
  connection: &Connection,
  key: &CheckpointKey<'_>,
  fence: Option<i64>,
  judged: &Contents,
  new_name: &str,
) -> Result<bool, PgError> {
  let size = to_signed(judged.size);
  let params = key.write_params(
    &fence,
    &[
      &new_name,
      &size,
      &judged.is_packed,
      &judged.head,
      &judged.tail,
      &judged.middle,
    ],
  );
  run_locked(connection, key, fence, &SQL.quarantine_checkpoint, &params).await
}

/// Runs a statement under the lock of the session, and says whether it changed anything.
async fn run_locked(
  connection: &Connection,
  key: &CheckpointKey<'_>,
  fence: Option<i64>,
  sql: &str,
  params: &[&(dyn ToSql + Sync)],
) -> Result<bool, PgError> {
  let answers = connection
    .execute_together(&[(LOCK_SESSION_IF_PRESENT, &[&key.session]), (sql, params)])
    .await?;
  let rows = answers.into_iter().last().unwrap_or_default();
  leases::write_outcome(connection, key.session_id, fence, &rows).await
}

/// Deletes a document, a task result, or an earlier version. `number` keeps the number of the version from the first attempt on:
/// after the version is deleted, another one has its position.
pub async fn delete_document(
  connection: &Connection,
  key: &DocumentKey<'_>,
  fence: Option<i64>,
  token: Uuid,
  number: &mut Option<i64>,
) -> Result<bool, PgError> {
  let Some(skipped) = key.skipped() else {
    let rows = connection
      .execute(&SQL.delete_document, &[&key.session, &fence, &key.name, &token])
      .await?;
    return leases::write_outcome(connection, key.session_id, fence, &rows).await;
  };
  if number.is_none() {
    *number = version_number(connection, key, skipped).await?;
  }
  let rows = connection
    .execute(&SQL.delete_version, &[&key.session, &fence, &key.name, number])
    .await?;
  let is_deleted = leases::write_outcome(connection, key.session_id, fence, &rows).await?;
  Ok(is_deleted || (number.is_some() && connection.is_retry))
}
