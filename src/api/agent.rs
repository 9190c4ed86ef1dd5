//! The checkpoints of one agent.

use std::sync::Arc;

use napi::Env;
use napi_derive::napi;

use crate::api::convert::arguments::Arguments;
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::results::{self, CheckpointResult, CheckpointVerification, Failure};
use crate::api::runtime::call::{enter_and_call, hop};
use crate::api::runtime::event_loop;
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;
use crate::store::{AgentRequest, Damaged, Iteration, OpenStore, Series, Store, StoredCheckpoint};
use crate::types::error::{Code, Error, Result};

#[napi]
impl CheckpointStore {
  /// The checkpoints of one agent of a session, which are separate from those of the session and of its other agents.
  ///
  /// Nothing is read or written yet. If an id is not valid, the methods of the returned object fail.
  #[napi(
    ts_args_type = "sessionId: string, agentId: string",
    ts_return_type = "AgentCheckpoints"
  )]
  pub fn agent(&self, env: &Env, session_id: Value, agent_id: Value) -> napi::Result<AgentCheckpoints> {
    let series = Arguments::new(Engine::new(env)?).agent(session_id, agent_id);
    Ok(AgentCheckpoints {
      store: Arc::clone(&self.inner),
      series: series.map_err(|error| (error.code, error.message)),
    })
  }

  /// The ids of the agents of a session that have checkpoints of their own, sorted.
  #[napi(ts_args_type = "sessionId: string", ts_return_type = "Promise<string[]>")]
  pub fn list_agents<'env>(&self, env: &'env Env, session_id: Value) -> napi::Result<Promise<'env>> {
    self.call_for_session(
      env,
      Failure::Rejects,
      session_id,
      |store, session| store.agents(session),
      results::texts,
    )
  }
}

/// The checkpoints of one agent: see `CheckpointStore.agent()`.
#[napi]
#[derive(Debug)]
pub struct AgentCheckpoints {
  store: Arc<Store>,
  /// If the ids are not valid, the failure that every method reports.
  series: Result<Series, (Code, String)>,
}

#[napi]
impl AgentCheckpoints {
  /// Stores the current state of the agent, and then deletes its oldest checkpoints beyond `maxCheckpointsPerAgent`.
  #[napi(
    ts_args_type = "state: AgentSnapshot, options?: AgentSaveOptions",
    ts_return_type = "Promise<CheckpointResult>"
  )]
  pub fn save<'env>(&self, env: &'env Env, state: Value, options: Value) -> napi::Result<Promise<'env>> {
    let (inner, series) = (Arc::clone(&self.store), self.series.clone());
    self.call(
      env,
      Failure::CheckpointResult,
      move |arguments| {
        let state = arguments.agent_state(state)?;
        let encoding = arguments.agent_encoding(options)?;
        let series = series.map_err(invalid_id)?;
        Ok((inner.ticket(series), state, encoding))
      },
      |store, _, (ticket, state, encoding)| store.save_agent(&ticket, &state.into_state(), encoding),
      |engine, _, created| results::into::<CheckpointResult, _>(engine, created),
    )
  }

  /// The newest whole checkpoint that has not expired, or `null`.
  ///
  /// Its `passedOver` reports damaged ones that are newer. Rejects if all are damaged.
  #[napi(ts_return_type = "Promise<AgentCheckpoint | null>")]
  pub fn latest<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |_| Ok(()),
      |store, series, ()| {
        let search = LatestSearch {
          checkpoints: store.walk_agent(series)?,
          passed_over: Vec::new(),
        };
        Ok(search.next_readable(store))
      },
      latest,
    )
  }

  /// One checkpoint, or `null`. An expired one is returned until it is pruned.
  #[napi(
    ts_args_type = "checkpointId: string",
    ts_return_type = "Promise<AgentCheckpoint | null>"
  )]
  pub fn get<'env>(&self, env: &'env Env, checkpoint_id: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.checkpoint_id(checkpoint_id),
      |store, series, id| store.verified_in_any_encoding(series, &id),
      |engine, _, stored| match stored {
        Some(stored) => results::checkpoint(engine, &stored, None),
        None => results::null(engine),
      },
    )
  }

  /// Complete checkpoints that have not expired: newest first, or by their iteration, lowest first.
  #[napi(
    ts_args_type = "options?: AgentListOptions",
    ts_return_type = "Promise<AgentCheckpointList>"
  )]
  pub fn list<'env>(&self, env: &'env Env, options: Value) -> napi::Result<Promise<'env>> {
    self.paged(
      env,
      options,
      |store, request| store.list_agent(request),
      event_loop::checkpoint_list,
    )
  }

  /// The same list without the payloads: messages, tool calls and other large members are not read.
  #[napi(
    ts_args_type = "options?: AgentListOptions",
    ts_return_type = "Promise<AgentCheckpointInfoList>"
  )]
  pub fn info<'env>(&self, env: &'env Env, options: Value) -> napi::Result<Promise<'env>> {
    self.paged(
      env,
      options,
      |store, request| store.agent_page(request),
      |engine, _, page| results::info_list(engine, page.into()),
    )
  }

  /// Whether the agent has a checkpoint that has not expired.
  #[napi(ts_return_type = "Promise<boolean>")]
  pub fn has<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |_| Ok(()),
      |store, series, ()| store.has_agent_checkpoint(series),
      |engine, _, has| Ok(engine.value(has)?),
    )
  }

  /// Deletes expired checkpoints, and all others but the newest `keep`. Resolves to the number of deleted checkpoints.
  #[napi(ts_args_type = "keep: number", ts_return_type = "Promise<number>")]
  pub fn prune<'env>(&self, env: &'env Env, keep: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.required_count(keep, "keep"),
      |store, series, keep| store.prune_agent(series, keep),
      |engine, _, count| results::count(engine, count),
    )
  }

  /// Deletes all checkpoints of the agent. Resolves to the number of deleted checkpoints.
  #[napi(ts_return_type = "Promise<number>")]
  pub fn clear<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |_| Ok(()),
      |store, series, ()| store.delete_checkpoints(series),
      |engine, _, count| results::count(engine, count),
    )
  }

  /// Deletes a checkpoint. One that does not exist is not a failure. The `code` is `WAYMARK_BUSY` if another process holds the
  /// lock on the checkpoints for longer than `timeoutMs`.
  #[napi(ts_args_type = "checkpointId: string", ts_return_type = "Promise<CheckpointResult>")]
  pub fn delete<'env>(&self, env: &'env Env, checkpoint_id: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::CheckpointResult,
      |arguments| arguments.checkpoint_id(checkpoint_id),
      |store, series, id| store.delete_checkpoint(series, &id),
      |engine, _, ()| results::into::<CheckpointResult, _>(engine, ()),
    )
  }

  /// Verifies a checkpoint. Rejects with `WAYMARK_NOT_FOUND` if it does not exist.
  #[napi(
    ts_args_type = "checkpointId: string",
    ts_return_type = "Promise<CheckpointVerification>"
  )]
  pub fn verify<'env>(&self, env: &'env Env, checkpoint_id: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.checkpoint_id(checkpoint_id),
      |store, series, id| store.verify_checkpoint(series, &id),
      |engine, _, checkpoint| results::into::<CheckpointVerification, _>(engine, checkpoint),
    )
  }
}

