//! A document or a task result as columns.

use crate::backend::Item;
use crate::backend::item::RESULTS;
use crate::types::error::{Code, Error, Result};
use crate::types::id::TaskId;

/// The column `number` of the versions that a new session is created with counts down from here, so that they may arrive in any
/// order. Each later replacement counts up; no document is replaced so often that it reaches this number.
pub const FIRST_NUMBER: i64 = 1 << 32;

/// The column `name` of an item that is no checkpoint, and how many versions ago it was current; 0 is the current version. All
/// versions have the name of the current one.
pub fn document_name(item: Item<'_>) -> (String, u32) {
  match item {
    Item::Previous(document, back) => (Item::Document(document).to_string(), back),
    current => (current.to_string(), 0),
  }
}

/// The task whose result has that name, which begins with `results/`.
pub fn task_of_result(name: &str) -> Result<TaskId> {
  let id = name[RESULTS.len() + 1..].strip_suffix(".json");
  TaskId::parse(id.unwrap_or_default())
}

/// The error of replacing an earlier version that does not exist.
pub fn missing_version() -> Error {
  Error::invalid_argument("An earlier version that does not exist cannot be replaced")
}

/// The error of an item that does not fit into one row.
pub fn row_too_large(name: &str) -> Error {
  let message = format!("{name} is larger than a row of a database can be. A store in a directory has no such limit");
  Error::new(Code::TooLarge, message)
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::backend::Document;

  #[test]
  fn all_versions_of_a_document_have_its_name() {
    assert_eq!(document_name(Item::SESSION), ("session.json".to_owned(), 0));
    let previous = Item::Previous(Document::Session, 3);
    assert_eq!(document_name(previous), ("session.json".to_owned(), 3));
  }

  #[test]
  fn task_of_result_parses_the_name_that_a_result_has() {
    let task = TaskId::parse("t 1").unwrap();
    let (name, _) = document_name(Item::TaskResult(&task));
    assert_eq!(task_of_result(&name).unwrap(), task);
    assert!(task_of_result("results/other.txt").is_err());
  }
}
