//! How a retention is spelt: in the session's document of that name, and in answers.

use super::Retention;
use crate::json::edit::ObjectWriter;
use crate::json::scan::members;
use crate::types::error::{Error, Result, shortened};

impl Retention {
  /// The greatest number that JavaScript can count to.
  pub const GREATEST: u64 = (1 << 53) - 1;

  /// What its numbers are called.
  pub const NUMBERS: [&'static str; 5] = ["keepLast", "keepHourly", "keepDaily", "maxAgeMs", "maxBytes"];
  pub const KEEP_LABELLED: &'static str = "keepLabelled";

  /// The place of one of [`Retention::NUMBERS`].
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

  /// Compact JSON, with the members that were given.
  #[must_use]
  pub fn to_json(mut self) -> String {
    let mut out = ObjectWriter::with_capacity(128);
    for name in Self::NUMBERS {
      if let Some(number) = self.number(name).and_then(|number| *number) {
        out.push(name, &number.to_string());
      }
    }
    if let Some(keep) = self.keep_labelled {
      out.push(Self::KEEP_LABELLED, &keep.to_string());
    }
    out.finish()
  }
}

/// Reads the document. One that says anything that is not understood is damaged: it may mean that more is to be kept.
pub fn parse(text: &str, path: &str) -> Result<Retention> {
  let members = members(text).map_err(|error| Error::corrupt(path, error).because(error))?;
  let mut retention = Retention::default();
  for member in members {
    let name = member.raw_key;
    let is_understood = if name == Retention::KEEP_LABELLED {
      retention.keep_labelled = member.value.parse().ok();
      retention.keep_labelled.is_some()
    } else {
      let number = member
        .value
        .parse()
        .ok()
        .filter(|number| *number <= Retention::GREATEST);
      match retention.number(name) {
        Some(place) => {
          *place = number;
          number.is_some()
        }
        None => false,
      }
    };
    if !is_understood {
      return Err(Error::corrupt(
        path,
        format!("it says {}: {}", shortened(name), shortened(member.value)),
      ));
    }
  }
  match retention.complaint() {
    Some(complaint) => Err(Error::corrupt(path, format!("it {complaint}"))),
    None => Ok(retention),
  }
}
