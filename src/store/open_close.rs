//! Open, closed, and who is still inside.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Store;
use crate::types::error::{Code, Error, Result};

#[derive(Debug, Default)]
pub struct Gate {
  state: Mutex<State>,
  /// Held while the backend is opened or closed, so that neither happens in the middle of the other. Taken before `state`.
  transition: Mutex<()>,
}

#[derive(Default)]
struct State {
  phase: Phase,
  /// How often it was closed.
  closings: u64,
  inside: usize,
  /// Told when the last operation leaves.
  waiting: Vec<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for State {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "{:?}, {} inside", self.phase, self.inside)
  }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
  #[default]
  New,
  Open,
  Closed,
}

impl Gate {
  fn lock(&self) -> MutexGuard<'_, State> {
    // A phase and a counter: there is no half-made change to fear.
    self.state.lock().unwrap_or_else(PoisonError::into_inner)
  }

  fn lock_transition(&self) -> MutexGuard<'_, ()> {
    self.transition.lock().unwrap_or_else(PoisonError::into_inner)
  }

  fn leave(&self) {
    let mut state = self.lock();
    state.inside -= 1;
    if state.inside == 0 {
      let waiting = std::mem::take(&mut state.waiting);
      drop(state);
      for tell in waiting {
        tell();
      }
    }
  }
}

impl Store {
  /// Begins to open the store; again, if it was closed. A `close` that comes before it is finished has the last word.
  pub fn begin_open(self: &Arc<Self>) -> Opening {
    let mut state = self.gate.lock();
    state.inside += 1;
    Opening {
      closings: state.closings,
      inside: OpenStore {
        store: Arc::clone(self),
      },
    }
  }

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
      Phase::Closed => Err(closed()),
    }
  }

  /// Lets no new operation in from now on, and calls `ended` when those inside have ended: on this thread, or on that of the
  /// last operation. Neither may block, so [`Closing::finish`] is to be called elsewhere.
  pub fn close(self: &Arc<Self>, ended: impl FnOnce(Closing) + Send + 'static) {
    let store = Arc::clone(self);
    let closed = move || ended(Closing { store });
    let mut state = self.gate.lock();
    state.phase = Phase::Closed;
    state.closings += 1;
    if state.inside > 0 {
      state.waiting.push(Box::new(closed));
    } else {
      drop(state);
      closed();
    }
  }
}

fn closed() -> Error {
  Error::new(
    Code::Closed,
    "CheckpointStore is closed. Call initialize() to open it again.",
  )
}

/// An opening under way.
#[derive(Debug)]
pub struct Opening {
  /// How often the store had been closed when it began.
  closings: u64,
  inside: OpenStore,
}

impl Opening {
  pub fn finish(self) -> Result<()> {
    let _transition = self.inside.gate.lock_transition();
    self.inside.backend.open()?;
    let mut state = self.inside.gate.lock();
    if state.closings != self.closings {
      drop(state);
      return Err(closed());
    }
    state.phase = Phase::Open;
    Ok(())
  }
}

/// A closing under way: no operation that was admitted before it is left.
#[derive(Debug)]
pub struct Closing {
  store: Arc<Store>,
}

impl Closing {
  /// Closes the backend, unless the store has been opened again meanwhile. It is closed even if the answer is an error.
  pub fn finish(self) -> Result<()> {
    let gate = &self.store.gate;
    let _transition = gate.lock_transition();
    let is_closed = {
      let state = gate.lock();
      state.phase == Phase::Closed && state.inside == 0
    };
    // An opening that is under way uses what is open. A later `close` that waits for operations closes it afterwards.
    if is_closed { self.store.backend.close() } else { Ok(()) }
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
