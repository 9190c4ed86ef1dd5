//! The steps of every method: read the arguments on the event loop, work on a worker thread, convert the outcome on the event
//! loop.

use std::sync::Arc;

use napi::Env;

use crate::api::convert::arguments::Arguments;
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::error::to_js;
use crate::api::convert::results::Failure;
use crate::api::runtime::promise::{Promise, off_thread_with, rejected, settled};
use crate::api::runtime::thread_pool::Priority;
use crate::api::store::CheckpointStore;
use crate::store::{LeaseRefusal, OpenStore, Store};
use crate::types::error::{Code, Error, Result};
use crate::types::id::{CheckpointId, SessionId};

impl CheckpointStore {
  /// Runs a method: `read` on the event loop, `work` on a worker thread, `convert` on the event loop.
  pub(crate) fn call<'env, A: Send + 'static, T: Send + 'static>(
    &self,
    env: &'env Env,
    failure: Failure,
    read: impl FnOnce(Arguments<'env>) -> Result<A>,
    work: impl FnOnce(&OpenStore, A) -> Result<T> + Send + 'static,
    convert: impl FnOnce(Engine<'_>, T) -> Result<Value> + Send + 'static,
  ) -> napi::Result<Promise<'env>> {
    self.call_with_store(env, failure, read, work, |engine, _, outcome| convert(engine, outcome))
  }

  /// [`Self::call`] without arguments.
  pub(crate) fn call_for_all<'env, T: Send + 'static>(
    &self,
    env: &'env Env,
    work: impl FnOnce(&OpenStore) -> Result<T> + Send + 'static,
    convert: impl FnOnce(Engine<'_>, T) -> Result<Value> + Send + 'static,
  ) -> napi::Result<Promise<'env>> {
    self.call(env, Failure::Rejects, |_| Ok(()), |store, ()| work(store), convert)
  }

  /// [`Self::call`] whose only argument is the id of a session.
  pub(crate) fn call_for_session<'env, T: Send + 'static>(
    &self,
    env: &'env Env,
    failure: Failure,
    session_id: Value,
    work: impl FnOnce(&OpenStore, &SessionId) -> Result<T> + Send + 'static,
    convert: impl FnOnce(Engine<'_>, T) -> Result<Value> + Send + 'static,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      failure,
      |arguments| arguments.session_id(session_id),
      |store, session| work(store, &session),
      convert,
    )
  }

  /// [`Self::call`] whose arguments are the ids of a session and of one of its checkpoints.
  pub(crate) fn call_for_checkpoint<'env, T: Send + 'static>(
    &self,
    env: &'env Env,
    failure: Failure,
    (session_id, checkpoint_id): (Value, Value),
    work: impl FnOnce(&OpenStore, &SessionId, &CheckpointId) -> Result<T> + Send + 'static,
    convert: impl FnOnce(Engine<'_>, T) -> Result<Value> + Send + 'static,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      failure,
      |arguments| arguments.names(session_id, checkpoint_id),
      |store, (session, checkpoint)| work(store, &session, &checkpoint),
      convert,
    )
  }

  /// [`Self::call`] that does not wait for earlier calls, and rejects if it fails.
  pub(crate) fn call_first<'env, A: Send + 'static, T: Send + 'static>(
    &self,
    env: &'env Env,
    read: impl FnOnce(Arguments<'env>) -> Result<A>,
    work: impl FnOnce(&OpenStore, A) -> Result<T> + Send + 'static,
    convert: impl FnOnce(Engine<'_>, T) -> Result<Value> + Send + 'static,
  ) -> napi::Result<Promise<'env>> {
    let convert = |engine: Engine<'_>, _, outcome| convert(engine, outcome);
    enter_and_call_with(Priority::High, env, &self.inner, Failure::Rejects, read, work, convert)
  }

  /// [`Self::call`] whose conversion needs the store.
  pub(crate) fn call_with_store<'env, A: Send + 'static, T: Send + 'static>(
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

/// [`CheckpointStore::call_with_store`] for the methods of other classes.
pub fn enter_and_call<'env, A: Send + 'static, T: Send + 'static>(
  env: &'env Env,
  store: &Arc<Store>,
  failure: Failure,
  read: impl FnOnce(Arguments<'env>) -> Result<A>,
  work: impl FnOnce(&OpenStore, A) -> Result<T> + Send + 'static,
  convert: impl FnOnce(Engine<'_>, OpenStore, T) -> Result<Value> + Send + 'static,
) -> napi::Result<Promise<'env>> {
  enter_and_call_with(Priority::Normal, env, store, failure, read, work, convert)
}

fn enter_and_call_with<'env, A: Send + 'static, T: Send + 'static>(
  priority: Priority,
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
    Ok(arguments) => hop_with(
      priority,
      env,
      store,
      failure,
      move |store| work(store, arguments),
      convert,
    ),
    Err(error) => settled(engine, failure.settle(engine, error)),
  }
}

/// Reports lost leases to `lib/lease.js`, before the promise of the rejected write is settled.
fn report_lost_leases(engine: Engine<'_>, store: &OpenStore) {
  for LeaseRefusal { store, lease, message } in store.take_lost_leases() {
    let reported = to_js(engine, Error::new(Code::LeaseLost, message))
      .and_then(|error| engine.lease_is_lost(store, lease.session.as_str(), lease.number, error));
    // The promise of the write is settled even if the listener throws.
    drop(reported);
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
  hop_with(Priority::Normal, env, store, failure, work, convert)
}

fn hop_with<T: Send + 'static>(
  priority: Priority,
  env: &Env,
  store: OpenStore,
  failure: Failure,
  work: impl FnOnce(&OpenStore) -> Result<T> + Send + 'static,
  convert: impl FnOnce(Engine<'_>, OpenStore, T) -> Result<Value> + Send + 'static,
) -> napi::Result<Promise<'_>> {
  off_thread_with(
    priority,
    env,
    move || {
      let outcome = work(&store);
      Ok((store, outcome))
    },
    move |engine, outcome| {
      if let Ok((store, _)) = &outcome {
        report_lost_leases(engine, store);
      }
      let converted = outcome.and_then(|(store, outcome)| convert(engine, store, outcome?));
      converted.or_else(|error| failure.settle(engine, error))
    },
  )
}
