//! What several statements have in common. Their first two parameters are a session, and the number under which somebody
//! writes to it.
//!
//! Locks are taken in the same order everywhere: the session, keys, documents by their names, checkpoints. Who deletes a
//! session, founds it, or has to be alone in it locks it for an update; so does who takes it over. A statement that had to
//! wait sees the row of the session as it is then, and everything else as it was when it began.

use tokio_postgres::Row;

use super::failure::Failure;

/// The clock of the server, in milliseconds.
macro_rules! now {
  () => {
    "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
  };
}

/// Whether a row of a session admits who writes under the second parameter; as `lease::admit` has it. Whoever writes without a
/// lease and finds one that is past its time has to end that first: see `leases::explain`.
macro_rules! admitted {
  ($row:literal) => {
    concat!(
      "CASE WHEN ",
      $row,
      ".lease_number IS NULL THEN $2::bigint IS NULL WHEN $2 IS NULL THEN ",
      $row,
      ".lease_expires = 0 ELSE ",
      $row,
      ".lease_number = $2 AND ",
      $row,
      ".lease_expires > 0 END"
    )
  };
}

/// Keeps a session as it is until the statement is done. `place` has a row if it is there, and admits who writes.
macro_rules! with_session {
  ($($sql:expr),+) => {
    concat!(
      "WITH held AS (
        SELECT id, lease_number, lease_expires FROM waymark.sessions WHERE id = $1::text AND present FOR SHARE
      ),
      place AS (SELECT held.id FROM held WHERE ",
      admitted!("held"),
      "), ",
      $($sql),+
    )
  };
}

/// The same, and makes it if it is not there. `place` has no row if something in the session was pinned while the statement
/// waited, either: what else it reads is older than that, and it has to be made again. A session that went away while it was
/// about to be made for its owner divides by zero.
macro_rules! with_place {
  ($($sql:expr),+) => {
    concat!(
      "WITH held AS (
        SELECT id, pins, lease_number, lease_expires FROM waymark.sessions WHERE id = $1::text AND present FOR SHARE
      ),
      made AS (
        INSERT INTO waymark.sessions AS s (id, present)
        SELECT $1, true WHERE NOT EXISTS (SELECT 1 FROM held)
          AND ($2::bigint IS NULL OR EXISTS (SELECT 1 FROM waymark.sessions WHERE id = $1))
        ON CONFLICT (id) DO UPDATE SET present = true WHERE ",
      admitted!("s"),
      " RETURNING id, 1 / (CASE WHEN lease_number IS NULL AND $2 IS NOT NULL THEN 0 ELSE 1 END)
      ),
      place AS (
        SELECT held.id FROM held
        WHERE held.pins = (SELECT pins FROM waymark.sessions WHERE id = $1) AND ",
      admitted!("held"),
      " UNION ALL SELECT made.id FROM made
      ), ",
      $($sql),+
    )
  };
}

/// Keeps everybody else out of a session until the transaction is over. One that is not there, or does not admit who writes,
/// divides by zero.
pub const LOCK_SESSION: &str = concat!(
  "WITH held AS (
    SELECT id, lease_number, lease_expires FROM waymark.sessions WHERE id = $1 AND present FOR UPDATE
  )
  SELECT 1 / count(*) FROM held WHERE ",
  admitted!("held")
);

/// Keeps all other writers out of a session, if it exists, until the transaction is over. It is a statement of its own, so that
/// the next one sees everything that they stored.
pub const HOLD_SESSION: &str = "SELECT 1 FROM waymark.sessions WHERE id = $1 FOR UPDATE";

/// How a statement ends that does something to what is there: whether it was let in, and whether it did.
macro_rules! answer {
  ($done:literal) => {
    concat!(
      " SELECT EXISTS (SELECT 1 FROM place), EXISTS (SELECT 1 FROM ",
      $done,
      ")"
    )
  };
}

/// What such a statement says; `None` if it was not let in.
pub fn answered(rows: &[Row]) -> Result<Option<bool>, Failure> {
  let row = rows.first().ok_or(Failure::Overtaken)?;
  Ok(if row.try_get(0)? { Some(row.try_get(1)?) } else { None })
}
