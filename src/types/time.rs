//! The wall clock, as JavaScript's `Date.now()` reads it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 while the clock is set before that.
#[must_use]
pub fn now_ms() -> u64 {
  millis_since_epoch(SystemTime::now())
}

/// The same in microseconds.
#[must_use]
pub fn now_us() -> u64 {
  let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
  u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

#[must_use]
pub fn millis_since_epoch(time: SystemTime) -> u64 {
  let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
  u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
