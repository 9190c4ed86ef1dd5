//! How the operations of the backend reach a connection: queued, on the thread of the caller, or as a read.

use rusqlite::Connection;

use super::error::SqliteError;
use super::writer::{Operation, OperationFn};
use super::{Action, SqliteBackend, leases, queue};
use crate::types::error::Result;
use crate::types::id::SessionId;

impl SqliteBackend {
  /// Queues a change of a session for the next group commit, and waits for it. The fencing token is checked in the same transaction.
  /// Returns whether there was anything to change.
  pub(super) fn submit(
    &self,
    session: &SessionId,
    action: Action,
    needs_sync: bool,
    mut change: impl FnMut(&Connection) -> Result<bool, SqliteError> + Send + 'static,
  ) -> Result<bool> {
    let (session, fence) = (session.clone(), self.fences.of(session));
    let outcome = self.queue.submit(action, needs_sync, move |connection| {
      leases::fenced(connection, &session, fence, || change(connection))
    });
    outcome.inspect_err(|error| self.fences.observe(error))
  }

  /// Runs a change of a session on this thread, in a transaction of its own, and syncs it. The fencing token is checked in the same
  /// transaction. For changes that call a function of the caller, which cannot be sent to another thread.
  pub(super) fn submit_here(&self, session: &SessionId, action: &Action, change: &mut OperationFn<'_>) -> Result<bool> {
    let mut fenced =
      |connection: &Connection| leases::fenced(connection, session, self.fences.of(session), || change(connection));
    let outcome = self.commit_here(action, &mut fenced);
    outcome.inspect_err(|error| self.fences.observe(error))
  }

  /// Changes a lease on this thread, and syncs it: a power cut must not undo a lease under which its owner already works.
  pub(super) fn change_lease<T>(
    &self,
    doing: &'static str,
    session: &SessionId,
    change: impl Fn(&Connection) -> Result<T, SqliteError>,
  ) -> Result<T> {
    let mut result = None;
    self.commit_here(&self.action_on_session(doing, session), &mut |connection| {
      result = Some(change(connection)?);
      Ok(true)
    })?;
    result.ok_or_else(queue::not_open)
  }

  fn commit_here(&self, action: &Action, run: &mut OperationFn<'_>) -> Result<bool> {
    self.queue.exclusively(|writer| {
      let writer = writer.as_mut().ok_or_else(queue::not_open)?;
      let mut operations = [Operation {
        action,
        needs_sync: true,
        run,
      }];
      writer.commit(&mut operations).pop().unwrap_or(Ok(false))
    })
  }

  /// Runs a read; `name` is what it reads, for errors.
  pub(super) fn query<T>(
    &self,
    name: impl FnOnce() -> String,
    read: impl FnOnce(&Connection) -> Result<T, SqliteError>,
  ) -> Result<T> {
    self
      .readers
      .read(read)
      .map_err(|error| error.into_error("read", &name()))
  }
}
