//! The application of retention: after each new checkpoint, and by `prune`.

use super::super::Store;
use super::super::labels::is_labelled;
use super::metadata::{RetentionView, SeriesMetadata};
use super::{DiskUsage, MetadataSource, PruneRequest, Pruned, PrunedCheckpoint, RemovalReason, RetentionPolicy};
use crate::backend::{
  BackendExt, CheckpointEntry, CheckpointPage, DeleteMode, IsLabelled, Maintenance, RetentionAnswer, RetentionQuery,
  RetentionScope, Selection, Series, SessionFilter, time_in_id,
};
use crate::types::error::{Code, Error, Result};
use crate::types::id::CheckpointId;
use crate::types::progress::{Control, Meter, Phase};
use crate::types::time::Timestamp;

/// What is removed from a series, and what is kept because its metadata could not be read.
struct RemovalPlan {
  removals: Vec<(CheckpointEntry, RemovalReason)>,
  /// Re-checks the labels in the step that removes a checkpoint; `None` if labels keep none.
  spare: Option<IsLabelled>,
  failures: Vec<(Option<CheckpointEntry>, Error)>,
}

impl Store {
  /// Removes the checkpoints that retention does not keep, after `just_made` was stored. The newest is always kept, and so is
  /// `just_made` if it is not the newest only because the clock of another process is ahead.
  ///
  /// The new checkpoint is stored even if others cannot be removed, so failures are warnings. `answer` is what the backend returned
  /// with the write, and is not requested again.
  pub(in crate::store) fn apply_retention(
    &self,
    series: &Series,
    just_made: &CheckpointId,
    size: Option<u64>,
    answer: Option<(RetentionQuery, RetentionAnswer)>,
  ) -> Vec<String> {
    let (policy, known) = match answer {
      Some((query, answer)) => {
        let list = answer.list.map(|list| (query.scope, list));
        (self.policy_from(series, answer.document), list)
      }
      None => (self.policy_of(series), None),
    };
    let scope = policy
      .as_ref()
      .map_or(RetentionScope::Beyond(usize::MAX), RetentionPolicy::scope);
    // Requested even if it is empty: the backend refreshes its link to the newest checkpoint.
    let known = known
      .filter(|(known_scope, _)| *known_scope == scope)
      .map(|(_, list)| list);
    let list = || self.backend.list_one(series, Selection::Retention(scope));
    let in_scope = match known.map_or_else(list, Ok) {
      Ok(in_scope) => in_scope,
      Err(error) => return vec![none_removed(&error)],
    };
    let mut is_from_future = false;
    if let Some(newest) = &in_scope.newest {
      let time = time_in_id(newest.id.as_str());
      is_from_future = time.is_some_and(|time| time > Timestamp::now());
    }
    let mut warnings: Vec<_> = in_scope.warning.iter().cloned().collect();
    let plan = match policy {
      Ok(policy) => {
        let newest = in_scope.newest.as_ref().filter(|newest| newest.id == *just_made);
        self.removal_plan(series, &policy, &in_scope, newest.zip(size))
      }
      Err(error) => {
        warnings.push(none_removed(&error));
        return warnings;
      }
    };
    for (entry, _) in &plan.removals {
      if is_from_future && entry.id == *just_made {
        continue;
      }
      match self.delete_unless_kept(series, entry, plan.spare) {
        Ok(_) => {}
        // Do not make the caller wait for each. The next checkpoint removes them.
        Err(error) if error.code == Code::Busy => break,
        Err(error) => warnings.push(not_removed(&error)),
      }
    }
    warnings.extend(plan.failures.iter().map(|(entry, error)| match entry {
      Some(_) => not_removed(error),
      None => none_removed(error),
    }));
    warnings
  }

  /// Applies the requested retention, or the one in force, to one session or to all. Failures are reported and stop nothing else.
  pub fn prune(&self, request: &PruneRequest, control: &Control) -> Result<Pruned> {
    let mut meter = Meter::new(control, Phase::Prune);
    let mut pruned = Pruned {
      is_dry_run: request.is_dry_run,
      ..Pruned::default()
    };
    let mut sessions = self.backend.sessions(SessionFilter::All)?;
    if let Some(session) = &request.session {
      if sessions.binary_search(session).is_err() {
        return Err(Error::no_session(session));
      }
      sessions = vec![session.clone()];
    }
    for session in sessions {
      let policy = match request.retention {
        Some(retention) => Ok(self.session_policy(Some(retention))),
        None => self.policy_of(&(&session).into()),
      };
      match policy {
        Err(error) if request.session.is_some() => return Err(error),
        policy => {
          let is_stored = request.retention.is_none();
          self.prune_series(&(&session).into(), policy, is_stored, &mut pruned, &mut meter)?;
        }
      }
      match self.agent_series(&session) {
        Ok(agents) => {
          for series in &agents {
            self.prune_series(series, self.policy_of(series), false, &mut pruned, &mut meter)?;
          }
        }
        Err(error) => pruned.fail(Some(&session.into()), None, error),
      }
    }
    if !pruned.is_dry_run
      && pruned.freed_bytes > 0
      && let Err(error) = self.backend.maintain(Maintenance::Vacuum)
    {
      pruned.fail(None, None, error);
    }
    Ok(pruned)
  }

