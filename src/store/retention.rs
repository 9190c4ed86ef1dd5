//! Which checkpoints stay.

use super::Store;
use crate::backend::Item;
use crate::id::SessionId;

impl Store {
  /// Removes the oldest checkpoints beyond the limit, by their names alone. Runs when a new one is durable; the newest
  /// always stays.
  ///
  /// A checkpoint that cannot be removed is no reason to report the new one as failed: the answer is one sentence
  /// for each.
  pub(super) fn apply_retention(&self, session: &SessionId) -> Vec<String> {
    let entries = match self.backend.checkpoints(session) {
      Ok(entries) => entries,
      Err(error) => return vec![format!("Old checkpoints were not removed: {error}")],
    };
    if let Some(newest) = entries.first() {
      // Another process, with a clock ahead of ours, must not make our next one look old.
      self.ids.observe(&newest.id);
    }
    let surplus = entries.iter().skip(self.options.max_checkpoints_per_session);
    surplus
      .filter_map(|entry| {
        self
          .backend
          .discard(session, Item::Checkpoint(&entry.id, entry.encoding))
          .err()
      })
      .map(|error| format!("An old checkpoint was not removed: {error}"))
      .collect()
  }
}
