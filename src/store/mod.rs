//! What a checkpoint store does, operation by operation, one file per subject. Belongs here: the order of the steps, and what a
//! failure of one of them means. Does not belong here: JavaScript, system calls, the text of a document.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::backend::{Backend, BackendExt, Content, Item, Settings};
use crate::json::layout::Layout;
use crate::types::error::{Code, Error, Result};
use crate::types::id::SessionId;

mod agent;
mod archive;
mod checkpoints;
mod convert;
mod copy;
mod create;
mod delta;
mod diff;
mod fork;
mod ids;
mod info;
mod labels;
mod lease;
mod lifecycle;
mod open_close;
mod overview;
mod recover;
mod restore;
mod retention;
mod session;
mod session_items;
mod task_result;
mod verify;
mod write;

// What callers of the store need of the storage.
pub use crate::backend::{
  Acquired, CheckpointEntry, Claim, Durability, Encoding, Lease, Parent, Series, Usage, open as open_backend,
  user_files,
};
pub use agent::{AgentPage, AgentRequest, Order};
pub use archive::{ExportFile, TransferredSession};
pub use checkpoints::{CheckpointList, Damaged, StoredCheckpoint};
pub use convert::Converted;
pub use copy::Copied;
pub use create::{CreateOptions, Created};
pub use fork::{ForkRequest, Forked};
pub use ids::{Stamp, Ticket};
pub use info::{Filter, InfoPage, InfoRequest, Iteration};
pub use labels::{Label, LabelRequest};
pub use lease::LeaseRefusal;
pub use lifecycle::{Candidate, Expired, Expiry, Recoverable, Summary};
pub use open_close::{Closing, OpenStore, Opening};
pub use overview::AllRequest;
pub use recover::{PassedOver, RecoverOutcome, RecoverRequest};
pub use restore::{RestoreRequest, Restored};
pub use retention::{DEFAULT_KEEP_LAST, PruneFailure, PruneRequest, Pruned, PrunedCheckpoint, Retention};
pub use session::{ExpectedRevision, SavedSession, revision};
pub use verify::{FileReport, SessionReport, check_length};

use delta::DeltaCache;
use ids::IdSource;
use open_close::Gate;
use retention::metadata::{CACHED_SERIES, MetadataCache};

/// The options of a store.
#[derive(Debug, Clone, Copy)]
pub struct Options {
  /// How many checkpoints of a session are kept; at least one. [`DEFAULT_KEEP_LAST`] if neither this nor a retention is set.
  pub max_checkpoints_per_session: Option<usize>,
  /// The retention of sessions that have none of their own.
  pub retention: Option<Retention>,
  /// How many checkpoints of each agent are kept; at least one.
  pub max_checkpoints_per_agent: usize,
  pub settings: Settings,
  /// The most bytes that an item may have once it is decompressed.
  pub max_read_bytes: u64,
  /// The encoding of checkpoints whose caller names none.
  pub encoding: Encoding,
  /// The most bytes of base texts that are kept in memory for deltas.
  pub delta_cache_bytes: u64,
}

impl Default for Options {
  fn default() -> Self {
    Self {
      max_checkpoints_per_session: None,
      retention: None,
      max_checkpoints_per_agent: DEFAULT_KEEP_LAST,
      settings: Settings::default(),
      max_read_bytes: 1 << 30,
      encoding: Encoding::Json,
      delta_cache_bytes: 64 << 20,
    }
  }
}

/// An item that was written.
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
  backend: Arc<dyn Backend>,
  options: Options,
  ids: Arc<IdSource>,
  retention_metadata: MetadataCache,
  deltas: DeltaCache,
  gate: Gate,
  id: u64,
  /// Lost leases of other stores, found by calls of this store.
  lost_elsewhere: Mutex<Vec<LeaseRefusal>>,
}

impl Store {
  #[must_use]
  pub fn new(backend: Arc<dyn Backend>, options: Options) -> Self {
    static STORES: AtomicU64 = AtomicU64::new(0);
    Self {
      id: STORES.fetch_add(1, Ordering::Relaxed),
      lost_elsewhere: Mutex::default(),
      backend,
      deltas: DeltaCache::new(options.delta_cache_bytes),
      options,
      ids: Arc::default(),
      retention_metadata: MetadataCache::new(CACHED_SERIES),
      gate: Gate::default(),
    }
  }

  /// The name of the location, whether the store is open or not.
  #[must_use]
  pub fn location(&self) -> String {
    self.backend.location()
  }

  fn write(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<Saved> {
    let size_bytes = self.backend.put(session, item, content)?;
    Ok(Saved {
      path: self.backend.name_of(session, item),
      size_bytes,
    })
  }

  /// Drops what is cached of a session that was deleted, or that another writer may have changed.
  fn forget(&self, session: &SessionId) {
    self.retention_metadata.forget(session);
    self.deltas.forget(session);
  }

  fn load(&self, session: &SessionId, item: Item<'_>) -> Result<Option<Loaded>> {
    let Some(bytes) = self.backend.read(session, item, self.options.max_read_bytes)? else {
      return Ok(None);
    };
    let path = self.backend.name_of(session, item);
    let text = into_text(bytes, &path)?;
    Ok(Some(Loaded { path, text }))
  }
}

/// Compact JSON that is stored in the two-space layout.
struct LaidOut<'a>(&'a str);

impl Content for LaidOut<'_> {
  fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
    let mut layout = Layout::new(out, self.0.len());
    layout.value(self.0, 0)?;
    layout.finish()
  }
}

/// Compact JSON in the two-space layout.
fn laid_out(compact: &str) -> Result<Vec<u8>> {
  let mut bytes = Vec::new();
  let written = LaidOut(compact).write_to(&mut bytes);
  written.map_err(not_composed)?;
  Ok(bytes)
}

/// The error if a text could not be composed.
fn not_composed(error: io::Error) -> Error {
  error
    .downcast::<Error>()
    .unwrap_or_else(|error| Error::new(Code::Internal, error.to_string()))
}

fn into_text(bytes: Vec<u8>, path: &str) -> Result<String> {
  String::from_utf8(bytes).map_err(|error| Error::corrupt(path, "it is not UTF-8 text").because(error))
}

#[cfg(test)]
mod tests;
