//! Which checkpoints stay.

use super::Store;
use crate::backend::{Series, time_in_id};
use crate::clock::now_ms;
use crate::id::CheckpointId;

impl Store {
  /// Removes the oldest checkpoints beyond the limit, by their names alone. Runs when `just_made` is durable; the newest
  /// always stays, and so does `just_made` if it looks old only because another process has a clock ahead of ours.
  ///
  /// A checkpoint that cannot be removed is no reason to report the new one as failed: the answer is one sentence
  /// for each.
  pub(super) fn apply_retention(&self, series: &Series, just_made: &CheckpointId) -> Vec<String> {
    let keep = match series.agent {
      None => self.options.max_checkpoints_per_session,
      Some(_) => self.options.max_checkpoints_per_agent,
    };
    let surplus = match self.backend.surplus(series, keep) {
      Ok(surplus) => surplus,
      Err(error) => return vec![format!("Old checkpoints were not removed: {error}")],
    };
    let mut is_from_future = false;
    if let Some(newest) = &surplus.newest {
      is_from_future = time_in_id(newest.id.as_str()).is_some_and(|time| time > now_ms());
      // From now on, ours are newer.
      self.ids.observe(&newest.id);
    }
    let refused = surplus
      .entries
      .iter()
      .filter(|entry| !(is_from_future && entry.id == *just_made))
      .filter_map(|entry| self.backend.retire(series, entry).err())
      .map(|error| format!("An old checkpoint was not removed: {error}"));
    surplus.warning.iter().cloned().chain(refused).collect()
  }
}
