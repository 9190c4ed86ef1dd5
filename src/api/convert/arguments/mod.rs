//! Arguments of calls, read and checked on the event loop. Every error message names the argument and its value.

use napi::ValueType;
use napi::bindgen_prelude::JsValue;

use crate::api::convert::engine::{Engine, Value, number_of, text_of};
use crate::api::convert::error::{not_serializable, unreadable};
use crate::api::convert::text::Text;
use crate::types::error::{Error, Result};
use crate::types::id::{CheckpointId, SessionId, TaskId};

mod across;
mod agent;
mod checkpoint;
mod options;
mod requests;
mod retention;

pub use requests::IterationArguments;

const TRIGGERS: [&str; 4] = ["auto", "manual", "error", "milestone"];

/// Reads the arguments of one call.
#[derive(Clone, Copy)]
pub struct Arguments<'env> {
  engine: Engine<'env>,
}

impl<'env> Arguments<'env> {
  pub fn new(engine: Engine<'env>) -> Self {
    Self { engine }
  }

  pub fn session_id(self, value: Value) -> Result<SessionId> {
    SessionId::parse(&self.string(value, "sessionId")?)
  }

  pub fn task_id(self, value: Value) -> Result<TaskId> {
    TaskId::parse(&self.string(value, "taskId")?)
  }

  pub fn checkpoint_id(self, value: Value) -> Result<CheckpointId> {
    CheckpointId::parse(&self.string(value, "checkpointId")?)
  }

  /// The ids of a session and of one of its checkpoints.
  pub fn names(self, session: Value, checkpoint: Value) -> Result<(SessionId, CheckpointId)> {
    Ok((self.session_id(session)?, self.checkpoint_id(checkpoint)?))
  }

  /// A whole number of at least 0; 0 if it is absent.
  pub fn count(self, value: Value, name: &str) -> Result<usize> {
    if is_absent(value) {
      return Ok(0);
    }
    match number_of(value) {
      Some(f64::INFINITY) => Ok(usize::MAX),
      Some(number) if number >= 0.0 && number.fract() == 0.0 => Ok(to_usize(number)),
      _ => Err(self.wrong(name, "a whole number, 0 or more", value)),
    }
  }

  /// The JSON of any value.
  pub fn json(self, value: Value, name: &str) -> Result<Text> {
    let text = self
      .engine
      .stringify(value)
      .map_err(|error| not_serializable(name, error))?;
    text.ok_or_else(|| {
      let cause = napi::Error::from_reason(format!("JSON has no way to write {}", self.engine.describe(value)));
      not_serializable(name, cause)
    })
  }

  fn trigger(self, value: Value) -> Result<String> {
    let trigger = text_of(value).filter(|trigger| TRIGGERS.contains(&trigger.as_str()));
    trigger.ok_or_else(|| {
      let expected = "one of \"auto\", \"manual\", \"error\" and \"milestone\"";
      self.wrong("options.trigger", expected, value)
    })
  }

  /// A label of a checkpoint.
  pub fn label(self, value: Value, name: &str) -> Result<String> {
    const LONGEST: usize = 200;
    let label = self.string(value, name)?;
    if label.is_empty() || label.len() > LONGEST {
      return Err(self.wrong(name, &format!("a string of 1 to {LONGEST} bytes"), value));
    }
    // U+FFFD replaces a lone surrogate: two different labels would become the same.
    if label.contains(char::REPLACEMENT_CHARACTER) {
      return Err(self.wrong(name, "well-formed text", value));
    }
    Ok(label)
  }

  /// Whether a value is an object, and not an array.
  fn is_object(self, value: Value, name: &str) -> Result<bool> {
    Ok(matches!(value.get_type(), Ok(ValueType::Object)) && !self.is_array(value, name)?)
  }

  fn is_array(self, value: Value, name: &str) -> Result<bool> {
    self.engine.is_array(value).map_err(|error| unreadable(name, error))
  }

  pub fn object(self, value: Value, name: &str) -> Result<()> {
    if self.is_object(value, name)? {
      Ok(())
    } else {
      Err(self.wrong(name, "an object", value))
    }
  }

  fn optional_object(self, value: Value, name: &str) -> Result<()> {
    if is_undefined(value) {
      Ok(())
    } else {
      self.object(value, name)
    }
  }

  /// Checks options whose members `lib/progress.js` has read.
  pub fn work_options(self, value: Value) -> Result<()> {
    self.optional_object(value, "options")
  }

  /// A boolean option; `false` if it or `options` is undefined.
  pub fn flag(self, options: Value, name: &str) -> Result<bool> {
    if is_undefined(options) {
      return Ok(false);
    }
    let value = self.get(options, name)?;
    if is_undefined(value) {
      return Ok(false);
    }
    self.boolean(value, &format!("options.{name}"))
  }

  fn boolean(self, value: Value, name: &str) -> Result<bool> {
    match value.get_type() {
      Ok(ValueType::Boolean) => Ok(value.coerce_to_bool()?),
      _ => Err(self.wrong(name, "true or false", value)),
    }
  }

  /// A member of the options; `None` if it or `options` is undefined.
  pub fn option(self, options: Value, name: &str) -> Result<Option<Value>> {
    if is_undefined(options) {
      return Ok(None);
    }
    let value = self.get(options, name)?;
    Ok((!is_undefined(value)).then_some(value))
  }

  /// The strings of an array; `None` if the value is not an array of strings.
  pub fn texts(self, value: Value, name: &str) -> Result<Option<Vec<String>>> {
    if !self.is_array(value, name)? {
      return Ok(None);
    }
    let length = number_of(self.get(value, "length")?).map_or(0, to_usize);
    let texts = (0..length).map(|index| Ok(text_of(self.get(value, &index.to_string())?)));
    texts.collect()
  }

  fn string(self, value: Value, name: &str) -> Result<String> {
    text_of(value).ok_or_else(|| self.wrong(name, "a string", value))
  }

  pub fn get(self, object: Value, name: &str) -> Result<Value> {
    self
      .engine
      .get(object, name)
      .map_err(|error| not_serializable(name, error))
  }

  pub fn wrong(self, name: &str, expected: &str, value: Value) -> Error {
    Error::invalid_argument(format!(
      "{name} must be {expected}; got {}",
      self.engine.describe(value)
    ))
  }
}

pub fn is_undefined(value: Value) -> bool {
  matches!(value.get_type(), Ok(ValueType::Undefined))
}

fn is_absent(value: Value) -> bool {
  matches!(value.get_type(), Ok(ValueType::Undefined | ValueType::Null))
}

pub fn to_u64(number: f64) -> u64 {
  to_usize(number) as u64
}

#[expect(
  clippy::cast_possible_truncation,
  clippy::cast_sign_loss,
  reason = "callers pass whole numbers of at least 0, and a cast saturates"
)]
fn to_usize(number: f64) -> usize {
  number as usize
}
