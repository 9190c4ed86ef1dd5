//! Finding checkpoints: lists without payloads, and a walk that reads one at a time.

use std::sync::{Arc, Mutex, PoisonError};

use napi::Env;
use napi::bindgen_prelude::{JsObjectValue, JsValue, This, Undefined};
use napi_derive::napi;

use super::arguments::{Arguments, IterationArguments};
use super::call::hop;
use super::engine::{Engine, Value};
use super::promise::{Promise, rejected, settled};
use super::settle::{self, Failure};
use super::store::CheckpointStore;
use super::text::Readable;
use super::turns;
use crate::error::{Error, Result};
use crate::store::{Iteration, OpenStore, Store, StoredCheckpoint};

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
      settle::info_page,
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
  #[must_use]
  pub fn checkpoints(&self, env: &Env, session_id: Value, options: Value) -> CheckpointIterator {
    let arguments = Arguments::new(Engine::new(env)).iteration(session_id, options);
    CheckpointIterator {
      store: Arc::clone(&self.inner),
      walk: Arc::new(Mutex::new(match arguments {
        Ok(arguments) => Walk::NotBegun(arguments),
        Err(error) => Walk::Impossible(error),
      })),
    }
  }
}

/// A walk over checkpoints: see `checkpoints()`.
#[napi]
#[derive(Debug)]
pub struct CheckpointIterator {
  store: Arc<Store>,
  walk: Arc<Mutex<Walk>>,
}

#[derive(Debug)]
enum Walk {
  /// The arguments were wrong: the first step says so.
  Impossible(Error),
  NotBegun(IterationArguments),
  UnderWay(Iteration, IterationArguments),
  Over,
}

#[napi]
impl CheckpointIterator {
  /// The next checkpoint.
  #[napi(ts_return_type = "Promise<IteratorResult<Checkpoint, undefined>>")]
  pub fn next<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    let engine = Engine::new(env);
    let store = match self.store.enter() {
      Ok(store) => store,
      Err(error) => return rejected(engine, error),
    };
    let walk = Arc::clone(&self.walk);
    hop(
      env,
      store,
      Failure::Rejects,
      move |store| {
        let stored = walk.lock().unwrap_or_else(PoisonError::into_inner).step(store)?;
        Ok(stored.map(turns::readable))
      },
      |engine, _, read| {
        let Some(Readable { stored, wide }) = read else {
          return over(engine);
        };
        settle::judge(engine, &stored, stored.spelling)?;
        let mut result = engine.object()?;
        result.set_named_property("done", false)?;
        result.set_named_property("value", settle::parse_checkpoint(engine, &stored, wide)?)?;
        Ok(result.to_unknown())
      },
    )
  }

  /// Ends the walk; `for await` calls it when it is left early.
  #[napi(
    js_name = "return",
    ts_return_type = "Promise<IteratorResult<Checkpoint, undefined>>"
  )]
  pub fn end<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    *self.walk.lock().unwrap_or_else(PoisonError::into_inner) = Walk::Over;
    let engine = Engine::new(env);
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

impl Walk {
  fn step(&mut self, store: &OpenStore) -> Result<Option<StoredCheckpoint>> {
    if let Self::NotBegun(arguments) = self {
      let iteration = store.iterate(&arguments.session, arguments.filter.clone())?;
      *self = Self::UnderWay(iteration, arguments.clone());
    }
    let Self::UnderWay(iteration, arguments) = self else {
      return match std::mem::replace(self, Self::Over) {
        Self::Impossible(error) => Err(error),
        _ => Ok(None),
      };
    };
    loop {
      match store.next_of(iteration) {
        Some(Ok(stored)) => return Ok(Some(stored)),
        Some(Err(_)) if arguments.skip_damaged => {}
        Some(Err(damaged)) => return Err(damaged.error),
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
