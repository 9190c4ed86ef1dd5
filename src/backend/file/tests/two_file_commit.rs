//! Both documents are replaced in one step, even if the writer dies during it.

use super::*;

#[cfg(unix)]
#[test]
fn a_pending_document_that_was_moved_but_not_removed_is_finished() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.put_state(&s, b"old", b"old").unwrap();
  die_after_commit(&backend, &s, &[]);
  let session_dir = backend.session_dir(&s);
  fs::remove_file(session_dir.join("session.json")).unwrap();
  fs::hard_link(
    session_dir.join(".pending/session.json"),
    session_dir.join("session.json"),
  )
  .unwrap();
  for item in [Item::SESSION, Item::TASK_TREE] {
    assert_eq!(backend.read(&s, item, u64::MAX).unwrap().unwrap(), b"new");
  }
  assert_eq!(names_in(&session_dir), [".lock", "session.json", "task-tree.json"]);
}

/// A store sweeps a session when it first writes to it, while another store may be replacing its documents.
#[test]
fn a_sweep_does_not_disturb_the_commit_of_a_live_writer() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.put_state(&s, b"0", b"0").unwrap();
  let is_over = std::sync::atomic::AtomicBool::new(false);
  std::thread::scope(|scope| {
    for _ in 0..3 {
      scope.spawn(|| {
        let id = TaskId::parse("t").unwrap();
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
          let sweeper = FileBackend::new(backend.base.clone(), Durability::Relaxed);
          sweeper.put(&s, Item::TaskResult(&id), b"1").unwrap();
        }
      });
    }
    let writer = FileBackend::new(backend.base.clone(), Durability::Relaxed);
    for round in 1..2000 {
      let text = round.to_string();
      writer.put_state(&s, &text, &text).unwrap();
      for item in [Item::SESSION, Item::TASK_TREE] {
        assert_eq!(writer.read(&s, item, u64::MAX).unwrap().unwrap(), text.as_bytes());
      }
    }
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
  });
}

/// Leaves what a process leaves that died after the commit, when it had moved the files `moved`.
fn die_after_commit(backend: &FileBackend, s: &SessionId, moved: &[&str]) {
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
fn the_next_reader_finishes_a_commit() {
  for moved in [
    &[][..],
    &["session.json"],
    &["task-tree.json"],
    &["session.json", "task-tree.json"],
  ] {
    for first_read in [Item::SESSION, Item::TASK_TREE] {
      let (_root, backend) = backend();
      let s = session("s");
      backend.put_state(&s, b"old", b"old").unwrap();
      die_after_commit(&backend, &s, moved);
      for item in [first_read, Item::SESSION, Item::TASK_TREE] {
        assert_eq!(
          backend.read(&s, item, u64::MAX).unwrap().unwrap(),
          b"new",
          "{moved:?} {item}"
        );
      }
      assert_eq!(
        names_in(&backend.session_dir(&s)),
        [".lock", "session.json", "task-tree.json"]
      );
    }
  }
}

#[test]
fn a_write_of_one_document_finishes_a_commit_first() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.put_state(&s, b"old", b"old").unwrap();
  die_after_commit(&backend, &s, &[]);
  backend.put(&s, Item::SESSION, b"newest").unwrap();
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap().unwrap(), b"newest");
  assert_eq!(backend.read(&s, Item::TASK_TREE, u64::MAX).unwrap().unwrap(), b"new");
}

#[test]
fn a_session_with_a_pending_document_is_listed() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.create_empty(&s).unwrap();
  die_after_commit(&backend, &s, &[]);
  assert_eq!(backend.saved_sessions().unwrap(), [s]);
}

#[test]
fn staged_documents_without_a_commit_have_no_effect() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.put_state(&s, b"old", b"old").unwrap();
  let staged = backend.session_dir(&s).join(temporary_name("pending"));
  fs::create_dir(&staged).unwrap();
  fs::write(staged.join("session.json"), b"new").unwrap();
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap().unwrap(), b"old");
  backend.put_state(&s, b"next", b"next").unwrap();
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap().unwrap(), b"next");
}
