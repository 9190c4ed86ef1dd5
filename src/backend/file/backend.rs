//! The implementation of the trait `Backend`.

use super::disk::Disk;
use super::{FileBackend, tombstones};
use crate::backend::ext::{each_series, peek_by_series};
use crate::backend::{
  Acquired, Attribute, Backend, CheckpointEntry, CheckpointPage, Claim, Content, DeleteCondition, DeleteMode,
  DeletedSession, Document, DocumentChange, Fences, Item, ItemKind, ItemSource, Lease, ListedItem, Maintenance,
  PeekResult, PutOptions, PutOutcome, ReadResult, Selection, Series, SessionFilter, Usage,
};
use crate::types::error::{Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId};

impl<D: Disk> Backend for FileBackend<D> {
  fn location(&self) -> String {
    self.base.to_string_lossy().into_owned()
  }

  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String {
    self.path(session, item).to_string_lossy().into_owned()
  }

  fn open(&self) -> Result<()> {
    // A reader does not wait for the disk: the first write syncs the directories.
    if !self.settings.must_exist {
      self.in_directory(&[], |_| Ok(()))?;
    }
    match self.open_directory(&[])? {
      Some(base) => tombstones::finish(&base).map_err(|error| Error::io("list", &self.base, error)),
      None if self.settings.must_exist => Err(Error::no_store(&self.location())),
      None => Ok(()),
    }
  }

  /// No file stays open between two calls.
  fn close(&self) -> Result<()> {
    Ok(())
  }

  fn sessions(&self, filter: SessionFilter<'_>) -> Result<Vec<SessionId>> {
    match filter {
      SessionFilter::All => self.all_sessions(),
      SessionFilter::Saved => self.saved_sessions(),
      SessionFilter::WithCheckpoint(id) => self.sessions_with_checkpoint(id),
    }
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    self.agents_of(session)
  }

  fn items(&self, session: &SessionId, kind: ItemKind<'_>) -> Result<Vec<ListedItem>> {
    match kind {
      ItemKind::TaskResults => self.task_results(session),
      ItemKind::Previous(document) => self.previous_versions(session, document),
      ItemKind::Bases(agent) => self.bases(session, agent),
    }
  }

  fn create_session(&self, session: &SessionId, source: Option<&mut ItemSource<'_>>) -> Result<bool> {
    match source {
      Some(source) => self.create_session_with(session, source),
      None => self.create_empty_session(session).map(|()| true),
    }
  }

  fn delete_session(
    &self,
    session: &SessionId,
    condition: Option<DeleteCondition<'_>>,
  ) -> Result<Option<DeletedSession>> {
    match condition {
      Some(condition) => self.delete_session_if(session, condition),
      None => self.delete_any_session(session).map(Some),
    }
  }

  fn put(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    match item {
      Item::Checkpoint(agent, id, encoding) => self.put_bytes(&Series::of(session, agent), id, encoding, content),
      _ => self.put_item(session, item, content),
    }
  }

  fn put_checkpoint(
    &self,
    series: &Series,
    id: &CheckpointId,
    content: &dyn Content,
    options: &PutOptions<'_>,
  ) -> Result<PutOutcome> {
    self.store_checkpoint(series, id, content, options)
  }

  fn put_state_if(
    &self,
    session: &SessionId,
    session_document: &dyn Content,
    task_tree: &dyn Content,
    confirm: &dyn Fn() -> bool,
  ) -> Result<bool> {
    self.put_both_if(session, session_document, task_tree, confirm)
  }

  fn update_document(
    &self,
    session: &SessionId,
    document: Document,
    limit: u64,
    change: &mut DocumentChange<'_>,
  ) -> Result<()> {
    self.update_under_lock(session, document, limit, change)
  }

  fn read_all(&self, items: &[(&SessionId, Item<'_>)], limit: u64) -> Result<Vec<ReadResult>> {
    let read = |&(session, item): &(&SessionId, Item<'_>)| self.read_item(session, item, limit);
    Ok(items.iter().map(read).collect())
  }

  fn peek(&self, checkpoints: &[(&Series, &CheckpointEntry)], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
    Ok(peek_by_series(checkpoints, |series, entries| {
      self.peek_at(series, entries, head, tail)
    }))
  }

  fn list(&self, series: &[Series], selection: Selection<'_>) -> Result<Vec<CheckpointPage>> {
    each_series(series, |series| self.select(series, selection))
  }

  fn delete(&self, session: &SessionId, item: Item<'_>, mode: DeleteMode) -> Result<bool> {
    match mode {
      DeleteMode::Always => self.delete_item(session, item),
      DeleteMode::UnlessKept(is_labelled) => self.delete_unless_kept(session, item, is_labelled),
    }
  }

  fn set_attribute(&self, series: &Series, id: &CheckpointId, attribute: Attribute) -> Result<bool> {
    match attribute {
      Attribute::Pinned(is_pinned) => self.set_pinned(series, id, is_pinned),
      Attribute::MadeAt(made_at) => self.set_made_at(series, id, made_at),
    }
  }

  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>> {
    self.move_to_damaged(series, entry, judged)
  }

  fn usage(&self, sessions: &[SessionId]) -> Result<Vec<Result<Usage>>> {
    Ok(sessions.iter().map(|session| self.usage_of_session(session)).collect())
  }

  fn maintain(&self, task: Maintenance<'_>) -> Result<u64> {
    match task {
      Maintenance::DeleteUnusedBases(series) => self.delete_unused_bases(series),
      Maintenance::SyncDeletes(series) => self.sync_deletes(series).map(|()| 0),
      Maintenance::RefreshLatestLink(series) => self.refresh_latest_link(series).map(|()| 0),
      Maintenance::Vacuum => Ok(0),
    }
  }

  fn fences(&self) -> &Fences {
    &self.fences
  }

  fn acquire(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired> {
    self.acquire_lease(session, claim)
  }

  fn renew(&self, session: &SessionId, token: u64, ttl_ms: u64) -> Result<Option<Lease>> {
    self.renew_lease(session, token, ttl_ms)
  }

  fn release(&self, session: &SessionId, token: u64) -> Result<bool> {
    self.release_lease(session, token)
  }

  fn leases(&self) -> Result<Vec<(SessionId, Lease)>> {
    self.held_leases()
  }
}
