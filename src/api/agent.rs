//! The checkpoints of one agent.

use std::sync::Arc;

use napi::Env;
use napi_derive::napi;

use crate::api::convert::arguments::Arguments;
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::results::{self, Failure};
use crate::api::runtime::call::{enter_and_call, hop};
use crate::api::runtime::event_loop;
use crate::api::runtime::promise::Promise;
use crate::api::store::CheckpointStore;
use crate::backend::Series;
use crate::store::{AgentRequest, Damaged, Iteration, OpenStore, Store, StoredCheckpoint};
use crate::types::error::{Error, Result};

#[napi]
impl CheckpointStore {
  /// The checkpoints of one agent of a session: apart from those of the session, and from those of its other agents.
  ///
  /// Touches nothing yet; ids that cannot be file names make its methods fail.
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
    self.call(
      env,
      Failure::Rejects,
      |arguments| arguments.session_id(session_id),
      |store, session| store.agents(&session),
      |engine, agents| results::texts(engine, agents.into_iter().map(String::from)),
    )
  }
}

/// The checkpoints of one agent: see `CheckpointStore.agent()`.
#[napi]
#[derive(Debug)]
pub struct AgentCheckpoints {
  store: Arc<Store>,
  /// Whose they are; or why nobody can have them, which every method says.
  series: std::result::Result<Series, (crate::types::error::Code, String)>,
}

#[napi]
impl AgentCheckpoints {
  /// Stores the state of the agent as it is at this moment, then removes its oldest checkpoints beyond the limit.
  #[napi(
    ts_args_type = "state: AgentSnapshot, options?: AgentSaveOptions",
    ts_return_type = "Promise<CheckpointResult>"
  )]
  pub fn save<'env>(&self, env: &'env Env, state: Value, options: Value) -> napi::Result<Promise<'env>> {
    let (inner, series) = (Arc::clone(&self.store), self.series.clone());
    self.call(
      env,
      Failure::IsReported,
      move |arguments| {
        let state = arguments.agent_state(state)?;
        let encoding = arguments.agent_encoding(options)?;
        let series = series.map_err(|(code, message)| Error::new(code, message))?;
        Ok((inner.ticket(series), state, encoding))
      },
      |store, _, (ticket, state, encoding)| store.save_agent(&ticket, &state.into_state(), encoding),
      |engine, _, created| results::created(engine, created),
    )
  }

  /// The newest checkpoint that is whole and has not expired, or `null`.
  ///
  /// Damaged ones that are newer are named in its `passedOver`. Rejects if there are only damaged ones.
  #[napi(ts_return_type = "Promise<AgentCheckpoint | null>")]
  pub fn latest<'env>(&self, env: &'env Env) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::Rejects,
      |_| Ok(()),
      |store, series, ()| {
        let walk = store.walk_agent(series)?;
        Ok(
          Search {
            walk,
            passed_over: Vec::new(),
          }
          .go_on(store),
        )
      },
      found,
    )
  }

  /// One checkpoint, or `null`; one that has expired is still there for who knows its id, until it is pruned.
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
        Some(mut stored) => results::checkpoint(engine, &mut stored, None),
        None => results::null(engine),
      },
    )
  }

  /// Whole checkpoints that have not expired: the newest first, or by the number of their iteration, the first one first.
  #[napi(
    ts_args_type = "options?: AgentListOptions",
    ts_return_type = "Promise<AgentCheckpointList>"
  )]
  pub fn list<'env>(&self, env: &'env Env, options: Value) -> napi::Result<Promise<'env>> {
    self.paged(
      env,
      options,
      |store, request| store.list_agent(request),
      event_loop::page,
    )
  }

  /// The same list without messages, tool calls and all else that may be large: nothing of it is read.
  #[napi(
    ts_args_type = "options?: AgentListOptions",
    ts_return_type = "Promise<AgentCheckpointInfoList>"
  )]
  pub fn info<'env>(&self, env: &'env Env, options: Value) -> napi::Result<Promise<'env>> {
    self.paged(
      env,
      options,
      |store, request| store.agent_page(request),
      |engine, _, page| results::info_page(engine, page.into()),
    )
  }

  /// Whether there is a checkpoint that has not expired.
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

  /// Removes what has expired, and all but the newest `keep` of the rest. Resolves to how many went.
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

  /// Removes all checkpoints of the agent. Resolves to how many went.
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

  /// Removes a checkpoint. One that does not exist is no failure; `code` is `WAYMARK_BUSY` if another process holds the lock on the
  /// checkpoints for longer than `timeoutMs`.
  #[napi(ts_args_type = "checkpointId: string", ts_return_type = "Promise<CheckpointResult>")]
  pub fn delete<'env>(&self, env: &'env Env, checkpoint_id: Value) -> napi::Result<Promise<'env>> {
    self.call(
      env,
      Failure::IsReported,
      |arguments| arguments.checkpoint_id(checkpoint_id),
      |store, series, id| store.delete_checkpoint(series, &id),
      |engine, _, ()| results::done(engine, ()),
    )
  }

  /// Says whether a checkpoint is whole. Rejects with `WAYMARK_NOT_FOUND` if there is none of that id.
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
      |engine, _, checkpoint| results::verification(engine, checkpoint),
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
    let series = self.series.clone().map_err(|(code, message)| Error::new(code, message));
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

/// A search for the newest whole checkpoint.
struct Search {
  walk: Iteration,
  passed_over: Vec<Damaged>,
}

impl Search {
  /// The next one that its bytes do not condemn.
  fn go_on(mut self, store: &OpenStore) -> (Self, Option<StoredCheckpoint>) {
    loop {
      match store.next_of(&mut self.walk) {
        Some(Ok(stored)) => return (self, Some(stored)),
        Some(Err(damaged)) => self.passed_over.push(damaged),
        None => return (self, None),
      }
    }
  }
}

fn found(
  engine: Engine<'_>,
  store: OpenStore,
  (mut search, stored): (Search, Option<StoredCheckpoint>),
) -> Result<Value> {
  let Some(mut stored) = stored else {
    return match search.passed_over.into_iter().next() {
      None => results::null(engine),
      Some(newest) => Err(*newest.error),
    };
  };
  match results::checkpoint(engine, &mut stored, None) {
    Ok(checkpoint) => results::with_passed_over(engine, checkpoint, search.passed_over),
    Err(error) => {
      search.passed_over.push(stored.into_damaged(error));
      let again = hop(
        engine.env(),
        store,
        Failure::Rejects,
        move |store| Ok(search.go_on(store)),
        found,
      )?;
      Ok(engine.value(again)?)
    }
  }
}
