use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use uuid::Uuid;

use super::durable::{is_temporary, temporary_name};

use super::*;
use super::{deletes::DAMAGED, sessions::LOGS};
use crate::backend::conformance::Shorthand as _;
use crate::backend::item::CHECKPOINTS;
use crate::backend::{Backend, BackendExt, Encoding, conformance};
use crate::types::id::TaskId;

mod hostile;
mod steps;
mod stopped;

/// A backend on a directory of its own that goes with it.
fn backend() -> (TempDir, FileBackend) {
  let directory = tempfile::tempdir().unwrap();
  let backend = FileBackend::new(directory.path().join("base"), Settings::default());
  backend.open().unwrap();
  (directory, backend)
}

fn session(id: &str) -> SessionId {
  SessionId::parse(id).unwrap()
}

fn names_in(directory: &Path) -> Vec<String> {
  let entries = fs::read_dir(directory).unwrap();
  let mut names: Vec<_> = entries
    .map(|entry| entry.unwrap().file_name().into_string().unwrap())
    .collect();
  names.sort();
  names
}

impl FileBackend {
  fn session_dir(&self, session: &SessionId) -> PathBuf {
    self.base.join(session.as_str())
  }
}

#[test]
fn passes_the_contract() {
  for durability in [Durability::Full, Durability::Relaxed] {
    let root = tempfile::tempdir().unwrap();
    conformance::run(|keep_previous| {
      let base = root.path().join(Uuid::new_v4().to_string()).join("not yet there");
      let settings = Settings {
        durability,
        keep_previous,
        ..Settings::default()
      };
      Box::new(FileBackend::new(base, settings))
    });
  }
}

#[test]
fn the_disk_for_other_systems_passes_the_contract_too() {
  let root = tempfile::tempdir().unwrap();
  conformance::run(|keep_previous| {
    let base = root.path().join(Uuid::new_v4().to_string()).join("not yet there");
    let disk = portable::SystemDisk::new(base.clone());
    let settings = Settings {
      keep_previous,
      ..Settings::default()
    };
    Box::new(FileBackend::on(disk, base, settings))
  });
}

#[test]
fn a_damaged_record_of_a_lease_is_reported_and_one_from_the_future_ends() {
  let (_root, backend) = backend();
  let leases = backend.base.join(".leases");
  fs::create_dir_all(&leases).unwrap();
  conformance::stored_leases(&backend, &|lease| {
    let began_at = lease.began_at.map(|began_at| format!(",\"beganAt\":{began_at}"));
    let record = format!(
      "{{\"number\":{},\"owner\":\"a\",\"expiresAt\":{}{}}}",
      lease.number,
      lease.expires_at,
      began_at.unwrap_or_default()
    );
    fs::write(leases.join(format!("{}.json", lease.session)), record).unwrap();
  });
}

#[test]
fn left_overs_of_dead_writers_go_and_nothing_else() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.create_empty(&s).unwrap();
  let directory = backend.session_dir(&s).join(CHECKPOINTS);
  let (dead, living) = (temporary_name("cp-1.json"), temporary_name("cp-2.json"));
  let (dead_step, young_step) = (temporary_name("pending"), temporary_name("pending"));
  let foreign = [".hidden.tmp", ".cp-3.json.0123.tmp", "mine.tmp", "notes"];
  for name in [&dead, &living].into_iter().map(String::as_str).chain(foreign) {
    fs::write(directory.join(name), b"half").unwrap();
  }
  for step in [&dead_step, &young_step] {
    fs::create_dir(directory.join(step)).unwrap();
  }
  fs::write(directory.join(&dead_step).join("session.json"), b"half").unwrap();
  let writer = File::open(directory.join(&living)).unwrap();
  writer.lock().unwrap();

  // Another process, as far as the directory can tell.
  let other = FileBackend::new(backend.base.clone(), Settings::default());
  let id = CheckpointId::parse("cp-4").unwrap();
  other
    .put(&s, Item::Checkpoint(None, &id, Encoding::Json), b"{}")
    .unwrap();

  let mut expected: Vec<_> = foreign.iter().map(|name| (*name).to_owned()).collect();
  expected.extend([living, young_step, "cp-4.json".to_owned(), ".names".to_owned()]);
  expected.sort();
  assert_eq!(names_in(&directory), expected);
}

#[test]
fn only_names_of_our_form_are_temporaries() {
  assert!(is_temporary(&temporary_name("session.json")));
  for name in [
    ".tmp",
    "..tmp",
    ".a.tmp",
    ".lock",
    "session.json",
    ".x.0123456789abcdef0123456789abcdeg.tmp",
  ] {
    assert!(!is_temporary(name), "{name}");
  }
}

#[test]
fn what_is_moved_aside_is_kept_and_read_no_more() {
  let (_root, backend) = backend();
  let s = session("s");
  let id = CheckpointId::parse("cp-1").unwrap();
  let item = Item::Checkpoint(None, &id, Encoding::Json);
  let (series, entry) = (Series::from(&s), CheckpointEntry::new(id.clone(), Encoding::Json, || 0));
  assert_eq!(backend.quarantine(&series, &entry, Some(b"one")).unwrap(), None);
  for content in [b"one", b"two"] {
    backend.put(&s, item, content).unwrap();
    assert_eq!(
      backend.quarantine(&series, &entry, Some(b"six")).unwrap(),
      None,
      "it was replaced"
    );
    let moved = backend.quarantine(&series, &entry, Some(content)).unwrap().unwrap();
    assert_eq!(fs::read(&moved).unwrap(), content);
    assert_eq!(backend.read(&s, item, u64::MAX).unwrap(), None);
  }
  assert_eq!(names_in(&backend.session_dir(&s).join(DAMAGED)).len(), 2);
}

