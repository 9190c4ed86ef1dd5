//! How a call runs: off the JavaScript thread, on the thread pool, and back through a promise.

pub mod call;
pub mod event_loop;
pub mod progress;
pub mod promise;
pub mod thread_pool;
