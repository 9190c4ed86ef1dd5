//! Labels that checkpoints get after their creation, and pins. The checkpoints themselves are never rewritten.

use std::collections::{BTreeMap, HashSet};
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::info::Row;
use super::{Store, StoredCheckpoint, into_text, laid_out};
use crate::backend::{Attribute, BackendExt, CheckpointEntry, Document, DocumentUpdate, Item, ReadResult, Series};
use crate::checkpoint::document::LABEL;
use crate::checkpoint::summary::Info;
use crate::json::scan::text_of;
use crate::types::error::{Code, Error, Result};
use crate::types::fault_injection;
use crate::types::id::{CheckpointId, SessionId};

/// The document of labels: by checkpoint id, a string, or `null` for a checkpoint that lost its label.
///
/// Labels stay JSON text, because only that can hold lone surrogates.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Labels(BTreeMap<String, Box<RawValue>>);

impl Labels {
  pub fn get(&self, id: &CheckpointId) -> Option<&str> {
    self.0.get(id.as_str()).map(|label| label.get())
  }

  /// Whether a checkpoint has a label now; `made_with` are the checkpoints that were created with it.
  fn has(&self, id: &CheckpointId, label: &Label, made_with: &HashSet<CheckpointId>) -> bool {
    match self.get(id) {
      // Compare texts: one text has several JSON forms.
      Some(literal) => text_of(literal).is_some_and(|text| text == label.text),
      None => made_with.contains(id),
    }
  }

  /// Without the labels of other checkpoints.
  pub(super) fn only(mut self, ids: &HashSet<CheckpointId>) -> Self {
    self
      .0
      .retain(|id, _| CheckpointId::parse(id).is_ok_and(|id| ids.contains(&id)));
    self
  }

  pub(super) fn is_empty(&self) -> bool {
    self.0.is_empty()
  }

  /// Sorted by id.
  pub(super) fn document(&self) -> Result<Vec<u8>> {
    let compact = serde_json::to_string(self);
    laid_out(&compact.map_err(|error| Error::new(Code::Internal, error.to_string()))?)
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

/// The arguments of `labelCheckpoint`.
#[derive(Debug, Clone)]
pub struct LabelRequest {
  pub session: SessionId,
  pub checkpoint: CheckpointId,
  /// `None` removes the label.
  pub label: Option<Label>,
  /// Whether no other checkpoint of the session may have the label.
  pub is_unique: bool,
}

#[derive(Debug, Clone)]
pub struct Label {
  pub text: String,
  /// The text as JSON.
  pub literal: String,
}

/// A change of the label of one checkpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct LabelChange<'a> {
  pub series: &'a Series,
  pub id: &'a CheckpointId,
  pub label: Option<&'a Label>,
  /// The checkpoints that were created with that label, if it must be unique.
  pub made_with: Option<&'a HashSet<CheckpointId>>,
}

impl Store {
  /// The changed labels of a session's checkpoints; those of agents never change. A damaged or unreadable document counts as empty,
  /// so that the checkpoints stay readable; a verification reports it. Errors of this process or its connection are returned.
  pub(super) fn labels_of(&self, series: &Series) -> Result<Labels> {
    match self.read_labels(series) {
      Err(error) if error.is_environmental() && !is_denied(&error) => Err(error),
      labels => Ok(labels.unwrap_or_default()),
    }
  }

  /// [`Store::labels_of`] several sessions.
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

  /// [`Store::labels_of`] for callers that must not take an unreadable label for an absent one.
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

  /// Sets or removes the label of a checkpoint. The step that changes the labels also checks that the checkpoint exists and
  /// that a unique label is free, and drops the labels of deleted checkpoints.
  pub fn label_checkpoint(&self, request: &LabelRequest) -> Result<()> {
    let LabelRequest {
      session,
      checkpoint: id,
      label,
      is_unique,
    } = request;
    let series = Series::from(session);
    let unique = label.as_ref().filter(|_| *is_unique);
    // The label in a checkpoint never changes, so these can be read before that step.
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

  /// The labels of a session after a change, without those of deleted checkpoints. An error if the label must be unique and another
  /// one of `entries` has it.
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
    let literal = label.map_or("null", |label| &label.literal).to_owned();
    let json = RawValue::from_string(literal).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    labels.0.insert(id.as_str().to_owned(), json);
    Ok(labels)
  }

