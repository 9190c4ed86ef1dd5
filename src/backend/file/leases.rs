//! Leases as files in a directory beside the sessions: a record may outlast its session, or exist before it.
//!
//! Records are read and changed under a lock. Every write holds the same lock from the check of the record to the rename, even
//! if its session has no record, so that no owner can take over in between. A fixed set of lock files serves all sessions: a lock
//! file that is deleted with its session would not exclude other processes. A store in which no lease was ever acquired has no lock files.

use std::io;
use std::path::PathBuf;

use super::disk::{Directory, Disk};
use super::durable::{Temporary, absent_is_fine, sync_names};
use super::{FileBackend, contents, exists, locks};
use crate::backend::lease::{self, Record};
use crate::backend::{Acquired, Claim, Lease};
use crate::types::error::{Code, Error, Result};
use crate::types::id::SessionId;
use crate::types::time::now_ms;

/// The directory of the records. It is not a valid session id.
const LEASES: &str = ".leases";

const EXTENSION: &str = ".json";

const LOCK_FILES: u64 = 64;

/// The limit for the names of owners keeps records far below this.
const MAX_RECORD_BYTES: u64 = 1 << 16;

/// Whether a write may proceed, decided under the lock on the lease of its session.
pub(super) enum Decision<L> {
  /// It may. The lock is still held; `None` on a file system without locks.
  Proceed(Option<L>),
  Stop,
}

type LockOf<D> = <<D as Disk>::Directory as Directory>::Lock;

impl<D: Disk> FileBackend<D> {
  /// Fails early if the lease does not admit writes. Only the check under the lock is decisive.
  pub(super) fn check_lease(&self, session: &SessionId) -> Result<()> {
    let record = match self.open_directory(&[LEASES])? {
      Some(leases) => self.record(&leases, session)?,
      None => None,
    };
    let admitted = lease::admit(record.as_ref(), session, self.fences.of(session), now_ms());
    admitted.inspect_err(|error| self.fences.observe(error)).map(drop)
  }

  /// Locks the lease of a session for the last step of a write. An error if the lease does not admit the write.
  pub(super) fn fence(&self, session: &SessionId) -> Result<Option<LockOf<D>>> {
    let fence = self.fences.of(session);
    let Some(leases) = self.open_directory(&[LEASES])? else {
      lease::admit(None, session, fence, now_ms()).inspect_err(|error| self.fences.observe(error))?;
      return Ok(None);
    };
    let lock = self.try_lock_record(&leases, session)?;
    self.admit_write(&leases, session)?;
    Ok(lock)
  }

  /// Makes every write lock the lease of its session, even if the store never had a lease.
  pub(super) fn make_leases(&self) -> Result<()> {
    self.in_directory(&[LEASES], |_| Ok(()))
  }

  /// Like [`FileBackend::fence`] if `decide` returns true under the lock. Otherwise no lease is checked or ended.
  pub(super) fn fence_if(
    &self,
    session: &SessionId,
    decide: impl FnOnce() -> Result<bool>,
  ) -> Result<Decision<LockOf<D>>> {
    let Some(leases) = self.open_directory(&[LEASES])? else {
      return Ok(Decision::Stop);
    };
    let lock = self.try_lock_record(&leases, session)?;
    if !decide()? {
      return Ok(Decision::Stop);
    }
    self.admit_write(&leases, session)?;
    Ok(Decision::Proceed(lock))
  }

  /// An error if the lease does not admit a write. The caller holds the lock.
  fn admit_write(&self, leases: &D::Directory, session: &SessionId) -> Result<()> {
    let (record, fence) = (self.record(leases, session)?, self.fences.of(session));
    let admitted = lease::admit(record.as_ref(), session, fence, now_ms());
    if let Some(ended) = admitted.inspect_err(|error| self.fences.observe(error))? {
      self.end_lease(leases, session, &ended)?;
    }
    Ok(())
  }

