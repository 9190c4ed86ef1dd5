//! One owner for each session. From when a store has a session until it gives it back, it writes to it under that number.

use std::collections::HashSet;

use super::{Store, Summary};
use crate::backend::{Acquired, Claim, Lease, refusal};
use crate::error::Result;
use crate::id::SessionId;

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

  /// What is lost already needs no giving back. From now on this store writes to the session like anybody else.
  pub fn release(&self, session: &SessionId, number: u64) -> Result<bool> {
    let released = self.backend.release(session, number)?;
    self.backend.fences().remove(session, number);
    Ok(released)
  }

  /// Takes any session in one of these parts of its life that nobody owns; if none is named, one that somebody worked on.
  pub fn acquire_next(&self, statuses: &[String], claim: Claim<'_>) -> Result<Option<(SessionId, Lease)>> {
    let owned: HashSet<_> = self.backend.leases()?.into_iter().map(|(session, _)| session).collect();
    for session in self.backend.sessions()? {
      if owned.contains(&session) || !self.is_wanted(&session, statuses) {
        continue;
      }
      if let Acquired::Taken(lease) = self.acquire(&session, claim)? {
        // Somebody else may have finished it before it was ours.
        if self.is_wanted(&session, statuses) {
          return Ok(Some((session, lease)));
        }
        self.release(&session, lease.number)?;
      }
    }
    Ok(None)
  }

  /// One whose document cannot be read is none to work on: a verification reports it.
  fn is_wanted(&self, session: &SessionId, statuses: &[String]) -> bool {
    let document = self.session_document(session).ok().flatten();
    let summary = document.as_deref().and_then(Summary::of);
    summary.is_some_and(|summary| {
      if statuses.is_empty() {
        summary.is_running()
      } else {
        statuses.contains(&summary.status)
      }
    })
  }
}
