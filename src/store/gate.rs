//! Open, closed, and who is still inside.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Store;
use crate::error::{Code, Error, Result};

#[derive(Debug, Default)]
pub struct Gate {
  state: Mutex<State>,
  /// Told whenever the last operation leaves.
  idle: Condvar,
}

#[derive(Debug, Default)]
struct State {
  phase: Phase,
  inside: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
  #[default]
  New,
  Open,
  Closed,
}

impl Gate {
  pub fn open(&self) {
    self.lock().phase = Phase::Open;
  }

  fn lock(&self) -> MutexGuard<'_, State> {
    // A phase and a counter: there is no half-made change to fear.
    self.state.lock().unwrap_or_else(PoisonError::into_inner)
  }

  fn leave(&self) {
    let mut state = self.lock();
    state.inside -= 1;
    if state.inside == 0 {
      self.idle.notify_all();
    }
  }
}

impl Store {
  /// Begins an operation. The answer keeps `close` waiting until it is dropped.
  pub fn enter(self: &Arc<Self>) -> Result<OpenStore> {
    let mut state = self.gate.lock();
    match state.phase {
      Phase::Open => {
        state.inside += 1;
        Ok(OpenStore {
          store: Arc::clone(self),
        })
      }
      Phase::New => Err(Error::new(
        Code::NotInitialized,
        "CheckpointStore not initialized. Call initialize() first.",
      )),
      Phase::Closed => Err(Error::new(
        Code::Closed,
        "CheckpointStore is closed. Call initialize() to open it again.",
      )),
    }
  }

  /// Lets no new operation in, from now on.
  pub fn begin_close(&self) {
    self.gate.lock().phase = Phase::Closed;
  }

  /// Waits until every operation that was let in has ended.
  pub fn wait_until_idle(&self) {
    let mut state = self.gate.lock();
    while state.inside > 0 {
      state = self.gate.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
  }
}

/// A store that was open when the operation began.
#[derive(Debug)]
pub struct OpenStore {
  store: Arc<Store>,
}

impl Deref for OpenStore {
  type Target = Store;

  fn deref(&self) -> &Store {
    &self.store
  }
}

impl Drop for OpenStore {
  fn drop(&mut self) {
    self.store.gate.leave();
  }
}
