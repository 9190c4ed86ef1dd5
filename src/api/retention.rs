//! The retention of a session, and `prune`.

use napi::Env;
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, Failure};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;
use crate::store::Retention;

#[napi]
impl CheckpointStore {
  /// Sets the retention of a session, which replaces that of the store; `null` returns to the retention of the store.
  ///
  /// It is stored with the session, and every store that writes to the session uses it. It is applied with the next checkpoint or
  /// by `prune()`.
  #[napi(
    ts_args_type = "sessionId: string, retention: Retention | null",
    ts_return_type = "Promise<void>"
  )]
  pub fn set_retention<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    retention: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.own_retention(session_id, retention),
      |store, (session, retention)| store.set_retention(&session, retention),
      results::nothing,
    )
  }

  /// The retention that was set for a session; `null` if the session has that of the store.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<Retention | null>")]
  pub fn get_retention<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call_for_session(
      env,
      Failure::Rejects,
      session_id,
      |store, session| store.retention_of(session),
      |engine, retention| results::json(engine, &retention.map_or_else(|| "null".to_owned(), Retention::to_json)),
    )
  }

  /// Deletes the checkpoints that retention does not keep, of one session or of all, and reports which and why. With `dryRun` it
  /// only reports.
  ///
  /// The retention of a session replaces that of the store, and `options.retention` replaces both. Agents keep
  /// `maxCheckpointsPerAgent` checkpoints. Rejects with `WAYMARK_NOT_FOUND` if the session does not exist.
  #[napi(
    ts_args_type = "sessionId?: string, options?: PruneOptions): Promise<PruneResult>\n  prune(options: PruneOptions",
    ts_return_type = "Promise<PruneResult>"
  )]
  pub fn prune<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    options: Value,
    control: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| Ok((arguments.prune(session_id, options)?, arguments.control(control)?)),
      |store, (request, control)| store.prune(&request, &control),
      |engine, pruned| results::json(engine, &pruned.to_json()),
    )
  }
}
