//! Retentions, and the arguments of `prune`.

use napi::bindgen_prelude::{JsValue, Object};

use super::{Arguments, is_absent, is_undefined};
use crate::api::convert::engine::{Collection, Value, number_of};
use crate::api::convert::error::not_serializable;
use crate::store::{PruneRequest, Retention};
use crate::types::error::{Error, Result, shortened};
use crate::types::id::SessionId;

impl Arguments<'_> {
  /// A retention. Unknown members are rejected: a misspelt rule would keep less than intended.
  pub fn retention(self, value: Value, name: &str) -> Result<Retention> {
    let known = [&Retention::NUMBERS[..], &[Retention::KEEP_LABELLED]].concat();
    let members = self.members(value, name, &known)?;
    let mut retention = Retention::default();
    for member in Retention::NUMBERS {
      if let (Some(number), Some(rule)) = (self.option(members, member)?, retention.number(member)) {
        *rule = Some(self.kept(number, &format!("{name}.{member}"))?);
      }
    }
    if let Some(keep) = self.option(members, Retention::KEEP_LABELLED)? {
      retention.keep_labelled = Some(self.boolean(keep, &format!("{name}.{}", Retention::KEEP_LABELLED))?);
    }
    match retention.invalid_reason() {
      Some(reason) => Err(Error::invalid_argument(format!("{name} {reason}"))),
      None => Ok(retention),
    }
  }

  /// `(sessionId, retention)`; the retention may be `null`.
  pub fn own_retention(self, session: Value, retention: Value) -> Result<(SessionId, Option<Retention>)> {
    let session = self.session_id(session)?;
    if is_undefined(retention) {
      return Err(self.wrong("retention", "an object, or null", retention));
    }
    let retention = (!is_absent(retention)).then(|| self.retention(retention, "retention"));
    Ok((session, retention.transpose()?))
  }

  /// `(sessionId?, { dryRun?, retention? })` or `({ dryRun?, retention? })`.
  pub fn prune(self, session: Value, options: Value) -> Result<PruneRequest> {
    let is_short = is_undefined(options) && self.is_object(session, "options")?;
    let (session, options) = if is_short {
      (None, session)
    } else {
      (Some(session), options)
    };
    let session = session.filter(|session| !is_undefined(*session));
    let mut request = PruneRequest {
      session: session.map(|session| self.session_id(session)).transpose()?,
      ..PruneRequest::default()
    };
    if !is_undefined(options) {
      // Unknown members are rejected: a misspelt `dryRun` would delete checkpoints.
      let options = self.members(options, "options", &["dryRun", "retention", "onProgress", "signal"])?;
      request.is_dry_run = self.flag(options, "dryRun")?;
      let retention = self.option(options, "retention")?;
      request.retention = retention
        .map(|retention| self.retention(retention, "options.retention"))
        .transpose()?;
    }
    Ok(request)
  }

  /// A copy of an object, for which each member was read once. Members other than the known ones are an error.
  fn members(self, value: Value, name: &str, known: &[&str]) -> Result<Value> {
    self.object(value, name)?;
    let unreadable = |error| not_serializable(name, error);
    if self.engine.collection(value).map_err(unreadable)? != Collection::None {
      return Err(self.wrong(name, "an object", value));
    }
    let copy = self.engine.copy(value).map_err(unreadable)?;
    let names = Object::keys(&copy)?;
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
      return Err(Error::invalid_argument(format!(
        "{name} has an unknown member {:?}. The known members are {}",
        shortened(unknown),
        known.join(", ")
      )));
    }
    Ok(copy.to_unknown())
  }

  fn kept(self, value: Value, name: &str) -> Result<u64> {
    #[expect(clippy::cast_precision_loss, reason = "it is the greatest number without loss")]
    const GREATEST: f64 = Retention::GREATEST as f64;
    match number_of(value) {
      Some(number) if (0.0..=GREATEST).contains(&number) && number.fract() == 0.0 => Ok(super::to_usize(number) as u64),
      Some(f64::INFINITY) => Err(Error::invalid_argument(format!(
        "{name} must be a whole number; got Infinity. Leave it out for no limit"
      ))),
      _ => Err(self.wrong(
        name,
        &format!("a whole number from 0 to {}", Retention::GREATEST),
        value,
      )),
    }
  }
}
