//! The shape that all methods share: read on the JavaScript thread, work off it, answer on it.

use std::sync::Arc;

use napi::Env;

use crate::api::convert::arguments::Arguments;
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::error::to_js;
use crate::api::convert::results::Failure;
use crate::api::runtime::promise::{Promise, off_thread_in, rejected, settled};
use crate::api::runtime::thread_pool::Turn;
use crate::api::store::CheckpointStore;
use crate::store::{LeaseRefusal, OpenStore, Store};
use crate::types::error::{Code, Error, Result};

impl CheckpointStore {
  /// The shape of a method: `read` on the JavaScript thread, `work` off it, `convert` back on it.
  pub(crate) fn call<'env, A: Send + 'static, T: Send + 'static>(
    &self,
    env: &'env Env,
    failure: Failure,
    read: impl FnOnce(Arguments<'env>) -> Result<A>,
    work: impl FnOnce(&OpenStore, A) -> Result<T> + Send + 'static,
    convert: impl FnOnce(Engine<'_>, T) -> Result<Value> + Send + 'static,
  ) -> napi::Result<Promise<'env>> {
    self.call_with(env, failure, read, work, |engine, _, answer| convert(engine, answer))
  }

  /// The same, for what must not wait for all that was asked for before.
  pub(crate) fn call_first<'env, A: Send + 'static, T: Send + 'static>(
    &self,
    env: &'env Env,
    failure: Failure,
    read: impl FnOnce(Arguments<'env>) -> Result<A>,
    work: impl FnOnce(&OpenStore, A) -> Result<T> + Send + 'static,
    convert: impl FnOnce(Engine<'_>, T) -> Result<Value> + Send + 'static,
  ) -> napi::Result<Promise<'env>> {
    enter_and_call_in(
      Turn::First,
      env,
      &self.inner,
      failure,
      read,
      work,
      |engine, _, answer| convert(engine, answer),
    )
  }

  /// The same, for a method whose answer may need the store once more.
  pub(crate) fn call_with<'env, A: Send + 'static, T: Send + 'static>(
    &self,
    env: &'env Env,
    failure: Failure,
    read: impl FnOnce(Arguments<'env>) -> Result<A>,
    work: impl FnOnce(&OpenStore, A) -> Result<T> + Send + 'static,
    convert: impl FnOnce(Engine<'_>, OpenStore, T) -> Result<Value> + Send + 'static,
  ) -> napi::Result<Promise<'env>> {
    enter_and_call(env, &self.inner, failure, read, work, convert)
  }
}

/// The same, for any class that belongs to a store.
pub fn enter_and_call<'env, A: Send + 'static, T: Send + 'static>(
  env: &'env Env,
  store: &Arc<Store>,
  failure: Failure,
  read: impl FnOnce(Arguments<'env>) -> Result<A>,
  work: impl FnOnce(&OpenStore, A) -> Result<T> + Send + 'static,
  convert: impl FnOnce(Engine<'_>, OpenStore, T) -> Result<Value> + Send + 'static,
) -> napi::Result<Promise<'env>> {
  enter_and_call_in(Turn::InOrder, env, store, failure, read, work, convert)
}

fn enter_and_call_in<'env, A: Send + 'static, T: Send + 'static>(
  turn: Turn,
  env: &'env Env,
  store: &Arc<Store>,
  failure: Failure,
  read: impl FnOnce(Arguments<'env>) -> Result<A>,
  work: impl FnOnce(&OpenStore, A) -> Result<T> + Send + 'static,
  convert: impl FnOnce(Engine<'_>, OpenStore, T) -> Result<Value> + Send + 'static,
) -> napi::Result<Promise<'env>> {
  let engine = Engine::new(env)?;
  let store = match store.enter() {
    Ok(store) => store,
    Err(error) => return rejected(engine, error),
  };
  match read(Arguments::new(engine)) {
    Ok(arguments) => hop_in(turn, env, store, failure, move |store| work(store, arguments), convert),
    Err(error) => settled(engine, failure.settle(engine, error)),
  }
}

/// Tells the owners of leases under which a write was refused, before the caller of the write is answered.
fn tell_lost_leases(engine: Engine<'_>, store: &OpenStore) {
  for LeaseRefusal { store, lease, message } in store.take_lost_leases() {
    // The caller is answered whatever the owner does about it.
    let told = to_js(engine, Error::new(Code::LeaseLost, message))
      .and_then(|error| engine.lease_is_lost(store, lease.session.as_str(), lease.number, error));
    drop(told);
  }
}

/// One hop of an operation. The store stays entered until the promise is settled: `close` waits for that.
pub fn hop<T: Send + 'static>(
  env: &Env,
  store: OpenStore,
  failure: Failure,
  work: impl FnOnce(&OpenStore) -> Result<T> + Send + 'static,
  convert: impl FnOnce(Engine<'_>, OpenStore, T) -> Result<Value> + Send + 'static,
) -> napi::Result<Promise<'_>> {
  hop_in(Turn::InOrder, env, store, failure, work, convert)
}

fn hop_in<T: Send + 'static>(
  turn: Turn,
  env: &Env,
  store: OpenStore,
  failure: Failure,
  work: impl FnOnce(&OpenStore) -> Result<T> + Send + 'static,
  convert: impl FnOnce(Engine<'_>, OpenStore, T) -> Result<Value> + Send + 'static,
) -> napi::Result<Promise<'_>> {
  off_thread_in(
    turn,
    env,
    move || {
      let answer = work(&store);
      Ok((store, answer))
    },
    move |engine, outcome| {
      if let Ok((store, _)) = &outcome {
        tell_lost_leases(engine, store);
      }
      let converted = outcome.and_then(|(store, answer)| convert(engine, store, answer?));
      converted.or_else(|error| failure.settle(engine, error))
    },
  )
}
