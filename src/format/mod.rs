//! Bytes to meaning and back. User data is only ever copied as text; no value is built from it and spelt again.

pub mod agent;
pub mod archive;
pub mod checkpoint;
pub mod compose;
pub mod delta;
pub mod diff;
pub mod gzip;
pub mod info;
pub mod layout;
pub mod meaning;
pub mod object;
pub mod patch;
pub mod reset;
pub mod scan;
pub mod zstd;
