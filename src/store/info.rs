//! Lists that read no payloads, and walks that read one at a time.

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

/// How many checkpoints are looked at together.
pub(super) const BATCH: usize = 64;

/// Which checkpoints are wanted; what is absent does not matter. Times are milliseconds since 1970, both included.
#[derive(Debug, Clone, Default)]
pub struct Filter {
  pub trigger: Option<String>,
  pub label: Option<String>,
  pub since: Option<f64>,
  pub until: Option<f64>,
  /// Those that have expired by then are left out.
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
  /// Where the last page ended.
  pub cursor: Option<String>,
  pub filter: Filter,
}

#[derive(Debug)]
pub struct InfoPage {
  /// A JSON array of objects, newest first.
  pub infos: String,
  /// Where this page ends, unless it is the last.
  pub cursor: Option<String>,
  /// How many there are without filter and paging, readable or not.
  pub total: usize,
  pub damaged: Vec<Damaged>,
}

/// One line of a list.
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

/// A JSON array of such lines.
pub(super) fn to_json(rows: &[Row]) -> String {
  let lines: Vec<_> = rows.iter().map(Row::to_json).collect();
  format!("[{}]", lines.join(","))
}

/// A walk over the checkpoints of a series, newest first, as they were when it began.
#[derive(Debug)]
pub struct Iteration {
  series: Series,
  labels: Labels,
  filter: Filter,
  waiting: VecDeque<CheckpointEntry>,
  /// Whether any of them was still there when its turn came.
  has_met_one: bool,
}

/// What a walk finds where a checkpoint was listed.
enum Met {
  RetentionScope(Box<Result<StoredCheckpoint, Damaged>>),
  Unwanted,
  /// It is gone.
  Nobody,
}

/// What a list shows of a checkpoint, and the bytes that it takes up; `None` if it is not there.
pub(super) type InfoResult = Result<Option<(Info, u64)>>;

impl Store {
  pub fn list_info(&self, request: &InfoRequest) -> Result<InfoPage> {
    let mut after = request.cursor.as_deref().map(parse_cursor).transpose()?;
    let limit = if request.limit == 0 { usize::MAX } else { request.limit };
    // One more than fits says whether there is another page. How many have to be looked at for a filter, nobody knows.
    let mut enough = if request.filter.admits_all() {
      limit.saturating_add(1)
    } else {
      usize::MAX
    };
    let (mut rows, mut damaged) = (Vec::new(), Vec::new());
    loop {
      let selection = Selection::Page {
        after: after.as_ref(),
        limit: enough,
      };
      let CheckpointPage { entries, total, .. } = self.backend.list_one(&request.series, selection)?;
      let mut waiting = &entries[..];
      while rows.len() < limit && !waiting.is_empty() {
        // Never more than the page still has room for.
        let (batch, rest) = waiting.split_at(waiting.len().min(limit - rows.len()).min(BATCH));
        waiting = rest;
        let (found, unreadable) = self.rows(&request.series, batch)?;
        rows.extend(found.into_iter().filter(|row| request.filter.admits(&row.info)));
        damaged.extend(unreadable);
        after = batch.last().cloned();
      }
      let is_all = entries.len() < enough;
      if is_all || !waiting.is_empty() {
        return Ok(InfoPage {
          infos: to_json(&rows),
          cursor: after.as_ref().filter(|_| !waiting.is_empty()).map(cursor),
          total,
          damaged,
        });
      }
      // What is damaged, or gone, fills no page.
      enough = enough.saturating_mul(2);
    }
  }

  pub fn iterate(&self, series: &Series, filter: Filter) -> Result<Iteration> {
    Ok(Iteration {
      series: series.clone(),
      labels: self.labels_of(series)?,
      filter,
      waiting: self.backend.checkpoints(series)?.into(),
      has_met_one: false,
    })
  }

  /// The next checkpoint of a walk that is still there and wanted, checked as far as its bytes allow.
  pub fn next_of(&self, iteration: &mut Iteration) -> Option<Result<StoredCheckpoint, Damaged>> {
    while let Some(entry) = iteration.waiting.pop_front() {
      match self.meet(iteration, &entry) {
        Met::RetentionScope(read) => {
          iteration.has_met_one = true;
          return Some(*read);
        }
        Met::Unwanted => iteration.has_met_one = true,
        Met::Nobody => {}
      }
      if iteration.waiting.is_empty() && !iteration.has_met_one {
        // Retention took all that was listed, which it does only when there is something newer.
        iteration.waiting = self.backend.checkpoints(&iteration.series).unwrap_or_default().into();
      }
    }
    None
  }

  /// An entry whose turn has come.
  fn meet(&self, iteration: &Iteration, entry: &CheckpointEntry) -> Met {
    if !iteration.filter.admits_all() {
      let info = self.infos(&iteration.series, slice::from_ref(entry));
      match info.and_then(|mut infos| infos.pop().unwrap_or(Ok(None))) {
        Ok(Some((mut info, _))) => {
          iteration.labels.apply(&entry.id, &mut info);
          if !iteration.filter.admits(&info) {
            return Met::Unwanted;
          }
        }
        Ok(None) => return Met::Nobody,
        Err(error) => return Met::RetentionScope(Box::new(Err(self.damaged(&iteration.series, entry, error)))),
      }
    }
    match self.read_entry(&iteration.series, entry) {
      Some(read) => Met::RetentionScope(Box::new(read)),
      None => Met::Nobody,
    }
  }

  /// What a list shows of each checkpoint that is there, with the label that it has now; and those that cannot be read.
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

  pub(super) fn infos(&self, series: &Series, entries: &[CheckpointEntry]) -> Result<Vec<InfoResult>> {
    let peeked = self.backend.peek_in(series, entries, HEAD_BYTES, TAIL_BYTES)?;
    let found = entries.iter().zip(peeked).map(|(entry, peeked)| {
      let found = self.info(series, entry, peeked)?;
      if found.is_some() {
        return Ok(found);
      }
      // It was deleted, or converted, since it was listed.
      self.in_its_encoding(series, &entry.id, &[], |encoding| {
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
    // Not in our layout, or under another name: somebody else wrote it, or its description is long.
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

/// The place of an entry in the order of a list. It stays right when the entry is gone, and when others come.
fn cursor(entry: &CheckpointEntry) -> String {
  format!(
    "{}/{}",
    entry.made_at,
    Item::Checkpoint(None, &entry.id, entry.encoding).file_name()
  )
}

fn parse_cursor(text: &str) -> Result<CheckpointEntry> {
  let entry = text.split_once('/').and_then(|(time, name)| {
    let made_at = time.parse().ok()?;
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
      "options.cursor must be what an earlier page gave as its cursor; got {text:?}"
    ))
  })
}
