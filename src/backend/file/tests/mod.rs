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
use crate::types::time::Timestamp;

mod stopped_process;
mod two_file_commit;
mod unexpected_files;

/// A backend on a temporary directory, which is deleted when it is dropped.
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
fn the_file_backend_passes_the_conformance_suite() {
  for durability in [Durability::Full, Durability::Relaxed] {
    let root = tempfile::tempdir().unwrap();
    conformance::run(|keep_previous| {
      let base = root.path().join(Uuid::new_v4().to_string()).join("missing");
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
fn the_portable_disk_passes_the_conformance_suite() {
  let root = tempfile::tempdir().unwrap();
  conformance::run(|keep_previous| {
    let base = root.path().join(Uuid::new_v4().to_string()).join("missing");
    let disk = portable::SystemDisk::new(base.clone());
    let settings = Settings {
      keep_previous,
      ..Settings::default()
    };
    Box::new(FileBackend::on(disk, base, settings))
  });
}

#[test]
fn damaged_lease_records_are_reported_and_those_from_the_future_expire() {
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
fn a_sweep_removes_files_of_dead_writers_and_nothing_else() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.create_empty(&s).unwrap();
  let directory = backend.session_dir(&s).join(CHECKPOINTS);
  let (dead, live) = (temporary_name("cp-1.json"), temporary_name("cp-2.json"));
  let (dead_directory, young_directory) = (temporary_name("pending"), temporary_name("pending"));
  let foreign = [".hidden.tmp", ".cp-3.json.0123.tmp", "mine.tmp", "notes"];
  for name in [&dead, &live].into_iter().map(String::as_str).chain(foreign) {
    fs::write(directory.join(name), b"half").unwrap();
  }
  for directory_name in [&dead_directory, &young_directory] {
    fs::create_dir(directory.join(directory_name)).unwrap();
  }
  fs::write(directory.join(&dead_directory).join("session.json"), b"half").unwrap();
  let writer = File::open(directory.join(&live)).unwrap();
  writer.lock().unwrap();

  // A second backend behaves like another process.
  let other = FileBackend::new(backend.base.clone(), Settings::default());
  let id = CheckpointId::parse("cp-4").unwrap();
  other
    .put(&s, Item::Checkpoint(None, &id, Encoding::Json), b"{}")
    .unwrap();

  let mut expected: Vec<_> = foreign.iter().map(|name| (*name).to_owned()).collect();
  expected.extend([live, young_directory, "cp-4.json".to_owned(), ".names".to_owned()]);
  expected.sort();
  assert_eq!(names_in(&directory), expected);
}

#[test]
fn is_temporary_accepts_only_names_of_temporary_name() {
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
fn quarantine_keeps_the_file_outside_of_the_series() {
  let (_root, backend) = backend();
  let s = session("s");
  let id = CheckpointId::parse("cp-1").unwrap();
  let item = Item::Checkpoint(None, &id, Encoding::Json);
  let (series, entry) = (
    Series::from(&s),
    CheckpointEntry::new(id.clone(), Encoding::Json, Timestamp::default),
  );
  assert_eq!(backend.quarantine(&series, &entry, Some(b"one")).unwrap(), None);
  for content in [b"one", b"two"] {
    backend.put(&s, item, content).unwrap();
    assert_eq!(
      backend.quarantine(&series, &entry, Some(b"six")).unwrap(),
      None,
      "the checkpoint was replaced"
    );
    let moved = backend.quarantine(&series, &entry, Some(content)).unwrap().unwrap();
    assert_eq!(fs::read(&moved).unwrap(), content);
    assert_eq!(backend.read(&s, item, u64::MAX).unwrap(), None);
  }
  assert_eq!(names_in(&backend.session_dir(&s).join(DAMAGED)).len(), 2);
}

#[test]
fn new_does_not_access_the_file_system() {
  let root = tempfile::tempdir().unwrap();
  let _ = FileBackend::new(root.path().join("base"), Settings::default());
  assert!(names_in(root.path()).is_empty());
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_access_files_and_directories() {
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
fn a_write_leaves_no_temporary_files() {
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
fn a_failed_write_keeps_the_old_file_and_removes_the_temporary_one() {
  let (_root, backend) = backend();
  let s = session("s");
  // A directory of that name makes the rename fail after the temporary file was written.
  fs::create_dir_all(backend.path(&s, Item::TASK_TREE).join("occupied")).unwrap();
  let error = backend.put(&s, Item::TASK_TREE, b"{}").unwrap_err();
  assert_eq!(error.code, crate::Code::Io);
  assert!(error.message.contains("task-tree.json"), "{error}");
  assert!(backend.path(&s, Item::TASK_TREE).join("occupied").is_dir());
  assert_eq!(names_in(&backend.session_dir(&s)), [".lock", "task-tree.json"]);
}

#[test]
fn open_removes_tombstones_and_keeps_files_of_other_programs() {
  let (_root, backend) = backend();
  let tombstone = backend.base.join(tombstones::new_name());
  fs::create_dir_all(tombstone.join("checkpoints")).unwrap();
  fs::create_dir_all(backend.base.join(".deleted-photos")).unwrap();
  fs::write(backend.base.join("stray.txt"), b"mine").unwrap();
  assert!(backend.saved_sessions().unwrap().is_empty());
  backend.open().unwrap();
  assert_eq!(names_in(&backend.base), [".deleted-photos", "stray.txt"]);
  assert!(backend.delete_any(&session("stray.txt")).is_err());
  assert_eq!(names_in(&backend.base), [".deleted-photos", "stray.txt"]);
}

#[test]
fn an_id_without_a_time_is_ordered_by_the_time_of_its_file() {
  let (_root, backend) = backend();
  let s = session("s");
  for id in ["cp-1-000000", "foreign", "cp-zzzzzzzz-000000"] {
    let id = CheckpointId::parse(id).unwrap();
    backend
      .put(&s, Item::Checkpoint(None, &id, Encoding::Json), b"{}")
      .unwrap();
  }
  for other in [".cp-1-000000.json.0123.tmp", "notes.txt", ".json"] {
    fs::write(backend.session_dir(&s).join("checkpoints").join(other), b"").unwrap();
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
fn no_write_fails_while_its_session_is_deleted() {
  for durability in [Durability::Full, Durability::Relaxed] {
    delete_during_writes(durability);
  }
}

/// Runs `act` when it is first written.
#[cfg(unix)]
struct Interrupted<'a> {
  act: std::sync::Once,
  run: &'a (dyn Fn() + Sync),
}

#[cfg(unix)]
impl crate::backend::Content for Interrupted<'_> {
  fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
    self.act.call_once(self.run);
    out.write_all(b"{}")
  }
}

#[cfg(unix)]
#[test]
fn a_label_waits_for_its_checkpoint_if_the_session_is_deleted_and_created_again_during_the_write() {
  use crate::backend::{Newest, Precondition, PutOptions, PutOutcome};
  let (_root, backend) = backend();
  let s = session("s");
  let ids = ["cp-1-000001", "cp-1-000002", "cp-1-000003"].map(|id| CheckpointId::parse(id).unwrap());
  let item = |number: usize| Item::Checkpoint(None, &ids[number], Encoding::Json);
  backend.put(&s, item(0), b"{}").unwrap();
  let other = FileBackend::new(backend.base.clone(), Settings::default());
  let create_again = || {
    other.delete_any(&s).unwrap();
    other.put(&s, item(1), b"{}").unwrap();
    other.put(&s, Item::LABELS, b"new").unwrap();
  };
  let content = Interrupted {
    act: std::sync::Once::new(),
    run: &create_again,
  };
  let seen = parking_lot::Mutex::new(Vec::new());
  let labels = |old: Option<Vec<u8>>, entries: &[CheckpointEntry]| {
    let listed: Vec<_> = entries.iter().map(|entry| entry.id.clone()).collect();
    seen.lock().push((old, listed));
    Ok(b"labelled".to_vec())
  };
  let options = PutOptions {
    precondition: Precondition::Newest(Newest::default()),
    labels: Some(&labels),
    ..PutOptions::new(Encoding::Json)
  };
  let put = backend
    .put_checkpoint(&(&s).into(), &ids[2], &content, &options)
    .unwrap();
  assert!(matches!(put, PutOutcome::Stored { .. }), "{put:?}");
  let last = seen.lock().pop();
  assert_eq!(
    last,
    Some((Some(b"new".to_vec()), vec![ids[1].clone()])),
    "the labels of the new session were not replaced before"
  );
  assert_eq!(backend.read(&s, Item::LABELS, 100).unwrap().unwrap(), b"labelled");
  let listed = backend.checkpoints(&(&s).into()).unwrap().into_iter();
  let listed: Vec<_> = listed.map(|entry| entry.id).collect();
  assert_eq!(listed, [ids[2].clone(), ids[1].clone()]);
}

fn delete_during_writes(durability: Durability) {
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
