//! Which checkpoints stay, and why the others go. Nothing is touched here.

use std::collections::HashMap;

use crate::backend::{CheckpointEntry, RetentionScope};
use crate::types::id::CheckpointId;

pub(super) mod metadata;
pub(super) mod prune;
mod spelling;

pub(super) use spelling::parse;

const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// What people say about which checkpoints of a session stay. What is absent does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
  /// The newest so many.
  pub keep_last: Option<u64>,
  /// The newest of each of the last so many hours that have one.
  pub keep_hourly: Option<u64>,
  /// The same by days, which begin at midnight UTC.
  pub keep_daily: Option<u64>,
  /// Older ones go.
  pub max_age_ms: Option<u64>,
  /// The oldest go until all together take no more than that.
  pub max_bytes: Option<u64>,
  /// Whether those with a label stay; they do unless this says otherwise.
  pub keep_labelled: Option<bool>,
}

impl Retention {
  /// Those that name what stays, by what they are called.
  fn keeps(&self) -> [(&'static str, Option<u64>); 3] {
    [
      ("keepLast", self.keep_last),
      ("keepHourly", self.keep_hourly),
      ("keepDaily", self.keep_daily),
    ]
  }

  /// What is wrong with it, as the end of a sentence that begins with its name.
  #[must_use]
  pub fn complaint(&self) -> Option<&'static str> {
    let mut given = self.keeps().into_iter().filter_map(|(_, keep)| keep).peekable();
    if given.peek().is_some() && given.all(|keep| keep == 0) {
      return Some("must keep something: one of keepLast, keepHourly and keepDaily has to be at least 1");
    }
    [(self.max_age_ms, MAX_AGE), (self.max_bytes, MAX_BYTES)]
      .into_iter()
      .find_map(|(limit, complaint)| (limit == Some(0)).then_some(complaint))
  }

  fn keeps_labelled(&self) -> bool {
    self.keep_labelled.unwrap_or(true)
  }
}

const MAX_AGE: &str = "must keep something: maxAgeMs has to be at least 1";
const MAX_BYTES: &str = "must keep something: maxBytes has to be at least 1";

/// A number of checkpoints, and the option that says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
  pub count: usize,
  pub option: &'static str,
}

/// What is in force for a series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rule {
  pub retention: Option<Retention>,
  /// No more than so many stay, pinned ones left out of account.
  pub most: Option<Most>,
}

/// Why a checkpoint goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
  NotKept,
  TooOld,
  TooMany,
  TooLarge,
}

/// What a name does not say. It is asked for only where it matters.
pub trait Facts {
  fn is_labelled(&mut self, entry: &CheckpointEntry) -> bool;
  fn size(&mut self, entry: &CheckpointEntry) -> u64;
  /// What it stands on together with others, and how many bytes that has.
  fn key(&mut self, entry: &CheckpointEntry) -> Option<(CheckpointId, u64)>;
}

/// The bytes of checkpoints and of what they stand on, which goes with the last one that does.
#[derive(Debug, Default)]
pub struct Weight {
  total: u64,
  /// How many stand on each key.
  users: HashMap<CheckpointId, usize>,
}

impl Weight {
  pub fn of<'a>(entries: impl IntoIterator<Item = &'a CheckpointEntry>, facts: &mut dyn Facts) -> Self {
    let mut weight = Self::default();
    for entry in entries {
      weight.total += facts.size(entry);
      if let Some((key, bytes)) = facts.key(entry) {
        let users = weight.users.entry(key).or_default();
        weight.total += if *users == 0 { bytes } else { 0 };
        *users += 1;
      }
    }
    weight
  }

  /// One goes; the answer is how many bytes that frees.
  pub fn remove(&mut self, entry: &CheckpointEntry, facts: &mut dyn Facts) -> u64 {
    let mut freed = facts.size(entry);
    if let Some((key, bytes)) = facts.key(entry)
      && let Some(users) = self.users.get_mut(&key)
    {
      *users = users.saturating_sub(1);
      freed += if *users == 0 { bytes } else { 0 };
    }
    self.total = self.total.saturating_sub(freed);
    freed
  }
}

impl Rule {
  /// Which checkpoints have to be looked at: where only a number counts, those beyond it.
  #[must_use]
  pub fn wanted(&self) -> RetentionScope {
    let most = self.most.map_or(usize::MAX, |most| most.count);
    match self.retention {
      None => RetentionScope::Beyond(most),
      Some(retention) => match retention {
        Retention {
          keep_hourly: None,
          keep_daily: None,
          max_age_ms: None,
          max_bytes: None,
          ..
        } => RetentionScope::Beyond(retention.keep_last.map_or(usize::MAX, to_count).min(most)),
        _ => RetentionScope::All,
      },
    }
  }

  /// Whether checkpoints with a label stay.
  #[must_use]
  pub fn spares_labelled(&self) -> bool {
    self.retention.is_some_and(|retention| retention.keeps_labelled())
  }

