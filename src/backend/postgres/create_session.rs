//! Creation of a session from a source, in one transaction of several round trips.

use uuid::Uuid;

use super::call::Attempt;
use super::connection::{Connection, is_failed_check};
use super::error::PgError;
use super::sql::SQL;
use super::{PostgresBackend, bases, checkpoints, documents, leases, replace_documents};
use crate::backend::{Item, ItemSource, NewItem};
use crate::types::error::{Code, Error, Result};
use crate::types::id::SessionId;

/// Deletes the rows that deleted documents leave behind.
const DELETE_DOCUMENT_ROWS: [&str; 2] = [
  "DELETE FROM waymark.previous WHERE session = $1",
  "DELETE FROM waymark.documents WHERE session = $1",
];

/// The state of the session when the transaction begins.
enum SessionState {
  /// It holds nothing, and is locked by the transaction.
  Empty,
  /// An earlier attempt of this call, whose answer was lost, has created it.
  Created,
  /// It holds something else.
  Taken,
}

pub fn create_session_with(
  backend: &PostgresBackend,
  session: &SessionId,
  source: &mut ItemSource<'_>,
) -> Result<bool> {
  let (token, fence) = (Uuid::new_v4(), backend.fence(session));
  let name = || backend.name_of_session(session);
  backend.call("create", &name, |attempt| {
    attempt.extend_deadline();
    match attempt.block_on(begin(&attempt.connection, session, fence, token))? {
      SessionState::Created => return Ok(true),
      SessionState::Taken => return Ok(false),
      SessionState::Empty => {}
    }
    let mut failure = None;
    let supplied = source(&mut |new| {
      let bytes = backend.bytes(session, new.item, new.content)?;
      attempt.extend_deadline();
      let added = attempt.block_on(add_item(&attempt.connection, session, &new, &bytes, token));
      // The source only has to end. The error itself decides about the next attempt.
      added.map_err(|error| {
        failure = Some(error);
        Error::new(Code::Io, "The server did not store the item")
      })
    });
    match (failure, supplied) {
      (Some(failure), _) => Err(failure),
      (None, Err(error)) => {
        roll_back(attempt);
        Err(error.into())
      }
      (None, Ok(())) => {
        attempt.extend_deadline();
        attempt.block_on(attempt.connection.commit())?;
        Ok(true)
      }
    }
  })
}

/// If this fails, the connection is closed, which ends the transaction too.
fn roll_back(attempt: &Attempt<'_>) {
  let _ = attempt.block_on(attempt.connection.rollback());
}

/// Begins the transaction, and locks the session. Ends the transaction unless the session is empty.
async fn begin(
  connection: &Connection,
  session: &SessionId,
  fence: Option<i64>,
  token: Uuid,
) -> Result<SessionState, PgError> {
  let id = session.as_str();
  connection.begin().await?;
  if let Err(error) = connection.query(&SQL.create_or_lock_session, &[&id, &fence]).await {
    connection.rollback().await?;
    if !is_failed_check(&error) {
      return Err(error);
    }
    leases::explain_refusal(connection, session, fence).await?;
    return Err(PgError::RetryNow);
  }
  let rows = connection.query(&SQL.read_session_state, &[&id]).await?;
  let row = rows.first().ok_or(PgError::RetryNow)?;
  let (creator, is_taken): (Option<Uuid>, bool) = (row.try_get(0)?, row.try_get(1)?);
  if creator == Some(token) || is_taken {
    connection.rollback().await?;
    return Ok(if creator == Some(token) {
      SessionState::Created
    } else {
      SessionState::Taken
    });
  }
  for sql in DELETE_DOCUMENT_ROWS {
    connection.query(sql, &[&id]).await?;
  }
  let sql = "UPDATE waymark.sessions SET present = true, founder = $2 WHERE id = $1";
  connection.query(sql, &[&id, &token]).await?;
  Ok(SessionState::Empty)
}

async fn add_item(
  connection: &Connection,
  session: &SessionId,
  new: &NewItem<'_>,
  bytes: &[u8],
  token: Uuid,
) -> Result<(), PgError> {
  match new.item {
    Item::Checkpoint(agent, id, encoding) => {
      let key = checkpoints::CheckpointKey::new(session, agent, id, encoding);
      checkpoints::add(connection, &key, bytes, new.made_at, new.is_pinned).await
    }
    Item::Base(agent, id) => bases::add(connection, &bases::BaseKey::new(session, agent, id), bytes).await,
    item => replace_documents::add(connection, &documents::DocumentKey::new(session, item), bytes, token).await,
  }
}
