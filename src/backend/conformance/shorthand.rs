//! Shorthands for frequent calls in tests.

use crate::backend::{
  Attribute, Backend, BackendExt, CheckpointEntry, CheckpointPage, DeleteCondition, DeleteMode, DeletedSession,
  Document, DocumentChange, DocumentUpdate, IsLabelled, ItemKind, ItemName, ItemSource, Maintenance, PutOutcome,
  RetentionScope, Selection, Series, SessionFilter,
};
use crate::types::error::{Error, Result};
use crate::types::id::{CheckpointId, SessionId, TaskId};

/// Shorthands for frequent calls in tests.
pub trait Shorthand: Backend {
  fn all_sessions(&self) -> Result<Vec<SessionId>> {
    self.sessions(SessionFilter::All)
  }

  fn saved_sessions(&self) -> Result<Vec<SessionId>> {
    self.sessions(SessionFilter::Saved)
  }

  fn sessions_with_checkpoint(&self, id: &CheckpointId) -> Result<Vec<SessionId>> {
    self.sessions(SessionFilter::WithCheckpoint(id))
  }

  fn create_empty(&self, session: &SessionId) -> Result<()> {
    self.create_session(session, None).map(drop)
  }

  fn create_session_with(&self, session: &SessionId, source: &mut ItemSource<'_>) -> Result<bool> {
    self.create_session(session, Some(source))
  }

  /// Returns the error if the space could not be freed.
  fn delete_any(&self, session: &SessionId) -> Result<Option<Error>> {
    Ok(
      self
        .delete_session(session, None)?
        .and_then(|deleted| deleted.not_freed),
    )
  }

  fn delete_if(
    &self,
    session: &SessionId,
    limit: u64,
    accepts: &mut dyn FnMut(Option<&[u8]>) -> Result<bool>,
  ) -> Result<Option<DeletedSession>> {
    self.delete_session(session, Some(DeleteCondition { limit, accepts }))
  }

  fn update(
    &self,
    session: &SessionId,
    document: Document,
    limit: u64,
    change: &mut dyn FnMut(Option<Vec<u8>>) -> Result<Option<Vec<u8>>>,
  ) -> Result<()> {
    self.update_document(session, document, limit, &mut |old, _| {
      Ok(change(old)?.map(DocumentUpdate::from))
    })
  }

  fn update_labels(&self, session: &SessionId, limit: u64, change: &mut DocumentChange<'_>) -> Result<()> {
    self.update_document(session, Document::Labels, limit, change)
  }

  fn versions(&self, session: &SessionId, document: Document) -> Result<u32> {
    let versions = self.items(session, ItemKind::Previous(document))?;
    Ok(u32::try_from(versions.len()).unwrap_or(u32::MAX))
  }

  fn results(&self, session: &SessionId) -> Result<Vec<TaskId>> {
    let items = self.items(session, ItemKind::TaskResults)?.into_iter();
    let ids = items.filter_map(|item| match item.name {
      ItemName::TaskResult(id) => Some(id),
      _ => None,
    });
    Ok(ids.collect())
  }

  fn sized_bases(&self, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
    let bases = self.bases(series)?.into_iter();
    let sized = bases.filter_map(|base| match base.name {
      ItemName::Base(_, id) => Some((id, base.size?)),
      _ => None,
    });
    Ok(sized.collect())
  }

  fn list_for_retention(&self, series: &Series, scope: RetentionScope) -> Result<CheckpointPage> {
    self.list_one(series, Selection::Retention(scope))
  }

  fn page(&self, series: &Series, after: Option<&CheckpointEntry>, limit: usize) -> Result<CheckpointPage> {
    self.list_one(series, Selection::Page { after, limit })
  }

  fn delete_surplus(&self, series: &Series, entry: &CheckpointEntry, is_labelled: Option<IsLabelled>) -> Result<bool> {
    let mode = DeleteMode::UnlessKept(is_labelled);
    self.delete(&series.session, series.item_of(entry), mode)
  }

  fn sync_deletes(&self, series: &Series) -> Result<()> {
    self.maintain(Maintenance::SyncDeletes(series)).map(drop)
  }

  fn delete_unused_bases(&self, series: &Series) -> Result<u64> {
    self.maintain(Maintenance::DeleteUnusedBases(series))
  }

  fn vacuum(&self) -> Result<()> {
    self.maintain(Maintenance::Vacuum).map(drop)
  }

  fn set_pinned(&self, series: &Series, id: &CheckpointId, is_pinned: bool) -> Result<bool> {
    self.set_attribute(series, id, Attribute::Pinned(is_pinned))
  }

  fn set_made_at(&self, series: &Series, entry: &CheckpointEntry) -> Result<()> {
    self
      .set_attribute(series, &entry.id, Attribute::MadeAt(entry.made_at))
      .map(drop)
  }
}

impl<T: Backend + ?Sized> Shorthand for T {}

/// Compares the `Debug` texts: errors cannot be compared.
impl PartialEq for PutOutcome {
  fn eq(&self, other: &Self) -> bool {
    format!("{self:?}") == format!("{other:?}")
  }
}
