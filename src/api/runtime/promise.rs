//! The one hop: off the JavaScript thread, and back with an answer.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use napi::Env;
use napi::bindgen_prelude::{JsValue, PromiseRaw};

use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::error::to_napi;
use crate::api::runtime::thread_pool::{self, Turn};
use crate::types::error::{Code, Error, Result};

pub type Promise<'env> = PromiseRaw<'env, Value>;

/// A promise, and what settles it from any thread: `settle` turns the outcome into its answer on the JavaScript thread.
pub fn promise<T: Send + 'static>(
  env: &Env,
  settle: impl FnOnce(Engine<'_>, Result<T>) -> napi::Result<Value> + Send + 'static,
) -> napi::Result<(Promise<'_>, impl FnOnce(Result<T>) + Send + 'static)> {
  let (deferred, promise) = env.create_deferred()?;
  let resolve = move |outcome| deferred.resolve(move |env: Env| settle(Engine::new(&env)?, outcome));
  Ok((PromiseRaw::new(env.raw(), promise.raw()), resolve))
}

/// Runs `work` on a blocking thread of the Tokio runtime, and settles the promise from there. A panic in `work` becomes
/// an error like any other.
pub fn off_thread<T: Send + 'static>(
  env: &Env,
  work: impl FnOnce() -> Result<T> + Send + 'static,
  settle: impl FnOnce(Engine<'_>, Result<T>) -> napi::Result<Value> + Send + 'static,
) -> napi::Result<Promise<'_>> {
  off_thread_in(Turn::InOrder, env, work, settle)
}

/// The same, when its turn comes.
pub fn off_thread_in<T: Send + 'static>(
  turn: Turn,
  env: &Env,
  work: impl FnOnce() -> Result<T> + Send + 'static,
  settle: impl FnOnce(Engine<'_>, Result<T>) -> napi::Result<Value> + Send + 'static,
) -> napi::Result<Promise<'_>> {
  let (promise, resolve) = promise(env, settle)?;
  in_turn(turn, work, resolve);
  Ok(promise)
}

/// Runs `work` on a blocking thread when its turn comes, and hands the outcome to `resolve` there.
pub fn in_turn<T: Send + 'static>(
  turn: Turn,
  work: impl FnOnce() -> Result<T> + Send + 'static,
  resolve: impl FnOnce(Result<T>) + Send + 'static,
) {
  thread_pool::run(turn, move || {
    resolve(catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref()))));
  });
}

/// A promise that is settled already: methods never throw.
pub fn settled(engine: Engine<'_>, outcome: napi::Result<Value>) -> napi::Result<Promise<'_>> {
  match outcome {
    Ok(value) => PromiseRaw::resolve(engine.env(), value),
    Err(error) => PromiseRaw::reject(engine.env(), error),
  }
}

pub fn rejected(engine: Engine<'_>, error: Error) -> napi::Result<Promise<'_>> {
  settled(engine, Err(to_napi(engine, error)))
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
  let text = panic
    .downcast_ref::<&str>()
    .copied()
    .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
  Error::new(
    Code::Internal,
    format!("A defect in waymark: {}", text.unwrap_or("no message")),
  )
}