  /// An error only if it was cancelled. `is_stored` says whether the policy is the stored one of the session, which may change
  /// while checkpoints are removed.
  fn prune_series(
    &self,
    series: &Series,
    policy: Result<RetentionPolicy>,
    is_stored: bool,
    pruned: &mut Pruned,
    meter: &mut Meter<'_>,
  ) -> Result<()> {
    meter.check()?;
    let entries = match self.backend.checkpoints(series) {
      Ok(entries) => entries,
      Err(error) => {
        pruned.fail(Some(series), None, error);
        return Ok(());
      }
    };
    meter.expect(entries.len());
    let policy = match policy {
      Ok(policy) => policy,
      Err(error) => {
        pruned.kept += entries.len();
        pruned.fail(Some(series), None, error);
        return Ok(());
      }
    };
    let RemovalPlan {
      removals,
      spare,
      failures,
    } = self.removal_plan(
      series,
      &policy,
      &CheckpointPage::in_scope(entries.iter(), policy.scope()),
      None,
    );
    for (entry, error) in failures {
      pruned.fail(Some(series), entry.as_ref(), error);
    }
    let removals = self.described(series, &policy, &entries, removals);
    for _ in removals.len()..entries.len() {
      meter.done(0);
    }
    if pruned.is_dry_run || removals.is_empty() {
      for checkpoint in &removals {
        meter.done(checkpoint.freed);
      }
      pruned.kept += entries.len() - removals.len();
      pruned.add_removed(removals);
    } else {
      let is_in_force = || Ok(!is_stored || self.policy_of(series)? == policy);
      self.remove_each(series, removals, spare, &is_in_force, pruned, meter)?;
    }
    if !pruned.is_dry_run {
      // Interrupted calls of this or another process leave bases behind.
      match self.backend.maintain(Maintenance::DeleteUnusedBases(series)) {
        Ok(bytes) => pruned.freed_bytes += bytes,
        Err(error) => pruned.fail(Some(series), None, error),
      }
    }
    Ok(())
  }

  /// Removes the oldest first, so that after an interruption the next call removes exactly the others. Stops when another
  /// retention is set for the session.
  fn remove_each(
    &self,
    series: &Series,
    removals: Vec<PrunedCheckpoint>,
    spare: Option<IsLabelled>,
    is_in_force: &dyn Fn() -> Result<bool>,
    pruned: &mut Pruned,
    meter: &mut Meter<'_>,
  ) -> Result<()> {
    let mut removed = Vec::with_capacity(removals.len());
    for checkpoint in removals {
      meter.check()?;
      match is_in_force() {
        Ok(true) => {}
        Ok(false) => break,
        Err(error) => {
          pruned.fail(Some(series), None, error);
          break;
        }
      }
      let freed = checkpoint.freed;
      match self.delete_unless_kept(series, &checkpoint.entry, spare) {
        Ok(true) => removed.push(checkpoint),
        // It was pinned, labelled or deleted concurrently.
        Ok(false) => {}
        Err(error) => {
          let is_busy = error.code == Code::Busy;
          pruned.fail(Some(series), Some(&checkpoint.entry), error);
          if is_busy {
            // The others are as busy.
            break;
          }
        }
      }
      meter.done(freed);
    }
    match self.backend.maintain(Maintenance::SyncDeletes(series)) {
      Ok(_) => pruned.add_removed(removed),
      // A power failure may bring them back, so they are not reported as removed.
      Err(error) => pruned.fail(Some(series), None, error),
    }
    match self.backend.checkpoints(series) {
      Ok(kept) => pruned.kept += kept.len(),
      Err(error) => pruned.fail(Some(series), None, error),
    }
    Ok(())
  }

  /// Adds sizes and reasons. `removals` are some of the `entries`, in the order of their removal.
  fn described(
    &self,
    series: &Series,
    policy: &RetentionPolicy,
    entries: &[CheckpointEntry],
    removals: Vec<(CheckpointEntry, RemovalReason)>,
  ) -> Vec<PrunedCheckpoint> {
    if removals.is_empty() {
      return Vec::new();
    }
    let mut metadata = SeriesMetadata::default();
    let mut view = RetentionView::new(self, series, &mut metadata);
    // A checkpoint whose size cannot be read can still be removed.
    view.measure(entries);
    let mut usage = DiskUsage::of(entries, &mut view);
    let describe = |(entry, reason)| PrunedCheckpoint {
      series: series.clone(),
      size: view.size(&entry),
      freed: usage.remove(&entry, &mut view),
      entry,
      reason: policy.explain(reason),
    };
    removals.into_iter().map(describe).collect()
  }

  fn delete_unless_kept(
    &self,
    series: &Series,
    entry: &CheckpointEntry,
    is_labelled: Option<IsLabelled>,
  ) -> Result<bool> {
    let mode = DeleteMode::UnlessKept(is_labelled);
    self.backend.delete(&series.session, series.item_of(entry), mode)
  }

  /// `just_stored` is the newest checkpoint and its size, if this call stored it.
  fn removal_plan(
    &self,
    series: &Series,
    policy: &RetentionPolicy,
    in_scope: &CheckpointPage,
    just_stored: Option<(&CheckpointEntry, u64)>,
  ) -> RemovalPlan {
    // A limit alone needs no metadata.
    let metadata = policy.retention.map(|_| self.retention_metadata.get_or_default(series));
    let metadata = metadata.unwrap_or_default();
    let mut metadata = metadata.lock();
    let mut view = RetentionView::new(self, series, &mut metadata);
    if policy.retention.is_some_and(|retention| retention.max_bytes.is_some()) {
      if let Some((entry, size)) = just_stored {
        view.set_size(entry, size);
      }
      view.measure(&in_scope.entries);
    }
    RemovalPlan {
      removals: policy.removals(Timestamp::now(), in_scope.newest.as_ref(), &in_scope.entries, &mut view),
      spare: (policy.keeps_labelled() && series.agent.is_none()).then_some(is_labelled),
      failures: view.finish(&in_scope.entries),
    }
  }
}

fn none_removed(error: &Error) -> String {
  format!("Old checkpoints were not removed: {error}")
}

fn not_removed(error: &Error) -> String {
  format!("An old checkpoint was not removed: {error}")
}