#[test]
fn nothing_is_touched_before_initialize() {
  let root = tempfile::tempdir().unwrap();
  let _ = FileBackend::new(root.path().join("base"), Settings::default());
  assert!(names_in(root.path()).is_empty());
}

#[cfg(unix)]
#[test]
fn files_and_directories_are_for_their_owner_only() {
  use std::os::unix::fs::PermissionsExt;
  let (_root, backend) = backend();
  let s = session("s");
  backend.create_empty(&s).unwrap();
  backend.put(&s, Item::TASK_TREE, b"{}").unwrap();
  backend.put_state(&s, b"{}", b"{}").unwrap();
  let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
  assert_eq!(mode(&backend.base), 0o700);
  for part in ["", "checkpoints", "results", "logs"] {
    assert_eq!(mode(&backend.session_dir(&s).join(part)), 0o700, "{part}");
  }
  for item in [Item::SESSION, Item::TASK_TREE] {
    assert_eq!(mode(&backend.path(&s, item)), 0o600, "{item}");
  }
}

#[test]
fn writing_leaves_nothing_behind_but_what_was_asked_for() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.put(&s, Item::SESSION, b"1").unwrap();
  backend.put_state(&s, b"2", b"2").unwrap();
  assert_eq!(
    names_in(&backend.session_dir(&s)),
    [".lock", "session.json", "task-tree.json"]
  );
}

#[test]
fn a_failed_write_names_the_file_keeps_the_old_one_and_removes_its_temporary() {
  let (_root, backend) = backend();
  let s = session("s");
  // A directory in the place of the file makes the rename fail after the temporary was written.
  fs::create_dir_all(backend.path(&s, Item::TASK_TREE).join("occupied")).unwrap();
  let error = backend.put(&s, Item::TASK_TREE, b"{}").unwrap_err();
  assert_eq!(error.code, crate::Code::Io);
  assert!(error.message.contains("task-tree.json"), "{error}");
  assert!(backend.path(&s, Item::TASK_TREE).join("occupied").is_dir());
  assert_eq!(names_in(&backend.session_dir(&s)), [".lock", "task-tree.json"]);
}

#[test]
fn an_interrupted_removal_is_finished_by_initialize_and_foreign_files_stay() {
  let (_root, backend) = backend();
  let doomed = backend.base.join(tombstones::new_name());
  fs::create_dir_all(doomed.join("checkpoints")).unwrap();
  fs::create_dir_all(backend.base.join(".deleted-photos")).unwrap();
  fs::write(backend.base.join("stray.txt"), b"mine").unwrap();
  assert!(backend.saved_sessions().unwrap().is_empty());
  backend.open().unwrap();
  assert_eq!(names_in(&backend.base), [".deleted-photos", "stray.txt"]);
  assert!(backend.delete_any(&session("stray.txt")).is_err());
  assert_eq!(names_in(&backend.base), [".deleted-photos", "stray.txt"]);
}

#[test]
fn a_foreign_name_is_ordered_by_its_file_time() {
  let (_root, backend) = backend();
  let s = session("s");
  for id in ["cp-1-000000", "foreign", "cp-zzzzzzzz-000000"] {
    let id = CheckpointId::parse(id).unwrap();
    backend
      .put(&s, Item::Checkpoint(None, &id, Encoding::Json), b"{}")
      .unwrap();
  }
  for noise in [".cp-1-000000.json.0123.tmp", "notes.txt", ".json"] {
    fs::write(backend.session_dir(&s).join("checkpoints").join(noise), b"").unwrap();
  }
  let ids: Vec<_> = backend
    .checkpoints(&(&s).into())
    .unwrap()
    .into_iter()
    .map(|entry| entry.id.to_string())
    .collect();
  assert_eq!(ids, ["cp-zzzzzzzz-000000", "foreign", "cp-1-000000"]);
}

#[test]
fn a_session_that_is_deleted_under_its_writers_makes_no_write_fail() {
  for durability in [Durability::Full, Durability::Relaxed] {
    deleted_under_its_writers(durability);
  }
}

fn deleted_under_its_writers(durability: Durability) {
  let root = tempfile::tempdir().unwrap();
  let backend = Arc::new(FileBackend::new(root.path().to_owned(), durability));
  let s = session("s");
  std::thread::scope(|scope| {
    for writer in 0..4 {
      let (backend, s) = (Arc::clone(&backend), &s);
      scope.spawn(move || {
        for round in 0..25 {
          let id = CheckpointId::parse(&format!("cp-{writer}-{round:06}")).unwrap();
          backend
            .put(s, Item::Checkpoint(None, &id, Encoding::Json), b"{}")
            .unwrap();
          backend.put_state(s, b"{}", b"{}").unwrap();
        }
      });
    }
    scope.spawn(|| {
      for _ in 0..25 {
        assert!(backend.delete_any(&s).unwrap().is_none());
      }
    });
  });
  assert!(names_in(&backend.base).iter().all(|name| name == "s"));
}
