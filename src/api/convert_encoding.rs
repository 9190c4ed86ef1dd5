//! Conversion of stored checkpoints to another encoding.

use napi::Env;
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, ConvertResult, Failure};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;

#[napi]
impl CheckpointStore {
  /// Stores the checkpoints of a session and of its agents in another encoding, one by one. Nothing else about them changes.
  ///
  /// Each checkpoint can be read at every moment. An interrupted conversion continues when it is called again. Damaged
  /// checkpoints are not changed.
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
      results::into::<ConvertResult, _>,
    )
  }
}