  /// Removes the labels of those of the `deleted` checkpoints that do not exist.
  pub(super) fn forget_labels(&self, series: &Series, deleted: &[CheckpointId]) -> Result<()> {
    // Usually there is nothing to remove. An unreadable document is left as it is.
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
        let is_deleted = |id: &CheckpointId| !entries.iter().any(|entry| entry.id == *id);
        for id in deleted.iter().filter(|id| is_deleted(id)) {
          labels.0.remove(id.as_str());
        }
        labels.to_update(None).map(Some)
      })
  }

  /// Copies labels from another store; `source` replaces those of the checkpoints that it names. True if a label changed.
  pub(super) fn merge_labels(&self, session: &SessionId, source: &Labels) -> Result<bool> {
    let path = self.backend.name_of(session, Item::LABELS);
    let limit = self.options.max_read_bytes;
    let mut is_changed = false;
    self
      .backend
      .update_document(session, Document::Labels, limit, &mut |old, _| {
        // Unreadable labels are replaced.
        let mut labels = old.and_then(|bytes| parse(bytes, &path).ok()).unwrap_or_default();
        let current = |id| labels.0.get(id).map(|label| label.get());
        is_changed = source.0.iter().any(|(id, label)| current(id) != Some(label.get()));
        labels.0.extend(source.0.clone());
        // Written even if it is equal: a concurrent removal of the labels of missing checkpoints has to start again.
        labels.to_update(None).map(Some)
      })?;
    Ok(is_changed)
  }

  /// The newest checkpoint with a label, verified.
  pub fn checkpoint_with_label(&self, session: &SessionId, label: &str) -> Result<Option<StoredCheckpoint>> {
    let series = Series::from(session);
    for row in self.rows_with_label(&series, label)? {
      let read = |encoding| self.verified(&series, &row.entry.id, encoding);
      if let Some(found) = self.in_current_encoding(&series, &row.entry.id, &[row.entry.encoding], read)? {
        return Ok(Some(found));
      }
    }
    Ok(None)
  }

  /// Pins a checkpoint, which retention then keeps, or unpins it.
  pub fn pin_checkpoint(&self, session: &SessionId, id: &CheckpointId, is_pinned: bool) -> Result<()> {
    if self
      .backend
      .set_attribute(&session.into(), id, Attribute::Pinned(is_pinned))?
    {
      return Ok(());
    }
    Err(not_found(&session.into(), id))
  }

  /// The checkpoints that were created with a label, even if it was changed since.
  pub(super) fn made_with_label(&self, series: &Series, label: &str) -> Result<HashSet<CheckpointId>> {
    let entries = self.backend.checkpoints(series)?;
    let infos = self.infos(series, &entries)?;
    let found = entries.into_iter().zip(infos);
    let mut made_with = HashSet::new();
    for (entry, found) in found {
      match found {
        Ok(Some((info, _))) if info.has(LABEL, label) => drop(made_with.insert(entry.id)),
        // The unread label may be equal.
        Err(error) if matches!(error.code, Code::Io | Code::Busy) => return Err(error),
        // The label of a damaged checkpoint is not known.
        Ok(_) | Err(_) => {}
      }
    }
    Ok(made_with)
  }

  fn rows_with_label(&self, series: &Series, label: &str) -> Result<Vec<Row>> {
    let entries = self.backend.checkpoints(series)?;
    // The label of an unreadable checkpoint is not known.
    let (mut rows, _) = self.rows(series, &entries)?;
    rows.retain(|row| row.info.has(LABEL, label));
    Ok(rows)
  }
}

/// Whether the system denied access.
fn is_denied(error: &Error) -> bool {
  let cause = error.cause.as_ref().and_then(|cause| cause.downcast_ref::<io::Error>());
  cause.is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
}

fn label_taken(series: &Series, label: &str, other: &CheckpointId) -> Error {
  Error::new(
    Code::Exists,
    format!(
      "The label {label:?} is taken by the checkpoint {other} of {series}. Remove it there first, or choose another label"
    ),
  )
}

pub(super) fn not_found(series: &Series, id: &CheckpointId) -> Error {
  Error::new(Code::NotFound, format!("Checkpoint not found: {id} in {series}"))
}

/// Whether a document of labels gives a checkpoint a label; true if the document is damaged.
pub(super) fn is_labelled(document: &[u8], id: &CheckpointId) -> bool {
  let labels = parse(document.to_vec(), "");
  labels.map_or(true, |labels| labels.get(id).is_some_and(|label| label != "null"))
}

pub(super) fn parse(bytes: Vec<u8>, path: &str) -> Result<Labels> {
  let text = into_text(bytes, path)?;
  let damaged = |error: serde_json::Error| Error::corrupt(path, &error).because(error);
  let mut labels: Labels = serde_json::from_str(&text).map_err(damaged)?;
  let is_label = |json: &str| json == "null" || json.starts_with('"');
  labels.0.retain(|_, label| is_label(label.get()));
  Ok(labels)
}

#[cfg(test)]
mod tests {
  use super::*;

  fn parsed(text: &str) -> Result<Labels> {
    parse(text.as_bytes().to_vec(), "p")
  }

  #[test]
  fn labels_keep_their_json_text_and_are_sorted_by_id() {
    let labels = parsed(r#"{"b": "\ud800 \u00e9", "a": null, "c\"": "x", "later": {"version": 2}}"#).unwrap();
    let document = String::from_utf8(labels.document().unwrap()).unwrap();
    assert_eq!(
      document,
      "{\n  \"a\": null,\n  \"b\": \"\\ud800 \\u00e9\",\n  \"c\\\"\": \"x\"\n}"
    );
    let id = CheckpointId::parse("b").unwrap();
    assert_eq!(parsed(&document).unwrap().get(&id), Some(r#""\ud800 \u00e9""#));
    assert!(is_labelled(document.as_bytes(), &id));
  }

  #[test]
  fn a_damaged_document_may_label_every_checkpoint() {
    let id = CheckpointId::parse("a").unwrap();
    for damaged in ["", "[]", "null", r#"{"a":"x""#] {
      let error = parsed(damaged).unwrap_err();
      assert!(error.message.starts_with("p is damaged: "), "{error}");
      assert!(is_labelled(damaged.as_bytes(), &id));
    }
    assert!(!is_labelled(br#"{"a":null}"#, &id));
  }
}
