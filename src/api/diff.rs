//! The comparison of two checkpoints.

use napi::Env;
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, Failure};
use crate::api::convert::text::Readable;
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;

#[napi]
impl CheckpointStore {
  /// Reports what changed from checkpoint `a` to checkpoint `b`: tasks, agents, context and session.
  ///
  /// Their sessions and encodings may differ. The order of keys makes no difference. A string names a checkpoint
  /// as `session/checkpoint`. Rejects with `WAYMARK_NOT_FOUND` if one of them does not exist, and like `getCheckpoint()`
  /// if one is damaged.
  #[napi(
    ts_args_type = "a: CheckpointReference | string, b: CheckpointReference | string",
    ts_return_type = "Promise<CheckpointDiff>"
  )]
  pub fn diff_checkpoints<'env>(&self, env: &'env Env, a: Value, b: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| Ok((arguments.reference(a, "a")?, arguments.reference(b, "b")?)),
      |store, (a, b)| Ok(Readable::new(store.diff(&a, &b)?, |text| text)),
      results::difference,
    )
  }
}
