//! A process that is stopped while it holds a lock. The tests hold the lock and do not release it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::backend::{BackendExt, Claim, Document, Newest, Precondition, PutOptions, PutOutcome};
use crate::types::error::Code;
use crate::types::time::Timestamp;

const TIMEOUT: Duration = Duration::from_millis(50);

/// A backend with a short timeout, and a session with both documents and one earlier version of each.
fn short_timeout() -> (TempDir, FileBackend, SessionId) {
  let root = tempfile::tempdir().unwrap();
  let settings = Settings {
    timeout: TIMEOUT,
    keep_previous: 1,
    ..Settings::from(Durability::Relaxed)
  };
  let backend = FileBackend::new(root.path().join("base"), settings);
  let s = session("s");
  for version in [b"1", b"2"] {
    backend.put_state(&s, version, version).unwrap();
  }
  (root, backend, s)
}

/// Holds the lock on a file until it is dropped.
fn held(path: &Path) -> File {
  let file = File::options().read(true).write(true).open(path).unwrap();
  file.lock().unwrap();
  file
}

fn assert_busy<T: std::fmt::Debug>(outcome: Result<T>, holder: &str) {
  let error = outcome.unwrap_err();
  assert_eq!(error.code, Code::Busy, "{error}");
  assert!(error.message.contains(holder), "{error}");
  let cause = error.cause.as_ref().and_then(|cause| cause.downcast_ref::<io::Error>());
  assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::ResourceBusy));
}

#[test]
fn every_write_that_needs_the_session_lock_fails_with_the_name_of_its_holder() {
  let (_root, backend, s) = short_timeout();
  let lock_file = backend.session_dir(&s).join(".lock");
  let lock = held(&lock_file);
  fs::write(&lock_file, r#"{"pid":4711,"host":"build-7.example"}"#).unwrap();
  let began = Instant::now();
  let holder = "process 4711 on build-7.example";
  assert_busy(backend.put(&s, Item::SESSION, b"3"), holder);
  assert_busy(backend.put_state(&s, b"3", b"3"), holder);
  let change = |old: Option<Vec<u8>>| Ok(old.map(|_| b"3".to_vec()));
  assert_busy(backend.update(&s, Document::Session, 9, &mut change.clone()), holder);
  assert!(began.elapsed() >= 3 * TIMEOUT, "each call waited");
  drop(lock);
  backend.update(&s, Document::Session, 9, &mut change.clone()).unwrap();
  assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"3");
  assert_eq!(backend.read(&s, Item::TASK_TREE, 9).unwrap().unwrap(), b"2");
  let names = names_in(&backend.session_dir(&s));
  assert!(!names.iter().any(|name| is_temporary(name)), "{names:?}");
}

#[test]
fn a_holder_without_a_valid_record_is_an_unknown_process() {
  let (_root, backend, s) = short_timeout();
  let lock_file = backend.session_dir(&s).join(".lock");
  let _lock = held(&lock_file);
  let too_long = format!("{{\"pid\":1,\"host\":\"{}\"}}", "x".repeat(1 << 20));
  for content in [
    "",
    "{\"pid\":47",
    "{\"pid\":-1,\"host\":\"x\"}",
    "{\"pid\":1,\"host\":\"\\u001b[31m\"}",
    "{\"pid\":1,\"host\":\"a b\"}",
    "foreign",
    &too_long,
  ] {
    fs::write(&lock_file, content).unwrap();
    assert_busy(backend.put(&s, Item::SESSION, b"3"), "an unknown process");
  }
  fs::write(&lock_file, b"\xff\xfe").unwrap();
  assert_busy(backend.put(&s, Item::SESSION, b"3"), "an unknown process");
}

#[test]
fn a_holder_replaces_the_contents_of_the_lock_file() {
  let (_root, backend, s) = short_timeout();
  let lock_file = backend.session_dir(&s).join(".lock");
  let own = fs::read_to_string(&lock_file).unwrap();
  assert!(own.starts_with(&format!("{{\"pid\":{},", std::process::id())), "{own}");
  for content in ["", "x", &"foreign".repeat(100)] {
    fs::write(&lock_file, content).unwrap();
    backend.put(&s, Item::SESSION, b"3").unwrap();
    assert_eq!(fs::read_to_string(&lock_file).unwrap(), own);
  }
  let _lock = held(&lock_file);
  assert_busy(backend.put(&s, Item::SESSION, b"3"), "another call of this process");
}

#[test]
fn the_portable_disk_names_the_holder_too() {
  let root = tempfile::tempdir().unwrap();
  let settings = Settings {
    timeout: TIMEOUT,
    ..Settings::default()
  };
  let disk = portable::SystemDisk::new(root.path().to_owned());
  let backend = FileBackend::on(disk, root.path().to_owned(), settings);
  let s = session("s");
  backend.put(&s, Item::SESSION, b"1").unwrap();
  let _lock = held(&root.path().join("s/.lock"));
  assert_busy(backend.put(&s, Item::SESSION, b"2"), "another call of this process");
}

