//! Checkpoints as rows.

use rusqlite::{Connection, OptionalExtension, Params, Result, Row, ToSql, params};

use super::contents::Contents;
use super::keys;
use super::sessions::{self, ids};
use crate::backend::{CheckpointEntry, Encoding, Peek, Series, Surplus, Wanted, time_in_id};
use crate::clock::now_ms;
use crate::format::delta::Reference;
use crate::format::info::{HEAD_BYTES, TAIL_BYTES};
use crate::id::{AgentId, CheckpointId, SessionId};

/// What names one checkpoint, in words of its own: an operation may run on another thread.
#[derive(Debug, Clone)]
pub struct Key {
  pub session: String,
  agent: String,
  id: String,
  encoding: u8,
}

/// The condition that a [`Key`] is bound to as the first four parameters.
macro_rules! where_key {
  ($sql:literal) => {
    concat!($sql, " WHERE id = ?1 AND session = ?2 AND agent = ?3 AND encoding = ?4")
  };
}

impl Key {
  pub fn new(session: &SessionId, agent: Option<&AgentId>, id: &CheckpointId, encoding: Encoding) -> Self {
    Self {
      session: session.to_string(),
      agent: agent_text(agent).to_owned(),
      id: id.to_string(),
      encoding: number_of(encoding),
    }
  }

  /// The parameters of a statement that begins with a key.
  fn with<'a>(&'a self, more: &[&'a dyn ToSql]) -> Vec<&'a dyn ToSql> {
    let key: [&dyn ToSql; 4] = [&self.id, &self.session, &self.agent, &self.encoding];
    key.into_iter().chain(more.iter().copied()).collect()
  }

  pub fn of(series: &Series, entry: &CheckpointEntry) -> Self {
    Self::new(&series.session, series.agent.as_ref(), &entry.id, entry.encoding)
  }
}

pub fn agent_text(agent: Option<&AgentId>) -> &str {
  agent.map_or("", AgentId::as_str)
}

fn number_of(encoding: Encoding) -> u8 {
  match encoding {
    Encoding::Json => 0,
    Encoding::Gzip => 1,
    Encoding::Zstd => 2,
    Encoding::Delta => 3,
  }
}

/// Stores a checkpoint in three parts. The first two are what a list needs to see.
pub fn put(connection: &Connection, key: &Key, bytes: &[u8]) -> Result<()> {
  sessions::add(connection, &key.session)?;
  let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES));
  let (middle, tail) = rest.split_at(rest.len().saturating_sub(TAIL_BYTES));
  // Of one id, all encodings are pinned, or none.
  let sql = "INSERT INTO checkpoints (id, session, agent, encoding, made_at, pinned, size, head, tail, middle, key)
    VALUES (?1, ?2, ?3, ?4, ?5,
      EXISTS (SELECT 1 FROM checkpoints WHERE id = ?1 AND session = ?2 AND agent = ?3 AND pinned),
      ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT DO UPDATE SET made_at = excluded.made_at, size = excluded.size,
      head = excluded.head, tail = excluded.tail, middle = excluded.middle, key = excluded.key";
  let made_at = time_in_id(&key.id).unwrap_or_else(now_ms);
  let size = bytes.len();
  let stands_on = (key.encoding == number_of(Encoding::Delta)).then(|| Reference::of(bytes));
  let stands_on = stands_on.flatten().map(|reference| reference.key.to_string());
  connection
    .prepare_cached(sql)?
    .execute(&*key.with(&[&made_at, &size, &head, &tail, &middle, &stands_on]))?;
  Ok(())
}

/// Stores a checkpoint of a session that is being made, with what else is known of it.
pub fn add(connection: &Connection, key: &Key, bytes: &[u8], made_at: Option<u64>, is_pinned: bool) -> Result<()> {
  put(connection, key, bytes)?;
  if let Some(made_at) = made_at {
    set_made_at(connection, key, made_at)?;
  }
  if is_pinned {
    let sql = "UPDATE checkpoints SET pinned = TRUE WHERE id = ?1 AND session = ?2 AND agent = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute([&key.id, &key.session, &key.agent])?;
  }
  Ok(())
}

