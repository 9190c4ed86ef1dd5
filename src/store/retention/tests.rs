use std::collections::{HashMap, HashSet};

use super::*;
use crate::backend::{CheckpointPage, Encoding};
use crate::types::id::CheckpointId;
use crate::types::time::Timestamp;

const MINUTE_MS: u64 = 60 * 1000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
/// A midnight.
const DAY: u64 = 20_000 * DAY_MS;

/// A series and the metadata of its checkpoints, which are named by their number.
#[derive(Default)]
struct TestSeries {
  entries: Vec<CheckpointEntry>,
  labelled: HashSet<CheckpointId>,
  sizes: HashMap<CheckpointId, u64>,
  bases: HashMap<CheckpointId, (CheckpointId, u64)>,
  /// The checkpoints whose label was read.
  label_reads: Vec<CheckpointId>,
}

impl TestSeries {
  /// One checkpoint for each time.
  fn at(times: &[u64]) -> Self {
    let mut series = Self::default();
    for (number, time) in times.iter().enumerate() {
      let id = CheckpointId::parse(&format!("{number:03}")).unwrap();
      series.sizes.insert(id.clone(), 10);
      series.entries.push(CheckpointEntry::new(id, Encoding::Json, || {
        Timestamp::from_millis(*time)
      }));
    }
    series.entries.sort_by(CheckpointEntry::newest_first);
    series
  }

  fn entry(&mut self, number: usize) -> &mut CheckpointEntry {
    let id = format!("{number:03}");
    self.entries.iter_mut().find(|entry| entry.id.as_str() == id).unwrap()
  }

  fn pinned(mut self, number: usize) -> Self {
    self.entry(number).is_pinned = true;
    self
  }

  fn labelled(mut self, number: usize) -> Self {
    let id = self.entry(number).id.clone();
    self.labelled.insert(id);
    self
  }

  fn sized(mut self, number: usize, size: u64) -> Self {
    let id = self.entry(number).id.clone();
    self.sizes.insert(id, size);
    self
  }

  /// Makes them deltas that are based on one base of `bytes` bytes.
  fn based_on(mut self, numbers: &[usize], name: &str, bytes: u64) -> Self {
    for number in numbers {
      let id = self.entry(*number).id.clone();
      self.bases.insert(id, (CheckpointId::parse(name).unwrap(), bytes));
    }
    self
  }

  /// The numbers of the removed checkpoints, oldest first, and the reasons.
  fn removals(&mut self, policy: &RetentionPolicy, now: u64) -> Vec<(usize, String)> {
    let list = CheckpointPage::in_scope(self.entries.iter(), policy.scope());
    let now = Timestamp::from_millis(now);
    let removals = policy.removals(now, list.newest.as_ref(), &list.entries, self);
    let row =
      |(entry, reason): (CheckpointEntry, RemovalReason)| (entry.id.as_str().parse().unwrap(), policy.explain(reason));
    removals.into_iter().map(row).collect()
  }

  fn removed(&mut self, retention: Retention, now: u64) -> Vec<usize> {
    let removals = self.removals(&policy(retention), now);
    removals.into_iter().map(|(number, _)| number).collect()
  }
}

impl MetadataSource for TestSeries {
  fn is_labelled(&mut self, entry: &CheckpointEntry) -> bool {
    self.label_reads.push(entry.id.clone());
    self.labelled.contains(&entry.id)
  }

  fn base(&mut self, entry: &CheckpointEntry) -> Option<(CheckpointId, u64)> {
    self.bases.get(&entry.id).cloned()
  }

  fn size(&mut self, entry: &CheckpointEntry) -> u64 {
    self.sizes[&entry.id]
  }
}

fn policy(retention: Retention) -> RetentionPolicy {
  RetentionPolicy {
    retention: Some(retention),
    limit: None,
  }
}

fn limited(retention: Option<Retention>, count: usize) -> RetentionPolicy {
  RetentionPolicy {
    retention,
    limit: Some(CountLimit { count, option: "limit" }),
  }
}

