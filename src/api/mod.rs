//! The JavaScript API (napi), and the only layer that knows JavaScript values.
//!
//! A method reads its arguments on the event loop, works on a worker thread, and converts the result on the event loop. Belongs
//! here: reading arguments, converting results. Does not belong here: any decision about storage. One file per subject, named as
//! in `store/`.

// `index.d.ts` lists the methods of the class in the order of these modules. The blank lines keep rustfmt from sorting them.
mod store;

mod agent;

mod list;

mod diff;

mod overview;

mod verify;

mod labels;

mod retention;

mod convert_encoding;

mod archive;

mod lease;

mod convert;
mod runtime;

pub use agent::AgentCheckpoints;
pub use lease::{acquire_lease, acquire_next_lease, on_lease_lost, release_lease, renew_lease, store_number};
pub use list::CheckpointIterator;
pub use runtime::progress::{new_control, progress_of, stop_work};
pub use store::CheckpointStore;
