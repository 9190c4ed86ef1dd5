//! Checkpoints as rows.

use rusqlite::{Connection, OptionalExtension, Params, Result, Row, ToSql, params};

use super::bases;
use super::contents::Contents;
use super::sessions::{self, ids};
use crate::backend::{
  CheckpointEntry, CheckpointPage, Encoding, HEAD_BYTES, Parent, Peek, Precondition, PutOutcome, RetentionScope,
  Selection, Series, TAIL_BYTES, time_in_id,
};
use crate::codec::delta::Reference;
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::time::now_ms;

/// What names one checkpoint, in words of its own: an operation may run on another thread.
#[derive(Debug, Clone)]
pub struct CheckpointKey {
  pub session: String,
  agent: String,
  id: String,
  encoding: u8,
}

/// The condition that a [`CheckpointKey`] is bound to as the first four parameters.
macro_rules! where_key {
  ($sql:literal) => {
    concat!($sql, " WHERE id = ?1 AND session = ?2 AND agent = ?3 AND encoding = ?4")
  };
}

/// The condition for a checkpoint in whatever encoding; the first three parameters of a [`CheckpointKey`] are bound to it. Without statistics,
/// SQLite would look through all checkpoints of the series in the other index, which covers more columns.
macro_rules! where_id {
  ($sql:literal) => {
    concat!(
      $sql,
      " INDEXED BY sqlite_autoindex_checkpoints_1 WHERE id = ?1 AND session = ?2 AND agent = ?3"
    )
  };
}

/// Stores a checkpoint. Of one id, all encodings are pinned, or none.
const PUT: &str = concat!(
  "INSERT INTO checkpoints (id, session, agent, encoding, made_at, pinned, size, head, tail, middle, key)
    VALUES (?1, ?2, ?3, ?4, ?5, EXISTS (",
  where_id!("SELECT 1 FROM checkpoints"),
  " AND pinned), ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT DO UPDATE SET made_at = excluded.made_at, size = excluded.size,
      head = excluded.head, tail = excluded.tail, middle = excluded.middle, key = excluded.key"
);
const REMOVE_OTHERS: &str = concat!(
  where_id!("DELETE FROM checkpoints"),
  " AND encoding <> ?4 RETURNING key"
);
const REMOVE: &str = concat!(where_id!("DELETE FROM checkpoints"), " RETURNING key");
const DELETE_UNLESS_KEPT: &str = concat!(
  where_id!("DELETE FROM checkpoints"),
  " AND NOT pinned AND EXISTS (
    SELECT 1 FROM checkpoints newer WHERE newer.session = ?2 AND newer.agent = ?3
      AND (newer.made_at, newer.id) > (checkpoints.made_at, checkpoints.id)
  ) RETURNING key"
);
const SET_PINNED: &str = concat!(
  "UPDATE checkpoints INDEXED BY sqlite_autoindex_checkpoints_1 SET pinned = ?4 ",
  "WHERE id = ?1 AND session = ?2 AND agent = ?3"
);

const SET_MADE_AT: &str = concat!(
  "UPDATE checkpoints INDEXED BY sqlite_autoindex_checkpoints_1 SET made_at = ?4 ",
  "WHERE id = ?1 AND session = ?2 AND agent = ?3"
);

/// What looks up one checkpoint.
#[cfg(test)]
pub const BY_ID: [&str; 6] = [PUT, REMOVE_OTHERS, REMOVE, DELETE_UNLESS_KEPT, SET_PINNED, FIND];

impl CheckpointKey {
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

/// Stores a checkpoint in three parts, in place of the same in any encoding. The first two parts are what a list needs to see.
pub fn put(connection: &Connection, key: &CheckpointKey, bytes: &[u8]) -> Result<()> {
  sessions::add(connection, &key.session)?;
  let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES));
  let (middle, tail) = rest.split_at(rest.len().saturating_sub(TAIL_BYTES));
  let made_at = match time_in_id(&key.id) {
    Some(time) => time,
    // One that is replaced keeps its place in the order.
    None => present_made_at(connection, key)?.unwrap_or_else(now_ms),
  };
  let size = bytes.len();
  let base = (key.encoding == number_of(Encoding::Delta)).then(|| Reference::of(bytes));
  let base = base.flatten().map(|reference| reference.key.to_string());
  connection
    .prepare_cached(PUT)?
    .execute(&*key.with(&[&made_at, &size, &head, &tail, &middle, &base]))?;
  delete(connection, key, REMOVE_OTHERS, &key.with(&[])).map(drop)
}

fn present_made_at(connection: &Connection, key: &CheckpointKey) -> Result<Option<u64>> {
  let mut statement = connection.prepare_cached(where_id!("SELECT min(made_at) FROM checkpoints"))?;
  statement.query_row(params![key.id, key.session, key.agent], |row| row.get(0))
}