fn last(count: u64) -> Retention {
  Retention {
    keep_last: Some(count),
    ..Retention::default()
  }
}

fn hourly(count: u64) -> Retention {
  Retention {
    keep_hourly: Some(count),
    ..Retention::default()
  }
}

fn daily(count: u64) -> Retention {
  Retention {
    keep_daily: Some(count),
    ..Retention::default()
  }
}

fn aged(most: u64) -> Retention {
  Retention {
    max_age_ms: Some(most),
    ..Retention::default()
  }
}

fn sized(most: u64) -> Retention {
  Retention {
    max_bytes: Some(most),
    ..Retention::default()
  }
}

#[test]
fn an_empty_retention_keeps_everything() {
  assert!(
    TestSeries::at(&[1, 2, 3])
      .removed(Retention::default(), u64::MAX)
      .is_empty()
  );
  assert!(TestSeries::default().removed(last(1), 0).is_empty());
}

#[test]
fn keep_last_keeps_the_newest_and_does_not_count_pinned_ones() {
  assert_eq!(TestSeries::at(&[1, 2, 3, 4, 5]).removed(last(2), 9), [0, 1, 2]);
  assert_eq!(
    TestSeries::at(&[1, 2, 3, 4, 5]).pinned(0).pinned(4).removed(last(2), 9),
    [1]
  );
}

#[test]
fn keep_hourly_keeps_the_newest_of_each_hour() {
  let mut series = TestSeries::at(&[
    DAY + MINUTE_MS,
    DAY + HOUR_MS - 1,
    DAY + HOUR_MS,
    DAY + HOUR_MS + 59 * MINUTE_MS,
    // Four hours without a checkpoint do not count.
    DAY + 6 * HOUR_MS,
    DAY + 6 * HOUR_MS + 1,
  ]);
  assert_eq!(series.removed(hourly(9), 0), [0, 2, 4]);
  assert_eq!(series.removed(hourly(2), 0), [0, 1, 2, 4]);
  assert_eq!(series.removed(hourly(1), 0), [0, 1, 2, 3, 4]);
}

#[test]
fn days_begin_at_midnight_utc() {
  let mut series = TestSeries::at(&[DAY - 1, DAY, DAY + DAY_MS - 1, DAY + DAY_MS, DAY + DAY_MS + 1]);
  assert_eq!(series.removed(daily(9), 0), [1, 3]);
  assert_eq!(series.removed(daily(2), 0), [0, 1, 3]);
}

#[test]
fn ids_order_checkpoints_of_equal_times() {
  let mut series = TestSeries::at(&[DAY, DAY, DAY]);
  assert_eq!(series.removed(hourly(1), 0), [0, 1]);
  assert_eq!(series.removed(last(2), 0), [0]);
}

#[test]
fn a_checkpoint_is_kept_if_any_of_the_keep_rules_keeps_it() {
  let hours: Vec<_> = (0..50).map(|hour| DAY + hour * HOUR_MS).collect();
  let retention = Retention {
    keep_last: Some(2),
    keep_hourly: Some(3),
    keep_daily: Some(3),
    ..Retention::default()
  };
  let removed = TestSeries::at(&hours).removed(retention, 0);
  let kept: Vec<_> = (0..50).filter(|number| !removed.contains(number)).collect();
  assert_eq!(kept, [23, 47, 48, 49]);
  let removals = TestSeries::at(&hours).removals(&policy(retention), 0);
  assert_eq!(
    removals[0].1,
    "not among the last 2, nor the newest of one of the last 3 hours, nor the newest of one of the last 3 days"
  );
}

#[test]
fn reasons_do_not_mention_rules_that_keep_nothing() {
  let reason = |retention| policy(retention).explain(RemovalReason::NotKept);
  assert_eq!(reason(last(1)), "not the last one");
  assert_eq!(
    reason(Retention {
      keep_last: Some(0),
      ..hourly(1)
    }),
    "not the newest of the last hour"
  );
  assert_eq!(
    reason(Retention {
      keep_last: Some(3),
      ..daily(1)
    }),
    "not among the last 3, nor the newest of the last day"
  );
}

