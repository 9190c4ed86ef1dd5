//! Lists of checkpoints, from the indexes alone, and looks at their ends.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::checkpoints::{agent_text, encoding_of, number_of, where_id};
use super::connection::Connection;
use super::failure::Failure;
use super::payload::{to_signed, to_unsigned};
use super::sessions::ids;
use crate::backend::sql::{entry_of, peek_columns, series_columns as texts};
use crate::backend::{CheckpointEntry, CheckpointPage, Peek, RetentionScope, Selection, Series};
use crate::types::id::{AgentId, CheckpointId, SessionId};

/// The checkpoints of a series, newest first.
macro_rules! list {
  ($columns:literal, $condition:literal, $limit:literal) => {
    concat!(
      "SELECT ",
      $columns,
      "id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = $1 AND agent = $2 ",
      $condition,
      " ORDER BY made_at DESC, id DESC, encoding DESC ",
      $limit
    )
  };
}

const ALL: &str = list!("", "", "");
const NEWEST: &str = list!("", "", "LIMIT 1");
/// The newest, and those beyond so many that are not pinned.
const BEYOND: &str = concat!(
  "(",
  list!("true AS is_newest, ", "", "LIMIT 1"),
  ") UNION ALL (",
  list!("false, ", "AND NOT pinned", "OFFSET $3"),
  ")"
);
/// Parts of a list, each with how many there are in all.
macro_rules! page {
  ($condition:literal) => {
    concat!(
      "SELECT series.total, page.id, page.encoding, page.made_at, page.pinned
      FROM (SELECT count(*) AS total FROM waymark.checkpoints WHERE session = $1 AND agent = $2) series
      LEFT JOIN (",
      list!("", $condition, "LIMIT $3"),
      ") page ON true"
    )
  };
}
const FIRST_PAGE: &str = page!("");
const NEXT_PAGE: &str = page!("AND (made_at, id, encoding) < ($4, $5, $6)");
pub const OF_SESSIONS: &str = "SELECT session, id, encoding, made_at, pinned FROM waymark.checkpoints
  WHERE session = ANY ($1::text[]) AND agent = ''";
const AGENTS: &str = "SELECT DISTINCT agent FROM waymark.checkpoints WHERE session = $1 AND agent > '' ORDER BY agent";
const SESSIONS: &str = "SELECT DISTINCT session FROM waymark.checkpoints WHERE id = $1 AND agent = '' ORDER BY session";

/// With how many parameters they have.
#[cfg(test)]
pub const LISTS: [(&str, usize); 7] = [
  (ALL, 2),
  (NEWEST, 2),
  (BEYOND, 3),
  (FIRST_PAGE, 3),
  (NEXT_PAGE, 6),
  (AGENTS, 1),
  (SESSIONS, 1),
];

pub async fn list(connection: &Connection, series: &Series) -> Result<Vec<CheckpointEntry>, Failure> {
  let (session, agent) = texts(series);
  entries(&connection.query(ALL, &[&session, &agent]).await?)
}

/// One of them, in the encoding that it has now.
pub async fn find(
  connection: &Connection,
  series: &Series,
  id: &CheckpointId,
) -> Result<Option<CheckpointEntry>, Failure> {
  let (session, agent) = texts(series);
  let sql = where_id!("SELECT id, encoding, made_at, pinned FROM waymark.checkpoints");
  let rows = connection.query(sql, &[&session, &agent, &id.as_str()]).await?;
  Ok(entries(&rows)?.pop())
}

/// The checkpoints of each of these sessions, newest first, without those of their agents.
pub async fn list_each(connection: &Connection, sessions: &[&str]) -> Result<Vec<Vec<CheckpointEntry>>, Failure> {
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

/// The statement that answers retention.
pub struct RetentionSelect<'a> {
  scope: RetentionScope,
  session: &'a str,
  agent: &'a str,
  keep: i64,
}

impl<'a> RetentionSelect<'a> {
  pub fn new(series: &'a Series, scope: RetentionScope) -> Self {
    let (session, agent) = texts(series);
    let keep = match scope {
      RetentionScope::Beyond(keep) => to_signed(keep as u64),
      RetentionScope::All => 0,
    };
    Self {
      scope,
      session,
      agent,
      keep,
    }
  }

  pub fn sql(&self) -> &'static str {
    match self.scope {
      // Nobody has more than that.
      RetentionScope::Beyond(keep) if u32::try_from(keep).is_err() => NEWEST,
      RetentionScope::Beyond(_) => BEYOND,
      RetentionScope::All => ALL,
    }
  }

  pub fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.session, &self.agent];
    if self.sql() == BEYOND {
      params.push(&self.keep);
    }
    params
  }

  pub fn read(&self, rows: &[Row]) -> Result<CheckpointPage, Failure> {
    let (mut newest, mut entries) = (None, Vec::new());
    match self.scope {
      RetentionScope::All => {
        entries = self::entries(rows)?;
        newest = entries.first().cloned();
      }
      RetentionScope::Beyond(_) if self.sql() == NEWEST => newest = self::entries(rows)?.pop(),
      RetentionScope::Beyond(_) => {
        for row in rows {
          if row.try_get(0)? {
            newest = entry(row, 1)?;
          } else {
            entries.extend(entry(row, 1)?);
          }
        }
        // Of what comes together, no order is promised.
        entries.sort_by(CheckpointEntry::newest_first);
      }
    }
    Ok(CheckpointPage {
      total: entries.len(),
      newest,
      entries,
      warning: None,
    })
  }
}

