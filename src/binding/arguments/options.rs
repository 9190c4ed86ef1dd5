//! What a store is told when it is made.

use napi::ValueType;

use super::super::engine::{Value, number_of, text_of};
use super::{Arguments, is_undefined, to_usize};
use crate::backend::Durability;
use crate::error::Result;
use crate::store::Options;

impl Arguments<'_> {
  pub fn base_dir(self, value: Value) -> Result<String> {
    if is_undefined(value) {
      return Ok("~/.meshseeks/sessions".to_owned());
    }
    self.string(value, "baseDir")
  }

  /// The second argument of the constructor: a number or an object.
  pub fn store_options(self, value: Value) -> Result<Options> {
    let mut options = Options::default();
    match value.get_type() {
      Ok(ValueType::Undefined) => {}
      Ok(ValueType::Number) => options.max_checkpoints_per_session = self.limit(value, "maxCheckpointsPerSession")?,
      _ => {
        self.object(value, "options")?;
        let limit = self.get(value, "maxCheckpointsPerSession")?;
        if !is_undefined(limit) {
          options.max_checkpoints_per_session = self.limit(limit, "options.maxCheckpointsPerSession")?;
        }
        let read = self.get(value, "maxReadBytes")?;
        if !is_undefined(read) {
          options.max_read_bytes = self.limit(read, "options.maxReadBytes")? as u64;
        }
        let durability = self.get(value, "durability")?;
        if !is_undefined(durability) {
          options.durability = self.durability(durability)?;
        }
      }
    }
    Ok(options)
  }

  fn limit(self, value: Value, name: &str) -> Result<usize> {
    match number_of(value) {
      Some(f64::INFINITY) => Ok(usize::MAX),
      Some(number) if number >= 1.0 && number.fract() == 0.0 => Ok(to_usize(number)),
      _ => Err(self.wrong(name, "a whole number of at least 1, or Infinity", value)),
    }
  }

  fn durability(self, value: Value) -> Result<Durability> {
    match text_of(value).as_deref() {
      Some("full") => Ok(Durability::Full),
      Some("relaxed") => Ok(Durability::Relaxed),
      _ => Err(self.wrong("options.durability", "\"full\" or \"relaxed\"", value)),
    }
  }
}
