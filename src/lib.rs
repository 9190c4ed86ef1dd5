//! Waymark: durable checkpoints for orchestrators of AI agents.
//!
//! The layers, from the top down. Each uses only those below it; `tests/layers.rs` enforces that:
//!
//! - `api`: the only layer that knows JavaScript (feature `node`);
//! - [`store`]: what a checkpoint store does, operation by operation; no JavaScript, no system calls;
//! - [`checkpoint`]: the checkpoint document: compose, verify, summarize, compare;
//! - [`backend`]: where bytes are stored, behind one trait: `file`, `sqlite`, `postgres`, `memory`;
//! - [`json`]: JSON as text;
//! - [`codec`]: compression, deltas, the export file;
//! - [`types`]: ids, errors, time, progress.

#[cfg(feature = "node")]
pub mod api;
pub mod backend;
pub mod checkpoint;
pub mod codec;
pub mod json;
pub mod store;
pub mod types;

pub use store::{Options, Store};
pub use types::error::{Code, Error, Result};
