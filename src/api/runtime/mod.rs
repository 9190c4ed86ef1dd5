//! How a call runs: on a thread of the pool, and back to the event loop through a promise.

pub mod call;
pub mod event_loop;
pub mod progress;
pub mod promise;
pub mod thread_pool;
