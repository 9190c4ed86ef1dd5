//! Lists of checkpoints, from the indexes alone, and reads of their heads and tails.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::checkpoints::{agent_text, encoding_of, number_of};
use super::connection::Connection;
use super::error::PgError;
use super::payload::{to_signed, to_unsigned};
use super::retention::RetentionSelect;
use super::sessions::ids;
use crate::backend::sql::{entry_of, peek_columns, series_columns};
use crate::backend::{CheckpointEntry, CheckpointPage, Peek, Selection, Series};
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::time::Timestamp;

/// All checkpoints of a series, newest first.
pub const ALL: &str = "SELECT id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = $1 AND agent = $2
  ORDER BY made_at DESC, id DESC, encoding DESC";

/// The first $3 checkpoints of a series, each with the number of all.
const FIRST_PAGE: &str = "SELECT series.total, page.id, page.encoding, page.made_at, page.pinned
  FROM (SELECT count(*) AS total FROM waymark.checkpoints WHERE session = $1 AND agent = $2) series
  LEFT JOIN (
    SELECT id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = $1 AND agent = $2
    ORDER BY made_at DESC, id DESC, encoding DESC LIMIT $3
  ) page ON true";

/// The same for the checkpoints after one.
const NEXT_PAGE: &str = "SELECT series.total, page.id, page.encoding, page.made_at, page.pinned
  FROM (SELECT count(*) AS total FROM waymark.checkpoints WHERE session = $1 AND agent = $2) series
  LEFT JOIN (
    SELECT id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = $1 AND agent = $2
      AND (made_at, id, encoding) < ($4, $5, $6)
    ORDER BY made_at DESC, id DESC, encoding DESC LIMIT $3
  ) page ON true";

pub const OF_SESSIONS: &str = "SELECT session, id, encoding, made_at, pinned FROM waymark.checkpoints
  WHERE session = ANY ($1::text[]) AND agent = ''";
const AGENTS: &str = "SELECT DISTINCT agent FROM waymark.checkpoints WHERE session = $1 AND agent > '' ORDER BY agent";
const SESSIONS: &str = "SELECT DISTINCT session FROM waymark.checkpoints WHERE id = $1 AND agent = '' ORDER BY session";

/// The statements that a test checks for sequential scans, with the number of their parameters.
#[cfg(test)]
pub const LISTS: [(&str, usize); 5] = [(ALL, 2), (FIRST_PAGE, 3), (NEXT_PAGE, 6), (AGENTS, 1), (SESSIONS, 1)];

pub async fn list(connection: &Connection, series: &Series) -> Result<Vec<CheckpointEntry>, PgError> {
  let (session, agent) = series_columns(series);
  entries(&connection.query(ALL, &[&session, &agent]).await?)
}

/// The entry of a checkpoint, with its current encoding.
pub async fn find(
  connection: &Connection,
  series: &Series,
  id: &CheckpointId,
) -> Result<Option<CheckpointEntry>, PgError> {
  let (session, agent) = series_columns(series);
  let sql =
    "SELECT id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = $1 AND agent = $2 AND id = $3";
  let rows = connection.query(sql, &[&session, &agent, &id.as_str()]).await?;
  Ok(entries(&rows)?.pop())
}

/// The checkpoints of each session, newest first, without those of its agents.
pub async fn list_each(connection: &Connection, sessions: &[&str]) -> Result<Vec<Vec<CheckpointEntry>>, PgError> {
  let rows = connection.query(OF_SESSIONS, &[&sessions]).await?;
  let mut by_session: HashMap<&str, Vec<CheckpointEntry>> = HashMap::new();
  for row in &rows {
    let entries = by_session.entry(row.try_get(0)?).or_default();
    entries.extend(entry(row, 1)?);
  }
  let of = |session: &&str| {
    let mut entries = by_session.remove(*session).unwrap_or_default();
    entries.sort_by(CheckpointEntry::newest_first);
    entries
  };
  Ok(sessions.iter().map(of).collect())
}

pub async fn select(
  connection: &Connection,
  series: &Series,
  selection: Selection<'_>,
) -> Result<CheckpointPage, PgError> {
  match selection {
    Selection::All => Ok(CheckpointPage::all(list(connection, series).await?)),
    Selection::One(id) => {
      let entry = find(connection, series, id).await?;
      Ok(CheckpointPage::all(entry.into_iter().collect()))
    }
    Selection::Page { after, limit } => page(connection, series, after, limit).await,
    Selection::Retention(scope) => {
      let select = RetentionSelect::new(series, scope);
      select.read(&connection.query(select.sql(), &select.params()).await?)
    }
  }
}

