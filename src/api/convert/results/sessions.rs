//! Results about many sessions, and about what a session takes up.

use napi::bindgen_prelude::{Either, JsObjectValue, JsValue, Null};
use napi_derive::napi;

use super::checkpoints::DamagedCheckpoint;
use super::{damaged_checkpoints, number};
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::error::to_js;
use crate::api::runtime::promise::settled;
use crate::store::{Candidate, Expired, Expiry, Recoverable, Summary, Usage};
use crate::types::error::{Error, Result};

/// What a session takes up.
#[napi(object, object_from_js = false)]
pub struct SessionStorageStats {
  /// The bytes of everything that is stored for the session.
  pub total_size_bytes: f64,
  /// The number of checkpoints of the session itself; `sessionsInfo()` also counts those of its agents.
  pub checkpoint_count: f64,
  pub result_count: f64,
}

impl From<Usage> for SessionStorageStats {
  fn from(usage: Usage) -> Self {
    Self {
      total_size_bytes: number(usage.total_bytes),
      checkpoint_count: number(usage.checkpoints),
      result_count: number(usage.results),
    }
  }
}

/// A session that `expireSessions()` could not archive or delete.
#[napi(object, object_from_js = false)]
pub struct ExpireFailure {
  pub session_id: String,
  /// The message of the failure, for people.
  pub error: String,
  /// The code of the failure, for programs.
  #[napi(ts_type = "WaymarkErrorCode")]
  pub code: &'static str,
}

/// The sessions that were archived or deleted. If some failed, a rejected promise: its error has both lists.
pub fn expired(engine: Engine<'_>, expired: Expired, expiry: Expiry) -> Result<Value> {
  let (mut failures, mut first) = (Vec::new(), None);
  let total = expired.lines.len() + expired.failed.len();
  let lines = engine.parse(&format!("[{}]", expired.lines.join(",")))?;
  for (session, error) in expired.failed {
    failures.push(ExpireFailure {
      session_id: session.as_str().to_owned(),
      error: error.message.clone(),
      code: error.code.as_str(),
    });
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

/// A session that was running when its state was last stored.
#[napi(object, object_from_js = false)]
pub struct RecoverableSession {
  pub session_id: String,
  pub name: Option<String>,
  #[napi(ts_type = "SessionStatus")]
  pub status: String,
  /// The newest whole checkpoint; `null` if there is none.
  #[napi(ts_type = "CheckpointInfo | null")]
  pub checkpoint: Either<Value, Null>,
  /// Newer checkpoints that are damaged.
  pub damaged: Vec<DamagedCheckpoint>,
}

impl RecoverableSession {
  /// `None` if the session was not running.
  fn new(engine: Engine<'_>, session: Recoverable) -> Result<Option<Self>> {
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
    // The newest state that names a status decides, readable or not.
    let summary = session.summary.or(in_damaged).or(in_checkpoint.flatten());
    let Some(Summary { name, status }) = summary.filter(Summary::is_running) else {
      return Ok(None);
    };
    Ok(Some(Self {
      session_id: session.session.into(),
      name,
      status,
      checkpoint: match info {
        Some(info) => Either::A(engine.parse(&info)?),
        None => Either::B(Null),
      },
      damaged: damaged_checkpoints(damaged),
    }))
  }
}

pub fn recoverable(engine: Engine<'_>, sessions: Vec<Recoverable>) -> Result<Value> {
  let mut running = Vec::new();
  for session in sessions {
    running.extend(RecoverableSession::new(engine, session)?);
  }
  Ok(engine.value(running)?)
}
