//! Labels that are given to checkpoints after they were made, and pins. The checkpoints themselves are never rewritten.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;

use super::info::Row;
use super::{Store, StoredCheckpoint, into_text, laid_out};
use crate::backend::{CheckpointEntry, Document, Encoding, Item, Series};
use crate::error::{Code, Error, Result};
use crate::format::checkpoint::LABEL;
use crate::format::info::Info;
use crate::format::object::{ObjectWriter, escaped};
use crate::format::scan::{members, unescape};
use crate::id::{CheckpointId, SessionId};

/// JSON by the ids of checkpoints: a string, or `null` for one that lost the label that it was made with.
#[derive(Debug, Default)]
pub struct Labels(HashMap<String, String>);

impl Labels {
  pub fn get(&self, id: &CheckpointId) -> Option<&str> {
    self.0.get(id.as_str()).map(String::as_str)
  }

  pub fn apply(&self, id: &CheckpointId, info: &mut Info) {
    if let Some(label) = self.get(id) {
      info.relabel(Some(label).filter(|label| *label != "null"));
    }
  }
}

/// What `labelCheckpoint` is asked for.
#[derive(Debug, Clone)]
pub struct LabelRequest {
  pub session: SessionId,
  pub checkpoint: CheckpointId,
  /// `None` takes the label away.
  pub label: Option<Label>,
  /// Whether no other checkpoint of the session may have it.
  pub is_unique: bool,
}

#[derive(Debug, Clone)]
pub struct Label {
  pub text: String,
  /// The same as JSON.
  pub literal: String,
}

impl Store {
  /// Labels of a session's checkpoints; those of agents keep the ones that they were made with. A document that cannot be
  /// read must not keep anybody from the checkpoints: a verification reports it.
  pub(super) fn labels_of(&self, series: &Series) -> Labels {
    self.read_labels(series).unwrap_or_default()
  }

  /// The same, for those who must not take a label for absent that cannot be read.
  pub(super) fn read_labels(&self, series: &Series) -> Result<Labels> {
    if series.agent.is_some() {
      return Ok(Labels::default());
    }
    let bytes = self
      .backend
      .read(&series.session, Item::LABELS, self.options.max_read_bytes)?;
    let path = || self.backend.name_of(&series.session, Item::LABELS);
    bytes.map_or(Ok(Labels::default()), |bytes| parse(bytes, &path()))
  }

  pub fn label_checkpoint(&self, request: &LabelRequest) -> Result<()> {
    let LabelRequest {
      session,
      checkpoint: id,
      label,
      ..
    } = request;
    let series = Series::from(session);
    let path = self.backend.name_of(session, Item::LABELS);
    let limit = self.options.max_read_bytes;
    self.require(&series, id)?;
    let _turn = request
      .is_unique
      .then(|| self.unique_labels.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(label) = label.as_ref().filter(|_| request.is_unique) {
      self.require_free(&series, &label.text, Some(id))?;
    }
    let entries = self.backend.checkpoints(&series)?;
    let there: HashSet<_> = entries.iter().map(|entry| entry.id.as_str()).collect();
    self.backend.update(session, Document::Labels, limit, &mut |old| {
      let mut labels = old.map_or(Ok(Labels::default()), |bytes| parse(bytes, &path))?.0;
      // Those of checkpoints that are gone go with the next change.
      labels.retain(|id, _| there.contains(id.as_str()));
      let literal = label.as_ref().map_or("null", |label| &label.literal);
      labels.insert(id.as_str().to_owned(), literal.to_owned());
      let mut sorted: Vec<_> = labels.into_iter().collect();
      sorted.sort();
      let mut out = ObjectWriter::with_capacity(64 * sorted.len());
      for (id, label) in sorted {
        out.push(&escaped(&id), &label);
      }
      laid_out(&out.finish()).map(Some)
    })
  }

  /// The newest checkpoint that has a label, checked as far as its bytes allow.
  pub fn checkpoint_with_label(&self, session: &SessionId, label: &str) -> Result<Option<StoredCheckpoint>> {
    let series = Series::from(session);
    for row in self.rows_with_label(&series, label)? {
      if let Some(found) = self.verified(&series, &row.entry.id, row.entry.encoding)? {
        return Ok(Some(found));
      }
    }
    Ok(None)
  }

  /// Keeps a checkpoint from retention, or lets it go again.
  pub fn pin_checkpoint(&self, session: &SessionId, id: &CheckpointId, is_pinned: bool) -> Result<()> {
    if self.backend.set_pinned(&session.into(), id, is_pinned)? {
      return Ok(());
    }
    Err(not_found(&session.into(), id))
  }

  /// Does something while nobody else of this store gives out labels that must be unique, and only if this one is free.
  pub fn with_free_label<T>(&self, session: &SessionId, label: &str, act: impl FnOnce() -> Result<T>) -> Result<T> {
    let _turn = self.unique_labels.lock().unwrap_or_else(PoisonError::into_inner);
    self.require_free(&session.into(), label, None)?;
    act()
  }

  /// Refuses a label that a checkpoint, other than `mine`, has already.
  fn require_free(&self, series: &Series, label: &str, mine: Option<&CheckpointId>) -> Result<()> {
    let rows = self.rows_with_label(series, label)?;
    match rows.iter().find(|row| Some(&row.entry.id) != mine) {
      None => Ok(()),
      Some(row) => Err(Error::new(
        Code::Exists,
        format!(
          "The label {label:?} is taken by the checkpoint {} of {series}. Take it away from that one first, or choose \
           another",
          row.entry.id
        ),
      )),
    }
  }

  fn rows_with_label(&self, series: &Series, label: &str) -> Result<Vec<Row>> {
    let entries = self.backend.checkpoints(series)?;
    // One that cannot be read has no label that could be known.
    let (mut rows, _) = self.rows(series, &entries)?;
    rows.retain(|row| row.info.has(LABEL, label));
    Ok(rows)
  }

  /// Fails if a checkpoint is not there, in whatever encoding.
  fn require(&self, series: &Series, id: &CheckpointId) -> Result<()> {
    let entries: Vec<_> = Encoding::ALL
      .into_iter()
      .map(|encoding| CheckpointEntry::new(id.clone(), encoding, || 0))
      .collect();
    let peeked = self.backend.peek(series, &entries, 0, 0)?;
    // Something that cannot be read is there.
    if peeked.iter().all(|peeked| matches!(peeked, Ok(None))) {
      return Err(not_found(series, id));
    }
    Ok(())
  }
}

pub(super) fn not_found(series: &Series, id: &CheckpointId) -> Error {
  Error::new(Code::NotFound, format!("Checkpoint not found: {id} in {series}"))
}

pub(super) fn parse(bytes: Vec<u8>, path: &str) -> Result<Labels> {
  let text = into_text(bytes, path)?;
  let members = members(&text).map_err(|error| Error::corrupt(path, error).because(error))?;
  let is_label = |value: &str| value == "null" || value.starts_with('"');
  let known = members.iter().filter(|member| is_label(member.value));
  let labels = known.map(|member| (unescape(member.raw_key).into_owned(), member.value.to_owned()));
  Ok(Labels(labels.collect()))
}
