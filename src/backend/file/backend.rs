//! The operations of a place, on files.

use std::io;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::disk::{Directory, Disk, Kind};
use super::durable::{Temporary, absent_is_fine, sync_names};
use super::founding::Founded;
use super::walk::{remove_tree, tree_size};
use super::{
  FileBackend, Happened, Place, below, contents, directories, exists, founding, is_absence, keys, modified, names,
  pending, pin_of, removed, unpin, versions,
};
use crate::backend::item::{AGENTS, CHECKPOINTS, RESULTS};
use crate::backend::{
  Acquired, Backend, Change, CheckpointEntry, CheckpointWrite, Claim, Content, Document, Encoding, Fences, Item, Lease,
  Peeked, Put, Series, Supply, Surplus, Usage, Wanted,
};
use crate::error::{Error, Result};
use crate::id::{AgentId, CheckpointId, SessionId, TaskId};

pub(super) const LOGS: &str = "logs";
pub(super) const DAMAGED: &str = "damaged";

impl<D: Disk> Backend for FileBackend<D> {
  fn location(&self) -> String {
    self.base.to_string_lossy().into_owned()
  }

  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String {
    self.path(session, item).to_string_lossy().into_owned()
  }

  fn initialize(&self) -> Result<()> {
    // Whoever only looks waits for no disk: the first write syncs what has to be synced.
    if !self.settings.must_exist {
      self.in_directory(&[], |_| Ok(()))?;
    }
    match self.open(&[])? {
      Some(base) => removed::finish(&base).map_err(|error| Error::io("list", &self.base, error)),
      None if self.settings.must_exist => Err(Error::no_store(&self.location())),
      None => Ok(()),
    }
  }

  fn create_session(&self, session: &SessionId) -> Result<()> {
    let _fence = self.fence(session)?;
    for part in [CHECKPOINTS, RESULTS, LOGS] {
      self.in_directory(&[session.as_str(), part], |_| Ok(()))?;
    }
    Ok(())
  }

  fn sessions(&self) -> Result<Vec<SessionId>> {
    let sessions = self.places()?;
    let Some(base) = self.open(&[])? else {
      return Ok(Vec::new());
    };
    let mut saved = Vec::with_capacity(sessions.len());
    for id in sessions {
      match holds_document(&base, id.as_str()) {
        Ok(true) => saved.push(id),
        Ok(false) => {}
        Err(error) if is_somebody_elses(&error) => {}
        Err(error) => return Err(Error::io("read", &self.shown(&[id.as_str()]), error)),
      }
    }
    Ok(saved)
  }

  fn places(&self) -> Result<Vec<SessionId>> {
    let mut ids = self.directories_in(&[], SessionId::parse)?;
    ids.sort();
    Ok(ids)
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    let mut ids = self.directories_in(&[session.as_str(), AGENTS], AgentId::parse)?;
    ids.sort();
    Ok(ids)
  }

  fn delete_session(&self, session: &SessionId) -> Result<Option<Error>> {
    let path = self.base.join(session.as_str());
    let fail = |error| Error::io("delete", &path, error);
    let Some(base) = self.open(&[])? else {
      return Ok(None);
    };
    match base.stat(session.as_str()) {
      Err(error) if is_absence(&error) => return Ok(None),
      Err(error) => return Err(fail(error)),
      Ok(stat) if stat.kind != Kind::Directory => {
        return Err(Error::corrupt(
          &path.to_string_lossy(),
          "it is not a directory, so it is no session",
        ));
      }
      Ok(_) => {}
    }
    // One rename makes the whole session go at once, for every reader and after every crash.
    let doomed = removed::new_name();
    let fence = self.fence(session)?;
    absent_is_fine(base.rename(session.as_str(), &base, &doomed)).map_err(fail)?;
    drop(fence);
    self.directories.forget(session.as_str());
    self.names.forget(session);
    self.latest.forget(session);
    sync_names(&base, &path, self.settings.durability)?;
    let left = remove_tree(&base, &doomed).map_err(fail).err();
    Ok(left.or(self.forget_record(session).err()))
  }

