//! Answers that take the engine long: each checkpoint is parsed in a turn of the event loop of its own, and checked on
//! another thread in the meantime.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::Env;

use crate::api::convert::engine::{Engine, Kept, Value};
use crate::api::convert::error::to_napi;
use crate::api::convert::results::{self, Failure};
use crate::api::convert::text::Readable;
use crate::api::runtime::call::hop;
use crate::api::runtime::promise::{off_thread, promise};
use crate::backend::{CheckpointEntry, Series};
use crate::store::{CheckpointList, Damaged, OpenStore, StoredCheckpoint};
use crate::types::error::{Error, Result};

/// A checkpoint on its way into the engine.
pub type ReadableCheckpoint = Readable<StoredCheckpoint>;

/// Takes as long as the text, so not on the JavaScript thread.
pub fn readable(stored: StoredCheckpoint) -> ReadableCheckpoint {
  Readable::new(stored, |stored| &stored.text)
}

/// The parsed checkpoint, or `null`. One that was not checked yet is checked while it is parsed.
pub fn checkpoint(engine: Engine<'_>, store: OpenStore, read: Option<ReadableCheckpoint>) -> Result<Value> {
  let Some(Readable { stored, wide }) = read else {
    return results::null(engine);
  };
  if stored.is_verified {
    return results::checkpoint(engine, &stored, wide);
  }
  let stored = Arc::new(stored);
  // Filled below, before the engine can come to anything else.
  let parsed: Arc<Mutex<Option<Result<Kept>>>> = Arc::default();
  let (checked, slot) = (Arc::clone(&stored), Arc::clone(&parsed));
  let answer = hop(
    engine.env(),
    store,
    Failure::Rejects,
    move |_| {
      let verified = checked.verified_text().map(drop);
      Ok((checked, verified))
    },
    move |engine, _, (stored, verified)| {
      let kept = lock(&slot).take();
      match (verified, kept) {
        (Ok(()), Some(kept)) => Ok(engine.value(kept?)?),
        (Ok(()), None) => results::checkpoint(engine, &stored, None),
        (Err(error), kept) => {
          if let Some(Ok(kept)) = kept {
            engine.release(kept);
          }
          Err(error)
        }
      }
    },
  )?;
  // Nothing may come between the caller and this promise.
  let answer = engine.value(answer)?;
  let value = results::checkpoint(engine, &stored, wide).and_then(|value| Ok(Engine::keep(value)?));
  *lock(&parsed) = Some(value);
  Ok(answer)
}

/// A `CheckpointList`, one checkpoint a turn. The next is read while this one is parsed.
pub fn page(engine: Engine<'_>, store: OpenStore, list: CheckpointList) -> Result<Value> {
  let (promise, resolve) = promise(engine.env(), move |engine, outcome: Result<Gathered>| {
    let page = outcome.and_then(|all| match all.failure {
      None => results::page(engine, all.checkpoints, list.total, list.cursor, all.damaged),
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
  /// Why there will be no page.
  failure: Option<Error>,
}

struct Page {
  gathered: Gathered,
  /// Taken when the answer is given.
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

/// What a turn hands to the next.
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
    let begun = off_thread(
      &env,
      move || {
        let read = self.read_next();
        Ok((self, read))
      },
      move |engine, outcome| {
        // Nobody looks at the promise of a single turn: everything goes to the one that the caller has.
        match outcome {
          Ok((turns, Some(stored))) => {
            // The next one is on its way before this one is parsed.
            turns.next(*engine.env());
            let mut page = lock(&page_of_turn);
            if let Err(error) = page.add(engine, stored) {
              page.finish(Err(error));
            }
          }
          Ok((_, None)) => lock(&page_of_turn).finish(Ok(())),
          Err(error) => lock(&page_of_turn).finish(Err(error)),
        }
        engine.value(())
      },
    );
    if let Err(error) = begun {
      lock(&page).finish(Err(error.into()));
    }
  }

  /// The next one that is still there.
  fn read_next(&mut self) -> Option<Result<ReadableCheckpoint, Damaged>> {
    loop {
      let entry = self.waiting.pop_front()?;
      if let Some(read) = self.store.read_entry(&self.series, &entry) {
        return Some(read.map(readable));
      }
    }
  }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
  shared.lock().unwrap_or_else(PoisonError::into_inner)
}
