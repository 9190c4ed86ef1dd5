//! The request and the result of `prune`.

use serde::{Serialize, Serializer};

use super::Retention;
use crate::backend::{CheckpointEntry, Series};
use crate::types::error::Error;
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::time::Timestamp;

/// The arguments of `prune`.
#[derive(Debug, Clone, Default)]
pub struct PruneRequest {
  /// `None` for all sessions.
  pub session: Option<SessionId>,
  pub is_dry_run: bool,
  /// Replaces the retention in force for the sessions.
  pub retention: Option<Retention>,
}

/// A `PruneResult`: what `prune` did, or would do.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pruned {
  #[serde(rename = "dryRun")]
  pub is_dry_run: bool,
  pub removed: Vec<PrunedCheckpoint>,
  pub kept: usize,
  /// Those of bases that no delta is based on any more are included.
  pub freed_bytes: u64,
  pub failed: Vec<PruneFailure>,
}

#[derive(Debug)]
pub struct PrunedCheckpoint {
  pub series: Series,
  pub entry: CheckpointEntry,
  pub size: u64,
  /// Its bytes, and those of its base if no other delta is based on that.
  pub(super) freed: u64,
  pub reason: String,
}

#[derive(Debug)]
pub struct PruneFailure {
  /// `None` if it concerns the whole backend.
  pub series: Option<Series>,
  pub checkpoint: Option<CheckpointId>,
  pub error: Error,
}

impl Pruned {
  pub(super) fn add_removed(&mut self, removed: Vec<PrunedCheckpoint>) {
    self.freed_bytes += removed.iter().map(|checkpoint| checkpoint.freed).sum::<u64>();
    self.removed.extend(removed);
  }

  pub(super) fn fail(&mut self, series: Option<&Series>, entry: Option<&CheckpointEntry>, error: Error) {
    self.failed.push(PruneFailure {
      series: series.cloned(),
      checkpoint: entry.map(|entry| entry.id.clone()),
      error,
    });
  }

  #[must_use]
  pub fn to_json(&self) -> String {
    // Ids, texts and numbers always have a JSON form.
    serde_json::to_string(self).unwrap_or_default()
  }
}

impl Serialize for PrunedCheckpoint {
  fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Row<'a> {
      session_id: &'a SessionId,
      #[serde(skip_serializing_if = "Option::is_none")]
      agent_id: Option<&'a AgentId>,
      checkpoint_id: &'a CheckpointId,
      timestamp: Timestamp,
      size_bytes: u64,
      reason: &'a str,
    }
    Row {
      session_id: &self.series.session,
      agent_id: self.series.agent.as_ref(),
      checkpoint_id: &self.entry.id,
      timestamp: self.entry.made_at,
      size_bytes: self.size,
      reason: &self.reason,
    }
    .serialize(serializer)
  }
}

impl Serialize for PruneFailure {
  fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Row<'a> {
      #[serde(skip_serializing_if = "Option::is_none")]
      session_id: Option<&'a SessionId>,
      #[serde(skip_serializing_if = "Option::is_none")]
      agent_id: Option<&'a AgentId>,
      #[serde(skip_serializing_if = "Option::is_none")]
      checkpoint_id: Option<&'a CheckpointId>,
      error: &'a str,
      code: &'static str,
    }
    let series = self.series.as_ref();
    Row {
      session_id: series.map(|series| &series.session),
      agent_id: series.and_then(|series| series.agent.as_ref()),
      checkpoint_id: self.checkpoint.as_ref(),
      error: &self.error.message,
      code: self.error.code.as_str(),
    }
    .serialize(serializer)
  }
}
