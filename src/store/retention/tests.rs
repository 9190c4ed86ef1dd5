use std::collections::{HashMap, HashSet};

use super::*;
use crate::backend::{CheckpointPage, Encoding};
use crate::types::id::CheckpointId;

const MINUTE: u64 = 60 * 1000;
/// A midnight.
const DAY: u64 = 20_000 * DAY_MS;

/// Checkpoints in a row, and everything that can be known of them.
#[derive(Default)]
struct Row {
  entries: Vec<CheckpointEntry>,
  labelled: HashSet<CheckpointId>,
  sizes: HashMap<CheckpointId, u64>,
  keys: HashMap<CheckpointId, (CheckpointId, u64)>,
  asked: Vec<CheckpointId>,
}

impl Row {
  /// Made at those times; the ids of equal times count up.
  fn at(times: &[u64]) -> Self {
    let mut row = Self::default();
    for (number, time) in times.iter().enumerate() {
      let id = CheckpointId::parse(&format!("{number:03}")).unwrap();
      row.sizes.insert(id.clone(), 10);
      row.entries.push(CheckpointEntry::new(id, Encoding::Json, || *time));
    }
    row.entries.sort_by(CheckpointEntry::newest_first);
    row
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

  /// Those numbers stand on a key of so many bytes.
  fn on_key(mut self, numbers: &[usize], name: &str, bytes: u64) -> Self {
    for number in numbers {
      let id = self.entry(*number).id.clone();
      self.keys.insert(id, (CheckpointId::parse(name).unwrap(), bytes));
    }
    self
  }

  /// The numbers of those that go, oldest first, and why.
  fn judged(&mut self, rule: &Rule, now: u64) -> Vec<(usize, String)> {
    let surplus = CheckpointPage::in_scope(self.entries.iter(), rule.wanted());
    let doomed = rule.judge(now, surplus.newest.as_ref(), &surplus.entries, self);
    let line = |(entry, reason): (CheckpointEntry, Reason)| (entry.id.as_str().parse().unwrap(), rule.explain(reason));
    doomed.into_iter().map(line).collect()
  }

  fn gone(&mut self, retention: Retention, now: u64) -> Vec<usize> {
    let judged = self.judged(&rule(retention), now);
    judged.into_iter().map(|(number, _)| number).collect()
  }
}

impl Facts for Row {
  fn is_labelled(&mut self, entry: &CheckpointEntry) -> bool {
    self.asked.push(entry.id.clone());
    self.labelled.contains(&entry.id)
  }

  fn key(&mut self, entry: &CheckpointEntry) -> Option<(CheckpointId, u64)> {
    self.keys.get(&entry.id).cloned()
  }