  fn found(&self, session: &SessionId, supply: &mut Supply<'_>) -> Result<bool> {
    let path = self.shown(&[session.as_str()]);
    let durability = self.settings.durability;
    self.look_at_lease(session)?;
    self.in_directory(&[], |base| {
      let Founded::Made(newest) = founding::found(base, session.as_str(), &path, supply, durability, || {
        self.fence(session)
      })?
      else {
        return Ok(false);
      };
      // What is known of directories of that name is known of others.
      self.directories.forget(session.as_str());
      self.names.forget(session);
      self.latest.forget(session);
      sync_names(base, &path, durability)?;
      if let Some(newest) = newest {
        self.latest.made(session, newest);
      }
      Ok(true)
    })
  }

  fn write(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let path = self.path(session, item);
    let fail = |error| Error::io("write", &path, error);
    let place = Place::of(session, item);
    let durability = self.settings.durability;
    self.look_at_lease(session)?;
    self.in_directory(&place.directory, |directory| {
      if let Item::Checkpoint(agent, ..) = item {
        let series = Series {
          session: session.clone(),
          agent: agent.cloned(),
        };
        self.names.look_for_others(&series, directory);
      }
      let temporary = Temporary::write(directory, &place.name, content, durability).map_err(fail)?;
      let size = temporary.size;
      self.rename_or_remove(session, item, directory, |_| {
        let _lock = match item {
          Item::Document(_) | Item::Previous(..) => Some(pending::lock(directory, &path, self.settings)?),
          Item::Checkpoint(..) | Item::Key(..) | Item::TaskResult(_) => None,
        };
        let _fence = self.fence(session)?;
        versions::make_room(directory, &place.name, self.settings.keep_previous).map_err(fail)?;
        temporary.persist(&place.name).map_err(fail)?;
        Ok(Happened::Came)
      })?;
      sync_names(directory, &path, durability)?;
      if let Item::Checkpoint(None, id, encoding) = item {
        let entry = CheckpointEntry::new(id.clone(), encoding, || modified(directory, &place.name));
        self.latest.made(session, entry);
      }
      Ok(size)
    })
  }

  fn write_checkpoint(&self, series: &Series, id: &CheckpointId, new: CheckpointWrite<'_>) -> Result<Put> {
    self.put_checkpoint(series, id, new)
  }

  fn keys(&self, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
    let path = below(&series.session, series.folders());
    let Some(directory) = self.open(&path)? else {
      return Ok(Vec::new());
    };
    keys::all(&directory).map_err(|error| Error::io("list", &self.shown(&path), error))
  }

  fn remove_unused_keys(&self, series: &Series) -> Result<u64> {
    let path = below(&series.session, series.folders());
    let Some(directory) = self.open(&path)? else {
      return Ok(0);
    };
    // Nobody has to wait for that.
    if self.keys(series)?.is_empty() {
      return Ok(0);
    }
    self.names.change(series, &directory, |held| {
      // Somebody who stopped in the middle of making one may go on.
      if !held.is_locked {
        return Ok((0, None));
      }
      let fail = |error| Error::io("tidy", &self.shown(&path), error);
      let unused = keys::unused(&directory).map_err(fail)?;
      if unused.is_empty() {
        return Ok((0, None));
      }
      let _fence = self.fence(&series.session)?;
      keys::remove_all(&directory, &unused, self.settings.durability).map_err(fail)?;
      Ok((unused.iter().map(|(_, size)| size).sum(), None))
    })
  }

  fn write_state(&self, session: &SessionId, session_document: &dyn Content, task_tree: &dyn Content) -> Result<()> {
    let path = self.base.join(session.as_str());
    let (session_name, tree_name) = (Item::SESSION.file_name(), Item::TASK_TREE.file_name());
    let documents = [
      (session_name.as_str(), session_document),
      (tree_name.as_str(), task_tree),
    ];
    self.look_at_lease(session)?;
    self.in_directory(&[session.as_str()], |directory| {
      pending::write_together(directory, &path, &documents, self.settings, || self.fence(session))
    })
  }