  pub(super) fn acquire_lease(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired> {
    self.change_record(session, |old, now| {
      match Record::acquire(old, claim, now, self.fences.fresh(session)) {
        Ok(record) => {
          let lease = record.lease(now);
          (Some(record), Acquired::Taken(lease))
        }
        Err(held) => (None, Acquired::Held(held)),
      }
    })
  }

  pub(super) fn renew_lease(&self, session: &SessionId, number: u64, ttl_ms: u64) -> Result<Option<Lease>> {
    self.change_record(session, |old, now| {
      let renewed = Record::renew(old, number, ttl_ms, now);
      let lease = renewed.as_ref().map(|record| record.lease(now));
      (renewed, lease)
    })
  }

  pub(super) fn release_lease(&self, session: &SessionId, number: u64) -> Result<bool> {
    let is_released = self.change_record(session, |old, _| {
      let released = Record::release(old, number);
      let is_released = released.is_some();
      (released, is_released)
    })?;
    // The lease is released. A record that is left behind only takes up space.
    let _ = self.forget_record(session);
    Ok(is_released)
  }

  /// Removes the record of a session that does not exist, unless its lease is held or is our own.
  pub(super) fn forget_record(&self, session: &SessionId) -> Result<()> {
    let (Some(base), Some(leases)) = (self.open_directory(&[])?, self.open_directory(&[LEASES])?) else {
      return Ok(());
    };
    let path = self.path_of_record(session);
    let fail = |error| Error::io("delete", &path, error);
    if !exists(&leases, &record_name(session)).map_err(fail)? {
      return Ok(());
    }
    let _lock = self.lock_record(&leases, session)?;
    let stays = |record: Record| record.is_held(now_ms()) || record.is_of(self.fences.of(session));
    if exists(&base, session.as_str()).map_err(fail)? || self.record(&leases, session)?.is_some_and(stays) {
      return Ok(());
    }
    absent_is_fine(leases.remove_file(&record_name(session))).map_err(fail)
  }

  /// The leases in force, sorted by session. Damaged records are skipped: writes to their sessions report them.
  pub(super) fn held_leases(&self) -> Result<Vec<(SessionId, Lease)>> {
    let Some(leases) = self.open_directory(&[LEASES])? else {
      return Ok(Vec::new());
    };
    let now = now_ms();
    let mut held = Vec::new();
    for entry in self.entries(&leases, &[LEASES])? {
      let session = entry
        .name
        .strip_suffix(EXTENSION)
        .and_then(|id| SessionId::parse(id).ok());
      let Some(session) = session else { continue };
      let record = match self.record(&leases, &session) {
        Err(error) if matches!(error.code, Code::Corrupt | Code::TooLarge) => continue,
        record => record?,
      };
      if let Some(record) = record.filter(|record| record.is_held(now)) {
        held.push((session, record.lease(now)));
      }
    }
    held.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(held)
  }

  /// Stores the record that `change` returns, if any, and returns its result.
  fn change_record<T>(
    &self,
    session: &SessionId,
    change: impl Fn(Option<&Record>, u64) -> (Option<Record>, T),
  ) -> Result<T> {
    self.in_directory(&[LEASES], |leases| {
      let _lock = self.lock_record(leases, session)?;
      let (record, result) = change(self.record(leases, session)?.as_ref(), now_ms());
      if let Some(record) = record {
        self.write_record(leases, session, &record)?;
      }
      Ok(result)
    })
  }

  /// The caller holds the lock. If the disk is too full for the new record, the old one is removed: that ends the lease as well,
  /// and lets deletions through that free space.
  fn end_lease(&self, leases: &D::Directory, session: &SessionId, ended: &Record) -> Result<()> {
    let Err(error) = self.write_record(leases, session, ended) else {
      return Ok(());
    };
    absent_is_fine(leases.remove_file(&record_name(session))).map_err(|_| error)?;
    sync_names(leases, &self.path_of_record(session), self.settings.durability)
  }

  /// The caller holds the lock.
  fn write_record(&self, leases: &D::Directory, session: &SessionId, record: &Record) -> Result<()> {
    let (name, path) = (record_name(session), self.path_of_record(session));
    let fail = |error| Error::io("write", &path, error);
    let durability = self.settings.durability;
    let json = serde_json::to_string(record).map_err(|error| fail(error.into()))?;
    let temporary = Temporary::write(leases, &name, &json, durability).map_err(fail)?;
    temporary.persist(&name).map_err(fail)?;
    // An owner must not work with a lease that a power failure can undo.
    sync_names(leases, &path, durability)
  }

  fn lock_record(&self, leases: &D::Directory, session: &SessionId) -> Result<LockOf<D>> {
    self.try_lock_record(leases, session)?.ok_or_else(|| {
      let unsupported = io::ErrorKind::Unsupported.into();
      Error::io("lock", &self.path_of_record(session), unsupported)
    })
  }

  /// `None` if the file system has no locks.
  fn try_lock_record(&self, leases: &D::Directory, session: &SessionId) -> Result<Option<LockOf<D>>> {
    let (name, path) = (lock_name(session), self.path_of_record(session));
    locks::hold(leases, &name, &path, self.settings.timeout)
  }

  fn record(&self, leases: &D::Directory, session: &SessionId) -> Result<Option<Record>> {
    let path = self.path_of_record(session);
    let Some(bytes) = contents(leases, &record_name(session), &path, MAX_RECORD_BYTES)? else {
      return Ok(None);
    };
    let remedy = "Remove the file when no process works on that session";
    let record: Record = serde_json::from_slice(&bytes).map_err(|error| {
      let why = format!("it is not the record of a lease. {remedy}");
      Error::corrupt(&path.to_string_lossy(), why).because(error)
    })?;
    record.checked(&path.to_string_lossy(), remedy).map(Some)
  }

  fn path_of_record(&self, session: &SessionId) -> PathBuf {
    self.base.join(LEASES).join(record_name(session))
  }
}

fn record_name(session: &SessionId) -> String {
  format!("{session}{EXTENSION}")
}

/// The lock file of a session. Every version and every machine computes the same name.
fn lock_name(session: &SessionId) -> String {
  let number = session
    .as_str()
    .bytes()
    .fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
  format!(".lock-{}", number % LOCK_FILES)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_record_is_parsed_as_it_was_written() {
    for owner in ["a", "", "\"quoted\" \\ é \u{1f600}"] {
      for began_at in [None, Some(1_700_000_000_000)] {
        let record = Record {
          number: 1_794_794_464_745,
          owner: owner.to_owned(),
          expires_at: u64::MAX,
          began_at,
        };
        let json = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record);
      }
    }
    for damaged in [
      "",
      "{}",
      "{\"number\":1}",
      "null",
      "{\"number\":-1,\"owner\":\"a\",\"expiresAt\":1}",
    ] {
      assert!(serde_json::from_str::<Record>(damaged).is_err(), "{damaged}");
    }
  }

  #[test]
  fn records_of_every_version_are_parsed_and_written_unchanged() {
    let earlier = r#"{"number":7,"owner":"an \"owner\"","expiresAt":12}"#;
    let record: Record = serde_json::from_str(earlier).unwrap();
    assert_eq!(serde_json::to_string(&record).unwrap(), earlier);
    let current = r#"{"number":7,"owner":"é\\","expiresAt":12,"beganAt":5}"#;
    let record: Record = serde_json::from_str(current).unwrap();
    assert_eq!(serde_json::to_string(&record).unwrap(), current);
    let later = r#"{"host":["x"],"number":7,"owner":"é\\","expiresAt":12,"beganAt":5}"#;
    assert_eq!(serde_json::from_str::<Record>(later).unwrap(), record);
  }
}
