//! Creating a session.

use super::error::DbError;
use super::{RowKey, SqliteBackend, sessions};
use crate::backend::{Backend, ItemSource};
use crate::types::error::Result;
use crate::types::id::SessionId;

impl SqliteBackend {
  pub(super) fn create_empty_session(&self, session: &SessionId) -> Result<()> {
    let action = self.action_on_session("create", session);
    let id = session.to_string();
    self
      .submit(session, action, true, move |connection| {
        Ok(sessions::add(connection, &id)?)
      })
      .map(drop)
  }

  /// Stores the items of the source one at a time, so that only one of them is in memory. SQLite writes what exceeds its cache to the
  /// log before the transaction ends. Returns whether the session was created: it must hold nothing yet.
  pub(super) fn create_session_from(&self, session: &SessionId, source: &mut ItemSource<'_>) -> Result<bool> {
    let action = self.action_on_session("create", session);
    self.submit_here(session, &action, &mut |connection| {
      if !sessions::is_empty(connection, session.as_str())? {
        return Ok(false);
      }
      let mut database_error = None;
      let supplied = source(&mut |new| {
        let bytes = self.bytes(session, new.item, new.content)?;
        let row = RowKey::of(session, new.item);
        row.add(connection, &new, &bytes).map_err(|error| {
          let error = DbError::from(error);
          let reported = error.to_error("write", &self.name_of(session, new.item));
          database_error = Some(error);
          reported
        })
      });
      // Return the error of the database itself: it may have ended the whole transaction, which the writer must detect.
      match database_error {
        Some(error) => Err(error.into()),
        None => Ok(supplied.map(|()| true)?),
      }
    })
  }
}
