//! Results of tasks.

use super::{Loaded, Saved, Store};
use crate::backend::Item;
use crate::error::Result;
use crate::format::layout::indent;
use crate::id::{SessionId, TaskId};

impl Store {
  /// `result` is compact JSON.
  pub fn save_task_result(&self, session: &SessionId, task: &TaskId, result: &str) -> Result<Saved> {
    self.write(session, Item::TaskResult(task), indent(result).as_bytes())
  }

  pub fn load_task_result(&self, session: &SessionId, task: &TaskId) -> Result<Option<Loaded>> {
    self.load(session, Item::TaskResult(task))
  }
}
