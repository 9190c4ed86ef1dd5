//! Conversions between JavaScript values and Rust: arguments, results, errors.

pub mod arguments;
pub mod engine;
pub mod error;
pub mod globals;
pub mod results;
pub mod text;
