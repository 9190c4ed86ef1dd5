//! What there is below a session. Whoever takes a whole session somewhere else asks here what that is.

use super::Store;
use crate::backend::{BackendExt, CheckpointEntry, Document, ItemKind, ItemName, Series, time_in_id};
use crate::types::error::Result;
use crate::types::id::SessionId;

/// Something below a session that was there when it was listed, or may have been.
#[derive(Debug, Clone)]
pub(super) struct Listed {
  pub name: ItemName,
  /// If it is a checkpoint.
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

  /// The place in the order of a checkpoint whose id says nothing of it.
  pub fn made_at(&self) -> Option<u64> {
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
  /// Everything of a session that this store knows. Checkpoints come first, the oldest first, after their keys; the session's own document
  /// comes last, and earlier versions before the current one, the newest first. Of the documents that are not kept in
  /// versions it is not known yet whether they are there.
  pub(super) fn items_of(&self, session: &SessionId) -> Result<Vec<Listed>> {
    let mut items = Vec::new();
    let mut rows = self.agent_series(session)?;
    rows.push(session.into());
    for series in &rows {
      let entries = self.backend.checkpoints(series)?;
      // Listed later, and read earlier: whatever is added meanwhile, what these stand on is there.
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