#[test]
fn documents_of_a_writer_that_was_stopped_after_its_commit_are_read_without_its_lock() {
  let (_root, backend, s) = short_timeout();
  let directory = backend.session_dir(&s);
  let lock = held(&directory.join(".lock"));
  // One of the two documents has been moved already.
  fs::create_dir(directory.join(".pending")).unwrap();
  fs::write(directory.join(".pending/task-tree.json"), b"3").unwrap();
  fs::write(directory.join("session.json"), b"3").unwrap();
  let read = |item| backend.read(&s, item, 9);
  assert_eq!(read(Item::SESSION).unwrap().unwrap(), b"3");
  assert_eq!(read(Item::TASK_TREE).unwrap().unwrap(), b"3");
  assert_eq!(backend.saved_sessions().unwrap(), std::slice::from_ref(&s));
  // Earlier versions are renamed under the lock, so they cannot be read without it.
  assert_busy(
    read(Item::Previous(Document::TaskTree, 1)),
    "another call of this process",
  );
  assert_busy(backend.versions(&s, Document::TaskTree), "another call of this process");
  assert!(directory.join(".pending").is_dir());
  drop(lock);
  assert_eq!(read(Item::TASK_TREE).unwrap().unwrap(), b"3");
  assert!(!directory.join(".pending").exists(), "the reader finished the commit");
  assert_eq!(read(Item::Previous(Document::TaskTree, 1)).unwrap().unwrap(), b"2");
}

#[test]
fn waiting_for_the_lock_on_a_lease_has_a_deadline_and_names_the_holder() {
  let (_root, backend, s) = short_timeout();
  let claim = Claim {
    owner: "a",
    ttl_ms: 60_000,
    is_forced: false,
  };
  backend.acquire(&s, claim).unwrap();
  let leases = backend.base.join(".leases");
  let lock_file = names_in(&leases).into_iter().find(|name| name.starts_with(".lock-"));
  let lock = held(&leases.join(lock_file.unwrap()));
  let holder = "another call of this process";
  assert_busy(backend.acquire(&s, claim), holder);
  assert_busy(
    backend
      .delete_any(&session("s"))
      .and_then(|left| left.map_or(Ok(()), Err)),
    holder,
  );
  drop(lock);
  backend
    .acquire(
      &s,
      Claim {
        is_forced: true,
        ..claim
      },
    )
    .unwrap();
}

#[test]
fn a_checkpoint_is_neither_pinned_nor_deleted_while_another_process_holds_the_lock_on_the_names() {
  let (_root, backend, s) = short_timeout();
  let series = Series::from(&s);
  let ids = ["cp-1-000001", "cp-1-000002", "cp-1-000003"].map(|id| CheckpointId::parse(id).unwrap());
  for id in &ids {
    let item = Item::Checkpoint(None, id, Encoding::Json);
    backend.put(&s, item, b"{}").unwrap();
  }
  let entries = &backend.checkpoints(&series).unwrap()[1..];
  let lock = held(&backend.session_dir(&s).join(CHECKPOINTS).join(".names"));
  assert_busy(backend.set_pinned(&series, &ids[0], true), "pin");
  assert_busy(backend.delete_surplus(&series, &entries[1], None), "delete");
  // The holder may be about to store it in another encoding, which would undo the deletion.
  assert_busy(backend.remove(&s, series.item_of(&entries[0])), "delete");
  drop(lock);
  assert!(backend.remove(&s, series.item_of(&entries[0])).unwrap());
  assert!(backend.set_pinned(&series, &ids[0], true).unwrap());
  assert!(
    !backend.delete_surplus(&series, &entries[1], None).unwrap(),
    "the checkpoint is pinned"
  );
  assert!(backend.set_pinned(&series, &ids[0], false).unwrap());
  assert!(backend.delete_surplus(&series, &entries[1], None).unwrap());
}

#[test]
fn a_checkpoint_is_not_replaced_while_another_process_holds_the_lock_on_the_names() {
  let (_root, backend, s) = short_timeout();
  let series = Series::from(&s);
  let id = CheckpointId::parse("cp-1-000001").unwrap();
  backend.put(&s, series.item(&id, Encoding::Json), b"{}").unwrap();
  let directory = backend.session_dir(&s).join(CHECKPOINTS);
  let replace = |precondition: &Precondition| {
    let new = PutOptions {
      precondition: precondition.clone(),
      ..PutOptions::new(Encoding::Gzip)
    };
    backend.put_checkpoint(&series, &id, b"packed", &new)
  };
  let lock = held(&directory.join(".names"));
  for precondition in [Precondition::Exists, Precondition::None] {
    assert_busy(replace(&precondition), "replace");
  }
  let names = names_in(&directory);
  assert!(
    !names
      .iter()
      .any(|name| is_temporary(name) || Path::new(name).extension() == Some("gz".as_ref())),
    "{names:?}"
  );
  assert_eq!(backend.checkpoints(&series).unwrap()[0].encoding, Encoding::Json);
  // A new checkpoint replaces nothing.
  let newer = CheckpointId::parse("cp-1-000002").unwrap();
  let new = PutOptions {
    precondition: Precondition::Newest(Newest::default()),
    ..PutOptions::new(Encoding::Json)
  };
  assert!(matches!(
    backend.put_checkpoint(&series, &newer, b"{}", &new).unwrap(),
    PutOutcome::Stored { .. }
  ));
  drop(lock);
  assert!(matches!(
    replace(&Precondition::Exists).unwrap(),
    PutOutcome::Stored { .. }
  ));
  let encodings: Vec<_> = backend
    .checkpoints(&series)
    .unwrap()
    .iter()
    .map(|entry| entry.encoding)
    .collect();
  assert_eq!(encodings, [Encoding::Json, Encoding::Gzip]);
}

