use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::backend::contract;

/// A backend on a directory of its own that goes with it.
fn backend() -> (TempDir, FileBackend) {
  let directory = tempfile::tempdir().unwrap();
  let backend = FileBackend::new(directory.path().join("base"), Durability::Full);
  backend.initialize().unwrap();
  (directory, backend)
}

fn session(id: &str) -> SessionId {
  SessionId::parse(id).unwrap()
}

fn names_in(directory: &Path) -> Vec<String> {
  let mut names: Vec<_> = list(directory)
    .unwrap()
    .iter()
    .map(|e| e.file_name().to_string_lossy().into_owned())
    .collect();
  names.sort();
  names
}

#[test]
fn passes_the_contract() {
  for durability in [Durability::Full, Durability::Relaxed] {
    let root = tempfile::tempdir().unwrap();
    contract::run(|| {
      let base = root.path().join(Uuid::new_v4().to_string()).join("not yet there");
      Box::new(FileBackend::new(base, durability))
    });
  }
}

#[test]
fn nothing_is_touched_before_initialize() {
  let root = tempfile::tempdir().unwrap();
  let _ = FileBackend::new(root.path().join("base"), Durability::Full);
  assert!(names_in(root.path()).is_empty());
}

#[cfg(unix)]
#[test]
fn files_and_directories_are_for_their_owner_only() {
  use std::os::unix::fs::PermissionsExt;
  let (_root, backend) = backend();
  let s = session("s");
  backend.create_session(&s).unwrap();
  backend.write(&s, Item::TaskTree, b"{}").unwrap();
  backend.write_state(&s, b"{}", b"{}").unwrap();
  let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
  assert_eq!(mode(&backend.base), 0o700);
  for part in ["", "checkpoints", "results", "logs"] {
    assert_eq!(mode(&backend.session_dir(&s).join(part)), 0o700, "{part}");
  }
  for item in [Item::Session, Item::TaskTree] {
    assert_eq!(mode(&backend.path(&s, item)), 0o600, "{item}");
  }
}

#[test]
fn writing_leaves_nothing_behind_but_what_was_asked_for() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.write(&s, Item::Session, b"1").unwrap();
  backend.write_state(&s, b"2", b"2").unwrap();
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
  fs::create_dir_all(backend.path(&s, Item::TaskTree).join("occupied")).unwrap();
  let error = backend.write(&s, Item::TaskTree, b"{}").unwrap_err();
  assert_eq!(error.code, crate::Code::Io);
  assert!(error.message.contains("task-tree.json"), "{error}");
  assert!(backend.path(&s, Item::TaskTree).join("occupied").is_dir());
  assert_eq!(names_in(&backend.session_dir(&s)), [".lock", "task-tree.json"]);
}

/// A process that died after the decisive rename, having moved the first `moved` files.
fn died_after_deciding(backend: &FileBackend, s: &SessionId, moved: &[&str]) {
  let session_dir = backend.session_dir(s);
  let pending = session_dir.join(".pending");
  fs::create_dir(&pending).unwrap();
  for name in ["session.json", "task-tree.json"] {
    fs::write(pending.join(name), b"new").unwrap();
  }
  for name in moved {
    fs::rename(pending.join(name), session_dir.join(name)).unwrap();
  }
}

#[test]
fn a_decided_step_is_finished_by_the_next_reader() {
  for moved in [
    &[][..],
    &["session.json"],
    &["task-tree.json"],
    &["session.json", "task-tree.json"],
  ] {
    for first_read in [Item::Session, Item::TaskTree] {
      let (_root, backend) = backend();
      let s = session("s");
      backend.write_state(&s, b"old", b"old").unwrap();
      died_after_deciding(&backend, &s, moved);
      for item in [first_read, Item::Session, Item::TaskTree] {
        assert_eq!(backend.read(&s, item).unwrap().unwrap(), b"new", "{moved:?} {item}");
      }
      assert_eq!(
        names_in(&backend.session_dir(&s)),
        [".lock", "session.json", "task-tree.json"]
      );
    }
  }
}

