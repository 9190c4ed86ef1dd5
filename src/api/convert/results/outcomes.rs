//! What restoring, recovering, forking, copying and converting came to.

use napi::bindgen_prelude::{JsObjectValue, JsValue, Null, Object};

use super::{Failure, damage_report, damage_reports, number, success};
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::error::to_js;
use crate::api::runtime::promise::settled;
use crate::store::{
  Candidate, Converted, Copied, Expired, Expiry, Forked, PassedOver, RecoverOutcome, Recoverable, Restored, Summary,
  TransferredSession,
};
use crate::types::error::{Error, Result};
use crate::types::id::SessionId;

pub fn restored(engine: Engine<'_>, restored: Restored) -> Result<Value> {
  let mut result = success(engine)?;
  result.set_named_property("sessionId", String::from(restored.session))?;
  result.set_named_property("restoredTasks", number(restored.tasks as u64))?;
  result.set_named_property("restoredAgents", number(restored.agents as u64))?;
  result.set_named_property("warnings", engine.parse(&restored.warnings)?)?;
  if let Some(state) = restored.state {
    result.set_named_property("state", engine.parse(&state)?)?;
  }
  Ok(result.to_unknown())
}

/// A `RecoverResult`: a `RestoreResult` with what was passed over.
pub fn recovered(engine: Engine<'_>, outcome: RecoverOutcome) -> Result<Value> {
  let (mut result, passed_over) = match outcome {
    RecoverOutcome::Recovered {
      checkpoint,
      restored,
      passed_over,
    } => {
      let mut result = self::restored(engine, restored)?.coerce_to_object()?;
      result.set_named_property("checkpointId", checkpoint.as_str())?;
      (result, passed_over)
    }
    RecoverOutcome::NoneWhole(error, passed_over) => {
      let result = Failure::IsReportedWithCounts.settle(engine, error)?;
      (result.coerce_to_object()?, passed_over)
    }
  };
  let mut reports = Vec::new();
  for PassedOver { damaged, moved_to } in passed_over {
    let mut report = damage_report(engine, damaged)?;
    if let Some(moved_to) = moved_to {
      report.set_named_property("movedTo", moved_to)?;
    }
    reports.push(report);
  }
  result.set_named_property("passedOver", reports)?;
  Ok(result.to_unknown())
}

/// The sessions that were archived or deleted. If some failed, a rejected promise: its error carries both lists.
pub fn expired(engine: Engine<'_>, expired: Expired, expiry: Expiry) -> Result<Value> {
  let (mut failures, mut first) = (Vec::new(), None);
  let total = expired.lines.len() + expired.failed.len();
  let lines = engine.parse(&format!("[{}]", expired.lines.join(",")))?;
  for (session, error) in expired.failed {
    let mut failure = engine.object()?;
    failure.set_named_property("sessionId", session.as_str())?;
    failure.set_named_property("error", error.message.as_str())?;
    failure.set_named_property("code", error.code.as_str())?;
    failures.push(failure);
    first = first.or(Some((session, error)));
  }
  let Some((session, error)) = first else {
    return Ok(lines);
  };
  let done = match expiry {
    Expiry::Archive => "archived",
    Expiry::Delete => "deleted",
  };
  let message = format!(
    "{} of {total} sessions could not be {done}: {session}: {}",
    failures.len(),
    error.message
  );
  let rejection = to_js(engine, Error::new(error.code, message).because(error))?;
  let mut object = rejection.coerce_to_object()?;
  object.set_named_property("expired", lines)?;
  object.set_named_property("failed", failures)?;
  Ok(engine.value(settled(engine, Err(napi::Error::from(rejection)))?)?)
}

/// A `ForkResult`.
pub fn forked(engine: Engine<'_>, forked: Forked) -> Result<Value> {
  let mut result = success(engine)?;
  result.set_named_property("sessionId", String::from(forked.session))?;
  result.set_named_property("checkpointId", forked.checkpoint.as_str())?;
  result.set_named_property("path", forked.path)?;
  result.set_named_property("restoredTasks", number(forked.tasks as u64))?;
  result.set_named_property("restoredAgents", number(forked.agents as u64))?;
  result.set_named_property("warnings", engine.parse(&forked.warnings)?)?;
  Ok(result.to_unknown())
}

