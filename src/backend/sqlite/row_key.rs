//! The row of an item, whatever its table is.

use rusqlite::{Connection, Result};

use super::bases::{self, BaseKey};
use super::checkpoints::{self, CheckpointKey};
use super::documents::{self, DocumentKey};
use super::error::SqliteError;
use super::stored_bytes::StoredBytes;
use crate::backend::sql::missing_version;
use crate::backend::{Item, NewItem};
use crate::types::id::SessionId;

/// The table and the primary key of an item. Owned, because an operation may run on another thread.
pub enum RowKey {
  Checkpoint(CheckpointKey),
  Base(BaseKey),
  Document(DocumentKey),
}

impl RowKey {
  pub fn of(session: &SessionId, item: Item<'_>) -> Self {
    match item {
      Item::Checkpoint(agent, id, encoding) => Self::Checkpoint(CheckpointKey::new(session, agent, id, encoding)),
      Item::Base(agent, id) => Self::Base(BaseKey::new(session, agent, id)),
      _ => Self::Document(DocumentKey::new(session, item)),
    }
  }

  /// Replaces an item; the replaced bytes are not kept.
  pub fn put(&self, connection: &Connection, bytes: &[u8]) -> Result<(), SqliteError> {
    match self {
      Self::Checkpoint(key) => checkpoints::put(connection, key, bytes)?,
      Self::Base(key) => bases::put(connection, key, bytes)?,
      Self::Document(key) => {
        if !documents::put(connection, key, bytes)? {
          return Err(missing_version().into());
        }
      }
    }
    Ok(())
  }

  /// Stores an item of a session that is being created.
  pub fn add(&self, connection: &Connection, new: &NewItem<'_>, bytes: &[u8]) -> Result<()> {
    match self {
      Self::Checkpoint(key) => checkpoints::add(connection, key, bytes, new.made_at, new.is_pinned),
      Self::Base(key) => bases::put(connection, key, bytes),
      Self::Document(key) => documents::add(connection, key, bytes),
    }
  }

  pub fn read(&self, connection: &Connection, limit: u64) -> Result<Option<StoredBytes>> {
    match self {
      Self::Checkpoint(key) => checkpoints::read(connection, key, limit),
      Self::Base(key) => bases::read(connection, key, limit),
      Self::Document(key) => documents::read(connection, key, limit),
    }
  }

  pub fn delete(&self, connection: &Connection) -> Result<bool> {
    match self {
      Self::Checkpoint(key) => checkpoints::delete(connection, key),
      Self::Base(key) => bases::delete(connection, key),
      Self::Document(key) => documents::delete(connection, key),
    }
  }
}
