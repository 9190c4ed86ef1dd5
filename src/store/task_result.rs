//! Task results.

use super::{LaidOut, Loaded, Saved, Store};
use crate::backend::Item;
use crate::types::error::Result;
use crate::types::id::{SessionId, TaskId};

impl Store {
  /// Saves the result of a task, which is compact JSON.
  pub fn save_task_result(&self, session: &SessionId, task: &TaskId, result: &str) -> Result<Saved> {
    self.write(session, Item::TaskResult(task), &LaidOut(result))
  }

  pub fn load_task_result(&self, session: &SessionId, task: &TaskId) -> Result<Option<Loaded>> {
    self.load(session, Item::TaskResult(task))
  }
}