#[test]
fn a_decided_step_counts_before_a_later_write_of_one_part() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.write_state(&s, b"old", b"old").unwrap();
  died_after_deciding(&backend, &s, &[]);
  backend.write(&s, Item::Session, b"newest").unwrap();
  assert_eq!(backend.read(&s, Item::Session).unwrap().unwrap(), b"newest");
  assert_eq!(backend.read(&s, Item::TaskTree).unwrap().unwrap(), b"new");
}

#[test]
fn a_decided_step_already_makes_a_session() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.create_session(&s).unwrap();
  died_after_deciding(&backend, &s, &[]);
  assert_eq!(backend.sessions().unwrap(), [s]);
}

#[test]
fn a_step_that_was_not_decided_never_happened() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.write_state(&s, b"old", b"old").unwrap();
  let staged = disk::temporary_path(&backend.session_dir(&s).join(".pending"));
  fs::create_dir(&staged).unwrap();
  fs::write(staged.join("session.json"), b"new").unwrap();
  assert_eq!(backend.read(&s, Item::Session).unwrap().unwrap(), b"old");
  backend.write_state(&s, b"next", b"next").unwrap();
  assert_eq!(backend.read(&s, Item::Session).unwrap().unwrap(), b"next");
}

#[test]
fn an_interrupted_removal_is_finished_by_initialize_and_foreign_files_stay() {
  let (_root, backend) = backend();
  let doomed = backend.base.join(format!("{DELETED_PREFIX}0123"));
  fs::create_dir_all(doomed.join("checkpoints")).unwrap();
  fs::write(backend.base.join("stray.txt"), b"mine").unwrap();
  assert!(backend.sessions().unwrap().is_empty());
  backend.initialize().unwrap();
  assert_eq!(names_in(&backend.base), ["stray.txt"]);
  assert!(backend.delete_session(&session("stray.txt")).is_err());
  assert_eq!(names_in(&backend.base), ["stray.txt"]);
}

#[test]
fn a_foreign_name_is_ordered_by_its_file_time() {
  let (_root, backend) = backend();
  let s = session("s");
  for id in ["cp-1-000000", "foreign", "cp-zzzzzzzz-000000"] {
    let id = CheckpointId::parse(id).unwrap();
    backend.write(&s, Item::Checkpoint(&id, Encoding::Json), b"{}").unwrap();
  }
  for noise in [".cp-1-000000.json.0123.tmp", "notes.txt", ".json"] {
    fs::write(backend.session_dir(&s).join("checkpoints").join(noise), b"").unwrap();
  }
  let ids: Vec<_> = backend
    .checkpoints(&s)
    .unwrap()
    .into_iter()
    .map(|entry| entry.id.to_string())
    .collect();
  assert_eq!(ids, ["cp-zzzzzzzz-000000", "foreign", "cp-1-000000"]);
}

#[test]
fn a_session_that_is_deleted_under_its_writers_makes_no_write_fail() {
  let (_root, backend) = backend();
  let backend = Arc::new(backend);
  let s = session("s");
  std::thread::scope(|scope| {
    for writer in 0..4 {
      let (backend, s) = (Arc::clone(&backend), &s);
      scope.spawn(move || {
        for round in 0..25 {
          let id = CheckpointId::parse(&format!("cp-{writer}-{round:06}")).unwrap();
          backend.write(s, Item::Checkpoint(&id, Encoding::Json), b"{}").unwrap();
          backend.write_state(s, b"{}", b"{}").unwrap();
        }
      });
    }
    scope.spawn(|| {
      for _ in 0..25 {
        backend.delete_session(&s).unwrap();
      }
    });
  });
  assert!(names_in(&backend.base).iter().all(|name| name == "s"));
}
