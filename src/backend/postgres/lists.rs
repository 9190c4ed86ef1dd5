//! Lists of checkpoints, from the indexes alone, and looks at their ends.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::checkpoints::{agent_text, encoding_of, number_of};
use super::connection::Connection;
use super::failure::Failure;
use super::payload::{to_signed, to_unsigned};
use super::sessions::ids;
use crate::backend::{CheckpointEntry, Peek, Series, Surplus, Wanted};
use crate::id::{AgentId, CheckpointId, SessionId};

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
const SURPLUS: &str = concat!(
  "(",
  list!("true AS is_newest, ", "", "LIMIT 1"),
  ") UNION ALL (",
  list!("false, ", "AND NOT pinned", "OFFSET $3"),
  ")"
);
const AGENTS: &str = "SELECT DISTINCT agent FROM waymark.checkpoints WHERE session = $1 AND agent > '' ORDER BY agent";
const SESSIONS: &str = "SELECT DISTINCT session FROM waymark.checkpoints WHERE id = $1 AND agent = '' ORDER BY session";

/// With how many parameters they have.
#[cfg(test)]
pub const LISTS: [(&str, usize); 5] = [(ALL, 2), (NEWEST, 2), (SURPLUS, 3), (AGENTS, 1), (SESSIONS, 1)];

pub async fn list(connection: &Connection, series: &Series) -> Result<Vec<CheckpointEntry>, Failure> {
  let (session, agent) = texts(series);
  entries(&connection.query(ALL, &[&session, &agent]).await?, 0)
}

pub async fn surplus(connection: &Connection, series: &Series, wanted: Wanted) -> Result<Surplus, Failure> {
  let (session, agent) = texts(series);
  let (newest, mut entries) = match wanted {
    // Nobody has more than that.
    Wanted::Beyond(keep) if u32::try_from(keep).is_err() => {
      let rows = connection.query(NEWEST, &[&session, &agent]).await?;
      (entries(&rows, 0)?.pop(), Vec::new())
    }
    Wanted::Beyond(keep) => {
      let keep = to_signed(keep as u64);
      let rows = connection.query(SURPLUS, &[&session, &agent, &keep]).await?;
      let (mut newest, mut others) = (None, Vec::new());
      for row in &rows {
        if row.try_get(0)? {
          newest = entry(row, 1)?;
        } else {
          others.extend(entry(row, 1)?);
        }
      }
      (newest, others)
    }
    Wanted::All => {
      let entries = list(connection, series).await?;
      (entries.first().cloned(), entries)
    }
  };
  // Of what comes together, no order is promised.
  entries.sort_by(CheckpointEntry::newest_first);
  Ok(Surplus {
    newest,
    entries,
    warning: None,
  })
}

/// Both ends of some checkpoints, without the rest, in the order in which they are asked for. What is asked for of one may
/// be more than is stored apart: then there is nothing in its place but its size.
pub async fn peek(
  connection: &Connection,
  series: &Series,
  wanted: &[CheckpointEntry],
  head: usize,
  tail: usize,
) -> Result<Vec<Option<Near>>, Failure> {
  let (session, agent) = texts(series);
  let ids: Vec<_> = wanted.iter().map(|entry| entry.id.as_str()).collect();
  let encodings: Vec<_> = wanted.iter().map(|entry| number_of(entry.encoding)).collect();
  let sql = "SELECT wanted.place, c.size, c.head, c.tail
    FROM unnest($3::text[], $4::smallint[]) WITH ORDINALITY AS wanted (id, encoding, place)
    JOIN waymark.checkpoints c
      ON c.session = $1 AND c.agent = $2 AND c.id = wanted.id AND c.encoding = wanted.encoding";
  let rows = connection.query(sql, &[&session, &agent, &ids, &encodings]).await?;
  let mut found = HashMap::with_capacity(rows.len());
  for row in &rows {
    let place: i64 = row.try_get(0)?;
    let size = to_unsigned(row.try_get(1)?);
    found.insert(
      to_unsigned(place),
      Near::of(row.try_get(2)?, row.try_get(3)?, size, head, tail),
    );
  }
  Ok((1..).zip(wanted).map(|(place, _)| found.remove(&place)).collect())
}

/// What can be seen of a checkpoint without its middle.
pub enum Near {
  Enough(Peek),
  /// More is asked for.
  TooLittle,
}

impl Near {
  fn of(first: &[u8], last: &[u8], size: u64, head: usize, tail: usize) -> Self {
    if (first.len() + last.len()) as u64 == size {
      return Self::Enough(Peek::of(&[first, last].concat(), head, tail));
    }
    if head > first.len() || tail > last.len() {
      return Self::TooLittle;
    }
    Self::Enough(Peek {
      head: first[..head].to_vec(),
      tail: last[last.len() - tail..].to_vec(),
      size,
    })
  }
}

fn texts(series: &Series) -> (&str, &str) {
  (series.session.as_str(), agent_text(series.agent.as_ref()))
}

fn entries(rows: &[Row], first_column: usize) -> Result<Vec<CheckpointEntry>, Failure> {
  let mut entries = Vec::with_capacity(rows.len());
  for row in rows {
    entries.extend(entry(row, first_column)?);
  }
  Ok(entries)
}

/// An entry from four columns; `None` for what somebody else put there.
pub fn entry(row: &Row, first_column: usize) -> Result<Option<CheckpointEntry>, Failure> {
  let id = CheckpointId::parse(row.try_get(first_column)?).ok();
  let encoding = encoding_of(row.try_get(first_column + 1)?);
  let made_at = to_unsigned(row.try_get(first_column + 2)?);
  let is_pinned = row.try_get(first_column + 3)?;
  Ok(id.zip(encoding).map(|(id, encoding)| CheckpointEntry {
    id,
    encoding,
    made_at,
    is_pinned,
  }))
}

/// The agents that have checkpoints, in the order of their ids.
pub async fn agents(connection: &Connection, session: &SessionId) -> Result<Vec<AgentId>, Failure> {
  ids(&connection.query(AGENTS, &[&session.as_str()]).await?, AgentId::parse)
}

pub async fn sessions_with(connection: &Connection, id: &CheckpointId) -> Result<Vec<SessionId>, Failure> {
  ids(&connection.query(SESSIONS, &[&id.as_str()]).await?, SessionId::parse)
}