#[test]
fn a_checkpoint_from_the_future_is_not_old_and_has_an_hour_of_its_own() {
  let mut series = TestSeries::at(&[DAY, DAY + HOUR_MS, DAY + 48 * HOUR_MS]);
  assert!(series.removed(aged(1), DAY).is_empty());
  assert_eq!(series.removed(hourly(2), DAY + HOUR_MS), [0]);
}

#[test]
fn max_age_removes_older_ones_but_never_the_newest() {
  let mut series = TestSeries::at(&[100, 199, 200, 300]);
  assert_eq!(series.removed(aged(100), 300), [0, 1]);
  assert_eq!(series.removed(aged(100), u64::MAX), [0, 1, 2]);
  assert_eq!(
    series.removals(&policy(aged(100)), 300)[0].1,
    "older than maxAgeMs (100)"
  );
  let both = Retention {
    keep_last: Some(3),
    ..aged(100)
  };
  let removals = series.removals(&policy(both), 300);
  assert_eq!(removals[0], (0, "not among the last 3".to_owned()));
  assert_eq!(removals[1], (1, "older than maxAgeMs (100)".to_owned()));
}

#[test]
fn max_bytes_removes_the_oldest_until_the_others_fit() {
  let mut series = TestSeries::at(&[1, 2, 3, 4]);
  assert!(series.removed(sized(40), 9).is_empty());
  assert_eq!(series.removed(sized(39), 9), [0]);
  assert_eq!(series.removed(sized(20), 9), [0, 1]);
  assert_eq!(series.removed(sized(1), 9), [0, 1, 2]);
  assert_eq!(series.removals(&policy(sized(39)), 9)[0].1, "beyond maxBytes (39)");
}

#[test]
fn a_base_takes_bytes_until_its_last_delta_is_removed() {
  let series = || {
    TestSeries::at(&[1, 2, 3, 4])
      .based_on(&[0, 1], "a", 100)
      .based_on(&[2, 3], "b", 1000)
  };
  assert!(series().removed(sized(1140), 9).is_empty());
  assert_eq!(series().removed(sized(1139), 9), [0]);
  assert_eq!(series().removed(sized(1129), 9), [0, 1]);
  assert_eq!(series().removed(sized(1020), 9), [0, 1]);
  assert_eq!(series().removed(sized(1019), 9), [0, 1, 2]);
  let mut series = series();
  let entries = series.entries.clone();
  let mut usage = DiskUsage::of(&entries, &mut series);
  let freed: Vec<_> = entries.iter().map(|entry| usage.remove(entry, &mut series)).collect();
  assert_eq!(freed, [10, 1010, 10, 110]);
}

#[test]
fn pinned_and_labelled_ones_take_bytes_and_are_kept() {
  let mut series = TestSeries::at(&[1, 2, 3, 4]).pinned(0).labelled(1).sized(0, 100);
  assert_eq!(series.removed(sized(120), 9), [2]);
  assert_eq!(series.removed(sized(5), 9), [2]);
  let all = Retention {
    keep_labelled: Some(false),
    ..sized(5)
  };
  assert_eq!(series.removed(all, 9), [1, 2]);
}

#[test]
fn checkpoints_that_no_rule_keeps_do_not_count_for_max_bytes() {
  let both = Retention {
    keep_last: Some(2),
    ..sized(20)
  };
  assert_eq!(TestSeries::at(&[1, 2, 3, 4]).removed(both, 9), [0, 1]);
}

#[test]
fn labelled_ones_are_kept_by_default_and_only_labels_that_decide_are_read() {
  let mut series = TestSeries::at(&[1, 2, 3, 4]).labelled(0).labelled(3);
  assert_eq!(series.removed(last(2), 9), [1]);
  let asked: Vec<_> = series.label_reads.iter().map(CheckpointId::as_str).collect();
  assert_eq!(asked, ["001", "000"]);
  series.label_reads.clear();
  let all = Retention {
    keep_labelled: Some(false),
    ..last(2)
  };
  assert_eq!(series.removed(all, 9), [0, 1]);
  assert!(series.label_reads.is_empty());
  assert_eq!(series.removed(aged(1), 9), [1, 2]);
}

