//! Bytes as containers: gzip, zstd, deltas, the export file. Belongs here: encoding and decoding without I/O of its own. Does
//! not belong here: which encoding a checkpoint gets. Uses only `types`.

pub mod archive;
pub mod delta;
pub mod gzip;
pub mod patch;
pub mod zstd;
