//! Retention: which checkpoints of a session are kept. Belongs here: the rules, in this file, which have no side effects; what
//! they need to know beyond names (`metadata.rs`); how a retention is stored (`document.rs`) and which one is in force (`in_force.rs`);
//! and its application (`prune.rs`).
//! Does not belong here: pins and labels themselves, and what creating a checkpoint does besides.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::backend::{CheckpointEntry, RetentionScope};
use crate::types::id::CheckpointId;
use crate::types::time::Timestamp;

mod document;
mod in_force;
pub(super) mod metadata;
mod prune;
mod prune_result;

pub(super) use document::parse;
pub use prune_result::{PruneFailure, PruneRequest, Pruned, PrunedCheckpoint};

/// How many of its newest checkpoints a session keeps by default, and so does each of its agents. `maxCheckpointsPerSession` and
/// `maxCheckpointsPerAgent` change the number; a retention replaces the rule.
pub const DEFAULT_KEEP_LAST: usize = 100;

/// The retention of a session, or the default one of a store. An absent member sets no rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Retention {
  /// Keeps this many of the newest.
  #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "document::number")]
  pub keep_last: Option<u64>,
  /// Keeps the newest of each of this many hours, the last ones that have a checkpoint.
  #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "document::number")]
  pub keep_hourly: Option<u64>,
  /// The same for days, which begin at midnight UTC.
  #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "document::number")]
  pub keep_daily: Option<u64>,
  /// Removes older ones.
  #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "document::number")]
  pub max_age_ms: Option<u64>,
  /// Removes the oldest until all together take no more bytes than that.
  #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "document::number")]
  pub max_bytes: Option<u64>,
  /// Whether labelled checkpoints are kept regardless; true by default.
  #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "document::flag")]
  pub keep_labelled: Option<bool>,
}

impl Retention {
  fn keep_rules(&self) -> [Option<u64>; 3] {
    [self.keep_last, self.keep_hourly, self.keep_daily]
  }

  /// Why it is not valid, as the end of a sentence that begins with its name.
  #[must_use]
  pub fn invalid_reason(&self) -> Option<&'static str> {
    let mut given = self.keep_rules().into_iter().flatten().peekable();
    if given.peek().is_some() && given.all(|keep| keep == 0) {
      return Some("must keep something: one of keepLast, keepHourly and keepDaily has to be at least 1");
    }
    if self.max_age_ms == Some(0) {
      return Some("must keep something: maxAgeMs has to be at least 1");
    }
    if self.max_bytes == Some(0) {
      return Some("must keep something: maxBytes has to be at least 1");
    }
    None
  }

  fn keeps_labelled(&self) -> bool {
    self.keep_labelled.unwrap_or(true)
  }
}

/// A limit for the number of checkpoints, and the option that sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountLimit {
  pub count: usize,
  pub option: &'static str,
}

/// The rules in force for a series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
  pub retention: Option<Retention>,
  /// Applies after the retention. Pinned checkpoints do not count.
  pub limit: Option<CountLimit>,
}

/// Why a checkpoint is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalReason {
  NotKept,
  TooOld,
  TooMany,
  TooLarge,
}

/// What the rules need to know about a checkpoint beyond its name. They ask only when it decides.
pub trait MetadataSource {
  fn is_labelled(&mut self, entry: &CheckpointEntry) -> bool;
  fn size(&mut self, entry: &CheckpointEntry) -> u64;
  /// The base of a delta and its size in bytes. Several deltas may share one.
  fn base(&mut self, entry: &CheckpointEntry) -> Option<(CheckpointId, u64)>;
}

/// The bytes of checkpoints and of their bases. A base is removed with the last delta that is based on it.
#[derive(Debug, Default)]
pub struct DiskUsage {
  total: u64,
  deltas_by_base: HashMap<CheckpointId, usize>,
}

impl DiskUsage {
  pub fn of<'a>(entries: impl IntoIterator<Item = &'a CheckpointEntry>, metadata: &mut dyn MetadataSource) -> Self {
    let mut usage = Self::default();
    for entry in entries {
      usage.total += metadata.size(entry);
      if let Some((base, bytes)) = metadata.base(entry) {
        let deltas = usage.deltas_by_base.entry(base).or_default();
        usage.total += if *deltas == 0 { bytes } else { 0 };
        *deltas += 1;
      }
    }
    usage
  }

  /// Subtracts a checkpoint and returns how many bytes its removal frees.
  pub fn remove(&mut self, entry: &CheckpointEntry, metadata: &mut dyn MetadataSource) -> u64 {
    let mut freed = metadata.size(entry);
    if let Some((base, bytes)) = metadata.base(entry)
      && let Some(deltas) = self.deltas_by_base.get_mut(&base)
    {
      *deltas = deltas.saturating_sub(1);
      freed += if *deltas == 0 { bytes } else { 0 };
    }
    self.total = self.total.saturating_sub(freed);
    freed
  }
}

impl RetentionPolicy {
  /// Which checkpoints the backend has to list: if only a number counts, those beyond it.
  #[must_use]
  pub fn scope(&self) -> RetentionScope {
    let limit = self.limit.map_or(usize::MAX, |limit| limit.count);
    match self.retention {
      None => RetentionScope::Beyond(limit),
      Some(retention) => match retention {
        Retention {
          keep_hourly: None,
          keep_daily: None,
          max_age_ms: None,
          max_bytes: None,
          ..
        } => RetentionScope::Beyond(retention.keep_last.map_or(usize::MAX, to_count).min(limit)),
        _ => RetentionScope::All,
      },
    }
  }

