//! Checkpoints of agents.

use std::cmp::Ordering;

use super::info::{Filter, InfoPage, Row, to_json};
use super::{CheckpointList, Created, Damaged, Iteration, Store, Ticket};
use crate::backend::{BackendExt, CheckpointEntry, Encoding, Item, Series};
use crate::checkpoint::agent::AgentState;
use crate::checkpoint::compose::NewCheckpoint;
use crate::types::error::{Code, Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::time::{Timestamp, now_ms};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
  #[default]
  Newest,
  /// By iteration, ascending.
  Iteration,
}

/// A request for a page of an agent's checkpoints.
#[derive(Debug, Clone)]
pub struct AgentRequest {
  pub series: Series,
  pub order: Order,
  /// 0 means all.
  pub limit: usize,
  /// The end of the previous page.
  pub cursor: Option<String>,
}

/// A page of the checkpoints that have not expired.
#[derive(Debug)]
pub struct AgentPage {
  pub(super) rows: Vec<Row>,
  pub cursor: Option<String>,
  /// The number of checkpoints on all pages, readable or not.
  pub total: usize,
  pub damaged: Vec<Damaged>,
}

impl From<AgentPage> for InfoPage {
  fn from(page: AgentPage) -> Self {
    Self {
      infos: to_json(&page.rows),
      cursor: page.cursor,
      total: page.total,
      damaged: page.damaged,
    }
  }
}

impl Store {
  /// The agents of a session that have checkpoints.
  pub fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    let mut with_checkpoints = Vec::new();
    for series in self.agent_series(session)? {
      if !self.backend.checkpoints(&series)?.is_empty() {
        with_checkpoints.extend(series.agent);
      }
    }
    Ok(with_checkpoints)
  }

  /// The series of all agents of a session.
  pub(super) fn agent_series(&self, session: &SessionId) -> Result<Vec<Series>> {
    let agents = self.backend.agents(session)?.into_iter();
    let series = agents.map(|agent| Series {
      session: session.clone(),
      agent: Some(agent),
    });
    Ok(series.collect())
  }

  pub fn save_agent(
    &self,
    ticket: &Ticket,
    state: &AgentState,
    encoding: impl Into<Option<Encoding>>,
  ) -> Result<Created> {
    let series = ticket.series();
    let Some(agent) = &series.agent else {
      return Err(Error::new(
        Code::Internal,
        "the series of an agent state names no agent",
      ));
    };
    let query = self.retention_query(series);
    let compose = |id: &CheckpointId| NewCheckpoint::of_agent(&series.session, agent, id, ticket.timestamp, state);
    let (id, saved, answer) = self.append(ticket, compose, &encoding.into().into(), Some(query))?;
    Ok(self.created(series, id, saved, answer.map(|answer| (query, answer))))
  }

  /// An iteration over the checkpoints that have not expired, newest first.
  pub fn walk_agent(&self, series: &Series) -> Result<Iteration> {
    let filter = Filter {
      alive_at: Some(now_ms()),
      ..Filter::default()
    };
    self.iterate(series, filter)
  }

  /// A page of the checkpoints that have not expired.
  pub fn agent_page(&self, request: &AgentRequest) -> Result<AgentPage> {
    let AgentRequest {
      series, order, limit, ..
    } = request;
    let after = request
      .cursor
      .as_deref()
      .map(|text| parse_cursor(*order, text))
      .transpose()?;
    let (mut rows, damaged) = self.alive(series)?;
    let total = rows.len() + damaged.len();
    rows.sort_by(|one, other| PageCursor::of(one).compare(&PageCursor::of(other), *order));
    if let Some(after) = after {
      let start = rows.partition_point(|row| PageCursor::of(row).compare(&after, *order).is_le());
      rows.drain(..start);
    }
    let limit = if *limit == 0 { usize::MAX } else { *limit };
    let is_last = rows.len() <= limit;
    rows.truncate(limit);
    let cursor = rows
      .last()
      .filter(|_| !is_last)
      .map(|row| PageCursor::of(row).cursor(*order));
    Ok(AgentPage {
      rows,
      cursor,
      total,
      damaged,
    })
  }

  /// The same page, to be read checkpoint by checkpoint.
  pub fn list_agent(&self, request: &AgentRequest) -> Result<CheckpointList> {
    let page = self.agent_page(request)?;
    Ok(CheckpointList {
      series: request.series.clone(),
      entries: page.rows.into_iter().map(|row| row.entry).collect(),
      total: page.total,
      cursor: page.cursor,
      damaged: page.damaged,
    })
  }

  /// Whether the agent has a checkpoint that has not expired, readable or not.
  pub fn has_agent_checkpoint(&self, series: &Series) -> Result<bool> {
    let (rows, damaged) = self.alive(series)?;
    Ok(!rows.is_empty() || !damaged.is_empty())
  }

  /// Deletes the expired checkpoints, and of the others all but the newest `keep`. Returns how many were deleted. An unreadable
  /// checkpoint does not count as kept: it is deleted once `keep` newer ones are readable.
  pub fn prune_agent(&self, series: &Series, keep: usize) -> Result<usize> {
    let now = now_ms();
    let entries = self.backend.checkpoints(series)?;
    let (mut kept, mut deleted) = (0, 0);
    // Only listed checkpoints are deleted: those that are saved meanwhile are newer.
    for (entry, found) in entries.iter().zip(self.infos(series, &entries)?) {
      let is_expired = matches!(&found, Ok(Some((info, _))) if info.is_expired(now));
      if kept < keep && !is_expired {
        kept += usize::from(matches!(found, Ok(Some(_))));
      } else {
        deleted += usize::from(self.backend.remove(&series.session, series.item_of(entry))?);
      }
    }
    Ok(deleted)
  }

  /// The checkpoints that have not expired, newest first, and those that cannot be read.
  fn alive(&self, series: &Series) -> Result<(Vec<Row>, Vec<Damaged>)> {
    let now = now_ms();
    loop {
      let entries = self.backend.checkpoints(series)?;
      let (mut rows, mut damaged) = (Vec::new(), Vec::new());
      let mut deleted = 0;
      for (entry, found) in entries.iter().zip(self.infos(series, &entries)?) {
        match found {
          Ok(Some((info, _))) if info.is_expired(now) => {}
          Ok(Some((info, size))) => rows.push(Row {
            entry: entry.clone(),
            info,
            size,
          }),
          Ok(None) => deleted += 1,
          Err(error) => damaged.push(self.damaged(series, entry, error)),
        }
      }
      // If retention has deleted all of the list, there are newer ones: list again.
      if deleted == 0 || deleted < entries.len() {
        return Ok((rows, damaged));
      }
    }
  }
}

