//! Answers, back on the JavaScript thread.

use napi::bindgen_prelude::{JsObjectValue, JsValue, Null, Object};

use crate::api::convert::engine::{Engine, Kept, Value};
use crate::api::convert::error::{cause_to_js, to_napi};
use crate::api::convert::text::Readable;
use crate::backend::Usage;
use crate::store::{Created, Damaged, InfoPage, Loaded, Saved, SavedSession};
use crate::types::error::{Current, Error, Result};

mod checkpoints;
mod outcomes;

use checkpoints::parse;
pub use checkpoints::{checkpoint, difference, session_report, verification, with_passed_over};
pub use outcomes::{converted, copied, expired, exported, forked, imported, recoverable, recovered, restored};

/// How a method answers when it fails.
#[derive(Debug, Clone, Copy)]
pub enum Failure {
  /// The promise rejects.
  Rejects,
  /// The promise resolves to `{ success: false, error, code }`.
  IsReported,
  /// The same, with the counts of a `RestoreResult`.
  IsReportedWithCounts,
  /// The same, with the list of a `RecoverResult`.
  IsReportedOfRecovery,
}

impl Failure {
  pub fn settle(self, engine: Engine<'_>, error: Error) -> napi::Result<Value> {
    if let Self::Rejects = self {
      return Err(to_napi(engine, error));
    }
    let mut result = engine.object()?;
    result.set_named_property("success", false)?;
    if let Self::IsReportedWithCounts | Self::IsReportedOfRecovery = self {
      result.set_named_property("restoredTasks", 0)?;
      result.set_named_property("restoredAgents", 0)?;
      result.set_named_property("warnings", Vec::<String>::new())?;
    }
    if let Self::IsReportedOfRecovery = self {
      result.set_named_property("passedOver", Vec::<String>::new())?;
    }
    result.set_named_property("error", error.message.as_str())?;
    result.set_named_property("code", error.code.as_str())?;
    if let Some(Current(current)) = error.current {
      result.set_named_property("current", current)?;
    }
    if let Some(cause) = error.cause {
      result.set_named_property("cause", cause_to_js(engine, cause)?)?;
    }
    Ok(result.to_unknown())
  }
}

/// `undefined`
pub fn nothing(engine: Engine<'_>, (): ()) -> Result<Value> {
  Ok(engine.value(())?)
}

/// `undefined`, or a rejection.
pub fn lifecycle(engine: Engine<'_>, outcome: Result<()>) -> napi::Result<Value> {
  match outcome {
    Ok(()) => engine.value(()),
    Err(error) => Err(to_napi(engine, error)),
  }
}

/// `{ success: true }`
pub fn done(engine: Engine<'_>, (): ()) -> Result<Value> {
  Ok(success(engine)?.to_unknown())
}

fn success(engine: Engine<'_>) -> napi::Result<Object<'static>> {
  let mut result = engine.object()?;
  result.set_named_property("success", true)?;
  Ok(result)
}

/// `{ success: true }`, with a warning if something was left behind.
pub fn deleted(engine: Engine<'_>, left: Option<Error>) -> Result<Value> {
  let mut result = success(engine)?;
  if let Some(left) = left {
    result.set_named_property("warnings", vec![left.message])?;
  }
  Ok(result.to_unknown())
}

pub fn saved(engine: Engine<'_>, saved: Saved) -> Result<Value> {
  Ok(saved_object(engine, saved)?.to_unknown())
}

fn saved_object(engine: Engine<'_>, saved: Saved) -> Result<Object<'static>> {
  let mut result = success(engine)?;
  result.set_named_property("path", saved.path)?;
  result.set_named_property("sizeBytes", number(saved.size_bytes))?;
  Ok(result)
}

/// The same, with the revision.
pub fn saved_session(engine: Engine<'_>, saved: SavedSession) -> Result<Value> {
  let mut result = saved_object(engine, saved.saved)?;
  result.set_named_property("revision", saved.revision)?;
  Ok(result.to_unknown())
}

pub fn created(engine: Engine<'_>, created: Created) -> Result<Value> {
  let mut result = success(engine)?;
  result.set_named_property("checkpointId", created.id.as_str())?;
  result.set_named_property("path", created.path)?;
  result.set_named_property("sizeBytes", number(created.size_bytes))?;
  if !created.warnings.is_empty() {
    result.set_named_property("warnings", created.warnings)?;
  }
  Ok(result.to_unknown())
}

/// The parsed value, or `null`.
pub fn loaded(engine: Engine<'_>, loaded: Option<Readable<Loaded>>) -> Result<Value> {
  match loaded {
    Some(Readable { stored, wide }) => parse(engine, &stored.text, wide, &stored.path),
    None => null(engine),
  }
}

/// The same; with a revision, `{ session, revision }`.
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

/// A `CheckpointList`.
pub fn page(
  engine: Engine<'_>,
  checkpoints: Vec<Kept>,
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
  result.set_named_property("damaged", damage_reports(engine, damaged)?)?;
  Ok(result.to_unknown())
}

/// A `CheckpointInfoList`.
pub fn info_page(engine: Engine<'_>, page: InfoPage) -> Result<Value> {
  let mut result = engine.object()?;
  result.set_named_property("checkpoints", engine.parse(&page.infos)?)?;
  result.set_named_property("total", number(page.total as u64))?;
  if let Some(cursor) = page.cursor {
    result.set_named_property("cursor", cursor)?;
  }
  result.set_named_property("damaged", damage_reports(engine, page.damaged)?)?;
  Ok(result.to_unknown())
}

fn damage_reports(engine: Engine<'_>, damaged: Vec<Damaged>) -> Result<Vec<Object<'static>>> {
  damaged
    .into_iter()
    .map(|damage| damage_report(engine, damage))
    .collect()
}

fn damage_report(engine: Engine<'_>, damage: Damaged) -> Result<Object<'static>> {
  let mut report = engine.object()?;
  report.set_named_property("id", damage.id.as_str())?;
  report.set_named_property("path", damage.path)?;
  if let Some(made_at) = damage.made_at {
    report.set_named_property("timestamp", number(made_at))?;
  }
  report.set_named_property("error", damage.error.message)?;
  report.set_named_property("code", damage.error.code.as_str())?;
  Ok(report)
}

/// A list of strings.
pub fn texts(engine: Engine<'_>, texts: impl Iterator<Item = String>) -> Result<Value> {
  Ok(engine.value(texts.collect::<Vec<_>>())?)
}

pub fn count(engine: Engine<'_>, count: usize) -> Result<Value> {
  Ok(engine.value(number(count as u64))?)
}

/// A JSON text of ours.
pub fn json(engine: Engine<'_>, text: &str) -> Result<Value> {
  Ok(engine.parse(text)?)
}

pub fn usage(engine: Engine<'_>, usage: &Usage) -> Result<Value> {
  let mut result = engine.object()?;
  result.set_named_property("totalSizeBytes", number(usage.total_bytes))?;
  result.set_named_property("checkpointCount", number(usage.checkpoints))?;
  result.set_named_property("resultCount", number(usage.results))?;
  Ok(result.to_unknown())
}

#[expect(clippy::cast_precision_loss, reason = "sizes beyond 2^53 bytes do not occur")]
pub fn number(count: u64) -> f64 {
  count as f64
}
