//! The latest link: a link beside the session document to its newest checkpoint, for programs that do not know the order of ids.
//!
//! It is moved by renaming a new link over it, once the checkpoint that it names is durable. It must never name a deleted
//! checkpoint, not even after a power cut: before a checkpoint is deleted that the link on the disk may still name, the session
//! directory is synced.

use std::io;

use super::disk::{Contents, Directory, Kind};
use super::durable::{ATTEMPTS, Durability, absent_is_fine, temporary_name};
use super::is_absence;
use crate::backend::item::CHECKPOINTS;
use crate::backend::{CheckpointEntry, Item};
use crate::types::id::SessionId;
use crate::types::session_cache::SessionCache;

pub const LATEST: &str = "latest";

/// The number of sessions whose links are known. An unknown link costs a sync when a checkpoint is deleted.
const KNOWN_LINKS: u64 = 1 << 16;

/// What this process knows of the links.
#[derive(Debug)]
pub struct Latest {
  links: SessionCache<SessionId, LinkRecord>,
}

impl Default for Latest {
  fn default() -> Self {
    Self {
      links: SessionCache::new(KNOWN_LINKS),
    }
  }
}

#[derive(Debug, Default)]
struct LinkRecord {
  /// The newest durable checkpoint of this process.
  made: Option<CheckpointEntry>,
  /// The checkpoint that the link names.
  named: Option<CheckpointEntry>,
  /// The checkpoint that the link names after a power cut, unless it names a newer one.
  durable: Option<CheckpointEntry>,
}

impl Latest {
  /// Records a new durable checkpoint of this process.
  pub fn made(&self, session: &SessionId, entry: CheckpointEntry) {
    self.change(session, |link| {
      if link.made.as_ref().is_none_or(|made| is_newer(&entry, made)) {
        link.made = Some(entry);
      }
    });
  }

  /// Moves the link if this process made the newest checkpoint; other processes move it to theirs. The caller holds the lock on the
  /// names. `open` opens the session directory.
  pub fn follow<D: Directory>(
    &self,
    session: &SessionId,
    newest: &CheckpointEntry,
    open: impl FnOnce() -> io::Result<D>,
  ) -> io::Result<()> {
    let is_newest = |entry: &Option<CheckpointEntry>| entry.as_ref().is_some_and(|entry| is_same(entry, newest));
    let has_to_move = |link: &LinkRecord| is_newest(&link.made) && !is_newest(&link.named);
    if self.links.read(session, has_to_move) != Some(true) {
      return Ok(());
    }
    match open().and_then(|directory| point(&directory, Some(newest))) {
      // The session was deleted, and the link with it.
      Err(error) if is_absence(&error) => return Ok(()),
      moved => moved?,
    }
    self.change(session, |link| link.named = Some(newest.clone()));
    Ok(())
  }

  /// Makes sure that the link does not name `entry`, which is about to be deleted. The caller holds the lock on the names. `others`
  /// lists the checkpoints of the session, newest first.
  pub fn let_go<D: Directory>(
    &self,
    session: &SessionId,
    entry: &CheckpointEntry,
    durability: Durability,
    open: impl FnOnce() -> io::Result<D>,
    others: impl FnOnce() -> io::Result<Vec<CheckpointEntry>>,
  ) -> io::Result<()> {
    let is_newer_than_entry =
      |other: &Option<CheckpointEntry>| other.as_ref().is_some_and(|other| is_newer(other, entry));
    let is_safe = |link: &LinkRecord| is_newer_than_entry(&link.durable);
    if self.links.read(session, is_safe) == Some(true) {
      return Ok(());
    }
    let directory = match open() {
      // The session was deleted, and the link with it.
      Err(error) if is_absence(&error) => return Ok(()),
      directory => directory?,
    };
    // The cache is not locked while the disk works.
    let mut named = self.links.read(session, |link| link.named.clone()).flatten();
    if !is_newer_than_entry(&named) {
      if link_state(&directory)? != LinkState::Ours {
        return Ok(());
      }
      named = others()?.into_iter().find(|other| !is_same(other, entry));
      match point(&directory, named.as_ref()) {
        Err(error) if is_absence(&error) => return Ok(()),
        moved => moved?,
      }
    }
    if durability.is_full() {
      directory.sync()?;
    }
    self.change(session, |link| {
      link.durable.clone_from(&named);
      link.named = named;
    });
    Ok(())
  }

  /// Another process has changed the checkpoints, and may have moved the link.
  pub fn doubt(&self, session: &SessionId) {
    self.change(session, |link| {
      link.named = None;
      link.durable = None;
    });
  }

  /// Drops what is known of a session that was removed or replaced.
  pub fn forget(&self, session: &SessionId) {
    self.links.forget(session);
  }

  fn change(&self, session: &SessionId, change: impl FnOnce(&mut LinkRecord)) {
    self.links.update(session, |link| change(link.get_or_insert_default()));
  }
}

fn is_newer(one: &CheckpointEntry, other: &CheckpointEntry) -> bool {
  one.newest_first(other).is_lt()
}

fn is_same(one: &CheckpointEntry, other: &CheckpointEntry) -> bool {
  one.id == other.id && one.encoding == other.encoding
}

/// What has the name of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
  Nothing,
  Ours,
  Foreign,
}

fn link_state<D: Directory>(session: &D) -> io::Result<LinkState> {
  let kind = match session.stat(LATEST) {
    Err(error) if is_absence(&error) => return Ok(LinkState::Nothing),
    stat => stat?.kind,
  };
  let is_ours = match (kind, D::LINK) {
    // On a system without links, the contents of the file decide.
    (Kind::File, Kind::File) => {
      let contents = session.read(LATEST, 4096)?;
      matches!(contents, Contents::Bytes(path) if path.starts_with(CHECKPOINTS.as_bytes()))
    }
    (kind, link) => kind == link,
  };
  Ok(if is_ours { LinkState::Ours } else { LinkState::Foreign })
}

/// Makes the link name a checkpoint, or removes it.
fn point<D: Directory>(session: &D, to: Option<&CheckpointEntry>) -> io::Result<()> {
  if link_state(session)? == LinkState::Foreign {
    return Err(io::Error::other(
      "a file that waymark did not create has that name; it was not changed",
    ));
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
      // The file system has no links, or no space for one. No link is better than one to a checkpoint that may be deleted.
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
      // Another process removed it as a leftover.
      Err(error) if is_absence(&error) && attempts < ATTEMPTS => {}
      moved => return moved.inspect_err(|_| drop(session.remove_file(&temporary))),
    }
  }
}
