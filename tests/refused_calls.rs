//! Lets every system call of every writing method fail, with several errors.

#![allow(
  clippy::unwrap_used,
  clippy::print_stdout,
  reason = "a test may panic, and prints its figures"
)]

mod support;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use support::disk::{FaultyDisk, Plan, Syncs};
use support::scenario::{
  ENCODINGS, Ending, METHODS, Method, check_disk, checkpoint, keep, open, open_keeping, prepare, run, session,
};
use waymark::Code;
use waymark::backend::{Backend, Claim, DeleteMode, Encoding, FileBackend, Item, Settings};
use waymark::store::{PruneRequest, Store};
use waymark::types::progress::Control;

const REASONS: [ErrorKind; 5] = [
  ErrorKind::Other,
  ErrorKind::StorageFull,
  ErrorKind::QuotaExceeded,
  ErrorKind::PermissionDenied,
  ErrorKind::OutOfMemory,
];

/// Fails every call of every method. Returns the findings, and the number of failed calls.
fn refuse_everything(plan: impl Fn(usize) -> Vec<Plan>) -> (Vec<String>, usize) {
  let mut findings = Vec::new();
  let mut refused = 0;
  for (method, encoding) in METHODS
    .into_iter()
    .flat_map(|method| ENCODINGS.map(|encoding| (method, encoding)))
  {
    let prepared = FaultyDisk::new(Syncs::Honest);
    let baseline = prepare(&prepared, encoding);
    let mut call = 1;
    loop {
      let mut is_over = false;
      for plan in plan(call) {
        let is_expiry = matches!(method, Method::ExpireSessions | Method::DeleteExpiredSessions);
        if is_expiry && matches!(plan, Plan::Refuse(_, ErrorKind::PermissionDenied)) {
          // A directory that cannot be read belongs to another user, so expiry skips it.
          continue;
        }
        let disk = prepared.fork();
        let store = open(&disk);
        disk.plan(plan);
        let outcome = run(&store, method, &baseline);
        is_over = disk.calls() < call;
        refused += usize::from(!is_over);
        let ending = match &outcome {
          Ok(_) => Ending::Acknowledged,
          Err(error) if error.code == Code::OutcomeUnknown => Ending::Unknown,
          Err(_) => Ending::Failed,
        };
        if let Err(error) = &outcome {
          let has_cause = matches!(error.code, Code::Io | Code::Busy | Code::OutcomeUnknown) && error.cause.is_some();
          if !has_cause {
            findings.push(format!("{method:?} on {encoding:?}, call {call}, {plan:?}: {error:?}"));
          }
          let left = disk.temporaries();
          if !left.is_empty() {
            findings.push(format!(
              "{method:?} on {encoding:?}, call {call}, {plan:?}: left over {left:?}"
            ));
          }
        }
        let created = outcome.ok().flatten();
        for finding in check_disk(&disk, method, &baseline, ending, created.as_ref()) {
          findings.push(format!(
            "{method:?} on {encoding:?}, call {call}, {plan:?}, {ending:?}: {finding}"
          ));
        }
      }
      if is_over {
        break;
      }
      call += 1;
    }
  }
  (findings, refused)
}

#[test]
fn a_failed_call_keeps_the_old_state_and_is_reported() {
  let (findings, refused) = refuse_everything(|call| REASONS.map(|reason| Plan::Refuse(call, reason)).to_vec());
  assert!(
    findings.is_empty(),
    "{} of {refused}: {:#?}",
    findings.len(),
    &findings[..findings.len().min(5)]
  );
  assert!(refused > 500, "{refused}");
  println!("campaign: {refused} refused calls in the model, 0 lost");
}

#[test]
fn ignored_short_writes_are_detected() {
  let (findings, _) = refuse_everything(|call| vec![Plan::ShortWrite(call)]);
  assert!(!findings.is_empty());
}

#[test]
fn deletions_succeed_on_a_disk_without_free_inodes() {
  for encoding in ENCODINGS {
    let prepared = FaultyDisk::new(Syncs::Honest);
    let baseline = prepare(&prepared, encoding);
    for method in [
      Method::DeleteCheckpoint,
      Method::DeleteNewestCheckpoint,
      Method::DeleteAllCheckpoints,
      Method::DeleteSession,
      Method::Prune,
    ] {
      let disk = prepared.fork();
      let store = open(&disk);
      disk.plan(Plan::NoInodes);
      let outcome = run(&store, method, &baseline);
      assert!(outcome.is_ok(), "{method:?} on {encoding:?}: {outcome:?}");
      let findings = check_disk(&disk, method, &baseline, Ending::Acknowledged, None);
      assert!(findings.is_empty(), "{method:?} on {encoding:?}: {findings:#?}");
    }
  }
}

