//! How checkpoints go, and the keys that nothing stands on any more.

use super::checkpoints::{Key, where_key};
use super::connection::Connection;
use super::failure::Failure;
use super::sql::{SHARE_SESSION, is_set_aside, set_aside_answer};

/// Keeps a key as it is, while what stands on it goes. Who stores something on it waits for that.
const LOCK_KEY: &str = "SELECT k.start FROM waymark.keys k
  JOIN waymark.checkpoints c ON c.session = k.session AND c.agent = k.agent AND c.key = k.id
  WHERE c.session = $1 AND c.agent = $2 AND c.id = $3 AND c.encoding = $4 AND k.start = 0
  FOR UPDATE OF k";

/// Removes a delta, and the key that it was the last one to stand on.
macro_rules! remove_delta {
  ($condition:literal) => {
    concat!(
      "WITH gone AS (",
      where_key!("DELETE FROM waymark.checkpoints"),
      $condition,
      " RETURNING key),
      released AS (
        DELETE FROM waymark.keys USING gone
        WHERE keys.session = $1 AND keys.agent = $2 AND keys.id = gone.key AND NOT EXISTS (
          SELECT 1 FROM waymark.checkpoints c
          WHERE c.session = $1 AND c.agent = $2 AND c.key = gone.key AND (c.id <> $3 OR c.encoding <> $4)
        )
      )
      SELECT 1 FROM gone"
    )
  };
}

pub async fn remove(connection: &Connection, key: &Key<'_>) -> Result<bool, Failure> {
  let plain = concat!(where_key!("DELETE FROM waymark.checkpoints"), " RETURNING 1");
  delete(connection, key, plain, remove_delta!("")).await
}

/// The same, unless it is pinned.
pub async fn retire(connection: &Connection, key: &Key<'_>) -> Result<bool, Failure> {
  let plain = concat!(
    where_key!("DELETE FROM waymark.checkpoints"),
    " AND NOT pinned RETURNING 1"
  );
  delete(connection, key, plain, remove_delta!(" AND NOT pinned")).await
}

async fn delete(connection: &Connection, key: &Key<'_>, plain: &str, of_delta: &str) -> Result<bool, Failure> {
  let params = key.with(&[]);
  let gone = if key.is_delta() {
    let answers = connection
      .change_together(&[(SHARE_SESSION, &params[..1]), (LOCK_KEY, &params), (of_delta, &params)])
      .await?;
    answers.last().is_some_and(|rows| !rows.is_empty())
  } else {
    !connection.change(plain, &params).await?.is_empty()
  };
  if gone || !connection.is_repeat {
    return Ok(gone);
  }
  // Nobody answered the first time; what is not there any more was there then.
  let sql = where_key!("SELECT 1 FROM waymark.checkpoints");
  Ok(connection.query(sql, &params).await?.is_empty())
}

/// Moves a checkpoint to where nobody reads it. What it stood on stays: without it, nobody could tell what was damaged.
pub async fn set_aside(connection: &Connection, key: &Key<'_>, new_name: &str) -> Result<bool, Failure> {
  let sql = concat!(
    "WITH held AS (SELECT 1 FROM waymark.sessions WHERE id = $1 FOR SHARE),
    gone AS (",
    where_key!("DELETE FROM waymark.checkpoints"),
    " AND EXISTS (SELECT 1 FROM held) RETURNING size, packed, head, tail, middle),
    moved AS (
      INSERT INTO waymark.damaged (session, name, size, packed, head, tail, middle)
      SELECT $1, $5::text, size, packed, head, tail, middle FROM gone RETURNING 1
    )",
    set_aside_answer!("$5")
  );
  is_set_aside(&connection.change(sql, &key.with(&[&new_name])).await?)
}
