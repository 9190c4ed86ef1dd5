//! Checkpoints as rows. The lists are in `lists.rs`.

use rusqlite::{Connection, OptionalExtension, Result, ToSql, params};

use super::stored_bytes::StoredBytes;
use super::{bases, sessions};
use crate::backend::sql::{SplitCheckpoint, agent_column, base_of_delta, encoding_number, peek_columns, to_signed};
use crate::backend::{CheckpointEntry, Encoding, Peek, Series, time_in_id};
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::time::Timestamp;

/// The primary key of a checkpoint. Owned, because an operation may run on another thread.
#[derive(Debug, Clone)]
pub struct CheckpointKey {
  session: String,
  agent: String,
  id: String,
  encoding: u8,
}

// A condition without the encoding names its index: without statistics, SQLite would scan all checkpoints of the series in
// `checkpoints_by_series`, because that index covers more columns.

/// Stores a checkpoint. All encodings of one id have the same pin.
const PUT: &str = r"
  INSERT INTO checkpoints (id, session, agent, encoding, made_at, pinned, size, head, tail, middle, key)
  VALUES (
    ?1, ?2, ?3, ?4, ?5,
    EXISTS (
      SELECT 1 FROM checkpoints INDEXED BY sqlite_autoindex_checkpoints_1
      WHERE id = ?1 AND session = ?2 AND agent = ?3 AND pinned
    ),
    ?6, ?7, ?8, ?9, ?10
  )
  ON CONFLICT DO UPDATE SET
    made_at = excluded.made_at, size = excluded.size,
    head = excluded.head, tail = excluded.tail, middle = excluded.middle, key = excluded.key";

const DELETE_OTHER_ENCODINGS: &str = r"
  DELETE FROM checkpoints INDEXED BY sqlite_autoindex_checkpoints_1
  WHERE id = ?1 AND session = ?2 AND agent = ?3 AND encoding <> ?4
  RETURNING key";

const DELETE: &str = r"
  DELETE FROM checkpoints INDEXED BY sqlite_autoindex_checkpoints_1
  WHERE id = ?1 AND session = ?2 AND agent = ?3
  RETURNING key";

const DELETE_UNLESS_KEPT: &str = r"
  DELETE FROM checkpoints INDEXED BY sqlite_autoindex_checkpoints_1
  WHERE id = ?1 AND session = ?2 AND agent = ?3 AND NOT pinned AND EXISTS (
    SELECT 1 FROM checkpoints newer
    WHERE newer.session = ?2 AND newer.agent = ?3
      AND (newer.made_at, newer.id) > (checkpoints.made_at, checkpoints.id)
  )
  RETURNING key";

const DELETE_ONE_ENCODING: &str = r"
  DELETE FROM checkpoints WHERE id = ?1 AND session = ?2 AND agent = ?3 AND encoding = ?4";

const SET_PINNED: &str = r"
  UPDATE checkpoints INDEXED BY sqlite_autoindex_checkpoints_1 SET pinned = ?4
  WHERE id = ?1 AND session = ?2 AND agent = ?3";

const SET_MADE_AT: &str = r"
  UPDATE checkpoints INDEXED BY sqlite_autoindex_checkpoints_1 SET made_at = ?4
  WHERE id = ?1 AND session = ?2 AND agent = ?3";

const STORED_MADE_AT: &str = r"
  SELECT min(made_at) FROM checkpoints INDEXED BY sqlite_autoindex_checkpoints_1
  WHERE id = ?1 AND session = ?2 AND agent = ?3";

/// A checkpoint of more than `?5` bytes has no middle in the result, so that SQLite does not load it.
const READ: &str = r"
  SELECT size, head, tail, CASE WHEN size <= ?5 THEN middle END FROM checkpoints
  WHERE id = ?1 AND session = ?2 AND agent = ?3 AND encoding = ?4";

const READ_ENDS: &str = r"
  SELECT size, head, tail FROM checkpoints WHERE id = ?1 AND session = ?2 AND agent = ?3 AND encoding = ?4";

const COPY_TO_DAMAGED: &str = r"
  INSERT INTO damaged (session, name, size, head, tail, middle)
  SELECT session, ?5, size, head, tail, middle FROM checkpoints
  WHERE id = ?1 AND session = ?2 AND agent = ?3 AND encoding = ?4";

/// The statements that look up one checkpoint by its id.
#[cfg(test)]
pub const BY_ID: [&str; 5] = [PUT, DELETE_OTHER_ENCODINGS, DELETE, DELETE_UNLESS_KEPT, SET_PINNED];

impl CheckpointKey {
  pub fn new(session: &SessionId, agent: Option<&AgentId>, id: &CheckpointId, encoding: Encoding) -> Self {
    Self {
      session: session.to_string(),
      agent: agent_column(agent).to_owned(),
      id: id.to_string(),
      encoding: encoding_number(encoding),
    }
  }

  pub fn of(series: &Series, entry: &CheckpointEntry) -> Self {
    Self::new(&series.session, series.agent.as_ref(), &entry.id, entry.encoding)
  }

  fn is_delta(&self) -> bool {
    self.encoding == encoding_number(Encoding::Delta)
  }

