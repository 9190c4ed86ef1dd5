//! Session documents, task trees, and the usage of sessions.

use sha2::{Digest, Sha256};

use super::verify::check_shape;
use super::{LaidOut, Loaded, Saved, Store, laid_out};
use crate::backend::{BackendExt, Document, Item, SessionFilter, Usage};
use crate::checkpoint::compose::object as require_object;
use crate::checkpoint::document::hex;
use crate::json::scan::validate;
use crate::types::error::{Error, Result};
use crate::types::id::SessionId;

/// The revision that the stored session document must have; `None` if there must be none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedRevision(pub Option<String>);

/// A session document that was saved.
#[derive(Debug)]
pub struct SavedSession {
  pub saved: Saved,
  pub revision: String,
}

/// The revision of a stored document: equal bytes have the same revision in every backend.
#[must_use]
pub fn revision(bytes: &[u8]) -> String {
  let digest = Sha256::digest(bytes);
  hex(&digest[..16])
}

impl Store {
  /// Creates an empty session, if it does not exist.
  pub fn create_session(&self, session: &SessionId) -> Result<()> {
    self.backend.create_session(session, None).map(drop)
  }

  /// Saves a session document, which is compact JSON. With `expected`, it is saved only if the stored one has that revision.
  pub fn save_session(
    &self,
    session: &SessionId,
    document: &str,
    expected: Option<&ExpectedRevision>,
  ) -> Result<SavedSession> {
    require_object("session", document)?;
    let bytes = laid_out(document)?;
    let revision = revision(&bytes);
    if let Some(expected) = expected {
      let limit = self.options.max_read_bytes;
      self
        .backend
        .update_document(session, Document::Session, limit, &mut |old, _| {
          let current = old.map(|old| self::revision(&old));
          if current == expected.0 {
            Ok(Some(bytes.clone().into()))
          } else {
            Err(Error::conflict(&format!("Session {session}"), current))
          }
        })?;
      let path = self.backend.name_of(session, Item::SESSION);
      let size_bytes = bytes.len() as u64;
      let saved = Saved { path, size_bytes };
      return Ok(SavedSession { saved, revision });
    }
    let saved = self.write(session, Item::SESSION, &bytes)?;
    Ok(SavedSession { saved, revision })
  }

  /// The session document `back` versions ago; 0 is the current one.
  pub fn load_session(&self, session: &SessionId, back: u32) -> Result<Option<Loaded>> {
    self.load_object(session, Item::version(Document::Session, back))
  }

  /// A document that must be a JSON object.
  fn load_object(&self, session: &SessionId, item: Item<'_>) -> Result<Option<Loaded>> {
    let loaded = self.load(session, item)?;
    if let Some(loaded) = &loaded
      && let Err(error) = check_shape(item, &loaded.text, &loaded.path)
      // For invalid JSON, the error of the engine's parser is returned instead.
      && validate(&loaded.text).is_ok()
    {
      return Err(error);
    }
    Ok(loaded)
  }

  /// Saves a task tree, which is compact JSON.
  pub fn save_task_tree(&self, session: &SessionId, tree: &str) -> Result<Saved> {
    require_object("taskTree", tree)?;
    self.write(session, Item::TASK_TREE, &LaidOut(tree))
  }

  /// The task tree `back` versions ago; 0 is the current one.
  pub fn load_task_tree(&self, session: &SessionId, back: u32) -> Result<Option<Loaded>> {
    self.load_object(session, Item::version(Document::TaskTree, back))
  }

  /// The sessions that have a document, ordered by id.
  pub fn sessions(&self) -> Result<Vec<SessionId>> {
    self.backend.sessions(SessionFilter::Saved)
  }

  /// Deletes a session. Returns the error, if any, that occurred after it had disappeared for every reader.
  pub fn delete_session(&self, session: &SessionId) -> Result<Option<Error>> {
    let deleted = self.backend.delete_session(session, None)?;
    self.forget(session);
    Ok(deleted.and_then(|deleted| deleted.not_freed))
  }

  pub fn usage(&self, session: &SessionId) -> Result<Usage> {
    self.backend.usage_of(session)
  }
}
