//! The methods that say which checkpoints stay, and remove the others.

use napi::Env;
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, Failure};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;
use crate::store::Retention;

#[napi]
impl CheckpointStore {
  /// Says which checkpoints of a session stay, instead of what the store was told; `null` lets the store's be in force again.
  ///
  /// It is stored with the session, for all who make checkpoints of it, and is applied with the next checkpoint or by `prune()`.
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

  /// What was set for a session, or `null` if the store's is in force.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<Retention | null>")]
  pub fn get_retention<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.session_id(session_id),
      |store, session| store.retention_of(&session),
      |engine, retention| results::json(engine, &retention.map_or_else(|| "null".to_owned(), Retention::to_json)),
    )
  }

  /// Removes the checkpoints that do not stay, of one session or of all, and says which and why; with `dryRun` it only says.
  ///
  /// What is in force is what was set for a session, or what the store was told; `options.retention` goes before both. Agents
  /// keep as many as `maxCheckpointsPerAgent` says. Rejects with `WAYMARK_NOT_FOUND` if there is no session of that id.
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
