//! The names of the checkpoints of a series, cached for retention: the cost of a new checkpoint does not grow with their number.
//!
//! Every process that changes these names holds the lock of an empty file beside them, and gives that file a new random time, the
//! mark. A process that finds its own mark there knows that no other process has changed the names since. In every other case, a
//! refused lock included, the directory is listed.
//!
//! Programs that do not set marks, such as `rm`, change the time of the directory. Before a writer changes anything, that time must
//! be the one that the last change of this process left. Times are coarse, so a listing is valid for [`TRUSTED_FOR`] at most. Lists
//! for callers never come from the cache.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use uuid::Uuid;

use super::disk::Directory;
use super::{is_absence, locks};
use crate::backend::{CheckpointEntry, CheckpointPage, Encoding, RetentionScope, Series};
use crate::types::error::{Error, Result};
use crate::types::id::{CheckpointId, SessionId};
use crate::types::session_cache::SessionCache;

pub const MARK_FILE: &str = ".names";

const TRUSTED_FOR: Duration = Duration::from_secs(60);

/// The number of series whose names are cached. Beyond it, their directories are listed.
const CACHED_SERIES: u64 = 1 << 16;

/// The lock is held for microseconds. A process that was stopped while it held it must not stop all others.
pub const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The cached listings.
#[derive(Debug)]
pub struct Names {
  listings: SessionCache<Series, CachedListing>,
}

impl Default for Names {
  fn default() -> Self {
    Self {
      listings: SessionCache::new(CACHED_SERIES),
    }
  }
}

#[derive(Debug)]
struct CachedListing {
  mark: SystemTime,
  /// The time of the directory after the last change of this process.
  directory_time: SystemTime,
  listed_at: Instant,
  /// Oldest first, so that a new one is appended.
  entries: VecDeque<CheckpointEntry>,
}

/// A change of the names.
#[derive(Debug, Clone)]
pub enum Change {
  /// A checkpoint was added.
  Came(CheckpointEntry),
  /// A checkpoint was removed.
  Went(CheckpointId, Encoding),
  /// A checkpoint was pinned or unpinned.
  IsPinned(CheckpointId, bool),
}

/// The state while names are changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Held {
  /// Whether the caller holds the lock.
  pub is_locked: bool,
  /// Why the lock was refused, if it was: another process may be between two steps that must not be interleaved with those of the
  /// caller. `None` on a file system without locks.
  refusal: Option<Refusal>,
  /// Whether no other process has changed the names since this one last did.
  pub was_alone: bool,
  /// The mark before the change.
  mark: Option<SystemTime>,
}

/// Why a lock was refused: an error that can be copied.
#[derive(Debug, Clone, Copy)]
struct Refusal {
  kind: io::ErrorKind,
  code: Option<i32>,
}

impl Held {
  /// An error if the lock was refused: `action` needs it. [`Code::Busy`](crate::types::error::Code) if another process holds it.
  pub fn require(self, action: &str, path: &Path) -> Result<()> {
    match self.refusal {
      None => Ok(()),
      Some(Refusal { code: Some(code), .. }) => Err(Error::io(action, path, io::Error::from_raw_os_error(code))),
      Some(Refusal {
        kind: io::ErrorKind::ResourceBusy,
        ..
      }) => Err(Error::busy(action, path, io::ErrorKind::ResourceBusy.into())),
      Some(Refusal { kind, .. }) => Err(Error::io(action, path, kind.into())),
    }
  }
}

impl Names {
  /// Drops the listing if the directory was changed by a program that sets no marks. Called before a writer changes the directory.
  pub fn look_for_others<D: Directory>(&self, series: &Series, directory: &D) {
    self.listings.update(series, |cached| {
      if let Some(listing) = cached
        && !directory.time().is_ok_and(|time| time == listing.directory_time)
      {
        *cached = None;
      }
    });
  }

  /// Runs `act`, which changes the names in the `directory` of a series, and applies the change that it returns to the listing.
  pub fn change<D: Directory, T>(
    &self,
    series: &Series,
    directory: &D,
    act: impl FnOnce(Held) -> Result<(T, Option<Change>)>,
  ) -> Result<T> {
    self.change_within(LONGEST_WAIT, series, directory, act)
  }

