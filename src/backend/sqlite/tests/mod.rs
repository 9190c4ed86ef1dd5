use std::fs;

use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::backend::conformance::Shorthand as _;
use crate::backend::{
  Backend, BackendExt, CheckpointEntry, Document, Durability, Encoding, Maintenance, RetentionScope, Series,
  conformance,
};
use crate::types::error::Code;
use crate::types::id::{CheckpointId, TaskId};
use crate::types::time::Timestamp;

mod errors;
mod group_commit;
mod migration;
mod sharing;

/// A backend on a file of its own, in a directory that is deleted when it is dropped.
fn backend() -> (TempDir, SqliteBackend) {
  let directory = tempfile::tempdir().unwrap();
  let backend = open(&directory);
  (directory, backend)
}

/// Another backend on the same file, like one of another process.
fn open(directory: &TempDir) -> SqliteBackend {
  let backend = SqliteBackend::new(file_in(directory), Settings::default());
  backend.open().unwrap();
  backend
}

fn file_in(directory: &TempDir) -> PathBuf {
  directory.path().join("store.db")
}

fn session(id: &str) -> SessionId {
  SessionId::parse(id).unwrap()
}

fn checkpoint(number: u64) -> CheckpointId {
  CheckpointId::parse(&format!("cp-{number}-000000")).unwrap()
}

fn entry(number: u64) -> CheckpointEntry {
  CheckpointEntry::new(checkpoint(number), Encoding::Json, Timestamp::default)
}

fn write_checkpoint(backend: &SqliteBackend, series: &Series, number: u64, bytes: &[u8]) {
  let written = backend.put(
    &series.session,
    series.item(&checkpoint(number), Encoding::Json),
    &bytes,
  );
  assert_eq!(written.unwrap(), bytes.len() as u64);
}

#[test]
fn passes_the_conformance_suite() {
  for durability in [Durability::Full, Durability::Relaxed] {
    let root = tempfile::tempdir().unwrap();
    conformance::run(|keep_previous| {
      let path = root.path().join(Uuid::new_v4().to_string()).join("missing.db");
      let settings = Settings {
        durability,
        keep_previous,
        ..Settings::default()
      };
      Box::new(SqliteBackend::new(path, settings))
    });
  }
}

#[test]
fn names_contain_the_path_of_the_database() {
  let backend = SqliteBackend::new(PathBuf::from("/a/b.db"), Settings::default());
  assert_eq!(backend.location(), "sqlite:/a/b.db");
  let task = TaskId::parse("t").unwrap();
  assert_eq!(
    backend.name_of(&session("s"), Item::TaskResult(&task)),
    "sqlite:/a/b.db#s/results/t.json"
  );
  let id = checkpoint(1);
  assert_eq!(
    backend.name_of(&session("s"), Item::Checkpoint(None, &id, Encoding::Gzip)),
    "sqlite:/a/b.db#s/checkpoints/cp-1-000000.json.gz"
  );
}

#[test]
fn reads_reject_items_that_exceed_the_limit() {
  let (_root, backend) = backend();
  let (s, series) = (session("s"), Series::from(session("s")));
  write_checkpoint(&backend, &series, 1, &[b'x'; 5000]);
  backend.put(&s, Item::SESSION, &[b'x'; 5000]).unwrap();
  let id = checkpoint(1);
  for item in [Item::SESSION, series.item(&id, Encoding::Json)] {
    let error = backend.read(&s, item, 4999).unwrap_err();
    assert_eq!(error.code, Code::TooLarge);
    assert!(error.message.contains("5000 bytes"), "{error}");
    assert_eq!(backend.read(&s, item, 5000).unwrap().unwrap().len(), 5000);
  }
  let updated = backend.update(&s, Document::Session, 4999, &mut |_| unreachable!());
  assert_eq!(updated.unwrap_err().code, Code::TooLarge);
}

#[test]
fn a_write_deletes_versions_beyond_the_number_to_keep() {
  let root = tempfile::tempdir().unwrap();
  let s = session("s");
  let versions = |keep_previous: u32, content: &[u8]| {
    let settings = Settings {
      keep_previous,
      ..Settings::default()
    };
    let backend = SqliteBackend::new(file_in(&root), settings);
    backend.open().unwrap();
    backend.put(&s, Item::SESSION, &content).unwrap();
    let read = |back| backend.read(&s, Item::version(Document::Session, back), 9).unwrap();
    let stored: Vec<_> = (0..9).map_while(read).collect();
    assert_eq!(backend.usage_of(&s).unwrap().total_bytes, stored.len() as u64);
    String::from_utf8(stored.concat()).unwrap()
  };
  assert_eq!(versions(3, b"a"), "a");
  assert_eq!(versions(3, b"b"), "ba");
  assert_eq!(versions(3, b"c"), "cba");
  assert_eq!(versions(3, b"d"), "dcba");
  assert_eq!(versions(3, b"e"), "edcb");
  assert_eq!(versions(1, b"f"), "fe");
  assert_eq!(versions(2, b"g"), "gfe");
  assert_eq!(versions(0, b"h"), "h");
  assert_eq!(versions(2, b"i"), "ih");
}

