//! Copies of whole sessions in another place, byte for byte. What is there already, and the same, is left alone, so that a
//! copy that was interrupted goes on where it stopped.

use super::Store;
use crate::backend::{Document, Item, Series};
use crate::error::{Code, Error, Result};
use crate::id::SessionId;

/// What became of the items of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
  pub checkpoints: u64,
  pub documents: u64,
  /// Those that were there already.
  pub unchanged: u64,
  pub bytes: u64,
}

impl Store {
  /// Whether both stores have the same things in them: a memory is shared by nobody.
  #[must_use]
  pub fn is_same_place(&self, other: &Self) -> bool {
    std::ptr::eq(self, other) || (self.location() == other.location() && self.location() != "memory:")
  }

  /// The sessions that a copy of everything takes along.
  pub fn sessions_to_copy(&self) -> Result<Vec<SessionId>> {
    let mut sessions = self.backend.places()?;
    sessions.retain(|session| self.holds_anything(session).unwrap_or(true));
    Ok(sessions)
  }

  fn holds_anything(&self, session: &SessionId) -> Result<bool> {
    let usage = self.backend.usage(session)?;
    Ok(usage.total_bytes > 0)
  }

  /// Copies everything of a session, and reads it back. The session's document comes last: until then, whoever lists
  /// the sessions of the other place does not find it, unless it was there before.
  pub fn copy_session(&self, session: &SessionId, to: &Self) -> Result<Copied> {
    let mut copied = Copied::default();
    let mut rows = self.agent_series(session)?;
    rows.push(session.into());
    for series in &rows {
      // The oldest first: what retention or a crash leaves of it is a beginning, not a middle.
      for entry in self.backend.checkpoints(series)?.iter().rev() {
        if self.copy_item(session, series.item_of(entry), to, &mut copied)? {
          copied.checkpoints += 1;
        }
        if entry.is_pinned {
          to.backend.set_pinned(series, &entry.id, true)?;
        }
      }
    }
    let results = self.backend.results(session)?;
    let documents = [Document::Labels, Document::TaskTree, Document::Session];
    let items = results
      .iter()
      .map(Item::TaskResult)
      .chain(documents.map(Item::Document));
    for item in items {
      if self.copy_item(session, item, to, &mut copied)? {
        copied.documents += 1;
      }
    }
    to.forget_ids(session);
    // The other place has seen new checkpoints: its link to the newest, where it has one, follows.
    to.backend.surplus(&Series::from(session), usize::MAX)?;
    if copied == Copied::default() {
      return Err(Error::new(Code::NotFound, format!("Session not found: {session}")));
    }
    Ok(copied)
  }

  /// Whether it was there and had to be copied.
  fn copy_item(&self, session: &SessionId, item: Item<'_>, to: &Self, copied: &mut Copied) -> Result<bool> {
    let Some(bytes) = self.backend.read(session, item, u64::MAX)? else {
      return Ok(false);
    };
    if to.backend.read(session, item, u64::MAX)?.as_ref() == Some(&bytes) {
      copied.unchanged += 1;
      return Ok(false);
    }
    to.backend.write(session, item, &bytes)?;
    if to.backend.read(session, item, u64::MAX)?.as_ref() != Some(&bytes) {
      let name = to.backend.name_of(session, item);
      return Err(Error::corrupt(&name, "it is not what was just copied there"));
    }
    copied.bytes += bytes.len() as u64;
    Ok(true)
  }
}
