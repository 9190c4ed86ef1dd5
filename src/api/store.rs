//! The class `CheckpointStore`. Each method reads its arguments, works on a worker thread, and converts the outcome.

use std::sync::Arc;

use napi::Env;
use napi_derive::napi;

use crate::api::convert::arguments::Arguments;
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::error::to_napi;
use crate::api::convert::results::{self, CheckpointResult, Failure, SessionStorageStats};
use crate::api::convert::text::Readable;
use crate::api::runtime::event_loop;
use crate::api::runtime::promise::{Promise, off_thread, promise, run};
use crate::api::runtime::thread_pool::Priority;
use crate::store::{CreateOptions, Loaded, Store, open_backend, revision as revision_of};

/// Stores the sessions of an orchestrator, with their checkpoints, task trees and results, at one location.
///
/// All methods but `getBaseDir()`, `agent()`, `checkpoints()` and `autoCheckpoint()` are asynchronous and never throw
/// synchronously. Methods that resolve to a result object report failures in it (`success: false` with `error` and
/// `code`); all others reject with an `Error` that has a `code`. Before `initialize()` every asynchronous method rejects.
#[napi]
#[derive(Debug)]
pub struct CheckpointStore {
  pub(super) inner: Arc<Store>,
}

#[napi]
impl CheckpointStore {
  /// Creates a store object for a location. Nothing is read or written before `initialize()`.
  ///
  /// `baseDir` is a directory (`~` is the home directory, a relative path is resolved now), `sqlite:` and the path of a
  /// database file, a `postgres://` URL, or `memory:` for a store that exists as long as this object. The default is
  /// `~/.meshseeks/sessions`. A number as the second argument means `maxCheckpointsPerSession`.
  #[napi(
    constructor,
    ts_args_type = "baseDir?: string, options?: number | CheckpointStoreOptions"
  )]
  pub fn new(env: &Env, base_dir: Value, options: Value) -> napi::Result<Self> {
    let engine = Engine::new(env)?;
    let arguments = Arguments::new(engine);
    let open = || {
      let options = arguments.store_options(options)?;
      let backend = open_backend(&arguments.base_dir(base_dir)?, options.settings)?;
      Ok(Store::new(backend, options))
    };
    let store = open().map_err(|error| to_napi(engine, error))?;
    Ok(Self { inner: Arc::new(store) })
  }

  /// Opens the store, and creates it if it does not exist. Can be called again.
  #[napi(ts_return_type = "Promise<void>")]
  pub fn initialize<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    let opening = self.inner.begin_open();
    off_thread(env, move || opening.finish(), results::lifecycle)
  }

  /// Rejects new calls immediately, and resolves when running calls have ended and all files and connections are closed.
  /// `initialize()` opens the store again.
  ///
  /// An SQLite database is in one file afterwards: its log is moved into it, and files beside it are not needed. If another store
  /// or process is reading it at that moment, a part of the log may stay in the file beside it (`-wal`) until that one closes it.
  /// If the log cannot be moved, for example because the disk is full, the call rejects with `WAYMARK_IO`: the store is closed,
  /// and the content of the log is not lost.
  #[napi(ts_return_type = "Promise<void>")]
  pub fn close<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    let (promise, resolve) = promise(env, results::lifecycle)?;
    self
      .inner
      .close(move |closing| run(Priority::Normal, move || closing.finish(), resolve));
    Ok(promise)
  }

  /// `close()`, for `await using store = …`.
  #[napi(well_known_symbol = "asyncDispose", ts_return_type = "Promise<void>")]
  pub fn async_dispose<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.close(env)
  }

  /// The absolute base directory (or `sqlite:` and the absolute path, the URL without its password, or `memory:`), even before
  /// `initialize()`.
  #[napi]
  #[must_use]
  pub fn get_base_dir(&self) -> String {
    self.inner.location()
  }

  /// Creates an empty session. The other methods create it when they need it.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<void>")]
  pub fn create_session_directory<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call_for_session(
      env,
      Failure::Rejects,
      session_id,
      |store, session| store.create_session(session),
      results::nothing,
    )
  }

  /// Stores a session without its `taskTree`, which `saveTaskTree()` stores.
  ///
  /// With `ifRevision` it is stored only if the stored session still has that revision. Otherwise the result has the code
  /// `WAYMARK_CONFLICT`, and the stored revision as `current`.
  #[napi(
    ts_args_type = "session: SwarmSession, options?: SaveOptions",
    ts_return_type = "Promise<CheckpointResult>"
  )]
  pub fn save_session<'env>(&self, env: &'env Env, session: Value, options: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::CheckpointResult,
      |arguments| Ok((arguments.expected_revision(options)?, arguments.session(session)?)),
      |store, (expected, (session, json))| store.save_session(&session, &json.into_string(), expected.as_ref()),
      results::into::<CheckpointResult, _>,
    )
  }

  /// The session as it was last saved or restored, or `null`. `version` selects an earlier version, if the store keeps them.
  ///
  /// With `withRevision` the result also has its revision, for `saveSession(session, { ifRevision })`.
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
      |store, (session, version, with_revision)| {
        let loaded = store.load_session(&session, version)?;
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
      Failure::CheckpointResult,
      |arguments| Ok((arguments.session_id(session_id)?, arguments.task_tree(task_tree)?)),
      |store, (session, tree)| store.save_task_tree(&session, &tree.into_string()),
      results::into::<CheckpointResult, _>,
    )
  }

  /// The task tree as it was last saved or restored, or `null`. `version` selects an earlier version, if the store keeps them.
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
      |store, (session, version)| Ok(store.load_task_tree(&session, version)?.map(readable)),
      results::loaded,
    )
  }

  /// The ids of all saved sessions, sorted.
  #[napi(ts_return_type = "Promise<string[]>")]
  pub fn list_sessions<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.call_for_all(env, |store| store.sessions(), results::texts)
  }

  /// Deletes a session and everything in it in one step. A session that does not exist is not a failure.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<CheckpointResult>")]
  pub fn delete_session<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call_for_session(
      env,
      Failure::CheckpointResult,
      session_id,
      |store, session| store.delete_session(session),
      results::deleted,
    )
  }

  /// Stores the current state of a session as a checkpoint, and then deletes the checkpoints that retention does not keep.
  ///
  /// The state is read before the method returns: later changes by the caller are not part of the checkpoint. The short
  /// form `createCheckpoint(session, options)` is for sessions without agent states and context.
  ///
  /// With `ifParent` it is stored only if that checkpoint is still the newest of the session. Otherwise the result has the code
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
      Failure::CheckpointResult,
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
      results::into::<CheckpointResult, _>,
    )
  }

  /// Complete checkpoints, newest first. `limit` 0 or absent means all; `total` does not depend on `limit` and `offset`.
  ///
  /// A checkpoint that cannot be read is left out and reported in `damaged`; `total` still counts it.
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
    self.call_with_store(
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
      event_loop::checkpoint_list,
    )
  }

  /// One checkpoint, in whatever encoding it is stored, or `null`.
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
    self.call_with_store(
      env,
      Failure::Rejects,
      |arguments| arguments.names(session_id, checkpoint_id),
      |store, (session, checkpoint)| {
        let stored = store.checkpoint(&session.into(), &checkpoint)?;
        Ok(stored.map(event_loop::readable))
      },
      event_loop::checkpoint,
    )
  }

  /// The newest checkpoint of a session, or `null`.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<Checkpoint | null>")]
  pub fn get_latest_checkpoint<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call_with_store(
      env,
      Failure::Rejects,
      |arguments| arguments.session_id(session_id),
      |store, session| Ok(store.latest_checkpoint(&session.into())?.map(event_loop::readable)),
      event_loop::checkpoint,
    )
  }

  /// Replaces the session and the task tree by those of a checkpoint, in one step: after a crash both are old or both are new.
  ///
  /// The checkpoint is named by `checkpointId` alone, by `sessionId` and `checkpointId`, or as
  /// `session/checkpoint`. Interrupted or failed tasks can be reset to `pending`; `warnings` names each of them.
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
      Failure::RestoreResult,
      |arguments| arguments.restore(options_or_session_id, checkpoint_id, options),
      |store, request| store.restore(&request),
      results::restored,
    )
  }

  /// Deletes a checkpoint. One that does not exist is not a failure. The `code` is `WAYMARK_BUSY` if another process holds the
  /// lock on the checkpoints for longer than `timeoutMs`.
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
    self.call_for_checkpoint(
      env,
      Failure::CheckpointResult,
      (session_id, checkpoint_id),
      |store, session, checkpoint| store.delete_checkpoint(&session.into(), checkpoint),
      results::into::<CheckpointResult, _>,
    )
  }

  /// Stores the result of a task: any value that JSON can hold.
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
      Failure::CheckpointResult,
      |arguments| {
        let ids = (arguments.session_id(session_id)?, arguments.task_id(task_id)?);
        Ok((ids, arguments.json(result, "result")?))
      },
      |store, ((session, task), json)| store.save_task_result(&session, &task, &json.into_string()),
      results::into::<CheckpointResult, _>,
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
    self.call_for_session(
      env,
      Failure::Rejects,
      session_id,
      |store, session| store.usage(session),
      results::into::<SessionStorageStats, _>,
    )
  }
}

fn readable(loaded: Loaded) -> Readable<Loaded> {
  Readable::new(loaded, |loaded| &loaded.text)
}
