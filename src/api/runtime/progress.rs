//! The control handle of a long-running call: the event loop reads its progress, and may stop the work.
//!
//! Callbacks and signals stay in JavaScript: `lib/progress.js` creates a handle for each call and passes it as the last argument.

use std::sync::Arc;

use napi::bindgen_prelude::{External, ExternalRef, FromNapiValue};
use napi_derive::napi;

use crate::api::convert::arguments::{Arguments, is_undefined};
use crate::api::convert::engine::Value;
use crate::api::convert::results::number;
use crate::types::error::Result;
use crate::types::progress::Control;

type ControlHandle = Arc<Control>;

/// The progress of long-running work.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct WorkProgress {
  /// The current step. `'check'` is the validation of a file before its import.
  #[napi(ts_type = "'export' | 'check' | 'import' | 'convert' | 'copy' | 'prune' | 'verify'")]
  pub phase: &'static str,
  /// The number of finished items: documents, results and checkpoints.
  pub done: f64,
  /// The number of all items, as far as it is known. Items that are deleted meanwhile are not counted.
  pub total: f64,
  /// The bytes of the finished items, as they are stored.
  pub bytes: f64,
  /// The bytes of all items, if known.
  pub total_bytes: Option<f64>,
}

/// Creates a control handle.
#[napi(skip_typescript)]
#[must_use]
pub fn new_control() -> External<ControlHandle> {
  External::new(Arc::default())
}

/// Requests the work to stop.
#[napi(skip_typescript)]
pub fn stop_work(control: &External<ControlHandle>) {
  control.stop();
}

/// The progress of the work; `null` before it has begun.
#[napi(skip_typescript)]
#[must_use]
pub fn progress_of(control: &External<ControlHandle>) -> Option<WorkProgress> {
  let progress = control.progress()?;
  Some(WorkProgress {
    phase: progress.phase.name(),
    done: number(progress.done),
    total: number(progress.total),
    bytes: number(progress.bytes),
    total_bytes: progress.total_bytes.map(number),
  })
}

impl Arguments<'_> {
  /// The handle that `lib/progress.js` passes. Without one, the progress is not read and the work is not stopped.
  pub fn control(self, value: Value) -> Result<ControlHandle> {
    if is_undefined(value) {
      return Ok(ControlHandle::default());
    }
    let handle =
      ExternalRef::<ControlHandle>::from_unknown(value).map_err(|_| self.wrong("control", "left out", value))?;
    Ok(Arc::clone(&handle))
  }
}