  fn size(&mut self, entry: &CheckpointEntry) -> u64 {
    self.sizes[&entry.id]
  }
}

fn rule(retention: Retention) -> Rule {
  Rule {
    retention: Some(retention),
    most: None,
  }
}

fn with_most(retention: Option<Retention>, count: usize) -> Rule {
  Rule {
    retention,
    most: Some(Most { count, option: "most" }),
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
  assert!(Row::at(&[1, 2, 3]).gone(Retention::default(), u64::MAX).is_empty());
  assert!(Row::default().gone(last(1), 0).is_empty());
}

#[test]
fn the_newest_so_many_stay_and_pinned_ones_are_not_counted() {
  assert_eq!(Row::at(&[1, 2, 3, 4, 5]).gone(last(2), 9), [0, 1, 2]);
  assert_eq!(Row::at(&[1, 2, 3, 4, 5]).pinned(0).pinned(4).gone(last(2), 9), [1]);
}

#[test]
fn the_newest_of_each_hour_stays_wherever_in_the_hour_it_was_made() {
  let mut row = Row::at(&[
    DAY + MINUTE,
    DAY + HOUR_MS - 1,
    DAY + HOUR_MS,
    DAY + HOUR_MS + 59 * MINUTE,
    // Nobody worked for four hours.
    DAY + 6 * HOUR_MS,
    DAY + 6 * HOUR_MS + 1,
  ]);
  assert_eq!(row.gone(hourly(9), 0), [0, 2, 4]);
  assert_eq!(row.gone(hourly(2), 0), [0, 1, 2, 4]);
  assert_eq!(row.gone(hourly(1), 0), [0, 1, 2, 3, 4]);
}

#[test]
fn days_begin_at_midnight_utc() {
  let mut row = Row::at(&[DAY - 1, DAY, DAY + DAY_MS - 1, DAY + DAY_MS, DAY + DAY_MS + 1]);
  assert_eq!(row.gone(daily(9), 0), [1, 3]);
  assert_eq!(row.gone(daily(2), 0), [0, 1, 3]);
}

#[test]
fn equal_times_are_told_apart_by_the_ids() {
  let mut row = Row::at(&[DAY, DAY, DAY]);
  assert_eq!(row.gone(hourly(1), 0), [0, 1]);
  assert_eq!(row.gone(last(2), 0), [0]);
}

#[test]
fn one_stays_if_any_of_them_keeps_it() {
  let hours: Vec<_> = (0..50).map(|hour| DAY + hour * HOUR_MS).collect();
  let retention = Retention {
    keep_last: Some(2),
    keep_hourly: Some(3),
    keep_daily: Some(3),
    ..Retention::default()
  };
  let gone = Row::at(&hours).gone(retention, 0);
  let kept: Vec<_> = (0..50).filter(|number| !gone.contains(number)).collect();
  assert_eq!(kept, [23, 47, 48, 49]);
  let judged = Row::at(&hours).judged(&rule(retention), 0);
  assert_eq!(
    judged[0].1,
    "not among the last 2, nor the newest of one of the last 3 hours, nor the newest of one of the last 3 days"
  );
}

#[test]
fn what_keeps_none_is_not_spoken_of() {
  let said = |retention| rule(retention).explain(Reason::NotKept);
  assert_eq!(said(last(1)), "not the last one");
  assert_eq!(
    said(Retention {
      keep_last: Some(0),
      ..hourly(1)
    }),
    "not the newest of the last hour"
  );
  assert_eq!(
    said(Retention {
      keep_last: Some(3),
      ..daily(1)
    }),
    "not among the last 3, nor the newest of the last day"
  );
}

#[test]
fn a_checkpoint_from_the_future_is_not_old_and_takes_an_hour_of_its_own() {
  let mut row = Row::at(&[DAY, DAY + HOUR_MS, DAY + 48 * HOUR_MS]);
  assert!(row.gone(aged(1), DAY).is_empty());
  assert_eq!(row.gone(hourly(2), DAY + HOUR_MS), [0]);
}

#[test]
fn older_ones_go_and_the_newest_stays_however_old_it_is() {
  let mut row = Row::at(&[100, 199, 200, 300]);
  assert_eq!(row.gone(aged(100), 300), [0, 1]);
  assert_eq!(row.gone(aged(100), u64::MAX), [0, 1, 2]);
  assert_eq!(row.judged(&rule(aged(100)), 300)[0].1, "older than maxAgeMs (100)");
  let both = Retention {
    keep_last: Some(3),
    ..aged(100)
  };
  let judged = row.judged(&rule(both), 300);
  assert_eq!(judged[0], (0, "not among the last 3".to_owned()));
  assert_eq!(judged[1], (1, "older than maxAgeMs (100)".to_owned()));
}

#[test]
fn the_oldest_go_until_the_rest_fits() {
  let mut row = Row::at(&[1, 2, 3, 4]);
  assert!(row.gone(sized(40), 9).is_empty());
  assert_eq!(row.gone(sized(39), 9), [0]);
  assert_eq!(row.gone(sized(20), 9), [0, 1]);
  assert_eq!(row.gone(sized(1), 9), [0, 1, 2]);
  assert_eq!(row.judged(&rule(sized(39)), 9)[0].1, "beyond maxBytes (39)");
}

#[test]
fn a_key_takes_bytes_until_the_last_one_that_stands_on_it_goes() {
  let row = || {
    Row::at(&[1, 2, 3, 4])
      .on_key(&[0, 1], "a", 100)
      .on_key(&[2, 3], "b", 1000)
  };
  assert!(row().gone(sized(1140), 9).is_empty());
  assert_eq!(row().gone(sized(1139), 9), [0]);
  assert_eq!(row().gone(sized(1129), 9), [0, 1]);
  assert_eq!(row().gone(sized(1020), 9), [0, 1]);
  assert_eq!(row().gone(sized(1019), 9), [0, 1, 2]);
  let mut row = row();
  let entries = row.entries.clone();
  let mut weight = Weight::of(&entries, &mut row);
  let freed: Vec<_> = entries.iter().map(|entry| weight.remove(entry, &mut row)).collect();
  assert_eq!(freed, [10, 1010, 10, 110]);
}

#[test]
fn pinned_and_labelled_ones_take_bytes_but_stay() {
  let mut row = Row::at(&[1, 2, 3, 4]).pinned(0).labelled(1).sized(0, 100);
  assert_eq!(row.gone(sized(120), 9), [2]);
  assert_eq!(row.gone(sized(5), 9), [2]);
  let all = Retention {
    keep_labelled: Some(false),
    ..sized(5)
  };
  assert_eq!(row.gone(all, 9), [1, 2]);
}

#[test]
fn what_the_plan_lets_go_frees_bytes_for_the_others() {
  let both = Retention {
    keep_last: Some(2),
    ..sized(20)
  };
  assert_eq!(Row::at(&[1, 2, 3, 4]).gone(both, 9), [0, 1]);
}

#[test]
fn labelled_ones_stay_unless_it_is_said_that_they_go_and_only_the_doomed_are_asked() {
  let mut row = Row::at(&[1, 2, 3, 4]).labelled(0).labelled(3);
  assert_eq!(row.gone(last(2), 9), [1]);
  let asked: Vec<_> = row.asked.iter().map(CheckpointId::as_str).collect();
  assert_eq!(asked, ["001", "000"]);
  row.asked.clear();
  let all = Retention {
    keep_labelled: Some(false),
    ..last(2)
  };
  assert_eq!(row.gone(all, 9), [0, 1]);
  assert!(row.asked.is_empty());
  assert_eq!(row.gone(aged(1), 9), [1, 2]);
}

#[test]
fn a_number_alone_asks_nobody_and_knows_no_labels() {
  let mut row = Row::at(&[1, 2, 3]).labelled(0);
  assert_eq!(row.judged(&with_most(None, 2), 9), [(0, "beyond most (2)".to_owned())]);
  assert!(row.asked.is_empty());
}

#[test]
fn a_number_is_a_limit_on_what_the_retention_would_keep() {
  let row = || Row::at(&[DAY, DAY + 1, DAY + HOUR_MS, DAY + 2 * HOUR_MS, DAY + 3 * HOUR_MS]);
  let judged = row().judged(&with_most(Some(hourly(9)), 2), DAY);
  assert_eq!(
    judged,
    [
      (0, "not the newest of one of the last 9 hours".to_owned()),
      (1, "beyond most (2)".to_owned()),
      (2, "beyond most (2)".to_owned()),
    ]
  );
  let judged = row().labelled(1).judged(&with_most(Some(last(9)), 2), DAY);
  assert_eq!(judged.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn only_those_are_wanted_that_may_go() {
  assert_eq!(with_most(None, 5).wanted(), RetentionScope::Beyond(5));
  assert_eq!(rule(last(7)).wanted(), RetentionScope::Beyond(7));
  assert_eq!(with_most(Some(last(7)), 5).wanted(), RetentionScope::Beyond(5));
  assert_eq!(
    with_most(Some(Retention::default()), 5).wanted(),
    RetentionScope::Beyond(5)
  );
  assert_eq!(rule(Retention::default()).wanted(), RetentionScope::Beyond(usize::MAX));
  for retention in [hourly(1), daily(1), aged(1), sized(1)] {
    assert_eq!(rule(retention).wanted(), RetentionScope::All);
  }
}

#[test]
fn a_retention_that_keeps_nothing_is_complained_of() {
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
    assert!(keeps_nothing.complaint().is_some(), "{keeps_nothing:?}");
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
    assert_eq!(good.complaint(), None);
  }
}

#[test]
fn what_is_spelt_is_read_back_and_nothing_else_is_understood() {
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
    r#"{"keepWeekly":1}"#,
  ] {
    let error = parse(damaged, "p").unwrap_err();
    assert!(error.message.starts_with("p is damaged: "), "{damaged}: {error}");
  }
}