#[test]
fn lists_and_sums_read_indexes_alone() {
  let (_root, backend) = backend();
  let plan = |sql: &str| {
    let plan = backend.readers.read(|connection| {
      let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
      let (mut rows, mut steps) = (statement.raw_query(), String::new());
      while let Some(row) = rows.next()? {
        steps = format!("{steps}{}\n", row.get::<_, String>(3)?);
      }
      Ok(steps)
    });
    plan.unwrap()
  };
  for sql in lists::COVERED {
    let plan = plan(sql);
    assert!(
      plan.contains("USING COVERING INDEX") && !plan.contains("TEMP B-TREE"),
      "{sql}: {plan}"
    );
  }
  for sql in checkpoints::BY_ID.into_iter().chain([lists::BY_ID]) {
    let plan = plan(sql);
    let is_looked_up = |step: &str| step.contains("(id=? AND session=? AND agent=?)");
    let is_newer = |step: &str| step.contains("newer USING COVERING INDEX");
    let mut searches = plan
      .lines()
      .filter(|step| step.contains("SEARCH") || step.contains("SCAN"));
    assert!(
      searches.all(|step| is_looked_up(step) || is_newer(step)),
      "{sql}: {plan}"
    );
    assert!(plan.lines().any(is_looked_up), "{sql}: {plan}");
  }
  let usage = plan(sessions::USAGE);
  assert!(
    !usage.contains("SCAN checkpoints") && !usage.contains("SCAN documents"),
    "{usage}"
  );
  assert_eq!(usage.matches("checkpoints USING COVERING INDEX").count(), 4, "{usage}");
}

#[test]
fn the_file_shrinks_when_a_session_is_deleted() {
  let (root, backend) = backend();
  let kept = Series::from(session("kept"));
  let deleted = Series::from(session("deleted"));
  for number in 0..20 {
    write_checkpoint(&backend, &deleted, number, &vec![b'x'; 200_000]);
    write_checkpoint(&backend, &kept, number, &vec![b'y'; 2000]);
  }
  assert_eq!(
    backend.delete_any(&deleted.session).unwrap().map(|error| error.message),
    None
  );
  let size = fs::metadata(file_in(&root)).unwrap().len();
  assert!(size < 200_000, "{size} bytes are left");
  assert_eq!(fs::metadata(root.path().join("store.db-wal")).unwrap().len(), 0);
  assert_eq!(backend.checkpoints(&kept).unwrap().len(), 20);
}

#[test]
fn sync_deletes_syncs_the_log_and_vacuum_shrinks_the_file() {
  let (root, backend) = backend();
  let series = Series::from(session("s"));
  for number in 0..20 {
    write_checkpoint(&backend, &series, number, &vec![b'x'; 200_000]);
  }
  for number in 0..19 {
    assert!(backend.delete_surplus(&series, &entry(number), None).unwrap());
  }
  let size = |name: &str| fs::metadata(root.path().join(name)).unwrap().len();
  let before = size("store.db-wal");
  backend.sync_deletes(&series).unwrap();
  assert!(
    size("store.db-wal") > before,
    "a commit without a changed page is not synced"
  );
  backend.maintain(Maintenance::Vacuum).unwrap();
  assert_eq!(size("store.db-wal"), 0);
  assert!(size("store.db") < 400_000, "{} bytes are left", size("store.db"));
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 1);
  // `sync_deletes` has written the version of the schema again, unchanged.
  SqliteBackend::new(file_in(&root), Settings::default()).open().unwrap();
}

#[test]
fn the_log_is_moved_into_the_database_while_it_grows() {
  let (root, backend) = backend();
  let series = Series::from(session("s"));
  for number in 0..60 {
    write_checkpoint(&backend, &series, number, &vec![b'x'; 1_000_000]);
  }
  let log = fs::metadata(root.path().join("store.db-wal")).unwrap().len();
  assert!(log < 20_000_000, "{log} bytes");
}

#[test]
fn commits_free_the_space_of_deleted_checkpoints_step_by_step() {
  let (root, backend) = backend();
  let series = Series::from(session("s"));
  for number in 0..100 {
    write_checkpoint(&backend, &series, number, &vec![b'x'; 100_000]);
  }
  for number in 0..99 {
    backend.delete_surplus(&series, &entry(number), None).unwrap();
  }
  for _ in 0..50 {
    write_checkpoint(&backend, &series, 100, b"x");
  }
  backend
    .queue
    .exclusively(|writer| writer.as_mut().unwrap().truncate_files())
    .unwrap();
  let size = fs::metadata(file_in(&root)).unwrap().len();
  assert!(size < 6_000_000, "{size} bytes are left");
}
