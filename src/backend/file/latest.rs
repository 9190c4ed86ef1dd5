//! A link beside the session document to its newest checkpoint, for programs that know nothing of our rules.
//!
//! It is moved by renaming a new one over it, when the checkpoint that it names is durable. It must never name one that is
//! gone, not even after a power cut: before a checkpoint goes that the link on the disk may still name, the session's
//! directory is synced.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::disk::{Contents, Directory, Kind};
use super::durable::{ATTEMPTS, Durability, absent_is_fine, temporary_name};
use super::is_absence;
use crate::backend::item::CHECKPOINTS;
use crate::backend::{CheckpointEntry, Item};
use crate::types::id::SessionId;

pub const LATEST: &str = "latest";

#[derive(Debug, Default)]
pub struct Latest {
  sessions: Mutex<HashMap<SessionId, LinkRecord>>,
}

#[derive(Debug, Clone, Default)]
struct LinkRecord {
  /// One that we made ourselves, and that is durable.
  made: Option<CheckpointEntry>,
  /// What the link names.
  named: Option<CheckpointEntry>,
  /// What it names at least, or something newer, after a power cut.
  durable: Option<CheckpointEntry>,
}

impl Latest {
  /// A new checkpoint is durable.
  pub fn made(&self, session: &SessionId, entry: CheckpointEntry) {
    self.remember(session, |known| {
      if known.made.as_ref().is_none_or(|made| is_newer(&entry, made)) {
        known.made = Some(entry);
      }
    });
  }

  /// Moves the link if the newest checkpoint is one of ours; others move it to theirs. The caller holds the lock on the
  /// names. `open` opens the session's directory.
  pub fn follow<D: Directory>(
    &self,
    session: &SessionId,
    newest: &CheckpointEntry,
    open: impl FnOnce() -> io::Result<D>,
  ) -> io::Result<()> {
    let known = self.known(session);
    let is_newest = |entry: &Option<CheckpointEntry>| entry.as_ref().is_some_and(|entry| is_same(entry, newest));
    if is_newest(&known.made) && !is_newest(&known.named) {
      match open().and_then(|directory| point(&directory, Some(newest))) {
        // The session was deleted, and the link with it.
        Err(error) if is_absence(&error) => return Ok(()),
        moved => moved?,
      }
      self.remember(session, |known| known.named = Some(newest.clone()));
    }
    Ok(())
  }

  /// Before `entry` goes: makes sure that the link names another. `others` lists those that stay, newest first.
  pub fn let_go<D: Directory>(
    &self,
    session: &SessionId,
    entry: &CheckpointEntry,
    durability: Durability,
    open: impl FnOnce() -> io::Result<D>,
    others: impl FnOnce() -> io::Result<Vec<CheckpointEntry>>,
  ) -> io::Result<()> {
    let mut known = self.known(session);
    if known.durable.as_ref().is_some_and(|durable| is_newer(durable, entry)) {
      return Ok(());
    }
    let directory = match open() {
      // The session was deleted, and the link with it.
      Err(error) if is_absence(&error) => return Ok(()),
      directory => directory?,
    };
    if !known.named.as_ref().is_some_and(|named| is_newer(named, entry)) {
      if what_is_there(&directory)? != LinkState::Ours {
        return Ok(());
      }
      known.named = others()?.into_iter().find(|other| !is_same(other, entry));
      match point(&directory, known.named.as_ref()) {
        Err(error) if is_absence(&error) => return Ok(()),
        moved => moved?,
      }
    }
    if durability.is_full() {
      directory.sync()?;
    }
    self.remember(session, |remembered| {
      remembered.durable.clone_from(&known.named);
      remembered.named = known.named;
    });
    Ok(())
  }

  /// Somebody else has been at the checkpoints, and so at the link.
  pub fn doubt(&self, session: &SessionId) {
    self.remember(session, |known| {
      known.named = None;
      known.durable = None;
    });
  }

  /// Forgets a session that was removed.
  pub fn forget(&self, session: &SessionId) {
    self.sessions().remove(session);
  }

  /// A copy: the lock is not held while the disk works. Whoever acts on it holds the lock on the names.
  fn known(&self, session: &SessionId) -> LinkRecord {
    self.sessions().get(session).cloned().unwrap_or_default()
  }

  fn remember(&self, session: &SessionId, change: impl FnOnce(&mut LinkRecord)) {
    change(self.sessions().entry(session.clone()).or_default());
  }

  fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, LinkRecord>> {
    // What a panic left behind is at worst older than the truth, which costs a sync.
    self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

fn is_newer(one: &CheckpointEntry, other: &CheckpointEntry) -> bool {
  one.newest_first(other).is_lt()
}

fn is_same(one: &CheckpointEntry, other: &CheckpointEntry) -> bool {
  one.id == other.id && one.encoding == other.encoding
}

/// What goes by the name of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
  Nothing,
  Ours,
  Foreign,
}

fn what_is_there<D: Directory>(session: &D) -> io::Result<LinkState> {
  let kind = match session.stat(LATEST) {
    Err(error) if is_absence(&error) => return Ok(LinkState::Nothing),
    stat => stat?.kind,
  };
  let is_ours = match (kind, D::LINK) {
    // Where there are no links, the file has to say what it is.
    (Kind::File, Kind::File) => {
      let contents = session.read(LATEST, 4096)?;
      matches!(contents, Contents::Bytes(path) if path.starts_with(CHECKPOINTS.as_bytes()))
    }
    (kind, link) => kind == link,
  };
  Ok(if is_ours { LinkState::Ours } else { LinkState::Foreign })
}

fn point<D: Directory>(session: &D, to: Option<&CheckpointEntry>) -> io::Result<()> {
  if what_is_there(session)? == LinkState::Foreign {
    return Err(io::Error::other("something else goes by that name, and is left alone"));
  }
  let Some(entry) = to else {
    return absent_is_fine(session.remove_file(LATEST));
  };
  let file = Item::Checkpoint(None, &entry.id, entry.encoding).file_name();
  let mut attempts = 0;
  loop {
    attempts += 1;
    let temporary = temporary_name(LATEST);
    match session.link(&format!("{CHECKPOINTS}/{file}"), &temporary) {
      // Not every file system has links, or room for one, and none is better than one that names what may go.
      Err(error)
        if matches!(
          error.kind(),
          io::ErrorKind::Unsupported
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
        ) =>
      {
        return absent_is_fine(session.remove_file(LATEST));
      }
      made => made?,
    }
    match session.rename(&temporary, session, LATEST) {
      // Somebody took it for a left-over.
      Err(error) if is_absence(&error) && attempts < ATTEMPTS => {}
      moved => return moved.inspect_err(|_| drop(session.remove_file(&temporary))),
    }
  }
}
