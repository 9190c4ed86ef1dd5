//! Leases of sessions. From acquiring a session until releasing it, a store writes to it with the fencing token of its lease.

use std::collections::HashSet;
use std::{mem, slice};

use super::{Store, Summary};
use crate::backend::{Acquired, BackendExt, Claim, Document, Lease, ReadResult, SessionFilter, conflict_error};
use crate::types::error::{Code, LostLease, Result};
use crate::types::id::SessionId;

/// A write that failed because its store had lost the lease.
#[derive(Debug)]
pub struct LeaseRefusal {
  /// The [`Store::id`] of that store.
  pub store: u64,
  pub lease: LostLease,
  pub message: String,
}

/// How many session documents are read in one call of the backend.
const BATCH: usize = 256;

impl Store {
  /// Acquires the lease of a session, unless another owner holds it.
  pub fn acquire(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired> {
    let acquired = self.backend.acquire(session, claim)?;
    if let Acquired::Taken(lease) = &acquired {
      self.backend.fences().set(session, lease.number);
      // Former owners may have changed what is cached.
      self.forget(session);
    }
    Ok(acquired)
  }

  /// An error if the lease is lost.
  pub fn renew(&self, session: &SessionId, number: u64, ttl_ms: u64) -> Result<Lease> {
    if let Some(lease) = self.backend.renew(session, number, ttl_ms)? {
      return Ok(lease);
    }
    let leases = self.backend.leases()?;
    let current = leases.iter().find(|(leased, _)| leased == session);
    Err(conflict_error(session, Some(number), current.map(|(_, lease)| lease)))
  }

  /// Unique among the stores of the process.
  #[must_use]
  pub fn id(&self) -> u64 {
    self.id
  }

  /// The writes that failed because of a lost lease since the last call.
  pub fn take_lost_leases(&self) -> Vec<LeaseRefusal> {
    let mut refusals = mem::take(&mut *self.lost_elsewhere.lock());
    let own = self.backend.fences().take_lost().into_iter();
    refusals.extend(own.map(|(lease, message)| LeaseRefusal {
      store: self.id,
      lease,
      message,
    }));
    refusals
  }

  /// Reports the lost leases of `other` as those of this store, whose call wrote to both.
  pub fn take_over_lost_leases(&self, other: &Self) {
    let refusals = other.take_lost_leases();
    self.lost_elsewhere.lock().extend(refusals);
  }

  /// Ends a lease; false if it was lost already. From now on this store writes to the session without a fencing token.
  pub fn release(&self, session: &SessionId, number: u64) -> Result<bool> {
    let released = self.backend.release(session, number)?;
    self.backend.fences().remove(session, number);
    Ok(released)
  }

  /// Acquires a session without an owner whose status is one of `statuses`, or, if none are given, one whose status is a running
  /// one. An error of one session is returned only if no other session can be acquired.
  pub fn acquire_next(&self, statuses: &[String], claim: Claim<'_>) -> Result<Option<(SessionId, Lease)>> {
    let owned: HashSet<_> = self.backend.leases()?.into_iter().map(|(session, _)| session).collect();
    let mut free = self.backend.sessions(SessionFilter::Saved)?;
    free.retain(|session| !owned.contains(session));
    let mut first_error = None;
    for batch in free.chunks(BATCH) {
      let is_wanted = self.are_wanted(batch, statuses)?;
      for (session, _) in batch.iter().zip(is_wanted).filter(|(_, is_wanted)| *is_wanted) {
        let lease = match self.acquire(session, claim) {
          Ok(Acquired::Taken(lease)) => lease,
          Ok(Acquired::Held(_)) => continue,
          // Writes to that session report the damaged record.
          Err(error) if matches!(error.code, Code::Corrupt | Code::TooLarge) => continue,
          Err(error) => {
            first_error = first_error.or(Some(error));
            continue;
          }
        };
        // Re-check under the lease: another process may have finished the session.
        let is_wanted = self.are_wanted(slice::from_ref(session), statuses);
        if matches!(is_wanted.as_deref(), Ok([true])) {
          return Ok(Some((session.clone(), lease)));
        }
        self.release(session, lease.number)?;
        is_wanted?;
      }
    }
    first_error.map_or(Ok(None), Err)
  }

  /// Whether the status of each session is wanted. Sessions with unreadable documents are not; a verification reports them.
  fn are_wanted(&self, sessions: &[SessionId], statuses: &[String]) -> Result<Vec<bool>> {
    let limit = self.options.max_read_bytes;
    let documents = self.backend.read_documents(sessions, Document::Session, limit)?;
    let is_wanted = |document: ReadResult| {
      let text = document.ok().flatten().and_then(|bytes| String::from_utf8(bytes).ok());
      let summary = text.as_deref().and_then(Summary::of);
      summary.is_some_and(|summary| {
        if statuses.is_empty() {
          summary.is_running()
        } else {
          statuses.contains(&summary.status)
        }
      })
    };
    Ok(documents.into_iter().map(is_wanted).collect())
  }
}
