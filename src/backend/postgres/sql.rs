//! The statements that are kept in `sql/`, with their placeholders replaced.
//!
//! The first two parameters of a statement that writes are the session and the fencing token of the writer. Locks are taken in
//! the same order everywhere: session, bases, documents by name, checkpoints. A write locks the row of the session FOR SHARE.
//! Whatever must exclude all other writers locks it FOR UPDATE: deleting the session, creating it from a source, changing its
//! lease. A statement that waited for a lock sees the current row of the session, but everything else as it was when the
//! statement began.

use std::sync::LazyLock;

use tokio_postgres::Row;

use super::error::PgError;

/// Locks a session, if it exists, until the transaction ends. It is a statement of its own, so that the next one sees everything
/// that other writers have stored.
pub const LOCK_SESSION_IF_PRESENT: &str = "SELECT 1 FROM waymark.sessions WHERE id = $1 FOR UPDATE";

pub static SQL: LazyLock<Statements> = LazyLock::new(Statements::new);

/// The texts of the statements. The comment at the top of each file has its purpose, locks and parameters.
pub struct Statements {
  pub create_or_lock_session: String,
  pub create_session: String,
  pub delete_base: String,
  pub delete_checkpoint: String,
  /// Unless retention keeps the checkpoint.
  pub delete_checkpoint_if_deletable: String,
  /// Unless retention keeps the checkpoint, or the labels have changed.
  pub delete_checkpoint_if_unlabelled: String,
  pub delete_document: String,
  pub delete_old_checkpoints: String,
  pub delete_unused_bases: String,
  pub delete_version: String,
  pub lock_session: String,
  pub put_base: String,
  /// Creates the session if it does not exist.
  pub put_checkpoint: ByBase,
  /// Does not create a session.
  pub put_checkpoint_after_parent: ByBase,
  pub put_labels: String,
  pub quarantine_checkpoint: String,
  pub read_session_state: String,
  pub read_usage: String,
  pub replace_checkpoint: ByBase,
  pub replace_documents: String,
  pub replace_version: String,
  pub set_made_at: String,
}

/// A statement that stores a checkpoint, by what it does to a base.
pub struct ByBase {
  /// It has no base.
  pub plain: String,
  pub creating: String,
  pub extending: String,
}

impl Statements {
  fn new() -> Self {
    let delete_checkpoint = |condition| expand(include_str!("sql/delete_checkpoint.sql"), &[("condition", condition)]);
    let put_checkpoint = |session| ByBase::new(include_str!("sql/put_checkpoint.sql"), session, "precondition_ok", 17);
    Self {
      create_or_lock_session: expand(include_str!("sql/create_or_lock_session.sql"), &[]),
      create_session: expand(include_str!("sql/create_session.sql"), &[]),
      delete_base: expand(include_str!("sql/delete_base.sql"), &[]),
      delete_checkpoint: delete_checkpoint("true"),
      delete_checkpoint_if_deletable: delete_checkpoint("{is_deletable}"),
      delete_checkpoint_if_unlabelled: delete_checkpoint("{is_deletable} AND {labels_unchanged}"),
      delete_document: expand(include_str!("sql/delete_document.sql"), &[]),
      delete_old_checkpoints: expand(include_str!("sql/delete_old_checkpoints.sql"), &[]),
      delete_unused_bases: expand(include_str!("sql/delete_unused_bases.sql"), &[]),
      delete_version: expand(include_str!("sql/delete_version.sql"), &[]),
      lock_session: expand(include_str!("sql/lock_session.sql"), &[]),
      put_base: expand(include_str!("sql/put_base.sql"), &[]),
      put_checkpoint: put_checkpoint("{held_or_created_session}"),
      put_checkpoint_after_parent: put_checkpoint("{held_session}"),
      put_labels: expand(include_str!("sql/put_labels.sql"), &[]),
      quarantine_checkpoint: expand(include_str!("sql/quarantine_checkpoint.sql"), &[]),
      read_session_state: expand(include_str!("sql/read_session_state.sql"), &[]),
      read_usage: expand(include_str!("sql/read_usage.sql"), &[]),
      replace_checkpoint: ByBase::new(
        include_str!("sql/replace_checkpoint.sql"),
        "{held_session}",
        "admitted_session",
        13,
      ),
      replace_documents: expand(include_str!("sql/replace_documents.sql"), &[]),
      replace_version: expand(include_str!("sql/replace_version.sql"), &[]),
      set_made_at: expand(include_str!("sql/set_made_at.sql"), &[]),
    }
  }
}

