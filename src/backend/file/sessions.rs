//! Lists, creates, deletes and measures sessions.

use std::io;

use super::create_session::CreateOutcome;
use super::disk::{Directory, Disk, Kind};
use super::durable::{absent_is_fine, sync_names};
use super::leases::Decision;
use super::walk::{remove_tree, tree_size};
use super::{
  FileBackend, contents, create_session, directories, encodings_of, is_absence, tombstones, two_file_commit,
};
use crate::backend::item::{AGENTS, CHECKPOINTS, RESULTS};
use crate::backend::{DeleteCondition, DeletedSession, Encoding, Item, ItemSource, Series, Usage};
use crate::types::error::{Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId};

pub(super) const LOGS: &str = "logs";

impl<D: Disk> FileBackend<D> {
  pub(super) fn all_sessions(&self) -> Result<Vec<SessionId>> {
    let mut ids = self.directories_in(&[], SessionId::parse)?;
    ids.sort();
    Ok(ids)
  }

  pub(super) fn saved_sessions(&self) -> Result<Vec<SessionId>> {
    let sessions = self.all_sessions()?;
    let Some(base) = self.open_directory(&[])? else {
      return Ok(Vec::new());
    };
    let mut saved = Vec::with_capacity(sessions.len());
    for id in sessions {
      match holds_document(&base, id.as_str()) {
        Ok(true) => saved.push(id),
        Ok(false) => {}
        Err(error) if is_foreign(&error) => {}
        Err(error) => return Err(Error::io("read", &self.shown(&[id.as_str()]), error)),
      }
    }
    Ok(saved)
  }

  pub(super) fn sessions_with_checkpoint(&self, id: &CheckpointId) -> Result<Vec<SessionId>> {
    let mut holding = Vec::new();
    for session in self.all_sessions()? {
      let path = [session.as_str(), CHECKPOINTS];
      let directory = directories::open(&self.disk, &path);
      let item = Item::Checkpoint(None, id, Encoding::Json);
      // A conversion can add a name that was checked already and remove one that was not: check twice.
      let holds_checkpoint = |directory: &D::Directory| {
        Ok(!encodings_of(directory, item)?.is_empty() || !encodings_of(directory, item)?.is_empty())
      };
      match directory.and_then(|directory| holds_checkpoint(&directory)) {
        Ok(false) => {}
        Ok(true) => holding.push(session),
        Err(error) if is_absence(&error) || is_foreign(&error) => {}
        Err(error) => return Err(Error::io("read", &self.shown(&path), error)),
      }
    }
    Ok(holding)
  }

  pub(super) fn agents_of(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    let mut ids = self.directories_in(&[session.as_str(), AGENTS], AgentId::parse)?;
    ids.sort();
    Ok(ids)
  }

  pub(super) fn create_empty_session(&self, session: &SessionId) -> Result<()> {
    let _fence = self.fence(session)?;
    for part in [CHECKPOINTS, RESULTS, LOGS] {
      self.in_directory(&[session.as_str(), part], |_| Ok(()))?;
    }
    Ok(())
  }

  pub(super) fn create_session_with(&self, session: &SessionId, source: &mut ItemSource<'_>) -> Result<bool> {
    let path = self.shown(&[session.as_str()]);
    let durability = self.settings.durability;
    self.check_lease(session)?;
    self.in_directory(&[], |base| {
      let CreateOutcome::Created(newest) =
        create_session::create(base, session.as_str(), &path, source, durability, || {
          self.fence(session)
        })?
      else {
        return Ok(false);
      };
      // The caches may describe an earlier session of that id.
      self.directories.forget(session);
      self.names.forget(session);
      self.latest.forget(session);
      sync_names(base, &path, durability)?;
      if let Some(newest) = newest {
        self.latest.made(session, newest);
      }
      Ok(true)
    })
  }

  pub(super) fn delete_any_session(&self, session: &SessionId) -> Result<DeletedSession> {
    let path = self.base.join(session.as_str());
    let fail = |error| Error::io("delete", &path, error);
    let Some(base) = self.open_directory(&[])? else {
      return Ok(DeletedSession::default());
    };
    match base.stat(session.as_str()) {
      Err(error) if is_absence(&error) => return Ok(DeletedSession::default()),
      Err(error) => return Err(fail(error)),
      Ok(stat) if stat.kind != Kind::Directory => {
        return Err(Error::corrupt(
          &path.to_string_lossy(),
          "it is not a directory, so it is no session",
        ));
      }
      Ok(_) => {}
    }
    let fence = self.fence(session)?;
    self.remove_session(session, &base, fence)
  }

