//! Retention, applied: after each new checkpoint, and on request.

use super::super::labels::is_labelled;
use super::super::{Store, into_text};
use crate::store::retention::metadata::{RetentionView, SeriesMetadata, lock};

use super::{Facts, Most, Reason, Retention, Rule, Weight, parse};
use crate::backend::{
  BackendExt, CheckpointEntry, CheckpointPage, DeleteMode, Document, IsLabelled, Item, Maintenance, ReadResult,
  RetentionAnswer, RetentionQuery, RetentionScope, Selection, Series, SessionFilter, time_in_id,
};
use crate::json::edit::{ObjectWriter, quoted, text_literal};
use crate::types::error::{Code, Error, Result};
use crate::types::id::{CheckpointId, SessionId};
use crate::types::progress::{Control, Meter, Phase};
use crate::types::time::now_ms;

/// How many checkpoints a session keeps if nobody says anything.
const DEFAULT_MOST: usize = 100;

/// What `prune` is asked for.
#[derive(Debug, Clone, Default)]
pub struct PruneRequest {
  /// All sessions without it.
  pub session: Option<SessionId>,
  pub is_dry_run: bool,
  /// Instead of what is in force for the sessions.
  pub retention: Option<Retention>,
}

/// What `prune` did, or would do.
#[derive(Debug, Default)]
pub struct Pruned {
  pub is_dry_run: bool,
  pub removed: Vec<PrunedCheckpoint>,
  pub kept: usize,
  /// Of what was removed, and of keys that nothing stands on any more.
  pub freed_bytes: u64,
  pub failed: Vec<PruneFailure>,
}

#[derive(Debug)]
pub struct PrunedCheckpoint {
  pub series: Series,
  pub entry: CheckpointEntry,
  pub size: u64,
  /// Its bytes, and those of its key if it is the last one on it.
  freed: u64,
  pub reason: String,
}

#[derive(Debug)]
pub struct PruneFailure {
  /// `None` if it concerns the whole place.
  pub series: Option<Series>,
  pub checkpoint: Option<CheckpointId>,
  pub error: Error,
}

/// What goes from a series, and what stays because not enough is known of it.
struct Sentence {
  doomed: Vec<(CheckpointEntry, Reason)>,
  /// How a label that is given at the last moment is noticed, if labels count.
  spare: Option<IsLabelled>,
  unknown: Vec<(Option<CheckpointEntry>, Error)>,
}

impl Store {
  /// What was set for a session; `None` if it is as the store says.
  pub fn retention_of(&self, session: &SessionId) -> Result<Option<Retention>> {
    let loaded = self.load(session, Item::RETENTION)?;
    loaded.map(|loaded| parse(&loaded.text, &loaded.path)).transpose()
  }

  /// `None` lets the store's be in force again.
  pub fn set_retention(&self, session: &SessionId, retention: Option<Retention>) -> Result<()> {
    let Some(retention) = retention else {
      return self.backend.remove(session, Item::RETENTION).map(drop);
    };
    let limit = self.options.max_read_bytes;
    self
      .backend
      .update_document(session, Document::Retention, limit, &mut |_, _| {
        let document = super::super::laid_out(&retention.to_json())?;
        Ok(Some(document.into()))
      })
  }