  /// Those that go, oldest first, and why. `entries` are what was [`Rule::wanted`], newest first; `newest` is the newest of
  /// all, which stays.
  pub fn judge(
    &self,
    now: u64,
    newest: Option<&CheckpointEntry>,
    entries: &[CheckpointEntry],
    facts: &mut dyn Facts,
  ) -> Vec<(CheckpointEntry, Reason)> {
    let retention = self.retention.unwrap_or_default();
    let spares_labelled = self.spares_labelled();
    let may_go = |entry: &CheckpointEntry, facts: &mut dyn Facts| !(spares_labelled && facts.is_labelled(entry));
    let is_newest = |entry: &CheckpointEntry| newest.is_some_and(|newest| newest.newest_first(entry).is_eq());
    let skipped = match self.wanted() {
      RetentionScope::Beyond(skipped) => skipped,
      RetentionScope::All => 0,
    };
    let mut plan = Plan::new(&retention, skipped);
    let mut unpinned = skipped;
    let (mut doomed, mut staying) = (Vec::new(), Vec::new());
    for entry in entries {
      if entry.is_pinned {
        staying.push(entry);
        continue;
      }
      let is_planned = plan.keeps(entry);
      let reason = if !is_planned {
        Some(Reason::NotKept)
      } else if retention
        .max_age_ms
        .is_some_and(|most| now.saturating_sub(entry.made_at) > most)
      {
        Some(Reason::TooOld)
      } else if self.most.is_some_and(|most| unpinned >= most.count) {
        Some(Reason::TooMany)
      } else {
        None
      };
      if let Some(reason) = reason.filter(|_| !is_newest(entry) && may_go(entry, facts)) {
        doomed.push((entry.clone(), reason));
      } else {
        unpinned += 1;
        staying.push(entry);
      }
    }
    if let Some(most) = retention.max_bytes {
      let mut weight = Weight::of(staying.iter().copied(), facts);
      for entry in staying.iter().rev() {
        if weight.total <= most {
          break;
        }
        if !entry.is_pinned && !is_newest(entry) && may_go(entry, facts) {
          weight.remove(entry, facts);
          doomed.push(((*entry).clone(), Reason::TooLarge));
        }
      }
    }
    doomed.sort_unstable_by(|(one, _), (other, _)| other.newest_first(one));
    doomed
  }

  /// The reason in words.
  #[must_use]
  pub fn explain(&self, reason: Reason) -> String {
    let retention = self.retention.unwrap_or_default();
    match reason {
      Reason::NotKept => not_kept(&retention),
      Reason::TooOld => format!("older than maxAgeMs ({})", retention.max_age_ms.unwrap_or_default()),
      Reason::TooMany => {
        let most = self.most.unwrap_or(Most { count: 0, option: "" });
        format!("beyond {} ({})", most.option, most.count)
      }
      Reason::TooLarge => format!("beyond maxBytes ({})", retention.max_bytes.unwrap_or_default()),
    }
  }
}

fn not_kept(retention: &Retention) -> String {
  let period = |count: u64, name: &str| match count {
    1 => format!("the newest of the last {name}"),
    count => format!("the newest of one of the last {count} {name}s"),
  };
  let last = retention.keep_last.filter(|count| *count > 0).map(|count| match count {
    1 => "the last one".to_owned(),
    count => format!("among the last {count}"),
  });
  let hourly = retention.keep_hourly.filter(|count| *count > 0);
  let daily = retention.keep_daily.filter(|count| *count > 0);
  let parts = [
    last,
    hourly.map(|count| period(count, "hour")),
    daily.map(|count| period(count, "day")),
  ];
  format!("not {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", nor "))
}

/// What `keepLast`, `keepHourly` and `keepDaily` keep, as the checkpoints pass by, newest first.
struct Plan {
  /// Whether nothing of the kind was said.
  keeps_all: bool,
  last: u64,
  periods: [Period; 2],
}

struct Period {
  length_ms: u64,
  left: u64,
  current: Option<u64>,
}

impl Plan {
  /// `skipped` are ahead of the first one that is asked about.
  fn new(retention: &Retention, skipped: usize) -> Self {
    let period = |length_ms, left: Option<u64>| Period {
      length_ms,
      left: left.unwrap_or(0),
      current: None,
    };
    Self {
      keeps_all: retention.keeps().iter().all(|(_, keep)| keep.is_none()),
      last: retention.keep_last.unwrap_or(0).saturating_sub(skipped as u64),
      periods: [
        period(HOUR_MS, retention.keep_hourly),
        period(DAY_MS, retention.keep_daily),
      ],
    }
  }

  fn keeps(&mut self, entry: &CheckpointEntry) -> bool {
    let is_among_last = self.last > 0;
    self.last = self.last.saturating_sub(1);
    let mut is_kept = self.keeps_all || is_among_last;
    for period in &mut self.periods {
      is_kept |= period.keeps(entry);
    }
    is_kept
  }
}

impl Period {
  fn keeps(&mut self, entry: &CheckpointEntry) -> bool {
    let number = entry.made_at / self.length_ms;
    let is_first = self.left > 0 && self.current != Some(number);
    if is_first {
      self.current = Some(number);
      self.left -= 1;
    }
    is_first
  }
}

fn to_count(number: u64) -> usize {
  usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