  /// Whether labelled checkpoints are kept regardless.
  #[must_use]
  pub fn keeps_labelled(&self) -> bool {
    self.retention.is_some_and(|retention| retention.keeps_labelled())
  }

  /// The checkpoints to remove, oldest first. `entries` are those of [`RetentionPolicy::scope`], newest first; `newest` is the
  /// newest of the series, which is always kept.
  pub fn removals(
    &self,
    now: Timestamp,
    newest: Option<&CheckpointEntry>,
    entries: &[CheckpointEntry],
    metadata: &mut dyn MetadataSource,
  ) -> Vec<(CheckpointEntry, RemovalReason)> {
    let retention = self.retention.unwrap_or_default();
    let keeps_labelled = self.keeps_labelled();
    let is_removable =
      |entry: &CheckpointEntry, metadata: &mut dyn MetadataSource| !(keeps_labelled && metadata.is_labelled(entry));
    let is_newest = |entry: &CheckpointEntry| newest.is_some_and(|newest| newest.newest_first(entry).is_eq());
    let skipped = match self.scope() {
      RetentionScope::Beyond(skipped) => skipped,
      RetentionScope::All => 0,
    };
    let mut keep_rules = KeepRules::new(&retention, skipped);
    let mut unpinned = skipped;
    let (mut removed, mut kept) = (Vec::new(), Vec::new());
    for entry in entries {
      if entry.is_pinned {
        kept.push(entry);
        continue;
      }
      let age_ms = now.millis_since(entry.made_at);
      let reason = if !keep_rules.keep(entry) {
        Some(RemovalReason::NotKept)
      } else if retention.max_age_ms.is_some_and(|max| age_ms > max) {
        Some(RemovalReason::TooOld)
      } else if self.limit.is_some_and(|limit| unpinned >= limit.count) {
        Some(RemovalReason::TooMany)
      } else {
        None
      };
      if let Some(reason) = reason.filter(|_| !is_newest(entry) && is_removable(entry, metadata)) {
        removed.push((entry.clone(), reason));
      } else {
        unpinned += 1;
        kept.push(entry);
      }
    }
    if let Some(max_bytes) = retention.max_bytes {
      let mut usage = DiskUsage::of(kept.iter().copied(), metadata);
      for entry in kept.iter().rev() {
        if usage.total <= max_bytes {
          break;
        }
        if !entry.is_pinned && !is_newest(entry) && is_removable(entry, metadata) {
          usage.remove(entry, metadata);
          removed.push(((*entry).clone(), RemovalReason::TooLarge));
        }
      }
    }
    removed.sort_unstable_by(|(one, _), (other, _)| other.newest_first(one));
    removed
  }

  /// The reason as part of a `PruneResult`.
  #[must_use]
  pub fn explain(&self, reason: RemovalReason) -> String {
    let retention = self.retention.unwrap_or_default();
    match reason {
      RemovalReason::NotKept => not_kept_message(&retention),
      RemovalReason::TooOld => format!("older than maxAgeMs ({})", retention.max_age_ms.unwrap_or_default()),
      RemovalReason::TooMany => {
        let limit = self.limit.unwrap_or(CountLimit { count: 0, option: "" });
        format!("beyond {} ({})", limit.option, limit.count)
      }
      RemovalReason::TooLarge => format!("beyond maxBytes ({})", retention.max_bytes.unwrap_or_default()),
    }
  }
}

fn not_kept_message(retention: &Retention) -> String {
  let period = |count: u64, unit: &str| match count {
    1 => format!("the newest of the last {unit}"),
    count => format!("the newest of one of the last {count} {unit}s"),
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

/// `keepLast`, `keepHourly` and `keepDaily`, applied to checkpoints from the newest to the oldest. Any of them keeps a checkpoint.
struct KeepRules {
  /// Whether none of them is set.
  keeps_all: bool,
  last: u64,
  periods: [Period; 2],
}

/// Keeps the newest checkpoint of each calendar period, for the last periods that have one.
struct Period {
  /// The number of the period that contains an instant.
  number_of: fn(Timestamp) -> i64,
  left: u64,
  current: Option<i64>,
}

impl KeepRules {
  /// `skipped` checkpoints precede the first one that [`KeepRules::keep`] gets.
  fn new(retention: &Retention, skipped: usize) -> Self {
    let period = |number_of, count: Option<u64>| Period {
      number_of,
      left: count.unwrap_or(0),
      current: None,
    };
    Self {
      keeps_all: retention.keep_rules().iter().all(Option::is_none),
      last: retention.keep_last.unwrap_or(0).saturating_sub(skipped as u64),
      periods: [
        period(Timestamp::calendar_hour, retention.keep_hourly),
        period(Timestamp::calendar_day, retention.keep_daily),
      ],
    }
  }

  fn keep(&mut self, entry: &CheckpointEntry) -> bool {
    let is_among_last = self.last > 0;
    self.last = self.last.saturating_sub(1);
    let mut is_kept = self.keeps_all || is_among_last;
    for period in &mut self.periods {
      is_kept |= period.keep(entry);
    }
    is_kept
  }
}

impl Period {
  fn keep(&mut self, entry: &CheckpointEntry) -> bool {
    if self.left == 0 {
      return false;
    }
    let number = (self.number_of)(entry.made_at);
    let is_first = self.current != Some(number);
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
