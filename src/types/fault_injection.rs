//! Deliberate defects, for showing that the fault campaign notices them. Without the feature `weakened` there are none.

/// Whether `WAYMARK_WEAKENED` names this defect.
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
