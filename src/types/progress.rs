//! How long work is watched and stopped from outside: whoever works says how far it is and asks whether to go on, and
//! whoever started it looks and tells. Neither waits for the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::types::error::{Code, Error, Result};

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
  Export,
  /// Before an import: all of the file is looked at.
  Check,
  Import,
  Copy,
  Convert,
  Prune,
  Verify,
}

impl Phase {
  /// As callers know it.
  #[must_use]
  pub fn name(self) -> &'static str {
    match self {
      Self::Export => "export",
      Self::Check => "check",
      Self::Import => "import",
      Self::Copy => "copy",
      Self::Convert => "convert",
      Self::Prune => "prune",
      Self::Verify => "verify",
    }
  }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
  pub phase: Phase,
  /// Items that are done, of how many.
  pub done: u64,
  pub total: u64,
  /// Their bytes, of how many, if that is known.
  pub bytes: u64,
  pub total_bytes: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Control {
  is_stopped: AtomicBool,
  progress: Mutex<Option<Progress>>,
}

impl Control {
  /// Asks the work to end. What is decided already stays.
  pub fn stop(&self) {
    self.is_stopped.store(true, Ordering::Relaxed);
  }

  /// Whether to go on: an error if somebody stopped it.
  pub fn check(&self) -> Result<()> {
    if self.is_stopped.load(Ordering::Relaxed) {
      return Err(Error::new(Code::Aborted, "The operation was aborted"));
    }
    Ok(())
  }

  pub fn report(&self, progress: Progress) {
    *self.lock() = Some(progress);
  }

  /// What was reported last; `None` before anything was.
  #[must_use]
  pub fn progress(&self) -> Option<Progress> {
    *self.lock()
  }

  fn lock(&self) -> MutexGuard<'_, Option<Progress>> {
    // Only whole values are put there.
    self.progress.lock().unwrap_or_else(PoisonError::into_inner)
  }
}

/// Work that goes from item to item, of which more may turn up on the way.
#[derive(Debug)]
pub struct Meter<'a> {
  control: &'a Control,
  progress: Progress,
}

impl<'a> Meter<'a> {
  #[must_use]
  pub fn new(control: &'a Control, phase: Phase) -> Self {
    Self {
      control,
      progress: Progress {
        phase,
        done: 0,
        total: 0,
        bytes: 0,
        total_bytes: None,
      },
    }
  }

  /// So many more are to be done.
  pub fn expect(&mut self, items: usize) {
    self.progress.total += items as u64;
  }

  /// It is known better: not so many, but so many.
  pub fn expect_instead(&mut self, expected: usize, items: usize) {
    self.progress.total = self.progress.total.saturating_sub(expected as u64) + items as u64;
  }

  /// Before the next one: an error if somebody stopped it.
  pub fn check(&self) -> Result<()> {
    self.control.check()
  }

  /// One more is done, of so many bytes.
  pub fn done(&mut self, bytes: u64) {
    self.progress.done += 1;
    self.progress.bytes += bytes;
    self.control.report(self.progress);
  }
}
