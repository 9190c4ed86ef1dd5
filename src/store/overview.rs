//! Rows and lists across all sessions, without payloads.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZero;
use std::slice;
use std::thread;

use super::info::{BATCH, Filter, InfoPage, Row};
use super::{Damaged, Store, into_text};
use crate::backend::{
  BackendExt, CheckpointEntry, Document, HEAD_BYTES, Lease, PeekResult, ReadResult, Selection, Series, SessionFilter,
  TAIL_BYTES, Usage,
};
use crate::json::edit::{ObjectWriter, quoted, text_literal};
use crate::json::scan::{Member, find, members};
use crate::types::error::{Error, Result};
use crate::types::id::SessionId;
use crate::types::time::{Timestamp, now_ms};

/// The metrics of a session that its row shows, and their names there.
const TASK_COUNTS: [(&str, &str); 5] = [
  ("totalTasks", "total"),
  ("completedTasks", "completed"),
  ("failedTasks", "failed"),
  ("pendingTasks", "pending"),
  ("inProgressTasks", "inProgress"),
];

/// The number of sessions that are listed in one call of the backend.
const SESSIONS_BATCH: usize = 256;

/// A request for a page of the checkpoints of all sessions.
#[derive(Debug, Clone, Default)]
pub struct AllRequest {
  /// 0 means all.
  pub limit: usize,
  /// The end of the previous page.
  pub cursor: Option<String>,
  pub filter: Filter,
}

impl Store {
  /// A JSON array with a row for each session that has a document or checkpoints, ordered by id.
  pub fn sessions_info(&self) -> Result<String> {
    let sessions = self.backend.sessions(SessionFilter::All)?;
    let leases = self.leases_json()?;
    let rows = in_parallel(&sessions, |share| self.session_rows(share, &leases))?;
    Ok(format!("[{}]", rows.join(",")))
  }

  /// The row of one session; `None` if it has neither a document nor checkpoints.
  pub fn session_info(&self, session: &SessionId) -> Result<Option<String>> {
    let leases = self.leases_json()?;
    Ok(self.session_rows(slice::from_ref(session), &leases)?.pop())
  }

  /// The leases as JSON.
  fn leases_json(&self) -> Result<HashMap<SessionId, String>> {
    let now = now_ms();
    let leases = self.backend.leases()?.into_iter();
    Ok(
      leases
        .map(|(session, lease)| (session, lease_json(&lease, now)))
        .collect(),
    )
  }

  fn session_rows(&self, sessions: &[SessionId], leases: &HashMap<SessionId, String>) -> Result<Vec<String>> {
    let documents = self
      .backend
      .read_documents(sessions, Document::Session, self.options.max_read_bytes)?;
    let mut snapshots = Vec::with_capacity(sessions.len());
    let usages = self.backend.usage(sessions)?;
    for ((session, document), usage) in sessions.iter().zip(documents).zip(usages) {
      // A usage that cannot be measured hides nothing else, nor does one that cannot be counted.
      let (usage, unmeasured) = match usage {
        Ok(usage) => (usage, None),
        Err(error) => (self.counted(session).unwrap_or_default(), Some(error)),
      };
      if unmeasured.is_some() || !matches!(document, Ok(None)) || usage.checkpoints + usage.agent_checkpoints > 0 {
        snapshots.push(SessionSnapshot {
          session,
          document,
          usage,
          unmeasured,
        });
      }
    }
    let newest = snapshots
      .iter()
      .filter_map(|snapshot| Some((Series::from(snapshot.session), snapshot.usage.newest.clone()?)));
    let newest: Vec<_> = newest.collect();
    let newest: Vec<_> = newest.iter().map(|(series, entry)| (series, entry)).collect();
    let mut peeked = self.backend.peek(&newest, HEAD_BYTES, TAIL_BYTES)?.into_iter();
    let rows = snapshots.into_iter().map(|snapshot| {
      let peeked = snapshot.usage.newest.as_ref().and_then(|_| peeked.next());
      let lease = leases.get(snapshot.session);
      self.session_row(snapshot, peeked.unwrap_or(Ok(None)), lease)
    });
    Ok(rows.collect())
  }

