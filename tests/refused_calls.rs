//! Lets every system call of every writing method fail, with several errors.

#![allow(
  clippy::unwrap_used,
  clippy::print_stdout,
  reason = "a test may panic, and prints its figures"
)]

mod support;

use std::io::ErrorKind;

use support::disk::{FaultyDisk, Plan, Syncs};
use support::scenario::{ENCODINGS, Ending, METHODS, Method, check_disk, open, prepare, run};
use waymark::Code;

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
