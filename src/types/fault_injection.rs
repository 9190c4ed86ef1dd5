//! Deliberate defects, which prove that the fault tests detect them. They exist only in builds with the feature `weakened`, and
//! the environment variable `WAYMARK_WEAKENED` selects one.

/// Whether `WAYMARK_WEAKENED` names `defect`.
#[cfg(feature = "weakened")]
#[must_use]
pub fn is_enabled(defect: &str) -> bool {
  std::env::var("WAYMARK_WEAKENED").is_ok_and(|named| named == defect)
}

#[cfg(not(feature = "weakened"))]
#[must_use]
pub const fn is_enabled(_defect: &str) -> bool {
  false
}