  /// The parameters of a statement: the key, then `more`.
  fn with<'a>(&'a self, more: &[&'a dyn ToSql]) -> Vec<&'a dyn ToSql> {
    let key: [&dyn ToSql; 4] = [&self.id, &self.session, &self.agent, &self.encoding];
    key.into_iter().chain(more.iter().copied()).collect()
  }

  /// The parameters of a statement for every encoding.
  fn without_encoding(&self) -> [&dyn ToSql; 3] {
    [&self.id, &self.session, &self.agent]
  }
}

/// Stores a checkpoint, and deletes it in every other encoding.
pub fn put(connection: &Connection, key: &CheckpointKey, bytes: &[u8]) -> Result<()> {
  sessions::add(connection, &key.session)?;
  let SplitCheckpoint { head, middle, tail } = SplitCheckpoint::new(bytes);
  let made_at = match time_in_id(&key.id) {
    Some(time) => time,
    // A checkpoint that is replaced keeps its position in the order.
    None => stored_made_at(connection, key)?.unwrap_or_else(Timestamp::now),
  };
  let size = bytes.len();
  let base = if key.is_delta() { base_of_delta(bytes) } else { None };
  connection
    .prepare_cached(PUT)?
    .execute(&*key.with(&[&made_at.as_millis(), &size, &head, &tail, &middle, &base]))?;
  delete_returning_bases(connection, key, DELETE_OTHER_ENCODINGS, &key.with(&[])).map(drop)
}

fn stored_made_at(connection: &Connection, key: &CheckpointKey) -> Result<Option<Timestamp>> {
  let mut statement = connection.prepare_cached(STORED_MADE_AT)?;
  let milliseconds: Option<u64> = statement.query_row(&key.without_encoding()[..], |row| row.get(0))?;
  Ok(milliseconds.map(Timestamp::from_millis))
}

/// Stores a checkpoint, with its attributes, in a session that is being created.
pub fn add(
  connection: &Connection,
  key: &CheckpointKey,
  bytes: &[u8],
  made_at: Option<Timestamp>,
  is_pinned: bool,
) -> Result<()> {
  put(connection, key, bytes)?;
  if let Some(made_at) = made_at {
    set_made_at(connection, key, made_at)?;
  }
  if is_pinned {
    set_pinned(connection, key, true)?;
  }
  Ok(())
}

pub fn read(connection: &Connection, key: &CheckpointKey, limit: u64) -> Result<Option<StoredBytes>> {
  let mut statement = connection.prepare_cached(READ)?;
  let read = statement.query_row(&*key.with(&[&to_signed(limit)]), |row| {
    let Some(middle) = row.get_ref(3)?.as_blob_or_null()? else {
      return Ok(StoredBytes::TooLarge(row.get(0)?));
    };
    let (head, tail) = (row.get_ref(1)?.as_blob()?, row.get_ref(2)?.as_blob()?);
    Ok(StoredBytes::Complete([head, middle, tail].concat()))
  });
  read.optional()
}

/// Both ends of a checkpoint. The middle is loaded only if they are longer than the columns of the ends.
pub fn peek(connection: &Connection, key: &CheckpointKey, head: usize, tail: usize) -> Result<Option<Peek>> {
  let mut statement = connection.prepare_cached(READ_ENDS)?;
  let ends = statement.query_row(&*key.with(&[]), |row| {
    let (head_column, tail_column) = (row.get_ref(1)?.as_blob()?, row.get_ref(2)?.as_blob()?);
    Ok(peek_columns(head_column, tail_column, row.get(0)?, head, tail))
  });
  match ends.optional()? {
    Some(None) => match read(connection, key, u64::MAX)? {
      Some(StoredBytes::Complete(bytes)) => Ok(Some(Peek::of(&bytes, head, tail))),
      Some(StoredBytes::TooLarge(_)) | None => Ok(None),
    },
    ends => Ok(ends.flatten()),
  }
}

/// Deletes a checkpoint in every encoding, and its base if no other checkpoint is based on it.
pub fn delete(connection: &Connection, key: &CheckpointKey) -> Result<bool> {
  delete_returning_bases(connection, key, DELETE, &key.without_encoding())
}

/// Deletes a checkpoint as [`delete`] does, unless it is pinned or the newest.
pub fn delete_unless_kept(connection: &Connection, key: &CheckpointKey) -> Result<bool> {
  delete_returning_bases(connection, key, DELETE_UNLESS_KEPT, &key.without_encoding())
}

/// Runs a deletion that returns the bases of the deleted checkpoints, and deletes those that are not used any more.
fn delete_returning_bases(
  connection: &Connection,
  key: &CheckpointKey,
  sql: &str,
  params: &[&dyn ToSql],
) -> Result<bool> {
  let mut statement = connection.prepare_cached(sql)?;
  let deleted = statement.query_map(params, |row| row.get::<_, Option<String>>(0))?;
  let deleted = deleted.collect::<Result<Vec<_>>>()?;
  for base in deleted.iter().flatten() {
    bases::delete_if_unused(connection, &key.session, &key.agent, base)?;
  }
  Ok(!deleted.is_empty())
}

pub fn set_made_at(connection: &Connection, key: &CheckpointKey, made_at: Timestamp) -> Result<bool> {
  let mut statement = connection.prepare_cached(SET_MADE_AT)?;
  Ok(statement.execute(params![key.id, key.session, key.agent, made_at.as_millis()])? > 0)
}

pub fn set_pinned(connection: &Connection, key: &CheckpointKey, is_pinned: bool) -> Result<bool> {
  let mut statement = connection.prepare_cached(SET_PINNED)?;
  Ok(statement.execute(params![key.id, key.session, key.agent, is_pinned])? > 0)
}

/// Moves a checkpoint to the table `damaged`. Its base is kept: without it, the damage could not be examined.
pub fn move_to_damaged(connection: &Connection, key: &CheckpointKey, new_name: &str) -> Result<bool> {
  let mut statement = connection.prepare_cached(COPY_TO_DAMAGED)?;
  statement.execute(&*key.with(&[&new_name]))?;
  let mut statement = connection.prepare_cached(DELETE_ONE_ENCODING)?;
  Ok(statement.execute(&*key.with(&[]))? > 0)
}
