//! Methods that verify checkpoints, and that recover a session from the newest whole one.

use napi::Env;
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, Failure};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;

#[napi]
impl CheckpointStore {
  /// Verifies a checkpoint: it is whole if it can be read, its version is known, and its checksums match.
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
      results::session_report,
    )
  }

  /// Restores the newest whole checkpoint of a session, and lists the damaged ones that it passed over.
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
      Failure::IsReportedOfRecovery,
      |arguments| arguments.recover(session_id, options),
      |store, request| store.recover(&request),
      results::recovered,
    )
  }
}
