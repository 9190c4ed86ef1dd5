//! The bases of deltas that are in memory, and the decision when a base grows or is replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::backend::{BaseFingerprint, FileStamp, Series};
use crate::codec::delta::{Reference, Tip, max_work};
use crate::types::id::{CheckpointId, SessionId};
use crate::types::session_cache::SessionCache;

/// The tip moves when the differences from it take up this many times the bytes of the last of them.
const WORTH_MOVING: u64 = 2;

/// How many texts a base may have: damage to it costs all deltas that are based on it.
pub(super) const MAX_TEXTS: usize = 128;

/// How many series are remembered as cleaned.
const CLEANED_SERIES: u64 = 1 << 16;

/// A base whose tip is in memory.
#[derive(Debug)]
pub(super) struct CachedBase {
  pub id: CheckpointId,
  pub tip: Tip,
  /// The bytes of the differences from this tip.
  since_tip: AtomicU64,
  /// The state of the base when something was last stored on it.
  stamp: Mutex<Option<FileStamp>>,
  /// Whether this store created the base: no other store may add to it.
  is_own: bool,
}

/// How a text is stored whose difference from the tip is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DeltaStep {
  /// As a delta from the tip.
  Store,
  /// As the next tip of the base.
  MoveTip,
  /// As the first text of a new base.
  NewBase,
}

impl CachedBase {
  pub fn new(id: CheckpointId, tip: Tip, stamp: Option<FileStamp>, is_own: bool) -> Arc<Self> {
    Arc::new(Self {
      id,
      tip,
      since_tip: AtomicU64::new(0),
      stamp: Mutex::new(stamp),
      is_own,
    })
  }

  pub fn fingerprint(&self) -> Option<BaseFingerprint> {
    let checksum = self.tip.prefix.checksum;
    self.stamp.lock().map(|stamp| BaseFingerprint { stamp, checksum })
  }

  /// Of concurrent stamps, the one with the greatest size is the latest: bases only grow.
  pub fn set_stamp(&self, stamp: FileStamp) {
    let mut latest = self.stamp.lock();
    if latest.is_none_or(|latest| latest.size <= stamp.size) {
      *latest = Some(stamp);
    }
  }

  /// Whether the delta with that reference is based on this tip.
  pub fn is_base_of(&self, reference: &Reference) -> bool {
    self.id == reference.key && self.tip.is_base_of(reference)
  }

  /// Decides for a difference of `difference` bytes, of a text of `length` bytes. Nothing of more than `limit` bytes is read.
  pub fn next_step(&self, difference: usize, length: usize, limit: u64) -> DeltaStep {
    let (difference, work) = (difference as u64, length as u64);
    let since_tip = self.since_tip.fetch_add(difference, Ordering::Relaxed) + difference;
    let whole = self.tip.whole_size(length);
    let may_move = self.is_own
      && self.tip.prefix.texts < MAX_TEXTS
      && self.tip.prefix.bytes + difference <= limit
      && self.tip.prefix.work + work <= max_work(work);
    if difference.saturating_mul(2) > whole || (!may_move && since_tip > whole) {
      DeltaStep::NewBase
    } else if may_move && since_tip >= difference.saturating_mul(WORTH_MOVING) {
      DeltaStep::MoveTip
    } else {
      DeltaStep::Store
    }
  }
}

/// The bases of one series that are in memory.
#[derive(Debug, Default)]
pub(super) struct SeriesBases {
  /// The base of the next delta.
  pub next: Mutex<Option<Arc<CachedBase>>>,
  /// The base of the delta that was read last, if it is another one.
  pub read: Mutex<Option<Arc<CachedBase>>>,
  /// Held while a base is created or its tip is moved.
  growing: Mutex<()>,
}

impl SeriesBases {
  pub fn next(&self) -> Option<Arc<CachedBase>> {
    self.next.lock().clone()
  }

  /// Whether `base` is still that of the next delta.
  pub fn is_next(&self, base: &Arc<CachedBase>) -> bool {
    self.next.lock().as_ref().is_some_and(|next| Arc::ptr_eq(next, base))
  }

  /// Drops `base` if it is still that of the next delta.
  pub fn forget(&self, base: &Arc<CachedBase>) {
    let mut next = self.next.lock();
    if next.as_ref().is_some_and(|next| Arc::ptr_eq(next, base)) {
      *next = None;
    }
  }

  /// Waits until no other call creates a base or moves its tip; `None` if that takes longer than `timeout`. The lock is held while
  /// the backend works.
  pub fn lock_growth(&self, timeout: Duration) -> Option<MutexGuard<'_, ()>> {
    self.growing.try_lock_for(timeout)
  }

  /// [`SeriesBases::lock_growth`] without waiting.
  pub fn try_lock_growth(&self) -> Option<MutexGuard<'_, ()>> {
    self.growing.try_lock()
  }

  /// The bytes of the texts.
  pub fn bytes(&self) -> u64 {
    let of = |base: &Mutex<Option<Arc<CachedBase>>>| base.lock().as_ref().map_or(0, |base| base.tip.text.len() as u64);
    of(&self.next) + of(&self.read)
  }
}

/// The bases that are in memory, up to a limit of bytes for all series.
#[derive(Debug)]
pub(in crate::store) struct DeltaCache {
  bases: SessionCache<Series, Arc<SeriesBases>>,
  /// Series whose unused bases were deleted. Losing an entry costs another search.
  cleaned: SessionCache<Series, ()>,
}

impl DeltaCache {
  pub fn new(limit: u64) -> Self {
    Self {
      bases: SessionCache::weighted(limit, |bases| bases.bytes()),
      cleaned: SessionCache::new(CLEANED_SERIES),
    }
  }

  /// The bases of a series, to be added to.
  pub(super) fn of(&self, series: &Series) -> Arc<SeriesBases> {
    self.bases.get_or_default(series)
  }

  /// The bases of a series, if there are any.
  pub(super) fn get(&self, series: &Series) -> Option<Arc<SeriesBases>> {
    self.bases.get(series)
  }

  /// Keeps the limit after a base was added.
  pub(super) fn evict(&self) {
    self.bases.evict();
  }

  pub fn forget(&self, session: &SessionId) {
    self.bases.forget(session);
    self.cleaned.forget(session);
  }

  /// Whether this is the first call for a series.
  pub(super) fn is_first(&self, series: &Series) -> bool {
    self.cleaned.update(series, |cleaned| cleaned.replace(()).is_none())
  }
}