/// The position of a checkpoint in a list.
struct PageCursor {
  iteration: f64,
  entry: CheckpointEntry,
}

impl PageCursor {
  fn of(row: &Row) -> Self {
    Self {
      iteration: row.info.number("iteration").unwrap_or(0.0),
      entry: row.entry.clone(),
    }
  }

  fn compare(&self, other: &Self, order: Order) -> Ordering {
    match order {
      Order::Newest => self.entry.newest_id_first(&other.entry),
      Order::Iteration => {
        let by_iteration = self.iteration.total_cmp(&other.iteration);
        by_iteration.then_with(|| other.entry.newest_id_first(&self.entry))
      }
    }
  }

  fn cursor(&self, order: Order) -> String {
    let iteration = match order {
      Order::Newest => String::new(),
      Order::Iteration => self.iteration.to_string(),
    };
    let name = Item::Checkpoint(None, &self.entry.id, self.entry.encoding).file_name();
    format!("{iteration}/{}/{name}", self.entry.made_at.as_millis())
  }
}

fn parse_cursor(order: Order, text: &str) -> Result<PageCursor> {
  let cursor = text.split_once('/').and_then(|(iteration, rest)| {
    let (time, name) = rest.split_once('/')?;
    let made_at = Timestamp::from_millis(time.parse().ok()?);
    let iteration = match order {
      Order::Newest if iteration.is_empty() => 0.0,
      Order::Newest => return None,
      Order::Iteration => iteration.parse().ok()?,
    };
    let entry = CheckpointEntry::of_file(name, || made_at)?;
    Some(PageCursor {
      iteration,
      entry: CheckpointEntry { made_at, ..entry },
    })
  });
  cursor.ok_or_else(|| {
    Error::invalid_argument(format!(
      "options.cursor must be the cursor of an earlier page in the same order; got {text:?}"
    ))
  })
}
