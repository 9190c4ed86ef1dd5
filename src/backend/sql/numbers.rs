//! Numbers as columns: databases have no unsigned integers.

/// A size, a time or a count as a database stores it.
pub fn to_signed(number: u64) -> i64 {
  i64::try_from(number).unwrap_or(i64::MAX)
}

/// A size, a time or a count from a database. A store writes no negative numbers; they become 0.
pub fn to_unsigned(number: i64) -> u64 {
  u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn numbers_beyond_the_range_become_its_limit() {
    assert_eq!(to_signed(7), 7);
    assert_eq!(to_signed(u64::MAX), i64::MAX);
    assert_eq!(to_unsigned(7), 7);
    assert_eq!(to_unsigned(-1), 0);
  }
}