  fn session_row(&self, snapshot: SessionSnapshot<'_>, newest: PeekResult, lease: Option<&String>) -> String {
    let (session, usage) = (snapshot.session, snapshot.usage);
    let path = self.session_path(session);
    let mut out = ObjectWriter::with_capacity(512);
    out.push("id", &quoted(session.as_str()));
    let described = snapshot
      .document
      .and_then(|bytes| bytes.map(|bytes| into_text(bytes, &path)).transpose())
      .and_then(|document| describe(document.as_deref(), &mut out, &path));
    if let Some(error) = described.err().or(snapshot.unmeasured) {
      out.push("damaged", &text_literal(&error.message));
    }
    out.push("checkpointCount", &usage.checkpoints.to_string());
    out.push("pinnedCount", &usage.pinned.to_string());
    out.push("agentCheckpointCount", &usage.agent_checkpoints.to_string());
    if let Some(entry) = usage.newest {
      let mut newest_row = ObjectWriter::with_capacity(64);
      newest_row.push("id", &quoted(entry.id.as_str()));
      match self.info(&session.into(), &entry, newest) {
        Ok(Some((info, _))) => newest_row.push("timestamp", &info.time().to_string()),
        _ => newest_row.push("timestamp", &entry.made_at.as_millis().to_string()),
      }
      out.push("newestCheckpoint", &newest_row.finish());
    }
    out.push("sizeBytes", &usage.total_bytes.to_string());
    if let Some(lease) = lease {
      out.push("lease", lease);
    }
    out.finish()
  }

  /// The usage without bytes.
  fn counted(&self, session: &SessionId) -> Result<Usage> {
    let entries = self.backend.checkpoints(&session.into())?;
    let mut usage = Usage {
      checkpoints: entries.len() as u64,
      pinned: entries.iter().filter(|entry| entry.is_pinned).count() as u64,
      newest: entries.into_iter().next(),
      ..Usage::default()
    };
    for series in self.agent_series(session)? {
      usage.agent_checkpoints += self.backend.checkpoints(&series)?.len() as u64;
    }
    Ok(usage)
  }

  /// Checkpoints of all sessions, newest first.
  pub fn list_all(&self, request: &AllRequest) -> Result<InfoPage> {
    let ids = self.backend.sessions(SessionFilter::All)?;
    let mut all = Vec::new();
    for (chunk, sessions) in ids.chunks(SESSIONS_BATCH).enumerate() {
      let series: Vec<_> = sessions.iter().map(Series::from).collect();
      for (at, page) in self.backend.list(&series, Selection::All)?.into_iter().enumerate() {
        let of = chunk * SESSIONS_BATCH + at;
        all.extend(page.entries.into_iter().map(|entry| ListedCheckpoint { of, entry }));
      }
    }
    let sessions: Vec<Series> = ids.into_iter().map(Series::from).collect();
    // `of` is the index of the session, so this order is that of the session ids.
    all.sort_by(|one, other| {
      let order = one.entry.newest_id_first(&other.entry);
      order.then(one.of.cmp(&other.of))
    });
    let total = all.len();
    let start = match &request.cursor {
      None => 0,
      Some(text) => {
        let (session, after) = parse_cursor(text)?;
        all.partition_point(|found| {
          let order = found.entry.newest_id_first(&after);
          order.then(sessions[found.of].session.cmp(&session)).is_le()
        })
      }
    };
    let limit = if request.limit == 0 { usize::MAX } else { request.limit };
    let mut waiting = &all[start..];
    let mut page = RowsPage::default();
    while page.rows.len() < limit && !waiting.is_empty() {
      let (batch, rest) = waiting.split_at(waiting.len().min(limit - page.rows.len()).min(BATCH));
      waiting = rest;
      self.add_rows(&sessions, batch, &request.filter, &mut page)?;
    }
    let end = all.len() - waiting.len();
    let cursor = (!waiting.is_empty() && end > 0).then(|| cursor(&sessions, &all[end - 1]));
    Ok(InfoPage {
      infos: format!("[{}]", page.rows.join(",")),
      cursor,
      total,
      damaged: page.damaged,
    })
  }

  /// Adds the rows of a batch of checkpoints to a page: reads the labels of all their sessions, then all heads and tails.
  fn add_rows(
    &self,
    sessions: &[Series],
    batch: &[ListedCheckpoint],
    filter: &Filter,
    page: &mut RowsPage,
  ) -> Result<()> {
    let ids: BTreeMap<usize, SessionId> = batch
      .iter()
      .map(|found| (found.of, sessions[found.of].session.clone()))
      .collect();
    let labels = self.labels_of_each(&ids.values().cloned().collect::<Vec<_>>())?;
    let labels: HashMap<_, _> = ids.into_keys().zip(labels).collect();
    let wanted: Vec<_> = batch.iter().map(|found| (&sessions[found.of], &found.entry)).collect();
    let peeked = self.backend.peek(&wanted, HEAD_BYTES, TAIL_BYTES)?;
    for ((found, peeked), (series, entry)) in batch.iter().zip(peeked).zip(wanted) {
      match self.info(series, entry, peeked) {
        Ok(Some((mut info, size))) => {
          if let Some(labels) = labels.get(&found.of) {
            labels.apply(&entry.id, &mut info);
          }
          if filter.admits(&info) {
            let entry = entry.clone();
            let row = Row { entry, info, size }.to_json();
            let session = quoted(series.session.as_str());
            page
              .rows
              .push(row.replacen('{', &format!("{{\"sessionId\":{session},"), 1));
          }
        }
        Err(error) => page.damaged.push(self.damaged(series, entry, error)),
        Ok(None) => {}
      }
    }
    Ok(())
  }
}

