//! Lists without payloads, and iterations that read one checkpoint at a time.

use std::collections::VecDeque;
use std::slice;

use super::labels::Labels;
use super::{Damaged, Store, StoredCheckpoint};
use crate::backend::{
  BackendExt, CheckpointEntry, CheckpointPage, Encoding, HEAD_BYTES, Item, PeekResult, Selection, Series, TAIL_BYTES,
};
use crate::checkpoint::document::{Kind, LABEL};
use crate::checkpoint::summary::Info;
use crate::codec::gzip;
use crate::codec::zstd::SkippableFrame;
use crate::json::edit::{ObjectWriter, quoted};
use crate::types::error::{Error, Result};
use crate::types::time::Timestamp;

/// The number of checkpoints that are peeked at in one call of the backend.
pub(super) const BATCH: usize = 64;

/// The conditions that a checkpoint must meet; an absent one is always met. Times are milliseconds since 1970, both included.
#[derive(Debug, Clone, Default)]
pub struct Filter {
  pub trigger: Option<String>,
  pub label: Option<String>,
  pub since: Option<f64>,
  pub until: Option<f64>,
  /// Excludes those that have expired by then.
  pub alive_at: Option<u64>,
}

impl Filter {
  pub(super) fn admits(&self, info: &Info) -> bool {
    self.trigger.as_ref().is_none_or(|trigger| info.has("trigger", trigger))
      && self.label.as_ref().is_none_or(|label| info.has(LABEL, label))
      && self.since.is_none_or(|since| info.time() >= since)
      && self.until.is_none_or(|until| info.time() <= until)
      && self.alive_at.is_none_or(|now| !info.is_expired(now))
  }

  fn admits_all(&self) -> bool {
    self.trigger.is_none()
      && self.label.is_none()
      && self.since.is_none()
      && self.until.is_none()
      && self.alive_at.is_none()
  }
}

#[derive(Debug, Clone)]
pub struct InfoRequest {
  pub series: Series,
  /// 0 means all.
  pub limit: usize,
  /// The end of the previous page.
  pub cursor: Option<String>,
  pub filter: Filter,
}

#[derive(Debug)]
pub struct InfoPage {
  /// A JSON array of objects, newest first.
  pub infos: String,
  /// The end of this page, unless it is the last.
  pub cursor: Option<String>,
  /// The number of checkpoints without filter and paging, readable or not.
  pub total: usize,
  pub damaged: Vec<Damaged>,
}

/// One row of a list.
#[derive(Debug)]
pub(super) struct Row {
  pub entry: CheckpointEntry,
  pub info: Info,
  /// The bytes that it takes up.
  pub size: u64,
}

impl Row {
  pub fn to_json(&self) -> String {
    let mut out = ObjectWriter::with_capacity(320);
    out.push("id", &quoted(self.entry.id.as_str()));
    self.info.write(&mut out);
    out.push("sizeBytes", &self.size.to_string());
    out.push("encoding", &format!("\"{}\"", self.entry.encoding.name()));
    if self.entry.is_pinned {
      out.push("pinned", "true");
    }
    out.finish()
  }
}

/// The rows as a JSON array.
pub(super) fn to_json(rows: &[Row]) -> String {
  let rows: Vec<_> = rows.iter().map(Row::to_json).collect();
  format!("[{}]", rows.join(","))
}

/// An iteration over the checkpoints that a series had when it began, newest first.
#[derive(Debug)]
pub struct Iteration {
  series: Series,
  labels: Labels,
  filter: Filter,
  waiting: VecDeque<CheckpointEntry>,
  /// Whether any of the listed checkpoints still existed when it was reached.
  found_any: bool,
}

/// A listed checkpoint when an iteration reaches it.
enum Reached {
  Selected(Box<Result<StoredCheckpoint, Damaged>>),
  /// The filter does not admit it.
  Excluded,
  Deleted,
}

/// The info of a checkpoint and its size in bytes; `None` if it does not exist.
pub(super) type InfoResult = Result<Option<(Info, u64)>>;

