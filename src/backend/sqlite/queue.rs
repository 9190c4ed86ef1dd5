//! Group commit. Writers queue; one of them leads: it commits all queued operations as one transaction and tells each caller its own
//! outcome. The operations that arrive while the disk syncs form the next transaction.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::error::SqliteError;
use super::writer::{Action, Operation, Writer};
use crate::types::error::{Code, Error, Result};

pub struct WriteQueue {
  /// How long each caller waits for other processes. The time in the queue counts, so that the callers behind one lock wait for it
  /// together and not one after the other.
  timeout: Duration,
  state: Mutex<QueueState>,
  /// Locked by the leader only.
  writer: Mutex<Option<Writer>>,
}

/// Both queues are empty while there is no leader.
#[derive(Default)]
struct QueueState {
  has_leader: bool,
  operations: Vec<QueuedOperation>,
  /// Callers that wait for exclusive use of the writer.
  exclusive: VecDeque<Arc<Waiter>>,
}

struct QueuedOperation {
  action: Action,
  needs_sync: bool,
  queued_at: Instant,
  run: Box<QueuedOperationFn>,
  waiter: Arc<Waiter>,
  is_settled: bool,
}

/// Runs on the thread of the leader.
pub type QueuedOperationFn = dyn FnMut(&Connection) -> Result<bool, SqliteError> + Send;

/// A caller that is blocked until it is woken.
#[derive(Default)]
struct Waiter {
  wakeup: Mutex<Option<Wakeup>>,
  woken: Condvar,
}

enum Wakeup {
  /// The caller becomes the leader.
  Lead,
  /// The operation of the caller has ended.
  Settled(Result<bool>),
}

impl WriteQueue {
  pub fn new(timeout: Duration) -> Self {
    Self {
      timeout,
      state: Mutex::default(),
      writer: Mutex::default(),
    }
  }

  /// Waits until the operation is committed, or has failed. Returns whether there was anything to change.
  pub fn submit(
    &self,
    action: Action,
    needs_sync: bool,
    run: impl FnMut(&Connection) -> Result<bool, SqliteError> + Send + 'static,
  ) -> Result<bool> {
    let (waiter, queued_at) = (Arc::new(Waiter::default()), Instant::now());
    let operation = QueuedOperation {
      action,
      needs_sync,
      queued_at,
      run: Box::new(run),
      waiter: Arc::clone(&waiter),
      is_settled: false,
    };
    let leads = {
      let mut state = self.state.lock();
      state.operations.push(operation);
      !mem::replace(&mut state.has_leader, true)
    };
    if !leads && let Wakeup::Settled(outcome) = waiter.wait() {
      return outcome;
    }
    self.lead(queued_at, |_| ());
    match waiter.wait() {
      Wakeup::Settled(outcome) => outcome,
      Wakeup::Lead => Err(abandoned()),
    }
  }

  /// Waits for exclusive use of the writer, and runs `work` with it on this thread. The writer is `None` if the database is not open.
  pub fn exclusively<T>(&self, work: impl FnOnce(&mut Option<Writer>) -> T) -> T {
    let (waiter, queued_at) = (Arc::new(Waiter::default()), Instant::now());
    let leads = {
      let mut state = self.state.lock();
      if state.has_leader {
        state.exclusive.push_back(Arc::clone(&waiter));
      }
      !mem::replace(&mut state.has_leader, true)
    };
    if !leads {
      waiter.wait();
    }
    self.lead(queued_at, work)
  }

  /// Commits the queued operations, then runs `work` for a caller that has waited since `queued_at`.
  fn lead<T>(&self, queued_at: Instant, work: impl FnOnce(&mut Option<Writer>) -> T) -> T {
    let _leadership = Leadership { queue: self };
    let operations = mem::take(&mut self.state.lock().operations);
    let mut writer = self.writer.lock();
    // They share one transaction, so it waits as long as the last of them may: none fails before its own deadline.
    if let Some(latest) = operations.iter().map(|operation| operation.queued_at).max() {
      if let Some(writer) = writer.as_mut() {
        writer.set_deadline(latest + self.timeout);
      }
      commit(writer.as_mut(), operations);
    }
    if let Some(writer) = writer.as_mut() {
      writer.set_deadline(queued_at + self.timeout);
    }
    let result = work(&mut writer);
    // The outcomes have been delivered: only the leader waits for this.
    if let Some(writer) = writer.as_mut() {
      writer.move_long_log();
    }
    result
  }

  #[cfg(test)]
  pub fn has_leader(&self) -> bool {
    self.state.lock().has_leader
  }

  #[cfg(test)]
  pub fn queued_operations(&self) -> usize {
    self.state.lock().operations.len()
  }
}

impl fmt::Debug for WriteQueue {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.debug_struct("WriteQueue").finish_non_exhaustive()
  }
}

/// Wakes the next leader when it is dropped, after a panic too.
struct Leadership<'a> {
  queue: &'a WriteQueue,
}

impl Drop for Leadership<'_> {
  fn drop(&mut self) {
    let mut state = self.queue.state.lock();
    let next = state.exclusive.pop_front();
    match next
      .as_ref()
      .or(state.operations.first().map(|operation| &operation.waiter))
    {
      Some(waiter) => waiter.wake(Wakeup::Lead),
      None => state.has_leader = false,
    }
  }
}

impl Waiter {
  fn wait(&self) -> Wakeup {
    let mut wakeup = self.wakeup.lock();
    loop {
      match wakeup.take() {
        Some(wakeup) => return wakeup,
        None => self.woken.wait(&mut wakeup),
      }
    }
  }

  fn wake(&self, wakeup: Wakeup) {
    *self.wakeup.lock() = Some(wakeup);
    self.woken.notify_one();
  }
}

impl QueuedOperation {
  fn settle(&mut self, outcome: Result<bool>) {
    self.is_settled = true;
    self.waiter.wake(Wakeup::Settled(outcome));
  }
}

impl Drop for QueuedOperation {
  fn drop(&mut self) {
    // The leader has panicked.
    if !self.is_settled {
      self.settle(Err(abandoned()));
    }
  }
}

fn commit(writer: Option<&mut Writer>, mut queued: Vec<QueuedOperation>) {
  let outcomes = match writer {
    Some(writer) => {
      let operations = queued.iter_mut().map(|operation| Operation {
        action: &operation.action,
        needs_sync: operation.needs_sync,
        run: &mut *operation.run,
      });
      writer.commit(&mut operations.collect::<Vec<_>>())
    }
    None => queued.iter().map(|_| Err(not_open())).collect(),
  };
  for (operation, outcome) in queued.iter_mut().zip(outcomes) {
    operation.settle(outcome);
  }
}

pub fn not_open() -> Error {
  Error::new(
    Code::NotInitialized,
    "The database is not open. Call initialize() first.",
  )
}

fn abandoned() -> Error {
  Error::new(
    Code::Internal,
    "A defect in waymark: a transaction ended without an outcome",
  )
}
