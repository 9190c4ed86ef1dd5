//! Leases as rows.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::SqliteError;
use crate::backend::lease::{self, Record};
use crate::backend::sql::to_signed;
use crate::backend::{Acquired, Claim, Lease};
use crate::types::id::SessionId;
use crate::types::time::now_ms;

type Result<T, E = SqliteError> = std::result::Result<T, E>;

/// Runs a change of a session if its lease admits the fencing token. Both are in the transaction of the caller. The change ends an
/// expired lease, unless it changes nothing.
pub fn fenced<T>(
  connection: &Connection,
  session: &SessionId,
  fence: Option<u64>,
  change: impl FnOnce() -> Result<T>,
) -> Result<T> {
  let ended_lease = lease::admit(read(connection, session)?.as_ref(), session, fence, now_ms())?;
  let before = connection.total_changes();
  let result = change()?;
  if let Some(ended) = ended_lease.filter(|_| connection.total_changes() > before) {
    // The change may have deleted the record together with the session.
    let sql = "UPDATE leases SET expires_at = 0 WHERE session = ?1 AND number = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute(params![session.as_str(), ended.number])?;
  }
  Ok(result)
}

/// Acquires a lease. The fencing token is `fresh` or the last one plus 1, whichever is greater.
pub fn acquire(connection: &Connection, session: &SessionId, claim: Claim<'_>, fresh: u64) -> Result<Acquired> {
  let now = now_ms();
  Ok(
    match Record::acquire(read(connection, session)?.as_ref(), claim, now, fresh) {
      Ok(record) => {
        write(connection, session, &record)?;
        Acquired::Taken(record.lease(now))
      }
      Err(held) => Acquired::Held(held),
    },
  )
}

pub fn renew(connection: &Connection, session: &SessionId, number: u64, ttl_ms: u64) -> Result<Option<Lease>> {
  let now = now_ms();
  let renewed = Record::renew(read(connection, session)?.as_ref(), number, ttl_ms, now);
  if let Some(record) = &renewed {
    write(connection, session, record)?;
  }
  Ok(renewed.map(|record| record.lease(now)))
}

pub fn release(connection: &Connection, session: &SessionId, number: u64) -> Result<bool> {
  let Some(released) = Record::release(read(connection, session)?.as_ref(), number) else {
    return Ok(false);
  };
  write(connection, session, &released)?;
  delete_unused_record(connection, session, None)?;
  Ok(true)
}

/// Deletes the record of a session that does not exist, unless the lease is held, or has this fencing token.
pub fn delete_unused_record(connection: &Connection, session: &SessionId, fence: Option<u64>) -> Result<()> {
  let sql = r"
    DELETE FROM leases
    WHERE session = ?1 AND expires_at <= ?2 AND NOT (number IS ?3 AND expires_at > 0)
      AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = ?1)";
  let mut statement = connection.prepare_cached(sql)?;
  statement.execute(params![session.as_str(), now_ms(), fence])?;
  Ok(())
}

/// The leases that are held, ordered by session.
pub fn list(connection: &Connection) -> Result<Vec<(SessionId, Lease)>> {
  let sql = "SELECT number, owner, expires_at, began_at, session FROM leases WHERE expires_at > ?1 ORDER BY session";
  let now = now_ms();
  let mut statement = connection.prepare_cached(sql)?;
  let mut rows = statement.query([now])?;
  let mut leases = Vec::new();
  while let Some(row) = rows.next()? {
    // Skip names that are not valid ids, and damaged records, which a write to their session reports.
    let Some(session) = row.get_ref(4)?.as_str().ok().and_then(|id| SessionId::parse(id).ok()) else {
      continue;
    };
    if let Ok(record) = record(row)
      .map_err(SqliteError::from)
      .and_then(|record| checked(record, &session))
      && record.is_held(now)
    {
      leases.push((session, record.lease(now)));
    }
  }
  Ok(leases)
}

fn read(connection: &Connection, session: &SessionId) -> Result<Option<Record>> {
  let sql = "SELECT number, owner, expires_at, began_at FROM leases WHERE session = ?1";
  let mut statement = connection.prepare_cached(sql)?;
  let record = statement.query_row([session.as_str()], record).optional()?;
  record.map(|record| checked(record, session)).transpose()
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
  Ok(Record {
    number: row.get(0)?,
    owner: row.get(1)?,
    expires_at: row.get(2)?,
    began_at: row.get(3)?,
  })
}

/// An error if no store can have written the record.
fn checked(record: Record, session: &SessionId) -> Result<Record> {
  let name = format!("The lease of session {session}");
  let remedy = "Delete its row in the table \"leases\" when no process works on that session";
  Ok(record.checked(&name, remedy)?)
}

fn write(connection: &Connection, session: &SessionId, record: &Record) -> Result<()> {
  let sql = r"
    INSERT INTO leases (session, number, owner, expires_at, began_at) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT DO UPDATE SET
      number = excluded.number, owner = excluded.owner, expires_at = excluded.expires_at, began_at = excluded.began_at";
  let mut statement = connection.prepare_cached(sql)?;
  let expires_at = to_signed(record.expires_at);
  let Record {
    number,
    owner,
    began_at,
    ..
  } = record;
  statement.execute(params![session.as_str(), number, owner, expires_at, began_at])?;
  Ok(())
}
