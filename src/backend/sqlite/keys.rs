//! What deltas stand on, in pieces: adding to a key moves nothing of it.

use rusqlite::{Connection, Result, params};

use super::checkpoints::agent_text;
use super::contents::Contents;
use super::sessions;
use crate::backend::{BaseRef, FileStamp, KeyMerge, Series};
use crate::types::id::{AgentId, CheckpointId, SessionId};

/// What names one key, in words of its own: an operation may run on another thread.
#[derive(Debug, Clone)]
pub struct Key {
  session: String,
  agent: String,
  id: String,
}

impl Key {
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

/// What is added to a key, in words of its own.
pub struct Addition {
  key: Key,
  known: u64,
  added: Vec<u8>,
}

impl Addition {
  pub fn new(series: &Series, footing: BaseRef<'_>) -> Self {
    Self {
      key: Key::new(&series.session, series.agent.as_ref(), footing.key),
      known: footing.known,
      added: footing.added.to_vec(),
    }
  }

  /// How the key looks afterwards.
  pub fn look(&self) -> FileStamp {
    FileStamp {
      size: self.known + self.added.len() as u64,
      modified: 0,
    }
  }

  /// The answer is whether the key is there now, with all that a delta needs.
  pub fn apply(&self, connection: &Connection) -> Result<bool> {
    if self.known == 0 {
      let present = match read(connection, &self.key, u64::MAX)? {
        Some(Contents::Bytes(present)) => Some(present),
        Some(Contents::TooLarge(_)) | None => None,
      };
      return Ok(match KeyMerge::of(&self.added, present.as_deref()) {
        KeyMerge::Write => {
          put(connection, &self.key, &self.added)?;
          true
        }
        KeyMerge::Keep => true,
        KeyMerge::Refuse => false,
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

/// Replaces all of a key.
pub fn put(connection: &Connection, key: &Key, bytes: &[u8]) -> Result<()> {
  sessions::add(connection, &key.session)?;
  cut(connection, key, 0)?;
  insert(connection, key, 0, bytes)
}

/// Removes the pieces from a start on.
fn cut(connection: &Connection, key: &Key, start: u64) -> Result<bool> {
  let sql = "DELETE FROM keys WHERE session = ?1 AND agent = ?2 AND id = ?3 AND start >= ?4";
  let [session, agent, id] = key.params();
  let mut statement = connection.prepare_cached(sql)?;
  Ok(statement.execute(params![session, agent, id, start])? > 0)
}

fn insert(connection: &Connection, key: &Key, start: u64, bytes: &[u8]) -> Result<()> {
  let sql = "INSERT INTO keys (session, agent, id, start, size, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
  let [session, agent, id] = key.params();
  let mut statement = connection.prepare_cached(sql)?;
  statement.execute(params![session, agent, id, start, bytes.len(), bytes])?;
  Ok(())
}

pub fn read(connection: &Connection, key: &Key, limit: u64) -> Result<Option<Contents>> {
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

pub fn remove(connection: &Connection, key: &Key) -> Result<bool> {
  cut(connection, key, 0)
}

/// Removes a key if nothing stands on it any more.
pub fn release(connection: &Connection, session: &str, agent: &str, id: &str) -> Result<bool> {
  let sql = "SELECT 1 FROM checkpoints WHERE session = ?1 AND agent = ?2 AND key = ?3 LIMIT 1";
  let needed = connection.prepare_cached(sql)?.exists([session, agent, id])?;
  let sql = "DELETE FROM keys WHERE session = ?1 AND agent = ?2 AND id = ?3";
  Ok(!needed && connection.prepare_cached(sql)?.execute([session, agent, id])? > 0)
}

/// The keys of a series, and their sizes.
pub fn list(connection: &Connection, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
  let sql = "SELECT id, sum(size) FROM keys WHERE session = ?1 AND agent = ?2 GROUP BY id ORDER BY id";
  sizes(connection, series, sql)
}

fn sizes(connection: &Connection, series: &Series, sql: &str) -> Result<Vec<(CheckpointId, u64)>> {
  let mut statement = connection.prepare_cached(sql)?;
  let mut rows = statement.query([series.session.as_str(), agent_text(series.agent.as_ref())])?;
  let mut keys = Vec::new();
  while let Some(row) = rows.next()? {
    // What is no id was put there by somebody else.
    if let Ok(id) = CheckpointId::parse(row.get_ref(0)?.as_str()?) {
      keys.push((id, row.get(1)?));
    }
  }
  Ok(keys)
}

/// The keys of a series that nothing stands on, and their sizes.
pub fn unused(connection: &Connection, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
  let sql = "SELECT id, sum(size) FROM keys WHERE session = ?1 AND agent = ?2 AND NOT EXISTS
    (SELECT 1 FROM checkpoints WHERE session = ?1 AND agent = ?2 AND key = keys.id) GROUP BY id ORDER BY id";
  sizes(connection, series, sql)
}