/// Stores a checkpoint of a session that is being made, with what else is known of it.
pub fn add(
  connection: &Connection,
  key: &CheckpointKey,
  bytes: &[u8],
  made_at: Option<u64>,
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

pub fn read(connection: &Connection, key: &CheckpointKey, limit: u64) -> Result<Option<Contents>> {
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
pub fn peek(connection: &Connection, key: &CheckpointKey, head: usize, tail: usize) -> Result<Option<Peek>> {
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

/// Removes it, in whatever encoding, and its key if nothing else is based on that.
pub fn remove(connection: &Connection, key: &CheckpointKey) -> Result<bool> {
  delete(connection, key, REMOVE, &key.with(&[])[..3])
}

/// The same, unless it is pinned or the newest.
pub fn delete_unless_kept(connection: &Connection, key: &CheckpointKey) -> Result<bool> {
  delete(connection, key, DELETE_UNLESS_KEPT, &key.with(&[])[..3])
}

fn delete(connection: &Connection, key: &CheckpointKey, sql: &str, params: &[&dyn ToSql]) -> Result<bool> {
  let mut statement = connection.prepare_cached(sql)?;
  let deleted = statement.query_map(params, |row| row.get::<_, Option<String>>(0))?;
  let deleted = deleted.collect::<Result<Vec<_>>>()?;
  for base in deleted.iter().flatten() {
    bases::release(connection, &key.session, &key.agent, base)?;
  }
  Ok(!deleted.is_empty())
}

pub fn set_made_at(connection: &Connection, key: &CheckpointKey, made_at: u64) -> Result<bool> {
  let mut statement = connection.prepare_cached(SET_MADE_AT)?;
  Ok(statement.execute(params![key.id, key.session, key.agent, made_at])? > 0)
}

pub fn set_pinned(connection: &Connection, key: &CheckpointKey, is_pinned: bool) -> Result<bool> {
  let mut statement = connection.prepare_cached(SET_PINNED)?;
  Ok(statement.execute(params![key.id, key.session, key.agent, is_pinned])? > 0)
}

pub fn set_aside(connection: &Connection, key: &CheckpointKey, new_name: &str) -> Result<bool> {
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
/// Those that retention may remove, beyond so many of the newest; oldest first, so that those that stay are not read.
const BEYOND: &str = "
  SELECT id, encoding, made_at, pinned FROM checkpoints WHERE session = ?1 AND agent = ?2 AND NOT pinned
  ORDER BY made_at, id, encoding
  LIMIT max(0, coalesce((SELECT count FROM unpinned WHERE session = ?1 AND agent = ?2), 0) - ?3)";
/// Those that are newer than a new checkpoint, and one that has its id already.
const NEWER: &str = list!("AND (made_at, id) >= (?3, ?4)", "");
const FIND: &str = concat!(
  where_id!("SELECT id, encoding, made_at, pinned FROM checkpoints"),
  " ORDER BY encoding LIMIT 1"
);
const AGENTS: &str = "SELECT DISTINCT agent FROM checkpoints WHERE session = ?1 AND agent > '' ORDER BY agent";
const SESSIONS: &str = "SELECT DISTINCT session FROM checkpoints WHERE id = ?1 AND agent = '' ORDER BY session";

#[cfg(test)]
pub const LISTS: [&str; 6] = [ALL, NEWEST, BEYOND, NEWER, AGENTS, SESSIONS];

pub fn list(connection: &Connection, series: &Series) -> Result<Vec<CheckpointEntry>> {
  let (session, agent) = texts(series);
  entries(connection, ALL, params![session, agent])
}

pub fn newest(connection: &Connection, series: &Series) -> Result<Option<CheckpointEntry>> {
  let (session, agent) = texts(series);
  Ok(entries(connection, NEWEST, params![session, agent])?.pop())
}

/// The checkpoint in the encoding that it has now.
pub fn find(connection: &Connection, series: &Series, id: &CheckpointId) -> Result<Option<CheckpointEntry>> {
  let (session, agent) = texts(series);
  Ok(entries(connection, FIND, params![id.as_str(), session, agent])?.pop())
}

/// Why a checkpoint cannot be stored.
pub fn refusal(
  connection: &Connection,
  series: &Series,
  entry: &CheckpointEntry,
  precondition: &Precondition,
) -> Result<Option<PutOutcome>> {
  match precondition {
    Precondition::None => Ok(None),
    Precondition::Exists => Ok(
      find(connection, series, &entry.id)?
        .is_none()
        .then_some(PutOutcome::Missing),
    ),
    Precondition::Newest(newest) => {
      let (session, agent) = texts(series);
      let mut present = entries(
        connection,
        NEWER,
        params![session, agent, entry.made_at, entry.id.as_str()],
      )?;
      if present.is_empty() && newest.parent != Parent::Any {
        present.extend(self::newest(connection, series)?);
      }
      Ok(newest.refusal(entry, &mut present.iter()))
    }
  }
}

pub fn select(connection: &Connection, series: &Series, selection: Selection<'_>) -> Result<CheckpointPage> {
  Ok(match selection {
    Selection::All => CheckpointPage::all(list(connection, series)?),
    Selection::One(id) => CheckpointPage::all(find(connection, series, id)?.into_iter().collect()),
    Selection::Page { after, limit } => CheckpointPage::cut(list(connection, series)?, after, limit),
    Selection::Retention(scope) => list_for_retention(connection, series, scope)?,
  })
}

fn list_for_retention(connection: &Connection, series: &Series, scope: RetentionScope) -> Result<CheckpointPage> {
  let (session, agent) = texts(series);
  let newest = newest(connection, series)?;
  let entries = match scope {
    RetentionScope::Beyond(keep) => {
      // More than that cannot be stored.
      let keep = i64::try_from(keep).unwrap_or(i64::MAX);
      let mut beyond = entries(connection, BEYOND, params![session, agent, keep])?;
      beyond.reverse();
      beyond
    }
    RetentionScope::All => list(connection, series)?,
  };
  Ok(CheckpointPage {
    total: entries.len(),
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
