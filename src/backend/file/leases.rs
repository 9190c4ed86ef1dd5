//! Who owns a session, as files in a directory beside the sessions: they stay when a session goes, and come before it does.
//!
//! Records are read and changed under a lock, and so is the last step of every write, whether its session has a record or not:
//! nobody can take a session over between the look at its record and the rename, not even for the first time. A few lock files
//! serve all sessions, because a lock file that comes and goes with what it guards guards nothing. Where nobody has ever had a
//! lease, there are none.

use std::io;
use std::path::PathBuf;

use super::disk::{Directory, Disk};
use super::durable::{Temporary, absent_is_fine, sync_names};
use super::{FileBackend, contents, exists, locks};
use crate::backend::lease::{self, Record};
use crate::backend::{Acquired, Claim, Lease};
use crate::json::edit::{ObjectWriter, text_literal};
use crate::json::scan::{find, members, text_of};
use crate::types::error::{Code, Error, Result};
use crate::types::id::SessionId;
use crate::types::time::now_ms;

/// Not a name that a session can have.
const LEASES: &str = ".leases";

const ENDING: &str = ".json";

const LOCKS: u64 = 64;

/// A record is short, whatever its owner is called.
const MOST_BYTES: u64 = 1 << 16;

/// What was decided under the lock of a lease, which is held on if the write is to come.
pub(super) enum Decision<L> {
  /// `None` on a file system without locks.
  For(Option<L>),
  Against,
}

type LockOf<D> = <<D as Disk>::Directory as Directory>::Lock;

impl<D: Disk> FileBackend<D> {
  /// Before anything of a session is touched: an error if the one who writes may not. What counts is the look under the lock.
  pub(super) fn check_lease(&self, session: &SessionId) -> Result<()> {
    let record = match self.open_directory(&[LEASES])? {
      Some(leases) => self.record(&leases, session)?,
      None => None,
    };
    let admitted = lease::admit(record.as_ref(), session, self.fences.of(session), now_ms());
    admitted.inspect_err(|error| self.fences.observe(error)).map(drop)
  }

  /// To be held while the last step of a write to a session is done. An error if the one who writes may not.
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

  /// Makes every write take the lock of its session's lease, also where there never was a lease.
  pub(super) fn make_leases(&self) -> Result<()> {
    self.in_directory(&[LEASES], |_| Ok(()))
  }

  /// Like [`FileBackend::fence`], if `decide`, which is called under the lock, says so. What decides against a write ends no
  /// lease.
  pub(super) fn fence_if(
    &self,
    session: &SessionId,
    decide: impl FnOnce() -> Result<bool>,
  ) -> Result<Decision<LockOf<D>>> {
    let Some(leases) = self.open_directory(&[LEASES])? else {
      return Ok(Decision::Against);
    };
    let lock = self.try_lock_record(&leases, session)?;
    if !decide()? {
      return Ok(Decision::Against);
    }
    self.admit_write(&leases, session)?;
    Ok(Decision::For(lock))
  }

