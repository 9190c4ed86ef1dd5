//! What several statements have in common.

use tokio_postgres::Row;

use super::failure::Failure;

/// Keeps the session where it is until the statement is done, and makes it if it is not there: `place` has one row. It has
/// none if something in the session was pinned while the statement waited: what else it reads is older than that, and it has
/// to be made again.
///
/// Locks are taken in the same order everywhere: the session, keys, documents by their names, checkpoints. Who deletes a
/// session, founds it, or has to be alone in it locks it for an update.
macro_rules! with_place {
  ($($sql:expr),+) => {
    concat!(
      "WITH held AS (SELECT id, pins FROM waymark.sessions WHERE id = $1::text FOR SHARE),
      made AS (
        INSERT INTO waymark.sessions (id) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM held)
        ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING id
      ),
      place AS (
        SELECT held.id FROM held WHERE held.pins = (SELECT pins FROM waymark.sessions WHERE id = $1)
        UNION ALL SELECT made.id FROM made
      ), ",
      $($sql),+
    )
  };
}

/// Keeps everybody else out of a session until the transaction is over. A session that is not there divides by zero.
pub const LOCK_SESSION: &str = "WITH held AS (SELECT id FROM waymark.sessions WHERE id = $1 FOR UPDATE)
  SELECT 1 / count(*) FROM held";

/// Keeps a session from being deleted until the transaction is over.
pub const SHARE_SESSION: &str = "SELECT 1 FROM waymark.sessions WHERE id = $1 FOR SHARE";

/// How a statement ends that moves something aside, under a name that nobody else has: an earlier attempt may have done it.
macro_rules! set_aside_answer {
  ($name:literal) => {
    concat!(
      " SELECT EXISTS (SELECT 1 FROM moved) OR EXISTS (SELECT 1 FROM waymark.damaged WHERE session = $1 AND name = ",
      $name,
      ")"
    )
  };
}

/// What such a statement says.
pub fn is_set_aside(rows: &[Row]) -> Result<bool, Failure> {
  let is_set_aside = rows.first().map(|row| row.try_get(0)).transpose()?;
  Ok(is_set_aside.unwrap_or(false))
}

pub(super) use {set_aside_answer, with_place};
