//! Copies of whole sessions in another place, byte for byte. What is there already, and the same, is left alone, so that a
//! copy that was interrupted goes on where it stopped.

use super::Store;
use crate::backend::{Item, ItemName, Series};
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

  /// Copies one session, or all of them. The answer is those that are in both places now.
  pub fn copy(&self, session: Option<SessionId>, to: &Self) -> Result<Vec<(SessionId, Copied)>> {
    let Some(session) = session else {
      let mut all = Vec::new();
      for session in self.backend.places()? {
        let copied = self.copy_session(&session, to)?;
        // A directory that holds nothing of ours, or a session that was deleted meanwhile.
        if copied != Copied::default() {
          all.push((session, copied));
        }
      }
      return Ok(all);
    };
    let copied = self.copy_session(&session, to)?;
    if copied == Copied::default() {
      return Err(Error::new(Code::NotFound, format!("Session not found: {session}")));
    }
    Ok(vec![(session, copied)])
  }

  /// Copies everything of a session, and reads it back. The session's document comes last: until then, whoever lists
  /// the sessions of the other place does not find it, unless it was there before.
  fn copy_session(&self, session: &SessionId, to: &Self) -> Result<Copied> {
    let mut copied = Copied::default();
    let mut pins = Vec::new();
    // The oldest checkpoints come first: what retention or a crash leaves of a copy is a beginning, not a middle.
    for listed in self.items_of(session)? {
      // Earlier versions come about by saving.
      if let ItemName::Previous(..) = listed.name {
        continue;
      }
      if self.copy_item(session, listed.name.item(), to, &mut copied)? {
        if listed.is_checkpoint() {
          copied.checkpoints += 1;
        } else {
          copied.documents += 1;
        }
      }
      if let (ItemName::Checkpoint(agent, ..), Some(entry)) = (&listed.name, &listed.entry) {
        let series = Series {
          session: session.clone(),
          agent: agent.clone(),
        };
        if listed.made_at().is_some() {
          to.backend.set_made_at(&series, entry)?;
        }
        pins.push((series, entry.clone()));
      }
    }
    for (series, entry) in pins {
      to.backend.set_pinned(&series, &entry.id, entry.is_pinned)?;
    }
    to.forget_ids(session);
    // Where the other place has a link to the newest, it follows.
    to.backend.settle_newest(&Series::from(session))?;
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