pub fn read(connection: &Connection, key: &Key, limit: u64) -> Result<Option<Contents>> {
  // What is too large is not even loaded.
  let sql = where_key!("SELECT size, head, tail, CASE WHEN size <= ?5 THEN middle END FROM checkpoints");
  let limit = i64::try_from(limit).unwrap_or(i64::MAX);
  let mut statement = connection.prepare_cached(sql)?;
  let read = statement.query_row(&*key.with(&[&limit]), |row| {
    let Some(middle) = row.get_ref(3)?.as_blob_or_null()? else {
      return Ok(Contents::TooLarge(row.get(0)?));
    };
    let (head, tail) = (row.get_ref(1)?.as_blob()?, row.get_ref(2)?.as_blob()?);
    Ok(Contents::Bytes([head, middle, tail].concat()))
  });
  read.optional()
}

/// Both ends of a checkpoint, without the rest of it, as long as no more is asked for than is stored apart.
pub fn peek(connection: &Connection, key: &Key, head: usize, tail: usize) -> Result<Option<Peek>> {
  let sql = where_key!("SELECT size, head, tail FROM checkpoints");
  let mut statement = connection.prepare_cached(sql)?;
  let near = statement.query_row(&*key.with(&[]), |row| {
    let size: u64 = row.get(0)?;
    let (first, last) = (row.get_ref(1)?.as_blob()?, row.get_ref(2)?.as_blob()?);
    if (first.len() + last.len()) as u64 == size {
      return Ok(Some(Peek::of(&[first, last].concat(), head, tail)));
    }
    let is_near = head <= first.len() && tail <= last.len();
    Ok(is_near.then(|| Peek {
      head: first[..head].to_vec(),
      tail: last[last.len() - tail..].to_vec(),
      size,
    }))
  });
  match near.optional()? {
    Some(None) => match read(connection, key, u64::MAX)? {
      Some(Contents::Bytes(bytes)) => Ok(Some(Peek::of(&bytes, head, tail))),
      Some(Contents::TooLarge(_)) | None => Ok(None),
    },
    near => Ok(near.flatten()),
  }
}

/// Removes it, and the key that it was the last one to stand on.
pub fn remove(connection: &Connection, key: &Key) -> Result<bool> {
  delete(
    connection,
    key,
    concat!(where_key!("DELETE FROM checkpoints"), " RETURNING key"),
  )
}

/// The same, unless it is pinned.
pub fn retire(connection: &Connection, key: &Key) -> Result<bool> {
  let sql = concat!(where_key!("DELETE FROM checkpoints"), " AND NOT pinned RETURNING key");
  delete(connection, key, sql)
}

fn delete(connection: &Connection, key: &Key, sql: &str) -> Result<bool> {
  let mut statement = connection.prepare_cached(sql)?;
  let deleted = statement.query_row(&*key.with(&[]), |row| row.get::<_, Option<String>>(0));
  let Some(stood_on) = deleted.optional()? else {
    return Ok(false);
  };
  if let Some(stood_on) = stood_on {
    keys::release(connection, &key.session, &key.agent, &stood_on)?;
  }
  Ok(true)
}

pub fn set_made_at(connection: &Connection, key: &Key, made_at: u64) -> Result<bool> {
  let mut statement = connection.prepare_cached(where_key!("UPDATE checkpoints SET made_at = ?5"))?;
  Ok(statement.execute(&*key.with(&[&made_at]))? > 0)
}

pub fn set_pinned(connection: &Connection, series: &Series, id: &CheckpointId, is_pinned: bool) -> Result<bool> {
  let sql = "UPDATE checkpoints SET pinned = ?4 WHERE id = ?1 AND session = ?2 AND agent = ?3";
  let agent = agent_text(series.agent.as_ref());
  let mut statement = connection.prepare_cached(sql)?;
  Ok(statement.execute(params![id.as_str(), series.session.as_str(), agent, is_pinned])? > 0)
}

