//! The results of operations on whole sessions: restore, recover, fork, copy, convert, export, import.

use napi::bindgen_prelude::{JsObjectValue, JsValue};
use napi_derive::napi;

use super::checkpoints::DamagedCheckpoint;
use super::{damaged_checkpoints, number, object_of};
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::error::cause_to_js;
use crate::store::{Converted, Copied, Forked, PassedOver, RecoverOutcome, Restored, TransferredSession};
use crate::types::error::{Error, Result};
use crate::types::id::SessionId;

/// The result of `restoreCheckpoint()`.
#[napi(object, object_from_js = false)]
pub struct RestoreResult {
  pub success: bool,
  pub session_id: Option<String>,
  pub restored_tasks: f64,
  pub restored_agents: f64,
  /// One line for each task that was reset.
  #[napi(ts_type = "Array<string>")]
  pub warnings: Value,
  /// Present with `includeState`.
  #[napi(ts_type = "RestoredState")]
  pub state: Option<Value>,
  /// The message of the failure, for people.
  pub error: Option<String>,
  /// The code of the failure, for programs.
  #[napi(ts_type = "WaymarkErrorCode")]
  pub code: Option<&'static str>,
  /// The cause of the failure, such as the system's error with its own `code`.
  #[napi(ts_type = "unknown")]
  pub cause: Option<Value>,
}

impl RestoreResult {
  fn new(engine: Engine<'_>, restored: Restored) -> Result<Self> {
    Ok(Self {
      success: true,
      session_id: Some(restored.session.into()),
      restored_tasks: number(restored.tasks as u64),
      restored_agents: number(restored.agents as u64),
      warnings: engine.parse(&restored.warnings)?,
      state: restored.state.map(|state| engine.parse(&state)).transpose()?,
      error: None,
      code: None,
      cause: None,
    })
  }

  pub fn failed(engine: Engine<'_>, error: Error) -> napi::Result<Self> {
    Ok(Self {
      success: false,
      session_id: None,
      restored_tasks: 0.0,
      restored_agents: 0.0,
      warnings: engine.value(Vec::<String>::new())?,
      state: None,
      error: Some(error.message),
      code: Some(error.code.as_str()),
      cause: error.cause.map(|cause| cause_to_js(engine, cause)).transpose()?,
    })
  }
}

pub fn restored(engine: Engine<'_>, restored: Restored) -> Result<Value> {
  Ok(engine.value(RestoreResult::new(engine, restored)?)?)
}

/// A `RecoverResult`: a `RestoreResult` with the damaged checkpoints that were skipped.
pub fn recovered(engine: Engine<'_>, outcome: RecoverOutcome) -> Result<Value> {
  let (mut result, passed_over) = match outcome {
    RecoverOutcome::Recovered {
      checkpoint,
      restored,
      passed_over,
    } => {
      let mut result = object_of(engine, RestoreResult::new(engine, restored)?)?;
      result.set_named_property("checkpointId", checkpoint.as_str())?;
      (result, passed_over)
    }
    RecoverOutcome::NoneWhole(error, passed_over) => {
      (object_of(engine, RestoreResult::failed(engine, error)?)?, passed_over)
    }
  };
  let mut reports = Vec::new();
  for PassedOver { damaged, moved_to } in passed_over {
    let mut report = object_of(engine, DamagedCheckpoint::from(damaged))?;
    if let Some(moved_to) = moved_to {
      report.set_named_property("movedTo", moved_to)?;
    }
    reports.push(report);
  }
  result.set_named_property("passedOver", reports)?;
  Ok(result.to_unknown())
}

/// A `RecoverResult` of a call that failed before it looked for a checkpoint.
pub(super) fn failed_recovery(engine: Engine<'_>, error: Error) -> napi::Result<Value> {
  let mut result = object_of(engine, RestoreResult::failed(engine, error)?)?;
  result.set_named_property("passedOver", Vec::<String>::new())?;
  Ok(result.to_unknown())
}

/// The result of `forkSession()`.
#[napi(object, object_from_js = false)]
pub struct ForkResult {
  pub success: bool,
  /// The id of the new session.
  pub session_id: Option<String>,
  /// The first checkpoint of the new session.
  pub checkpoint_id: Option<String>,
  /// Where that checkpoint is stored.
  pub path: Option<String>,
  pub restored_tasks: f64,
  pub restored_agents: f64,
  /// One line for each task that was reset.
  #[napi(ts_type = "Array<string>")]
  pub warnings: Value,
  /// The message of the failure, for people.
  pub error: Option<String>,
  /// The code of the failure, for programs.
  #[napi(ts_type = "WaymarkErrorCode")]
  pub code: Option<&'static str>,
  /// The cause of the failure, such as the system's error with its own `code`.
  #[napi(ts_type = "unknown")]
  pub cause: Option<Value>,
}

