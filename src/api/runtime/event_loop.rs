//! Results whose conversion takes long: each checkpoint is parsed in its own turn of the event loop, while a worker thread
//! verifies it or reads the next one.

use std::collections::VecDeque;
use std::sync::Arc;

use napi::Env;
use parking_lot::Mutex;

use crate::api::convert::engine::{Engine, Kept, Value};
use crate::api::convert::error::to_napi;
use crate::api::convert::results::{self, Failure};
use crate::api::convert::text::Readable;
use crate::api::runtime::call::hop;
use crate::api::runtime::promise::{off_thread, promise};
use crate::store::{CheckpointEntry, CheckpointList, Damaged, OpenStore, Series, StoredCheckpoint};
use crate::types::error::{Error, Result};

/// A checkpoint that is ready to be parsed.
pub type ReadableCheckpoint = Readable<StoredCheckpoint>;

/// Takes time in proportion to the text: call it on a worker thread.
pub fn readable(stored: StoredCheckpoint) -> ReadableCheckpoint {
  Readable::new(stored, |stored| &stored.text)
}

/// The parsed checkpoint, or `null`. If it is not verified yet, a worker thread verifies it while it is parsed.
pub fn checkpoint(engine: Engine<'_>, store: OpenStore, read: Option<ReadableCheckpoint>) -> Result<Value> {
  let Some(Readable { stored, wide }) = read else {
    return results::null(engine);
  };
  if stored.is_verified {
    return results::checkpoint(engine, &stored, wide);
  }
  let stored = Arc::new(stored);
  // Set below, in this turn of the event loop: before the promise can be settled.
  let parsed: Arc<Mutex<Option<Result<Kept>>>> = Arc::default();
  let (unverified, slot) = (Arc::clone(&stored), Arc::clone(&parsed));
  let promise = hop(
    engine.env(),
    store,
    Failure::Rejects,
    move |_| {
      let verified = unverified.verified_form();
      Ok((unverified, verified))
    },
    move |engine, _, (stored, verified)| {
      let kept = slot.lock().take();
      match (verified, kept) {
        (Ok(None), Some(kept)) => Ok(engine.value(kept?)?),
        (Ok(None), None) => results::checkpoint(engine, &stored, None),
        (verified, kept) => {
          if let Some(Ok(kept)) = kept {
            engine.release(kept);
          }
          results::checkpoint(engine, verified?.as_ref().unwrap_or(&stored), None)
        }
      }
    },
  )?;
  // From here on errors are reported through the promise.
  let promise = engine.value(promise)?;
  let value = results::checkpoint(engine, &stored, wide).and_then(|value| Ok(Engine::keep(value)?));
  *parsed.lock() = Some(value);
  Ok(promise)
}

/// A `CheckpointList`, parsed one checkpoint per turn of the event loop. A worker thread reads the next one meanwhile.
pub fn checkpoint_list(engine: Engine<'_>, store: OpenStore, list: CheckpointList) -> Result<Value> {
  let (promise, resolve) = promise(engine.env(), move |engine, outcome: Result<Gathered>| {
    let page = outcome.and_then(|all| match all.failure {
      None => results::checkpoint_list(engine, all.checkpoints, list.total, list.cursor, all.damaged),
      Some(error) => {
        all.checkpoints.into_iter().for_each(|kept| engine.release(kept));
        Err(error)
      }
    });
    page.map_err(|error| to_napi(engine, error))
  })?;
  let turns = Turns {
    store,
    series: list.series,
    waiting: list.entries.into(),
    page: Arc::new(Mutex::new(Page {
      gathered: Gathered {
        damaged: list.damaged,
        ..Gathered::default()
      },
      resolve: Some(Box::new(resolve)),
    })),
  };
  turns.next(*engine.env());
  Ok(engine.value(promise)?)
}

#[derive(Default)]
struct Gathered {
  checkpoints: Vec<Kept>,
  damaged: Vec<Damaged>,
  /// The reason why there is no page.
  failure: Option<Error>,
}

struct Page {
  gathered: Gathered,
  /// Settles the promise of the caller; `None` afterwards.
  resolve: Option<Box<dyn FnOnce(Result<Gathered>) + Send>>,
}

impl Page {
  fn add(&mut self, engine: Engine<'_>, read: Result<ReadableCheckpoint, Damaged>) -> Result<()> {
    let parsed = read.and_then(|Readable { stored, wide }| {
      let parsed = results::checkpoint(engine, &stored, wide);
      parsed.map_err(|error| stored.into_damaged(error))
    });
    match parsed {
      Ok(checkpoint) => self.gathered.checkpoints.push(Engine::keep(checkpoint)?),
      Err(damaged) => self.gathered.damaged.push(damaged),
    }
    Ok(())
  }

  fn finish(&mut self, outcome: Result<()>) {
    if let Some(resolve) = self.resolve.take() {
      let failure = outcome.err();
      resolve(Ok(Gathered {
        failure,
        ..std::mem::take(&mut self.gathered)
      }));
    }
  }
}

/// The state that each turn passes to the next.
struct Turns {
  store: OpenStore,
  series: Series,
  waiting: VecDeque<CheckpointEntry>,
  page: Arc<Mutex<Page>>,
}

impl Turns {
  fn next(mut self, env: Env) {
    let page = Arc::clone(&self.page);
    let page_of_turn = Arc::clone(&self.page);
    let started = off_thread(
      &env,
      move || {
        let read = self.read_next();
        Ok((self, read))
      },
      move |engine, outcome| {
        // The promise of a turn is not observed: all outcomes go to the promise of the caller.
        match outcome {
          Ok((turns, Some(stored))) => {
            // Start the next read before this checkpoint is parsed.
            turns.next(*engine.env());
            let mut page = page_of_turn.lock();
            if let Err(error) = page.add(engine, stored) {
              page.finish(Err(error));
            }
          }
          Ok((_, None)) => page_of_turn.lock().finish(Ok(())),
          Err(error) => page_of_turn.lock().finish(Err(error)),
        }
        engine.value(())
      },
    );
    if let Err(error) = started {
      page.lock().finish(Err(error.into()));
    }
  }

  /// The next checkpoint that was not deleted meanwhile.
  fn read_next(&mut self) -> Option<Result<ReadableCheckpoint, Damaged>> {
    loop {
      let entry = self.waiting.pop_front()?;
      if let Some(read) = self.store.read_entry(&self.series, &entry) {
        return Some(read.map(readable));
      }
    }
  }
}
