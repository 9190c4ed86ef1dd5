//! Lists of checkpoints, from the indexes alone.

use rusqlite::{Connection, Params, Result, Row, params};

use super::sessions::ids;
use crate::backend::sql::{encoding_of_number, entry_of, series_columns, to_signed};
use crate::backend::{
  CheckpointEntry, CheckpointPage, Parent, Precondition, PutOutcome, RetentionScope, Selection, Series,
};
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::time::Timestamp;

const ALL: &str = r"
  SELECT id, encoding, made_at, pinned FROM checkpoints WHERE session = ?1 AND agent = ?2
  ORDER BY made_at DESC, id DESC, encoding DESC";

const NEWEST: &str = r"
  SELECT id, encoding, made_at, pinned FROM checkpoints WHERE session = ?1 AND agent = ?2
  ORDER BY made_at DESC, id DESC, encoding DESC LIMIT 1";

/// The checkpoints that are not pinned, without the `?3` newest of them: those that retention may delete. Oldest first, so that the
/// checkpoints that are kept are not read.
const BEYOND: &str = r"
  SELECT id, encoding, made_at, pinned FROM checkpoints WHERE session = ?1 AND agent = ?2 AND NOT pinned
  ORDER BY made_at, id, encoding
  LIMIT max(0, coalesce((SELECT count FROM unpinned WHERE session = ?1 AND agent = ?2), 0) - ?3)";

/// The checkpoints that are newer than a new one, and one that has its id.
const NEWER: &str = r"
  SELECT id, encoding, made_at, pinned FROM checkpoints
  WHERE session = ?1 AND agent = ?2 AND (made_at, id) >= (?3, ?4)
  ORDER BY made_at DESC, id DESC, encoding DESC";

/// The index is named for the reason that `checkpoints.rs` gives.
const FIND: &str = r"
  SELECT id, encoding, made_at, pinned FROM checkpoints INDEXED BY sqlite_autoindex_checkpoints_1
  WHERE id = ?1 AND session = ?2 AND agent = ?3 ORDER BY encoding LIMIT 1";

const AGENTS: &str = "SELECT DISTINCT agent FROM checkpoints WHERE session = ?1 AND agent > '' ORDER BY agent";

const SESSIONS: &str = "SELECT DISTINCT session FROM checkpoints WHERE id = ?1 AND agent = '' ORDER BY session";

/// The statements that read only a covering index.
#[cfg(test)]
pub const COVERED: [&str; 6] = [ALL, NEWEST, BEYOND, NEWER, AGENTS, SESSIONS];

/// The statement that looks up one checkpoint by its id.
#[cfg(test)]
pub const BY_ID: &str = FIND;

/// All checkpoints of a series, newest first.
pub fn list(connection: &Connection, series: &Series) -> Result<Vec<CheckpointEntry>> {
  let (session, agent) = series_columns(series);
  entries(connection, ALL, params![session, agent])
}

pub fn newest(connection: &Connection, series: &Series) -> Result<Option<CheckpointEntry>> {
  let (session, agent) = series_columns(series);
  Ok(entries(connection, NEWEST, params![session, agent])?.pop())
}

/// A checkpoint, in the encoding that it has now.
fn find(connection: &Connection, series: &Series, id: &CheckpointId) -> Result<Option<CheckpointEntry>> {
  let (session, agent) = series_columns(series);
  Ok(entries(connection, FIND, params![id.as_str(), session, agent])?.pop())
}

/// Why the precondition does not admit a new checkpoint.
pub fn refusal(
  connection: &Connection,
  series: &Series,
  entry: &CheckpointEntry,
  precondition: &Precondition,
) -> Result<Option<PutOutcome>> {
  match precondition {
    Precondition::None => Ok(None),
    Precondition::Exists => {
      let stored = find(connection, series, &entry.id)?;
      Ok(stored.is_none().then_some(PutOutcome::Missing))
    }
    Precondition::Newest(newest) => {
      let (session, agent) = series_columns(series);
      let mut newest_first = entries(
        connection,
        NEWER,
        params![session, agent, entry.made_at.as_millis(), entry.id.as_str()],
      )?;
      if newest_first.is_empty() && newest.parent != Parent::Any {
        newest_first.extend(self::newest(connection, series)?);
      }
      Ok(newest.refusal(entry, &mut newest_first.iter()))
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
  let (session, agent) = series_columns(series);
  let newest = newest(connection, series)?;
  let entries = match scope {
    RetentionScope::Beyond(keep) => {
      let keep = to_signed(keep as u64);
      let mut oldest_first = entries(connection, BEYOND, params![session, agent, keep])?;
      oldest_first.reverse();
      oldest_first
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

fn entries(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<CheckpointEntry>> {
  let mut statement = connection.prepare_cached(sql)?;
  let mut rows = statement.query(params)?;
  let mut entries = Vec::new();
  while let Some(row) = rows.next()? {
    entries.extend(entry(row)?);
  }
  Ok(entries)
}

/// `None` for a row that no store writes.
fn entry(row: &Row<'_>) -> Result<Option<CheckpointEntry>> {
  let encoding = encoding_of_number(row.get(1)?);
  Ok(entry_of(
    row.get_ref(0)?.as_str()?,
    encoding,
    Timestamp::from_millis(row.get(2)?),
    row.get(3)?,
  ))
}

/// The agents that have checkpoints, ordered by id.
pub fn agents(connection: &Connection, session: &SessionId) -> Result<Vec<AgentId>> {
  ids(connection, AGENTS, [session.as_str()], AgentId::parse)
}

/// The sessions that hold a checkpoint of their own with this id, ordered by id.
pub fn sessions_with(connection: &Connection, id: &CheckpointId) -> Result<Vec<SessionId>> {
  ids(connection, SESSIONS, [id.as_str()], SessionId::parse)
}