  /// [`Names::change`] with another limit for the wait for the lock.
  pub fn change_within<D: Directory, T>(
    &self,
    timeout: Duration,
    series: &Series,
    directory: &D,
    act: impl FnOnce(Held) -> Result<(T, Option<Change>)>,
  ) -> Result<T> {
    let held = hold(directory, timeout);
    // Whatever the error is, another process may hold the lock.
    let refusal = held.as_ref().err().map(|error| Refusal {
      kind: error.kind(),
      code: error.raw_os_error(),
    });
    let lock = held.ok().flatten();
    let found = lock.as_ref().and_then(|lock| directory.time_of(lock).ok());
    // Set the mark first: if this process dies during the change, the listings of other processes are invalid.
    let mark = lock.as_ref().and_then(|lock| new_mark(directory, lock).ok());
    let was_alone = found.is_some() && self.listings.read(series, |listing| listing.mark) == found;
    let outcome = act(Held {
      is_locked: lock.is_some(),
      refusal,
      was_alone,
      mark: found,
    });
    if lock.is_none() && matches!(outcome, Ok((_, Some(_)))) {
      // The holder of the lock did not see this change. A mark that is not its own makes it list the names again.
      let _ = directory.set_modified(MARK_FILE, random_mark());
    }
    let times = mark.and_then(|mark| Some((mark, directory.time().ok()?)));
    self
      .listings
      .update(series, |cached| match (&mut *cached, times, &outcome) {
        (Some(listing), Some((mark, directory_time)), Ok((_, change))) if found == Some(listing.mark) => {
          listing.mark = mark;
          listing.directory_time = directory_time;
          if let Some(change) = change {
            listing.apply(change.clone());
          }
        }
        _ => *cached = None,
      });
    drop(lock);
    outcome.map(|(answer, _)| answer)
  }

  /// What `ask` returns for the checkpoints of a series, newest first, while names are changed. `list` reads the directory if no valid
  /// listing is cached.
  pub fn newest_first<D: Directory, T>(
    &self,
    series: &Series,
    directory: &D,
    held: Held,
    list: impl FnOnce() -> Result<Vec<CheckpointEntry>>,
    ask: impl Fn(&mut dyn Iterator<Item = &CheckpointEntry>) -> T,
  ) -> Result<T> {
    if let Some(mark) = held.mark
      && let Some(answer) = self.read_valid(series, mark, |listing| ask(&mut listing.entries.iter().rev()))
    {
      return Ok(answer);
    }
    let directory_time = directory.time();
    let entries = list()?;
    let answer = ask(&mut entries.iter());
    if let (Some(mark), Ok(directory_time)) = (held.mark, directory_time) {
      self.remember(series, mark, directory_time, entries);
    }
    Ok(answer)
  }

  /// The delta after a checkpoint, if the names are cached: it probably has the same base.
  pub fn next_delta(&self, series: &Series, id: &CheckpointId) -> Option<CheckpointId> {
    let next = self.listings.read(series, |listing| {
      let mut deltas = listing.entries.iter().filter(|entry| entry.encoding == Encoding::Delta);
      // Usually the oldest checkpoints are deleted, which come first.
      deltas.find(|entry| entry.id == *id)?;
      deltas.next().map(|entry| entry.id.clone())
    });
    next.flatten()
  }

