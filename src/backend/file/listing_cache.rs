//! The names of a series of checkpoints, remembered for retention: making one more costs the same however many there are.
//!
//! Whoever changes these names, in whatever process, gives an empty file beside them a new random time, the mark, while it
//! holds that file's lock. Who finds there the mark that it remembers knows that nobody else has been at the names since.
//! Everything else, a refused lock included, means that the directory is listed.
//!
//! Programs that know nothing of marks, such as a person's `rm`, change the time of the directory: before a writer touches
//! it, that has to be the one that our last change left. Times are coarse, so what is remembered is good for
//! [`TRUSTED_FOR`] at most. Nobody who asks for a list is answered from memory.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use uuid::Uuid;

use super::disk::Directory;
use super::{is_absence, locks};
use crate::backend::{CheckpointEntry, CheckpointPage, Encoding, RetentionScope, Series};
use crate::types::error::Result;
use crate::types::id::{CheckpointId, SessionId};

pub const MARK_FILE: &str = ".names";

const TRUSTED_FOR: Duration = Duration::from_secs(60);

/// The lock is held for microseconds. A process that was stopped while it held it must not stop all others.
pub const LONGEST_WAIT: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub struct Names {
  sessions: Mutex<HashMap<Series, CachedListing>>,
}

#[derive(Debug)]
struct CachedListing {
  mark: SystemTime,
  /// The directory's own time after the last change that we know of.
  directory_time: SystemTime,
  listed_at: Instant,
  /// Oldest first, so that a new one goes to the end.
  entries: VecDeque<CheckpointEntry>,
}

/// What happens to a name.
#[derive(Debug, Clone)]
pub enum Change {
  Came(CheckpointEntry),
  Went(CheckpointId, Encoding),
  IsPinned(CheckpointId, bool),
}

/// What is known while names are changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Held {
  /// Whether the caller holds the lock.
  pub is_locked: bool,
  /// Whether the lock could not be taken: what must not happen beside a step of its holder must not happen now. Where the
  /// file system has no locks, there is none to take.
  pub is_busy: bool,
  /// Whether no other process has changed the names since this one last did.
  pub was_alone: bool,
  /// The mark that was found.
  mark: Option<SystemTime>,
}

impl Names {
  /// Before a writer touches the directory: forgets what is remembered if somebody else has changed it.
  pub fn look_for_others<D: Directory>(&self, series: &Series, directory: &D) {
    let mut sessions = self.sessions();
    if let Some(known) = sessions.get(series)
      && !directory.time().is_ok_and(|time| time == known.directory_time)
    {
      sessions.remove(series);
    }
  }

  /// Does something that changes the names in a series' `directory`, and remembers what `act` says came of it.
  pub fn change<D: Directory, T>(
    &self,
    series: &Series,
    directory: &D,
    act: impl FnOnce(Held) -> Result<(T, Option<Change>)>,
  ) -> Result<T> {
    self.change_within(LONGEST_WAIT, series, directory, act)
  }

  /// The same, with a wait of its own for the lock.
  pub fn change_within<D: Directory, T>(
    &self,
    timeout: Duration,
    series: &Series,
    directory: &D,
    act: impl FnOnce(Held) -> Result<(T, Option<Change>)>,
  ) -> Result<T> {
    let held = hold(directory, timeout);
    // Whatever the reason is: another process may hold it.
    let is_busy = held.is_err();
    let lock = held.ok().flatten();
    let found = lock.as_ref().and_then(|lock| directory.time_of(lock).ok());
    // Set first: should we die in the middle of it, others do not believe their memory.
    let mark = lock.as_ref().and_then(|lock| new_mark(directory, lock).ok());
    let was_alone = found.is_some() && self.sessions().get(series).map(|known| known.mark) == found;
    let outcome = act(Held {
      is_locked: lock.is_some(),
      is_busy,
      was_alone,
      mark: found,
    });
    if lock.is_none() && matches!(outcome, Ok((_, Some(_)))) {
      // The holder of the lock did not see this change. A mark that is not its own makes it list the names again.
      let _ = directory.set_modified(MARK_FILE, random_mark());
    }
    let times = mark.and_then(|mark| Some((mark, directory.time().ok()?)));
    let mut sessions = self.sessions();
    match (sessions.get_mut(series), times, &outcome) {
      (Some(known), Some((mark, directory_time)), Ok((_, change))) if found == Some(known.mark) => {
        known.mark = mark;
        known.directory_time = directory_time;
        if let Some(change) = change {
          known.apply(change.clone());
        }
      }
      _ => drop(sessions.remove(series)),
    }
    drop(sessions);
    drop(lock);
    outcome.map(|(answer, _)| answer)
  }

