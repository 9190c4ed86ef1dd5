//! Methods that verify checkpoints, and that recover a session from the newest whole one.

use napi::Env;
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, Failure};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;

#[napi]
impl CheckpointStore {
  /// Says whether a checkpoint is whole: readable, of a version that is understood, and as its checksums say.
  ///
  /// A checkpoint that another program has written in another form, with the same data, is whole. Rejects with
  /// `WAYMARK_NOT_FOUND` if there is none of that id.
  #[napi(
    ts_args_type = "sessionId: string, checkpointId: string",
    ts_return_type = "Promise<CheckpointVerification>"
  )]
  pub fn verify_checkpoint<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    checkpoint_id: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.names(session_id, checkpoint_id),
      |store, (session, checkpoint)| store.verify_checkpoint(&session.into(), &checkpoint),
      results::verification,
    )
  }

  /// Says of everything in a session whether it is whole: its checkpoints, newest first, and its other files.
  #[napi(
    ts_args_type = "sessionId: string, options?: WorkOptions",
    ts_return_type = "Promise<SessionVerification>"
  )]
  pub fn verify_session<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    options: Value,
    control: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| {
        let session = arguments.session_id(session_id)?;
        arguments.work_options(options)?;
        Ok((session, arguments.control(control)?))
      },
      |store, (session, control)| store.verify_session(&session, &control),
      results::session_report,
    )
  }

  /// Restores the newest checkpoint of a session that is whole, and lists those that it passed over, and why.
  ///
  /// With `quarantine` the damaged ones are moved into the session's `damaged/`. Nothing is ever deleted for being
  /// damaged.
  #[napi(
    ts_args_type = "sessionId: string, options?: RecoverOptions",
    ts_return_type = "Promise<RecoverResult>"
  )]
  pub fn recover_session<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    options: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::IsReportedOfRecovery,
      |arguments| arguments.recover(session_id, options),
      |store, request| store.recover(&request),
      results::recovered,
    )
  }
}