/// A list of `RecoverableSession`s.
pub fn recoverable(engine: Engine<'_>, sessions: Vec<Recoverable>) -> Result<Value> {
  let mut lines = Vec::new();
  for session in sessions {
    let (mut damaged, mut in_damaged, mut whole) = (Vec::new(), None, None);
    for candidate in session.candidates {
      match candidate {
        Candidate::Damaged(damage, summary) => {
          damaged.push(damage);
          in_damaged = in_damaged.or(summary);
        }
        Candidate::Whole { info, summary } => whole = Some((info, summary)),
      }
    }
    let (info, in_checkpoint) = whole.unzip();
    // The newest that says something of the session counts, readable or not.
    let summary = session.summary.or(in_damaged).or(in_checkpoint.flatten());
    let Some(Summary { name, status }) = summary.filter(Summary::is_running) else {
      continue;
    };
    let mut line = engine.object()?;
    line.set_named_property("sessionId", String::from(session.session))?;
    if let Some(name) = name {
      line.set_named_property("name", name)?;
    }
    line.set_named_property("status", status)?;
    match info {
      Some(info) => line.set_named_property("checkpoint", engine.parse(&info)?)?,
      None => line.set_named_property("checkpoint", Null)?,
    }
    line.set_named_property("damaged", damage_reports(engine, damaged)?)?;
    lines.push(line);
  }
  Ok(engine.value(lines)?)
}

/// A `CopyResult`.
pub fn copied(engine: Engine<'_>, done: Vec<(SessionId, Copied)>) -> Result<Value> {
  let (sessions, copies): (Vec<_>, Vec<_>) = done.into_iter().unzip();
  let sum = |of: fn(&Copied) -> u64| number(copies.iter().map(of).sum());
  let mut result = engine.object()?;
  let names: Vec<String> = sessions.into_iter().map(String::from).collect();
  result.set_named_property("sessions", names)?;
  result.set_named_property("checkpoints", sum(|copied| copied.checkpoints))?;
  result.set_named_property("documents", sum(|copied| copied.documents))?;
  result.set_named_property("unchanged", sum(|copied| copied.unchanged))?;
  result.set_named_property("sizeBytes", sum(|copied| copied.bytes))?;
  Ok(result.to_unknown())
}

/// A `ConvertResult`.
pub fn converted(engine: Engine<'_>, converted: Converted) -> Result<Value> {
  let mut result = engine.object()?;
  result.set_named_property("sessionId", String::from(converted.session))?;
  result.set_named_property("encoding", converted.encoding.name())?;
  result.set_named_property("converted", number(converted.converted as u64))?;
  result.set_named_property("unchanged", number(converted.unchanged as u64))?;
  result.set_named_property("skipped", damage_reports(engine, converted.skipped)?)?;
  result.set_named_property("bytesBefore", number(converted.bytes_before))?;
  result.set_named_property("bytesAfter", number(converted.bytes_after))?;
  Ok(result.to_unknown())
}

/// An `ExportResult`.
pub fn exported(engine: Engine<'_>, file: String, exported: TransferredSession, size: u64) -> Result<Value> {
  let mut result = engine.object()?;
  result.set_named_property("file", file)?;
  transferred(&mut result, exported)?;
  result.set_named_property("sizeBytes", number(size))?;
  Ok(result.to_unknown())
}

/// An `ImportResult`.
pub fn imported(engine: Engine<'_>, imported: TransferredSession) -> Result<Value> {
  let mut result = engine.object()?;
  transferred(&mut result, imported)?;
  Ok(result.to_unknown())
}

fn transferred(result: &mut Object<'static>, transferred: TransferredSession) -> Result<()> {
  result.set_named_property("sessionId", String::from(transferred.session))?;
  result.set_named_property("checkpoints", number(transferred.counts.checkpoints))?;
  result.set_named_property("documents", number(transferred.counts.documents))?;
  result.set_named_property("bytes", number(transferred.counts.bytes))?;
  Ok(())
}
