//! Conversion of errors: a JavaScript `Error` with a stable `code`, and the cause as its `cause`.

use std::error::Error as StdError;
use std::io;

use crate::api::convert::engine::{Engine, Value};
use crate::types::error::{Code, Error, system_code};

/// The text of a thrown value that is not an object.
pub const NOT_AN_ERROR: &str = "the thrown value is not an Error";

/// The error for an exception that was thrown while a value was serialized.
pub fn not_serializable(what: &str, cause: napi::Error) -> Error {
  let reason = match cause.reason.as_str() {
    "" => NOT_AN_ERROR,
    reason => reason,
  };
  let message = format!("{what} cannot be stored as JSON: {reason}");
  Error::new(Code::NotSerializable, message).because(cause)
}

/// The error for an exception that was thrown while the kind of a value was determined, for example of a revoked proxy.
pub fn unreadable(what: &str, cause: napi::Error) -> Error {
  Error::invalid_argument(format!("{what} cannot be read: {}", cause.reason)).because(cause)
}

/// A failure of napi itself. Calls that can fail because of a value of the caller map the error where they are made.
impl From<napi::Error> for Error {
  fn from(cause: napi::Error) -> Self {
    Self::new(Code::Internal, cause.reason.clone()).because(cause)
  }
}

/// The JavaScript `Error` for an error of the store.
pub fn to_js(engine: Engine<'_>, error: Error) -> napi::Result<Value> {
  let cause = error.cause.map(|cause| cause_to_js(engine, cause)).transpose()?;
  engine.error(&error.message, error.code.as_str(), cause)
}

/// The `cause` of an error. An exception becomes the same value that was thrown, an error of the store keeps its code, and a
/// system error gets the code that Node.js uses, such as `ENOSPC`.
pub fn cause_to_js(engine: Engine<'_>, cause: Box<dyn StdError + Send + Sync>) -> napi::Result<Value> {
  match cause.downcast::<napi::Error>() {
    Ok(thrown) => engine.thrown_value(*thrown),
    Err(cause) => match cause.downcast::<Error>() {
      Ok(error) => to_js(engine, *error),
      Err(cause) => {
        let system = cause.downcast_ref::<io::Error>().and_then(system_code);
        engine.error(&cause.to_string(), system.unwrap_or("UNKNOWN"), None::<Value>)
      }
    },
  }
}

/// [`to_js`] in the form that rejects a promise or throws.
pub fn to_napi(engine: Engine<'_>, error: Error) -> napi::Error {
  match to_js(engine, error) {
    Ok(value) => {
      let error = napi::Error::from(value);
      // napi converts the error to text, which throws for example for a Symbol, and leaves that exception pending. The next call
      // clears it.
      let _ = engine.object();
      error
    }
    Err(error) => error,
  }
}
