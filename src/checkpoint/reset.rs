//! Resetting tasks in the text of a task tree, so that a restored run executes them again.

use std::borrow::Cow;

use memchr::memmem::Finder;

use crate::json::edit::{Edit, ObjectWriter, edit_members};
use crate::json::scan::{Member, SyntaxError, find, members, text_of};

/// Which tasks a restore resets to `pending`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resets {
  pub failed: bool,
  pub in_progress: bool,
}

/// A task tree after its resets.
#[derive(Debug)]
pub struct ResetTree<'a> {
  pub text: Cow<'a, str>,
  /// A JSON array of strings, one for each reset task.
  pub warnings: String,
}

const FAILED: &[Edit<'static>] = &[
  Edit::Set("status", "\"pending\""),
  Edit::Set("retryCount", "0"),
  Edit::Remove("result"),
  Edit::Remove("assignedAgentId"),
  Edit::Remove("startedAt"),
  Edit::Remove("completedAt"),
];

const IN_PROGRESS: &[Edit<'static>] = &[
  Edit::Set("status", "\"pending\""),
  Edit::Remove("assignedAgentId"),
  Edit::Remove("startedAt"),
];

/// `tree` is compact.
pub fn reset_tasks(tree: &str, resets: Resets) -> Result<ResetTree<'_>, SyntaxError> {
  if resets == Resets::default() {
    return Ok(ResetTree {
      text: Cow::Borrowed(tree),
      warnings: warnings(&[], &[]),
    });
  }
  let tasks = members(tree)?;
  let statuses = [Finder::new("failed"), Finder::new("in_progress"), Finder::new("\\u")];
  let mut failed = Vec::new();
  let mut in_progress = Vec::new();
  let mut out = ObjectWriter::with_capacity(tree.len() + 2);
  for task in &tasks {
    // Most tasks contain neither status, nor an escape that could hide one.
    if !statuses
      .iter()
      .any(|status| status.find(task.value.as_bytes()).is_some())
    {
      out.push(task.raw_key, task.value);
      continue;
    }
    let fields = fields(task)?;
    match status(&fields).as_deref() {
      Some("failed") if resets.failed => {
        failed.push(task.raw_key);
        out.push(task.raw_key, &edit_members(&fields, FAILED));
      }
      Some("in_progress") if resets.in_progress => {
        in_progress.push(task.raw_key);
        out.push(task.raw_key, &edit_members(&fields, IN_PROGRESS));
      }
      _ => out.push(task.raw_key, task.value),
    }
  }
  Ok(ResetTree {
    text: Cow::Owned(out.finish()),
    warnings: warnings(&failed, &in_progress),
  })
}

/// The members of a task; none if it is not an object.
fn fields<'a>(task: &Member<'a>) -> Result<Vec<Member<'a>>, SyntaxError> {
  if task.value.starts_with('{') {
    members(task.value)
  } else {
    Ok(Vec::new())
  }
}

fn status(fields: &[Member<'_>]) -> Option<String> {
  text_of(find(fields, "status")?.value).map(Cow::into_owned)
}

fn warnings(failed: &[&str], in_progress: &[&str]) -> String {
  let failed = failed.iter().map(|id| format!("\"Reset failed task: {id}\""));
  let in_progress = in_progress.iter().map(|id| format!("\"Reset in-progress task: {id}\""));
  let lines: Vec<String> = failed.chain(in_progress).collect();
  format!("[{}]", lines.join(","))
}

#[cfg(test)]
mod tests {
  use super::*;

  const TREE: &str = concat!(
    r#"{"1":{"status":"in_progress","assignedAgentId":"a","startedAt":1,"result":{"kept":1}},"#,
    r#""t\"q":{"retryCount":3,"status":"failed","result":{},"assignedAgentId":"a","startedAt":1,"completedAt":2,"x":1},"#,
    r#""done":{"status":"completed","result":1},"odd":null,"f":{"status":"failed"}}"#
  );

  #[test]
  fn tasks_are_reset_as_specified_and_failed_ones_are_named_first() {
    let reset = reset_tasks(
      TREE,
      Resets {
        failed: true,
        in_progress: true,
      },
    )
    .unwrap();
    assert_eq!(
      reset.text,
      concat!(
        r#"{"1":{"status":"pending","result":{"kept":1}},"#,
        r#""t\"q":{"retryCount":0,"status":"pending","x":1},"#,
        r#""done":{"status":"completed","result":1},"odd":null,"f":{"status":"pending","retryCount":0}}"#
      )
    );
    assert_eq!(
      reset.warnings,
      r#"["Reset failed task: t\"q","Reset failed task: f","Reset in-progress task: 1"]"#
    );
  }

  #[test]
  fn a_tree_without_resets_is_unchanged() {
    let reset = reset_tasks(TREE, Resets::default()).unwrap();
    assert_eq!(reset.text, TREE);
    assert_eq!(reset.warnings, "[]");
  }
}