impl AgentCheckpoints {
  fn call<'env, A: Send + 'static, T: Send + 'static>(
    &self,
    env: &'env Env,
    failure: Failure,
    read: impl FnOnce(Arguments<'env>) -> Result<A>,
    work: impl FnOnce(&OpenStore, &Series, A) -> Result<T> + Send + 'static,
    convert: impl FnOnce(Engine<'_>, OpenStore, T) -> Result<Value> + Send + 'static,
  ) -> napi::Result<Promise<'env>> {
    let series = self.series.clone().map_err(invalid_id);
    enter_and_call(
      env,
      &self.store,
      failure,
      |arguments| Ok((series?, read(arguments)?)),
      |store, (series, arguments)| work(store, &series, arguments),
      convert,
    )
  }

  fn paged<'env, T: Send + 'static>(
    &self,
    env: &'env Env,
    options: Value,
    work: impl FnOnce(&OpenStore, &AgentRequest) -> Result<T> + Send + 'static,
    convert: impl FnOnce(Engine<'_>, OpenStore, T) -> Result<Value> + Send + 'static,
  ) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.agent_list(options),
      |store, series, (order, limit, cursor)| {
        let request = AgentRequest {
          series: series.clone(),
          order,
          limit,
          cursor,
        };
        work(store, &request)
      },
      convert,
    )
  }
}

fn invalid_id((code, message): (Code, String)) -> Error {
  Error::new(code, message)
}

/// A search for the newest whole checkpoint.
struct LatestSearch {
  checkpoints: Iteration,
  passed_over: Vec<Damaged>,
}

impl LatestSearch {
  /// Reads on to the next checkpoint whose bytes are undamaged. Whether the engine can parse it is not known yet.
  fn next_readable(mut self, store: &OpenStore) -> (Self, Option<StoredCheckpoint>) {
    loop {
      match store.next_of(&mut self.checkpoints) {
        Some(Ok(stored)) => return (self, Some(stored)),
        Some(Err(damaged)) => self.passed_over.push(damaged),
        None => return (self, None),
      }
    }
  }
}

/// Converts the outcome of a search; if the engine cannot parse the checkpoint, continues the search.
fn latest(
  engine: Engine<'_>,
  store: OpenStore,
  (mut search, stored): (LatestSearch, Option<StoredCheckpoint>),
) -> Result<Value> {
  let Some(stored) = stored else {
    return match search.passed_over.into_iter().next() {
      None => results::null(engine),
      Some(newest) => Err(*newest.error),
    };
  };
  match results::checkpoint(engine, &stored, None) {
    Ok(checkpoint) => results::with_passed_over(checkpoint, search.passed_over),
    Err(error) => {
      search.passed_over.push(stored.into_damaged(error));
      let promise = hop(
        engine.env(),
        store,
        Failure::Rejects,
        move |store| Ok(search.next_readable(store)),
        latest,
      )?;
      Ok(engine.value(promise)?)
    }
  }
}
