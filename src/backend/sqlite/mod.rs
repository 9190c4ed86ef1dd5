//! One SQLite database in WAL mode: for many sessions and writers, in a single file that can be copied.

use std::path::{Path, PathBuf};

use super::{Content, Fences, Item, Settings};
use crate::types::error::{Error, Result};
use crate::types::id::SessionId;

mod backend;
mod bases;
mod checkpoints;
mod connections;
mod create_session;
mod database_file;
mod deletes;
mod documents;
mod error;
mod leases;
mod lists;
mod put_checkpoint;
mod queue;
mod row_key;
mod schema;
mod sessions;
mod stored_bytes;
mod transactions;
mod writer;

use connections::Readers;
use queue::WriteQueue;
use row_key::RowKey;
use stored_bytes::StoredBytes;
use writer::Action;

#[derive(Debug)]
pub struct SqliteBackend {
  path: PathBuf,
  settings: Settings,
  /// Released before the writer is closed: an open reader would keep the log from being moved into the database.
  readers: Readers,
  queue: WriteQueue,
  fences: Fences,
}

impl SqliteBackend {
  /// A backend for the file at an absolute path. It touches no file before [`super::Backend::open`].
  #[must_use]
  pub fn new(path: PathBuf, settings: impl Into<Settings>) -> Self {
    let settings = settings.into();
    Self {
      readers: Readers::new(path.clone(), settings.timeout),
      queue: WriteQueue::new(settings.timeout),
      fences: Fences::default(),
      path,
      settings,
    }
  }

  /// The name of something below a session.
  fn name(&self, session: &SessionId, below: &str) -> String {
    format!("sqlite:{}#{session}/{below}", self.path.display())
  }

  fn name_of_session(&self, session: &SessionId) -> String {
    format!("sqlite:{}#{session}", self.path.display())
  }

  fn action_on_item(&self, doing: &'static str, session: &SessionId, item: Item<'_>) -> Action {
    let name = self.name(session, &item.to_string());
    Action { doing, name }
  }

  fn action_on_session(&self, doing: &'static str, session: &SessionId) -> Action {
    let name = self.name_of_session(session);
    Action { doing, name }
  }

  /// The bytes of an item. They are produced before the operation is queued, so that no lock is held meanwhile.
  fn bytes(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let name = || self.name(session, &item.to_string());
    match content.write_to(&mut bytes) {
      Ok(()) => Ok(bytes),
      Err(error) => Err(Error::io("write", Path::new(&name()), error)),
    }
  }
}

#[cfg(test)]
mod tests;