pub fn set_aside(connection: &Connection, key: &Key, new_name: &str) -> Result<bool> {
  let sql = where_key!(
    "INSERT INTO damaged (session, name, size, head, tail, middle)
      SELECT session, ?5, size, head, tail, middle FROM checkpoints"
  );
  let mut statement = connection.prepare_cached(sql)?;
  statement.execute(&*key.with(&[&new_name]))?;
  // What it stood on stays: without it, nobody could tell what was damaged.
  let mut statement = connection.prepare_cached(where_key!("DELETE FROM checkpoints"))?;
  Ok(statement.execute(&*key.with(&[]))? > 0)
}

/// The checkpoints of a series, newest first, from the index alone.
macro_rules! list {
  ($condition:literal, $limit:literal) => {
    concat!(
      "SELECT id, encoding, made_at, pinned FROM checkpoints WHERE session = ?1 AND agent = ?2 ",
      $condition,
      " ORDER BY made_at DESC, id DESC, encoding DESC ",
      $limit
    )
  };
}

const ALL: &str = list!("", "");
const NEWEST: &str = list!("", "LIMIT 1");
const UNPINNED: &str = list!("AND NOT pinned", "LIMIT -1 OFFSET ?3");
const AGENTS: &str = "SELECT DISTINCT agent FROM checkpoints WHERE session = ?1 AND agent > '' ORDER BY agent";
const SESSIONS: &str = "SELECT DISTINCT session FROM checkpoints WHERE id = ?1 AND agent = '' ORDER BY session";

#[cfg(test)]
pub const LISTS: [&str; 5] = [ALL, NEWEST, UNPINNED, AGENTS, SESSIONS];

pub fn list(connection: &Connection, series: &Series) -> Result<Vec<CheckpointEntry>> {
  let (session, agent) = texts(series);
  entries(connection, ALL, params![session, agent])
}

pub fn newest(connection: &Connection, series: &Series) -> Result<Option<CheckpointEntry>> {
  let (session, agent) = texts(series);
  Ok(entries(connection, NEWEST, params![session, agent])?.pop())
}

pub fn surplus(connection: &Connection, series: &Series, wanted: Wanted) -> Result<Surplus> {
  let (session, agent) = texts(series);
  let newest = newest(connection, series)?;
  let entries = match wanted {
    Wanted::Beyond(keep) => {
      // Nobody has more than that.
      let keep = i64::try_from(keep).unwrap_or(i64::MAX);
      entries(connection, UNPINNED, params![session, agent, keep])?
    }
    Wanted::All => list(connection, series)?,
  };
  Ok(Surplus {
    newest,
    entries,
    warning: None,
  })
}

fn texts(series: &Series) -> (&str, &str) {
  (series.session.as_str(), agent_text(series.agent.as_ref()))
}

fn entries(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<CheckpointEntry>> {
  let mut statement = connection.prepare_cached(sql)?;
  let mut rows = statement.query(params)?;
  let mut entries = Vec::new();
  while let Some(row) = rows.next()? {
    entries.extend(entry(row)?);
  }
  Ok(entries)
}

/// `None` for what somebody else put there.
fn entry(row: &Row<'_>) -> Result<Option<CheckpointEntry>> {
  let number: u8 = row.get(1)?;
  let encoding = Encoding::ALL
    .into_iter()
    .find(|encoding| number_of(*encoding) == number);
  let id = CheckpointId::parse(row.get_ref(0)?.as_str()?).ok();
  let (made_at, is_pinned) = (row.get(2)?, row.get(3)?);
  Ok(id.zip(encoding).map(|(id, encoding)| CheckpointEntry {
    id,
    encoding,
    made_at,
    is_pinned,
  }))
}

/// The agents that have checkpoints, in the order of their ids.
pub fn agents(connection: &Connection, session: &SessionId) -> Result<Vec<AgentId>> {
  ids(connection, AGENTS, [session.as_str()], AgentId::parse)
}

pub fn sessions_with(connection: &Connection, id: &CheckpointId) -> Result<Vec<SessionId>> {
  ids(connection, SESSIONS, [id.as_str()], SessionId::parse)
}
