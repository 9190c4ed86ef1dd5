//! Our errors as JavaScript sees them: an `Error` with a stable `code`, and the cause as its `cause`.

use std::io;

use super::engine::{Engine, Value};
use crate::error::{Code, Error, system_code};

/// An exception that the engine threw while it spelt a value.
pub fn not_serializable(what: &str, cause: napi::Error) -> Error {
  Error::new(
    Code::NotSerializable,
    format!("{what} cannot be stored as JSON: {}", cause.reason),
  )
  .because(cause)
}

/// A failure of the bridge itself: what can fail for the caller's reasons says so where it is called.
impl From<napi::Error> for Error {
  fn from(cause: napi::Error) -> Self {
    Self::new(Code::Internal, cause.reason.clone()).because(cause)
  }
}

/// The JavaScript `Error` for one of ours.
pub fn to_js(engine: Engine<'_>, error: Error) -> napi::Result<Value> {
  let (message, code) = (&error.message, error.code.as_str());
  let Some(cause) = error.cause else {
    return engine.error(message, code, None::<Value>);
  };
  match cause.downcast::<napi::Error>() {
    // A JavaScript exception goes back as the very object that was thrown.
    Ok(thrown) => engine.error(message, code, Some(*thrown)),
    Err(cause) => {
      let system = cause
        .downcast_ref::<io::Error>()
        .and_then(system_code)
        .unwrap_or("UNKNOWN");
      let cause = engine.error(&cause.to_string(), system, None::<Value>)?;
      engine.error(message, code, Some(cause))
    }
  }
}

/// The same, in the form that rejects a promise or throws.
pub fn to_napi(engine: Engine<'_>, error: Error) -> napi::Error {
  match to_js(engine, error) {
    Ok(value) => napi::Error::from(value),
    Err(bridge) => bridge,
  }
}
