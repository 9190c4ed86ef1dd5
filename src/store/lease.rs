//! One owner for each session. From when a store has a session until it gives it back, it writes to it under that number.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::{mem, slice};

use super::{Store, Summary};
use crate::backend::{Acquired, BackendExt, Claim, Document, Lease, ReadResult, SessionFilter, refusal};
use crate::types::error::{Code, LostLease, Result};
use crate::types::id::SessionId;

/// A write that was refused because the lease of its store is lost.
#[derive(Debug)]
pub struct LeaseRefusal {
  /// Whose write it was.
  pub store: u64,
  pub lease: LostLease,
  pub message: String,
}

/// How many sessions are looked at together.
const BATCH: usize = 256;

impl Store {
  pub fn acquire(&self, session: &SessionId, claim: Claim<'_>) -> Result<Acquired> {
    let acquired = self.backend.acquire(session, claim)?;
    if let Acquired::Taken(lease) = &acquired {
      self.backend.fences().set(session, lease.number);
      // Others have been at work on it.
      self.forget(session);
    }
    Ok(acquired)
  }

  /// An error if somebody else has taken it.
  pub fn renew(&self, session: &SessionId, number: u64, ttl_ms: u64) -> Result<Lease> {
    if let Some(lease) = self.backend.renew(session, number, ttl_ms)? {
      return Ok(lease);
    }
    let leases = self.backend.leases()?;
    let other = leases.iter().find(|(of, _)| of == session);
    Err(refusal(session, Some(number), other.map(|(_, lease)| lease)))
  }

  /// Tells this store from all others of the process.
  #[must_use]
  pub fn id(&self) -> u64 {
    self.id
  }

  /// The leases under which a write was refused since this was last asked.
  pub fn take_lost_leases(&self) -> Vec<LeaseRefusal> {
    let mut refusals = mem::take(&mut *self.lost_elsewhere.lock().unwrap_or_else(PoisonError::into_inner));
    let own = self.backend.fences().take_lost().into_iter();
    refusals.extend(own.map(|(lease, message)| LeaseRefusal {
      store: self.id,
      lease,
      message,
    }));
    refusals
  }

  /// Takes over what another store has to tell: its writes were part of a call of this one.
  pub fn take_over_lost_leases(&self, other: &Self) {
    let refusals = other.take_lost_leases();
    let mut all = self.lost_elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
    all.extend(refusals);
  }

  /// What is lost already needs no giving back. From now on this store writes to the session like anybody else.
  pub fn release(&self, session: &SessionId, number: u64) -> Result<bool> {
    let released = self.backend.release(session, number)?;
    self.backend.fences().remove(session, number);
    Ok(released)
  }

  /// Takes any session in one of these parts of its life that nobody owns; if none is named, one that somebody worked on. One
  /// that the system refuses keeps nobody from the others, and is the answer if there is none.
  pub fn acquire_next(&self, statuses: &[String], claim: Claim<'_>) -> Result<Option<(SessionId, Lease)>> {
    let owned: HashSet<_> = self.backend.leases()?.into_iter().map(|(session, _)| session).collect();
    let mut free = self.backend.sessions(SessionFilter::Saved)?;
    free.retain(|session| !owned.contains(session));
    let mut refused = None;
    for some in free.chunks(BATCH) {
      let is_wanted = self.are_wanted(some, statuses)?;
      for (session, _) in some.iter().zip(is_wanted).filter(|(_, is_wanted)| *is_wanted) {
        let lease = match self.acquire(session, claim) {
          Ok(Acquired::Taken(lease)) => lease,
          Ok(Acquired::Held(_)) => continue,
          // Whoever writes to it is told what is wrong with its record.
          Err(error) if matches!(error.code, Code::Corrupt | Code::TooLarge) => continue,
          Err(error) => {
            refused = refused.or(Some(error));
            continue;
          }
        };
        // Somebody else may have finished it before it was ours.
        let is_wanted = self.are_wanted(slice::from_ref(session), statuses);
        if matches!(is_wanted.as_deref(), Ok([true])) {
          return Ok(Some((session.clone(), lease)));
        }
        self.release(session, lease.number)?;
        is_wanted?;
      }
    }
    refused.map_or(Ok(None), Err)
  }

  /// One whose document cannot be read is none to work on: a verification reports it.
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