#[test]
fn a_limit_alone_ignores_labels_and_reads_none() {
  let mut series = TestSeries::at(&[1, 2, 3]).labelled(0);
  assert_eq!(
    series.removals(&limited(None, 2), 9),
    [(0, "beyond limit (2)".to_owned())]
  );
  assert!(series.label_reads.is_empty());
}

#[test]
fn a_limit_applies_to_what_the_retention_keeps() {
  let series = || TestSeries::at(&[DAY, DAY + 1, DAY + HOUR_MS, DAY + 2 * HOUR_MS, DAY + 3 * HOUR_MS]);
  let removals = series().removals(&limited(Some(hourly(9)), 2), DAY);
  assert_eq!(
    removals,
    [
      (0, "not the newest of one of the last 9 hours".to_owned()),
      (1, "beyond limit (2)".to_owned()),
      (2, "beyond limit (2)".to_owned()),
    ]
  );
  let removals = series().labelled(1).removals(&limited(Some(last(9)), 2), DAY);
  assert_eq!(removals.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn the_scope_leaves_out_checkpoints_that_are_kept_in_any_case() {
  assert_eq!(limited(None, 5).scope(), RetentionScope::Beyond(5));
  assert_eq!(policy(last(7)).scope(), RetentionScope::Beyond(7));
  assert_eq!(limited(Some(last(7)), 5).scope(), RetentionScope::Beyond(5));
  assert_eq!(
    limited(Some(Retention::default()), 5).scope(),
    RetentionScope::Beyond(5)
  );
  assert_eq!(policy(Retention::default()).scope(), RetentionScope::Beyond(usize::MAX));
  for retention in [hourly(1), daily(1), aged(1), sized(1)] {
    assert_eq!(policy(retention).scope(), RetentionScope::All);
  }
}

#[test]
fn a_retention_that_keeps_nothing_is_invalid() {
  for keeps_nothing in [
    last(0),
    hourly(0),
    Retention {
      keep_last: Some(0),
      ..daily(0)
    },
    aged(0),
    sized(0),
  ] {
    assert!(keeps_nothing.invalid_reason().is_some(), "{keeps_nothing:?}");
  }
  for good in [
    Retention::default(),
    Retention {
      keep_last: Some(0),
      ..daily(1)
    },
    aged(1),
    sized(1),
  ] {
    assert_eq!(good.invalid_reason(), None);
  }
}

#[test]
fn parse_reads_what_was_written_and_rejects_everything_else() {
  let all = Retention {
    keep_last: Some(1),
    keep_hourly: Some(0),
    keep_daily: Some(3),
    max_age_ms: Some(Retention::GREATEST),
    max_bytes: Some(5),
    keep_labelled: Some(false),
  };
  for retention in [Retention::default(), last(3), all] {
    assert_eq!(parse(&retention.to_json(), "p").unwrap(), retention);
  }
  assert_eq!(
    all.to_json(),
    r#"{"keepLast":1,"keepHourly":0,"keepDaily":3,"maxAgeMs":9007199254740991,"maxBytes":5,"keepLabelled":false}"#
  );
  assert_eq!(parse(r#"{"keepLast":1,"keepLast":2}"#, "p").unwrap(), last(2));
  for damaged in [
    "",
    "[]",
    "null",
    r#"{"keepLast":1"#,
    r#"{"keepLast":-1}"#,
    r#"{"keepLast":1.5}"#,
    r#"{"keepLast":"1"}"#,
    r#"{"keepLast":null}"#,
    r#"{"keepLast":9007199254740992}"#,
    r#"{"keepLast":0}"#,
    r#"{"keepLabelled":1}"#,
    r#"{"keepLabelled":null}"#,
    r#"{"keepWeekly":1}"#,
  ] {
    let error = parse(damaged, "p").unwrap_err();
    assert!(error.message.starts_with("p is damaged: "), "{damaged}: {error}");
  }
}