impl Store {
  /// A page of the infos of a series.
  pub fn list_info(&self, request: &InfoRequest) -> Result<InfoPage> {
    let mut after = request.cursor.as_deref().map(parse_cursor).transpose()?;
    let limit = if request.limit == 0 { usize::MAX } else { request.limit };
    // One more than the limit shows whether there is another page. With a filter, all may be needed.
    let mut requested = if request.filter.admits_all() {
      limit.saturating_add(1)
    } else {
      usize::MAX
    };
    let (mut rows, mut damaged) = (Vec::new(), Vec::new());
    loop {
      let selection = Selection::Page {
        after: after.as_ref(),
        limit: requested,
      };
      let CheckpointPage { entries, total, .. } = self.backend.list_one(&request.series, selection)?;
      let mut waiting = &entries[..];
      while rows.len() < limit && !waiting.is_empty() {
        // Never read more than the page can take.
        let (batch, rest) = waiting.split_at(waiting.len().min(limit - rows.len()).min(BATCH));
        waiting = rest;
        let (found, unreadable) = self.rows(&request.series, batch)?;
        rows.extend(found.into_iter().filter(|row| request.filter.admits(&row.info)));
        damaged.extend(unreadable);
        after = batch.last().cloned();
      }
      let is_all = entries.len() < requested;
      if is_all || !waiting.is_empty() {
        return Ok(InfoPage {
          infos: to_json(&rows),
          cursor: after.as_ref().filter(|_| !waiting.is_empty()).map(cursor),
          total,
          damaged,
        });
      }
      // Damaged and deleted checkpoints do not fill the page: request more.
      requested = requested.saturating_mul(2);
    }
  }

  pub fn iterate(&self, series: &Series, filter: Filter) -> Result<Iteration> {
    Ok(Iteration {
      series: series.clone(),
      labels: self.labels_of(series)?,
      filter,
      waiting: self.backend.checkpoints(series)?.into(),
      found_any: false,
    })
  }

  /// The next checkpoint that exists and that the filter admits, verified.
  pub fn next_of(&self, iteration: &mut Iteration) -> Option<Result<StoredCheckpoint, Damaged>> {
    while let Some(entry) = iteration.waiting.pop_front() {
      match self.reach(iteration, &entry) {
        Reached::Selected(read) => {
          iteration.found_any = true;
          return Some(*read);
        }
        Reached::Excluded => iteration.found_any = true,
        Reached::Deleted => {}
      }
      if iteration.waiting.is_empty() && !iteration.found_any {
        // If retention has deleted all of the list, there are newer ones: list again.
        iteration.waiting = self.backend.checkpoints(&iteration.series).unwrap_or_default().into();
      }
    }
    None
  }

  /// Reads the next entry of an iteration, if it exists and the filter admits it.
  fn reach(&self, iteration: &Iteration, entry: &CheckpointEntry) -> Reached {
    if !iteration.filter.admits_all() {
      let info = self.infos(&iteration.series, slice::from_ref(entry));
      match info.and_then(|mut infos| infos.pop().unwrap_or(Ok(None))) {
        Ok(Some((mut info, _))) => {
          iteration.labels.apply(&entry.id, &mut info);
          if !iteration.filter.admits(&info) {
            return Reached::Excluded;
          }
        }
        Ok(None) => return Reached::Deleted,
        Err(error) => return Reached::Selected(Box::new(Err(self.damaged(&iteration.series, entry, error)))),
      }
    }
    match self.read_entry(&iteration.series, entry) {
      Some(read) => Reached::Selected(Box::new(read)),
      None => Reached::Deleted,
    }
  }

