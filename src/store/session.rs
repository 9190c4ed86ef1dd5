//! Sessions, their task trees, and what they take up.

use sha2::{Digest, Sha256};

use super::verify::check_shape;
use super::{LaidOut, Loaded, Saved, Store, laid_out};
use crate::backend::{BackendExt, Document, Item, SessionFilter, Usage};
use crate::checkpoint::compose::object as require_object;
use crate::checkpoint::document::hex;
use crate::json::scan::validate;
use crate::types::error::{Error, Result};
use crate::types::id::SessionId;

/// The revision that a caller has last seen; `None` if there was no session yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedRevision(pub Option<String>);

/// What saving a session tells.
#[derive(Debug)]
pub struct SavedSession {
  pub saved: Saved,
  pub revision: String,
}

/// Tells one stored document from another: the same bytes have the same, in every place.
#[must_use]
pub fn revision(bytes: &[u8]) -> String {
  let digest = Sha256::digest(bytes);
  hex(&digest[..16])
}

impl Store {
  pub fn create_session(&self, session: &SessionId) -> Result<()> {
    self.backend.create_session(session, None).map(drop)
  }

  /// `document` is compact JSON. If it is to take the place of what the caller has seen, nothing else is replaced.
  pub fn save_session(
    &self,
    session: &SessionId,
    document: &str,
    seen: Option<&ExpectedRevision>,
  ) -> Result<SavedSession> {
    require_object("session", document)?;
    let bytes = laid_out(document)?;
    let revision = revision(&bytes);
    if let Some(seen) = seen {
      let limit = self.options.max_read_bytes;
      self
        .backend
        .update_document(session, Document::Session, limit, &mut |old, _| {
          let current = old.map(|old| self::revision(&old));
          if current == seen.0 {
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

  /// As it was so many versions ago; 0 is the current one.
  pub fn load_session(&self, session: &SessionId, back: u32) -> Result<Option<Loaded>> {
    self.load_object(session, Item::version(Document::Session, back))
  }

  /// A document that must be a JSON object.
  fn load_object(&self, session: &SessionId, item: Item<'_>) -> Result<Option<Loaded>> {
    let loaded = self.load(session, item)?;
    if let Some(loaded) = &loaded
      && let Err(error) = check_shape(item, &loaded.text, &loaded.path)
      // What is no JSON at all, the engine complains of.
      && validate(&loaded.text).is_ok()
    {
      return Err(error);
    }
    Ok(loaded)
  }

  /// `tree` is compact JSON.
  pub fn save_task_tree(&self, session: &SessionId, tree: &str) -> Result<Saved> {
    require_object("taskTree", tree)?;
    self.write(session, Item::TASK_TREE, &LaidOut(tree))
  }

  /// As it was so many versions ago; 0 is the current one.
  pub fn load_task_tree(&self, session: &SessionId, back: u32) -> Result<Option<Loaded>> {
    self.load_object(session, Item::version(Document::TaskTree, back))
  }

  pub fn sessions(&self) -> Result<Vec<SessionId>> {
    self.backend.sessions(SessionFilter::Saved)
  }

  /// Removes a session; the answer is what went wrong after it was gone for every reader.
  pub fn delete_session(&self, session: &SessionId) -> Result<Option<Error>> {
    let deleted = self.backend.delete_session(session, None)?;
    self.forget(session);
    Ok(deleted.and_then(|deleted| deleted.not_freed))
  }

  pub fn usage(&self, session: &SessionId) -> Result<Usage> {
    self.backend.usage_of(session)
  }
}