#[test]
fn creating_a_session_with_items_waits_for_no_lock() {
  let (_root, backend, _) = short_timeout();
  let id = CheckpointId::parse("foreign").unwrap();
  let s = session("new");
  let mut source = |sink: &mut crate::backend::ItemSink<'_>| {
    sink(crate::backend::NewItem {
      item: Item::Checkpoint(None, &id, Encoding::Json),
      content: b"{}",
      is_pinned: false,
      made_at: Some(Timestamp::from_millis(1234)),
    })
  };
  assert!(backend.create_session_with(&s, &mut source).unwrap());
  let entries = backend.checkpoints(&(&s).into()).unwrap();
  assert_eq!(entries[0].made_at.as_millis(), 1234);
}

fn assert_not_lockable<T: std::fmt::Debug>(outcome: Result<T>, action: &str) {
  let error = outcome.unwrap_err();
  assert_eq!(error.code, Code::Io, "{error}");
  assert!(error.message.contains(action), "{error}");
  let cause = error.cause.as_ref().and_then(|cause| cause.downcast_ref::<io::Error>());
  assert!(cause.is_some_and(|cause| cause.raw_os_error().is_some()), "{error}");
}

#[test]
fn a_lock_file_that_cannot_be_opened_refuses_every_step_that_needs_the_lock() {
  let (_root, backend, s) = short_timeout();
  let series = Series::from(&s);
  let id = CheckpointId::parse("cp-1-000001").unwrap();
  backend.put(&s, series.item(&id, Encoding::Json), b"{}").unwrap();
  let directory = backend.session_dir(&s).join(CHECKPOINTS);
  fs::remove_file(directory.join(".names")).unwrap();
  fs::create_dir(directory.join(".names")).unwrap();
  assert_not_lockable(backend.set_pinned(&series, &id, true), "pin");
  assert_not_lockable(backend.remove(&s, series.item(&id, Encoding::Json)), "delete");
  let entries = backend.checkpoints(&series).unwrap();
  assert_not_lockable(backend.delete_surplus(&series, &entries[0], None), "delete");
  let new = |precondition| PutOptions {
    precondition,
    ..PutOptions::new(Encoding::Gzip)
  };
  assert_not_lockable(
    backend.put_checkpoint(&series, &id, b"packed", &new(Precondition::Exists)),
    "replace",
  );
  // A new checkpoint replaces nothing.
  let newer = CheckpointId::parse("cp-1-000002").unwrap();
  let newest = Precondition::Newest(Newest::default());
  let put = backend
    .put_checkpoint(&series, &newer, b"packed", &new(newest))
    .unwrap();
  assert!(matches!(put, PutOutcome::Stored { .. }));
}

#[test]
fn removing_a_lock_file_does_not_admit_two_holders() {
  let root = tempfile::tempdir().unwrap();
  let backend = FileBackend::new(root.path().to_owned(), Durability::Relaxed);
  let inside = AtomicBool::new(false);
  let work = |removes: bool| {
    let directory = backend.open_directory(&[]).unwrap().unwrap();
    for _ in 0..500 {
      let lock = locks::wait(&directory, ".lock", Duration::from_secs(60))
        .unwrap()
        .unwrap();
      assert!(!inside.swap(true, Ordering::SeqCst), "another thread holds it");
      thread::yield_now();
      inside.store(false, Ordering::SeqCst);
      if removes {
        fs::remove_file(root.path().join(".lock")).unwrap();
      }
      drop(lock);
    }
  };
  thread::scope(|scope| {
    for removes in [true, false, false] {
      scope.spawn(move || work(removes));
    }
  });
}

#[test]
fn creating_a_session_keeps_the_lock_files_of_an_existing_one() {
  let (_root, backend, s) = short_timeout();
  let series = Series::from(&s);
  let id = CheckpointId::parse("cp-1-000001").unwrap();
  backend.put(&s, series.item(&id, Encoding::Json), b"{}").unwrap();
  let directory = backend.session_dir(&s);
  let locks = [directory.join(".lock"), directory.join(CHECKPOINTS).join(".names")].map(|path| held(&path));
  drop(locks);
  assert!(
    !backend
      .create_session_with(&s, &mut |_: &mut crate::backend::ItemSink<'_>| Ok(()))
      .unwrap()
  );
  assert!(directory.join(".lock").exists());
  assert!(directory.join(CHECKPOINTS).join(".names").exists());
}