pub async fn select(
  connection: &Connection,
  series: &Series,
  selection: Selection<'_>,
) -> Result<CheckpointPage, Failure> {
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

/// So many that come after one, or from the newest on, and how many there are in all.
pub async fn page(
  connection: &Connection,
  series: &Series,
  after: Option<&CheckpointEntry>,
  limit: usize,
) -> Result<CheckpointPage, Failure> {
  let (session, agent) = texts(series);
  let limit = to_signed(limit as u64);
  let rows = match after {
    None => connection.query(FIRST_PAGE, &[&session, &agent, &limit]).await?,
    Some(after) => {
      let (made_at, id, encoding) = (to_signed(after.made_at), after.id.as_str(), number_of(after.encoding));
      connection
        .query(NEXT_PAGE, &[&session, &agent, &limit, &made_at, &id, &encoding])
        .await?
    }
  };
  let total: i64 = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
  let mut entries = Vec::with_capacity(rows.len());
  for row in &rows {
    // Without entries there is one row all the same.
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

/// Both ends of some checkpoints, without the rest, in the order in which they are asked for.
pub async fn peek(
  connection: &Connection,
  wanted: &[(&Series, &CheckpointEntry)],
  head: usize,
  tail: usize,
) -> Result<Vec<Option<Near>>, Failure> {
  let (mut sessions, mut agents, mut ids, mut encodings) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
  for (series, entry) in wanted {
    sessions.push(series.session.as_str());
    agents.push(agent_text(series.agent.as_ref()));
    ids.push(entry.id.as_str());
    encodings.push(number_of(entry.encoding));
  }
  let sql = "SELECT c.size, c.head, c.tail
    FROM unnest($1::text[], $2::text[], $3::text[], $4::smallint[]) WITH ORDINALITY
      AS wanted (session, agent, id, encoding, place)
    LEFT JOIN waymark.checkpoints c ON c.session = wanted.session AND c.agent = wanted.agent AND c.id = wanted.id
      AND c.encoding = wanted.encoding
    ORDER BY wanted.place";
  let rows = connection.query(sql, &[&sessions, &agents, &ids, &encodings]).await?;
  let near = |row: &Row| {
    let Some(size) = row.try_get::<_, Option<i64>>(0)? else {
      return Ok(None);
    };
    let (first, last) = (row.try_get(1)?, row.try_get(2)?);
    Ok(Some(Near::of(first, last, to_unsigned(size), head, tail)))
  };
  rows.iter().map(near).collect()
}

/// What can be seen of a checkpoint without its middle.
pub enum Near {
  Enough(Peek),
  /// More is asked for.
  TooLittle,
}

impl Near {
  fn of(first: &[u8], last: &[u8], size: u64, head: usize, tail: usize) -> Self {
    peek_columns(first, last, size, head, tail).map_or(Self::TooLittle, Self::Enough)
  }
}

fn entries(rows: &[Row]) -> Result<Vec<CheckpointEntry>, Failure> {
  let mut entries = Vec::with_capacity(rows.len());
  for row in rows {
    entries.extend(entry(row, 0)?);
  }
  Ok(entries)
}

/// An entry from four columns; `None` for a row that no store writes.
pub fn entry(row: &Row, first_column: usize) -> Result<Option<CheckpointEntry>, Failure> {
  let encoding = encoding_of(row.try_get(first_column + 1)?);
  let made_at = to_unsigned(row.try_get(first_column + 2)?);
  let is_pinned = row.try_get(first_column + 3)?;
  Ok(entry_of(row.try_get(first_column)?, encoding, made_at, is_pinned))
}

/// The agents that have checkpoints, in the order of their ids.
pub async fn agents(connection: &Connection, session: &SessionId) -> Result<Vec<AgentId>, Failure> {
  ids(&connection.query(AGENTS, &[&session.as_str()]).await?, AgentId::parse)
}

pub async fn sessions_with(connection: &Connection, id: &CheckpointId) -> Result<Vec<SessionId>, Failure> {
  ids(&connection.query(SESSIONS, &[&id.as_str()]).await?, SessionId::parse)
}
