//! Lets another store act between any two system calls of an operation.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use support::disk::{FaultyDisk, Syncs};
use support::scenario::{checkpoint, keep, open, open_keeping, prepare, session};
use waymark::backend::Encoding;
use waymark::backend::file::disk::{Directory, Disk};
use waymark::checkpoint::reset::Resets;
use waymark::store::{OpenStore, PruneRequest, RecoverOutcome, RecoverRequest};
use waymark::types::id::{CheckpointId, TaskId};
use waymark::types::progress::Control;

/// Runs `operation` on a copy of a disk once for each of its system calls, with `act` before that call, and `check` afterwards.
fn interrupt_everywhere<T: Debug>(
  prepared: &FaultyDisk,
  act: impl Fn(&FaultyDisk) -> Box<dyn FnOnce() + Send>,
  operation: impl Fn(&FaultyDisk) -> Box<dyn FnOnce() -> T>,
  check: impl Fn(usize, &FaultyDisk, T),
) {
  for call in 1.. {
    let disk = prepared.fork();
    let (operation, act) = (operation(&disk), act(&disk));
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_interrupted);
    disk.before_call(call, move || {
      flag.store(true, Ordering::Relaxed);
      act();
    });
    let outcome = operation();
    disk.observe_nothing();
    if !is_interrupted.load(Ordering::Relaxed) {
      assert!(call > 1, "the operation makes system calls");
      return;
    }
    check(call, &disk, outcome);
  }
}

/// The ids of the checkpoints in a list, newest first.
fn listed(store: &OpenStore) -> Vec<CheckpointId> {
  let entries = store.list(&session().into(), 0, 0).unwrap().entries;
  entries.into_iter().map(|entry| entry.id).collect()
}

#[test]
fn a_list_shows_every_checkpoint_once_if_they_are_converted_while_it_is_read() {
  for prepared in [Syncs::Honest; 2].map(FaultyDisk::new).into_iter().zip([true, false]) {
    let prepared = match prepared {
      (disk, true) => disk,
      (disk, false) => disk.without_locks(),
    };
    let baseline = prepare(&prepared, Encoding::Json);
    let newest_first: Vec<_> = baseline.checkpoints.into_iter().rev().collect();
    let convert = |disk: &FaultyDisk| -> Box<dyn FnOnce() + Send> {
      let other = open(disk);
      Box::new(move || {
        let converted = other.convert(&session(), Encoding::Gzip, &Control::default()).unwrap();
        assert_eq!(converted.converted, 3);
      })
    };
    let list = |disk: &FaultyDisk| -> Box<dyn FnOnce() -> Vec<CheckpointId>> {
      let store = open(disk);
      Box::new(move || listed(&store))
    };
    interrupt_everywhere(&prepared, convert, list, |call, _, listed| {
      assert_eq!(listed, newest_first, "interrupted before call {call}");
    });
  }
}

#[test]
fn prune_removes_at_most_one_more_checkpoint_after_another_store_has_changed_the_retention() {
  const COUNT: usize = 6;
  let prepared = FaultyDisk::new(Syncs::Honest);
  let store = open_keeping(&prepared, COUNT);
  for _ in 0..COUNT {
    checkpoint(&store, Encoding::Json).unwrap();
  }
  store.set_retention(&session(), Some(keep(1))).unwrap();
  let count_before = Arc::new(AtomicUsize::new(0));
  let change_retention = |disk: &FaultyDisk| -> Box<dyn FnOnce() + Send> {
    let other = open_keeping(disk, COUNT);
    let count_before = Arc::clone(&count_before);
    Box::new(move || {
      count_before.store(listed(&other).len(), Ordering::Relaxed);
      other.set_retention(&session(), Some(keep(COUNT as u64))).unwrap();
    })
  };
  let prune = |disk: &FaultyDisk| -> Box<dyn FnOnce() -> usize> {
    let store = open_keeping(disk, COUNT);
    let request = PruneRequest {
      session: Some(session()),
      ..PruneRequest::default()
    };
    Box::new(move || {
      let pruned = store.prune(&request, &Control::default()).unwrap();
      assert!(pruned.failed.is_empty(), "{pruned:?}");
      pruned.removed.len()
    })
  };
  let was_ended = AtomicBool::new(false);
  interrupt_everywhere(&prepared, change_retention, prune, |call, disk, removed| {
    let (before, after) = (
      count_before.load(Ordering::Relaxed),
      listed(&open_keeping(disk, COUNT)).len(),
    );
    assert!(
      before - after <= 1,
      "{before} checkpoints before call {call}, {after} at the end"
    );
    assert_eq!(removed, COUNT - after);
    was_ended.fetch_or((2..COUNT).contains(&after), Ordering::Relaxed);
  });
  assert!(was_ended.into_inner(), "prune was interrupted between two removals");
}

