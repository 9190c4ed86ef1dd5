//! Stored checkpoints as JavaScript values, and the results of verifying and comparing them.

use napi::ValueType;
use napi::bindgen_prelude::{JsObjectValue, JsValue, Uint8Array, Utf16String};

use super::{damage_report, damage_reports, number};
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::text::Readable;
use crate::checkpoint::agent::CONTEXT;
use crate::checkpoint::document::LABEL;
use crate::store::{Damaged, SessionReport, StoredCheckpoint, check_length};
use crate::types::error::{Error, Result};

/// Adds `passedOver` to a checkpoint, if damaged ones are newer.
pub fn with_passed_over(engine: Engine<'_>, checkpoint: Value, passed_over: Vec<Damaged>) -> Result<Value> {
  if !passed_over.is_empty() {
    let reports = damage_reports(engine, passed_over)?;
    checkpoint
      .coerce_to_object()?
      .set_named_property("passedOver", reports)?;
  }
  Ok(checkpoint)
}

/// Parses a stored text. `wide` is the same text in UTF-16.
pub(super) fn parse(engine: Engine<'_>, text: &str, wide: Option<Utf16String>, path: &str) -> Result<Value> {
  check_length(text, path)?;
  let parsed = match wide {
    Some(wide) => engine.parse_wide(wide),
    None => engine.parse(text),
  };
  parsed.map_err(|error| Error::corrupt(path, &error.reason).because(error))
}

/// A `Checkpoint`. Its checksums are verified elsewhere.
pub fn checkpoint(engine: Engine<'_>, stored: &StoredCheckpoint, wide: Option<Utf16String>) -> Result<Value> {
  let value = parse(engine, &stored.text, wide, &stored.path)?;
  if !matches!(value.get_type(), Ok(ValueType::Object)) {
    return Err(Error::corrupt(&stored.path, "it holds no checkpoint"));
  }
  let mut checkpoint = value.coerce_to_object()?;
  checkpoint.set_named_property("sizeBytes", number(stored.size_bytes))?;
  match stored.label.as_deref() {
    None => {}
    Some("null") => drop(checkpoint.delete_named_property(LABEL)?),
    Some(literal) => checkpoint.set_named_property(LABEL, engine.parse(literal)?)?,
  }
  if let Some(bytes) = &stored.context {
    checkpoint.set_named_property(CONTEXT, Uint8Array::from(bytes.as_slice()))?;
  }
  Ok(value)
}

/// A `CheckpointVerification`.
pub fn verification(engine: Engine<'_>, checkpoint: Result<StoredCheckpoint, Damaged>) -> Result<Value> {
  match checkpoint {
    Ok(stored) => {
      let mut report = engine.object()?;
      report.set_named_property("id", stored.id.as_str())?;
      report.set_named_property("path", stored.path)?;
      report.set_named_property("sizeBytes", number(stored.size_bytes))?;
      report.set_named_property("whole", true)?;
      Ok(report.to_unknown())
    }
    Err(damage) => {
      let mut report = damage_report(engine, damage)?;
      report.set_named_property("whole", false)?;
      Ok(report.to_unknown())
    }
  }
}

/// A `SessionVerification`.
pub fn session_report(engine: Engine<'_>, report: SessionReport) -> Result<Value> {
  let mut is_whole = true;
  let mut checkpoints = Vec::new();
  for checkpoint in report.checkpoints {
    is_whole &= checkpoint.is_ok();
    checkpoints.push(verification(engine, checkpoint)?);
  }
  let mut agents = Vec::new();
  for (agent, of_agent) in report.agents {
    for checkpoint in of_agent {
      is_whole &= checkpoint.is_ok();
      let mut report = verification(engine, checkpoint)?.coerce_to_object()?;
      report.set_named_property("agentId", agent.as_str())?;
      agents.push(report);
    }
  }
  let mut files = Vec::new();
  for file in report.files {
    let mut entry = engine.object()?;
    entry.set_named_property("path", file.path)?;
    entry.set_named_property("whole", file.damage.is_none())?;
    if let Some(damage) = file.damage {
      is_whole = false;
      entry.set_named_property("error", damage.message)?;
      entry.set_named_property("code", damage.code.as_str())?;
    }
    files.push(entry);
  }
  let mut result = engine.object()?;
  result.set_named_property("sessionId", String::from(report.session))?;
  result.set_named_property("whole", is_whole)?;
  result.set_named_property("checkpoints", checkpoints)?;
  result.set_named_property("agentCheckpoints", agents)?;
  result.set_named_property("files", files)?;
  Ok(result.to_unknown())
}

/// A `CheckpointDiff`.
pub fn difference(engine: Engine<'_>, difference: Readable<String>) -> Result<Value> {
  let Readable { stored, wide } = difference;
  parse(engine, &stored, wide, "The difference")
}
