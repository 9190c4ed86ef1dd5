//! How checkpoints go, and the keys that nothing stands on any more.

use tokio_postgres::Row;

use super::checkpoints::{CheckpointKey, where_id, where_id_under, where_key_under};
use super::connection::Connection;
use super::contents::Contents;
use super::documents::DocumentToken;
use super::failure::Failure;
use super::payload::to_signed;
use super::sql::HOLD_SESSION;
use super::{documents, leases, lists};
use crate::backend::{CheckpointEntry, Item};

/// The condition that retention may remove a checkpoint: it is not pinned, and not the newest.
macro_rules! is_surplus {
  () => {
    " AND NOT pinned AND EXISTS (
        SELECT 1 FROM waymark.checkpoints newer WHERE newer.session = $1 AND newer.agent = $3
          AND (newer.made_at, newer.id) > (checkpoints.made_at, checkpoints.id)
      )"
  };
}

/// Removes a checkpoint, in whatever encoding, and the key that it was the last delta to stand on. The session is held: a delta that another statement stores
/// on that key is there before it, or finds the key gone.
macro_rules! remove {
  ($($condition:expr),+) => {
    with_session!(
      "gone AS (",
      where_id_under!("DELETE FROM waymark.checkpoints"),
      $($condition),+,
      " AND EXISTS (SELECT 1 FROM place) RETURNING key),
      released AS (
        DELETE FROM waymark.keys USING gone
        WHERE keys.session = $1 AND keys.agent = $3 AND keys.id = gone.key AND NOT EXISTS (
          SELECT 1 FROM waymark.checkpoints c
          WHERE c.session = $1 AND c.agent = $3 AND c.key = gone.key AND c.id <> $4
        )
      )",
      answer!("gone")
    )
  };
}

/// How many go behind one checkpoint: nobody waits for the removal of thousands.
macro_rules! at_once {
  () => {
    "64"
  };
}

/// Removes what is beyond so many, `$6`, of a series, unless the session says itself what stays. It comes right behind a checkpoint,
/// which is spared, in the same journey, and does nothing if that one was refused; what it leaves, such as deltas, which have keys, others look after.
///
/// The disk is not waited for, since it does no harm if they are back after a power cut; and somebody who holds one of them is not
/// waited for either. Those that go lie between two of them, however little the server knows of the table: a join would be a
/// matter of luck.
pub const REMOVE_BEYOND: &str = with_session!(
  "rules AS (",
  documents::columns!("$8"),
  " FROM waymark.documents d WHERE d.session = $1 AND d.name = $7
  ),
  newest AS (
    SELECT id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = $1 AND agent = $3
    ORDER BY made_at DESC, id DESC, encoding DESC LIMIT 1
  ),
  beyond AS MATERIALIZED (
    SELECT made_at, id, encoding FROM waymark.checkpoints WHERE session = $1 AND agent = $3 AND NOT pinned
    ORDER BY made_at DESC, id DESC, encoding DESC OFFSET $6::bigint LIMIT ",
  at_once!(),
  "
  ),
  gone AS (
    DELETE FROM waymark.checkpoints WHERE session = $1 AND agent = $3
      AND (made_at, id, encoding) <= (SELECT made_at, id, encoding FROM beyond ORDER BY 1 DESC, 2 DESC, 3 DESC LIMIT 1)
      AND (made_at, id, encoding) >= (SELECT made_at, id, encoding FROM beyond ORDER BY 1, 2, 3 LIMIT 1)
      AND NOT (id = $4 AND encoding = $5) AND NOT pinned AND key IS NULL
      AND EXISTS (SELECT 1 FROM waymark.checkpoints WHERE session = $1 AND agent = $3 AND id = $4)
      AND EXISTS (SELECT 1 FROM place) AND ($3 > '' OR NOT EXISTS (SELECT 1 FROM rules WHERE size IS NOT NULL))
      AND (SELECT set_config('synchronous_commit', 'off', true) || set_config('lock_timeout', '100', true)) > ''
    RETURNING 1
  )",
  answer!("gone"),
  ", (SELECT size FROM rules), (SELECT packed FROM rules), (SELECT bytes FROM rules),
    (SELECT count(*) < ",
  at_once!(),
  " AND count(*) = (SELECT count(*) FROM gone) FROM beyond), newest.* FROM newest"
);

