//! Stored checkpoints as JavaScript values.

use napi::ValueType;
use napi::bindgen_prelude::{JsObjectValue, JsValue, Uint8Array, Utf16String};
use napi_derive::napi;

use super::{damaged_checkpoints, number};
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::text::Readable;
use crate::checkpoint::agent::CONTEXT;
use crate::checkpoint::document::LABEL;
use crate::store::{Damaged, StoredCheckpoint, check_length};
use crate::types::error::{Error, Result};

/// A checkpoint that exists, but cannot be read or is not what the store wrote.
#[napi(object, object_from_js = false)]
pub struct DamagedCheckpoint {
  pub id: String,
  pub path: String,
  /// When it was created, by its id, or else by the time of its file. Absent if neither is known.
  pub timestamp: Option<f64>,
  /// The message of the failure, for people.
  pub error: String,
  /// The code of the failure, for programs.
  #[napi(ts_type = "WaymarkErrorCode")]
  pub code: &'static str,
}

impl From<Damaged> for DamagedCheckpoint {
  fn from(damaged: Damaged) -> Self {
    Self {
      id: damaged.id.into(),
      path: damaged.path,
      timestamp: damaged.made_at.map(|time| number(time.as_millis())),
      error: damaged.error.message,
      code: damaged.error.code.as_str(),
    }
  }
}

/// Adds `passedOver` to a checkpoint, if damaged ones are newer.
pub fn with_passed_over(checkpoint: Value, passed_over: Vec<Damaged>) -> Result<Value> {
  if !passed_over.is_empty() {
    let mut object = checkpoint.coerce_to_object()?;
    object.set_named_property("passedOver", damaged_checkpoints(passed_over))?;
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

/// A `Checkpoint` or an `AgentCheckpoint`. The caller verifies the checksums.
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

/// A `CheckpointDiff`.
pub fn difference(engine: Engine<'_>, difference: Readable<String>) -> Result<Value> {
  let Readable { stored, wide } = difference;
  parse(engine, &stored, wide, "The difference")
}