  pub(super) fn delete_session_if(
    &self,
    session: &SessionId,
    condition: DeleteCondition<'_>,
  ) -> Result<Option<DeletedSession>> {
    let DeleteCondition { limit, accepts } = condition;
    let path = self.base.join(session.as_str());
    let (Some(base), Some(directory)) = (self.open_directory(&[])?, self.open_directory(&[session.as_str()])?) else {
      return Ok(None);
    };
    self.check_lease(session)?;
    // From here on, every writer holds the lock on the lease for its last step. A writer that began before that and changes the
    // document holds the lock on the documents.
    self.make_leases()?;
    let is_in_place = || {
      let is_in_place = self.disk.is_in_place(&[session.as_str()], &directory);
      is_in_place.map_err(|error| Error::io("read", &path, error))
    };
    let lock = match two_file_commit::lock(&directory, &path, self.settings) {
      // Another process has deleted the session.
      Err(_) if !is_in_place()? => return Ok(None),
      lock => lock?,
    };
    let decided = self.fence_if(session, || {
      // Another process may have deleted the session and created it again.
      if !is_in_place()? {
        return Ok(false);
      }
      let (name, path) = (Item::SESSION.file_name(), self.path(session, Item::SESSION));
      accepts(contents(&directory, &name, &path, limit)?.as_deref())
    })?;
    let Decision::Proceed(fence) = decided else {
      return Ok(None);
    };
    // Windows cannot rename a directory that contains an open file. The next owner of this lock waits for the lock on the lease.
    drop(lock);
    self.remove_session(session, &base, fence).map(Some)
  }

  /// Removes the directory of a session. The caller holds `fence`, if leases have locks.
  fn remove_session(
    &self,
    session: &SessionId,
    base: &D::Directory,
    fence: Option<<D::Directory as Directory>::Lock>,
  ) -> Result<DeletedSession> {
    let path = self.base.join(session.as_str());
    let fail = |error| Error::io("delete", &path, error);
    // One rename deletes the whole session, for every reader and after every crash.
    let tombstone = tombstones::new_name();
    absent_is_fine(base.rename(session.as_str(), base, &tombstone)).map_err(fail)?;
    drop(fence);
    self.directories.forget(session);
    self.names.forget(session);
    self.latest.forget(session);
    sync_names(base, &path, self.settings.durability)?;
    let left = remove_tree(base, &tombstone).map_err(fail).err();
    Ok(DeletedSession {
      not_freed: left.or(self.forget_record(session).err()),
    })
  }

  pub(super) fn usage_of_session(&self, session: &SessionId) -> Result<Usage> {
    let path = [session.as_str()];
    let total_bytes = match self.open_directory(&path)? {
      Some(directory) => tree_size(&directory, 0).map_err(|error| Error::io("measure", &self.shown(&path), error))?,
      None => 0,
    };
    let own = self.list_checkpoints(&session.into())?;
    let mut agent_checkpoints = 0;
    for agent in self.agents_of(session)? {
      let series = Series::of(session, Some(&agent));
      agent_checkpoints += self.list_checkpoints(&series)?.len() as u64;
    }
    Ok(Usage {
      total_bytes,
      checkpoints: own.len() as u64,
      pinned: own.iter().filter(|entry| entry.is_pinned).count() as u64,
      newest: own.into_iter().next(),
      agent_checkpoints,
      results: self.task_results(session)?.len() as u64,
    })
  }
}

/// Whether a directory of the base has a session document, or a pending one.
fn holds_document<D: Directory>(base: &D, session: &str) -> io::Result<bool> {
  let name = Item::SESSION.file_name();
  let absent_is_false = |error: io::Error| if is_absence(&error) { Ok(false) } else { Err(error) };
  let session = match base.open_directory(session) {
    Ok(session) => session,
    Err(error) => return absent_is_false(error),
  };
  match session.stat(&name) {
    Ok(stat) if stat.kind == Kind::File => Ok(true),
    Ok(_) => two_file_commit::holds(&session, &name).or_else(absent_is_false),
    Err(error) if is_absence(&error) => two_file_commit::holds(&session, &name).or_else(absent_is_false),
    Err(error) => Err(error),
  }
}

/// Whether a directory among the sessions belongs to another user.
fn is_foreign(error: &io::Error) -> bool {
  error.kind() == io::ErrorKind::PermissionDenied
}
