//! Verification, and recovery from the newest whole checkpoint.

use napi::Env;
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, CheckpointVerification, Failure};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;

#[napi]
impl CheckpointStore {
  /// Verifies a checkpoint: it is whole if it can be read, its version is known, and its checksums match.
  ///
  /// A checkpoint that another program has written in another form, with the same data, is whole. Rejects with
  /// `WAYMARK_NOT_FOUND` if it does not exist.
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
    self.call_for_checkpoint(
      env,
      Failure::Rejects,
      (session_id, checkpoint_id),
      |store, session, checkpoint| store.verify_checkpoint(&session.into(), checkpoint),
      results::into::<CheckpointVerification, _>,
    )
  }

  /// Verifies everything in a session: its checkpoints, newest first, and its other files.
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
      results::session_verification,
    )
  }

  /// Restores the newest whole checkpoint of a session, and reports the damaged ones that are newer.
  ///
  /// With `quarantine` the damaged ones are moved into the session's `damaged/`. No damaged checkpoint is ever deleted.
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
      Failure::RecoverResult,
      |arguments| arguments.recover(session_id, options),
      |store, request| store.recover(&request),
      results::recovered,
    )
  }
}
