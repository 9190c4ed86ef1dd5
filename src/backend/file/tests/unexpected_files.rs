//! Links, pipes, depths and sizes that the store never creates itself.

use super::*;

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
  use std::os::unix::fs::symlink;
  let (root, backend) = backend();
  let outside = root.path().join("outside");
  fs::create_dir_all(outside.join(CHECKPOINTS)).unwrap();
  fs::write(outside.join("session.json"), b"secret").unwrap();
  fs::write(outside.join(CHECKPOINTS).join("cp-1.json"), b"secret").unwrap();
  symlink(&outside, backend.base.join("linked")).unwrap();
  let s = session("s");
  backend.create_empty(&s).unwrap();
  symlink(outside.join("session.json"), backend.path(&s, Item::SESSION)).unwrap();
  fs::remove_dir(backend.session_dir(&s).join(CHECKPOINTS)).unwrap();
  symlink(outside.join(CHECKPOINTS), backend.session_dir(&s).join(CHECKPOINTS)).unwrap();

  let linked = session("linked");
  let id = CheckpointId::parse("cp-1").unwrap();
  let checkpoint = Item::Checkpoint(None, &id, Encoding::Json);
  assert_eq!(backend.saved_sessions().unwrap(), []);
  assert_eq!(backend.read(&linked, Item::SESSION, u64::MAX).unwrap(), None);
  assert_eq!(backend.read(&s, checkpoint, u64::MAX).unwrap(), None);
  assert_eq!(
    backend.read(&s, Item::SESSION, u64::MAX).unwrap_err().code,
    crate::Code::Corrupt
  );
  assert!(backend.checkpoints(&(&s).into()).unwrap().is_empty());
  assert_eq!(backend.sessions_with_checkpoint(&id).unwrap(), []);
  assert!(backend.put(&linked, Item::SESSION, b"written").is_err());
  assert!(backend.put(&s, checkpoint, b"written").is_err());
  assert!(backend.put_state(&linked, b"", b"").is_err());
  backend.remove(&s, checkpoint).unwrap();
  assert!(backend.delete_any(&linked).is_err());
  // A link that has the name of the file is replaced, not followed.
  backend.put(&s, Item::SESSION, b"mine").unwrap();
  backend.delete_any(&s).unwrap();

  assert_eq!(fs::read(outside.join("session.json")).unwrap(), b"secret");
  assert_eq!(names_in(&outside), ["checkpoints", "session.json"]);
  assert_eq!(names_in(&outside.join(CHECKPOINTS)), ["cp-1.json"]);
}

/// A check before the call loses this race within milliseconds.
#[cfg(unix)]
#[test]
fn replacing_a_directory_by_a_link_leads_no_call_out_of_the_base() {
  use std::os::unix::fs::symlink;
  use std::sync::atomic::{AtomicBool, Ordering};
  let (root, backend) = backend();
  let outside = root.path().join("outside");
  fs::create_dir_all(outside.join(CHECKPOINTS)).unwrap();
  fs::write(outside.join("session.json"), b"secret").unwrap();
  let s = session("s");
  backend.create_empty(&s).unwrap();
  let session_dir = backend.session_dir(&s);
  let is_over = AtomicBool::new(false);
  std::thread::scope(|scope| {
    scope.spawn(|| {
      while !is_over.load(Ordering::Relaxed) {
        // The writer creates the directory again whenever it is missing.
        let _ = fs::rename(&session_dir, root.path().join(Uuid::new_v4().to_string()));
        if symlink(&outside, &session_dir).is_ok() {
          fs::remove_file(&session_dir).unwrap();
        }
      }
    });
    let id = CheckpointId::parse("cp-1").unwrap();
    for _ in 0..300 {
      // The calls may fail. A read must not return anything from outside the store.
      let _ = backend.put(&s, Item::Checkpoint(None, &id, Encoding::Json), b"mine");
      let _ = backend.put(&s, Item::TASK_TREE, b"mine");
      assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap_or(None), None);
    }
    is_over.store(true, Ordering::Relaxed);
  });
  assert_eq!(names_in(&outside), [CHECKPOINTS, "session.json"]);
  assert!(names_in(&outside.join(CHECKPOINTS)).is_empty());
}

#[cfg(unix)]
#[test]
fn reading_a_pipe_fails_without_blocking() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.create_empty(&s).unwrap();
  let pipe = backend.path(&s, Item::SESSION);
  let created = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
  assert!(created.success());
  assert_eq!(
    backend.read(&s, Item::SESSION, u64::MAX).unwrap_err().code,
    crate::Code::Corrupt
  );
}

#[cfg(unix)]
#[test]
fn locking_a_pipe_fails_without_blocking() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.create_empty(&s).unwrap();
  let created = std::process::Command::new("mkfifo")
    .arg(backend.session_dir(&s).join(".lock"))
    .status();
  assert!(created.unwrap().success());
  assert!(backend.put(&s, Item::SESSION, b"{}").is_err());
}

#[test]
fn a_base_that_cannot_be_created_is_an_error() {
  let root = tempfile::tempdir().unwrap();
  let file = root.path().join("file");
  fs::write(&file, b"").unwrap();
  for base in [file.join("below"), PathBuf::from("/proc/waymark-cannot-be-here")] {
    assert!(FileBackend::new(base, Durability::Full).open().is_err());
  }
}

#[test]
fn deeply_nested_directories_exhaust_no_resources() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.put(&s, Item::SESSION, b"{}").unwrap();
  let mut deep = backend.session_dir(&s).join(LOGS);
  for _ in 0..200 {
    deep.push("d");
  }
  fs::create_dir_all(&deep).unwrap();
  assert!(backend.usage_of(&s).is_err());
  assert!(
    backend.delete_any(&s).unwrap().is_some(),
    "deleted, but its space was not freed"
  );
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap(), None);
  backend.open().unwrap();
}

#[test]
fn a_file_beyond_the_limit_is_not_read() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.put(&s, Item::SESSION, b"12345").unwrap();
  assert!(backend.read(&s, Item::SESSION, 5).is_ok());
  assert_eq!(
    backend.read(&s, Item::SESSION, 4).unwrap_err().code,
    crate::Code::TooLarge
  );
}