  fn update(&self, session: &SessionId, document: Document, limit: u64, change: &mut Change<'_>) -> Result<()> {
    let item = Item::Document(document);
    let path = self.path(session, item);
    let name = item.file_name();
    let fail = |error| Error::io("write", &path, error);
    self.look_at_lease(session)?;
    self.in_directory(&[session.as_str()], |directory| {
      let _lock = pending::lock(directory, &path, self.settings)?;
      let Some(content) = change(contents(directory, &name, &path, limit)?)? else {
        return Ok(());
      };
      let temporary = Temporary::write(directory, &name, &content, self.settings.durability).map_err(fail)?;
      let fence = self.fence(session)?;
      versions::make_room(directory, &name, self.settings.keep_previous).map_err(fail)?;
      temporary.persist(&name).map_err(fail)?;
      drop(fence);
      sync_names(directory, &path, self.settings.durability)
    })
  }

  fn read(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
    let path = self.path(session, item);
    let place = Place::of(session, item);
    let Some(directory) = self.open(&place.directory)? else {
      return Ok(None);
    };
    if let Item::Document(_) | Item::Previous(..) = item {
      pending::finish_abandoned(&directory, &path, self.settings)?;
    }
    contents(&directory, &place.name, &path, limit)
  }

  fn peek(&self, series: &Series, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<Peeked>> {
    let Some(directory) = self.open(&below(&series.session, series.folders()))? else {
      return Ok(entries.iter().map(|_| Ok(None)).collect());
    };
    let peek = |entry: &CheckpointEntry| {
      let path = || self.path(&series.session, series.item_of(entry));
      match directory.peek(&series.item_of(entry).file_name(), head, tail) {
        Ok(Some(peek)) => Ok(Some(peek)),
        Ok(None) => Err(Error::corrupt(&path().to_string_lossy(), "it is not a file")),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(Error::io("read", &path(), error)),
      }
    };
    Ok(entries.iter().map(peek).collect())
  }

  fn versions(&self, session: &SessionId, document: Document) -> Result<u32> {
    let path = self.path(session, Item::Document(document));
    let Some(directory) = self.open(&[session.as_str()])? else {
      return Ok(0);
    };
    pending::finish_abandoned(&directory, &path, self.settings)?;
    let is_there = |back| exists(&directory, &Item::Previous(document, back).file_name());
    let mut versions = 0;
    while is_there(versions + 1).map_err(|error| Error::io("read", &path, error))? {
      versions += 1;
    }
    Ok(versions)
  }

  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<bool> {
    let Some(directory) = self.unlink(session, item, |_| Ok(true))? else {
      return Ok(false);
    };
    unpin(&directory, item);
    sync_names(&directory, &self.path(session, item), self.settings.durability)?;
    Ok(true)
  }

  fn retire(&self, series: &Series, entry: &CheckpointEntry) -> Result<bool> {
    // Looked for under the lock that whoever pins it takes too.
    let is_free = |directory: &D::Directory| exists(directory, &pin_of(&entry.id)).map(|is_pinned| !is_pinned);
    let directory = self.unlink(&series.session, series.item_of(entry), is_free)?;
    Ok(directory.is_some())
  }

  fn confirm_retired(&self, series: &Series) -> Result<()> {
    let path = below(&series.session, series.folders());
    match self.open(&path)? {
      Some(directory) => sync_names(&directory, &self.shown(&path), self.settings.durability),
      None => Ok(()),
    }
  }

  fn set_made_at(&self, series: &Series, entry: &CheckpointEntry) -> Result<()> {
    let Some(directory) = self.open(&below(&series.session, series.folders()))? else {
      return Ok(());
    };
    let item = series.item_of(entry);
    let _fence = self.fence(&series.session)?;
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(entry.made_at);
    let lock = directory.try_lock(&item.file_name());
    let set = lock.and_then(|lock| lock.map_or(Ok(()), |lock| directory.set_time(&lock, time)));
    // What is remembered of the order is wrong now.
    self.names.forget(&series.session);
    set.map_err(|error| Error::io("set the time of", &self.path(&series.session, item), error))
  }

  fn set_pinned(&self, series: &Series, id: &CheckpointId, is_pinned: bool) -> Result<bool> {
    let Some(directory) = self.open(&below(&series.session, series.folders()))? else {
      return Ok(false);
    };
    let path = self.path(&series.session, series.item(id, Encoding::Json));
    let fail = |error| Error::io("pin", &path, error);
    let pin = pin_of(id);
    let was_there = self.names.change(series, &directory, |_| {
      if !holds_checkpoint(&directory, series, id).map_err(fail)? {
        return Ok((false, None));
      }
      let _fence = self.fence(&series.session)?;
      let changed = if is_pinned {
        match directory.create(&pin) {
          Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
          created => created.map(drop),
        }
      } else {
        absent_is_fine(directory.remove_file(&pin))
      };
      changed.map_err(fail)?;
      Ok((true, Some(names::Change::IsPinned(id.clone(), is_pinned))))
    })?;
    if was_there {
      sync_names(&directory, &path, self.settings.durability)?;
    }
    Ok(was_there)
  }

  fn quarantine(&self, session: &SessionId, item: Item<'_>) -> Result<Option<String>> {
    let place = Place::of(session, item);
    let path = self.path(session, item);
    let fail = |error| Error::io("move aside", &path, error);
    let Some(from) = self.open(&place.directory)? else {
      return Ok(None);
    };
    self.look_at_lease(session)?;
    // The name says where it came from; the second part keeps two of the same name apart.
    let name = format!("{}.{}", place.name, Uuid::new_v4().simple());
    let directory = [session.as_str(), DAMAGED];
    let moved = self.in_directory(&directory, |damaged| {
      let moved = self.rename_or_remove(session, item, &from, |_| {
        let _fence = self.fence(session)?;
        self.let_go(session, item, &from)?;
        match from.rename(&place.name, damaged, &name) {
          Err(error) if is_absence(&error) && from.stat(&place.name).is_err() => Ok(Happened::Nothing),
          moved => moved.map(|()| Happened::Went).map_err(fail),
        }
      })?;
      sync_names(damaged, &path, self.settings.durability)?;
      sync_names(&from, &path, self.settings.durability)?;
      Ok(moved)
    })?;
    if moved == Happened::Went {
      unpin(&from, item);
    }
    Ok((moved == Happened::Went).then(|| self.shown(&directory).join(name).to_string_lossy().into_owned()))
  }

  fn checkpoints(&self, series: &Series) -> Result<Vec<CheckpointEntry>> {
    let mut entries = match self.open(&below(&series.session, series.folders()))? {
      Some(directory) => self.checkpoints_in(series, &directory)?,
      None => Vec::new(),
    };
    entries.sort_unstable_by(CheckpointEntry::newest_first);
    Ok(entries)
  }

  fn surplus(&self, series: &Series, wanted: Wanted) -> Result<Surplus> {
    let Some(directory) = self.open(&below(&series.session, series.folders()))? else {
      return Ok(Surplus::default());
    };
    let session = &series.session;
    self.names.surplus(
      series,
      &directory,
      wanted,
      || self.checkpoints_in(series, &directory),
      |newest| {
        if series.agent.is_some() {
          return None;
        }
        let open = || directories::open(&self.disk, &[session.as_str()]);
        let moved = self.latest.follow(session, newest, open);
        // The link is for others: it keeps nobody from what they came for.
        let path = self.path(session, series.item_of(newest));
        moved
          .err()
          .map(|error| Error::io("move the link to", &path, error).message)
      },
    )
  }

  fn settle_newest(&self, series: &Series) -> Result<()> {
    let newest = self.checkpoints(series)?.into_iter().next();
    if let (Some(newest), None) = (newest, &series.agent) {
      self.latest.doubt(&series.session);
      self.latest.made(&series.session, newest);
      self.surplus(series, Wanted::Beyond(usize::MAX))?;
    }
    Ok(())
  }

  fn results(&self, session: &SessionId) -> Result<Vec<TaskId>> {
    let entries = self.list(&[session.as_str(), RESULTS])?;
    let ids = entries.iter().filter_map(|entry| entry.name.strip_suffix(".json"));
    let mut ids: Vec<_> = ids.filter_map(|id| TaskId::parse(id).ok()).collect();
    ids.sort();
    Ok(ids)
  }

  fn sessions_with_checkpoint(&self, id: &CheckpointId) -> Result<Vec<SessionId>> {
    let mut holding = Vec::new();
    for session in self.places()? {
      let path = [session.as_str(), CHECKPOINTS];
      let directory = directories::open(&self.disk, &path);
      match directory.and_then(|directory| holds_checkpoint(&directory, &(&session).into(), id)) {
        Ok(true) => holding.push(session),
        Ok(false) => {}
        Err(error) if is_absence(&error) || is_somebody_elses(&error) => {}
        Err(error) => return Err(Error::io("read", &self.shown(&path), error)),
      }
    }
    Ok(holding)
  }

  fn usage(&self, session: &SessionId) -> Result<Usage> {
    let path = [session.as_str()];
    let total_bytes = match self.open(&path)? {
      Some(directory) => tree_size(&directory, 0).map_err(|error| Error::io("measure", &self.shown(&path), error))?,
      None => 0,
    };
    let own = self.checkpoints(&session.into())?;
    let mut agent_checkpoints = 0;
    for agent in self.agents(session)? {
      let series = Series {
        session: session.clone(),
        agent: Some(agent),
      };
      agent_checkpoints += self.checkpoints(&series)?.len() as u64;
    }
    Ok(Usage {
      total_bytes,
      checkpoints: own.len() as u64,
      pinned: own.iter().filter(|entry| entry.is_pinned).count() as u64,
      newest: own.into_iter().next(),
      agent_checkpoints,
      results: self.results(session)?.len() as u64,
    })
  }

  fn fences(&self) -> &Fences {
    &self.fences
  }

  fn acquire(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired> {
    self.acquire_lease(session, claim)
  }

  fn renew(&self, session: &SessionId, number: u64, ttl_ms: u64) -> Result<Option<Lease>> {
    self.renew_lease(session, number, ttl_ms)
  }

  fn release(&self, session: &SessionId, number: u64) -> Result<bool> {
    self.release_lease(session, number)
  }

  fn leases(&self) -> Result<Vec<(SessionId, Lease)>> {
    self.held_leases()
  }
}

/// Whether a directory of the base holds a session's document, or has one coming.
fn holds_document<D: Directory>(base: &D, session: &str) -> io::Result<bool> {
  let name = Item::SESSION.file_name();
  let is_there = |error: io::Error| if is_absence(&error) { Ok(false) } else { Err(error) };
  let session = match base.open_directory(session) {
    Ok(session) => session,
    Err(error) => return is_there(error),
  };
  match session.stat(&name) {
    Ok(stat) if stat.kind == Kind::File => Ok(true),
    Ok(_) => pending::holds(&session, &name).or_else(is_there),
    Err(error) if is_absence(&error) => pending::holds(&session, &name).or_else(is_there),
    Err(error) => Err(error),
  }
}

/// Whether the directory of a series holds a checkpoint, in whatever encoding.
fn holds_checkpoint<D: Directory>(directory: &D, series: &Series, id: &CheckpointId) -> io::Result<bool> {
  for encoding in Encoding::ALL {
    if exists(directory, &series.item(id, encoding).file_name())? {
      return Ok(true);
    }
  }
  Ok(false)
}

/// Whether a directory among the sessions is none of ours.
fn is_somebody_elses(error: &io::Error) -> bool {
  error.kind() == io::ErrorKind::PermissionDenied
}
