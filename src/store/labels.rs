//! Labels that are given to checkpoints after they were made, and pins. The checkpoints themselves are never rewritten.

use std::collections::{HashMap, HashSet};
use std::io;

use super::info::Row;
use super::recover::is_environment_error;
use super::{Store, StoredCheckpoint, into_text, laid_out};
use crate::backend::{Attribute, BackendExt, CheckpointEntry, Document, DocumentUpdate, Item, ReadResult, Series};
use crate::checkpoint::document::LABEL;
use crate::checkpoint::summary::Info;
use crate::json::edit::{ObjectWriter, escaped};
use crate::json::scan::{members, text_of, unescape};
use crate::types::error::{Code, Error, Result};
use crate::types::fault_injection;
use crate::types::id::{CheckpointId, SessionId};

/// JSON by the ids of checkpoints: a string, or `null` for one that lost the label that it was made with.
#[derive(Debug, Default)]
pub struct Labels(HashMap<String, String>);

impl Labels {
  pub fn get(&self, id: &CheckpointId) -> Option<&str> {
    self.0.get(id.as_str()).map(String::as_str)
  }

  /// Whether a checkpoint has a label now; `made_with` are those that were made with it.
  fn has(&self, id: &CheckpointId, label: &Label, made_with: &HashSet<CheckpointId>) -> bool {
    match self.get(id) {
      // Labels are compared by their text: the same text may be spelt in several ways.
      Some(literal) => text_of(literal).is_some_and(|text| text == label.text),
      None => made_with.contains(id),
    }
  }

  /// The labels that another store keeps for these checkpoints.
  pub(super) fn only(mut self, ids: &HashSet<CheckpointId>) -> Self {
    self
      .0
      .retain(|id, _| CheckpointId::parse(id).is_ok_and(|id| ids.contains(&id)));
    self
  }

  pub(super) fn is_empty(&self) -> bool {
    self.0.is_empty()
  }

  /// In the order of the ids.
  pub(super) fn document(&self) -> Result<Vec<u8>> {
    let mut sorted: Vec<_> = self.0.iter().collect();
    sorted.sort();
    let mut out = ObjectWriter::with_capacity(64 * sorted.len());
    for (id, label) in sorted {
      out.push(&escaped(id), label);
    }
    laid_out(&out.finish())
  }

  fn to_update(&self, relies_on: Option<&CheckpointId>) -> Result<DocumentUpdate> {
    Ok(DocumentUpdate {
      document: (!self.is_empty()).then(|| self.document()).transpose()?,
      relies_on: relies_on.cloned(),
    })
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

/// One checkpoint gets a label, or loses the one that it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct LabelChange<'a> {
  pub series: &'a Series,
  pub id: &'a CheckpointId,
  pub label: Option<&'a Label>,
  /// The checkpoints that were made with that label, if no other may have it.
  pub made_with: Option<&'a HashSet<CheckpointId>>,
}

impl Store {
  /// Labels of a session's checkpoints; those of agents keep the ones that they were made with. A document that is damaged, or may not
  /// be read, keeps no call from the checkpoints: a verification reports it. If this process or its connection is in trouble, whether there
  /// are labels is not known: an error.
  pub(super) fn labels_of(&self, series: &Series) -> Result<Labels> {
    match self.read_labels(series) {
      Err(error) if is_environment_error(&error) && !is_denied(&error) => Err(error),
      labels => Ok(labels.unwrap_or_default()),
    }
  }

