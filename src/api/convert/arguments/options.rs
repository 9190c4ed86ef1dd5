//! The arguments of the constructor.

use std::time::Duration;

use napi::ValueType;

use super::{Arguments, is_undefined, to_usize};
use crate::api::convert::engine::{Value, number_of, text_of};
use crate::store::{Durability, Options};
use crate::types::error::Result;

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
      Ok(ValueType::Number) => {
        options.max_checkpoints_per_session = Some(self.limit(value, "maxCheckpointsPerSession")?);
      }
      _ => {
        self.object(value, "options")?;
        let limit = |name| {
          let limit = self.option(value, name)?;
          limit
            .map(|limit| self.limit(limit, &format!("options.{name}")))
            .transpose()
        };
        let default = Options::default();
        options.max_checkpoints_per_session = limit("maxCheckpointsPerSession")?;
        options.max_checkpoints_per_agent =
          limit("maxCheckpointsPerAgent")?.unwrap_or(default.max_checkpoints_per_agent);
        options.max_read_bytes = limit("maxReadBytes")?.map_or(default.max_read_bytes, |bytes| bytes as u64);
        if let Some(encoding) = self.option(value, "encoding")? {
          options.encoding = self.encoding_named(encoding, "options.encoding")?;
        }
        if let Some(bytes) = self.option(value, "deltaCacheBytes")? {
          options.delta_cache_bytes = self.byte_count(bytes, "options.deltaCacheBytes")?;
        }
        if let Some(retention) = self.option(value, "retention")? {
          options.retention = Some(self.retention(retention, "options.retention")?);
        }
        if let Some(durability) = self.option(value, "durability")? {
          options.settings.durability = self.durability(durability)?;
        }
        options.settings.must_exist = self.flag(value, "mustExist")?;
        if let Some(count) = self.option(value, "keepPrevious")? {
          options.settings.keep_previous = self.previous(count)?;
        }
        if let Some(time) = self.option(value, "timeoutMs")? {
          options.settings.timeout = Duration::from_millis(self.at_least_one(time, "options.timeoutMs")?.into());
        }
        if let Some(count) = self.option(value, "maxConnections")? {
          options.settings.max_connections = self.at_least_one(count, "options.maxConnections")? as usize;
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

  /// A whole number of at least 1. Infinity is rejected: every wait has a deadline, and connections are limited.
  fn at_least_one(self, value: Value, name: &str) -> Result<u32> {
    let number = number_of(value).filter(|number| *number >= 1.0 && number.fract() == 0.0);
    let number = number.and_then(|number| u32::try_from(to_usize(number)).ok());
    number.ok_or_else(|| self.wrong(name, &format!("a whole number from 1 to {}", u32::MAX), value))
  }

  /// A number of bytes, which may be 0.
  fn byte_count(self, value: Value, name: &str) -> Result<u64> {
    match number_of(value) {
      // `null` does not mean 0 here.
      Some(_) => Ok(self.count(value, name)? as u64),
      None => Err(self.wrong(name, "a whole number, 0 or more", value)),
    }
  }

  /// The number of earlier versions to keep. It is limited because each save renames all of them.
  fn previous(self, value: Value) -> Result<u32> {
    const MOST: u32 = 1000;
    let count = number_of(value).filter(|count| *count >= 0.0 && count.fract() == 0.0);
    let count = count.and_then(|count| u32::try_from(to_usize(count)).ok());
    count.filter(|count| *count <= MOST).ok_or_else(|| {
      self.wrong(
        "options.keepPrevious",
        &format!("a whole number from 0 to {MOST}"),
        value,
      )
    })
  }

  fn durability(self, value: Value) -> Result<Durability> {
    match text_of(value).as_deref() {
      Some("full") => Ok(Durability::Full),
      Some("relaxed") => Ok(Durability::Relaxed),
      _ => Err(self.wrong("options.durability", "\"full\" or \"relaxed\"", value)),
    }
  }
}
