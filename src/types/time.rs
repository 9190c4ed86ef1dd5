//! The wall clock, with the precision of JavaScript's `Date`.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Datelike, SecondsFormat, Timelike, Utc};
use serde::{Deserialize, Serialize};

/// An instant: milliseconds since 1970-01-01T00:00:00Z, as `Date.now()` counts them.
///
/// It holds every number that a document may contain, although calendars end before that.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
  /// The present instant; 1970 while the clock is set to an earlier one.
  #[must_use]
  pub fn now() -> Self {
    Self(u64::try_from(Utc::now().timestamp_millis()).unwrap_or(0))
  }

  #[must_use]
  pub const fn from_millis(milliseconds: u64) -> Self {
    Self(milliseconds)
  }

  #[must_use]
  pub const fn as_millis(self) -> u64 {
    self.0
  }

  /// The milliseconds from `earlier` to `self`; 0 if `earlier` is later.
  #[must_use]
  pub const fn millis_since(self, earlier: Self) -> u64 {
    self.0.saturating_sub(earlier.0)
  }

  #[must_use]
  pub const fn plus_millis(self, milliseconds: u64) -> Self {
    Self(self.0.saturating_add(milliseconds))
  }

  /// A number that all instants of one calendar day, UTC, share. Later days have greater numbers.
  #[must_use]
  pub fn calendar_day(self) -> i64 {
    self.date_time().num_days_from_ce().into()
  }

  /// A number that all instants of one hour of a calendar day, UTC, share. Later hours have greater numbers.
  #[must_use]
  pub fn calendar_hour(self) -> i64 {
    self.calendar_day() * 24 + i64::from(self.date_time().hour())
  }

  fn date_time(self) -> DateTime<Utc> {
    let milliseconds = i64::try_from(self.0).ok();
    let date_time = milliseconds.and_then(DateTime::from_timestamp_millis);
    date_time.unwrap_or(DateTime::<Utc>::MAX_UTC)
  }
}

impl From<SystemTime> for Timestamp {
  /// The time stamps of some file systems reach back to before 1970, which counts as 1970.
  fn from(time: SystemTime) -> Self {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Self(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
  }
}

impl From<Timestamp> for SystemTime {
  fn from(timestamp: Timestamp) -> Self {
    UNIX_EPOCH + Duration::from_millis(timestamp.0)
  }
}

impl fmt::Display for Timestamp {
  /// In ISO 8601, as `Date.prototype.toISOString` writes it.
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.write_str(&self.date_time().to_rfc3339_opts(SecondsFormat::Millis, true))
  }
}

impl fmt::Debug for Timestamp {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    fmt::Display::fmt(self, formatter)
  }
}

/// [`Timestamp::now`] in milliseconds.
#[must_use]
pub fn now_ms() -> u64 {
  Timestamp::now().as_millis()
}

/// Microseconds since 1970, from which fencing tokens are taken.
#[must_use]
pub fn now_us() -> u64 {
  u64::try_from(Utc::now().timestamp_micros()).unwrap_or(0)
}

#[must_use]
pub fn millis_since_epoch(time: SystemTime) -> u64 {
  Timestamp::from(time).as_millis()
}

#[cfg(test)]
mod tests {
  use std::time::Duration;

  use super::*;

  #[test]
  fn display_is_the_iso_string_of_javascript() {
    for (milliseconds, text) in [
      (0, "1970-01-01T00:00:00.000Z"),
      (951_825_599_999, "2000-02-29T11:59:59.999Z"),
      (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
    ] {
      assert_eq!(Timestamp::from_millis(milliseconds).to_string(), text);
    }
  }

  #[test]
  fn days_and_hours_begin_at_full_hours_utc() {
    const HOUR: u64 = 3_600_000;
    let midnight = Timestamp::from_millis(20_000 * 24 * HOUR);
    let day_before = Timestamp::from_millis(midnight.as_millis() - 1);
    assert_eq!(midnight.calendar_day() - day_before.calendar_day(), 1);
    assert_eq!(midnight.calendar_hour() - day_before.calendar_hour(), 1);
    assert_eq!(
      midnight.plus_millis(24 * HOUR - 1).calendar_day(),
      midnight.calendar_day()
    );
    assert_eq!(midnight.plus_millis(HOUR - 1).calendar_hour(), midnight.calendar_hour());
    assert_eq!(midnight.plus_millis(HOUR).calendar_hour() - midnight.calendar_hour(), 1);
    let end = Timestamp::from_millis(u64::MAX);
    assert!(end.calendar_day() > midnight.calendar_day(), "{end}");
  }

  #[test]
  fn now_is_the_time_of_the_system_clock() {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = Timestamp::now().millis_since(Timestamp::default());
    assert!(Duration::from_millis(now).abs_diff(clock) < Duration::from_secs(60));
    assert!(Duration::from_micros(now_us()).abs_diff(clock) < Duration::from_secs(60));
    let before = UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(Timestamp::from(before), Timestamp::default());
  }
}