  /// Asks about the checkpoints of a series, newest first, while names are changed; `list` reads the directory if nothing is
  /// known.
  pub fn newest_first<D: Directory, T>(
    &self,
    series: &Series,
    directory: &D,
    held: Held,
    list: impl FnOnce() -> Result<Vec<CheckpointEntry>>,
    ask: impl FnOnce(&mut dyn Iterator<Item = &CheckpointEntry>) -> T,
  ) -> Result<T> {
    if let Some(mark) = held.mark
      && let Some(known) = CachedListing::good(&self.sessions(), series, mark)
    {
      return Ok(ask(&mut known.entries.iter().rev()));
    }
    let directory_time = directory.time();
    let entries = list()?;
    let answer = ask(&mut entries.iter());
    if let (Some(mark), Ok(directory_time)) = (held.mark, directory_time) {
      self.remember(series, mark, directory_time, entries);
    }
    Ok(answer)
  }

  /// The delta that comes after a checkpoint, as far as is remembered: the one that is likely to stand on the same key.
  pub fn next_delta(&self, series: &Series, id: &CheckpointId) -> Option<CheckpointId> {
    let sessions = self.sessions();
    let deltas = sessions.get(series)?.entries.iter();
    let mut deltas = deltas.filter(|known| known.encoding == Encoding::Delta);
    // The first ones are the ones that usually go.
    deltas.find(|known| known.id == *id)?;
    deltas.next().map(|known| known.id.clone())
  }

  /// The newest checkpoint, and those in scope; `list` reads the directory if nothing is cached. `show` is called with the newest while
  /// the lock is held; what it returns becomes a warning.
  pub fn list_for_retention<D: Directory>(
    &self,
    series: &Series,
    directory: &D,
    scope: RetentionScope,
    list: impl FnOnce() -> Result<Vec<CheckpointEntry>>,
    show: impl FnOnce(&CheckpointEntry) -> Option<String>,
  ) -> Result<CheckpointPage> {
    let held = hold(directory, LONGEST_WAIT);
    // Beside the holder of the lock, the newest may be about to go.
    let show = |newest: &CheckpointEntry| if held.is_ok() { show(newest) } else { None };
    let lock = held.as_ref().ok().and_then(Option::as_ref);
    let mark = lock.and_then(|lock| directory.time_of(lock).ok());
    if let Some(mut page) = mark.and_then(|mark| self.remembered(series, mark, scope)) {
      page.warning = page.newest.as_ref().and_then(show);
      return Ok(page);
    }
    let directory_time = directory.time();
    let entries = list()?;
    let mut page = CheckpointPage::in_scope(entries.iter(), scope);
    if let (Some(mark), Ok(directory_time)) = (mark, directory_time) {
      self.remember(series, mark, directory_time, entries);
    }
    page.warning = page.newest.as_ref().and_then(show);
    Ok(page)
  }

  /// The answer from memory, if it is still good under that mark.
  fn remembered(&self, series: &Series, mark: SystemTime, scope: RetentionScope) -> Option<CheckpointPage> {
    let sessions = self.sessions();
    let known = CachedListing::good(&sessions, series, mark)?;
    Some(CheckpointPage::in_scope(known.entries.iter().rev(), scope))
  }

  /// `entries` were listed under that mark, newest first.
  fn remember(&self, series: &Series, mark: SystemTime, directory_time: SystemTime, entries: Vec<CheckpointEntry>) {
    let mut sessions = self.sessions();
    // Sessions that were not listed for long are forgotten.
    sessions.retain(|_, known| known.listed_at.elapsed() < TRUSTED_FOR);
    let known = CachedListing {
      mark,
      directory_time,
      listed_at: Instant::now(),
      entries: entries.into_iter().rev().collect(),
    };
    sessions.insert(series.clone(), known);
  }

