//! Conversions between JavaScript values and Rust: arguments in, results and errors out.

pub mod arguments;
pub mod engine;
pub mod error;
pub mod globals;
pub mod results;
pub mod text;
