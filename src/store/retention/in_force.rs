//! The retention in force for a series: that of its session, else that of the store.

use super::super::{Store, into_text, laid_out};
use super::{CountLimit, DEFAULT_KEEP_LAST, Retention, RetentionPolicy, parse};
use crate::backend::{BackendExt, Document, Item, ReadResult, RetentionQuery, Series};
use crate::types::error::Result;
use crate::types::id::SessionId;

impl Store {
  /// The retention that was set for a session; `None` if the default of the store is in force.
  pub fn retention_of(&self, session: &SessionId) -> Result<Option<Retention>> {
    let loaded = self.load(session, Item::RETENTION)?;
    loaded.map(|loaded| parse(&loaded.text, &loaded.path)).transpose()
  }

  /// Sets the retention of a session; `None` restores the default of the store.
  pub fn set_retention(&self, session: &SessionId, retention: Option<Retention>) -> Result<()> {
    let Some(retention) = retention else {
      return self.backend.remove(session, Item::RETENTION).map(drop);
    };
    let limit = self.options.max_read_bytes;
    self
      .backend
      .update_document(session, Document::Retention, limit, &mut |_, _| {
        let document = laid_out(&retention.to_json())?;
        Ok(Some(document.into()))
      })
  }

  /// The query that the backend answers together with storing a checkpoint. It assumes that the session has no retention of its own.
  pub(in crate::store) fn retention_query(&self, series: &Series) -> RetentionQuery {
    let policy = if series.agent.is_none() {
      self.session_policy(None)
    } else {
      self.agent_policy()
    };
    RetentionQuery {
      scope: policy.scope(),
      may_delete: policy.retention.is_none(),
      limit: self.options.max_read_bytes,
    }
  }

  /// The policy in force for a series.
  pub(super) fn policy_of(&self, series: &Series) -> Result<RetentionPolicy> {
    if series.agent.is_none() {
      return Ok(self.session_policy(self.retention_of(&series.session)?));
    }
    Ok(self.agent_policy())
  }

  /// The policy in force for a series, from the retention document that the backend has read.
  pub(super) fn policy_from(&self, series: &Series, retention: ReadResult) -> Result<RetentionPolicy> {
    if series.agent.is_some() {
      return Ok(self.agent_policy());
    }
    let path = self.backend.name_of(&series.session, Item::RETENTION);
    let text = retention?.map(|bytes| into_text(bytes, &path)).transpose()?;
    let own = text.map(|text| parse(&text, &path)).transpose()?;
    Ok(self.session_policy(own))
  }

  fn agent_policy(&self) -> RetentionPolicy {
    RetentionPolicy {
      retention: None,
      limit: Some(CountLimit {
        count: self.options.max_checkpoints_per_agent,
        option: "maxCheckpointsPerAgent",
      }),
    }
  }

  /// The policy of a session: its own retention or else that of the store, limited by `maxCheckpointsPerSession`. Without any of
  /// them, [`DEFAULT_KEEP_LAST`].
  pub(super) fn session_policy(&self, own: Option<Retention>) -> RetentionPolicy {
    let retention = own.or(self.options.retention);
    let default = retention.is_none().then_some(DEFAULT_KEEP_LAST);
    let count = self.options.max_checkpoints_per_session.or(default);
    RetentionPolicy {
      retention,
      limit: count.map(|count| CountLimit {
        count,
        option: "maxCheckpointsPerSession",
      }),
    }
  }
}
