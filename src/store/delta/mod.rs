//! Checkpoints as deltas: which base a delta gets, when another base takes its place, and how deltas are read.
//!
//! A base holds a text and the differences that lead from it to its tip, the last of its texts. A delta is the difference from a
//! tip, so reading one takes the delta and its base, however many deltas there are. Differences grow with the distance from the tip.
//! So the tip moves whenever that is worth its bytes, and a base that has become long is replaced by a new one.

use std::sync::Arc;

use uuid::Uuid;

use super::Store;
use crate::backend::{BackendExt, BaseRef, Encoding, Maintenance, PutOptions, PutOutcome, Series};
use crate::codec::delta::{self, Reference, Tip};
use crate::store::write::WriteOutcome;
use crate::types::error::{Error, Result};
use crate::types::fault_injection;
use crate::types::id::CheckpointId;

mod cache;

pub(super) use cache::DeltaCache;

use cache::{CachedBase, DeltaStep, SeriesBases};

/// A text that is being stored as a delta.
struct NewDelta<'a> {
  series: &'a Series,
  id: &'a CheckpointId,
  text: &'a [u8],
  /// The info for lists.
  note: &'a str,
  options: &'a PutOptions<'a>,
}

impl Store {
  /// Stores a text as a delta, if that is possible.
  pub(super) fn write_delta(
    &self,
    series: &Series,
    id: &CheckpointId,
    text: &str,
    note: &str,
    put: &PutOptions<'_>,
  ) -> Result<WriteOutcome> {
    let bases = self.deltas.of(series);
    let new = NewDelta {
      series,
      id,
      text: text.as_bytes(),
      note,
      options: put,
    };
    // A base is deleted with the last delta on it, which may happen before this one is stored.
    for _ in 0..3 {
      let outcome = match self.next_base(series, &bases) {
        Some(base) => self.write_on(&new, &bases, &base)?,
        None => self.write_on_new_base(&new, &bases, None)?,
      };
      if !matches!(outcome, PutOutcome::BaseIsGone) {
        return self.write_outcome(series, id, Encoding::Delta, outcome);
      }
    }
    // A new base is stored together with its delta.
    let outcome = self.write_on_new_base(&new, &bases, bases.next().as_ref())?;
    self.write_outcome(series, id, Encoding::Delta, outcome)
  }

  /// Deletes the bases that an interruption left without deltas, and returns how many bytes they had.
  pub fn delete_unused_bases(&self, series: &Series) -> Result<u64> {
    self.backend.maintain(Maintenance::DeleteUnusedBases(series))
  }

  /// The base of the next delta of a series. In the first call it is the base of the newest stored delta.
  fn next_base(&self, series: &Series, bases: &SeriesBases) -> Option<Arc<CachedBase>> {
    if let Some(base) = bases.next() {
      return Some(base);
    }
    let _growing = bases.lock_growth(self.options.settings.timeout)?;
    // Re-check under the lock.
    if let Some(base) = bases.next() {
      return Some(base);
    }
    if self.deltas.is_first(series) {
      // An unused base that remains only takes up space.
      let _ = self.backend.maintain(Maintenance::DeleteUnusedBases(series));
    }
    let entries = self.backend.checkpoints(series).ok()?;
    let newest = entries.iter().find(|entry| entry.encoding == Encoding::Delta)?;
    let limit = self.options.max_read_bytes;
    let bytes = self
      .backend
      .read(&series.session, series.item_of(newest), limit)
      .ok()??;
    let reference = Reference::of(&bytes)?;
    let tip = self.read_base(series, &reference).ok()??;
    let base = CachedBase::new(reference.key, tip, None, false);
    *bases.next.lock() = Some(Arc::clone(&base));
    self.deltas.evict();
    Some(base)
  }

  /// Stores a text as the difference from the tip of `base`, as its next tip, or on a new base.
  fn write_on(&self, new: &NewDelta<'_>, bases: &SeriesBases, base: &Arc<CachedBase>) -> Result<PutOutcome> {
    let difference = delta::difference(new.text, &base.tip.text);
    let step = base.next_step(difference.len(), new.text.len(), self.options.max_read_bytes);
    if step == DeltaStep::NewBase {
      return self.write_on_new_base(new, bases, Some(base));
    }
    if step == DeltaStep::MoveTip
      && let Some(_growing) = bases.try_lock_growth()
      && bases.is_next(base)
    {
      return self.move_tip(new, bases, base, &difference);
    }
    let reference = base.tip.reference(&base.id, false);
    let base_ref = BaseRef {
      id: &base.id,
      known: base.tip.prefix.bytes,
      added: &[],
      fingerprint: base.fingerprint(),
    };
    let outcome = self.put_delta(new, &reference, base_ref, &difference)?;
    match &outcome {
      PutOutcome::Stored { base: Some(stamp), .. } => base.set_stamp(*stamp),
      PutOutcome::BaseIsGone => bases.forget(base),
      _ => {}
    }
    Ok(outcome)
  }

  /// Appends the difference to the base. The text becomes its tip, and the delta has no difference of its own.
  fn move_tip(
    &self,
    new: &NewDelta<'_>,
    bases: &SeriesBases,
    base: &Arc<CachedBase>,
    difference: &[u8],
  ) -> Result<PutOutcome> {
    let tip = base.tip.next(new.text.to_vec(), difference);
    let reference = tip.reference(&base.id, true);
    // If the write fails, the state of the base is unknown.
    bases.forget(base);
    let base_ref = BaseRef {
      id: &base.id,
      known: base.tip.prefix.bytes,
      added: difference,
      fingerprint: base.fingerprint(),
    };
    let outcome = self.put_delta(new, &reference, base_ref, &[])?;
    if let PutOutcome::Stored { base: stamp, .. } = &outcome {
      *bases.next.lock() = Some(CachedBase::new(base.id.clone(), tip, *stamp, true));
      self.deltas.evict();
    }
    Ok(outcome)
  }

