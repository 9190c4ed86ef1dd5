//! Results as JavaScript values.
//!
//! `index.d.ts` declares the types with `#[napi(object)]` from here, and their doc comments are its documentation. Results that
//! may be large cross the border as one JSON text, and `types.d.ts` declares them.

use napi::bindgen_prelude::{JsObjectValue, JsValue, Null, Object, ToNapiValue};

use crate::api::convert::engine::{Engine, Kept, Value};
use crate::api::convert::error::to_napi;
use crate::api::convert::text::Readable;
use crate::store::{Damaged, InfoPage, Loaded};
use crate::types::error::{Error, Result};

mod checkpoints;
mod outcomes;
mod sessions;
mod verification;
mod writes;

pub use checkpoints::{checkpoint, difference, with_passed_over};
pub use outcomes::{ConvertResult, ImportResult, copied, exported, forked, recovered, restored};
pub use sessions::{SessionStorageStats, expired, recoverable};
pub use verification::{CheckpointVerification, session_verification};
pub use writes::{CheckpointResult, deleted};

use checkpoints::{DamagedCheckpoint, parse};
use outcomes::{RestoreResult, failed_recovery};

/// How a method reports a failure.
#[derive(Debug, Clone, Copy)]
pub enum Failure {
  /// The promise rejects.
  Rejects,
  /// The promise resolves to a failed `CheckpointResult`.
  CheckpointResult,
  /// The promise resolves to a failed `RestoreResult`; a failed `ForkResult` has the same members.
  RestoreResult,
  /// The promise resolves to a failed `RecoverResult`.
  RecoverResult,
}

impl Failure {
  pub fn settle(self, engine: Engine<'_>, error: Error) -> napi::Result<Value> {
    match self {
      Self::Rejects => Err(to_napi(engine, error)),
      Self::CheckpointResult => engine.value(CheckpointResult::failed(engine, error)?),
      Self::RestoreResult => engine.value(RestoreResult::failed(engine, error)?),
      Self::RecoverResult => failed_recovery(engine, error),
    }
  }
}

/// Converts an outcome of the store to a result type `R`.
pub fn into<R: ToNapiValue + From<T>, T>(engine: Engine<'_>, outcome: T) -> Result<Value> {
  Ok(engine.value(R::from(outcome))?)
}

/// Resolves to `undefined`.
pub fn nothing(engine: Engine<'_>, (): ()) -> Result<Value> {
  Ok(engine.value(())?)
}

/// Resolves to `undefined`, or rejects.
pub fn lifecycle(engine: Engine<'_>, outcome: Result<()>) -> napi::Result<Value> {
  match outcome {
    Ok(()) => engine.value(()),
    Err(error) => Err(to_napi(engine, error)),
  }
}

/// The parsed value, or `null`.
pub fn loaded(engine: Engine<'_>, loaded: Option<Readable<Loaded>>) -> Result<Value> {
  match loaded {
    Some(Readable { stored, wide }) => parse(engine, &stored.text, wide, &stored.path),
    None => null(engine),
  }
}

/// The parsed session, or `null`; with a revision, `{ session, revision }`.
pub fn loaded_session(
  engine: Engine<'_>,
  (session, revision): (Option<Readable<Loaded>>, Option<String>),
) -> Result<Value> {
  let session = loaded(engine, session)?;
  let Some(revision) = revision else {
    return Ok(session);
  };
  let mut result = engine.object()?;
  result.set_named_property("session", session)?;
  result.set_named_property("revision", revision)?;
  Ok(result.to_unknown())
}

/// `null`
pub fn null(engine: Engine<'_>) -> Result<Value> {
  Ok(engine.value(Null)?)
}

/// A `CheckpointList` or an `AgentCheckpointList`.
pub fn checkpoint_list(
  engine: Engine<'_>,
  checkpoints: Vec<Kept>,
  total: usize,
  cursor: Option<String>,
  damaged: Vec<Damaged>,
) -> Result<Value> {
  page(engine, checkpoints, total, cursor, damaged)
}

/// A `CheckpointInfoList`, an `AllCheckpointInfoList` or an `AgentCheckpointInfoList`.
pub fn info_list(engine: Engine<'_>, list: InfoPage) -> Result<Value> {
  let checkpoints = engine.parse(&list.infos)?;
  page(engine, checkpoints, list.total, list.cursor, list.damaged)
}

fn page(
  engine: Engine<'_>,
  checkpoints: impl ToNapiValue,
  total: usize,
  cursor: Option<String>,
  damaged: Vec<Damaged>,
) -> Result<Value> {
  let mut result = engine.object()?;
  result.set_named_property("checkpoints", checkpoints)?;
  result.set_named_property("total", number(total as u64))?;
  if let Some(cursor) = cursor {
    result.set_named_property("cursor", cursor)?;
  }
  result.set_named_property("damaged", damaged_checkpoints(damaged))?;
  Ok(result.to_unknown())
}

fn damaged_checkpoints(damaged: Vec<Damaged>) -> Vec<DamagedCheckpoint> {
  damaged.into_iter().map(DamagedCheckpoint::from).collect()
}

/// An array of strings.
pub fn texts<T: Into<String>>(engine: Engine<'_>, texts: Vec<T>) -> Result<Value> {
  Ok(engine.value(texts.into_iter().map(Into::into).collect::<Vec<String>>())?)
}

pub fn count(engine: Engine<'_>, count: usize) -> Result<Value> {
  Ok(engine.value(number(count as u64))?)
}

/// Parses a JSON text that the store has composed.
pub fn json(engine: Engine<'_>, text: &str) -> Result<Value> {
  Ok(engine.parse(text)?)
}

/// A result type as an object, to which members can be added.
fn object_of(engine: Engine<'_>, result: impl ToNapiValue) -> napi::Result<Object<'static>> {
  engine.value(result)?.coerce_to_object()
}

#[expect(clippy::cast_precision_loss, reason = "sizes beyond 2^53 bytes do not occur")]
pub fn number(count: u64) -> f64 {
  count as f64
}