  /// Refuses a write that the lease does not admit. The caller holds the lock.
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
    // What was asked for has happened. A record that stays takes up room, and no more.
    let _ = self.forget_record(session);
    Ok(is_released)
  }

  /// Removes the record of a session that is not there, unless somebody holds it, or it is our own.
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

  /// Those that somebody holds, in the order of the sessions. Of one that cannot be read, whoever writes to its session is told.
  pub(super) fn held_leases(&self) -> Result<Vec<(SessionId, Lease)>> {
    let Some(leases) = self.open_directory(&[LEASES])? else {
      return Ok(Vec::new());
    };
    let now = now_ms();
    let mut held = Vec::new();
    for entry in self.entries(&leases, &[LEASES])? {
      let session = entry.name.strip_suffix(ENDING).and_then(|id| SessionId::parse(id).ok());
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

  /// Replaces a record by what `change` makes of it, if that is another, and gives the answer of `change`.
  fn change_record<T>(
    &self,
    session: &SessionId,
    change: impl Fn(Option<&Record>, u64) -> (Option<Record>, T),
  ) -> Result<T> {
    self.in_directory(&[LEASES], |leases| {
      let _lock = self.lock_record(leases, session)?;
      let (record, answer) = change(self.record(leases, session)?.as_ref(), now_ms());
      if let Some(record) = record {
        self.write_record(leases, session, &record)?;
      }
      Ok(answer)
    })
  }

  /// To be called under the lock. Where there is no room for a record, it goes: without one, its owner is refused as well, and
  /// whoever makes room by deleting something is not.
  fn end_lease(&self, leases: &D::Directory, session: &SessionId, ended: &Record) -> Result<()> {
    let Err(error) = self.write_record(leases, session, ended) else {
      return Ok(());
    };
    absent_is_fine(leases.remove_file(&record_name(session))).map_err(|_| error)?;
    sync_names(leases, &self.path_of_record(session), self.settings.durability)
  }

  /// To be called under the lock.
  fn write_record(&self, leases: &D::Directory, session: &SessionId, record: &Record) -> Result<()> {
    let (name, path) = (record_name(session), self.path_of_record(session));
    let fail = |error| Error::io("write", &path, error);
    let durability = self.settings.durability;
    let temporary = Temporary::write(leases, &name, &to_json(record), durability).map_err(fail)?;
    temporary.persist(&name).map_err(fail)?;
    // Nobody works under a lease that a power cut takes back.
    sync_names(leases, &path, durability)
  }

  fn lock_record(&self, leases: &D::Directory, session: &SessionId) -> Result<LockOf<D>> {
    self.try_lock_record(leases, session)?.ok_or_else(|| {
      let unsupported = io::ErrorKind::Unsupported.into();
      Error::io("lock", &self.path_of_record(session), unsupported)
    })
  }

  /// `None` where the file system has no locks.
  fn try_lock_record(&self, leases: &D::Directory, session: &SessionId) -> Result<Option<LockOf<D>>> {
    let (name, path) = (lock_name(session), self.path_of_record(session));
    locks::hold(leases, &name, &path, self.settings.timeout)
  }

  fn record(&self, leases: &D::Directory, session: &SessionId) -> Result<Option<Record>> {
    let path = self.path_of_record(session);
    let Some(bytes) = contents(leases, &record_name(session), &path, MOST_BYTES)? else {
      return Ok(None);
    };
    let record = str::from_utf8(&bytes).ok().and_then(parse);
    let why = "it is not the record of a lease. Remove it when nobody works on that session";
    let record = record.ok_or_else(|| Error::corrupt(&path.to_string_lossy(), why))?;
    let remedy = "Remove the file when no process works on that session";
    record.checked(&path.to_string_lossy(), remedy).map(Some)
  }

  fn path_of_record(&self, session: &SessionId) -> PathBuf {
    self.base.join(LEASES).join(record_name(session))
  }
}

fn record_name(session: &SessionId) -> String {
  format!("{session}{ENDING}")
}

/// The same in every version and on every machine.
fn lock_name(session: &SessionId) -> String {
  let number = session
    .as_str()
    .bytes()
    .fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
  format!(".lock-{}", number % LOCKS)
}

fn to_json(record: &Record) -> String {
  let mut out = ObjectWriter::with_capacity(96);
  out.push("number", &record.number.to_string());
  out.push("owner", &text_literal(&record.owner));
  out.push("expiresAt", &record.expires_at.to_string());
  if let Some(began_at) = record.began_at {
    out.push("beganAt", &began_at.to_string());
  }
  out.finish()
}

fn parse(text: &str) -> Option<Record> {
  let found = members(text).ok()?;
  let number = |name| find(&found, name)?.value.parse().ok();
  Some(Record {
    number: number("number")?,
    owner: text_of(find(&found, "owner")?.value)?.into_owned(),
    expires_at: number("expiresAt")?,
    began_at: number("beganAt"),
  })
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_record_is_read_as_it_was_written() {
    for owner in ["a", "", "\"quoted\" \\ é \u{1f600}"] {
      for began_at in [None, Some(1_700_000_000_000)] {
        let record = Record {
          number: 1_794_794_464_745,
          owner: owner.to_owned(),
          expires_at: u64::MAX,
          began_at,
        };
        assert_eq!(parse(&to_json(&record)), Some(record));
      }
    }
    for text in [
      "",
      "{}",
      "{\"number\":1}",
      "null",
      "{\"number\":-1,\"owner\":\"a\",\"expiresAt\":1}",
    ] {
      assert_eq!(parse(text), None, "{text}");
    }
  }
}
