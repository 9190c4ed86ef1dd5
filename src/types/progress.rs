//! Progress and cancellation of long operations. The worker reports and polls, the caller reads and cancels; neither waits for
//! the other.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::types::error::{Code, Error, Result};

/// The operation, or a part of it, that the numbers of a [`Progress`] count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
  Export,
  /// Before an import: the whole file is validated.
  Check,
  Import,
  Copy,
  Convert,
  Prune,
  Verify,
}

impl Phase {
  /// The name in the public API.
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

/// How much of an operation is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
  pub phase: Phase,
  /// Finished items.
  pub done: u64,
  pub total: u64,
  /// Bytes of the finished items.
  pub bytes: u64,
  /// `None` while it is not known.
  pub total_bytes: Option<u64>,
}

/// What the caller and the worker of an operation share.
#[derive(Debug, Default)]
pub struct Control {
  is_stopped: AtomicBool,
  progress: Mutex<Option<Progress>>,
}

impl Control {
  /// Cancels the operation. Changes that were made stay.
  pub fn stop(&self) {
    self.is_stopped.store(true, Ordering::Relaxed);
  }

  /// An error if the operation was cancelled.
  pub fn check(&self) -> Result<()> {
    if self.is_stopped.load(Ordering::Relaxed) {
      return Err(Error::new(Code::Aborted, "The operation was aborted"));
    }
    Ok(())
  }

  pub fn report(&self, progress: Progress) {
    *self.progress.lock() = Some(progress);
  }

  /// The last report; `None` before the first.
  #[must_use]
  pub fn progress(&self) -> Option<Progress> {
    *self.progress.lock()
  }
}

/// Counts the items of an operation and reports each. The number of items may grow while it runs.
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

  /// Adds `items` to the total.
  pub fn expect(&mut self, items: usize) {
    self.progress.total += items as u64;
  }

  /// Replaces an earlier estimate in the total.
  pub fn expect_instead(&mut self, expected: usize, items: usize) {
    self.progress.total = self.progress.total.saturating_sub(expected as u64) + items as u64;
  }

  /// Called before each item: an error if the operation was cancelled.
  pub fn check(&self) -> Result<()> {
    self.control.check()
  }

  /// Reports a finished item of `bytes` bytes.
  pub fn done(&mut self, bytes: u64) {
    self.progress.done += 1;
    self.progress.bytes += bytes;
    self.control.report(self.progress);
  }
}
