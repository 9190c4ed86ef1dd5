//! Parts that the fault tests share: a disk in memory that can fail, and a session with all kinds of items.

#![allow(dead_code, reason = "each test uses its own part")]

pub mod disk;
pub mod scenario;
