//! A store in the memory of the process, which ends with it: for tests and caches.

use std::collections::BTreeMap;
use std::path::Path;

use parking_lot::Mutex;

use super::lease::Record;
use super::{Backend, Content, Fences, Item};
use crate::types::error::{Error, Result};
use crate::types::id::SessionId;

mod backend;
mod checkpoints;
mod leases;
mod sessions;

use sessions::StoredSession;

type StoredSessions = BTreeMap<SessionId, StoredSession>;

/// Lock order: `sessions`, `leases`.
#[derive(Debug, Default)]
pub struct MemoryBackend {
  keep_previous: u32,
  sessions: Mutex<StoredSessions>,
  /// The lease records, which also outlive their sessions.
  leases: Mutex<BTreeMap<SessionId, Record>>,
  fences: Fences,
}

impl MemoryBackend {
  #[must_use]
  pub fn new(keep_previous: u32) -> Self {
    Self {
      keep_previous,
      ..Self::default()
    }
  }

  fn bytes(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match content.write_to(&mut bytes) {
      Ok(()) => Ok(bytes),
      Err(error) => Err(Error::io("write", Path::new(&self.name_of(session, item)), error)),
    }
  }

  /// More than `limit` bytes are an error.
  fn check_size(&self, session: &SessionId, item: Item<'_>, bytes: Option<&Vec<u8>>, limit: u64) -> Result<()> {
    match bytes.map(|bytes| bytes.len() as u64) {
      Some(size) if size > limit => Err(Error::too_large(&self.name_of(session, item), size, limit)),
      _ => Ok(()),
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::backend::conformance;

  #[test]
  fn passes_the_conformance_suite() {
    conformance::run(|keep_previous| Box::new(MemoryBackend::new(keep_previous)));
  }
}
