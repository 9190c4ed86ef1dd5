//! Who owns a session, in its row. A row may be there for its lease alone.

use tokio_postgres::Row;
use uuid::Uuid;

use super::connection::{Connection, is_denied};
use super::failure::Failure;
use super::payload::{to_signed, to_unsigned};
use super::sql::answered;
use crate::backend::lease::{self, NUMBER_LIMIT, Record};
use crate::backend::{Acquired, Claim, Lease};
use crate::types::id::SessionId;

/// What a row says of a lease.
struct Standing {
  record: Option<Record>,
  /// Whose doing the record is.
  token: Option<Uuid>,
  /// Whether there is a session, too.
  is_present: bool,
  /// By the clock of the server, in milliseconds and microseconds.
  now: u64,
  fresh: u64,
}

/// A row if there is none: the clock is wanted in any case.
const STANDING: &str = concat!(
  "SELECT s.lease_number, s.lease_owner, s.lease_expires, s.lease_began, s.lease_token, coalesce(s.present, false), ",
  now!(),
  ", (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM (SELECT $1::text AS id) wanted LEFT JOIN waymark.sessions s ON s.id = wanted.id"
);

async fn standing(connection: &Connection, session: &SessionId) -> Result<Standing, Failure> {
  let rows = connection.query(STANDING, &[&session.as_str()]).await?;
  let row = rows.first().ok_or(Failure::Overtaken)?;
  Ok(Standing {
    record: record(row, session)?,
    token: row.try_get(4)?,
    is_present: row.try_get(5)?,
    now: to_unsigned(row.try_get(6)?),
    fresh: to_unsigned(row.try_get(7)?),
  })
}