#[test]
fn a_deletion_ends_an_expired_lease_on_a_disk_without_free_inodes() {
  let disk = FaultyDisk::new(Syncs::Honest);
  let baseline = prepare(&disk, Encoding::Json);
  let claim = Claim {
    owner: "an owner",
    ttl_ms: 1,
    is_forced: false,
  };
  open(&disk).acquire(&session(), claim).unwrap();
  thread::sleep(Duration::from_millis(5));
  let store = open(&disk);
  disk.plan(Plan::NoInodes);
  run(&store, Method::DeleteCheckpoint, &baseline).unwrap();
  disk.plan(Plan::Nothing);
  assert!(!disk.holds(&format!("s/checkpoints/{}.json", baseline.checkpoints[0])));
  assert!(!disk.holds(".leases/s.json"), "the lease has ended");
}

const LABELS: &str = "labels.json";

/// EIO, ENOMEM, EACCES, ENFILE and EMFILE.
#[cfg(unix)]
const UNREADABLE: [i32; 5] = [5, 12, 13, 23, 24];

/// Three checkpoints, of which that in the middle is labelled.
#[cfg(unix)]
fn labelled() -> FaultyDisk {
  let disk = FaultyDisk::new(Syncs::Honest);
  let baseline = prepare(&disk, Encoding::Json);
  run(&open(&disk), Method::LabelCheckpoint, &baseline).unwrap();
  disk
}

#[cfg(unix)]
fn count(store: &Store) -> usize {
  store.list(&session().into(), 0, 0).unwrap().entries.len()
}

#[cfg(unix)]
#[test]
fn prune_removes_nothing_and_reports_a_failure_while_the_labels_cannot_be_read() {
  let prepared = labelled();
  for error in UNREADABLE {
    let disk = prepared.fork();
    let store = open_keeping(&disk, 100);
    let prune = |is_dry_run| {
      let request = PruneRequest {
        session: Some(session()),
        is_dry_run,
        retention: Some(keep(1)),
      };
      let pruned = store.prune(&request, &Control::default()).unwrap();
      (pruned.removed.len(), pruned.failed.len())
    };
    disk.plan(Plan::Unreadable(LABELS, error));
    assert_eq!((prune(true), prune(false)), ((0, 1), (0, 1)), "error {error}");
    disk.plan(Plan::Nothing);
    assert_eq!(count(&store), 3, "error {error}");
    assert_eq!(prune(false), (1, 0), "the labels can be read again after error {error}");
  }
}

#[cfg(unix)]
#[test]
fn retention_keeps_all_checkpoints_after_a_new_one_while_the_labels_cannot_be_read() {
  let prepared = labelled();
  for error in UNREADABLE {
    let disk = prepared.fork();
    let store = open_keeping(&disk, 100);
    store.set_retention(&session(), Some(keep(1))).unwrap();
    disk.plan(Plan::Unreadable(LABELS, error));
    checkpoint(&store, Encoding::Json).unwrap();
    assert_eq!(count(&store), 4, "error {error}");
    disk.plan(Plan::Nothing);
    checkpoint(&store, Encoding::Json).unwrap();
    assert_eq!(count(&store), 2, "the labels can be read again after error {error}");
  }
}

#[cfg(unix)]
#[test]
fn the_step_that_deletes_a_checkpoint_fails_while_the_labels_cannot_be_read() {
  let prepared = labelled();
  for error in UNREADABLE {
    let disk = prepared.fork();
    let backend = FileBackend::on(disk.clone(), PathBuf::from("/store"), Settings::default());
    let oldest = open(&disk)
      .list(&session().into(), 0, 0)
      .unwrap()
      .entries
      .pop()
      .unwrap();
    let item = Item::Checkpoint(None, &oldest.id, oldest.encoding);
    let delete = || backend.delete(&session(), item, DeleteMode::UnlessKept(Some(|_, _| false)));
    disk.plan(Plan::Unreadable(LABELS, error));
    assert_eq!(delete().unwrap_err().code, Code::Io, "error {error}");
    disk.plan(Plan::Nothing);
    assert!(delete().unwrap(), "the checkpoint exists after error {error}");
  }
}

#[cfg(unix)]
#[test]
fn a_search_for_a_label_fails_while_the_process_has_no_memory_or_descriptors_to_read_it() {
  let disk = labelled();
  let store = open(&disk);
  for error in [12, 23, 24] {
    disk.plan(Plan::Unreadable(LABELS, error));
    assert_eq!(store.checkpoint_with_label(&session(), "l").unwrap_err().code, Code::Io);
    disk.plan(Plan::Nothing);
    assert!(store.checkpoint_with_label(&session(), "l").unwrap().is_some());
  }
}
