//! Answers, back on the JavaScript thread.

use napi::ValueType;
use napi::bindgen_prelude::{JsObjectValue, JsValue, Null, Object, Uint8Array, Utf16String};

use super::engine::{Engine, Kept, Value};
use super::error::{cause_to_js, not_serializable, to_napi};
use super::text::{Readable, Text};
use crate::backend::Usage;
use crate::error::{Code, Error, Result};
use crate::format::agent::CONTEXT;
use crate::format::checkpoint::LABEL;
use crate::format::layout::MAX_TEXT_BYTES;
use crate::id::{CheckpointId, SessionId};
use crate::store::{
  Candidate, Copied, Created, Damaged, Difference, Forked, InfoPage, Loaded, PassedOver, Recoverable, Restored, Saved,
  SessionReport, Spelling, StoredCheckpoint,
};

/// How a method answers when it fails.
#[derive(Debug, Clone, Copy)]
pub enum Failure {
  /// The promise rejects.
  Rejects,
  /// The promise resolves to `{ success: false, error, code }`.
  IsReported,
  /// The same, with the counts of a `RestoreResult`.
  IsReportedWithCounts,
  /// The same, with the list of a `RecoverResult`.
  IsReportedOfRecovery,
}

impl Failure {
  pub fn settle(self, engine: Engine<'_>, error: Error) -> napi::Result<Value> {
    if let Self::Rejects = self {
      return Err(to_napi(engine, error));
    }
    let mut result = engine.object()?;
    result.set_named_property("success", false)?;
    if let Self::IsReportedWithCounts | Self::IsReportedOfRecovery = self {
      result.set_named_property("restoredTasks", 0)?;
      result.set_named_property("restoredAgents", 0)?;
      result.set_named_property("warnings", Vec::<String>::new())?;
    }
    if let Self::IsReportedOfRecovery = self {
      result.set_named_property("passedOver", Vec::<String>::new())?;
    }
    result.set_named_property("error", error.message.as_str())?;
    result.set_named_property("code", error.code.as_str())?;
    if let Some(cause) = error.cause {
      result.set_named_property("cause", cause_to_js(engine, cause)?)?;
    }
    Ok(result.to_unknown())
  }
}

/// `undefined`
pub fn nothing(engine: Engine<'_>, (): ()) -> Result<Value> {
  Ok(engine.value(())?)
}

/// `undefined`, or a rejection.
pub fn lifecycle(engine: Engine<'_>, outcome: Result<()>) -> napi::Result<Value> {
  match outcome {
    Ok(()) => engine.value(()),
    Err(error) => Err(to_napi(engine, error)),
  }
}

/// `{ success: true }`
pub fn done(engine: Engine<'_>, (): ()) -> Result<Value> {
  Ok(success(engine)?.to_unknown())
}