/// The data of the row of a session.
struct SessionSnapshot<'a> {
  session: &'a SessionId,
  document: ReadResult,
  usage: Usage,
  /// The error, if its usage could not be measured.
  unmeasured: Option<Error>,
}

/// A checkpoint, and the index of its session.
struct ListedCheckpoint {
  of: usize,
  entry: CheckpointEntry,
}

#[derive(Default)]
struct RowsPage {
  rows: Vec<String>,
  damaged: Vec<Damaged>,
}

fn cursor(sessions: &[Series], found: &ListedCheckpoint) -> String {
  let series = &sessions[found.of];
  let name = series.item_of(&found.entry).file_name();
  format!("{}/{}/{name}", found.entry.made_at.as_millis(), series.session)
}

fn parse_cursor(text: &str) -> Result<(SessionId, CheckpointEntry)> {
  let mut parts = text.splitn(3, '/');
  let mut parse = || {
    let made_at = Timestamp::from_millis(parts.next()?.parse().ok()?);
    let session = SessionId::parse(parts.next()?).ok()?;
    let entry = CheckpointEntry::of_file(parts.next()?, || made_at)?;
    Some((session, CheckpointEntry { made_at, ..entry }))
  };
  parse().ok_or_else(|| {
    Error::invalid_argument(format!(
      "options.cursor must be the cursor of an earlier page; got {text:?}"
    ))
  })
}

fn lease_json(lease: &Lease, now: u64) -> String {
  let mut out = ObjectWriter::with_capacity(96);
  out.push("owner", &text_literal(&lease.owner));
  out.push("number", &lease.number.to_string());
  out.push("expiresAt", &now.saturating_add(lease.remaining_ms).to_string());
  out.finish()
}

/// Writes the members of a session document that its row shows.
fn describe(document: Option<&str>, out: &mut ObjectWriter, path: &str) -> Result<()> {
  let Some(document) = document else {
    return Ok(());
  };
  let found = members(document).map_err(|error| Error::corrupt(path, error).because(error))?;
  for name in ["name", "status", "createdAt", "expiresAt", "forkedFrom"] {
    if let Some(member) = find(&found, name) {
      out.push(name, member.value);
    }
  }
  let metrics = find(&found, "metrics").and_then(|metrics| members(metrics.value).ok());
  if let Some(tasks) = metrics.and_then(|metrics| task_counts(&metrics)) {
    out.push("tasks", &tasks);
  }
  Ok(())
}

fn task_counts(metrics: &[Member<'_>]) -> Option<String> {
  let mut out = ObjectWriter::with_capacity(96);
  let mut is_empty = true;
  for (metric, name) in TASK_COUNTS {
    let count = find(metrics, metric).filter(|count| count.value.parse::<f64>().is_ok());
    if let Some(count) = count {
      out.push(name, count.value);
      is_empty = false;
    }
  }
  (!is_empty).then(|| out.finish())
}

/// Maps shares of the items on as many threads as the machine has processors, because most of the time is spent in system calls.
fn in_parallel<T: Sync, U: Send>(items: &[T], map: impl Fn(&[T]) -> Result<Vec<U>> + Sync) -> Result<Vec<U>> {
  const MIN_SHARE: usize = 64;
  let threads = thread::available_parallelism().map_or(1, NonZero::get).min(8);
  let share = items.len().div_ceil(threads).max(MIN_SHARE);
  let map = &map;
  thread::scope(|scope| {
    let shares = items.chunks(share);
    let shares: Vec<_> = shares.map(|share| scope.spawn(move || map(share))).collect();
    let mut all = Vec::with_capacity(items.len());
    for share in shares {
      match share.join() {
        Ok(mapped) => all.extend(mapped?),
        Err(panic) => std::panic::resume_unwind(panic),
      }
    }
    Ok(all)
  })
}