fn record(row: &Row, session: &SessionId) -> Result<Option<Record>, Failure> {
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

/// An error if the session is somebody else's.
pub async fn look(connection: &Connection, session: &SessionId, fence: Option<i64>) -> Result<(), Failure> {
  let standing = standing(connection, session).await?;
  lease::admit(standing.record.as_ref(), session, fence.map(to_unsigned), standing.now)?;
  Ok(())
}

/// Why a statement was not let in: an error if the session is somebody else's. If it only is not there, there was nothing to
/// do. Otherwise there was a lease in the way that is past its time, and is over now, or somebody changed it meanwhile.
pub async fn explain(connection: &Connection, session: &SessionId, fence: Option<i64>) -> Result<(), Failure> {
  let standing = standing(connection, session).await?;
  let ended = lease::admit(standing.record.as_ref(), session, fence.map(to_unsigned), standing.now)?;
  if let Some(ended) = &ended {
    // If the answer is lost, the next attempt finds it done, and nobody need wonder about what was to be written.
    let sql = "UPDATE waymark.sessions SET lease_expires = 0, lease_token = $2 WHERE id = $1 AND lease_number = $3
      AND lease_expires = $4";
    let (number, expires_at) = (
      to_signed(ended.number),
      standing.record.as_ref().map(|lapsed| to_signed(lapsed.expires_at)),
    );
    connection
      .query(sql, &[&session.as_str(), &Uuid::new_v4(), &number, &expires_at])
      .await?;
  }
  if standing.is_present || ended.is_some() {
    return Err(Failure::Overtaken);
  }
  Ok(())
}

/// What a statement did that makes the session if need be, if it was let in.
pub async fn placed(
  connection: &Connection,
  session: &SessionId,
  fence: Option<i64>,
  rows: Result<Vec<Row>, Failure>,
) -> Result<bool, Failure> {
  let done = match rows {
    Err(failure) if is_denied(&failure) => None,
    rows => answered(&rows?)?,
  };
  if let Some(done) = done {
    return Ok(done);
  }
  explain(connection, session, fence).await?;
  Err(Failure::Overtaken)
}

/// What a statement did to what is there, if it was let in; nothing if the session is not there.
pub async fn let_in(
  connection: &Connection,
  session: &SessionId,
  fence: Option<i64>,
  rows: &[Row],
) -> Result<bool, Failure> {
  match answered(rows)? {
    Some(done) => Ok(done),
    None => explain(connection, session, fence).await.map(|()| false),
  }
}

/// What a transaction answered that locks the session first; `None` if the session is not there.
pub async fn unless_denied<T>(
  connection: &Connection,
  session: &SessionId,
  fence: Option<i64>,
  answers: Result<T, Failure>,
) -> Result<Option<T>, Failure> {
  match answers {
    Err(failure) if is_denied(&failure) => explain(connection, session, fence).await.map(|()| None),
    answers => answers.map(Some),
  }
}

/// Nobody changes it in between: it must still be as it was seen. Who holds something in the session is waited for.
async fn write(
  connection: &Connection,
  session: &SessionId,
  seen: Option<Uuid>,
  record: &Record,
  token: Uuid,
) -> Result<(), Failure> {
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
    .change(
      sql,
      &[&id, &seen, &number, &record.owner, &expires_at, &began_at, &token],
    )
    .await?;
  if rows.is_empty() {
    return Err(Failure::Overtaken);
  }
  Ok(())
}

/// `last` is the number under which the one who asks has written so far.
pub async fn acquire(
  connection: &Connection,
  session: &SessionId,
  claim: Claim<'_>,
  last: Option<u64>,
  token: Uuid,
) -> Result<Acquired, Failure> {
  let standing = standing(connection, session).await?;
  if standing.token == Some(token)
    && let Some(own) = &standing.record
  {
    return Ok(Acquired::Taken(own.lease(standing.now)));
  }
  let fresh = standing.fresh.max(last.map_or(0, |last| last.saturating_add(1)));
  match Record::acquire(standing.record.as_ref(), claim, standing.now, fresh) {
    Err(held) => Ok(Acquired::Held(held)),
    Ok(record) => {
      write(connection, session, standing.token, &record, token).await?;
      Ok(Acquired::Taken(record.lease(standing.now)))
    }
  }
}

pub async fn renew(
  connection: &Connection,
  session: &SessionId,
  number: u64,
  ttl_ms: u64,
) -> Result<Option<Lease>, Failure> {
  let standing = standing(connection, session).await?;
  let Some(record) = Record::renew(standing.record.as_ref(), number, ttl_ms, standing.now) else {
    return Ok(None);
  };
  write(connection, session, standing.token, &record, Uuid::new_v4()).await?;
  Ok(Some(record.lease(standing.now)))
}

pub async fn release(connection: &Connection, session: &SessionId, number: u64, token: Uuid) -> Result<bool, Failure> {
  let standing = standing(connection, session).await?;
  let Some(record) = Record::release(standing.record.as_ref(), number) else {
    // What an earlier attempt gave back may be gone with all that was left of the session.
    let is_ours = standing.token == Some(token) || standing.record.is_none();
    return Ok(connection.is_repeat && is_ours);
  };
  if standing.is_present {
    write(connection, session, standing.token, &record, token).await?;
    return Ok(true);
  }
  let sql = "DELETE FROM waymark.sessions WHERE id = $1 AND NOT present AND lease_token = $2 RETURNING 1";
  let rows = connection.change(sql, &[&session.as_str(), &standing.token]).await?;
  if rows.is_empty() {
    Err(Failure::Overtaken)
  } else {
    Ok(true)
  }
}

/// Those that somebody holds, in the order of the sessions.
pub async fn list(connection: &Connection) -> Result<Vec<(SessionId, Lease)>, Failure> {
  let sql = concat!(
    "SELECT lease_number, lease_owner, lease_expires, lease_began, id, clock.now
    FROM waymark.sessions, (SELECT ",
    now!(),
    " AS now) clock
    WHERE lease_expires > 0 AND lease_expires > clock.now ORDER BY id"
  );
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
