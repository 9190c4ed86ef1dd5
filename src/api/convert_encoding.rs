//! The methods that concern the room that everything takes up.

use napi::Env;
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, Failure};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;

#[napi]
impl CheckpointStore {
  /// Stores the checkpoints of a session and of its agents in another encoding, one by one. Nothing else about them changes.
  ///
  /// Each is whole at every instant: a conversion that was interrupted goes on where it stopped when it is called again. What
  /// is damaged is left as it is.
  #[napi(
    ts_args_type = "sessionId: string, encoding: CheckpointEncoding, options?: WorkOptions",
    ts_return_type = "Promise<ConvertResult>"
  )]
  pub fn convert<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    encoding: Value,
    options: Value,
    control: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| {
        let session = arguments.session_id(session_id)?;
        let encoding = arguments.encoding_named(encoding, "encoding")?;
        arguments.work_options(options)?;
        Ok((session, encoding, arguments.control(control)?))
      },
      |store, (session, encoding, control)| store.convert(&session, encoding, &control),
      results::converted,
    )
  }
}
