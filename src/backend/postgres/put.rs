//! Stores a checkpoint, with the base of a delta, if its precondition holds: one statement, or one transaction.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::checkpoints::{CheckpointKey, Parts};
use super::connection::{Connection, Params, is_failed_check};
use super::error::PgError;
use super::labels::{LabelParams, LabelUpdate};
use super::payload::to_signed;
use super::sql::SQL;
use super::{leases, lists};
use crate::backend::{BaseRef, FileStamp, Newest, Parent, Precondition, PutOptions, PutOutcome};
use crate::types::id::CheckpointId;

/// A checkpoint to store.
pub struct NewCheckpoint<'a> {
  pub key: CheckpointKey<'a>,
  /// The fencing token.
  pub fence: Option<i64>,
  pub bytes: &'a [u8],
  pub options: &'a PutOptions<'a>,
  pub labels: Option<LabelUpdate<'a>>,
}

impl NewCheckpoint<'_> {
  /// The outcome if it was stored.
  pub fn stored(&self) -> PutOutcome {
    PutOutcome::Stored {
      size: self.bytes.len() as u64,
      base: self.options.base.map(|base| FileStamp {
        size: base.size(),
        modified: 0,
      }),
      retention: None,
    }
  }
}

/// Stores a checkpoint, and runs `queries` after it in the same round trip.
pub async fn put(
  connection: &Connection,
  checkpoint: &NewCheckpoint<'_>,
  queries: &[(&str, Params<'_>)],
) -> Result<(PutOutcome, Vec<Option<Vec<Row>>>), PgError> {
  let NewCheckpoint { key, fence, .. } = checkpoint;
  let PutOptions { base, precondition, .. } = checkpoint.options;
  let (rows, answers) = send(connection, checkpoint, queries).await;
  let refusal = match &rows {
    Ok(rows) => refusal(rows, precondition, base.is_some()),
    // The session does not exist.
    Err(_) => Ok(PutOutcome::Conflict(None)),
  };
  let is_stored = if *precondition == Precondition::Exists || expected_parent(precondition).is_some() {
    match rows {
      Err(error) if is_failed_check(&error) => {
        leases::explain_refusal(connection, key.session_id, *fence).await?;
        false
      }
      rows => leases::write_outcome(connection, key.session_id, *fence, &rows?).await?,
    }
  } else {
    leases::creating_write_outcome(connection, key.session_id, *fence, rows).await?
  };
  let outcome = if is_stored {
    checkpoint.stored()
  } else if connection.is_retry
    && matches!(refusal, Ok(PutOutcome::Conflict(_) | PutOutcome::Behind(_)))
    && exists(connection, key).await?
  {
    // An earlier attempt, whose answer did not arrive, has stored it.
    checkpoint.stored()
  } else {
    refusal?
  };
  Ok((outcome, answers))
}

/// Sends the transaction that stores a checkpoint, and `queries`. Returns the answer of the statement that stores it, and those
/// of the queries.
async fn send(
  connection: &Connection,
  checkpoint: &NewCheckpoint<'_>,
  queries: &[(&str, Params<'_>)],
) -> (Result<Vec<Row>, PgError>, Vec<Option<Vec<Row>>>) {
  let NewCheckpoint {
    key,
    fence,
    bytes,
    options,
    labels,
  } = checkpoint;
  let PutOptions { base, precondition, .. } = options;
  let parts = Parts::of(key, bytes);
  let middle = &*parts.middle.bytes;
  let columns = key.write_params(
    fence,
    &[
      &parts.made_at,
      &parts.size,
      &parts.base,
      &parts.middle.is_packed,
      &parts.head,
      &parts.tail,
      &middle,
    ],
  );
  let (base_id, known, added) = base.map_or(("", 0, &[][..]), |base| {
    (base.id.as_str(), to_signed(base.known), base.added)
  });
  let (must_be_newest, newest) = match precondition {
    Precondition::Newest(newest) => (true, newest),
    Precondition::None | Precondition::Exists => (false, &Newest::default()),
  };
  let later: Vec<_> = newest.later.iter().map(CheckpointId::as_str).collect();
  let has_parent = newest.parent != Parent::Any;
  let parent = expected_parent(precondition).map(CheckpointId::as_str);
  let (statements, conditions): (_, Params<'_>) = if *precondition == Precondition::Exists {
    (&SQL.replace_checkpoint, &[])
  } else if parent.is_some() {
    (
      &SQL.put_checkpoint_after_parent,
      &[&must_be_newest, &later, &has_parent, &parent],
    )
  } else {
    (&SQL.put_checkpoint, &[&must_be_newest, &later, &has_parent, &parent])
  };
  let (sql, base): (_, Params<'_>) = match base {
    None => (&statements.plain, &[]),
    Some(BaseRef { known: 0, .. }) => (&statements.creating, &[&base_id, &added]),
    Some(_) => (&statements.extending, &[&base_id, &known, &added]),
  };
  let params = [&columns, conditions, base].concat();
  let is_locked = has_parent || labels.is_some();
  let mut changes = vec![(sql.as_str(), &params[..])];
  if is_locked {
    let lock = if parent.is_some() {
      &SQL.lock_session
    } else {
      &SQL.create_or_lock_session
    };
    changes.insert(0, (lock, &params[..2]));
  }
  let names = key.read_params(&[]);
  let labels = labels.as_ref().map(LabelParams::new);
  let label_params: Option<Vec<&(dyn ToSql + Sync)>> = labels.as_ref().map(|labels| labels.with(&names, &parts));
  if let Some(params) = &label_params {
    changes.push((&SQL.put_labels, params));
  }
  match connection.execute_then_query(&changes, queries).await {
    Ok((results, answers)) => {
      let stored = results.into_iter().nth(usize::from(is_locked));
      (Ok(stored.unwrap_or_default()), answers)
    }
    Err(error) => (Err(error), Vec::new()),
  }
}

/// The checkpoint that must be the newest.
fn expected_parent(precondition: &Precondition) -> Option<&CheckpointId> {
  match precondition {
    Precondition::Newest(Newest {
      parent: Parent::Checkpoint(parent),
      ..
    }) => Some(parent),
    _ => None,
  }
}

/// Why the checkpoint was not stored, if it was not.
fn refusal(rows: &[Row], precondition: &Precondition, is_delta: bool) -> Result<PutOutcome, PgError> {
  let row = rows.first().ok_or(PgError::RetryNow)?;
  let is_precondition_ok: bool = row.try_get(2)?;
  if *precondition == Precondition::Exists {
    // Without a session, the base is missing too.
    let has_session: bool = row.try_get(0)?;
    let is_missing = is_precondition_ok || !has_session;
    return Ok(if is_missing {
      PutOutcome::Missing
    } else {
      PutOutcome::BaseIsGone
    });
  }
  if is_precondition_ok {
    // A checkpoint without a base was refused for its id: the next attempt sees the checkpoint that has this id.
    return if is_delta {
      Ok(PutOutcome::BaseIsGone)
    } else {
      Err(PgError::RetryNow)
    };
  }
  let newest = row.try_get::<_, Option<&str>>(3)?;
  let newest = newest.map(CheckpointId::parse).transpose()?;
  if let Precondition::Newest(Newest { parent, .. }) = precondition
    && !parent.accepts(newest.as_ref())
  {
    return Ok(PutOutcome::Conflict(newest));
  }
  // No later id can be derived from an id that no store writes.
  let is_newer = row.try_get::<_, Option<&str>>(4)?.is_some();
  let newer = if is_newer { lists::entry(row, 4)? } else { None };
  Ok(newer.map_or(PutOutcome::BaseIsGone, PutOutcome::Behind))
}

/// Whether a checkpoint of that id exists, in any encoding: another store may have converted it after an earlier attempt stored
/// it. Ids are practically unique.
async fn exists(connection: &Connection, key: &CheckpointKey<'_>) -> Result<bool, PgError> {
  let sql = "SELECT 1 FROM waymark.checkpoints WHERE session = $1 AND agent = $2 AND id = $3";
  let rows = connection.query(sql, &key.read_params(&[])[..3]).await?;
  Ok(!rows.is_empty())
}