/// At most `limit` checkpoints after `after`, or from the newest on, and the number of all.
async fn page(
  connection: &Connection,
  series: &Series,
  after: Option<&CheckpointEntry>,
  limit: usize,
) -> Result<CheckpointPage, PgError> {
  let (session, agent) = series_columns(series);
  let limit = to_signed(limit as u64);
  let rows = match after {
    None => connection.query(FIRST_PAGE, &[&session, &agent, &limit]).await?,
    Some(after) => {
      let (made_at, id, encoding) = (
        to_signed(after.made_at.as_millis()),
        after.id.as_str(),
        number_of(after.encoding),
      );
      connection
        .query(NEXT_PAGE, &[&session, &agent, &limit, &made_at, &id, &encoding])
        .await?
    }
  };
  let total: i64 = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
  let mut entries = Vec::with_capacity(rows.len());
  for row in &rows {
    // An empty page has one row, for the total.
    if row.try_get::<_, Option<&str>>(1)?.is_some() {
      entries.extend(entry(row, 1)?);
    }
  }
  entries.sort_by(CheckpointEntry::newest_first);
  let total = usize::try_from(total).unwrap_or(0);
  Ok(CheckpointPage {
    entries,
    total,
    ..CheckpointPage::default()
  })
}

/// The head and the tail of each checkpoint, in their order; `None` if it does not exist.
pub async fn peek(
  connection: &Connection,
  wanted: &[(&Series, &CheckpointEntry)],
  head: usize,
  tail: usize,
) -> Result<Vec<Option<StoredEnds>>, PgError> {
  let (mut sessions, mut agents, mut ids, mut encodings) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
  for (series, entry) in wanted {
    sessions.push(series.session.as_str());
    agents.push(agent_text(series.agent.as_ref()));
    ids.push(entry.id.as_str());
    encodings.push(number_of(entry.encoding));
  }
  let sql = "SELECT c.size, c.head, c.tail
    FROM unnest($1::text[], $2::text[], $3::text[], $4::smallint[]) WITH ORDINALITY
      AS wanted (session, agent, id, encoding, position)
    LEFT JOIN waymark.checkpoints c ON c.session = wanted.session AND c.agent = wanted.agent AND c.id = wanted.id
      AND c.encoding = wanted.encoding
    ORDER BY wanted.position";
  let rows = connection.query(sql, &[&sessions, &agents, &ids, &encodings]).await?;
  let ends = |row: &Row| {
    let Some(size) = row.try_get::<_, Option<i64>>(0)? else {
      return Ok(None);
    };
    let (first, last) = (row.try_get(1)?, row.try_get(2)?);
    Ok(Some(StoredEnds::of(first, last, to_unsigned(size), head, tail)))
  };
  rows.iter().map(ends).collect()
}

/// The requested ends of a checkpoint, if its columns `head` and `tail` contain them.
pub enum StoredEnds {
  Complete(Peek),
  /// More bytes were requested than these columns hold.
  TooShort,
}

impl StoredEnds {
  fn of(first: &[u8], last: &[u8], size: u64, head: usize, tail: usize) -> Self {
    peek_columns(first, last, size, head, tail).map_or(Self::TooShort, Self::Complete)
  }
}

pub fn entries(rows: &[Row]) -> Result<Vec<CheckpointEntry>, PgError> {
  let mut entries = Vec::with_capacity(rows.len());
  for row in rows {
    entries.extend(entry(row, 0)?);
  }
  Ok(entries)
}

/// An entry from four columns: id, encoding, time, pin. `None` if the id or the encoding is not one that a store writes.
pub fn entry(row: &Row, first_column: usize) -> Result<Option<CheckpointEntry>, PgError> {
  let encoding = encoding_of(row.try_get(first_column + 1)?);
  let made_at = Timestamp::from_millis(to_unsigned(row.try_get(first_column + 2)?));
  let is_pinned = row.try_get(first_column + 3)?;
  Ok(entry_of(row.try_get(first_column)?, encoding, made_at, is_pinned))
}

/// The agents that have checkpoints, ordered by id.
pub async fn agents(connection: &Connection, session: &SessionId) -> Result<Vec<AgentId>, PgError> {
  ids(&connection.query(AGENTS, &[&session.as_str()]).await?, AgentId::parse)
}

/// The sessions that hold a checkpoint of that id, ordered by id.
pub async fn sessions_with(connection: &Connection, id: &CheckpointId) -> Result<Vec<SessionId>, PgError> {
  ids(&connection.query(SESSIONS, &[&id.as_str()]).await?, SessionId::parse)
}
