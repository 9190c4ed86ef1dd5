//! Restoring a session and its task tree from a checkpoint, as one step.

use std::borrow::Cow;

use super::{LaidOut, Store, StoredCheckpoint, check_length};
use crate::backend::{Encoding, Series, SessionFilter};
use crate::checkpoint::document::{AGENT_COUNT, Document, TASK_COUNT};
use crate::checkpoint::reset::{Resets, reset_tasks};
use crate::json::edit::{Edit, ObjectWriter, edit, quoted};
use crate::json::scan::{SyntaxError, find, members, unescape};
use crate::types::error::{Code, Error, Result};
use crate::types::id::{CheckpointId, SessionId};

#[derive(Debug, Clone)]
pub struct RestoreRequest {
  /// The session of the checkpoint; without it, all sessions are searched.
  pub session: Option<SessionId>,
  pub checkpoint: CheckpointId,
  /// The checkpoint as the caller named it, for the error message.
  pub asked_for: String,
  pub validate_checksum: bool,
  pub resets: Resets,
  /// Whether the restored state is returned.
  pub include_state: bool,
}

#[derive(Debug)]
pub struct Restored {
  pub session: SessionId,
  pub tasks: usize,
  pub agents: usize,
  /// A JSON array of strings.
  pub warnings: String,
  /// A JSON object with `session`, `taskTree`, `agentStates` and `contextStore`, if it was requested.
  pub state: Option<String>,
}

/// A checkpoint to restore.
pub(super) struct RestoreSource<'a> {
  pub session: &'a SessionId,
  pub document: &'a Document<'a>,
  pub path: &'a str,
  /// Whether nothing is restored unless the checksums match.
  pub is_validated: bool,
  pub resets: Resets,
  pub include_state: bool,
}

/// The documents that a restore writes, and its result.
pub(super) struct RestorePlan<'a> {
  session_document: String,
  task_tree: Cow<'a, str>,
  pub restored: Restored,
}

impl Store {
  /// Replaces the session document and the task tree by those of a checkpoint, in one atomic step.
  pub fn restore(&self, request: &RestoreRequest) -> Result<Restored> {
    let (session, stored) = self.find_checkpoint(request)?;
    let text = stored.compact_text();
    let document = stored.document(&text)?;
    let source = RestoreSource {
      session: &session,
      document: &document,
      path: &stored.path,
      is_validated: request.validate_checksum,
      resets: request.resets,
      include_state: request.include_state,
    };
    let plan = source.plan()?;
    // The checksums are computed while the backend writes the staged documents; it commits them if the checksums match.
    let is_valid = || !request.validate_checksum || document.checksums_match();
    if self.commit_restore(&plan, &is_valid)? {
      return Ok(plan.restored);
    }
    let text = stored.verified_canonical_text().map_err(|error| match error.code {
      Code::ChecksumMismatch => Error::new(
        Code::ChecksumMismatch,
        "Checkpoint checksum validation failed - data may be corrupted",
      ),
      _ => error,
    })?;
    let document = &stored.document(&text)?;
    let plan = RestoreSource { document, ..source }.plan()?;
    self.commit_restore(&plan, &|| true)?;
    Ok(plan.restored)
  }

  fn find_checkpoint(&self, request: &RestoreRequest) -> Result<(SessionId, StoredCheckpoint)> {
    let id = &request.checkpoint;
    let session = match &request.session {
      Some(session) => Some(session.clone()),
      None => self.only_session_with(id)?,
    };
    if let Some(session) = session {
      let series = Series::from(&session);
      let read = |encoding| self.read_checkpoint(&series, id, encoding);
      if let Some(stored) = self.in_current_encoding(&series, id, &Encoding::ALL, read)? {
        return Ok((session, stored));
      }
    }
    Err(Error::new(
      Code::NotFound,
      format!("Checkpoint not found: {}", request.asked_for),
    ))
  }

  fn only_session_with(&self, id: &CheckpointId) -> Result<Option<SessionId>> {
    let mut sessions = self.backend.sessions(SessionFilter::WithCheckpoint(id))?;
    if sessions.len() > 1 {
      let names: Vec<_> = sessions.iter().map(SessionId::as_str).collect();
      return Err(Error::new(
        Code::Ambiguous,
        format!(
          "Checkpoint {id} exists in the sessions {}. Say which with sessionId",
          names.join(", ")
        ),
      ));
    }
    Ok(sessions.pop())
  }

  /// Stages both documents, and commits them if `is_valid` returns true. Returns whether they were committed.
  pub(super) fn commit_restore(&self, plan: &RestorePlan<'_>, is_valid: &dyn Fn() -> bool) -> Result<bool> {
    self.backend.put_state_if(
      &plan.restored.session,
      &LaidOut(&plan.session_document),
      &LaidOut(&plan.task_tree),
      is_valid,
    )
  }
}

impl<'a> RestoreSource<'a> {
  /// Resets the tasks and composes the documents.
  pub fn plan(&self) -> Result<RestorePlan<'a>> {
    let Self { document, path, .. } = *self;
    let damaged = |error: SyntaxError| Error::corrupt(path, error).because(error);
    let part = |name: &str| document.member(name).filter(|value| value.starts_with('{'));
    let session = part("session").ok_or_else(|| Error::corrupt(path, "it holds no session"))?;
    let id = document
      .member("id")
      .ok_or_else(|| Error::corrupt(path, "it has no id"))?;
    let agents = part("agentStates").unwrap_or("{}");

    let mut edits = vec![Edit::Set("lastCheckpointId", id), Edit::Remove("taskTree")];
    // In a copy of a session's directory a checkpoint still names the original session. The restored document must name the copy:
    // saving it would overwrite the original otherwise.
    let session_id = quoted(self.session.as_str());
    let stored_id = find(&members(session).map_err(damaged)?, "id").map_or("", |member| member.value);
    if unescape(stored_id.trim_matches('"')) != self.session.as_str() {
      edits.push(Edit::Set("id", &session_id));
    }
    let session_document = edit(session, &edits).map_err(damaged)?;
    let tree = reset_tasks(part("taskTree").unwrap_or("{}"), self.resets).map_err(damaged)?;
    // The counts in the document are valid if its checksums match.
    let counted = |name: &str, object: &str| -> Result<usize> {
      match document.member(name).and_then(|count| count.parse().ok()) {
        Some(count) if self.is_validated => Ok(count),
        _ => Ok(members(object).map_err(damaged)?.len()),
      }
    };
    let tasks = counted(TASK_COUNT, &tree.text)?;
    let agent_count = counted(AGENT_COUNT, agents)?;
    let state = self.include_state.then(|| {
      let mut state = ObjectWriter::with_capacity(session_document.len() + tree.text.len() + agents.len() + 64);
      state.push("session", &session_document);
      state.push("taskTree", &tree.text);
      state.push("agentStates", agents);
      state.push("contextStore", part("contextStore").unwrap_or("{}"));
      state.finish()
    });
    // Fail before anything is restored if the state cannot be returned.
    if let Some(state) = &state {
      check_length(state, path)?;
    }
    Ok(RestorePlan {
      session_document,
      task_tree: tree.text,
      restored: Restored {
        session: self.session.clone(),
        tasks,
        agents: agent_count,
        warnings: tree.warnings,
        state,
      },
    })
  }
}
