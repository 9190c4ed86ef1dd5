use std::cell::Cell;
use std::fs::{self, File};
use std::thread;

use super::*;
use crate::backend::BackendExt as _;
use crate::backend::conformance::Shorthand as _;
use crate::backend::file::each_once;
use crate::backend::{Backend, Durability, FileBackend, Item, Newest, Parent, Precondition, PutOptions, PutOutcome};
use crate::types::time::Timestamp;

fn id(number: usize) -> CheckpointId {
  CheckpointId::parse(&format!("cp-1-00000{number}")).unwrap()
}

fn session() -> SessionId {
  SessionId::parse("s").unwrap()
}

fn write(backend: &FileBackend, number: usize) {
  let new = PutOptions {
    precondition: Precondition::Newest(Newest::default()),
    ..PutOptions::new(Encoding::Json)
  };
  let put = backend
    .put_checkpoint(&session().into(), &id(number), b"{}", &new)
    .unwrap();
  assert!(matches!(put, PutOutcome::Stored { .. }), "{put:?}");
}

/// The numbers of the checkpoints that retention would judge.
fn seen(backend: &FileBackend) -> Vec<usize> {
  let entries = backend
    .list_for_retention(&session().into(), RetentionScope::Beyond(0))
    .unwrap()
    .entries;
  let number = |entry: &CheckpointEntry| entry.id.as_str()[10..].parse().unwrap();
  entries.iter().rev().map(number).collect()
}

/// Two backends on one directory, which stand for two processes.
fn two() -> (tempfile::TempDir, FileBackend, FileBackend) {
  let root = tempfile::tempdir().unwrap();
  let new = || FileBackend::new(root.path().to_owned(), Durability::Relaxed);
  let (mine, theirs) = (new(), new());
  (root, mine, theirs)
}

#[test]
fn each_of_two_processes_sees_the_changes_of_the_other() {
  let (_root, mine, theirs) = two();
  let mut expected = Vec::new();
  for number in 0..5 {
    write(if number % 2 == 0 { &mine } else { &theirs }, number);
    expected.push(number);
    assert_eq!((seen(&mine), seen(&theirs)), (expected.clone(), expected.clone()));
  }
  let ids: Vec<_> = (0..5).map(id).collect();
  let item = |number: usize| Item::Checkpoint(None, &ids[number], Encoding::Json);
  theirs.remove(&session(), item(0)).unwrap();
  let entry = CheckpointEntry::new(ids[1].clone(), Encoding::Json, Timestamp::default);
  mine.delete_surplus(&session().into(), &entry, None).unwrap();
  let entry = CheckpointEntry::new(ids[2].clone(), Encoding::Json, Timestamp::default);
  theirs
    .quarantine(&session().into(), &entry, Some(b"{}"))
    .unwrap()
    .unwrap();
  assert_eq!((seen(&mine), seen(&theirs)), (vec![3, 4], vec![3, 4]));
  theirs.delete_any(&session()).unwrap();
  assert!(seen(&mine).is_empty());
  write(&theirs, 5);
  assert_eq!(seen(&mine), [5]);
}

/// Makes the cached listing as old as it may be.
fn age(backend: &FileBackend) {
  backend.names.listings.update(&session().into(), |cached| {
    cached.as_mut().unwrap().listed_at = Instant::now().checked_sub(TRUSTED_FOR).unwrap();
  });
}

#[test]
fn a_cached_listing_is_used_until_it_is_too_old() {
  let (root, mine, _) = two();
  write(&mine, 1);
  write(&mine, 2);
  assert_eq!(seen(&mine), [1, 2]);
  // A program that sets no marks.
  let directory = root.path().join("s/checkpoints");
  fs::remove_file(directory.join("cp-1-000001.json")).unwrap();
  assert_eq!(seen(&mine), [1, 2], "from the cache");
  age(&mine);
  assert_eq!(seen(&mine), [2], "listed again");
}

#[test]
fn a_writer_notices_changes_of_programs_that_set_no_marks() {
  let (root, mine, _) = two();
  for number in 1..4 {
    write(&mine, number);
  }
  assert_eq!(seen(&mine), [1, 2, 3]);
  // Times are coarse.
  thread::sleep(Duration::from_millis(20));
  fs::remove_file(root.path().join("s/checkpoints/cp-1-000003.json")).unwrap();
  write(&mine, 4);
  assert_eq!(seen(&mine), [1, 2, 4]);
}

#[test]
fn listings_that_are_too_old_are_dropped() {
  let (_root, mine, _) = two();
  write(&mine, 1);
  seen(&mine);
  age(&mine);
  let other = SessionId::parse("other").unwrap();
  let id = id(1);
  mine
    .put(&other, Item::Checkpoint(None, &id, Encoding::Json), b"{}")
    .unwrap();
  mine.list_for_retention(&other.into(), RetentionScope::All).unwrap();
  assert_eq!(mine.names.listings.len(), 1);
}

