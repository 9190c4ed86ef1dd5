//! The operations of a place, on files.

use std::io;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::create_session::CreateOutcome;
use super::disk::{Directory, Disk, Kind};
use super::durable::{Temporary, absent_is_fine, sync_names};
use super::leases::Decision;
use super::listing_cache::Held;
use super::walk::{remove_tree, tree_size};
use super::{
  FileBackend, NameChange, SessionPath, below, contents, create_session, directories, each_once, encodings_of, exists,
  is_absence, keys, listing_cache, modified, pin_of, tombstones, two_file_commit, unpin, versions,
};
use crate::backend::item::{AGENTS, CHECKPOINTS, RESULTS};
use crate::backend::{
  Acquired, Backend, Change, CheckpointEntry, CheckpointWrite, Claim, Condition, Content, DeletedSession, Document,
  Encoding, Fences, IsLabelled, Item, ItemSource, LabelsChange, Lease, PeekResult, PutOutcome, RetentionList,
  RetentionScope, Series, Usage,
};
use crate::types::error::{Code, Error, Result};
use crate::types::id::{AgentId, CheckpointId, SessionId, TaskId};

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
      Some(base) => tombstones::finish(&base).map_err(|error| Error::io("list", &self.base, error)),
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
    let fence = self.fence(session)?;
    self.remove_session(session, &base, fence)
  }

  fn delete_session_if(
    &self,
    session: &SessionId,
    limit: u64,
    condition: &mut Condition<'_>,
  ) -> Result<Option<DeletedSession>> {
    let path = self.base.join(session.as_str());
    let (Some(base), Some(directory)) = (self.open(&[])?, self.open(&[session.as_str()])?) else {
      return Ok(None);
    };
    self.look_at_lease(session)?;
    // From here on, every writer holds the lock of the lease for its last step. A writer that came before that, and changes
    // the document, holds the session's own lock.
    self.make_leases()?;
    let lock = two_file_commit::lock(&directory, &path, self.settings)?;
    let decided = self.fence_if(session, || {
      // Another process may have deleted the session, and made it again.
      let is_in_place = self.disk.is_in_place(&[session.as_str()], &directory);
      if !is_in_place.map_err(|error| Error::io("read", &path, error))? {
        return Ok(false);
      }
      let (name, path) = (Item::SESSION.file_name(), self.path(session, Item::SESSION));
      condition(contents(&directory, &name, &path, limit)?.as_deref())
    })?;
    let Decision::For(fence) = decided else {
      return Ok(None);
    };
    // Windows renames no directory that holds an open file. Whoever takes this lock next waits for the lock of the lease.
    drop(lock);
    let left = self.remove_session(session, &base, fence)?;
    Ok(Some(DeletedSession { left }))
  }

  fn found(&self, session: &SessionId, supply: &mut ItemSource<'_>) -> Result<bool> {
    let path = self.shown(&[session.as_str()]);
    let durability = self.settings.durability;
    self.look_at_lease(session)?;
    self.in_directory(&[], |base| {
      let CreateOutcome::Made(newest) =
        create_session::found(base, session.as_str(), &path, supply, durability, || {
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
    if let Item::Checkpoint(agent, id, encoding) = item {
      let series = Series {
        session: session.clone(),
        agent: agent.cloned(),
      };
      return self.put_bytes(&series, id, encoding, content);
    }
    let path = self.path(session, item);
    let fail = |error| Error::io("write", &path, error);
    let place = SessionPath::of(session, item);
    let durability = self.settings.durability;
    self.look_at_lease(session)?;
    self.in_directory(&place.directory, |directory| {
      let temporary = Temporary::write(directory, &place.name, content, durability).map_err(fail)?;
      let size = temporary.size;
      let lock = match item {
        Item::Document(_) | Item::Previous(..) => Some(two_file_commit::lock(directory, &path, self.settings)?),
        Item::Checkpoint(..) | Item::Key(..) | Item::TaskResult(_) => None,
      };
      let fence = self.fence(session)?;
      versions::make_room(directory, &place.name, self.settings.keep_previous).map_err(fail)?;
      temporary.persist(&place.name).map_err(fail)?;
      drop((fence, lock));
      sync_names(directory, &path, durability)?;
      self.confirm_in_place(&place.directory, directory)?;
      Ok(size)
    })
  }

  fn write_checkpoint(&self, series: &Series, id: &CheckpointId, new: CheckpointWrite<'_>) -> Result<PutOutcome> {
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
      two_file_commit::write_together(directory, &path, &documents, self.settings, || self.fence(session))?;
      self.confirm_in_place(&[session.as_str()], directory)
    })
  }

  fn update(&self, session: &SessionId, document: Document, limit: u64, change: &mut Change<'_>) -> Result<()> {
    self.update_under_lock(session, document, limit, || Ok(()), &mut |old, ()| {
      Ok(change(old)?.map(Some))
    })
  }

  fn update_labels(&self, session: &SessionId, limit: u64, change: &mut LabelsChange<'_>) -> Result<()> {
    let series = Series::from(session);
    // Held until the labels are stored: a checkpoint that gets one is not removed in between. The lock of the session comes
    // before the lock on the names, everywhere.
    let hold = || {
      let Some(directory) = self.open(&below(session, series.folders()))? else {
        return Ok((None, Vec::new()));
      };
      let lock = listing_cache::hold(&directory, self.settings.timeout);
      let lock = lock.map_err(|error| Error::busy("label a checkpoint of", &self.shown(&[session.as_str()]), error))?;
      let entries = self.checkpoints_in(&series, &directory)?;
      Ok((lock, entries))
    };
    self.update_under_lock(session, Document::Labels, limit, hold, &mut |old, (_, entries)| {
      Ok(change(old, entries)?.map(|labels| labels.document))
    })
  }

  fn read(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
    let path = self.path(session, item);
    let place = SessionPath::of(session, item);
    let Some(directory) = self.open(&place.directory)? else {
      return Ok(None);
    };
    match item {
      Item::Document(_) => two_file_commit::read(&directory, &place.name, &path, limit, self.settings),
      Item::Previous(..) => {
        two_file_commit::finish_abandoned(&directory, &path, self.settings)?;
        contents(&directory, &place.name, &path, limit)
      }
      Item::Checkpoint(..) | Item::Key(..) | Item::TaskResult(_) => contents(&directory, &place.name, &path, limit),
    }
  }

  fn peek(&self, series: &Series, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<PeekResult>> {
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
    two_file_commit::finish_abandoned(&directory, &path, self.settings)?;
    let is_there = |back| exists(&directory, &Item::Previous(document, back).file_name());
    let mut versions = 0;
    while is_there(versions + 1).map_err(|error| Error::io("read", &path, error))? {
      versions += 1;
    }
    Ok(versions)
  }

  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<bool> {
    // The holder of the lock may be about to store the checkpoint in another encoding.
    let is_free = |_: &D::Directory, held: Held| self.refuse_if_busy(session, item, held).map(|()| true);
    let Some(directory) = self.unlink(self.settings.timeout, session, item, is_free)? else {
      return Ok(false);
    };
    sync_names(&directory, &self.path(session, item), self.settings.durability)?;
    Ok(true)
  }

  fn retire(&self, series: &Series, entry: &CheckpointEntry, spare: Option<IsLabelled>) -> Result<bool> {
    // Decided under the lock that pins and labels are given under.
    let is_free = |directory: &D::Directory, held: Held| {
      self.refuse_if_busy(&series.session, series.item_of(entry), held)?;
      let is_pinned = exists(directory, &pin_of(&entry.id));
      let fail = |error| Error::io("read", &self.path(&series.session, series.item_of(entry)), error);
      if is_pinned.map_err(fail)? || self.is_newest(series, entry, directory, held)? {
        return Ok(false);
      }
      let Some(is_labelled) = spare else {
        return Ok(true);
      };
      let labels = self.read(&series.session, Item::LABELS, u64::MAX)?;
      Ok(!labels.is_some_and(|labels| is_labelled(&labels, &entry.id)))
    };
    let directory = self.unlink(
      listing_cache::LONGEST_WAIT,
      &series.session,
      series.item_of(entry),
      is_free,
    )?;
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
    // A checkpoint that was deleted meanwhile has no time.
    let set = absent_is_fine(directory.set_modified(&item.file_name(), time));
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
    let timeout = self.settings.timeout;
    let was_there = self.names.change_within(timeout, series, &directory, |held| {
      // The holder of the lock may be about to remove the checkpoint, and has looked for the pin already.
      if is_pinned && held.is_busy {
        return Err(Error::busy("pin", &path, io::ErrorKind::ResourceBusy.into()));
      }
      let item = series.item(id, Encoding::Json);
      if encodings_of(&directory, item).map_err(fail)?.is_empty() {
        return Ok((false, None));
      }
      let _fence = self.fence(&series.session)?;
      let changed = if is_pinned {
        match directory.create(&pin) {
          Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
          // The session was deleted meanwhile.
          Err(error) if is_absence(&error) => return Ok((false, None)),
          created => created.map(drop),
        }
      } else {
        absent_is_fine(directory.remove_file(&pin))
      };
      changed.map_err(fail)?;
      Ok((true, Some(listing_cache::Change::IsPinned(id.clone(), is_pinned))))
    })?;
    if was_there {
      sync_names(&directory, &path, self.settings.durability)?;
    }
    Ok(was_there)
  }

  fn quarantine(&self, series: &Series, entry: &CheckpointEntry, judged: Option<&[u8]>) -> Result<Option<String>> {
    let (session, item) = (&series.session, series.item_of(entry));
    let place = SessionPath::of(session, item);
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
      let moved = self.rename_or_remove(self.settings.timeout, session, item, &from, |held| {
        if held.is_busy {
          return Err(Error::busy("move aside", &path, io::ErrorKind::ResourceBusy.into()));
        }
        // It may have been replaced since it was judged.
        let is_same = match (contents(&from, &place.name, &path, u64::MAX), judged) {
          (Ok(bytes), Some(judged)) => bytes.as_deref() == Some(judged),
          (Err(error), None) if error.code == Code::Corrupt => true,
          (Ok(_), None) => false,
          (Err(error), _) => return Err(error),
        };
        if !is_same {
          return Ok(NameChange::Nothing);
        }
        let _fence = self.fence(session)?;
        self.let_go(session, item, &from)?;
        match from.rename(&place.name, damaged, &name) {
          Err(error) if is_absence(&error) && from.stat(&place.name).is_err() => Ok(NameChange::Nothing),
          moved => {
            moved.map_err(fail)?;
            unpin(&from, item);
            Ok(NameChange::Went)
          }
        }
      })?;
      sync_names(damaged, &path, self.settings.durability)?;
      sync_names(&from, &path, self.settings.durability)?;
      Ok(moved)
    })?;
    Ok((moved == NameChange::Went).then(|| self.shown(&directory).join(name).to_string_lossy().into_owned()))
  }

  fn checkpoints(&self, series: &Series) -> Result<Vec<CheckpointEntry>> {
    match self.open(&below(&series.session, series.folders()))? {
      Some(directory) => {
        listing_cache::list_unchanged(&directory, || self.checkpoints_in(series, &directory), each_once)
      }
      None => Ok(Vec::new()),
    }
  }

  fn find(&self, series: &Series, id: &CheckpointId) -> Result<Option<CheckpointEntry>> {
    let Some(directory) = self.open(&below(&series.session, series.folders()))? else {
      return Ok(None);
    };
    // Under the lock: a conversion takes one name away after it has given the other.
    listing_cache::with_lock(&directory, |is_locked| {
      let item = series.item(id, Encoding::Json);
      let encodings = match encodings_of(&directory, item) {
        // Without the lock, the name may have come where it was looked for already, and have gone where it was not.
        Ok(encodings) if encodings.is_empty() && !is_locked => encodings_of(&directory, item),
        encodings => encodings,
      };
      let encodings = encodings.map_err(|error| Error::io("read", &self.path(&series.session, item), error))?;
      let Some(encoding) = encodings.first() else {
        return Ok(None);
      };
      let name = series.item(id, *encoding).file_name();
      Ok(Some(CheckpointEntry {
        is_pinned: exists(&directory, &pin_of(id)).unwrap_or(true),
        ..CheckpointEntry::new(id.clone(), *encoding, || modified(&directory, &name))
      }))
    })
  }

  fn surplus(&self, series: &Series, wanted: RetentionScope) -> Result<RetentionList> {
    let Some(directory) = self.open(&below(&series.session, series.folders()))? else {
      return Ok(RetentionList::default());
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
      self.surplus(series, RetentionScope::Beyond(usize::MAX))?;
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
      let item = Item::Checkpoint(None, id, Encoding::Json);
      // A conversion between two looks may have moved it from a name that comes to one that went: look twice.
      let is_there = |directory: &D::Directory| {
        Ok(!encodings_of(directory, item)?.is_empty() || !encodings_of(directory, item)?.is_empty())
      };
      match directory.and_then(|directory| is_there(&directory)) {
        Ok(false) => {}
        Ok(true) => holding.push(session),
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

impl<D: Disk> FileBackend<D> {
  /// Whether no checkpoint of the series is newer. The caller holds the lock on the names, where there is one.
  fn is_newest(&self, series: &Series, entry: &CheckpointEntry, directory: &D::Directory, held: Held) -> Result<bool> {
    let list = || self.checkpoints_in(series, directory);
    let is_newest =
      |entries: &mut dyn Iterator<Item = &CheckpointEntry>| entries.next().is_none_or(|newest| newest.id == entry.id);
    self.names.newest_first(series, directory, held, list, is_newest)
  }

  /// Removes the directory of a session. The caller holds `fence`, if leases have locks.
  fn remove_session(
    &self,
    session: &SessionId,
    base: &D::Directory,
    fence: Option<<D::Directory as Directory>::Lock>,
  ) -> Result<Option<Error>> {
    let path = self.base.join(session.as_str());
    let fail = |error| Error::io("delete", &path, error);
    // One rename makes the whole session go at once, for every reader and after every crash.
    let doomed = tombstones::new_name();
    absent_is_fine(base.rename(session.as_str(), base, &doomed)).map_err(fail)?;
    drop(fence);
    self.directories.forget(session.as_str());
    self.names.forget(session);
    self.latest.forget(session);
    sync_names(base, &path, self.settings.durability)?;
    let left = remove_tree(base, &doomed).map_err(fail).err();
    Ok(left.or(self.forget_record(session).err()))
  }

  /// After a write, and before it is acknowledged: what was written into the directory of a deleted session goes with it. The
  /// error makes [`FileBackend::in_directory`] begin again.
  pub(super) fn confirm_in_place(&self, path: &[&str], directory: &D::Directory) -> Result<()> {
    let fail = |error| Error::outcome_unknown("look for the directory", &self.shown(path), error);
    if self.disk.is_in_place(path, directory).map_err(fail)? {
      return Ok(());
    }
    Err(Error::io(
      "write into",
      &self.shown(path),
      io::ErrorKind::NotFound.into(),
    ))
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
    Ok(_) => two_file_commit::holds(&session, &name).or_else(is_there),
    Err(error) if is_absence(&error) => two_file_commit::holds(&session, &name).or_else(is_there),
    Err(error) => Err(error),
  }
}

/// Whether a directory among the sessions is none of ours.
fn is_somebody_elses(error: &io::Error) -> bool {
  error.kind() == io::ErrorKind::PermissionDenied
}

/// A [`Change`] that depends on something else, too.
/// The inner `None` removes the document.
type ChangeWith<'a, T> = dyn FnMut(Option<Vec<u8>>, &T) -> Result<Option<Option<Vec<u8>>>> + 'a;

impl<D: Disk> FileBackend<D> {
  /// Replaces a document under the lock of its session, and what `guard` gives beside it.
  fn update_under_lock<T>(
    &self,
    session: &SessionId,
    document: Document,
    limit: u64,
    guard: impl Fn() -> Result<T>,
    change: &mut ChangeWith<'_, T>,
  ) -> Result<()> {
    let item = Item::Document(document);
    let path = self.path(session, item);
    let name = item.file_name();
    let fail = |error| Error::io("write", &path, error);
    self.look_at_lease(session)?;
    // A change that is refused creates no session.
    if self.open(&[session.as_str()])?.is_none() && change(None, &guard()?)?.is_none() {
      return Ok(());
    }
    self.in_directory(&[session.as_str()], |directory| {
      let _lock = two_file_commit::lock(directory, &path, self.settings)?;
      let held = guard()?;
      let Some(content) = change(contents(directory, &name, &path, limit)?, &held)? else {
        return Ok(());
      };
      let temporary = content.map(|content| Temporary::write(directory, &name, &content, self.settings.durability));
      let temporary = temporary.transpose().map_err(fail)?;
      let fence = self.fence(session)?;
      match temporary {
        Some(temporary) => {
          versions::make_room(directory, &name, self.settings.keep_previous).map_err(fail)?;
          temporary.persist(&name).map_err(fail)?;
        }
        None => absent_is_fine(directory.remove_file(&name)).map_err(fail)?,
      }
      drop((fence, held));
      sync_names(directory, &path, self.settings.durability)?;
      self.confirm_in_place(&[session.as_str()], directory)
    })
  }
}