pub fn forked(engine: Engine<'_>, forked: Forked) -> Result<Value> {
  let result = ForkResult {
    success: true,
    session_id: Some(forked.session.into()),
    checkpoint_id: Some(forked.checkpoint.into()),
    path: Some(forked.path),
    restored_tasks: number(forked.tasks as u64),
    restored_agents: number(forked.agents as u64),
    warnings: engine.parse(&forked.warnings)?,
    error: None,
    code: None,
    cause: None,
  };
  Ok(engine.value(result)?)
}

/// The result of `copyTo()`.
#[napi(object, object_from_js = false)]
pub struct CopyResult {
  /// The ids of the sessions that both stores have now.
  pub sessions: Vec<String>,
  /// The number of checkpoints that were copied, of sessions and agents.
  pub checkpoints: f64,
  /// The number of other items that were copied: sessions, task trees, results, lists of labels, retentions.
  pub documents: f64,
  /// The number of checkpoints and other items that the other store had already.
  pub unchanged: f64,
  /// The bytes that were copied.
  pub size_bytes: f64,
}

pub fn copied(engine: Engine<'_>, done: Vec<(SessionId, Copied)>) -> Result<Value> {
  let (sessions, copies): (Vec<_>, Vec<_>) = done.into_iter().unzip();
  let sum = |of: fn(&Copied) -> u64| number(copies.iter().map(of).sum());
  let result = CopyResult {
    sessions: sessions.into_iter().map(String::from).collect(),
    checkpoints: sum(|copied| copied.checkpoints),
    documents: sum(|copied| copied.documents),
    unchanged: sum(|copied| copied.unchanged),
    size_bytes: sum(|copied| copied.bytes),
  };
  Ok(engine.value(result)?)
}

/// The result of `convert()`.
#[napi(object, object_from_js = false)]
pub struct ConvertResult {
  pub session_id: String,
  /// The requested encoding.
  #[napi(ts_type = "CheckpointEncoding")]
  pub encoding: &'static str,
  /// The number of checkpoints whose encoding was changed.
  pub converted: f64,
  /// The number of checkpoints that had the encoding already.
  pub unchanged: f64,
  /// The checkpoints that were left unchanged, with the reason: damaged ones, and those whose stored form does not match their
  /// checksums.
  pub skipped: Vec<DamagedCheckpoint>,
  /// The bytes that the session took up before.
  pub bytes_before: f64,
  /// The bytes that the session takes up now.
  pub bytes_after: f64,
}

impl From<Converted> for ConvertResult {
  fn from(converted: Converted) -> Self {
    Self {
      session_id: converted.session.into(),
      encoding: converted.encoding.name(),
      converted: number(converted.converted as u64),
      unchanged: number(converted.unchanged as u64),
      skipped: damaged_checkpoints(converted.skipped),
      bytes_before: number(converted.bytes_before),
      bytes_after: number(converted.bytes_after),
    }
  }
}

/// The result of `exportSession()`.
#[napi(object, object_from_js = false)]
pub struct ExportResult {
  /// The absolute path of the file.
  pub file: String,
  /// The id of the exported session.
  pub session_id: String,
  /// The number of checkpoints in the file, of the session and of its agents.
  pub checkpoints: f64,
  /// The number of other items: documents with their earlier versions, labels, results.
  pub documents: f64,
  /// The bytes of all items, as they are stored.
  pub bytes: f64,
  /// The size of the file in bytes.
  pub size_bytes: f64,
}

pub fn exported(engine: Engine<'_>, file: String, exported: TransferredSession, size: u64) -> Result<Value> {
  let result = ExportResult {
    file,
    session_id: exported.session.into(),
    checkpoints: number(exported.counts.checkpoints),
    documents: number(exported.counts.documents),
    bytes: number(exported.counts.bytes),
    size_bytes: number(size),
  };
  Ok(engine.value(result)?)
}

/// The result of `importSession()`.
#[napi(object, object_from_js = false)]
pub struct ImportResult {
  /// The id of the new session.
  pub session_id: String,
  /// The number of checkpoints that were imported, of the session and of its agents.
  pub checkpoints: f64,
  /// The number of other items: documents with their earlier versions, labels, results.
  pub documents: f64,
  /// The bytes of all items, as they are in the file.
  pub bytes: f64,
}

impl From<TransferredSession> for ImportResult {
  fn from(imported: TransferredSession) -> Self {
    Self {
      session_id: imported.session.into(),
      checkpoints: number(imported.counts.checkpoints),
      documents: number(imported.counts.documents),
      bytes: number(imported.counts.bytes),
    }
  }
}
