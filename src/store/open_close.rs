//! Opening and closing a store, and the operations that are active.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Store;
use crate::types::error::{Code, Error, Result};

#[derive(Debug, Default)]
pub struct Gate {
  state: Mutex<State>,
  /// Held while the backend is opened or closed, so that neither interrupts the other. Locked before `state`.
  transition: Mutex<()>,
}

#[derive(Default)]
struct State {
  phase: Phase,
  /// The number of calls of `close`.
  closings: u64,
  /// The number of active operations.
  active: usize,
  /// Called when the last operation ends.
  waiting: Vec<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for State {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "{:?}, {} active", self.phase, self.active)
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
  fn leave(&self) {
    let mut state = self.state.lock();
    state.active -= 1;
    if state.active == 0 {
      let waiting = mem::take(&mut state.waiting);
      drop(state);
      for ended in waiting {
        ended();
      }
    }
  }
}

impl Store {
  /// Begins to open the store, or to reopen it. If `close` is called before [`Opening::finish`], the store ends up closed.
  pub fn begin_open(self: &Arc<Self>) -> Opening {
    let mut state = self.gate.state.lock();
    state.active += 1;
    Opening {
      closings: state.closings,
      store: OpenStore {
        store: Arc::clone(self),
      },
    }
  }

  /// Begins an operation. `close` waits until the result is dropped.
  pub fn enter(self: &Arc<Self>) -> Result<OpenStore> {
    let mut state = self.gate.state.lock();
    match state.phase {
      Phase::Open => {
        state.active += 1;
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

  /// Rejects new operations from now on, and calls `ended` when the active ones have ended: on this thread, or on that of the last
  /// operation. `ended` must not block; it lets another thread call [`Closing::finish`].
  pub fn close(self: &Arc<Self>, ended: impl FnOnce(Closing) + Send + 'static) {
    let store = Arc::clone(self);
    let closed = move || ended(Closing { store });
    let mut state = self.gate.state.lock();
    state.phase = Phase::Closed;
    state.closings += 1;
    if state.active > 0 {
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

/// An opening that is not finished.
#[derive(Debug)]
pub struct Opening {
  /// The number of calls of `close` before it began.
  closings: u64,
  store: OpenStore,
}

impl Opening {
  pub fn finish(self) -> Result<()> {
    let _transition = self.store.gate.transition.lock();
    self.store.backend.open()?;
    let mut state = self.store.gate.state.lock();
    if state.closings != self.closings {
      drop(state);
      return Err(closed());
    }
    state.phase = Phase::Open;
    Ok(())
  }
}

/// A closing that is not finished. All operations that began before it have ended.
#[derive(Debug)]
pub struct Closing {
  store: Arc<Store>,
}

impl Closing {
  /// Closes the backend, unless the store has been reopened. The backend is closed even if this fails.
  pub fn finish(self) -> Result<()> {
    let gate = &self.store.gate;
    let _transition = gate.transition.lock();
    let is_closed = {
      let state = gate.state.lock();
      state.phase == Phase::Closed && state.active == 0
    };
    // An unfinished opening uses the open backend. A later `close`, which waits for it, closes the backend then.
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
