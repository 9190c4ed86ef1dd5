//! Sessions, their task trees, and what they take up.

use super::{LaidOut, Loaded, Saved, Store};
use crate::backend::{Document, Item, Usage};
use crate::error::{Error, Result};
use crate::id::SessionId;

impl Store {
  pub fn create_session(&self, session: &SessionId) -> Result<()> {
    self.backend.create_session(session)
  }

  /// `document` is compact JSON.
  pub fn save_session(&self, session: &SessionId, document: &str) -> Result<Saved> {
    self.write(session, Item::SESSION, &LaidOut(document))
  }

  /// As it was so many versions ago; 0 is the current one.
  pub fn load_session(&self, session: &SessionId, back: u32) -> Result<Option<Loaded>> {
    self.load(session, Item::version(Document::Session, back))
  }

  /// `tree` is compact JSON.
  pub fn save_task_tree(&self, session: &SessionId, tree: &str) -> Result<Saved> {
    self.write(session, Item::TASK_TREE, &LaidOut(tree))
  }

  /// As it was so many versions ago; 0 is the current one.
  pub fn load_task_tree(&self, session: &SessionId, back: u32) -> Result<Option<Loaded>> {
    self.load(session, Item::version(Document::TaskTree, back))
  }

  pub fn sessions(&self) -> Result<Vec<SessionId>> {
    self.backend.sessions()
  }

  /// Removes a session; the answer is what went wrong after it was gone for every reader.
  pub fn delete_session(&self, session: &SessionId) -> Result<Option<Error>> {
    let left = self.backend.delete_session(session)?;
    self.forget(session);
    Ok(left)
  }

  pub fn usage(&self, session: &SessionId) -> Result<Usage> {
    self.backend.usage(session)
  }
}
