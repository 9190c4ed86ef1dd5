//! Results of tasks.

use super::{Loaded, Saved, Store, laid_out};
use crate::backend::Item;
use crate::error::Result;
use crate::id::{SessionId, TaskId};

impl Store {
  /// `result` is compact JSON.
  pub fn save_task_result(&self, session: &SessionId, task: &TaskId, result: &str) -> Result<Saved> {
    self.write(session, Item::TaskResult(task), laid_out(result)?.as_bytes())
  }

  pub fn load_task_result(&self, session: &SessionId, task: &TaskId) -> Result<Option<Loaded>> {
    self.load(session, Item::TaskResult(task))
  }
}
