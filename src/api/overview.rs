//! The methods that look at all sessions at once.

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
  /// A line for each session, sorted by id, without reading a checkpoint: name, status, task counts, how many checkpoints,
  /// the newest, bytes and expiry.
  #[napi(ts_return_type = "Promise<SessionInfo[]>")]
  pub fn sessions_info<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |_| Ok(()),
      |store, ()| store.sessions_info(),
      |engine, text| results::json(engine, &text),
    )
  }

  /// The line of one session, as `sessionsInfo()` has it; `null` if it has neither a document nor checkpoints.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<SessionInfo | null>")]
  pub fn session_info<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.session_id(session_id),
      |store, session| store.session_info(&session),
      |engine, text| results::json(engine, text.as_deref().unwrap_or("null")),
    )
  }

  /// The checkpoints of all sessions, newest first, without reading the payloads: as `listCheckpointInfo()`, with the
  /// `sessionId` of each.
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
      results::info_page,
    )
  }

  /// Removes all checkpoints of a session itself, pinned ones too; its document, its results and its agents stay. Resolves
  /// to how many went.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<number>")]
  pub fn delete_session_checkpoints<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.session_id(session_id),
      |store, session| store.delete_checkpoints(&session.into()),
      results::count,
    )
  }

  /// Archives the sessions whose `expiresAt` has passed by `now`, or with `action: 'delete'` deletes them, and says which.
  ///
  /// One that somebody works on (`initializing`, `active`, `resuming`, `completing`) is left alone however old it is. To
  /// archive is to set its status to `archived`. The decision and the change are one step: a session that is saved as active
  /// again meanwhile, or that another store holds a lease of, stays.
  ///
  /// If some sessions cannot be archived or deleted, the others are all the same, and the promise rejects with an
  /// `ExpireSessionsError`: its `expired` lists what was done, its `failed` what was not.
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

  /// The sessions whose last state says that somebody worked on them, each with its newest checkpoint that is whole: what a
  /// new process goes on with. `recoverSession()` restores one.
  #[napi(ts_return_type = "Promise<RecoverableSession[]>")]
  pub fn recoverable<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |_| Ok(()),
      |store, ()| store.recoverable(),
      results::recoverable,
    )
  }

  /// Copies sessions into another store: documents, checkpoints, agents, results, labels and pins. What was copied is read
  /// back. Everything is copied byte for byte but deltas, which are stored anew on keys of the other store. What only that store has
  /// stays. One that was interrupted goes on where it stopped when it is called again.
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
            "other must be another place than this store's own",
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