#[test]
fn recover_passes_over_a_damaged_checkpoint_that_never_stops_changing() {
  /// Far more than recover makes.
  const MAX_CALLS: usize = 20_000;
  let disk = FaultyDisk::new(Syncs::Honest);
  let baseline = prepare(&disk, Encoding::Json);
  let store = open(&disk);
  let newest = baseline.checkpoints[2].clone();
  let (changing, path) = (disk.clone(), format!("s/checkpoints/{newest}.json"));
  let mut calls = 0;
  disk.before_each_call(move || {
    calls += 1;
    assert!(calls < MAX_CALLS, "recover does not end");
    changing.append(&path, b"x");
  });
  let request = RecoverRequest {
    session: session(),
    resets: Resets::default(),
    include_state: false,
    quarantine: true,
    is_dry_run: false,
  };
  let outcome = store.recover(&request).unwrap();
  disk.observe_nothing();
  let RecoverOutcome::Recovered {
    checkpoint,
    passed_over,
    ..
  } = outcome
  else {
    panic!("the older checkpoints are whole: {outcome:?}");
  };
  assert_eq!(checkpoint, baseline.checkpoints[1]);
  assert_eq!(passed_over.len(), 1);
  assert_eq!((&passed_over[0].damaged.id, &passed_over[0].moved_to), (&newest, &None));
  assert_eq!(listed(&store).len(), 3, "nothing was moved to the quarantine");
}

const STAGING: &str = ".new-0123456789abcdef0123456789abcdef";

/// Creates a directory with both documents of a session below `parent`.
fn stage<D: Directory>(parent: &D, name: &str) {
  parent.make_directory(name).unwrap();
  let staging = parent.open_directory(name).unwrap();
  for (name, text) in [
    ("session.json", r#"{"version":"staged"}"#),
    ("task-tree.json", r#"{"staged":1}"#),
  ] {
    let mut file = staging.create(name).unwrap();
    staging.write(&mut file, text.as_bytes()).unwrap();
  }
}

/// Whether both documents are those of [`stage`]; `None` if only one is.
fn is_staged_state(store: &OpenStore, id: &str) -> Option<bool> {
  let s = waymark::types::id::SessionId::parse(id).unwrap();
  let documents = [store.load_session(&s, 0), store.load_task_tree(&s, 0)];
  let is_staged = documents.map(|read| read.unwrap().is_some_and(|loaded| loaded.text.contains("staged")));
  (is_staged[0] == is_staged[1]).then_some(is_staged[0])
}

#[test]
fn a_session_is_created_whole_or_not_at_all_if_its_old_staging_directory_is_swept_meanwhile() {
  let prepared = FaultyDisk::new(Syncs::Honest);
  stage(&prepared.open_base().unwrap(), STAGING);
  let is_committed = Arc::new(AtomicBool::new(false));
  // The last step of a writer that was stopped.
  let commit = |disk: &FaultyDisk| -> Box<dyn FnOnce() + Send> {
    let (disk, is_committed) = (disk.clone(), Arc::clone(&is_committed));
    Box::new(move || {
      let base = disk.open_base().unwrap();
      is_committed.store(base.rename(STAGING, &base, "created").is_ok(), Ordering::Relaxed);
    })
  };
  let sweep = |disk: &FaultyDisk| -> Box<dyn FnOnce()> {
    let disk = disk.clone();
    Box::new(move || drop(open(&disk)))
  };
  let was_refused = AtomicBool::new(false);
  interrupt_everywhere(&prepared, commit, sweep, |call, disk, ()| {
    let is_committed = is_committed.load(Ordering::Relaxed);
    let state = is_staged_state(&open(disk), "created");
    assert_eq!(state, Some(is_committed), "interrupted before call {call}");
    assert!(!disk.holds(STAGING), "interrupted before call {call}");
    was_refused.fetch_or(!is_committed, Ordering::Relaxed);
  });
  assert!(was_refused.into_inner(), "the sweep won at least once");
}

#[test]
fn both_documents_are_replaced_or_none_if_their_staging_directory_is_swept_before_the_commit() {
  const STAGED: &str = ".pending.0123456789abcdef0123456789abcdef.tmp";
  let prepared = FaultyDisk::new(Syncs::Honest);
  prepare(&prepared, Encoding::Json);
  stage(&prepared.open_base().unwrap().open_directory("s").unwrap(), STAGED);
  let is_committed = Arc::new(AtomicBool::new(false));
  let commit = |disk: &FaultyDisk| -> Box<dyn FnOnce() + Send> {
    let (disk, is_committed) = (disk.clone(), Arc::clone(&is_committed));
    Box::new(move || {
      let session = disk.open_base().unwrap().open_directory("s").unwrap();
      is_committed.store(session.rename(STAGED, &session, ".pending").is_ok(), Ordering::Relaxed);
    })
  };
  // The first write of a process into a session sweeps it.
  let sweep = |disk: &FaultyDisk| -> Box<dyn FnOnce()> {
    let store = open(disk);
    Box::new(move || {
      drop(
        store
          .save_task_result(&session(), &TaskId::parse("t").unwrap(), "1")
          .unwrap(),
      );
    })
  };
  let was_refused = AtomicBool::new(false);
  interrupt_everywhere(&prepared, commit, sweep, |call, disk, ()| {
    let is_committed = is_committed.load(Ordering::Relaxed);
    let state = is_staged_state(&open(disk), "s");
    assert_eq!(state, Some(is_committed), "interrupted before call {call}");
    assert_eq!(disk.temporaries(), [""; 0], "interrupted before call {call}");
    was_refused.fetch_or(!is_committed, Ordering::Relaxed);
  });
  assert!(was_refused.into_inner(), "the sweep won at least once");
}