  /// Forgets a session that was removed.
  pub fn forget(&self, session: &SessionId) {
    self.sessions().retain(|series, _| series.session != *session);
  }

  fn sessions(&self) -> MutexGuard<'_, HashMap<Series, CachedListing>> {
    // Whatever a panic left half done is only a guess that a mark has to confirm.
    self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

impl CachedListing {
  /// What is remembered of a series, if it is still good under that mark.
  fn good<'a>(sessions: &'a HashMap<Series, Self>, series: &Series, mark: SystemTime) -> Option<&'a Self> {
    let known = sessions.get(series)?;
    (known.mark == mark && known.listed_at.elapsed() < TRUSTED_FOR).then_some(known)
  }

  fn apply(&mut self, change: Change) {
    match change {
      Change::Came(entry) => {
        if let Err(at) = self.entries.binary_search_by(|known| entry.newest_first(known)) {
          self.entries.insert(at, entry);
        }
      }
      // The first ones are the ones that usually go.
      Change::Went(id, encoding) => self
        .entries
        .iter()
        .position(|known| known.id == id && known.encoding == encoding)
        .map_or((), |at| drop(self.entries.remove(at))),
      Change::IsPinned(id, is_pinned) => {
        for known in self.entries.iter_mut().filter(|known| known.id == id) {
          known.is_pinned = is_pinned;
        }
      }
    }
  }
}

/// A time that no other mark has.
fn random_mark() -> SystemTime {
  const SECONDS_TO_1980: u64 = 315_532_800;
  // Some file systems begin in 1980, and some end in 2038.
  const SECONDS_FROM_1980_TO_2037: u64 = 1_798_761_600;
  let (random, more) = Uuid::new_v4().as_u64_pair();
  let seconds = SECONDS_TO_1980 + random % SECONDS_FROM_1980_TO_2037;
  let nanoseconds = u32::try_from(more % 1_000_000_000).unwrap_or(0);
  SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds)
}

/// Sets a new mark, and reads it back: not every file system keeps all of it.
fn new_mark<D: Directory>(directory: &D, lock: &D::Lock) -> io::Result<SystemTime> {
  let mark = random_mark();
  directory.set_time(lock, mark)?;
  let kept = directory.time_of(lock)?;
  let lost = mark.duration_since(kept).unwrap_or_else(|error| error.duration());
  if lost > Duration::from_secs(2) {
    return Err(io::Error::other("the file system keeps no such times"));
  }
  Ok(kept)
}

/// Waits for the lock, which is held until it is dropped; `None` where the file system has none. A lock that another process
/// holds for longer than `timeout` is an error, and so is a lock file that cannot be opened: it does not mean that there are no
/// locks.
pub fn hold<D: Directory>(directory: &D, timeout: Duration) -> io::Result<Option<D::Lock>> {
  match wait(directory, timeout) {
    Ok(None) => Err(io::ErrorKind::ResourceBusy.into()),
    Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
    // The directory was removed, with everything in it.
    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
    held => held,
  }
}

/// Does something that must not meet a half-done change of names, under the lock if it can be had: `act` is told whether it was.
pub fn with_lock<D: Directory, T>(directory: &D, act: impl FnOnce(bool) -> T) -> T {
  let lock = lock(directory);
  act(lock.is_some())
}

/// Lists names that are not changed meanwhile: a list that meets a conversion may find neither the old name nor the new one. The
/// lock is held for two looks at the mark, not for the list: a change of names begins with a new mark. Where the lock cannot be taken,
/// a second list is merged with the first.
pub fn list_unchanged<D: Directory>(
  directory: &D,
  list: impl Fn() -> Result<Vec<CheckpointEntry>>,
  merge: impl FnOnce(Vec<CheckpointEntry>) -> Vec<CheckpointEntry>,
) -> Result<Vec<CheckpointEntry>> {
  // A reader creates no lock file. Without one, no store has changed the names yet.
  let mark = || match directory.stat(MARK_FILE) {
    Ok(_) => lock(directory).and_then(|lock| directory.time_of(&lock).ok()).map(Some),
    Err(error) if is_absence(&error) => Some(None),
    Err(_) => None,
  };
  let before = mark();
  let listed = list()?;
  if before.is_some() && before == mark() {
    return Ok(listed);
  }
  if let Some(_lock) = lock(directory) {
    return list();
  }
  Ok(merge([listed, list()?].concat()))
}

