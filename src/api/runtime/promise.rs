//! One hop: to a worker thread, and back with an outcome.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use napi::Env;
use napi::bindgen_prelude::{JsValue, PromiseRaw};

use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::error::to_napi;
use crate::api::runtime::thread_pool::{self, Priority};
use crate::types::error::{Code, Error, Result};

pub type Promise<'env> = PromiseRaw<'env, Value>;

/// A promise, and the function that settles it from any thread: `settle` converts the outcome on the event loop.
pub fn promise<T: Send + 'static>(
  env: &Env,
  settle: impl FnOnce(Engine<'_>, Result<T>) -> napi::Result<Value> + Send + 'static,
) -> napi::Result<(Promise<'_>, impl FnOnce(Result<T>) + Send + 'static)> {
  let (deferred, promise) = env.create_deferred()?;
  let resolve = move |outcome| deferred.resolve(move |env: Env| settle(Engine::new(&env)?, outcome));
  Ok((PromiseRaw::new(env.raw(), promise.raw()), resolve))
}

/// Runs `work` on a worker thread, and settles the promise from there. A panic in `work` becomes an error.
pub fn off_thread<T: Send + 'static>(
  env: &Env,
  work: impl FnOnce() -> Result<T> + Send + 'static,
  settle: impl FnOnce(Engine<'_>, Result<T>) -> napi::Result<Value> + Send + 'static,
) -> napi::Result<Promise<'_>> {
  off_thread_with(Priority::Normal, env, work, settle)
}

/// [`off_thread`] with a priority.
pub fn off_thread_with<T: Send + 'static>(
  priority: Priority,
  env: &Env,
  work: impl FnOnce() -> Result<T> + Send + 'static,
  settle: impl FnOnce(Engine<'_>, Result<T>) -> napi::Result<Value> + Send + 'static,
) -> napi::Result<Promise<'_>> {
  let (promise, resolve) = promise(env, settle)?;
  run(priority, work, resolve);
  Ok(promise)
}

/// Runs `work` on a worker thread, and passes the outcome to `resolve` there.
pub fn run<T: Send + 'static>(
  priority: Priority,
  work: impl FnOnce() -> Result<T> + Send + 'static,
  resolve: impl FnOnce(Result<T>) + Send + 'static,
) {
  thread_pool::run(priority, move || {
    resolve(catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref()))));
  });
}

/// A promise that is already settled: methods never throw.
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