  /// Removes what does not stay, by names alone as far as they suffice. Runs when `just_made` is durable; the newest always
  /// stays, and so does `just_made` if it looks old only because another process has a clock ahead of ours.
  ///
  /// A checkpoint that cannot be removed is no reason to report the new one as failed: the answer is one sentence
  /// for each. What the place has answered already is not asked again.
  pub(in crate::store) fn apply_retention(
    &self,
    series: &Series,
    just_made: &CheckpointId,
    size: Option<u64>,
    answer: Option<(RetentionQuery, RetentionAnswer)>,
  ) -> Vec<String> {
    let (rule, known) = match answer {
      Some((query, answer)) => {
        let list = answer.list.map(|list| (query.scope, list));
        (self.rule_in(series, answer.document), list)
      }
      None => (self.rule_of(series), None),
    };
    let scope = rule.as_ref().map_or(RetentionScope::Beyond(usize::MAX), Rule::wanted);
    // Listed in any case: the link to the newest checkpoint follows.
    let known = known
      .filter(|(known_scope, _)| *known_scope == scope)
      .map(|(_, list)| list);
    let list = || self.backend.list_one(series, Selection::Retention(scope));
    let surplus = match known.map_or_else(list, Ok) {
      Ok(surplus) => surplus,
      Err(error) => return vec![none_removed(&error)],
    };
    let mut is_from_future = false;
    if let Some(newest) = &surplus.newest {
      is_from_future = time_in_id(newest.id.as_str()).is_some_and(|time| time > now_ms());
    }
    let mut warnings: Vec<_> = surplus.warning.iter().cloned().collect();
    let sentence = match rule {
      Ok(rule) => {
        let newest = surplus.newest.as_ref().filter(|newest| newest.id == *just_made);
        self.judge(series, &rule, &surplus, newest.zip(size))
      }
      Err(error) => {
        warnings.push(none_removed(&error));
        return warnings;
      }
    };
    for (entry, _) in &sentence.doomed {
      if is_from_future && entry.id == *just_made {
        continue;
      }
      match self.delete_unless_kept(series, entry, sentence.spare) {
        Ok(_) => {}
        // The next checkpoint finds them again. The caller does not wait for each of them.
        Err(error) if error.code == Code::Busy => break,
        Err(error) => warnings.push(not_removed(&error)),
      }
    }
    warnings.extend(sentence.unknown.iter().map(|(entry, error)| match entry {
      Some(_) => not_removed(error),
      None => none_removed(error),
    }));
    warnings
  }

