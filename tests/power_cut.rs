//! Cuts the power at every system call of every writing method. What was not synced may be lost.

#![allow(
  clippy::unwrap_used,
  clippy::print_stdout,
  reason = "a test may panic, and prints its figures"
)]

mod support;

use support::disk::{FaultyDisk, Plan, Survival, Syncs};
use support::scenario::{ENCODINGS, Ending, METHODS, Method, check_disk, open, prepare, run};
use waymark::backend::Encoding;

/// Random choices of what survives, in addition to nothing and everything.
const SEEDS: u64 = 20;

/// Cuts the power at every call of every method, until there are `limit` findings. Returns them, and the number of cuts.
fn cut_everywhere(syncs: Syncs, limit: usize) -> (Vec<String>, usize) {
  let mut lost = Vec::new();
  let mut cuts = 0;
  for (method, encoding) in METHODS
    .into_iter()
    .flat_map(|method| ENCODINGS.map(|encoding| (method, encoding)))
  {
    let prepared = FaultyDisk::new(syncs);
    let baseline = prepare(&prepared, encoding);
    let mut call = 1;
    loop {
      let disk = prepared.fork();
      let store = open(&disk);
      disk.plan(Plan::Cut(call));
      let outcome = run(&store, method, &baseline);
      let ending = if outcome.is_ok() {
        Ending::Acknowledged
      } else {
        Ending::Unknown
      };
      let created = outcome.ok().flatten();
      let survivals = (0..SEEDS)
        .map(Survival::Some)
        .chain([Survival::Nothing, Survival::Everything]);
      for survival in survivals {
        cuts += 1;
        let after = disk.after_power_cut(survival);
        for finding in check_disk(&after, method, &baseline, ending, created.as_ref()) {
          lost.push(format!(
            "{method:?} on {encoding:?}, call {call}, {survival:?}: {finding}"
          ));
        }
      }
      if disk.calls() < call || lost.len() >= limit {
        break;
      }
      call += 1;
    }
  }
  (lost, cuts)
}

#[test]
fn a_power_cut_loses_nothing_acknowledged_and_tears_nothing() {
  let (lost, cuts) = cut_everywhere(Syncs::Honest, usize::MAX);
  assert!(
    lost.is_empty(),
    "{} of {cuts} cuts: {:#?}",
    lost.len(),
    &lost[..lost.len().min(5)]
  );
  assert!(cuts > 1000, "{cuts}");
  println!("campaign: {cuts} cuts in the model, 0 lost");
}

#[test]
fn missing_syncs_of_files_are_detected() {
  assert!(!cut_everywhere(Syncs::NoFiles, 1).0.is_empty());
}

#[test]
fn missing_syncs_of_directories_are_detected() {
  assert!(!cut_everywhere(Syncs::NoDirectories, 1).0.is_empty());
}

#[test]
fn every_method_makes_system_calls() {
  for method in METHODS {
    let disk = FaultyDisk::new(Syncs::Honest);
    let baseline = prepare(&disk, Encoding::Json);
    let store = open(&disk);
    disk.plan(Plan::Nothing);
    run(&store, method, &baseline).unwrap();
    assert!(disk.calls() > 3, "{method:?} makes {} calls", disk.calls());
  }
  assert!(METHODS.contains(&Method::RestoreCheckpoint));
}
