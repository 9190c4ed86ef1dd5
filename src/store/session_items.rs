//! The items of a session, for exports and copies.

use super::Store;
use crate::backend::{BackendExt, CheckpointEntry, Document, ItemKind, ItemName, Series, time_in_id};
use crate::types::error::Result;
use crate::types::id::SessionId;
use crate::types::time::Timestamp;

/// An item that a session had, or may have had, when it was listed.
#[derive(Debug, Clone)]
pub(super) struct Listed {
  pub name: ItemName,
  /// `None` if it is no checkpoint.
  pub entry: Option<CheckpointEntry>,
}

impl Listed {
  fn of(series: &Series, entry: CheckpointEntry) -> Self {
    Self {
      name: ItemName::Checkpoint(series.agent.clone(), entry.id.clone(), entry.encoding),
      entry: Some(entry),
    }
  }

  pub fn is_checkpoint(&self) -> bool {
    self.entry.is_some()
  }

  pub fn is_pinned(&self) -> bool {
    self.entry.as_ref().is_some_and(|entry| entry.is_pinned)
  }

  /// The position in the order of a checkpoint whose id carries no time.
  pub fn made_at(&self) -> Option<Timestamp> {
    let entry = self.entry.as_ref()?;
    time_in_id(entry.id.as_str()).is_none().then_some(entry.made_at)
  }
}

impl From<ItemName> for Listed {
  fn from(name: ItemName) -> Self {
    Self { name, entry: None }
  }
}

impl Store {
  /// All items of a session: for each series its bases, then its checkpoints, oldest first; then the results; then the documents, of
  /// which the session document is the last, each after its earlier versions, newest first. Whether a document exists is not
  /// checked.
  pub(super) fn items_of(&self, session: &SessionId) -> Result<Vec<Listed>> {
    let mut items = Vec::new();
    let mut all_series = self.agent_series(session)?;
    all_series.push(session.into());
    for series in &all_series {
      let entries = self.backend.checkpoints(series)?;
      // Bases are listed after the checkpoints and read before them, so the base of every listed delta is among them.
      let bases = self.backend.bases(series)?.into_iter();
      items.extend(bases.map(|base| base.name.into()));
      items.extend(entries.into_iter().rev().map(|entry| Listed::of(series, entry)));
    }
    let results = self.backend.items(session, ItemKind::TaskResults)?;
    items.extend(results.into_iter().map(|result| result.name.into()));
    for document in [
      Document::Retention,
      Document::Labels,
      Document::TaskTree,
      Document::Session,
    ] {
      let versions = self.backend.items(session, ItemKind::Previous(document))?;
      items.extend(versions.into_iter().map(|version| version.name.into()));
      items.push(ItemName::Document(document).into());
    }
    Ok(items)
  }
}