/// What it answers.
pub struct RemovedBeyond {
  /// What the session says of which stay.
  pub retention: Option<Contents>,
  /// The newest of all, if nothing is left that should have gone.
  pub newest: Option<CheckpointEntry>,
}

impl RemovedBeyond {
  pub fn read(row: &Row) -> Result<Self, Failure> {
    let newest = if row.try_get(5)? { lists::entry(row, 6)? } else { None };
    Ok(Self {
      retention: documents::contents(row, 2)?,
      newest,
    })
  }
}

pub async fn remove(connection: &Connection, key: &CheckpointKey<'_>, fence: Option<i64>) -> Result<bool, Failure> {
  delete(connection, key, fence, remove!("")).await
}

/// The same, unless it is pinned or the newest.
pub async fn remove_unless_kept(
  connection: &Connection,
  key: &CheckpointKey<'_>,
  fence: Option<i64>,
) -> Result<bool, Failure> {
  delete(connection, key, fence, remove!(is_surplus!())).await
}

/// The same, if the labels of the session are still those that were seen. Labels are given while the session is locked, so none
/// can be given between the look at them and the removal.
pub async fn remove_unless_labelled(
  connection: &Connection,
  key: &CheckpointKey<'_>,
  fence: Option<i64>,
  seen: DocumentToken,
) -> Result<bool, Failure> {
  let sql = remove!(
    is_surplus!(),
    " AND (SELECT tokens[1] FROM waymark.documents WHERE session = $1 AND name = $5::text)
      IS NOT DISTINCT FROM $6::uuid"
  );
  let (named, labels) = (key.with(&[]), Item::LABELS.to_string());
  let params = key.under(&fence, &[&labels, &seen.0]);
  let params = [&params[..4], &params[5..]].concat();
  let answers = connection
    .change_together(&[(HOLD_SESSION, &named[..1]), (sql, &params)])
    .await?;
  let rows = answers.into_iter().last().unwrap_or_default();
  leases::let_in(connection, key.of, fence, &rows).await
}

async fn delete(
  connection: &Connection,
  key: &CheckpointKey<'_>,
  fence: Option<i64>,
  sql: &str,
) -> Result<bool, Failure> {
  let (named, params) = (key.with(&[]), key.under(&fence, &[]));
  let (named, params) = (&named[..3], &params[..4]);
  let answers = connection
    .change_together(&[(HOLD_SESSION, &named[..1]), (sql, params)])
    .await?;
  let rows = answers.into_iter().last().unwrap_or_default();
  let gone = leases::let_in(connection, key.of, fence, &rows).await?;
  if gone || !connection.is_repeat {
    return Ok(gone);
  }
  // Nobody answered the first time; what is not there any more was there then.
  let sql = where_id!("SELECT 1 FROM waymark.checkpoints");
  Ok(connection.query(sql, named).await?.is_empty())
}

/// Moves a checkpoint to where it is not read any more, if it is still what `judged` says. What it stood on stays: it may show what
/// was damaged.
pub async fn set_aside(
  connection: &Connection,
  key: &CheckpointKey<'_>,
  fence: Option<i64>,
  judged: &Contents,
  new_name: &str,
) -> Result<bool, Failure> {
  let sql = with_session!(
    "gone AS (",
    where_key_under!("DELETE FROM waymark.checkpoints"),
    " AND size = $7::bigint AND packed = $8::boolean AND head = $9::bytea AND tail = $10::bytea AND middle = $11::bytea
      AND EXISTS (SELECT 1 FROM place) RETURNING size, packed, head, tail, middle),
    moved AS (
      INSERT INTO waymark.damaged (session, name, size, packed, head, tail, middle)
      SELECT $1, $6::text, size, packed, head, tail, middle FROM gone RETURNING 1
    ),
    done AS (SELECT 1 FROM moved UNION ALL SELECT 1 FROM waymark.damaged WHERE session = $1 AND name = $6)",
    answer!("done")
  );
  let (named, size) = (key.with(&[]), to_signed(judged.size));
  let params = key.under(
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
  let answers = connection
    .change_together(&[(HOLD_SESSION, &named[..1]), (sql, &params)])
    .await?;
  let rows = answers.into_iter().last().unwrap_or_default();
  leases::let_in(connection, key.of, fence, &rows).await
}
