//! Leases, in the rows of sessions. A row may exist for its lease alone, without a session.

use tokio_postgres::Row;
use uuid::Uuid;

use super::connection::{Connection, is_failed_check};
use super::error::PgError;
use super::payload::{to_signed, to_unsigned};
use super::sql::write_answer;
use crate::backend::lease::{self, NUMBER_LIMIT, Record};
use crate::backend::{Acquired, Claim, Lease};
use crate::types::id::SessionId;

/// The lease of a session, and the time.
struct LeaseRow {
  record: Option<Record>,
  /// The token of the call that wrote the record.
  token: Option<Uuid>,
  /// Whether the session exists.
  is_present: bool,
  /// By the clock of the server.
  now_ms: u64,
  now_us: u64,
}

async fn read_lease(connection: &Connection, session: &SessionId) -> Result<LeaseRow, PgError> {
  // Answers a row in any case, because the time is always needed.
  let sql =
    "SELECT s.lease_number, s.lease_owner, s.lease_expires, s.lease_began, s.lease_token, coalesce(s.present, false),
      (extract(epoch FROM clock_timestamp()) * 1000)::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM (SELECT $1::text AS id) wanted LEFT JOIN waymark.sessions s ON s.id = wanted.id";
  let rows = connection.query(sql, &[&session.as_str()]).await?;
  let row = rows.first().ok_or(PgError::RetryNow)?;
  Ok(LeaseRow {
    record: record(row, session)?,
    token: row.try_get(4)?,
    is_present: row.try_get(5)?,
    now_ms: to_unsigned(row.try_get(6)?),
    now_us: to_unsigned(row.try_get(7)?),
  })
}

fn record(row: &Row, session: &SessionId) -> Result<Option<Record>, PgError> {
  let Some(number) = row.try_get::<_, Option<i64>>(0)? else {
    return Ok(None);
  };
  let record = Record {
    // No store writes a negative number.
    number: u64::try_from(number).unwrap_or(NUMBER_LIMIT),
    owner: row.try_get(1)?,
    expires_at: to_unsigned(row.try_get(2)?),
    began_at: row.try_get::<_, Option<i64>>(3)?.map(to_unsigned),
  };
  let name = format!("The lease of session {session}");
  let remedy = "Set lease_number, lease_owner, lease_expires and lease_token of its row in the table \"sessions\" to NULL \
    when no process works on that session";
  Ok(Some(record.checked(&name, remedy)?))
}

/// An error if the lease does not admit the fencing token. Changes nothing.
pub async fn check_fence(connection: &Connection, session: &SessionId, fence: Option<i64>) -> Result<(), PgError> {
  let lease = read_lease(connection, session).await?;
  lease::admit(lease.record.as_ref(), session, fence.map(to_unsigned), lease.now_ms)?;
  Ok(())
}

/// Finds out why a session did not admit a statement. An error if its lease does not admit the fencing token;
/// [`PgError::RetryNow`] if it was an expired lease, which this function ends, or a concurrent change. `Ok` if the session does
/// not exist.
pub async fn explain_refusal(connection: &Connection, session: &SessionId, fence: Option<i64>) -> Result<(), PgError> {
  let lease = read_lease(connection, session).await?;
  let ended = lease::admit(lease.record.as_ref(), session, fence.map(to_unsigned), lease.now_ms)?;
  if let Some(ended) = &ended {
    // `query`, because a lost answer does not make the outcome of the call unknown: the next attempt finds the lease ended.
    let sql = "UPDATE waymark.sessions SET lease_expires = 0, lease_token = $2 WHERE id = $1 AND lease_number = $3
      AND lease_expires = $4";
    let (number, expires_at) = (
      to_signed(ended.number),
      lease.record.as_ref().map(|expired| to_signed(expired.expires_at)),
    );
    connection
      .query(sql, &[&session.as_str(), &Uuid::new_v4(), &number, &expires_at])
      .await?;
  }
  if lease.is_present || ended.is_some() {
    return Err(PgError::RetryNow);
  }
  Ok(())
}

/// Whether a statement that creates the session if it is missing changed anything.
pub async fn creating_write_outcome(
  connection: &Connection,
  session: &SessionId,
  fence: Option<i64>,
  rows: Result<Vec<Row>, PgError>,
) -> Result<bool, PgError> {
  let outcome = match rows {
    Err(error) if is_failed_check(&error) => None,
    rows => write_answer(&rows?)?,
  };
  if let Some(is_changed) = outcome {
    return Ok(is_changed);
  }
  explain_refusal(connection, session, fence).await?;
  Err(PgError::RetryNow)
}

/// Whether a statement that does not create the session changed anything; `false` if the session does not exist.
pub async fn write_outcome(
  connection: &Connection,
  session: &SessionId,
  fence: Option<i64>,
  rows: &[Row],
) -> Result<bool, PgError> {
  match write_answer(rows)? {
    Some(is_changed) => Ok(is_changed),
    None => explain_refusal(connection, session, fence).await.map(|()| false),
  }
}