  /// Applies what is in force, or what is asked for, to one session or to all. What fails is reported, and holds up no other.
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
      let rule = match request.retention {
        Some(retention) => Ok(self.rule(Some(retention))),
        None => self.rule_of(&(&session).into()),
      };
      match rule {
        // Who names a session wants to know what it says.
        Err(error) if request.session.is_some() => return Err(error),
        rule => {
          let is_set = request.retention.is_none();
          self.prune_series(&(&session).into(), rule, is_set, &mut pruned, &mut meter)?;
        }
      }
      match self.agent_series(&session) {
        Ok(agents) => {
          for series in &agents {
            self.prune_series(series, self.rule_of(series), false, &mut pruned, &mut meter)?;
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

  /// An error only if it was stopped. `is_set` says whether the rule is the one that is set for the session, and may change.
  fn prune_series(
    &self,
    series: &Series,
    rule: Result<Rule>,
    is_set: bool,
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
    let rule = match rule {
      Ok(rule) => rule,
      Err(error) => {
        pruned.kept += entries.len();
        pruned.fail(Some(series), None, error);
        return Ok(());
      }
    };
    let Sentence { doomed, spare, unknown } = self.judge(
      series,
      &rule,
      &CheckpointPage::in_scope(entries.iter(), rule.wanted()),
      None,
    );
    for (entry, error) in unknown {
      pruned.fail(Some(series), entry.as_ref(), error);
    }
    let doomed = self.described(series, &rule, &entries, doomed);
    for _ in doomed.len()..entries.len() {
      meter.done(0);
    }
    if pruned.is_dry_run || doomed.is_empty() {
      for checkpoint in &doomed {
        meter.done(checkpoint.freed);
      }
      pruned.kept += entries.len() - doomed.len();
      pruned.remove(doomed);
    } else {
      let is_in_force = || Ok(!is_set || self.rule_of(series)? == rule);
      self.remove_each(series, doomed, spare, &is_in_force, pruned, meter)?;
    }
    if !pruned.is_dry_run {
      // What an interruption left, here or elsewhere.
      match self.backend.maintain(Maintenance::DeleteUnusedBases(series)) {
        Ok(bytes) => pruned.freed_bytes += bytes,
        Err(error) => pruned.fail(Some(series), None, error),
      }
    }
    Ok(())
  }

  /// Removes the oldest first: should it be interrupted, those that are left would all go at the next attempt. It ends when another
  /// retention is set for the session.
  fn remove_each(
    &self,
    series: &Series,
    doomed: Vec<PrunedCheckpoint>,
    spare: Option<IsLabelled>,
    is_in_force: &dyn Fn() -> Result<bool>,
    pruned: &mut Pruned,
    meter: &mut Meter<'_>,
  ) -> Result<()> {
    let mut gone = Vec::with_capacity(doomed.len());
    for checkpoint in doomed {
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
        Ok(true) => gone.push(checkpoint),
        // It was pinned, labelled or removed meanwhile.
        Ok(false) => {}
        Err(error) => {
          let is_busy = error.code == Code::Busy;
          pruned.fail(Some(series), Some(&checkpoint.entry), error);
          if is_busy {
            // It is so for the rest of them.
            break;
          }
        }
      }
      meter.done(freed);
    }
    match self.backend.maintain(Maintenance::SyncDeletes(series)) {
      Ok(_) => pruned.remove(gone),
      // They may be back after a power cut, so nobody is told that they are gone.
      Err(error) => pruned.fail(Some(series), None, error),
    }
    match self.backend.checkpoints(series) {
      Ok(left) => pruned.kept += left.len(),
      Err(error) => pruned.fail(Some(series), None, error),
    }
    Ok(())
  }

  /// `doomed` are some of the `entries`, in the order in which they go.
  fn described(
    &self,
    series: &Series,
    rule: &Rule,
    entries: &[CheckpointEntry],
    doomed: Vec<(CheckpointEntry, Reason)>,
  ) -> Vec<PrunedCheckpoint> {
    if doomed.is_empty() {
      return Vec::new();
    }
    let mut known = SeriesMetadata::default();
    let mut look = RetentionView::new(self, series, &mut known);
    // What cannot be measured can still be removed.
    look.measure(entries);
    let mut weight = Weight::of(entries, &mut look);
    let describe = |(entry, reason)| PrunedCheckpoint {
      series: series.clone(),
      size: look.size(&entry),
      freed: weight.remove(&entry, &mut look),
      entry,
      reason: rule.explain(reason),
    };
    doomed.into_iter().map(describe).collect()
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

  /// What retention asks as soon as a checkpoint of a series is stored, if its session has no retention of its own.
  pub(in crate::store) fn retention_query(&self, series: &Series) -> RetentionQuery {
    let rule = if series.agent.is_none() {
      self.rule(None)
    } else {
      self.rule_of_agents()
    };
    RetentionQuery {
      scope: rule.wanted(),
      may_delete: rule.retention.is_none(),
      limit: self.options.max_read_bytes,
    }
  }

  /// What is in force for a series.
  fn rule_of(&self, series: &Series) -> Result<Rule> {
    if series.agent.is_none() {
      return Ok(self.rule(self.retention_of(&series.session)?));
    }
    Ok(self.rule_of_agents())
  }

  /// The same, where what was set for the session is at hand.
  fn rule_in(&self, series: &Series, retention: ReadResult) -> Result<Rule> {
    if series.agent.is_some() {
      return Ok(self.rule_of_agents());
    }
    let path = self.backend.name_of(&series.session, Item::RETENTION);
    let text = retention?.map(|bytes| into_text(bytes, &path)).transpose()?;
    let own = text.map(|text| parse(&text, &path)).transpose()?;
    Ok(self.rule(own))
  }

  fn rule_of_agents(&self) -> Rule {
    Rule {
      retention: None,
      most: Some(Most {
        count: self.options.max_checkpoints_per_agent,
        option: "maxCheckpointsPerAgent",
      }),
    }
  }

  /// What is in force for a session with a retention of its own, or without one. A number that was given is a limit on top.
  fn rule(&self, own: Option<Retention>) -> Rule {
    let retention = own.or(self.options.retention);
    let default = retention.is_none().then_some(DEFAULT_MOST);
    let count = self.options.max_checkpoints_per_session.or(default);
    Rule {
      retention,
      most: count.map(|count| Most {
        count,
        option: "maxCheckpointsPerSession",
      }),
    }
  }

  /// `told` is a checkpoint of which the size is known.
  fn judge(
    &self,
    series: &Series,
    rule: &Rule,
    surplus: &CheckpointPage,
    told: Option<(&CheckpointEntry, u64)>,
  ) -> Sentence {
    // Where a number is all that counts, nothing is asked, and nothing need be remembered.
    let known = rule.retention.map(|_| self.facts.of(series)).unwrap_or_default();
    let mut known = lock(&known);
    let mut look = RetentionView::new(self, series, &mut known);
    if rule.retention.is_some_and(|retention| retention.max_bytes.is_some()) {
      if let Some((entry, size)) = told {
        look.is_told(entry, size);
      }
      look.measure(&surplus.entries);
    }
    let doomed = rule.judge(now_ms(), surplus.newest.as_ref(), &surplus.entries, &mut look);
    Sentence {
      doomed,
      spare: (rule.spares_labelled() && series.agent.is_none()).then_some(is_labelled),
      unknown: look.finish(&surplus.entries),
    }
  }
}

impl Pruned {
  /// All that is freed is summed up here.
  fn remove(&mut self, gone: Vec<PrunedCheckpoint>) {
    self.freed_bytes += gone.iter().map(|checkpoint| checkpoint.freed).sum::<u64>();
    self.removed.extend(gone);
  }

  fn fail(&mut self, series: Option<&Series>, entry: Option<&CheckpointEntry>, error: Error) {
    self.failed.push(PruneFailure {
      series: series.cloned(),
      checkpoint: entry.map(|entry| entry.id.clone()),
      error,
    });
  }

  /// A `PruneResult`.
  #[must_use]
  pub fn to_json(&self) -> String {
    let removed: Vec<_> = self.removed.iter().map(PrunedCheckpoint::to_json).collect();
    let failed: Vec<_> = self.failed.iter().map(PruneFailure::to_json).collect();
    let mut out = ObjectWriter::with_capacity(200 * removed.len() + 128);
    out.push("dryRun", &self.is_dry_run.to_string());
    out.push("removed", &format!("[{}]", removed.join(",")));
    out.push("kept", &self.kept.to_string());
    out.push("freedBytes", &self.freed_bytes.to_string());
    out.push("failed", &format!("[{}]", failed.join(",")));
    out.finish()
  }
}

impl PrunedCheckpoint {
  fn to_json(&self) -> String {
    let mut out = ObjectWriter::with_capacity(200);
    push_series(&mut out, &self.series);
    out.push("checkpointId", &quoted(self.entry.id.as_str()));
    out.push("timestamp", &self.entry.made_at.to_string());
    out.push("sizeBytes", &self.size.to_string());
    out.push("reason", &text_literal(&self.reason));
    out.finish()
  }
}

impl PruneFailure {
  fn to_json(&self) -> String {
    let mut out = ObjectWriter::with_capacity(200);
    if let Some(series) = &self.series {
      push_series(&mut out, series);
    }
    if let Some(id) = &self.checkpoint {
      out.push("checkpointId", &quoted(id.as_str()));
    }
    out.push("error", &text_literal(&self.error.message));
    out.push("code", &format!("\"{}\"", self.error.code.as_str()));
    out.finish()
  }
}

fn push_series(out: &mut ObjectWriter, series: &Series) {
  out.push("sessionId", &quoted(series.session.as_str()));
  if let Some(agent) = &series.agent {
    out.push("agentId", &quoted(agent.as_str()));
  }
}

fn none_removed(error: &Error) -> String {
  format!("Old checkpoints were not removed: {error}")
}

fn not_removed(error: &Error) -> String {
  format!("An old checkpoint was not removed: {error}")
}
