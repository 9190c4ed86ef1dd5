//! The result of a write.

use napi::bindgen_prelude::{Either, Null};
use napi_derive::napi;

use super::number;
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::error::cause_to_js;
use crate::store::{Created, Saved, SavedSession};
use crate::types::error::{Current, Error, Result};

/// The result of a write.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct CheckpointResult {
  pub success: bool,
  pub checkpoint_id: Option<String>,
  /// Where it is stored: a file, or on other backends a stable name.
  pub path: Option<String>,
  pub size_bytes: Option<f64>,
  /// The message of the failure, for people.
  pub error: Option<String>,
  /// The code of the failure, for programs: one of the codes in the README.
  #[napi(ts_type = "WaymarkErrorCode")]
  pub code: Option<&'static str>,
  /// The cause of the failure: what the value threw, or the system's error with its own `code`, such as `ENOSPC`.
  #[napi(ts_type = "unknown")]
  pub cause: Option<Value>,
  /// What failed after the write was durable, such as the removal of an old checkpoint.
  pub warnings: Option<Vec<String>>,
  /// Of `saveSession()`: the `ifRevision` for the next save. It is valid until another program saves the session.
  pub revision: Option<String>,
  /// With `WAYMARK_CONFLICT`: the stored revision, or the id of the newest checkpoint; `null` if there is none.
  pub current: Option<Either<String, Null>>,
}

impl CheckpointResult {
  pub fn failed(engine: Engine<'_>, error: Error) -> napi::Result<Self> {
    let cause = error.cause.map(|cause| cause_to_js(engine, cause)).transpose()?;
    Ok(Self {
      error: Some(error.message),
      code: Some(error.code.as_str()),
      cause,
      current: error
        .current
        .map(|Current(current)| current.map_or(Either::B(Null), Either::A)),
      ..Self::default()
    })
  }
}

impl From<()> for CheckpointResult {
  fn from((): ()) -> Self {
    Self {
      success: true,
      ..Self::default()
    }
  }
}

impl From<Saved> for CheckpointResult {
  fn from(saved: Saved) -> Self {
    Self {
      path: Some(saved.path),
      size_bytes: Some(number(saved.size_bytes)),
      ..Self::from(())
    }
  }
}

impl From<SavedSession> for CheckpointResult {
  fn from(session: SavedSession) -> Self {
    Self {
      revision: Some(session.revision),
      ..Self::from(session.saved)
    }
  }
}

impl From<Created> for CheckpointResult {
  fn from(created: Created) -> Self {
    Self {
      checkpoint_id: Some(created.id.into()),
      path: Some(created.path),
      size_bytes: Some(number(created.size_bytes)),
      warnings: (!created.warnings.is_empty()).then_some(created.warnings),
      ..Self::from(())
    }
  }
}

/// The result of `deleteSession()`; `leftover` says why some files could not be removed.
pub fn deleted(engine: Engine<'_>, leftover: Option<Error>) -> Result<Value> {
  let result = CheckpointResult {
    warnings: leftover.map(|leftover| vec![leftover.message]),
    ..CheckpointResult::from(())
  };
  Ok(engine.value(result)?)
}
