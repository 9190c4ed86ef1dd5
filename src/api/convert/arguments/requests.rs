//! Arguments of the methods that restore, recover, list and compare.

use napi::ValueType;
use napi::bindgen_prelude::JsValue;

use super::{Arguments, is_undefined};
use crate::api::convert::engine::{Value, number_of, text_of};
use crate::checkpoint::reset::Resets;
use crate::store::{Filter, InfoRequest, RecoverRequest, RestoreRequest, Series};
use crate::types::error::{Error, Result};
use crate::types::id::{CheckpointId, SessionId};

/// The arguments of `checkpoints`.
#[derive(Debug, Clone)]
pub struct IterationArguments {
  pub series: Series,
  pub filter: Filter,
  pub skip_damaged: bool,
}

impl Arguments<'_> {
  /// `({ checkpointId, … })` or `(sessionId, checkpointId, options?)`.
  pub fn restore(self, first: Value, second: Value, third: Value) -> Result<RestoreRequest> {
    let by_name = matches!(first.get_type(), Ok(ValueType::String));
    let (session, checkpoint, options) = if by_name {
      (first, second, third)
    } else {
      self.object(first, "options")?;
      (self.get(first, "sessionId")?, self.get(first, "checkpointId")?, first)
    };
    let named_session = if is_undefined(session) {
      None
    } else {
      Some(self.session_id(session)?)
    };
    if by_name && is_undefined(checkpoint) {
      return Err(Error::invalid_argument(
        "checkpointId must be a string; got undefined. Call restoreCheckpoint({ checkpointId, … }) or \
         restoreCheckpoint(sessionId, checkpointId)",
      ));
    }
    let asked_for = self.string(checkpoint, "checkpointId")?;
    let (session, checkpoint) = full_name(named_session, &asked_for)?;
    self.optional_object(options, "options")?;
    Ok(RestoreRequest {
      session,
      checkpoint,
      asked_for,
      validate_checksum: self.flag(options, "validateChecksum")?,
      resets: self.resets(options)?,
      include_state: self.flag(options, "includeState")?,
    })
  }

  /// `{ sessionId, checkpointId }` or `"session/checkpoint"`.
  pub fn reference(self, value: Value, name: &str) -> Result<(SessionId, CheckpointId)> {
    let (session, checkpoint) = if let Some(text) = text_of(value) {
      full_name(None, &text)?
    } else {
      self.object(value, name)?;
      let session = self.string(self.get(value, "sessionId")?, &format!("{name}.sessionId"))?;
      let checkpoint = self.string(self.get(value, "checkpointId")?, &format!("{name}.checkpointId"))?;
      full_name(Some(SessionId::parse(&session)?), &checkpoint)?
    };
    let session =
      session.ok_or_else(|| self.wrong(name, "{ sessionId, checkpointId } or \"session/checkpoint\"", value))?;
    Ok((session, checkpoint))
  }

  pub fn info_request(self, session: Value, options: Value) -> Result<InfoRequest> {
    let series = self.session_id(session)?.into();
    self.optional_object(options, "options")?;
    let (limit, cursor) = self.page(options)?;
    Ok(InfoRequest {
      series,
      limit,
      cursor,
      filter: self.filter(options)?,
    })
  }

  /// `{ limit?, cursor? }`
  pub(super) fn page(self, options: Value) -> Result<(usize, Option<String>)> {
    let limit = self.option(options, "limit")?;
    let cursor = self.option(options, "cursor")?;
    Ok((
      limit.map_or(Ok(0), |limit| self.count(limit, "options.limit"))?,
      cursor.map(|cursor| self.string(cursor, "options.cursor")).transpose()?,
    ))
  }

  pub fn iteration(self, session: Value, options: Value) -> Result<IterationArguments> {
    let series = self.session_id(session)?.into();
    self.optional_object(options, "options")?;
    Ok(IterationArguments {
      series,
      filter: self.filter(options)?,
      skip_damaged: self.flag(options, "skipDamaged")?,
    })
  }

  pub(super) fn filter(self, options: Value) -> Result<Filter> {
    let trigger = self.option(options, "trigger")?;
    let label = self.option(options, "label")?;
    let time = |name| {
      let value = self.option(options, name)?;
      value
        .map(|value| self.time(value, &format!("options.{name}")))
        .transpose()
    };
    Ok(Filter {
      trigger: trigger.map(|trigger| self.trigger(trigger)).transpose()?,
      label: label.map(|label| self.label(label, "options.label")).transpose()?,
      since: time("since")?,
      until: time("until")?,
      alive_at: None,
    })
  }

  /// A number of milliseconds since 1970, or a Date.
  pub(super) fn time(self, value: Value, name: &str) -> Result<f64> {
    let time = match number_of(value) {
      None if value.is_date()? => value.coerce_to_number()?.get_double().ok(),
      number => number,
    };
    time
      .filter(|time| !time.is_nan())
      .ok_or_else(|| self.wrong(name, "a number of milliseconds since 1970, or a Date", value))
  }

  pub fn recover(self, session: Value, options: Value) -> Result<RecoverRequest> {
    let session = self.session_id(session)?;
    self.optional_object(options, "options")?;
    Ok(RecoverRequest {
      session,
      resets: self.resets(options)?,
      include_state: self.flag(options, "includeState")?,
      quarantine: self.flag(options, "quarantine")?,
      is_dry_run: self.flag(options, "dryRun")?,
    })
  }

  pub(super) fn resets(self, options: Value) -> Result<Resets> {
    Ok(Resets {
      failed: self.flag(options, "resetFailedTasks")?,
      in_progress: self.flag(options, "resetInProgressTasks")?,
    })
  }
}

/// Splits the name of a checkpoint, which is its id or `session/checkpoint`.
fn full_name(session: Option<SessionId>, name: &str) -> Result<(Option<SessionId>, CheckpointId)> {
  let Some((own_session, id)) = name.split_once('/') else {
    return Ok((session, CheckpointId::parse(name)?));
  };
  let own_session = SessionId::parse(own_session)?;
  if let Some(other) = session
    && other != own_session
  {
    return Err(Error::invalid_argument(format!(
      "checkpointId names the session {own:?}, sessionId names {other:?}",
      own = own_session.as_str(),
      other = other.as_str()
    )));
  }
  Ok((Some(own_session), CheckpointId::parse(id)?))
}
