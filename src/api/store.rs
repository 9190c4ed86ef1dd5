//! The class. Each method reads its arguments, hops off the thread, and converts the answer.

use std::sync::Arc;

use napi::Env;
use napi_derive::napi;

use crate::api::convert::arguments::Arguments;
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::error::to_napi;
use crate::api::convert::results::{self, Failure};
use crate::api::convert::text::Readable;
use crate::api::runtime::event_loop;
use crate::api::runtime::promise::{Promise, in_turn, off_thread, promise};
use crate::api::runtime::thread_pool::Turn;
use crate::backend;
use crate::store::{CreateOptions, Loaded, Store, revision as revision_of};

/// Keeps the sessions of an orchestrator, their checkpoints, task trees and results, in one place.
///
/// All methods but `getBaseDir()`, `checkpoints()` and `autoCheckpoint()` are asynchronous and never throw
/// synchronously. Methods that resolve to a result object report failures in it (`success: false` with `error` and
/// `code`); all others reject with an `Error` that has a `code`. Before `initialize()` every method rejects.
#[napi]
#[derive(Debug)]
pub struct CheckpointStore {
  pub(super) inner: Arc<Store>,
}

#[napi]
impl CheckpointStore {
  /// Names a place; touches nothing yet.
  ///
  /// `baseDir` is a directory (`~` is the home directory, a relative path is resolved now), `sqlite:` and the path of a
  /// database file, or `memory:` for a store that lives and dies with this object. A number as the second argument means
  /// `maxCheckpointsPerSession`.
  #[napi(
    constructor,
    ts_args_type = "baseDir?: string, options?: number | CheckpointStoreOptions"
  )]
  pub fn new(env: &Env, base_dir: Value, options: Value) -> napi::Result<Self> {
    let engine = Engine::new(env)?;
    let arguments = Arguments::new(engine);
    let open = || {
      let options = arguments.store_options(options)?;
      let backend = backend::open(&arguments.base_dir(base_dir)?, options.settings)?;
      Ok(Store::new(backend, options))
    };
    let store = open().map_err(|error| to_napi(engine, error))?;
    Ok(Self { inner: Arc::new(store) })
  }

  /// Opens the store, creating the base directory if need be. Safe to call again.
  #[napi(ts_return_type = "Promise<void>")]
  pub fn initialize<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    let opening = self.inner.begin_open();
    off_thread(env, move || opening.finish(), results::lifecycle)
  }

  /// Refuses new calls at once, and resolves when those under way have ended and all files and connections are closed.
  /// `initialize()` opens it again.
  ///
  /// A database of SQLite is in one file afterwards: its log is moved into it, and what stays beside it is not needed. If another store or process reads it at that
  /// moment, a part of the log may stay in the file beside it (`-wal`) until the next one closes it. If the log cannot be moved,
  /// for example because the disk is full, the call rejects with `WAYMARK_IO`: the store is closed, and what is in the log is
  /// not lost.
  #[napi(ts_return_type = "Promise<void>")]
  pub fn close<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    let (promise, resolve) = promise(env, results::lifecycle)?;
    self
      .inner
      .close(move |closing| in_turn(Turn::InOrder, move || closing.finish(), resolve));
    Ok(promise)
  }

  /// `close()`, for `await using store = …`.
  #[napi(well_known_symbol = "asyncDispose", ts_return_type = "Promise<void>")]
  pub fn async_dispose<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.close(env)
  }

  /// The absolute base directory (or `sqlite:` and the absolute path, or `memory:`), even before `initialize()`.
  #[napi]
  #[must_use]
  pub fn get_base_dir(&self) -> String {
    self.inner.location()
  }

  /// Makes the directories of a session. No other method needs them to be there.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<void>")]
  pub fn create_session_directory<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.session_id(session_id),
      |store, session| store.create_session(&session),
      results::nothing,
    )
  }

  /// Stores a session without its `taskTree`, which has a file of its own: see `saveTaskTree()`.
  ///
  /// With `ifRevision` it happens only if the session is still the one that the caller has seen: otherwise the answer has the
  /// code `WAYMARK_CONFLICT`, and the revision of what is there as `current`.
  #[napi(
    ts_args_type = "session: SwarmSession, options?: SaveOptions",
    ts_return_type = "Promise<CheckpointResult>"
  )]
  pub fn save_session<'env>(&self, env: &'env Env, session: Value, options: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::IsReported,
      |arguments| Ok((arguments.seen(options)?, arguments.session(session)?)),
      |store, (seen, (session, json))| store.save_session(&session, &json.into_string(), seen.as_ref()),
      results::saved_session,
    )
  }

  /// The session as it was last saved or restored, or `null`; an earlier version of it, if the store keeps some.
  ///
  /// `withRevision` gives its revision too, for `saveSession(session, { ifRevision })`.
  #[napi(
    ts_generic_types = "S extends SwarmSession = SwarmSession",
    ts_args_type = "sessionId: string, options: LoadOptions & { withRevision: true }): Promise<{ session: Omit<S, 'taskTree'>; revision: string } | null>\n  loadSession<S extends SwarmSession = SwarmSession>(sessionId: string, options?: LoadOptions",
    ts_return_type = "Promise<Omit<S, 'taskTree'> | null>"
  )]
  pub fn load_session<'env>(&self, env: &'env Env, session_id: Value, options: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| {
        let session = arguments.session_id(session_id)?;
        Ok((
          session,
          arguments.version(options)?,
          arguments.flag(options, "withRevision")?,
        ))
      },
      |store, (session, back, with_revision)| {
        let loaded = store.load_session(&session, back)?;
        let revision = loaded.as_ref().filter(|_| with_revision);
        let revision = revision.map(|loaded| revision_of(loaded.text.as_bytes()));
        Ok((loaded.map(readable), revision))
      },
      results::loaded_session,
    )
  }

  /// Stores the task tree of a session. A Map becomes a plain object.
  #[napi(
    ts_args_type = "sessionId: string, taskTree: Map<string, HierarchicalTask> | Record<string, HierarchicalTask>",
    ts_return_type = "Promise<CheckpointResult>"
  )]
  pub fn save_task_tree<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    task_tree: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::IsReported,
      |arguments| Ok((arguments.session_id(session_id)?, arguments.task_tree(task_tree)?)),
      |store, (session, tree)| store.save_task_tree(&session, &tree.into_string()),
      results::saved,
    )
  }

  /// The task tree as it was last saved or restored, or `null`; an earlier version of it, if the store keeps some.
  #[napi(
    ts_generic_types = "T extends HierarchicalTask = HierarchicalTask",
    ts_args_type = "sessionId: string, options?: LoadOptions",
    ts_return_type = "Promise<Record<string, T> | null>"
  )]
  pub fn load_task_tree<'env>(&self, env: &'env Env, session_id: Value, options: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| Ok((arguments.session_id(session_id)?, arguments.version(options)?)),
      |store, (session, back)| Ok(store.load_task_tree(&session, back)?.map(readable)),
      results::loaded,
    )
  }

  /// The ids of all saved sessions, sorted.
  #[napi(ts_return_type = "Promise<string[]>")]
  pub fn list_sessions<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |_| Ok(()),
      |store, ()| store.sessions(),
      |engine, sessions| results::texts(engine, sessions.into_iter().map(String::from)),
    )
  }

  /// Removes a session and everything below it, at once. A session that does not exist is no failure.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<CheckpointResult>")]
  pub fn delete_session<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::IsReported,
      |arguments| arguments.session_id(session_id),
      |store, session| store.delete_session(&session),
      results::deleted,
    )
  }

  /// Stores the state of a session as it is at this moment, then removes the oldest checkpoints beyond the limit.
  ///
  /// The state is read before the method returns: what the caller changes afterwards is not part of it. The short
  /// form `createCheckpoint(session, options)` is for sessions without agent states and context.
  ///
  /// With `ifParent` it happens only if that is still the newest checkpoint of the session: otherwise the answer has the code
  /// `WAYMARK_CONFLICT`, and the id of the newest as `current`.
  #[napi(
    ts_args_type = "session: SwarmSession, agentStates: Map<string, SwarmAgentConfig> | Record<string, SwarmAgentConfig>, contextStore: Map<string, unknown> | Record<string, unknown>, options: AtLeast<CheckpointOptions, 'trigger'>): Promise<CheckpointResult>\n  createCheckpoint(session: SwarmSession, options: AtLeast<CheckpointOptions, 'trigger'>",
    ts_return_type = "Promise<CheckpointResult>"
  )]
  pub fn create_checkpoint<'env>(
    &self,
    env: &'env Env,
    session: Value,
    agent_states: Value,
    context_store: Value,
    options: Value,
  ) -> napi::Result<Promise<'env>> {
    let inner = Arc::clone(&self.inner);
    self.call(
      env,
      Failure::IsReported,
      move |arguments| {
        let checkpoint = arguments.checkpoint(session, agent_states, context_store, options)?;
        Ok((inner.ticket(&checkpoint.session), checkpoint))
      },
      |store, (ticket, mut checkpoint)| {
        let options = CreateOptions {
          encoding: checkpoint.encoding,
          parent: std::mem::take(&mut checkpoint.parent),
          unique_label: checkpoint.unique_label.take(),
        };
        store.create_checkpoint(&ticket, &checkpoint.into_parts(), options)
      },
      results::created,
    )
  }

  /// Whole checkpoints, newest first. `limit` 0 or absent means all; `total` ignores the paging.
  ///
  /// A checkpoint that cannot be read is left out and named in `damaged`; `total` still counts it.
  #[napi(
    ts_args_type = "sessionId: string, limit?: number, offset?: number",
    ts_return_type = "Promise<CheckpointList>"
  )]
  pub fn list_checkpoints<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    limit: Value,
    offset: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call_with(
      env,
      Failure::Rejects,
      |arguments| {
        let session = arguments.session_id(session_id)?;
        Ok((
          session,
          arguments.count(limit, "limit")?,
          arguments.count(offset, "offset")?,
        ))
      },
      |store, (session, limit, offset)| store.list(&session.into(), limit, offset),
      event_loop::page,
    )
  }

  /// One checkpoint, compressed or not, or `null`.
  #[napi(
    ts_args_type = "sessionId: string, checkpointId: string",
    ts_return_type = "Promise<Checkpoint | null>"
  )]
  pub fn get_checkpoint<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    checkpoint_id: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call_with(
      env,
      Failure::Rejects,
      |arguments| arguments.names(session_id, checkpoint_id),
      |store, (session, checkpoint)| {
        Ok(
          store
            .checkpoint(&session.into(), &checkpoint)?
            .map(event_loop::readable),
        )
      },
      event_loop::checkpoint,
    )
  }

  /// The newest checkpoint of a session, or `null`.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<Checkpoint | null>")]
  pub fn get_latest_checkpoint<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call_with(
      env,
      Failure::Rejects,
      |arguments| arguments.session_id(session_id),
      |store, session| Ok(store.latest_checkpoint(&session.into())?.map(event_loop::readable)),
      event_loop::checkpoint,
    )
  }

  /// Writes the session and the task tree of a checkpoint back, as one step: after a crash both are old or both new.
  ///
  /// The checkpoint is named by `checkpointId` alone, by `sessionId` and `checkpointId`, or as
  /// `session/checkpoint`. Tasks that were interrupted or failed can be sent back to `pending`; each is named in
  /// `warnings`.
  #[napi(
    ts_args_type = "options: AtLeast<RestoreOptions, 'checkpointId'>): Promise<RestoreResult>\n  restoreCheckpoint(sessionId: string, checkpointId: string, options?: Partial<Omit<RestoreOptions, 'checkpointId' | 'sessionId'>>",
    ts_return_type = "Promise<RestoreResult>"
  )]
  pub fn restore_checkpoint<'env>(
    &self,
    env: &'env Env,
    options_or_session_id: Value,
    checkpoint_id: Value,
    options: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::IsReportedWithCounts,
      |arguments| arguments.restore(options_or_session_id, checkpoint_id, options),
      |store, request| store.restore(&request),
      results::restored,
    )
  }

  /// Removes a checkpoint. One that does not exist is no failure; `code` is `WAYMARK_BUSY` if another process holds the lock on the
  /// checkpoints for longer than `timeoutMs`.
  #[napi(
    ts_args_type = "sessionId: string, checkpointId: string",
    ts_return_type = "Promise<CheckpointResult>"
  )]
  pub fn delete_checkpoint<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    checkpoint_id: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::IsReported,
      |arguments| arguments.names(session_id, checkpoint_id),
      |store, (session, checkpoint)| store.delete_checkpoint(&session.into(), &checkpoint),
      results::done,
    )
  }

  /// Stores the result of a task: anything that JSON can hold.
  #[napi(
    ts_args_type = "sessionId: string, taskId: string, result: unknown",
    ts_return_type = "Promise<CheckpointResult>"
  )]
  pub fn save_task_result<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    task_id: Value,
    result: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::IsReported,
      |arguments| {
        let ids = (arguments.session_id(session_id)?, arguments.task_id(task_id)?);
        Ok((ids, arguments.json(result, "result")?))
      },
      |store, ((session, task), json)| store.save_task_result(&session, &task, &json.into_string()),
      results::saved,
    )
  }

  /// The result of a task, or `null`.
  #[napi(
    ts_generic_types = "T = unknown",
    ts_args_type = "sessionId: string, taskId: string",
    ts_return_type = "Promise<T | null>"
  )]
  pub fn load_task_result<'env>(
    &self,
    env: &'env Env,
    session_id: Value,
    task_id: Value,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| Ok((arguments.session_id(session_id)?, arguments.task_id(task_id)?)),
      |store, (session, task)| Ok(store.load_task_result(&session, &task)?.map(readable)),
      results::loaded,
    )
  }

  /// What a session takes up; zeros for one that does not exist.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<SessionStorageStats>")]
  pub fn get_session_storage_stats<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.session_id(session_id),
      |store, session| store.usage(&session),
      |engine, usage| results::usage(engine, &usage),
    )
  }
}

fn readable(loaded: Loaded) -> Readable<Loaded> {
  Readable::new(loaded, |loaded| &loaded.text)
}
