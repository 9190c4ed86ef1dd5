//! Who writes when. Writers queue; one of them leads: it takes all that waits, commits it as one transaction, and tells
//! each its own outcome. While the disk syncs, the next ones gather. So one sync serves a burst.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::failure::Failure;
use super::writer::{Label, Operation, Writer};
use crate::types::error::{Code, Error, Result};

pub struct Queue {
  /// How long each caller waits for other processes. The time in the queue counts, so that many callers behind one lock do
  /// not wait for it one after the other.
  timeout: Duration,
  state: Mutex<State>,
  /// Nobody but the leader touches it.
  writer: Mutex<Option<Writer>>,
}

/// While nobody leads, nobody waits.
#[derive(Default)]
struct State {
  is_led: bool,
  operations: Vec<Pending>,
  /// Those who want the writer to themselves.
  others: VecDeque<Arc<Ticket>>,
}

/// An operation on its way to whoever leads.
struct Pending {
  label: Label,
  must_last: bool,
  began: Instant,
  run: Box<AnywhereRun>,
  ticket: Arc<Ticket>,
  is_settled: bool,
}

/// It may run on the thread of another caller.
pub type AnywhereRun = dyn FnMut(&Connection) -> Result<bool, Failure> + Send;

/// What somebody who waits is called with.
#[derive(Default)]
struct Ticket {
  call: Mutex<Option<Call>>,
  called: Condvar,
}

enum Call {
  /// It is its turn to lead.
  Lead,
  Settled(Result<bool>),
}

impl Queue {
  pub fn new(timeout: Duration) -> Self {
    Self {
      timeout,
      state: Mutex::default(),
      writer: Mutex::default(),
    }
  }

  /// Waits until the operation is part of a transaction that is committed, or until it has failed.
  pub fn submit(
    &self,
    label: Label,
    must_last: bool,
    run: impl FnMut(&Connection) -> Result<bool, Failure> + Send + 'static,
  ) -> Result<bool> {
    let (ticket, began) = (Arc::new(Ticket::default()), Instant::now());
    let pending = Pending {
      label,
      must_last,
      began,
      run: Box::new(run),
      ticket: Arc::clone(&ticket),
      is_settled: false,
    };
    let leads = {
      let mut state = lock(&self.state);
      state.operations.push(pending);
      !mem::replace(&mut state.is_led, true)
    };
    if !leads && let Call::Settled(outcome) = ticket.wait() {
      return outcome;
    }
    self.lead(began, |_| ());
    match ticket.wait() {
      Call::Settled(outcome) => outcome,
      Call::Lead => Err(abandoned()),
    }
  }

  /// Waits for its turn, and has the writer to itself until `work` is done; there is none before it is opened.
  pub fn exclusively<T>(&self, work: impl FnOnce(&mut Option<Writer>) -> T) -> T {
    let (ticket, began) = (Arc::new(Ticket::default()), Instant::now());
    let leads = {
      let mut state = lock(&self.state);
      if state.is_led {
        state.others.push_back(Arc::clone(&ticket));
      }
      !mem::replace(&mut state.is_led, true)
    };
    if !leads {
      ticket.wait();
    }
    self.lead(began, work)
  }

  /// Commits what waits, then does `work` for a caller that has waited since `began`.
  fn lead<T>(&self, began: Instant, work: impl FnOnce(&mut Option<Writer>) -> T) -> T {
    let _turn = Turn { queue: self };
    let operations = mem::take(&mut lock(&self.state).operations);
    let mut writer = lock(&self.writer);
    // One transaction for all: none of them fails before its own time is over.
    if let Some(latest) = operations.iter().map(|pending| pending.began).max() {
      if let Some(writer) = writer.as_mut() {
        writer.wait_until(latest + self.timeout);
      }
      commit(writer.as_mut(), operations);
    }
    if let Some(writer) = writer.as_mut() {
      writer.wait_until(began + self.timeout);
    }
    let answer = work(&mut writer);
    // Nobody but the leader waits for this.
    if let Some(writer) = writer.as_mut() {
      writer.move_long_log();
    }
    answer
  }

  #[cfg(test)]
  pub fn is_led(&self) -> bool {
    lock(&self.state).is_led
  }

  #[cfg(test)]
  pub fn waiting(&self) -> usize {
    lock(&self.state).operations.len()
  }
}

impl fmt::Debug for Queue {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.debug_struct("Queue").finish_non_exhaustive()
  }
}

/// Ends when it is dropped, even by a panic: then the next one leads.
struct Turn<'a> {
  queue: &'a Queue,
}

impl Drop for Turn<'_> {
  fn drop(&mut self) {
    let mut state = lock(&self.queue.state);
    let next = state.others.pop_front();
    match next
      .as_ref()
      .or(state.operations.first().map(|pending| &pending.ticket))
    {
      Some(ticket) => ticket.call(Call::Lead),
      None => state.is_led = false,
    }
  }
}

impl Ticket {
  fn wait(&self) -> Call {
    let mut call = lock(&self.call);
    loop {
      match call.take() {
        Some(call) => return call,
        None => call = self.called.wait(call).unwrap_or_else(PoisonError::into_inner),
      }
    }
  }

  fn call(&self, call: Call) {
    *lock(&self.call) = Some(call);
    self.called.notify_one();
  }
}

impl Pending {
  fn settle(&mut self, outcome: Result<bool>) {
    self.is_settled = true;
    self.ticket.call(Call::Settled(outcome));
  }
}

impl Drop for Pending {
  fn drop(&mut self) {
    // Whoever led has panicked.
    if !self.is_settled {
      self.settle(Err(abandoned()));
    }
  }
}

fn commit(writer: Option<&mut Writer>, mut operations: Vec<Pending>) {
  let outcomes = match writer {
    Some(writer) => {
      let parts = operations.iter_mut().map(|pending| Operation {
        label: &pending.label,
        must_last: pending.must_last,
        run: &mut *pending.run,
      });
      writer.commit(&mut parts.collect::<Vec<_>>())
    }
    None => operations.iter().map(|_| Err(not_open())).collect(),
  };
  for (pending, outcome) in operations.iter_mut().zip(outcomes) {
    pending.settle(outcome);
  }
}

pub fn not_open() -> Error {
  Error::new(
    Code::NotInitialized,
    "The database is not open. Call initialize() first.",
  )
}

fn abandoned() -> Error {
  Error::new(Code::Internal, "A defect in waymark: a transaction was abandoned")
}

/// A panic leaves nothing half changed: the writer rolls back what it finds open.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
  mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