/// The lock of the mark; `None` if it cannot be had, for whatever reason.
fn lock<D: Directory>(directory: &D) -> Option<D::Lock> {
  wait(directory, LONGEST_WAIT).ok().flatten()
}

/// The lock of the mark; `None` if another process holds it for longer than that, an error if there is none.
fn wait<D: Directory>(directory: &D, timeout: Duration) -> io::Result<Option<D::Lock>> {
  locks::wait(directory, MARK_FILE, timeout)
}

#[cfg(test)]
mod tests {
  use std::fs::{self, File};
  use std::thread;

  use super::*;
  use crate::backend::BackendExt as _;
  use crate::backend::conformance::Shorthand as _;
  use crate::backend::{Backend, Durability, FileBackend, Item, Newest, Parent, Precondition, PutOptions, PutOutcome};

  fn id(number: usize) -> CheckpointId {
    CheckpointId::parse(&format!("cp-1-00000{number}")).unwrap()
  }

  fn session() -> SessionId {
    SessionId::parse("s").unwrap()
  }

  fn write(backend: &FileBackend, number: usize) {
    let new = PutOptions {
      precondition: Precondition::Newest(Newest::default()),
      ..PutOptions::new(Encoding::Json)
    };
    let put = backend
      .put_checkpoint(&session().into(), &id(number), b"{}", &new)
      .unwrap();
    assert!(matches!(put, PutOutcome::Stored { .. }), "{put:?}");
  }

  /// The numbers of the checkpoints that a backend would prune if none were to be kept.
  fn seen(backend: &FileBackend) -> Vec<usize> {
    let entries = backend
      .list_for_retention(&session().into(), RetentionScope::Beyond(0))
      .unwrap()
      .entries;
    let number = |entry: &CheckpointEntry| entry.id.as_str()[10..].parse().unwrap();
    entries.iter().rev().map(number).collect()
  }

  /// Two backends on one directory are as two processes.
  fn two() -> (tempfile::TempDir, FileBackend, FileBackend) {
    let root = tempfile::tempdir().unwrap();
    let new = || FileBackend::new(root.path().to_owned(), Durability::Relaxed);
    let (mine, theirs) = (new(), new());
    (root, mine, theirs)
  }

  #[test]
  fn neither_of_two_processes_believes_its_memory_against_what_is_there() {
    let (_root, mine, theirs) = two();
    let mut expected = Vec::new();
    for number in 0..5 {
      write(if number % 2 == 0 { &mine } else { &theirs }, number);
      expected.push(number);
      assert_eq!((seen(&mine), seen(&theirs)), (expected.clone(), expected.clone()));
    }
    let ids: Vec<_> = (0..5).map(id).collect();
    let item = |number: usize| Item::Checkpoint(None, &ids[number], Encoding::Json);
    theirs.remove(&session(), item(0)).unwrap();
    let entry = CheckpointEntry::new(ids[1].clone(), Encoding::Json, || 0);
    mine.delete_surplus(&session().into(), &entry, None).unwrap();
    let entry = CheckpointEntry::new(ids[2].clone(), Encoding::Json, || 0);
    theirs
      .quarantine(&session().into(), &entry, Some(b"{}"))
      .unwrap()
      .unwrap();
    assert_eq!((seen(&mine), seen(&theirs)), (vec![3, 4], vec![3, 4]));
    theirs.delete_any(&session()).unwrap();
    assert!(seen(&mine).is_empty());
    write(&theirs, 5);
    assert_eq!(seen(&mine), [5]);
  }

