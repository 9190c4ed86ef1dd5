//! The only room that knows JavaScript. Methods read their arguments on the JavaScript thread, hop off it, and
//! convert the answer when they are back; no storage decision is made here.

mod arguments;
mod call;
mod engine;
mod error;
mod promise;
mod safety;
mod settle;
mod store;

pub use store::CheckpointStore;