#[test]
fn a_process_that_was_stopped_with_the_lock_does_not_stop_others() {
  let (root, mine, theirs) = two();
  write(&mine, 1);
  assert_eq!(seen(&mine), [1]);
  let stopped = File::open(root.path().join("s/checkpoints").join(MARK_FILE)).unwrap();
  stopped.lock().unwrap();
  write(&theirs, 2);
  write(&mine, 3);
  assert_eq!((seen(&mine), seen(&theirs)), (vec![1, 2, 3], vec![1, 2, 3]));
  drop(stopped);
  assert_eq!((seen(&mine), seen(&theirs)), (vec![1, 2, 3], vec![1, 2, 3]));
}

#[test]
fn the_holder_of_the_lock_sees_checkpoints_that_were_stored_without_it() {
  let (_root, mine, theirs) = two();
  write(&mine, 1);
  assert_eq!(seen(&mine), [1]);
  let directory = mine.open_directory(&["s", "checkpoints"]).unwrap().unwrap();
  let change = mine.names.change(&session().into(), &directory, |held| {
    assert!(held.was_alone);
    write(&theirs, 2);
    Ok(((), None))
  });
  change.unwrap();
  assert_eq!(seen(&mine), [1, 2]);
  let parent = |number| {
    Precondition::Newest(Newest {
      parent: Parent::Checkpoint(id(number)),
      later: Vec::new(),
    })
  };
  let new = PutOptions {
    precondition: parent(1),
    ..PutOptions::new(Encoding::Json)
  };
  let put = mine.put_checkpoint(&session().into(), &id(3), b"{}", &new).unwrap();
  assert_eq!(put, PutOutcome::Conflict(Some(id(2))));
}

#[test]
fn the_directory_is_listed_if_the_mark_is_missing_or_damaged() {
  let (root, mine, theirs) = two();
  write(&mine, 1);
  let mark = root.path().join("s/checkpoints").join(MARK_FILE);
  fs::write(&mark, "written by another program").unwrap();
  assert_eq!(seen(&mine), [1]);
  fs::remove_file(&mark).unwrap();
  assert_eq!(seen(&mine), [1]);
  fs::remove_file(&mark).unwrap();
  fs::create_dir(&mark).unwrap();
  write(&theirs, 2);
  assert_eq!(seen(&mine), [1, 2]);
}

/// The result of `list_unchanged`, oldest first, if `during` runs during the first read of the directory, between the names after
/// it, and returns what that read misses. `later_misses` is missed by all later reads.
fn list_during(
  backend: &FileBackend,
  during: impl Fn() -> CheckpointId,
  later_misses: Option<&CheckpointId>,
) -> (Vec<(CheckpointId, Encoding)>, usize) {
  let directory = backend.open_directory(&["s", "checkpoints"]).unwrap().unwrap();
  let reads = Cell::new(0);
  let list = || {
    let mut entries = backend.checkpoints_in(&session().into(), &directory)?;
    reads.set(reads.get() + 1);
    let missed = if reads.get() == 1 {
      Some(during())
    } else {
      later_misses.cloned()
    };
    entries.retain(|entry| Some(&entry.id) != missed.as_ref());
    Ok(entries)
  };
  let entries = list_unchanged(&directory, list, each_once).unwrap();
  let names = entries.into_iter().rev().map(|entry| (entry.id, entry.encoding));
  (names.collect(), reads.get())
}

#[test]
fn a_list_is_repeated_if_a_checkpoint_was_converted_while_the_directory_was_read() {
  let (_root, mine, theirs) = two();
  for number in 1..4 {
    write(&mine, number);
  }
  let convert = || {
    let new = PutOptions {
      precondition: Precondition::Exists,
      ..PutOptions::new(Encoding::Gzip)
    };
    let put = theirs.put_checkpoint(&session().into(), &id(2), b"{}", &new).unwrap();
    assert!(matches!(put, PutOutcome::Stored { .. }), "{put:?}");
    id(2)
  };
  let (listed, reads) = list_during(&mine, convert, None);
  let expected = [
    (id(1), Encoding::Json),
    (id(2), Encoding::Gzip),
    (id(3), Encoding::Json),
  ];
  assert_eq!((listed, reads), (expected.to_vec(), 2));
}

#[test]
fn two_lists_are_merged_without_duplicates_while_another_process_holds_the_lock() {
  let (root, mine, _) = two();
  for number in 1..4 {
    write(&mine, number);
  }
  let directory = root.path().join("s/checkpoints");
  let stopped = File::open(directory.join(MARK_FILE)).unwrap();
  stopped.lock().unwrap();
  let convert = || {
    // The first read misses one checkpoint, and sees the old name of the other.
    fs::rename(
      directory.join("cp-1-000001.json"),
      directory.join("cp-1-000001.json.gz"),
    )
    .unwrap();
    id(2)
  };
  let (listed, reads) = list_during(&mine, convert, Some(&id(3)));
  let ids: Vec<_> = listed.into_iter().map(|(id, _)| id).collect();
  assert_eq!((ids, reads), ((1..4).map(id).collect(), 2));
}
