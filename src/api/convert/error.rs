//! Our errors as JavaScript sees them: an `Error` with a stable `code`, and the cause as its `cause`.

use std::error::Error as StdError;
use std::io;

use crate::api::convert::engine::{Engine, Value};
use crate::types::error::{Code, Error, system_code};

/// An exception that the engine threw while it spelt a value.
pub fn not_serializable(what: &str, cause: napi::Error) -> Error {
  let reason = match cause.reason.as_str() {
    "" => "something was thrown that is no Error",
    reason => reason,
  };
  let message = format!("{what} cannot be stored as JSON: {reason}");
  Error::new(Code::NotSerializable, message).because(cause)
}

/// An exception that the engine threw when it was asked what a value is: a revoked proxy answers nothing.
pub fn unreadable(what: &str, cause: napi::Error) -> Error {
  Error::invalid_argument(format!("{what} cannot be read: {}", cause.reason)).because(cause)
}

/// A failure of the bridge itself: what can fail for the caller's reasons says so where it is called.
impl From<napi::Error> for Error {
  fn from(cause: napi::Error) -> Self {
    Self::new(Code::Internal, cause.reason.clone()).because(cause)
  }
}

/// The JavaScript `Error` for one of ours.
pub fn to_js(engine: Engine<'_>, error: Error) -> napi::Result<Value> {
  let cause = error.cause.map(|cause| cause_to_js(engine, cause)).transpose()?;
  engine.error(&error.message, error.code.as_str(), cause)
}

/// A JavaScript exception goes back as the very object that was thrown; one of ours keeps its code, and a system error gets
/// the name that Node.js gives it.
pub fn cause_to_js(engine: Engine<'_>, cause: Box<dyn StdError + Send + Sync>) -> napi::Result<Value> {
  match cause.downcast::<napi::Error>() {
    Ok(thrown) => engine.thrown_value(*thrown),
    Err(cause) => match cause.downcast::<Error>() {
      Ok(ours) => to_js(engine, *ours),
      Err(cause) => {
        let system = cause.downcast_ref::<io::Error>().and_then(system_code);
        engine.error(&cause.to_string(), system.unwrap_or("UNKNOWN"), None::<Value>)
      }
    },
  }
}

/// The same, in the form that rejects a promise or throws.
pub fn to_napi(engine: Engine<'_>, error: Error) -> napi::Error {
  match to_js(engine, error) {
    Ok(value) => {
      let error = napi::Error::from(value);
      // The bridge asks the cause for its text, which may throw, as a Symbol does: the next call picks that up.
      let _ = engine.object();
      error
    }
    Err(bridge) => bridge,
  }
}