  /// The rows of the checkpoints that exist, with their current labels, and those that cannot be read.
  pub(super) fn rows(&self, series: &Series, entries: &[CheckpointEntry]) -> Result<(Vec<Row>, Vec<Damaged>)> {
    let labels = self.labels_of(series)?;
    let (mut rows, mut damaged) = (Vec::new(), Vec::new());
    for (entry, found) in entries.iter().zip(self.infos(series, entries)?) {
      match found {
        Ok(Some((mut info, size))) => {
          labels.apply(&entry.id, &mut info);
          let entry = entry.clone();
          rows.push(Row { entry, info, size });
        }
        Ok(None) => {}
        Err(error) => damaged.push(self.damaged(series, entry, error)),
      }
    }
    Ok((rows, damaged))
  }

  /// The infos of several checkpoints, with the labels of their creation.
  pub(super) fn infos(&self, series: &Series, entries: &[CheckpointEntry]) -> Result<Vec<InfoResult>> {
    let peeked = self.backend.peek_in(series, entries, HEAD_BYTES, TAIL_BYTES)?;
    let found = entries.iter().zip(peeked).map(|(entry, peeked)| {
      let found = self.info(series, entry, peeked)?;
      if found.is_some() {
        return Ok(found);
      }
      // It was deleted or converted since it was listed.
      self.in_current_encoding(series, &entry.id, &[], |encoding| {
        let entry = CheckpointEntry {
          encoding,
          ..entry.clone()
        };
        let peeked = self
          .backend
          .peek_in(series, slice::from_ref(&entry), HEAD_BYTES, TAIL_BYTES)?
          .pop();
        self.info(series, &entry, peeked.unwrap_or(Ok(None)))
      })
    });
    Ok(found.collect())
  }

  /// The info of a checkpoint from its head and tail, or if these do not suffice, from all of it.
  pub(super) fn info(&self, series: &Series, entry: &CheckpointEntry, peeked: PeekResult) -> InfoResult {
    let Some(peek) = peeked? else {
      return Ok(None);
    };
    let kind = kind_of(series);
    let info = match entry.encoding {
      Encoding::Json => Info::peek(kind, &peek.head, &peek.tail),
      Encoding::Gzip => gzip::note(&peek.head).and_then(|note| Info::from_note(kind, note)),
      Encoding::Zstd | Encoding::Delta => {
        let note = SkippableFrame::Note.find(&peek.head);
        note.and_then(|note| Info::from_note(kind, note))
      }
    };
    if let Some(info) = info.filter(|info| info.is_of(entry.id.as_str())) {
      return Ok(Some((info, peek.size)));
    }
    // Read it whole: another program wrote or renamed it, or its description is long.
    let Some(stored) = self.read_checkpoint(series, &entry.id, entry.encoding)? else {
      return Ok(None);
    };
    let text = stored.compact_text();
    let info = Info::of_document(kind, &stored.document(&text)?);
    let info = info.map_err(|error| Error::corrupt(&stored.path, error).because(error))?;
    Ok(Some((info, stored.size_bytes)))
  }
}

pub(super) fn kind_of(series: &Series) -> &'static Kind {
  match series.agent {
    None => &Kind::SESSION,
    Some(_) => &Kind::AGENT,
  }
}

/// The position of an entry in a list. It stays valid when the entry is deleted or others are added.
fn cursor(entry: &CheckpointEntry) -> String {
  format!(
    "{}/{}",
    entry.made_at.as_millis(),
    Item::Checkpoint(None, &entry.id, entry.encoding).file_name()
  )
}

fn parse_cursor(text: &str) -> Result<CheckpointEntry> {
  let entry = text.split_once('/').and_then(|(time, name)| {
    let made_at = Timestamp::from_millis(time.parse().ok()?);
    let entry = CheckpointEntry::of_file(name, || made_at)?;
    // The last of all encodings in the order of a list: a checkpoint that is converted between two pages is not shown twice.
    let encoding = Encoding::Json;
    Some(CheckpointEntry {
      encoding,
      made_at,
      ..entry
    })
  });
  entry.ok_or_else(|| {
    Error::invalid_argument(format!(
      "options.cursor must be the cursor of an earlier page; got {text:?}"
    ))
  })
}
