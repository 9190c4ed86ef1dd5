//! Methods about all sessions: overviews, expiry, copies.

use napi::Env;
use napi::bindgen_prelude::{ClassInstance, FromNapiValue};
use napi_derive::napi;

use crate::api::convert::engine::Value;
use crate::api::convert::results::{self, Failure};
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;
use crate::types::error::Error;

#[napi]
impl CheckpointStore {
  /// An overview of each session, sorted by id: name, status, task counts, number of checkpoints, the newest one, bytes, expiry
  /// and lease. No checkpoint is read.
  #[napi(ts_return_type = "Promise<SessionInfo[]>")]
  pub fn sessions_info<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.call_for_all(
      env,
      |store| store.sessions_info(),
      |engine, text| results::json(engine, &text),
    )
  }

  /// The overview of one session, as in `sessionsInfo()`; `null` if it has neither a document nor checkpoints.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<SessionInfo | null>")]
  pub fn session_info<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call_for_session(
      env,
      Failure::Rejects,
      session_id,
      |store, session| store.session_info(session),
      |engine, text| results::json(engine, text.as_deref().unwrap_or("null")),
    )
  }

  /// The checkpoints of all sessions, newest first, without their payloads: like `listCheckpointInfo()`, with the `sessionId` of
  /// each.
  #[napi(
    ts_args_type = "options?: CheckpointInfoOptions",
    ts_return_type = "Promise<AllCheckpointInfoList>"
  )]
  pub fn list_all_checkpoints<'env>(&self, env: &'env Env, options: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.all_request(options),
      |store, request| store.list_all(&request),
      results::info_list,
    )
  }

  /// Deletes all checkpoints of a session itself, also pinned ones. Its document, its results and its agents are kept. Resolves
  /// to the number of deleted checkpoints.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<number>")]
  pub fn delete_session_checkpoints<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call_for_session(
      env,
      Failure::Rejects,
      session_id,
      |store, session| store.delete_checkpoints(&session.into()),
      results::count,
    )
  }

  /// Archives the sessions whose `expiresAt` is not after `now`, or with `action: 'delete'` deletes them. Resolves to these
  /// sessions.
  ///
  /// A running session (`initializing`, `active`, `resuming`, `completing`) is not changed, however old it is. Archiving sets the
  /// status to `archived`. Decision and change are one atomic step: a session that is saved as active meanwhile, or whose lease
  /// another store holds, is not changed.
  ///
  /// If some sessions cannot be archived or deleted, the others still are, and the promise rejects with an
  /// `ExpireSessionsError`, which lists both in `failed` and `expired`.
  #[napi(
    ts_args_type = "now?: number | Date, options?: ExpireOptions",
    ts_return_type = "Promise<ExpiredSession[]>"
  )]
  pub fn expire_sessions<'env>(&self, env: &'env Env, now: Value, options: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.expiry(now, options),
      |store, (now, expiry)| Ok((store.expire_sessions(now, expiry)?, expiry)),
      |engine, (expired, expiry)| results::expired(engine, expired, expiry),
    )
  }

  /// The sessions that were running when their state was last stored, each with its newest whole checkpoint, from which a new
  /// process can continue. `recoverSession()` restores one.
  #[napi(ts_return_type = "Promise<RecoverableSession[]>")]
  pub fn recoverable<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.call_for_all(env, |store| store.recoverable(), results::recoverable)
  }

  /// Copies sessions into another store: documents, checkpoints, agents, results, labels and pins. Each copy is read and
  /// compared.
  ///
  /// Everything is copied byte for byte, except deltas, which are encoded against bases of the other store. Items that only the
  /// other store has are kept. An interrupted copy continues when it is called again.
  #[napi(
    ts_args_type = "other: CheckpointStore, options?: CopyOptions",
    ts_return_type = "Promise<CopyResult>"
  )]
  pub fn copy_to<'env>(
    &self,
    env: &'env Env,
    other: Value,
    options: Value,
    control: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| {
        let instance = ClassInstance::<Self>::from_unknown(other);
        let other = instance.map_err(|_| arguments.wrong("other", "a CheckpointStore", other))?;
        if self.inner.is_same_location(&other.inner) {
          return Err(Error::invalid_argument(
            "other must be a store at another location than this one",
          ));
        }
        let session = arguments.copied_session(options)?;
        Ok((other.inner.enter()?, session, arguments.control(control)?))
      },
      |store, (other, session, control)| {
        let copied = store.copy(session, &other, &control);
        store.take_over_lost_leases(&other);
        copied
      },
      results::copied,
    )
  }
}
