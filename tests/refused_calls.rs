//! Every call to the file system fails in turn, for every reason, under every writing method.

#![allow(
  clippy::unwrap_used,
  clippy::print_stdout,
  reason = "a test may panic, and says its figures"
)]

mod support;

use std::io::ErrorKind;

use support::disk::{FaultyDisk, Plan, Syncs};
use support::scenario::{ENCODINGS, Ending, METHODS, Method, complaints, open, prepare, run};
use waymark::Code;

const REASONS: [ErrorKind; 5] = [
  ErrorKind::Other,
  ErrorKind::StorageFull,
  ErrorKind::QuotaExceeded,
  ErrorKind::PermissionDenied,
  ErrorKind::OutOfMemory,
];

/// Refuses every call of every method; gives the complaints, and how many calls were refused.
fn refuse_everything(plan: impl Fn(usize) -> Vec<Plan>) -> (Vec<String>, usize) {
  let mut found = Vec::new();
  let mut refused = 0;
  for (method, encoding) in METHODS
    .into_iter()
    .flat_map(|method| ENCODINGS.map(|encoding| (method, encoding)))
  {
    let prepared = FaultyDisk::new(Syncs::Honest);
    let before = prepare(&prepared, encoding);
    let mut call = 1;
    loop {
      let mut is_over = false;
      for plan in plan(call) {
        let is_expiry = matches!(method, Method::ExpireSessions | Method::DeleteExpiredSessions);
        if is_expiry && matches!(plan, Plan::Refuse(_, ErrorKind::PermissionDenied)) {
          // A directory that may not be read belongs to somebody else, and is no session of ours to expire.
          continue;
        }
        let disk = prepared.fork();
        let store = open(&disk);
        disk.plan(plan);
        let outcome = run(&store, method, &before);
        is_over = disk.calls() < call;
        refused += usize::from(!is_over);
        let ending = match &outcome {
          Ok(_) => Ending::Acknowledged,
          Err(error) if error.code == Code::OutcomeUnknown => Ending::Unknown,
          Err(_) => Ending::Failed,
        };
        if let Err(error) = &outcome {
          let is_told = matches!(error.code, Code::Io | Code::Busy | Code::OutcomeUnknown) && error.cause.is_some();
          if !is_told {
            found.push(format!("{method:?} on {encoding:?}, call {call}, {plan:?}: {error:?}"));
          }
          let left = disk.temporaries();
          if !left.is_empty() {
            found.push(format!(
              "{method:?} on {encoding:?}, call {call}, {plan:?}: left over {left:?}"
            ));
          }
        }
        let made = outcome.ok().flatten();
        for complaint in complaints(&disk, method, &before, ending, made.as_ref()) {
          found.push(format!(
            "{method:?} on {encoding:?}, call {call}, {plan:?}, {ending:?}: {complaint}"
          ));
        }
      }
      if is_over {
        break;
      }
      call += 1;
    }
  }
  (found, refused)
}

#[test]
fn the_old_state_stays_whole_the_error_has_a_code_and_no_temporary_stays() {
  let (found, refused) = refuse_everything(|call| REASONS.map(|reason| Plan::Refuse(call, reason)).to_vec());
  assert!(
    found.is_empty(),
    "{} of {refused}: {:#?}",
    found.len(),
    &found[..found.len().min(5)]
  );
  assert!(refused > 500, "{refused}");
  println!("campaign: {refused} refused calls in the model, 0 lost");
}

#[test]
fn the_test_notices_when_short_writes_are_ignored() {
  let (found, _) = refuse_everything(|call| vec![Plan::ShortWrite(call)]);
  assert!(!found.is_empty());
}
