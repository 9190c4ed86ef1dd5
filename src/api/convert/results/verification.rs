//! The results of verification.

use napi::bindgen_prelude::{JsObjectValue, JsValue};
use napi_derive::napi;

use super::{number, object_of};
use crate::api::convert::engine::{Engine, Value};
use crate::store::{Damaged, FileReport, SessionReport, StoredCheckpoint};
use crate::types::error::Result;

/// The verification of a checkpoint.
#[napi(object, object_from_js = false)]
pub struct CheckpointVerification {
  pub id: String,
  pub path: String,
  /// Whether it is complete and undamaged.
  pub whole: bool,
  /// The bytes that it takes up, if it is whole.
  pub size_bytes: Option<f64>,
  /// When a damaged checkpoint was created, in epoch milliseconds, if that is known.
  pub timestamp: Option<f64>,
  /// The message of the failure, for people.
  pub error: Option<String>,
  /// The code of the failure, for programs.
  #[napi(ts_type = "WaymarkErrorCode")]
  pub code: Option<&'static str>,
}

impl From<Result<StoredCheckpoint, Damaged>> for CheckpointVerification {
  fn from(checkpoint: Result<StoredCheckpoint, Damaged>) -> Self {
    match checkpoint {
      Ok(stored) => Self {
        id: stored.id.into(),
        path: stored.path,
        whole: true,
        size_bytes: Some(number(stored.size_bytes)),
        timestamp: None,
        error: None,
        code: None,
      },
      Err(damaged) => Self {
        id: damaged.id.into(),
        path: damaged.path,
        whole: false,
        size_bytes: None,
        timestamp: damaged.made_at.map(|time| number(time.as_millis())),
        error: Some(damaged.error.message),
        code: Some(damaged.error.code.as_str()),
      },
    }
  }
}

/// The verification of a file, or of a row that has the same purpose.
#[napi(object, object_from_js = false)]
pub struct FileVerification {
  pub path: String,
  /// Whether it is complete and undamaged.
  pub whole: bool,
  /// The message of the failure, for people.
  pub error: Option<String>,
  /// The code of the failure, for programs.
  #[napi(ts_type = "WaymarkErrorCode")]
  pub code: Option<&'static str>,
}

impl From<FileReport> for FileVerification {
  fn from(file: FileReport) -> Self {
    Self {
      path: file.path,
      whole: file.damage.is_none(),
      code: file.damage.as_ref().map(|damage| damage.code.as_str()),
      error: file.damage.map(|damage| damage.message),
    }
  }
}

/// The verification of everything in a session.
#[napi(object, object_from_js = false)]
pub struct SessionVerification {
  pub session_id: String,
  /// Whether everything in it is whole.
  pub whole: bool,
  /// The checkpoints of the session itself, newest first.
  pub checkpoints: Vec<CheckpointVerification>,
  /// The checkpoints of its agents, newest first for each.
  #[napi(ts_type = "Array<AgentCheckpointVerification>")]
  pub agent_checkpoints: Vec<Value>,
  /// The session, the task tree, labels, retention and the results, as far as they exist.
  pub files: Vec<FileVerification>,
}

pub fn session_verification(engine: Engine<'_>, report: SessionReport) -> Result<Value> {
  let checkpoints: Vec<_> = report
    .checkpoints
    .into_iter()
    .map(CheckpointVerification::from)
    .collect();
  let files: Vec<_> = report.files.into_iter().map(FileVerification::from).collect();
  let mut is_whole = checkpoints.iter().all(|checkpoint| checkpoint.whole) && files.iter().all(|file| file.whole);
  let mut agent_checkpoints = Vec::new();
  for (agent, checkpoints) in report.agents {
    for checkpoint in checkpoints {
      is_whole &= checkpoint.is_ok();
      let mut verification = object_of(engine, CheckpointVerification::from(checkpoint))?;
      verification.set_named_property("agentId", agent.as_str())?;
      agent_checkpoints.push(verification.to_unknown());
    }
  }
  let verification = SessionVerification {
    session_id: report.session.into(),
    whole: is_whole,
    checkpoints,
    agent_checkpoints,
    files,
  };
  Ok(engine.value(verification)?)
}
