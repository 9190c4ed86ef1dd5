//! What the JavaScript thread holds of work that is under way: it looks how far that is, and may stop it.
//!
//! Callbacks and signals stay in JavaScript: `lib/progress.js` makes one of these for each call, and hands it over as the
//! last argument.

use std::sync::Arc;

use napi::Env;
use napi::bindgen_prelude::{External, ExternalRef, FromNapiValue, JsObjectValue, JsValue, Null};
use napi_derive::napi;

use crate::api::convert::arguments::{Arguments, is_undefined};
use crate::api::convert::engine::{Engine, Value};
use crate::api::convert::results::number;
use crate::types::error::Result;
use crate::types::progress::Control;

type Held = Arc<Control>;

/// A new one.
#[napi(skip_typescript)]
#[must_use]
pub fn new_control() -> External<Held> {
  External::new(Arc::default())
}

/// Asks the work to end.
#[napi(skip_typescript)]
pub fn stop_work(control: &External<Held>) {
  control.stop();
}

/// How far the work is: a `WorkProgress`, or `null` before it has begun.
#[napi(skip_typescript)]
pub fn progress_of(env: Env, control: &External<Held>) -> napi::Result<Value> {
  let engine = Engine::new(&env)?;
  let Some(progress) = control.progress() else {
    return engine.value(Null);
  };
  let mut result = engine.object()?;
  result.set_named_property("phase", progress.phase.name())?;
  result.set_named_property("done", number(progress.done))?;
  result.set_named_property("total", number(progress.total))?;
  result.set_named_property("bytes", number(progress.bytes))?;
  if let Some(bytes) = progress.total_bytes {
    result.set_named_property("totalBytes", number(bytes))?;
  }
  Ok(result.to_unknown())
}

impl Arguments<'_> {
  /// What `lib/progress.js` hands over; without it, nobody looks.
  pub fn control(self, value: Value) -> Result<Held> {
    if is_undefined(value) {
      return Ok(Held::default());
    }
    let held = ExternalRef::<Held>::from_unknown(value).map_err(|_| self.wrong("control", "left out", value))?;
    Ok(Arc::clone(&held))
  }
}