  /// The newest checkpoint, and those in scope. `list` reads the directory if no valid listing is cached. `show` gets the newest
  /// while the lock is held; what it returns becomes a warning.
  pub fn list_for_retention<D: Directory>(
    &self,
    series: &Series,
    directory: &D,
    scope: RetentionScope,
    list: impl FnOnce() -> Result<Vec<CheckpointEntry>>,
    show: impl FnOnce(&CheckpointEntry) -> Option<String>,
  ) -> Result<CheckpointPage> {
    let held = hold(directory, LONGEST_WAIT);
    // If another process holds the lock, it may be deleting the newest.
    let show = |newest: &CheckpointEntry| if held.is_ok() { show(newest) } else { None };
    let lock = held.as_ref().ok().and_then(Option::as_ref);
    let mark = lock.and_then(|lock| directory.time_of(lock).ok());
    let in_scope = |listing: &CachedListing| CheckpointPage::in_scope(listing.entries.iter().rev(), scope);
    if let Some(mut page) = mark.and_then(|mark| self.read_valid(series, mark, in_scope)) {
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

  /// What `read` returns for the listing of a series, if it is valid under that mark.
  fn read_valid<T>(&self, series: &Series, mark: SystemTime, read: impl FnOnce(&CachedListing) -> T) -> Option<T> {
    let read_valid = |listing: &CachedListing| (listing.mark == mark && listing.is_fresh()).then(|| read(listing));
    self.listings.read(series, read_valid).flatten()
  }

  /// Caches `entries`, newest first, which were listed under that mark.
  fn remember(&self, series: &Series, mark: SystemTime, directory_time: SystemTime, entries: Vec<CheckpointEntry>) {
    self.listings.retain(|_, listing| listing.is_fresh());
    let listing = CachedListing {
      mark,
      directory_time,
      listed_at: Instant::now(),
      entries: entries.into_iter().rev().collect(),
    };
    self.listings.update(series, |cached| *cached = Some(listing));
  }

  /// Drops the listings of a session.
  pub fn forget(&self, session: &SessionId) {
    self.listings.forget(session);
  }
}

impl CachedListing {
  fn is_fresh(&self) -> bool {
    self.listed_at.elapsed() < TRUSTED_FOR
  }

  fn apply(&mut self, change: Change) {
    match change {
      Change::Came(entry) => {
        if let Err(at) = self.entries.binary_search_by(|known| entry.newest_first(known)) {
          self.entries.insert(at, entry);
        }
      }
      // Usually the oldest checkpoints are deleted, which come first.
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
  // The times of some file systems begin in 1980, and those of others end in 2038.
  const SECONDS_FROM_1980_TO_2037: u64 = 1_798_761_600;
  let (random, more) = Uuid::new_v4().as_u64_pair();
  let seconds = SECONDS_TO_1980 + random % SECONDS_FROM_1980_TO_2037;
  let nanoseconds = u32::try_from(more % 1_000_000_000).unwrap_or(0);
  SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds)
}

/// Sets a new mark and reads it back, because some file systems round times.
fn new_mark<D: Directory>(directory: &D, lock: &D::Lock) -> io::Result<SystemTime> {
  let mark = random_mark();
  directory.set_time(lock, mark)?;
  let kept = directory.time_of(lock)?;
  let lost = mark.duration_since(kept).unwrap_or_else(|error| error.duration());
  if lost > Duration::from_secs(2) {
    return Err(io::Error::other(
      "the file system does not store the times that were set",
    ));
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

/// Runs `act` under the lock, if it can be acquired, so that it sees no half-done change of names. `act` gets whether the lock is
/// held.
pub fn with_lock<D: Directory, T>(directory: &D, act: impl FnOnce(bool) -> T) -> T {
  let lock = lock(directory);
  act(lock.is_some())
}

/// Lists names that are not changed meanwhile: a list during a conversion may contain neither the old name nor the new one. A change
/// of names begins with a new mark, so it suffices to hold the lock for reading the mark before and after the list. Where the lock
/// cannot be acquired, a second list is merged with the first.
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

/// The lock of the mark; `None` if it cannot be acquired, for whatever reason.
fn lock<D: Directory>(directory: &D) -> Option<D::Lock> {
  wait(directory, LONGEST_WAIT).ok().flatten()
}

/// The lock of the mark; `None` if another process holds it for longer than `timeout`, an error if there are no locks.
fn wait<D: Directory>(directory: &D, timeout: Duration) -> io::Result<Option<D::Lock>> {
  locks::wait(directory, MARK_FILE, timeout)
}

#[cfg(test)]
mod tests;
