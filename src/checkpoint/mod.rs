//! The checkpoint document: composing, verifying, summarizing and comparing it, and resetting its tasks. Belongs here: the meaning of
//! its members. Does not belong here: how it is encoded and stored. Uses `json` and `types`.

pub mod agent;
pub mod compose;
pub mod diff;
pub mod document;
pub mod reset;
pub mod summary;
