//! Waymark: durable checkpoints for orchestrators of AI agents.
//!
//! The rooms, from the caller inwards:
//!
//! - `binding`: the only room that knows JavaScript (feature `node`);
//! - [`store`]: what a checkpoint store does, in order; no JavaScript, no file system;
//! - [`format`]: bytes to meaning and back: compose, verify, indent, compress;
//! - [`backend`]: where bytes live, behind one small trait;
//! - [`outside`]: files of the user's that are no part of a store;
//! - [`id`], [`error`], [`clock`] and [`control`]: the words that all rooms share.

pub mod backend;
#[cfg(feature = "node")]
pub mod binding;
pub mod clock;
pub mod control;
pub mod error;
pub mod format;
pub mod id;
pub mod outside;
pub mod store;
mod weakened;

pub use error::{Code, Error, Result};
pub use store::{Options, Store};
