//! What the fault tests share: a disk in memory that can fail, and a session with everything in it.

#![allow(dead_code, reason = "each test uses its own part")]

pub mod disk;
pub mod scenario;