fn success(engine: Engine<'_>) -> napi::Result<Object<'static>> {
  let mut result = engine.object()?;
  result.set_named_property("success", true)?;
  Ok(result)
}

/// `{ success: true }`, with a warning if something was left behind.
pub fn deleted(engine: Engine<'_>, left: Option<Error>) -> Result<Value> {
  let mut result = success(engine)?;
  if let Some(left) = left {
    result.set_named_property("warnings", vec![left.message])?;
  }
  Ok(result.to_unknown())
}

pub fn saved(engine: Engine<'_>, saved: Saved) -> Result<Value> {
  let mut result = success(engine)?;
  result.set_named_property("path", saved.path)?;
  result.set_named_property("sizeBytes", number(saved.size_bytes))?;
  Ok(result.to_unknown())
}

pub fn created(engine: Engine<'_>, created: Created) -> Result<Value> {
  let mut result = success(engine)?;
  result.set_named_property("checkpointId", created.id.as_str())?;
  result.set_named_property("path", created.path)?;
  result.set_named_property("sizeBytes", number(created.size_bytes))?;
  if !created.warnings.is_empty() {
    result.set_named_property("warnings", created.warnings)?;
  }
  Ok(result.to_unknown())
}

/// The parsed value, or `null`.
pub fn loaded(engine: Engine<'_>, loaded: Option<Readable<Loaded>>) -> Result<Value> {
  match loaded {
    Some(Readable { stored, wide }) => parse(engine, &stored.text, wide, &stored.path),
    None => null(engine),
  }
}

/// `null`
pub fn null(engine: Engine<'_>) -> Result<Value> {
  Ok(engine.value(Null)?)
}

/// A `CheckpointList`.
pub fn page(
  engine: Engine<'_>,
  checkpoints: Vec<Kept>,
  total: usize,
  cursor: Option<String>,
  damaged: Vec<Damaged>,
) -> Result<Value> {
  let mut result = engine.object()?;
  result.set_named_property("checkpoints", checkpoints)?;
  result.set_named_property("total", number(total as u64))?;
  if let Some(cursor) = cursor {
    result.set_named_property("cursor", cursor)?;
  }
  result.set_named_property("damaged", damage_reports(engine, damaged)?)?;
  Ok(result.to_unknown())
}

/// A `CheckpointInfoList`.
pub fn info_page(engine: Engine<'_>, page: InfoPage) -> Result<Value> {
  let mut result = engine.object()?;
  result.set_named_property("checkpoints", engine.parse(&page.infos)?)?;
  result.set_named_property("total", number(page.total as u64))?;
  if let Some(cursor) = page.cursor {
    result.set_named_property("cursor", cursor)?;
  }
  result.set_named_property("damaged", damage_reports(engine, page.damaged)?)?;
  Ok(result.to_unknown())
}

fn damage_reports(engine: Engine<'_>, damaged: Vec<Damaged>) -> Result<Vec<Object<'static>>> {
  damaged
    .into_iter()
    .map(|damage| damage_report(engine, damage))
    .collect()
}

fn damage_report(engine: Engine<'_>, damage: Damaged) -> Result<Object<'static>> {
  let mut report = engine.object()?;
  report.set_named_property("id", damage.id.as_str())?;
  report.set_named_property("path", damage.path)?;
  report.set_named_property("error", damage.error.message)?;
  report.set_named_property("code", damage.error.code.as_str())?;
  Ok(report)
}

/// A list of strings.
pub fn texts(engine: Engine<'_>, texts: impl Iterator<Item = String>) -> Result<Value> {
  Ok(engine.value(texts.collect::<Vec<_>>())?)
}

pub fn count(engine: Engine<'_>, count: usize) -> Result<Value> {
  Ok(engine.value(number(count as u64))?)
}

/// A JSON text of ours.
pub fn json(engine: Engine<'_>, text: &str) -> Result<Value> {
  Ok(engine.parse(text)?)
}

/// A stored checkpoint, judged and parsed.
pub fn checkpoint(engine: Engine<'_>, stored: &mut StoredCheckpoint, wide: Option<Utf16String>) -> Result<Value> {
  if stored.spelling == Spelling::Suspect {
    let text = respell(engine, stored)?;
    stored.check_respelled(&text)?;
    stored.take_over(text)?;
    return parse_checkpoint(engine, stored, None);
  }
  parse_checkpoint(engine, stored, wide)
}

/// A checkpoint that says which damaged ones are newer, if there are any.
pub fn with_passed_over(engine: Engine<'_>, checkpoint: Value, passed_over: Vec<Damaged>) -> Result<Value> {
  if !passed_over.is_empty() {
    let reports = damage_reports(engine, passed_over)?;
    checkpoint
      .coerce_to_object()?
      .set_named_property("passedOver", reports)?;
  }
  Ok(checkpoint)
}

pub fn usage(engine: Engine<'_>, usage: Usage) -> Result<Value> {
  let mut result = engine.object()?;
  result.set_named_property("totalSizeBytes", number(usage.total_bytes))?;
  result.set_named_property("checkpointCount", number(usage.checkpoints))?;
  result.set_named_property("resultCount", number(usage.results))?;
  Ok(result.to_unknown())
}

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

/// A `ForkResult`.
pub fn forked(engine: Engine<'_>, forked: Forked) -> Result<Value> {
  let mut result = success(engine)?;
  result.set_named_property("sessionId", String::from(forked.session))?;
  result.set_named_property("checkpointId", forked.created.id.as_str())?;
  result.set_named_property("path", forked.created.path)?;
  result.set_named_property("restoredTasks", number(forked.tasks as u64))?;
  result.set_named_property("restoredAgents", number(forked.agents as u64))?;
  result.set_named_property("warnings", engine.parse(&forked.warnings)?)?;
  Ok(result.to_unknown())
}

/// A list of `RecoverableSession`s; those that may be damaged are judged here.
pub fn recoverable(engine: Engine<'_>, sessions: Vec<Recoverable>) -> Result<Value> {
  let mut lines = Vec::new();
  for session in sessions {
    let mut damaged = session.damaged;
    let mut whole = None;
    for Candidate { info, suspect } in session.candidates {
      match suspect.map_or(Ok(()), |stored| judged(engine, stored)) {
        Ok(()) => {
          whole = Some(info);
          break;
        }
        Err(damage) => damaged.push(damage),
      }
    }
    let mut line = engine.object()?;
    line.set_named_property("sessionId", String::from(session.session))?;
    if let Some(name) = session.name {
      line.set_named_property("name", name)?;
    }
    line.set_named_property("status", session.status)?;
    match whole {
      Some(info) => line.set_named_property("checkpoint", engine.parse(&info)?)?,
      None => line.set_named_property("checkpoint", Null)?,
    }
    line.set_named_property("damaged", damage_reports(engine, damaged)?)?;
    lines.push(line);
  }
  Ok(engine.value(lines)?)
}

fn judged(engine: Engine<'_>, stored: StoredCheckpoint) -> Result<(), Damaged> {
  judge(engine, &stored, stored.spelling).map_err(|error| Damaged {
    id: stored.id,
    path: stored.path,
    error,
  })
}

/// A `CopyResult`.
pub fn copied(engine: Engine<'_>, (sessions, copies): (Vec<SessionId>, Vec<Copied>)) -> Result<Value> {
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

/// The engine's reading of a stored text, which may be at hand in wide form too.
fn parse(engine: Engine<'_>, text: &str, wide: Option<Utf16String>, path: &str) -> Result<Value> {
  if text.len() > MAX_TEXT_BYTES {
    let message = format!(
      "{path} has {} bytes of JSON: more than a JavaScript string can hold",
      text.len()
    );
    return Err(Error::new(Code::TooLarge, message));
  }
  let parsed = match wide {
    Some(wide) => engine.parse_wide(wide),
    None => engine.parse(text),
  };
  parsed.map_err(|error| Error::corrupt(path, &error.reason).because(error))
}

/// A checkpoint as the engine spells it, compact.
pub fn respell(engine: Engine<'_>, stored: &StoredCheckpoint) -> Result<String> {
  let value = parse(engine, &stored.text, None, &stored.path)?;
  let text = engine
    .stringify(value)
    .map_err(|error| not_serializable(&stored.path, error))?;
  Ok(text.map(Text::into_string).unwrap_or_default())
}

/// The last word on a checkpoint whose checksums do not fit as it is spelt.
pub fn judge(engine: Engine<'_>, stored: &StoredCheckpoint, spelling: Spelling) -> Result<()> {
  match spelling {
    Spelling::Suspect => stored.check_respelled(&respell(engine, stored)?),
    Spelling::Fits | Spelling::Unchecked => Ok(()),
  }
}

/// The engine's reading of a stored checkpoint, whatever its checksums say.
pub fn parse_checkpoint(engine: Engine<'_>, stored: &StoredCheckpoint, wide: Option<Utf16String>) -> Result<Value> {
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

/// What a verification says of one checkpoint.
pub fn verdict(engine: Engine<'_>, checkpoint: Result<StoredCheckpoint, Damaged>) -> Result<Value> {
  let judged = checkpoint.and_then(|stored| match judge(engine, &stored, stored.spelling) {
    Ok(()) => Ok(stored),
    Err(error) => Err(Damaged {
      id: stored.id,
      path: stored.path,
      error,
    }),
  });
  match judged {
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

/// A `CheckpointDiff`.
pub fn difference(engine: Engine<'_>, difference: Readable<Difference>) -> Result<Value> {
  let Readable { stored, wide } = difference;
  for suspect in &stored.suspects {
    judge(engine, suspect, suspect.spelling)?;
  }
  parse(engine, &stored.text, wide, "The difference")
}

pub fn session_report(engine: Engine<'_>, report: SessionReport) -> Result<Value> {
  let mut is_whole = true;
  let mut checkpoints = Vec::new();
  for checkpoint in report.checkpoints {
    let verdict = verdict(engine, checkpoint)?.coerce_to_object()?;
    is_whole &= verdict.get_named_property::<bool>("whole")?;
    checkpoints.push(verdict);
  }
  let mut agents = Vec::new();
  for (agent, of_agent) in report.agents {
    for checkpoint in of_agent {
      let mut verdict = verdict(engine, checkpoint)?.coerce_to_object()?;
      is_whole &= verdict.get_named_property::<bool>("whole")?;
      verdict.set_named_property("agentId", agent.as_str())?;
      agents.push(verdict);
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

/// A `RecoverResult`: a `RestoreResult` with what was passed over.
pub fn recovered(
  engine: Engine<'_>,
  outcome: Result<(CheckpointId, Restored)>,
  passed_over: Vec<PassedOver>,
) -> Result<Value> {
  let mut result = match outcome {
    Ok((checkpoint, restored_state)) => {
      let mut result = restored(engine, restored_state)?.coerce_to_object()?;
      result.set_named_property("checkpointId", checkpoint.as_str())?;
      result
    }
    Err(error) => Failure::IsReportedWithCounts
      .settle(engine, error)?
      .coerce_to_object()?,
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

#[expect(clippy::cast_precision_loss, reason = "sizes beyond 2^53 bytes do not occur")]
fn number(count: u64) -> f64 {
  count as f64
}
