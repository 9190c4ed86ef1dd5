//! The power goes at every step of every writing method, and whatever was not synced may be lost.

#![allow(
  clippy::unwrap_used,
  clippy::print_stdout,
  reason = "a test may panic, and says its figures"
)]

mod support;

use support::disk::{FaultyDisk, Plan, Survival, Syncs};
use support::scenario::{ENCODINGS, Ending, METHODS, Method, complaints, open, prepare, run};
use waymark::backend::Encoding;

/// Random choices of what survives, beside «nothing» and «everything».
const SEEDS: u64 = 20;

/// Cuts the power at every call of every method, until so much was lost; says what, and how many cuts there were.
fn cut_everywhere(syncs: Syncs, enough: usize) -> (Vec<String>, usize) {
  let mut lost = Vec::new();
  let mut cuts = 0;
  for (method, encoding) in METHODS
    .into_iter()
    .flat_map(|method| ENCODINGS.map(|encoding| (method, encoding)))
  {
    let prepared = FaultyDisk::new(syncs);
    let before = prepare(&prepared, encoding);
    let mut call = 1;
    loop {
      let disk = prepared.fork();
      let store = open(&disk);
      disk.plan(Plan::Cut(call));
      let outcome = run(&store, method, &before);
      let ending = if outcome.is_ok() {
        Ending::Acknowledged
      } else {
        Ending::Unknown
      };
      let made = outcome.ok().flatten();
      let survivals = (0..SEEDS)
        .map(Survival::Some)
        .chain([Survival::Nothing, Survival::Everything]);
      for survival in survivals {
        cuts += 1;
        let after = disk.after_power_cut(survival);
        for complaint in complaints(&after, method, &before, ending, made.as_ref()) {
          lost.push(format!(
            "{method:?} on {encoding:?}, call {call}, {survival:?}: {complaint}"
          ));
        }
      }
      if disk.calls() < call || lost.len() >= enough {
        break;
      }
      call += 1;
    }
  }
  (lost, cuts)
}

#[test]
fn nothing_that_was_acknowledged_is_lost_and_nothing_is_torn() {
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
fn the_test_notices_when_files_are_not_synced() {
  assert!(!cut_everywhere(Syncs::NoFiles, 1).0.is_empty());
}

#[test]
fn the_test_notices_when_directories_are_not_synced() {
  assert!(!cut_everywhere(Syncs::NoDirectories, 1).0.is_empty());
}

#[test]
fn the_test_covers_every_way_to_write() {
  for method in METHODS {
    let disk = FaultyDisk::new(Syncs::Honest);
    let before = prepare(&disk, Encoding::Json);
    let store = open(&disk);
    disk.plan(Plan::Nothing);
    run(&store, method, &before).unwrap();
    assert!(disk.calls() > 3, "{method:?} makes {} calls", disk.calls());
  }
  assert!(METHODS.contains(&Method::RestoreCheckpoint));
}
