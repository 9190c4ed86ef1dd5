//! Leases in memory, and the writes that they admit.

use parking_lot::MutexGuard;

use super::{MemoryBackend, StoredSessions};
use crate::backend::lease::{self, Record};
use crate::backend::{Acquired, Claim, Lease};
use crate::types::error::Result;
use crate::types::id::SessionId;
use crate::types::time::now_ms;

impl MemoryBackend {
  /// Locks the sessions for a write to one of them. Its lease cannot change while they are locked.
  pub(super) fn lock_for_write(&self, session: &SessionId) -> Result<MutexGuard<'_, StoredSessions>> {
    let sessions = self.sessions.lock();
    self.admit_write(session)?;
    Ok(sessions)
  }

  /// Checks the fencing token before it is known whether there is anything to write. Ends no lease.
  pub(super) fn check_lease(&self, session: &SessionId) -> Result<()> {
    let leases = self.leases.lock();
    let admitted = lease::admit(leases.get(session), session, self.fences.of(session), now_ms());
    admitted.inspect_err(|error| self.fences.observe(error)).map(drop)
  }

  /// Checks the fencing token of a write, and ends an expired lease. The caller holds the lock of the sessions.
  pub(super) fn admit_write(&self, session: &SessionId) -> Result<()> {
    let mut leases = self.leases.lock();
    let admitted = lease::admit(leases.get(session), session, self.fences.of(session), now_ms());
    let ended = admitted.inspect_err(|error| self.fences.observe(error))?;
    if let Some(ended) = ended {
      leases.insert(session.clone(), ended);
    }
    Ok(())
  }

  pub(super) fn acquire_lease(&self, session: &SessionId, claim: Claim<'_>) -> Acquired {
    // No write to the session is in progress when its lease changes owners.
    let _sessions = self.sessions.lock();
    let now = now_ms();
    let mut leases = self.leases.lock();
    match Record::acquire(leases.get(session), claim, now, self.fences.fresh(session)) {
      Ok(record) => {
        let lease = record.lease(now);
        leases.insert(session.clone(), record);
        Acquired::Taken(lease)
      }
      Err(held) => Acquired::Held(held),
    }
  }

  pub(super) fn renew_lease(&self, session: &SessionId, token: u64, ttl_ms: u64) -> Option<Lease> {
    let (mut leases, now) = (self.leases.lock(), now_ms());
    let record = Record::renew(leases.get(session), token, ttl_ms, now)?;
    let lease = record.lease(now);
    leases.insert(session.clone(), record);
    Some(lease)
  }

  pub(super) fn release_lease(&self, session: &SessionId, token: u64) -> bool {
    let mut leases = self.leases.lock();
    let Some(released) = Record::release(leases.get(session), token) else {
      return false;
    };
    leases.insert(session.clone(), released);
    true
  }

  pub(super) fn held_leases(&self) -> Vec<(SessionId, Lease)> {
    let now = now_ms();
    let leases = self.leases.lock();
    let held = leases.iter().filter(|(_, record)| record.is_held(now));
    held
      .map(|(session, record)| (session.clone(), record.lease(now)))
      .collect()
  }
}
