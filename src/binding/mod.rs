//! The only room that knows JavaScript. Methods read their arguments on the JavaScript thread, hop off it, and
//! convert the answer when they are back; no storage decision is made here.

// The class, in the order in which its declarations read best.
mod store;

mod agent;

mod list;

mod compare;

mod overview;

mod safety;

mod steer;

mod retention;

mod storage;

mod carry;

mod lease;

mod arguments;
mod call;
mod control;
mod engine;
mod error;
mod globals;
mod lanes;
mod promise;
mod settle;
mod text;
mod turns;

pub use agent::AgentCheckpoints;
pub use control::{new_control, progress_of, stop_work};
pub use lease::{acquire_lease, acquire_next_lease, on_lease_lost, release_lease, renew_lease, store_number};
pub use list::CheckpointIterator;
pub use store::CheckpointStore;