/// The answers of a transaction that locks the session first; `None` if the session does not exist.
pub async fn locked_write_outcome<T>(
  connection: &Connection,
  session: &SessionId,
  fence: Option<i64>,
  answers: Result<T, PgError>,
) -> Result<Option<T>, PgError> {
  match answers {
    Err(error) if is_failed_check(&error) => explain_refusal(connection, session, fence).await.map(|()| None),
    answers => answers.map(Some),
  }
}

/// Replaces the record if it still has the token `seen`. Waits for every write that holds the row of the session FOR SHARE.
async fn write(
  connection: &Connection,
  session: &SessionId,
  seen: Option<Uuid>,
  record: &Record,
  token: Uuid,
) -> Result<(), PgError> {
  let sql = "INSERT INTO waymark.sessions AS s (id, present, lease_number, lease_owner, lease_expires, lease_began, lease_token)
    SELECT $1, false, $3, $4, $5, $6, $7 WHERE $2::uuid IS NULL OR EXISTS (SELECT 1 FROM waymark.sessions WHERE id = $1)
    ON CONFLICT (id) DO UPDATE SET lease_number = excluded.lease_number, lease_owner = excluded.lease_owner,
      lease_expires = excluded.lease_expires, lease_began = excluded.lease_began, lease_token = excluded.lease_token
    WHERE s.lease_token IS NOT DISTINCT FROM $2
    RETURNING 1";
  let (number, expires_at) = (to_signed(record.number), to_signed(record.expires_at));
  let began_at = record.began_at.map(to_signed);
  let id = session.as_str();
  let rows = connection
    .execute(
      sql,
      &[&id, &seen, &number, &record.owner, &expires_at, &began_at, &token],
    )
    .await?;
  if rows.is_empty() {
    return Err(PgError::RetryNow);
  }
  Ok(())
}

/// `last` is the fencing token that this store has used for the session so far.
pub async fn acquire(
  connection: &Connection,
  session: &SessionId,
  claim: Claim<'_>,
  last: Option<u64>,
  token: Uuid,
) -> Result<Acquired, PgError> {
  let lease = read_lease(connection, session).await?;
  if lease.token == Some(token)
    && let Some(own) = &lease.record
  {
    return Ok(Acquired::Taken(own.lease(lease.now_ms)));
  }
  let fresh = lease.now_us.max(last.map_or(0, |last| last.saturating_add(1)));
  match Record::acquire(lease.record.as_ref(), claim, lease.now_ms, fresh) {
    Err(held) => Ok(Acquired::Held(held)),
    Ok(record) => {
      write(connection, session, lease.token, &record, token).await?;
      Ok(Acquired::Taken(record.lease(lease.now_ms)))
    }
  }
}

pub async fn renew(
  connection: &Connection,
  session: &SessionId,
  number: u64,
  ttl_ms: u64,
) -> Result<Option<Lease>, PgError> {
  let lease = read_lease(connection, session).await?;
  let Some(record) = Record::renew(lease.record.as_ref(), number, ttl_ms, lease.now_ms) else {
    return Ok(None);
  };
  write(connection, session, lease.token, &record, Uuid::new_v4()).await?;
  Ok(Some(record.lease(lease.now_ms)))
}

pub async fn release(connection: &Connection, session: &SessionId, number: u64, token: Uuid) -> Result<bool, PgError> {
  let lease = read_lease(connection, session).await?;
  let Some(record) = Record::release(lease.record.as_ref(), number) else {
    // After an earlier attempt has released it, the row has its token, or was deleted.
    let is_own = lease.token == Some(token) || lease.record.is_none();
    return Ok(connection.is_retry && is_own);
  };
  if lease.is_present {
    write(connection, session, lease.token, &record, token).await?;
    return Ok(true);
  }
  let sql = "DELETE FROM waymark.sessions WHERE id = $1 AND NOT present AND lease_token = $2 RETURNING 1";
  let rows = connection.execute(sql, &[&session.as_str(), &lease.token]).await?;
  if rows.is_empty() {
    Err(PgError::RetryNow)
  } else {
    Ok(true)
  }
}

/// The leases that are held, ordered by session.
pub async fn list(connection: &Connection) -> Result<Vec<(SessionId, Lease)>, PgError> {
  let sql = "SELECT lease_number, lease_owner, lease_expires, lease_began, id, clock.now
    FROM waymark.sessions, (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) clock
    WHERE lease_expires > 0 AND lease_expires > clock.now ORDER BY id";
  let mut leases = Vec::new();
  for row in connection.query(sql, &[]).await? {
    let now = to_unsigned(row.try_get(5)?);
    // Skip names that are not valid ids, and damaged records: a write to their session reports them.
    if let Ok(session) = SessionId::parse(row.try_get(4)?)
      && let Ok(Some(record)) = record(&row, &session)
      && record.is_held(now)
    {
      leases.push((session, record.lease(now)));
    }
  }
  Ok(leases)
}
