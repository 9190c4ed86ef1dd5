//! What a checkpoint store does, in order. No JavaScript, no file system.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::backend::{Backend, Durability, Item};
use crate::error::{Error, Result};
use crate::id::SessionId;

mod checkpoint;
mod gate;
mod ids;
mod restore;
mod result;
mod retention;
mod session;

pub use checkpoint::{CheckpointPage, Created, Damaged, StoredCheckpoint};
pub use gate::OpenStore;
pub use ids::Stamp;
pub use restore::{Respelling, RestoreOutcome, RestoreRequest, Restored};

use gate::Gate;
use ids::IdSource;

/// What a store may be told when it is made.
#[derive(Debug, Clone, Copy)]
pub struct Options {
  /// How many checkpoints retention leaves in a session; at least one.
  pub max_checkpoints_per_session: usize,
  pub durability: Durability,
  /// The most bytes that a compressed checkpoint may inflate to.
  pub max_inflated_bytes: u64,
}

impl Default for Options {
  fn default() -> Self {
    Self {
      max_checkpoints_per_session: 100,
      durability: Durability::Full,
      max_inflated_bytes: 1 << 30,
    }
  }
}

/// What a finished write tells its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
  pub path: String,
  pub size_bytes: u64,
}

/// A stored JSON text, not parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
  pub path: String,
  pub text: String,
}

/// A checkpoint store. Its operations are reached through [`Store::enter`], which only an open store allows.
#[derive(Debug)]
pub struct Store {
  backend: Box<dyn Backend>,
  options: Options,
  ids: IdSource,
  /// Sessions whose existing checkpoints have been looked at for their ids.
  known_sessions: Mutex<HashSet<SessionId>>,
  gate: Gate,
}

impl Store {
  #[must_use]
  pub fn new(backend: Box<dyn Backend>, options: Options) -> Self {
    Self {
      backend,
      options,
      ids: IdSource::default(),
      known_sessions: Mutex::default(),
      gate: Gate::default(),
    }
  }

  /// The name of the place, whether the store is open or not.
  #[must_use]
  pub fn location(&self) -> String {
    self.backend.location()
  }

  /// Opens the store; again, if it was closed.
  pub fn initialize(&self) -> Result<()> {
    self.backend.initialize()?;
    self.gate.open();
    Ok(())
  }

  fn write(&self, session: &SessionId, item: Item<'_>, bytes: &[u8]) -> Result<Saved> {
    self.backend.write(session, item, bytes)?;
    Ok(Saved {
      path: self.backend.name_of(session, item),
      size_bytes: bytes.len() as u64,
    })
  }

  fn load(&self, session: &SessionId, item: Item<'_>) -> Result<Option<Loaded>> {
    let Some(bytes) = self.backend.read(session, item)? else {
      return Ok(None);
    };
    let path = self.backend.name_of(session, item);
    let text = into_text(bytes, &path)?;
    Ok(Some(Loaded { path, text }))
  }
}

fn into_text(bytes: Vec<u8>, path: &str) -> Result<String> {
  String::from_utf8(bytes).map_err(|error| Error::corrupt(path, "it is not UTF-8 text").because(error))
}

#[cfg(test)]
mod tests;