impl ByBase {
  /// The table expression `writable` has a row if the checkpoint may be stored, whatever becomes of its base. `first` is the
  /// number of the first parameter of the base.
  fn new(template: &str, session: &str, writable: &str, first: usize) -> Self {
    let [first, second, third] = [first, first + 1, first + 2].map(|number| format!("${number}"));
    let common = [("session", session), ("writable", writable), ("base_id", &*first)];
    let created = [("base", "{created_base}"), ("base_ok", "base_ok"), ("added", &*second)];
    let extended = [
      ("base", "{extended_base}"),
      ("base_ok", "base_ok"),
      ("known", &*second),
      ("added", &*third),
    ];
    Self {
      plain: expand(template, &[("session", session), ("base", ""), ("base_ok", writable)]),
      creating: expand(template, &[&common[..], &created].concat()),
      extending: expand(template, &[&common[..], &extended].concat()),
    }
  }
}

/// The parts that several statements share.
const FRAGMENTS: [(&str, &str); 7] = [
  ("created_base", include_str!("sql/fragments/created_base.sql")),
  ("extended_base", include_str!("sql/fragments/extended_base.sql")),
  (
    "held_or_created_session",
    include_str!("sql/fragments/held_or_created_session.sql"),
  ),
  ("held_session", include_str!("sql/fragments/held_session.sql")),
  ("is_deletable", include_str!("sql/fragments/is_deletable.sql")),
  ("labels_unchanged", include_str!("sql/fragments/labels_unchanged.sql")),
  ("lease_admits", include_str!("sql/fragments/lease_admits.sql")),
];

/// Replaces each placeholder, such as `{held_session}`, by the value or the fragment of that name, which may hold placeholders
/// too. Comments are removed: the text of a statement is hashed with each call.
///
/// Panics if a placeholder is unknown or a value is unused. A test expands all statements.
fn expand(template: &str, values: &[(&str, &str)]) -> String {
  let mut sql = without_comments(template);
  let mut unused: Vec<_> = values.iter().map(|(name, _)| *name).collect();
  while let Some((before, rest)) = sql.split_once('{') {
    let (name, after) = rest.split_once('}').unwrap_or((rest, ""));
    let known = values.iter().chain(&FRAGMENTS).find(|(known, _)| *known == name);
    let (_, text) = known.unwrap_or_else(|| panic!("unknown placeholder {name} in {template}"));
    unused.retain(|known| *known != name);
    sql = [before, without_comments(text).as_str(), after].concat();
  }
  assert!(unused.is_empty(), "unused values {unused:?} for {template}");
  sql
}

fn without_comments(sql: &str) -> String {
  let lines: Vec<_> = sql.lines().filter(|line| !line.starts_with("--")).collect();
  lines.join("\n")
}

/// The first two columns that a statement that writes answers: whether the session admitted it, and whether it changed anything.
/// `None` if the session did not admit it.
pub fn write_answer(rows: &[Row]) -> Result<Option<bool>, PgError> {
  let row = rows.first().ok_or(PgError::RetryNow)?;
  Ok(if row.try_get(0)? { Some(row.try_get(1)?) } else { None })
}

#[cfg(test)]
mod tests {
  use std::fs;

  use super::*;

  #[test]
  fn all_placeholders_are_known_and_all_values_are_used() {
    LazyLock::force(&SQL);
  }

  #[test]
  fn all_files_and_fragments_are_used() {
    let source = include_str!("sql.rs");
    let folder = format!("{}/src/backend/postgres/sql", env!("CARGO_MANIFEST_DIR"));
    let mut texts = source.split("FRAGMENTS:").next().unwrap().to_owned();
    for folder in [folder.clone(), format!("{folder}/fragments")] {
      for file in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = file.file_name().into_string().unwrap();
        let Some(stem) = name.strip_suffix(".sql") else {
          continue;
        };
        assert!(source.contains(&format!("{stem}.sql\")")), "{name} is not included");
        texts += &without_comments(&fs::read_to_string(file.path()).unwrap());
      }
    }
    for (name, _) in FRAGMENTS {
      assert!(texts.contains(&format!("{{{name}}}")), "{name} is not used");
    }
  }

  #[test]
  fn expand_replaces_nested_placeholders_and_removes_comments() {
    let sql = expand("-- {nothing}\nSELECT {a}\n", &[("a", "-- one\n{b}"), ("b", "2")]);
    assert_eq!(sql, "SELECT 2");
  }

  #[test]
  #[should_panic(expected = "unknown placeholder c")]
  fn expand_panics_for_an_unknown_placeholder() {
    expand("SELECT {c}", &[]);
  }

  #[test]
  #[should_panic(expected = "unused values")]
  fn expand_panics_for_an_unused_value() {
    expand("SELECT 1", &[("a", "1")]);
  }
}