  /// The same for several sessions, in one call of the backend where it can.
  pub(super) fn labels_of_each(&self, sessions: &[SessionId]) -> Result<Vec<Labels>> {
    let limit = self.options.max_read_bytes;
    let documents = self.backend.read_documents(sessions, Document::Labels, limit)?;
    let labels = |(session, bytes): (&SessionId, ReadResult)| {
      let path = || self.backend.name_of(session, Item::LABELS);
      let labels = bytes.ok().flatten().map(|bytes| parse(bytes, &path()));
      labels.and_then(Result::ok).unwrap_or_default()
    };
    Ok(sessions.iter().zip(documents).map(labels).collect())
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

  /// Everything is decided in the step that changes the labels: whether the checkpoint exists, which labels belong to
  /// checkpoints that are gone, and whether another one has a label that must be unique.
  pub fn label_checkpoint(&self, request: &LabelRequest) -> Result<()> {
    let LabelRequest {
      session,
      checkpoint: id,
      label,
      is_unique,
    } = request;
    let series = Series::from(session);
    let unique = label.as_ref().filter(|_| *is_unique);
    // A label that a checkpoint was made with never changes, so these may be looked for first.
    let made_with = unique
      .map(|label| self.made_with_label(&series, &label.text))
      .transpose()?;
    let limit = self.options.max_read_bytes;
    let read_before = if fault_injection::is_enabled("label-lock") {
      Some(self.backend.checkpoints(&series)?)
    } else {
      None
    };
    let change = LabelChange {
      series: &series,
      id,
      label: label.as_ref(),
      made_with: made_with.as_ref(),
    };
    self
      .backend
      .update_document(session, Document::Labels, limit, &mut |old, entries| {
        let entries = read_before.as_deref().unwrap_or(entries);
        if !entries.iter().any(|entry| entry.id == *id) {
          return Err(not_found(&series, id));
        }
        self.labels_after(&change, old, entries)?.to_update(Some(id)).map(Some)
      })
  }

  /// The labels of a session after a change of one, without those of checkpoints that are gone; an error if the label must be unique,
  /// and another one of `entries` has it.
  pub(super) fn labels_after(
    &self,
    change: &LabelChange<'_>,
    old: Option<Vec<u8>>,
    entries: &[CheckpointEntry],
  ) -> Result<Labels> {
    let LabelChange {
      series,
      id,
      label,
      made_with,
    } = change;
    let path = self.backend.name_of(&series.session, Item::LABELS);
    let existing: HashSet<_> = entries.iter().map(|entry| &entry.id).collect();
    let mut labels = old.map_or(Ok(Labels::default()), |bytes| parse(bytes, &path))?;
    labels
      .0
      .retain(|id, _| CheckpointId::parse(id).is_ok_and(|id| existing.contains(&id)));
    if let (Some(label), Some(made_with)) = (label, made_with) {
      let mut others = existing.iter().filter(|other| **other != *id);
      if let Some(other) = others.find(|other| labels.has(other, label, made_with)) {
        return Err(label_taken(series, &label.text, other));
      }
    }
    let literal = label.map_or("null", |label| &label.literal);
    labels.0.insert(id.as_str().to_owned(), literal.to_owned());
    Ok(labels)
  }

  /// Removes the labels of those of these checkpoints that do not exist.
  pub(super) fn forget_labels(&self, series: &Series, deleted: &[CheckpointId]) -> Result<()> {
    // Nearly always there is nothing to remove. What cannot be read is left as it is.
    let labels = self.read_labels(series).unwrap_or_default();
    if !deleted.iter().any(|id| labels.get(id).is_some()) {
      return Ok(());
    }
    let path = self.backend.name_of(&series.session, Item::LABELS);
    let limit = self.options.max_read_bytes;
    self
      .backend
      .update_document(&series.session, Document::Labels, limit, &mut |old, entries| {
        let Some(old) = old else {
          return Ok(None);
        };
        let mut labels = parse(old, &path)?;
        let is_gone = |id: &CheckpointId| !entries.iter().any(|entry| entry.id == *id);
        for id in deleted.iter().filter(|id| is_gone(id)) {
          labels.0.remove(id.as_str());
        }
        labels.to_update(None).map(Some)
      })
  }

  /// Takes over the labels of a session's checkpoints from another store: `theirs` decides about the checkpoints that it names.
  /// Whether anything changed.
  pub(super) fn merge_labels(&self, session: &SessionId, theirs: &Labels) -> Result<bool> {
    let path = self.backend.name_of(session, Item::LABELS);
    let limit = self.options.max_read_bytes;
    let mut is_changed = false;
    self
      .backend
      .update_document(session, Document::Labels, limit, &mut |old, _| {
        // Labels that cannot be read are replaced.
        let mut labels = old.and_then(|bytes| parse(bytes, &path).ok()).unwrap_or_default();
        is_changed = theirs.0.iter().any(|(id, label)| labels.0.get(id) != Some(label));
        labels.0.extend(theirs.0.clone());
        // Written even if it is the same: whoever drops labels of missing checkpoints at this time has to look again.
        labels.to_update(None).map(Some)
      })?;
    Ok(is_changed)
  }

  /// The newest checkpoint that has a label, checked as far as its bytes allow.
  pub fn checkpoint_with_label(&self, session: &SessionId, label: &str) -> Result<Option<StoredCheckpoint>> {
    let series = Series::from(session);
    for row in self.rows_with_label(&series, label)? {
      let read = |encoding| self.verified(&series, &row.entry.id, encoding);
      if let Some(found) = self.in_its_encoding(&series, &row.entry.id, &[row.entry.encoding], read)? {
        return Ok(Some(found));
      }
    }
    Ok(None)
  }

  /// Keeps a checkpoint from retention, or lets it go again.
  pub fn pin_checkpoint(&self, session: &SessionId, id: &CheckpointId, is_pinned: bool) -> Result<()> {
    if self
      .backend
      .set_attribute(&session.into(), id, Attribute::Pinned(is_pinned))?
    {
      return Ok(());
    }
    Err(not_found(&session.into(), id))
  }

  /// The checkpoints that were made with a label, whatever label they have now.
  pub(super) fn made_with_label(&self, series: &Series, label: &str) -> Result<HashSet<CheckpointId>> {
    let entries = self.backend.checkpoints(series)?;
    let infos = self.infos(series, &entries)?;
    let found = entries.into_iter().zip(infos);
    let mut made_with = HashSet::new();
    for (entry, found) in found {
      match found {
        Ok(Some((info, _))) if info.has(LABEL, label) => drop(made_with.insert(entry.id)),
        // A label that could not be read this time may be the one.
        Err(error) if matches!(error.code, Code::Io | Code::Busy) => return Err(error),
        // One that is damaged has no label that could be known.
        Ok(_) | Err(_) => {}
      }
    }
    Ok(made_with)
  }

  fn rows_with_label(&self, series: &Series, label: &str) -> Result<Vec<Row>> {
    let entries = self.backend.checkpoints(series)?;
    // One that cannot be read has no label that could be known.
    let (mut rows, _) = self.rows(series, &entries)?;
    rows.retain(|row| row.info.has(LABEL, label));
    Ok(rows)
  }
}

/// Whether the system does not allow it.
fn is_denied(error: &Error) -> bool {
  let cause = error.cause.as_ref().and_then(|cause| cause.downcast_ref::<io::Error>());
  cause.is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
}

fn label_taken(series: &Series, label: &str, other: &CheckpointId) -> Error {
  Error::new(
    Code::Exists,
    format!(
      "The label {label:?} is taken by the checkpoint {other} of {series}. Take it away from that one first, or choose another"
    ),
  )
}

pub(super) fn not_found(series: &Series, id: &CheckpointId) -> Error {
  Error::new(Code::NotFound, format!("Checkpoint not found: {id} in {series}"))
}

/// Whether a document of labels gives a checkpoint one; for one that cannot be read, that has to be assumed.
pub(super) fn is_labelled(document: &[u8], id: &CheckpointId) -> bool {
  let labels = parse(document.to_vec(), "");
  labels.map_or(true, |labels| labels.get(id).is_some_and(|label| label != "null"))
}

pub(super) fn parse(bytes: Vec<u8>, path: &str) -> Result<Labels> {
  let text = into_text(bytes, path)?;
  let members = members(&text).map_err(|error| Error::corrupt(path, error).because(error))?;
  let is_label = |value: &str| value == "null" || value.starts_with('"');
  let known = members.iter().filter(|member| is_label(member.value));
  let labels = known.map(|member| (unescape(member.raw_key).into_owned(), member.value.to_owned()));
  Ok(Labels(labels.collect()))
}
