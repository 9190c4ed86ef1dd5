//! Session and tree as one step, whoever dies in the middle of it.

use super::*;

#[cfg(unix)]
#[test]
fn a_pending_file_that_is_in_both_places_is_mended() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.put_state(&s, b"old", b"old").unwrap();
  died_after_deciding(&backend, &s, &[]);
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

/// Stores that open a session for the first time sweep it, in the middle of a restore of another.
#[test]
fn a_sweep_never_tears_the_step_of_a_living_writer() {
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
    for first_read in [Item::SESSION, Item::TASK_TREE] {
      let (_root, backend) = backend();
      let s = session("s");
      backend.put_state(&s, b"old", b"old").unwrap();
      died_after_deciding(&backend, &s, moved);
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
fn a_decided_step_counts_before_a_later_write_of_one_part() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.put_state(&s, b"old", b"old").unwrap();
  died_after_deciding(&backend, &s, &[]);
  backend.put(&s, Item::SESSION, b"newest").unwrap();
  assert_eq!(backend.read(&s, Item::SESSION, u64::MAX).unwrap().unwrap(), b"newest");
  assert_eq!(backend.read(&s, Item::TASK_TREE, u64::MAX).unwrap().unwrap(), b"new");
}

#[test]
fn a_decided_step_already_makes_a_session() {
  let (_root, backend) = backend();
  let s = session("s");
  backend.create_empty(&s).unwrap();
  died_after_deciding(&backend, &s, &[]);
  assert_eq!(backend.saved_sessions().unwrap(), [s]);
}

#[test]
fn a_step_that_was_not_decided_never_happened() {
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
