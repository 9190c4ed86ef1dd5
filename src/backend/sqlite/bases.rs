//! Bases of deltas, in pieces: appending to a base rewrites nothing.

use rusqlite::{Connection, Result, params};

use super::checkpoints::agent_text;
use super::contents::Contents;
use super::sessions;
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
      agent: agent_text(agent).to_owned(),
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

/// What is appended to a base. Owned, for the same reason.
pub struct Addition {
  key: BaseKey,
  known: u64,
  added: Vec<u8>,
}

impl Addition {
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

  /// Returns whether the base now holds all that the delta needs.
  pub fn apply(&self, connection: &Connection) -> Result<bool> {
    if self.known == 0 {
      let present = match read(connection, &self.key, u64::MAX)? {
        Some(Contents::Bytes(present)) => Some(present),
        Some(Contents::TooLarge(_)) | None => None,
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
      cut(connection, &self.key, self.known)?;
      insert(connection, &self.key, self.known, &self.added)?;
    }
    Ok(true)
  }
}

/// Replaces a whole base.
pub fn put(connection: &Connection, key: &BaseKey, bytes: &[u8]) -> Result<()> {
  sessions::add(connection, &key.session)?;
  cut(connection, key, 0)?;
  insert(connection, key, 0, bytes)
}

/// Deletes the pieces from `start` on.
fn cut(connection: &Connection, key: &BaseKey, start: u64) -> Result<bool> {
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

pub fn read(connection: &Connection, key: &BaseKey, limit: u64) -> Result<Option<Contents>> {
  let size = key.size(connection)?;
  if size > limit {
    return Ok(Some(Contents::TooLarge(size)));
  }
  let sql = "SELECT bytes FROM keys WHERE session = ?1 AND agent = ?2 AND id = ?3 ORDER BY start";
  let mut statement = connection.prepare_cached(sql)?;
  let mut rows = statement.query(key.params())?;
  let mut bytes = Vec::new();
  while let Some(row) = rows.next()? {
    bytes.extend_from_slice(row.get_ref(0)?.as_blob()?);
  }
  Ok((!bytes.is_empty()).then_some(Contents::Bytes(bytes)))
}

pub fn remove(connection: &Connection, key: &BaseKey) -> Result<bool> {
  cut(connection, key, 0)
}

/// Deletes a base if no delta is based on it.
pub fn release(connection: &Connection, session: &str, agent: &str, id: &str) -> Result<bool> {
  let sql = "SELECT 1 FROM checkpoints WHERE session = ?1 AND agent = ?2 AND key = ?3 LIMIT 1";
  let needed = connection.prepare_cached(sql)?.exists([session, agent, id])?;
  let sql = "DELETE FROM keys WHERE session = ?1 AND agent = ?2 AND id = ?3";
  Ok(!needed && connection.prepare_cached(sql)?.execute([session, agent, id])? > 0)
}

/// The bases of a series, with their sizes.
pub fn list(connection: &Connection, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
  let sql = "SELECT id, sum(size) FROM keys WHERE session = ?1 AND agent = ?2 GROUP BY id ORDER BY id";
  sizes(connection, series, sql)
}

fn sizes(connection: &Connection, series: &Series, sql: &str) -> Result<Vec<(CheckpointId, u64)>> {
  let mut statement = connection.prepare_cached(sql)?;
  let mut rows = statement.query([series.session.as_str(), agent_text(series.agent.as_ref())])?;
  let mut bases = Vec::new();
  while let Some(row) = rows.next()? {
    // Skip names that are not valid ids.
    if let Ok(id) = CheckpointId::parse(row.get_ref(0)?.as_str()?) {
      bases.push((id, row.get(1)?));
    }
  }
  Ok(bases)
}

/// The unused bases of a series, with their sizes.
pub fn unused(connection: &Connection, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
  let sql = "SELECT id, sum(size) FROM keys WHERE session = ?1 AND agent = ?2 AND NOT EXISTS
    (SELECT 1 FROM checkpoints WHERE session = ?1 AND agent = ?2 AND key = keys.id) GROUP BY id ORDER BY id";
  sizes(connection, series, sql)
}
