//! Labels, pins, forks and the history of a session.

use std::sync::Arc;

use napi::Env;
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, CheckpointResult, Failure};
use crate::api::runtime::event_loop;
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;

#[napi]
impl CheckpointStore {
  /// Sets or replaces the label of a checkpoint; `null` removes it. The checkpoint itself is not rewritten.
  ///
  /// With `unique`, the result has the code `WAYMARK_EXISTS` if another checkpoint of the session has the label.
  #[napi(
    ts_args_type = "sessionId: string, checkpointId: string, label: string | null, options?: LabelOptions",
    ts_return_type = "Promise<CheckpointResult>"
  )]
  pub fn label_checkpoint<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    checkpoint_id: Value,
    label: Value,
    options: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::CheckpointResult,
      |arguments| arguments.label_request(session_id, checkpoint_id, label, options),
      |store, request| store.label_checkpoint(&request),
      results::into::<CheckpointResult, _>,
    )
  }

  /// The newest checkpoint of a session that has a label, or `null`.
  #[napi(
    ts_args_type = "sessionId: string, label: string",
    ts_return_type = "Promise<Checkpoint | null>"
  )]
  pub fn get_checkpoint_by_label<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    label: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call_with_store(
      env,
      Failure::Rejects,
      |arguments| Ok((arguments.session_id(session_id)?, arguments.label(label, "label")?)),
      |store, (session, label)| {
        let stored = store.checkpoint_with_label(&session, &label)?;
        Ok(stored.map(event_loop::readable))
      },
      event_loop::checkpoint,
    )
  }

  /// Exempts a checkpoint from retention: it is kept until it is unpinned or deleted, and does not count towards limits.
  #[napi(
    ts_args_type = "sessionId: string, checkpointId: string",
    ts_return_type = "Promise<CheckpointResult>"
  )]
  pub fn pin_checkpoint<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    checkpoint_id: Value,
  ) -> napi::Result<Promise<'env>> {
    self.set_pinned(env, session_id, checkpoint_id, true)
  }

  /// Makes a checkpoint subject to retention again, which is applied with the next checkpoint or by `prune()`.
  #[napi(
    ts_args_type = "sessionId: string, checkpointId: string",
    ts_return_type = "Promise<CheckpointResult>"
  )]
  pub fn unpin_checkpoint<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    checkpoint_id: Value,
  ) -> napi::Result<Promise<'env>> {
    self.set_pinned(env, session_id, checkpoint_id, false)
  }

  /// Creates a new session from a checkpoint of another session, for example to try a different continuation.
  ///
  /// The new session has the state, the agents and the context of that checkpoint, a first checkpoint of its own, and a
  /// `forkedFrom`. The source is not changed. The result has the code `WAYMARK_EXISTS` if the new session exists.
  #[napi(ts_args_type = "options: ForkOptions", ts_return_type = "Promise<ForkResult>")]
  pub fn fork_session<'env>(&self, env: &'env Env, options: Value) -> napi::Result<Promise<'env>> {
    let inner = Arc::clone(&self.inner);
    self.call(
      env,
      Failure::RestoreResult,
      move |arguments| {
        let request = arguments.fork(options)?;
        Ok((request, inner.stamp()))
      },
      |store, (request, stamp)| store.fork(&request, stamp),
      results::forked,
    )
  }

  /// The checkpoints of a session as a tree: each names its parent, its children, and the sessions that were forked from it.
  ///
  /// The tree is a flat list, newest first, because the chain of parents may be thousands long.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<SessionHistory>")]
  pub fn history<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call_for_session(
      env,
      Failure::Rejects,
      session_id,
      |store, session| store.history(session),
      |engine, text| results::json(engine, &text),
    )
  }

  fn set_pinned<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    checkpoint_id: Value,
    is_pinned: bool,
  ) -> napi::Result<Promise<'env>> {
    self.call_for_checkpoint(
      env,
      Failure::CheckpointResult,
      (session_id, checkpoint_id),
      move |store, session, checkpoint| store.pin_checkpoint(session, checkpoint, is_pinned),
      results::into::<CheckpointResult, _>,
    )
  }
}
