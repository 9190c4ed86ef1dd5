//! The checkpoint document: composing, verifying, summarizing, comparing and resetting it. Belongs here: what the members of a
//! document mean. Does not belong here: where it is stored. Uses `json`, `codec` and `types`.

pub mod agent;
pub mod compose;
pub mod diff;
pub mod document;
pub mod reset;
pub mod summary;