  /// Makes the backend think that it has listed the directory long ago.
  fn age(backend: &FileBackend) {
    let mut sessions = backend.names.sessions();
    let known = sessions.get_mut(&Series::from(session())).unwrap();
    known.listed_at = Instant::now().checked_sub(TRUSTED_FOR).unwrap();
  }

  #[test]
  fn what_is_known_is_not_listed_again_and_not_believed_for_ever() {
    let (root, mine, _) = two();
    write(&mine, 1);
    write(&mine, 2);
    assert_eq!(seen(&mine), [1, 2]);
    // Somebody who knows nothing of marks.
    let directory = root.path().join("s/checkpoints");
    fs::remove_file(directory.join("cp-1-000001.json")).unwrap();
    assert_eq!(seen(&mine), [1, 2], "answered from memory");
    age(&mine);
    assert_eq!(seen(&mine), [2], "listed anew");
  }

  #[test]
  fn a_writer_notices_what_people_did_before_it_prunes() {
    let (root, mine, _) = two();
    for number in 1..4 {
      write(&mine, number);
    }
    assert_eq!(seen(&mine), [1, 2, 3]);
    // Times are coarse.
    thread::sleep(Duration::from_millis(20));
    fs::remove_file(root.path().join("s/checkpoints/cp-1-000003.json")).unwrap();
    write(&mine, 4);
    assert_eq!(seen(&mine), [1, 2, 4]);
  }

  #[test]
  fn sessions_that_nobody_writes_to_are_forgotten() {
    let (_root, mine, _) = two();
    write(&mine, 1);
    seen(&mine);
    age(&mine);
    let other = SessionId::parse("other").unwrap();
    let id = id(1);
    mine
      .put(&other, Item::Checkpoint(None, &id, Encoding::Json), b"{}")
      .unwrap();
    mine.list_for_retention(&other.into(), RetentionScope::All).unwrap();
    assert_eq!(mine.names.sessions().len(), 1);
  }

  #[test]
  fn a_process_that_was_stopped_with_the_lock_stops_nobody() {
    let (root, mine, theirs) = two();
    write(&mine, 1);
    assert_eq!(seen(&mine), [1]);
    let stopped = File::open(root.path().join("s/checkpoints").join(MARK_FILE)).unwrap();
    stopped.lock().unwrap();
    write(&theirs, 2);
    write(&mine, 3);
    assert_eq!((seen(&mine), seen(&theirs)), (vec![1, 2, 3], vec![1, 2, 3]));
    drop(stopped);
    assert_eq!((seen(&mine), seen(&theirs)), (vec![1, 2, 3], vec![1, 2, 3]));
  }

  #[test]
  fn the_holder_of_the_lock_sees_what_was_stored_without_it() {
    let (_root, mine, theirs) = two();
    write(&mine, 1);
    assert_eq!(seen(&mine), [1]);
    let directory = mine.open_directory(&["s", "checkpoints"]).unwrap().unwrap();
    let change = mine.names.change(&session().into(), &directory, |held| {
      assert!(held.was_alone);
      write(&theirs, 2);
      Ok(((), None))
    });
    change.unwrap();
    assert_eq!(seen(&mine), [1, 2]);
    let parent = |number| {
      Precondition::Newest(Newest {
        parent: Parent::Checkpoint(id(number)),
        later: Vec::new(),
      })
    };
    let new = PutOptions {
      precondition: parent(1),
      ..PutOptions::new(Encoding::Json)
    };
    let put = mine.put_checkpoint(&session().into(), &id(3), b"{}", &new).unwrap();
    assert_eq!(put, PutOutcome::Conflict(Some(id(2))));
  }

  #[test]
  fn a_broken_or_missing_mark_means_listing() {
    let (root, mine, theirs) = two();
    write(&mine, 1);
    let mark = root.path().join("s/checkpoints").join(MARK_FILE);
    fs::write(&mark, "somebody wrote into it").unwrap();
    assert_eq!(seen(&mine), [1]);
    fs::remove_file(&mark).unwrap();
    assert_eq!(seen(&mine), [1]);
    fs::remove_file(&mark).unwrap();
    fs::create_dir(&mark).unwrap();
    write(&theirs, 2);
    assert_eq!(seen(&mine), [1, 2]);
  }
}
