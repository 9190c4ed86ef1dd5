//! Bases of deltas as rows, one for each piece: appending to a base adds a row.

use rusqlite::{Connection, Result, params};

use super::sessions;
use super::stored_bytes::StoredBytes;
use crate::backend::sql::{agent_column, series_columns};
use crate::backend::{BaseMerge, BaseRef, FileStamp, Series};
use crate::types::id::{AgentId, CheckpointId, SessionId};

/// The primary key of a base. Owned, because an operation may run on another thread.
#[derive(Debug, Clone)]
pub struct BaseKey {
  session: String,
  agent: String,
  id: String,
}

impl BaseKey {
  pub fn new(session: &SessionId, agent: Option<&AgentId>, id: &CheckpointId) -> Self {
    Self {
      session: session.to_string(),
      agent: agent_column(agent).to_owned(),
      id: id.to_string(),
    }
  }

  fn params(&self) -> [&str; 3] {
    [&self.session, &self.agent, &self.id]
  }

  fn size(&self, connection: &Connection) -> Result<u64> {
    let sql = "SELECT coalesce(max(start + size), 0) FROM keys WHERE session = ?1 AND agent = ?2 AND id = ?3";
    connection
      .prepare_cached(sql)?
      .query_row(self.params(), |row| row.get(0))
  }
}

/// The bytes that a delta appends to its base. Owned, because an operation may run on another thread.
pub struct BaseAddition {
  key: BaseKey,
  /// How many bytes must be stored; 0 for a new base.
  known: u64,
  added: Vec<u8>,
}

impl BaseAddition {
  pub fn new(series: &Series, base: BaseRef<'_>) -> Self {
    Self {
      key: BaseKey::new(&series.session, series.agent.as_ref(), base.id),
      known: base.known,
      added: base.added.to_vec(),
    }
  }

  /// The state of the base afterwards.
  pub fn stamp(&self) -> FileStamp {
    FileStamp {
      size: self.known + self.added.len() as u64,
      modified: 0,
    }
  }

  /// Appends the bytes. Returns whether the base now holds everything that the delta needs.
  pub fn apply(&self, connection: &Connection) -> Result<bool> {
    if self.known == 0 {
      let present = match read(connection, &self.key, u64::MAX)? {
        Some(StoredBytes::Complete(present)) => Some(present),
        Some(StoredBytes::TooLarge(_)) | None => None,
      };
      return Ok(match BaseMerge::of(&self.added, present.as_deref()) {
        BaseMerge::Write => {
          put(connection, &self.key, &self.added)?;
          true
        }
        BaseMerge::Keep => true,
        BaseMerge::Refuse => false,
      });
    }
    if self.key.size(connection)? < self.known {
      return Ok(false);
    }
    if !self.added.is_empty() {
      truncate(connection, &self.key, self.known)?;
      insert(connection, &self.key, self.known, &self.added)?;
    }
    Ok(true)
  }
}

/// Replaces a whole base.
pub fn put(connection: &Connection, key: &BaseKey, bytes: &[u8]) -> Result<()> {
  sessions::add(connection, &key.session)?;
  truncate(connection, key, 0)?;
  insert(connection, key, 0, bytes)
}

/// Deletes the pieces that begin at `start` or later.
fn truncate(connection: &Connection, key: &BaseKey, start: u64) -> Result<bool> {
  let sql = "DELETE FROM keys WHERE session = ?1 AND agent = ?2 AND id = ?3 AND start >= ?4";
  let [session, agent, id] = key.params();
  let mut statement = connection.prepare_cached(sql)?;
  Ok(statement.execute(params![session, agent, id, start])? > 0)
}

fn insert(connection: &Connection, key: &BaseKey, start: u64, bytes: &[u8]) -> Result<()> {
  let sql = "INSERT INTO keys (session, agent, id, start, size, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
  let [session, agent, id] = key.params();
  let mut statement = connection.prepare_cached(sql)?;
  statement.execute(params![session, agent, id, start, bytes.len(), bytes])?;
  Ok(())
}

pub fn read(connection: &Connection, key: &BaseKey, limit: u64) -> Result<Option<StoredBytes>> {
  let size = key.size(connection)?;
  if size > limit {
    return Ok(Some(StoredBytes::TooLarge(size)));
  }
  let sql = "SELECT bytes FROM keys WHERE session = ?1 AND agent = ?2 AND id = ?3 ORDER BY start";
  let mut statement = connection.prepare_cached(sql)?;
  let mut rows = statement.query(key.params())?;
  let mut bytes = Vec::new();
  while let Some(row) = rows.next()? {
    bytes.extend_from_slice(row.get_ref(0)?.as_blob()?);
  }
  Ok((!bytes.is_empty()).then_some(StoredBytes::Complete(bytes)))
}

pub fn delete(connection: &Connection, key: &BaseKey) -> Result<bool> {
  truncate(connection, key, 0)
}

/// Deletes a base if no checkpoint is based on it.
pub fn delete_if_unused(connection: &Connection, session: &str, agent: &str, id: &str) -> Result<bool> {
  let sql = "SELECT 1 FROM checkpoints WHERE session = ?1 AND agent = ?2 AND key = ?3 LIMIT 1";
  let is_used = connection.prepare_cached(sql)?.exists([session, agent, id])?;
  let sql = "DELETE FROM keys WHERE session = ?1 AND agent = ?2 AND id = ?3";
  Ok(!is_used && connection.prepare_cached(sql)?.execute([session, agent, id])? > 0)
}

/// The bases of a series with their sizes, ordered by id.
pub fn list(connection: &Connection, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
  let sql = "SELECT id, sum(size) FROM keys WHERE session = ?1 AND agent = ?2 GROUP BY id ORDER BY id";
  list_sizes(connection, series, sql)
}

fn list_sizes(connection: &Connection, series: &Series, sql: &str) -> Result<Vec<(CheckpointId, u64)>> {
  let mut statement = connection.prepare_cached(sql)?;
  let (session, agent) = series_columns(series);
  let mut rows = statement.query([session, agent])?;
  let mut bases = Vec::new();
  while let Some(row) = rows.next()? {
    // Skip names that are not valid ids.
    if let Ok(id) = CheckpointId::parse(row.get_ref(0)?.as_str()?) {
      bases.push((id, row.get(1)?));
    }
  }
  Ok(bases)
}

/// The bases of a series that no checkpoint is based on, with their sizes, ordered by id.
pub fn unused(connection: &Connection, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
  let sql = r"
    SELECT id, sum(size) FROM keys
    WHERE session = ?1 AND agent = ?2
      AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE session = ?1 AND agent = ?2 AND key = keys.id)
    GROUP BY id ORDER BY id";
  list_sizes(connection, series, sql)
}
