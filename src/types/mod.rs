//! The vocabulary of all layers: ids, errors, time, progress, the cache of what is known of sessions. Belongs here: plain types without I/O. Does not belong here:
//! anything that depends on a document, a backend or JavaScript. Uses no other layer.

pub mod error;
pub mod fault_injection;
pub mod id;
pub mod progress;
pub mod session_cache;
pub mod time;
