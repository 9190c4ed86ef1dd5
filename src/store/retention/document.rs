//! The stored form of a retention: the session's document of that name, and results.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Unexpected};
use serde_json::{Map, Value};

use super::Retention;
use crate::types::error::{Error, Result};

impl Retention {
  /// JavaScript's `Number.MAX_SAFE_INTEGER`.
  pub const GREATEST: u64 = (1 << 53) - 1;

  /// The names of the members that are numbers.
  pub const NUMBERS: [&'static str; 5] = ["keepLast", "keepHourly", "keepDaily", "maxAgeMs", "maxBytes"];
  pub const KEEP_LABELLED: &'static str = "keepLabelled";

  /// The member with one of the names in [`Retention::NUMBERS`].
  pub fn number(&mut self, name: &str) -> Option<&mut Option<u64>> {
    match name {
      "keepLast" => Some(&mut self.keep_last),
      "keepHourly" => Some(&mut self.keep_hourly),
      "keepDaily" => Some(&mut self.keep_daily),
      "maxAgeMs" => Some(&mut self.max_age_ms),
      "maxBytes" => Some(&mut self.max_bytes),
      _ => None,
    }
  }

  /// Compact JSON with the members that are set.
  #[must_use]
  pub fn to_json(self) -> String {
    // Numbers and booleans always have a JSON form.
    serde_json::to_string(&self).unwrap_or_default()
  }
}

/// Reads the document. A member that this version does not understand makes it damaged: it may be a rule that keeps more.
pub fn parse(text: &str, path: &str) -> Result<Retention> {
  let damaged =
    |error: serde_json::Error| Error::corrupt(path, format!("it is not a retention: {error}")).because(error);
  let members: Map<String, Value> = serde_json::from_str(text).map_err(damaged)?;
  let retention = Retention::deserialize(Value::Object(members)).map_err(damaged)?;
  match retention.invalid_reason() {
    Some(reason) => Err(Error::corrupt(path, format!("it {reason}"))),
    None => Ok(retention),
  }
}

/// A member that, if present, is a number. `null` is none.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<u64>, D::Error> {
  let number = u64::deserialize(deserializer)?;
  if number > Retention::GREATEST {
    return Err(D::Error::invalid_value(
      Unexpected::Unsigned(number),
      &"a number that JavaScript counts exactly",
    ));
  }
  Ok(Some(number))
}

/// A member that, if present, is a boolean.
pub(super) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<bool>, D::Error> {
  bool::deserialize(deserializer).map(Some)
}
