//! Lists without payloads, and an iterator that reads one checkpoint at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use napi::Env;
use napi::bindgen_prelude::{JsObjectValue, JsValue, This, Undefined};
use napi_derive::napi;
use parking_lot::{Condvar, Mutex};

use crate::api::convert::arguments::{Arguments, IterationArguments};
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::results::{self, Failure};
use crate::api::convert::text::Readable;
use crate::api::runtime::call::hop;
use crate::api::runtime::event_loop;
use crate::api::runtime::promise::{Promise, rejected, settled};
use crate::api::store::CheckpointStore;
use crate::store::{Iteration, OpenStore, Store, StoredCheckpoint};
use crate::types::error::{Error, Result};

#[napi]
impl CheckpointStore {
  /// The checkpoints of a session, newest first, without their payloads.
  ///
  /// A page ends after `limit` checkpoints. Pass its `cursor` to get the next page; the last page has none. A cursor stays valid
  /// while checkpoints are created and deleted.
  #[napi(
    ts_args_type = "sessionId: string, options?: CheckpointInfoOptions",
    ts_return_type = "Promise<CheckpointInfoList>"
  )]
  pub fn list_checkpoint_info<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    options: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.info_request(session_id, options),
      |store, request| store.list_info(&request),
      results::info_list,
    )
  }

  /// Complete checkpoints, newest first, for `for await`: each is read when the loop reaches it.
  ///
  /// The iterator returns the checkpoints that existed at the first call of `next()`, without those that are deleted meanwhile. A
  /// damaged one rejects, and the next call of `next()` continues after it; with `skipDamaged` it is skipped.
  #[napi(
    ts_args_type = "sessionId: string, options?: CheckpointIterationOptions",
    ts_return_type = "CheckpointIterator"
  )]
  pub fn checkpoints(&self, env: &Env, session_id: Value, options: Value) -> napi::Result<CheckpointIterator> {
    let arguments = Arguments::new(Engine::new(env)?).iteration(session_id, options);
    Ok(CheckpointIterator {
      store: Arc::clone(&self.inner),
      steps: Arc::new(Steps::new(arguments)),
    })
  }
}

/// An asynchronous iterator over checkpoints: see `CheckpointStore.checkpoints()`.
#[napi]
#[derive(Debug)]
pub struct CheckpointIterator {
  store: Arc<Store>,
  steps: Arc<Steps>,
}

#[napi]
impl CheckpointIterator {
  /// The next checkpoint.
  #[napi(ts_return_type = "Promise<IteratorResult<Checkpoint, undefined>>")]
  pub fn next<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    match self.store.enter() {
      Ok(store) => step(env, store, Arc::clone(&self.steps)),
      Err(error) => rejected(Engine::new(env)?, error),
    }
  }

  /// Ends the iteration. `for await` calls it when the loop is left early.
  #[napi(
    js_name = "return",
    ts_return_type = "Promise<IteratorResult<Checkpoint, undefined>>"
  )]
  pub fn end<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.steps.is_over.store(true, Ordering::Relaxed);
    let engine = Engine::new(env)?;
    match over(engine) {
      Ok(result) => settled(engine, Ok(result)),
      Err(error) => rejected(engine, error),
    }
  }

  /// The iterator itself, for `for await`.
  #[napi(well_known_symbol = "asyncIterator", ts_return_type = "this")]
  #[must_use]
  pub fn async_iterator<'env>(&self, this: This<'env>) -> This<'env> {
    this
  }
}

/// One step of an iteration: resolves to an `IteratorResult`.
fn step(env: &Env, store: OpenStore, steps: Arc<Steps>) -> napi::Result<Promise<'_>> {
  let ticket = steps.tickets.fetch_add(1, Ordering::Relaxed);
  hop(
    env,
    store,
    Failure::Rejects,
    move |store| {
      let stored = steps.take(ticket, store)?;
      Ok((steps, stored.map(event_loop::readable)))
    },
    |engine, store, (steps, read)| {
      let Some(Readable { stored, wide }) = read else {
        return over(engine);
      };
      match results::checkpoint(engine, &stored, wide) {
        Ok(checkpoint) => {
          let mut result = engine.object()?;
          result.set_named_property("done", false)?;
          result.set_named_property("value", checkpoint)?;
          Ok(result.to_unknown())
        }
        Err(_) if steps.skips_damaged => Ok(engine.value(step(engine.env(), store, steps)?)?),
        Err(error) => Err(error),
      }
    },
  )
}

/// An iteration whose steps run on worker threads, in the order of the calls.
#[derive(Debug)]
struct Steps {
  skips_damaged: bool,
  is_over: AtomicBool,
  /// The number of steps that were requested.
  tickets: AtomicUsize,
  /// The number of steps that were taken, and the position that they reached.
  state: Mutex<(usize, Position)>,
  taken: Condvar,
}

#[derive(Debug)]
enum Position {
  /// The arguments were invalid. The first step reports the error.
  Invalid(Error),
  NotStarted(IterationArguments),
  Started(Iteration),
  Over,
}

impl Steps {
  fn new(arguments: Result<IterationArguments>) -> Self {
    Self {
      skips_damaged: arguments.as_ref().is_ok_and(|arguments| arguments.skip_damaged),
      is_over: AtomicBool::new(false),
      tickets: AtomicUsize::new(0),
      state: Mutex::new((0, arguments.map_or_else(Position::Invalid, Position::NotStarted))),
      taken: Condvar::new(),
    }
  }

  /// Waits until all earlier steps are taken, and takes the next one.
  fn take(&self, ticket: usize, store: &OpenStore) -> Result<Option<StoredCheckpoint>> {
    let mut state = self.state.lock();
    self.taken.wait_while(&mut state, |(taken, _)| *taken != ticket);
    let (taken, position) = &mut *state;
    *taken += 1;
    if self.is_over.load(Ordering::Relaxed) {
      *position = Position::Over;
    }
    let stored = position.step(store, self.skips_damaged);
    drop(state);
    self.taken.notify_all();
    stored
  }
}

impl Position {
  fn step(&mut self, store: &OpenStore, skips_damaged: bool) -> Result<Option<StoredCheckpoint>> {
    if let Self::NotStarted(arguments) = self {
      *self = Self::Started(store.iterate(&arguments.series, arguments.filter.clone())?);
    }
    let Self::Started(iteration) = self else {
      return match std::mem::replace(self, Self::Over) {
        Self::Invalid(error) => Err(error),
        _ => Ok(None),
      };
    };
    loop {
      match store.next_of(iteration) {
        Some(Ok(stored)) => return Ok(Some(stored)),
        Some(Err(_)) if skips_damaged => {}
        Some(Err(damaged)) => return Err(*damaged.error),
        None => {
          *self = Self::Over;
          return Ok(None);
        }
      }
    }
  }
}

/// The `IteratorResult` after the last checkpoint.
fn over(engine: Engine<'_>) -> Result<Value> {
  let mut result = engine.object()?;
  result.set_named_property("done", true)?;
  result.set_named_property("value", Undefined::default())?;
  Ok(result.to_unknown())
}
