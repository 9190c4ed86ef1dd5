//! A session that is made as one step: one transaction, one thing after the other, whatever they are together.

use uuid::Uuid;

use super::call::Attempt;
use super::connection::{Connection, is_denied};
use super::failure::Failure;
use super::storing::TAKE_SESSION;
use super::{PostgresBackend, bases, checkpoints, documents, leases, replacing};
use crate::backend::{Item, ItemSource, NewItem};
use crate::types::error::{Code, Error, Result};
use crate::types::id::SessionId;

/// Who founded it, and whether it holds anything.
const STATE: &str = "SELECT founder,
    EXISTS (SELECT 1 FROM waymark.checkpoints WHERE session = $1)
    OR EXISTS (SELECT 1 FROM waymark.documents d WHERE d.session = $1 AND (d.size IS NOT NULL OR EXISTS (
      SELECT 1 FROM waymark.previous p
      WHERE p.session = $1 AND p.name = d.name AND p.number >= d.oldest AND p.number < d.number
    )))
    OR EXISTS (SELECT 1 FROM waymark.keys WHERE session = $1)
    OR EXISTS (SELECT 1 FROM waymark.damaged WHERE session = $1)
  FROM waymark.sessions WHERE id = $1";

/// What is left of documents that are not there any more.
const CLEAR: [&str; 2] = [
  "DELETE FROM waymark.previous WHERE session = $1",
  "DELETE FROM waymark.documents WHERE session = $1",
];

const SIGN: &str = "UPDATE waymark.sessions SET present = true, founder = $2 WHERE id = $1";

/// What a founder finds.
enum ClaimState {
  /// A session that holds nothing; it is this founder's now.
  Ours,
  /// What this founder made, in an attempt that nobody answered.
  Done,
  Taken,
}

pub fn create_with(backend: &PostgresBackend, session: &SessionId, source: &mut ItemSource<'_>) -> Result<bool> {
  let (token, fence) = (Uuid::new_v4(), backend.fence(session));
  let name = || backend.name_of_session(session);
  backend.call("create", &name, |attempt| {
    attempt.extend();
    match attempt.run(take(&attempt.connection, session, fence, token))? {
      ClaimState::Done => return Ok(true),
      ClaimState::Taken => return Ok(false),
      ClaimState::Ours => {}
    }
    let mut failure = None;
    let supplied = source(&mut |new| {
      let bytes = backend.bytes(session, new.item, new.content)?;
      attempt.extend();
      let added = attempt.run(add_item(&attempt.connection, session, &new, &bytes, token));
      added.map_err(|refused| hand_over(refused, &mut failure))
    });
    match (failure, supplied) {
      (Some(failure), _) => Err(failure),
      (None, Err(error)) => {
        roll_back(attempt);
        Err(error.into())
      }
      (None, Ok(())) => {
        attempt.extend();
        attempt.run(attempt.connection.commit())?;
        Ok(true)
      }
    }
  })
}

/// What the supply is told when something is refused: it only has to end. The refusal itself is for whoever tries again.
fn hand_over(refused: Failure, failure: &mut Option<Failure>) -> Error {
  *failure = Some(refused);
  Error::new(Code::Io, "The server refused it")
}

/// A transaction that cannot be taken back goes with its connection.
fn roll_back(attempt: &Attempt<'_>) {
  let _ = attempt.run(attempt.connection.roll_back());
}

async fn take(
  connection: &Connection,
  session: &SessionId,
  fence: Option<i64>,
  token: Uuid,
) -> Result<ClaimState, Failure> {
  let id = session.as_str();
  connection.begin().await?;
  if let Err(failure) = connection.query(TAKE_SESSION, &[&id, &fence]).await {
    connection.roll_back().await?;
    if !is_denied(&failure) {
      return Err(failure);
    }
    leases::explain(connection, session, fence).await?;
    return Err(Failure::Overtaken);
  }
  let rows = connection.query(STATE, &[&id]).await?;
  let row = rows.first().ok_or(Failure::Overtaken)?;
  let (founder, is_taken): (Option<Uuid>, bool) = (row.try_get(0)?, row.try_get(1)?);
  if is_taken || founder == Some(token) {
    connection.roll_back().await?;
    return Ok(if founder == Some(token) {
      ClaimState::Done
    } else {
      ClaimState::Taken
    });
  }
  for sql in CLEAR {
    connection.query(sql, &[&id]).await?;
  }
  connection.query(SIGN, &[&id, &token]).await?;
  Ok(ClaimState::Ours)
}

async fn add_item(
  connection: &Connection,
  session: &SessionId,
  new: &NewItem<'_>,
  bytes: &[u8],
  token: Uuid,
) -> Result<(), Failure> {
  match new.item {
    Item::Checkpoint(agent, id, encoding) => {
      let key = checkpoints::CheckpointKey::new(session, agent, id, encoding);
      checkpoints::add(connection, &key, bytes, new.made_at, new.is_pinned).await
    }
    Item::Base(agent, id) => bases::add(connection, &bases::BaseKey::new(session, agent, id), bytes).await,
    item => replacing::add(connection, &documents::DocumentKey::new(session, item), bytes, token).await,
  }
}
