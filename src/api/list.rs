//! Finding checkpoints: lists without payloads, and a walk that reads one at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use napi::Env;
use napi::bindgen_prelude::{JsObjectValue, JsValue, This, Undefined};
use napi_derive::napi;

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
  /// What there is, newest first, without reading the payloads.
  ///
  /// A page ends after `limit` checkpoints; its `cursor`, passed on, asks for the next one. It stays right while
  /// checkpoints come and go. The last page has none.
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
      results::info_page,
    )
  }

  /// Whole checkpoints, newest first, for `for await`: each is read when it is asked for.
  ///
  /// Shows those that were there when the first was asked for; what is deleted meanwhile is passed over. One that is
  /// damaged rejects, and the walk goes on after it if it is asked to; with `skipDamaged` it is passed over.
  #[napi(
    ts_args_type = "sessionId: string, options?: CheckpointIterationOptions",
    ts_return_type = "CheckpointIterator"
  )]
  pub fn checkpoints(&self, env: &Env, session_id: Value, options: Value) -> napi::Result<CheckpointIterator> {
    let arguments = Arguments::new(Engine::new(env)?).iteration(session_id, options);
    Ok(CheckpointIterator {
      store: Arc::clone(&self.inner),
      walker: Arc::new(Walker::new(arguments)),
    })
  }
}

/// A walk over checkpoints: see `checkpoints()`.
#[napi]
#[derive(Debug)]
pub struct CheckpointIterator {
  store: Arc<Store>,
  walker: Arc<Walker>,
}

#[napi]
impl CheckpointIterator {
  /// The next checkpoint.
  #[napi(ts_return_type = "Promise<IteratorResult<Checkpoint, undefined>>")]
  pub fn next<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    match self.store.enter() {
      Ok(store) => step(env, store, Arc::clone(&self.walker)),
      Err(error) => rejected(Engine::new(env)?, error),
    }
  }

  /// Ends the walk; `for await` calls it when it is left early.
  #[napi(
    js_name = "return",
    ts_return_type = "Promise<IteratorResult<Checkpoint, undefined>>"
  )]
  pub fn end<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.walker.is_over.store(true, Ordering::Relaxed);
    let engine = Engine::new(env)?;
    match over(engine) {
      Ok(result) => settled(engine, Ok(result)),
      Err(error) => rejected(engine, error),
    }
  }

  /// Itself, for `for await`.
  #[napi(well_known_symbol = "asyncIterator", ts_return_type = "this")]
  #[must_use]
  pub fn async_iterator<'env>(&self, this: This<'env>) -> This<'env> {
    this
  }
}

/// One step of a walk, as an iterator answers it.
fn step(env: &Env, store: OpenStore, walker: Arc<Walker>) -> napi::Result<Promise<'_>> {
  let ticket = walker.tickets.fetch_add(1, Ordering::Relaxed);
  hop(
    env,
    store,
    Failure::Rejects,
    move |store| {
      let stored = walker.step(ticket, store)?;
      Ok((walker, stored.map(event_loop::readable)))
    },
    |engine, store, (walker, read)| {
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
        Err(_) if walker.skips_damaged => Ok(engine.value(step(engine.env(), store, walker)?)?),
        Err(error) => Err(error),
      }
    },
  )
}

/// A walk, and the steps that were asked for: each waits for its turn.
#[derive(Debug)]
struct Walker {
  skips_damaged: bool,
  is_over: AtomicBool,
  /// How many steps have been asked for.
  tickets: AtomicUsize,
  /// How many have been done, and how far that went.
  state: Mutex<(usize, Walk)>,
  turn: Condvar,
}

#[derive(Debug)]
enum Walk {
  /// The arguments were wrong: the first step says so.
  Impossible(Error),
  NotBegun(IterationArguments),
  UnderWay(Iteration),
  Over,
}

impl Walker {
  fn new(arguments: Result<IterationArguments>) -> Self {
    Self {
      skips_damaged: arguments.as_ref().is_ok_and(|arguments| arguments.skip_damaged),
      is_over: AtomicBool::new(false),
      tickets: AtomicUsize::new(0),
      state: Mutex::new((0, arguments.map_or_else(Walk::Impossible, Walk::NotBegun))),
      turn: Condvar::new(),
    }
  }

  fn step(&self, ticket: usize, store: &OpenStore) -> Result<Option<StoredCheckpoint>> {
    let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
    let mut state = self
      .turn
      .wait_while(state, |(done, _)| *done != ticket)
      .unwrap_or_else(PoisonError::into_inner);
    state.0 += 1;
    if self.is_over.load(Ordering::Relaxed) {
      state.1 = Walk::Over;
    }
    let stepped = state.1.step(store, self.skips_damaged);
    drop(state);
    self.turn.notify_all();
    stepped
  }
}

impl Walk {
  fn step(&mut self, store: &OpenStore, skips_damaged: bool) -> Result<Option<StoredCheckpoint>> {
    if let Self::NotBegun(arguments) = self {
      *self = Self::UnderWay(store.iterate(&arguments.series, arguments.filter.clone())?);
    }
    let Self::UnderWay(iteration) = self else {
      return match std::mem::replace(self, Self::Over) {
        Self::Impossible(error) => Err(error),
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

/// What an iterator answers when there is no more.
fn over(engine: Engine<'_>) -> Result<Value> {
  let mut result = engine.object()?;
  result.set_named_property("done", true)?;
  result.set_named_property("value", Undefined::default())?;
  Ok(result.to_unknown())
}
