//! How documents go, and earlier versions of them.

use uuid::Uuid;

use super::connection::Connection;
use super::documents::{DocumentKey, number};
use super::failure::Failure;
use super::leases;

/// Removes a document, or an earlier version of it. `found` is the number of the version, once an attempt has found it: when
/// it is gone, another one is as many versions ago.
pub async fn remove(
  connection: &Connection,
  key: &DocumentKey<'_>,
  fence: Option<i64>,
  token: Uuid,
  found: &mut Option<i64>,
) -> Result<bool, Failure> {
  let Some(skipped) = key.skipped() else {
    // Its row stays, for the sake of earlier versions and of those who make a change a second time.
    let sql = with_session!(
      "gone AS (
        UPDATE waymark.documents SET size = NULL, packed = NULL, bytes = NULL, tokens = (ARRAY[$4::uuid] || tokens)[1:64],
          changed_at = (ARRAY[clock_timestamp()] || changed_at)[1:64]
        WHERE session = $1 AND name = $3 AND size IS NOT NULL AND EXISTS (SELECT 1 FROM place) RETURNING 1
      ),
      done AS (
        SELECT 1 FROM gone
        UNION ALL SELECT 1 FROM waymark.documents WHERE session = $1 AND name = $3 AND $4 = ANY (tokens)
      )",
      answer!("done")
    );
    let rows = connection
      .change(sql, &[&key.session, &fence, &key.name, &token])
      .await?;
    return leases::let_in(connection, key.of, fence, &rows).await;
  };
  if found.is_none() {
    *found = number(connection, key, skipped).await?;
  }
  let sql = with_session!(
    "gone AS (
      DELETE FROM waymark.previous
      WHERE session = $1 AND name = $3 AND number = $4 AND EXISTS (SELECT 1 FROM place) RETURNING 1
    )",
    answer!("gone")
  );
  let rows = connection
    .change(sql, &[&key.session, &fence, &key.name, found])
    .await?;
  let gone = leases::let_in(connection, key.of, fence, &rows).await?;
  Ok(gone || (found.is_some() && connection.is_repeat))
}