  /// Stores a text as the first one of a new base, unless another call has replaced the `old` base already.
  fn write_on_new_base(
    &self,
    new: &NewDelta<'_>,
    bases: &SeriesBases,
    old: Option<&Arc<CachedBase>>,
  ) -> Result<PutOutcome> {
    // The call that holds the lock may wait for a stopped process. The caller stores the checkpoint whole instead.
    let Some(_growing) = bases.lock_growth(self.options.settings.timeout) else {
      return Ok(PutOutcome::BaseNotLocked);
    };
    let current = bases.next();
    if current.as_ref().map(Arc::as_ptr) != old.map(Arc::as_ptr) && current.is_some() {
      return Ok(PutOutcome::BaseIsGone);
    }
    let (tip, frame) = Tip::first(new.text.to_vec());
    let id = if fault_injection::is_enabled("key-reuse") {
      new.id.clone()
    } else {
      new_base_id()?
    };
    let reference = tip.reference(&id, true);
    let base_ref = BaseRef {
      id: &id,
      known: 0,
      added: &frame,
      fingerprint: None,
    };
    let outcome = self.put_delta(new, &reference, base_ref, &[])?;
    if let PutOutcome::Stored { base: stamp, .. } = &outcome {
      *bases.next.lock() = Some(CachedBase::new(id, tip, *stamp, true));
      self.deltas.evict();
    }
    Ok(outcome)
  }

  fn put_delta(
    &self,
    new: &NewDelta<'_>,
    reference: &Reference,
    base: BaseRef<'_>,
    frame: &[u8],
  ) -> Result<PutOutcome> {
    let content = delta::compose(reference, new.note, frame);
    let options = PutOptions {
      encoding: Encoding::Delta,
      base: Some(base),
      ..new.options.clone()
    };
    self.backend.put_checkpoint(new.series, new.id, &content, &options)
  }

  /// Compares the bases of a series in memory with the stored ones, and drops those that differ. A verification must judge what is
  /// stored.
  pub(super) fn recheck_bases(&self, series: &Series) {
    let Some(bases) = self.deltas.get(series) else {
      return;
    };
    *bases.read.lock() = None;
    if let Some(base) = bases.next()
      && !matches!(
        self.read_base(series, &base.tip.reference(&base.id, false)),
        Ok(Some(_))
      )
    {
      bases.forget(&base);
    }
  }

  /// The text of a delta, from its bytes; `None` if it was deleted concurrently.
  pub(super) fn text_of_delta(
    &self,
    series: &Series,
    id: &CheckpointId,
    bytes: &[u8],
    path: &str,
  ) -> Result<Option<Vec<u8>>> {
    let reference = Reference::of(bytes).ok_or_else(|| Error::corrupt(path, "it does not name its base"))?;
    let bases = self.deltas.of(series);
    let mut cached = [bases.next(), bases.read.lock().clone()].into_iter().flatten();
    let base = if let Some(base) = cached.find(|base| base.is_base_of(&reference)) {
      base
    } else {
      let tip = match self.read_base(series, &reference) {
        Ok(Some(tip)) => tip,
        missing_or_damaged => return self.without_base(series, id, &reference, path, missing_or_damaged.err()),
      };
      let base = CachedBase::new(reference.key.clone(), tip, None, false);
      *bases.read.lock() = Some(Arc::clone(&base));
      self.deltas.evict();
      base
    };
    let text = delta::text(bytes, &reference, &base.tip, self.options.max_read_bytes);
    text.map(Some).map_err(|error| self.frame_error(path, error))
  }

  /// The result for a delta whose base cannot be read: `None` if the delta was deleted with it, else an error.
  fn without_base(
    &self,
    series: &Series,
    id: &CheckpointId,
    reference: &Reference,
    path: &str,
    cause: Option<Error>,
  ) -> Result<Option<Vec<u8>>> {
    let item = series.item(id, Encoding::Delta);
    if self.backend.read(&series.session, item, u64::MAX)?.is_none() {
      return Ok(None);
    }
    let base = self.backend.name_of(&series.session, series.base(&reference.key));
    let cause = cause.unwrap_or_else(|| Error::corrupt(&base, "it is missing"));
    Err(
      Error::new(
        cause.code,
        format!("{path} cannot be read without its base: {}", cause.message),
      )
      .because(cause),
    )
  }

  /// The tip of a base that a delta is based on; `None` if the base is missing.
  fn read_base(&self, series: &Series, reference: &Reference) -> Result<Option<Tip>> {
    let (item, limit) = (series.base(&reference.key), self.options.max_read_bytes);
    let Some(bytes) = self.backend.read(&series.session, item, limit)? else {
      return Ok(None);
    };
    let path = self.backend.name_of(&series.session, item);
    if (bytes.len() as u64) < reference.bytes {
      return Err(Error::corrupt(&path, "it is shorter than it was"));
    }
    let tip = Tip::read(&bytes, reference.bytes, limit).map_err(|error| self.frame_error(&path, error))?;
    if tip.prefix.checksum != reference.checksum {
      return Err(Error::corrupt(
        &path,
        "it is not the base that the delta names: the checksum differs",
      ));
    }
    Ok(Some(tip))
  }
}

/// The id of a new base. It is unique: a base that checkpoints need is never taken for a new one, and only the store that created a
/// base adds to it.
fn new_base_id() -> Result<CheckpointId> {
  CheckpointId::parse(&format!("key-{}", Uuid::new_v4().simple()))
}

#[cfg(test)]
mod tests;
