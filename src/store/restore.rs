//! Restoring a session and its task tree from a checkpoint, as one step.

use std::io::{self, Write};

use super::{LaidOut, Store, StoredCheckpoint, check_length};
use crate::backend::{Content, Encoding, Series, SessionFilter};
use crate::checkpoint::document::{AGENT_COUNT, Document, TASK_COUNT};
use crate::checkpoint::reset::{Resets, reset_tasks};
use crate::json::edit::{Edit, ObjectWriter, edit, quoted};
use crate::json::scan::{SyntaxError, find, members, unescape};
use crate::types::error::{Code, Error, Result};
use crate::types::id::{CheckpointId, SessionId};

#[derive(Debug, Clone)]
pub struct RestoreRequest {
  /// Where the checkpoint is; without it, all sessions are looked through.
  pub session: Option<SessionId>,
  pub checkpoint: CheckpointId,
  /// The checkpoint in the caller's own words.
  pub asked_for: String,
  pub validate_checksum: bool,
  pub resets: Resets,
  /// Hand back what was restored.
  pub include_state: bool,
}

#[derive(Debug)]
pub struct Restored {
  pub session: SessionId,
  pub tasks: usize,
  pub agents: usize,
  /// A JSON array of strings.
  pub warnings: String,
  /// A JSON object with `session`, `taskTree`, `agentStates` and `contextStore`, if it was asked for.
  pub state: Option<String>,
}

/// How far a restore came.
#[derive(Debug)]
pub enum RestoreOutcome {
  Restored(Restored),
  /// The text does not fit its checksums as it is spelt. The engine that defines the spelling has to write it anew
  /// before it can be called damaged.
  NeedsRespelling(Respelling),
}

/// A checkpoint on its way to the engine and back.
#[derive(Debug)]
pub struct Respelling {
  pub stored: StoredCheckpoint,
  session: SessionId,
  request: RestoreRequest,
}

/// What is restored: a checkpoint's document, and where it is.
pub(super) struct Source<'a> {
  pub session: &'a SessionId,
  pub document: &'a Document<'a>,
  pub path: &'a str,
  /// Whether nothing is written unless its checksums fit.
  pub validates: bool,
  /// Whether nothing is written at all.
  pub is_dry_run: bool,
}

/// The task tree of a checkpoint on its way back into its file.
struct RestoredTree<'a> {
  text: &'a str,
  source: &'a Source<'a>,
}

impl Content for RestoredTree<'_> {
  fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
    LaidOut(self.text).write_to(out)?;
    // The checksums are computed while the medium writes; without them nothing is decided.
    out.flush()?;
    if self.source.validates && !self.source.document.checksums_fit() {
      return Err(io::Error::other(Error::new(
        Code::ChecksumMismatch,
        "Checkpoint checksum validation failed - data may be corrupted",
      )));
    }
    Ok(())
  }
}

impl Store {
  pub fn restore(&self, request: RestoreRequest) -> Result<RestoreOutcome> {
    let (session, stored) = self.find_checkpoint(&request)?;
    let text = stored.compact_text();
    let document = stored.document(&text)?;
    let source = Source {
      session: &session,
      document: &document,
      path: &stored.path,
      validates: request.validate_checksum,
      is_dry_run: false,
    };
    match self.restore_document(&source, request.resets, request.include_state) {
      Err(error) if error.code == Code::ChecksumMismatch => Ok(RestoreOutcome::NeedsRespelling(Respelling {
        stored,
        session,
        request,
      })),
      restored => restored.map(RestoreOutcome::Restored),
    }
  }

  /// Goes on with `text`: the same checkpoint as the engine spells it, compact.
  pub fn restore_respelled(&self, respelling: &Respelling, text: &str) -> Result<Restored> {
    let Respelling {
      stored,
      session,
      request,
    } = respelling;
    let document = stored.document(text)?;
    let source = Source {
      session,
      document: &document,
      path: &stored.path,
      validates: true,
      is_dry_run: false,
    };
    self.restore_document(&source, request.resets, request.include_state)
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
      if let Some(stored) = self.in_its_encoding(&series, id, &Encoding::ALL, read)? {
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

  /// Writes the session and the tree of a checkpoint, as one step.
  pub(super) fn restore_document(&self, source: &Source<'_>, resets: Resets, include_state: bool) -> Result<Restored> {
    let Source {
      session: session_id,
      document,
      path,
      ..
    } = *source;
    let damaged = |error: SyntaxError| Error::corrupt(path, error).because(error);
    let part = |name: &str| document.member(name).filter(|value| value.starts_with('{'));
    let session = part("session").ok_or_else(|| Error::corrupt(path, "it holds no session"))?;
    let id = document
      .member("id")
      .ok_or_else(|| Error::corrupt(path, "it has no id"))?;
    let agents = part("agentStates").unwrap_or("{}");

    let mut edits = vec![Edit::Set("lastCheckpointId", id), Edit::Remove("taskTree")];
    // In a copy of a session's directory the checkpoint still names the session that it was made for. What is restored
    // there belongs to the copy: saving it must not overwrite the other.
    let name = quoted(session_id.as_str());
    let own_name = find(&members(session).map_err(damaged)?, "id").map_or("", |member| member.value);
    if unescape(own_name.trim_matches('"')) != session_id.as_str() {
      edits.push(Edit::Set("id", &name));
    }
    let session = edit(session, &edits).map_err(damaged)?;
    let tree = reset_tasks(part("taskTree").unwrap_or("{}"), resets).map_err(damaged)?;
    // What a document says of itself is believed once its checksums fit.
    let counted = |name: &str, object: &str| -> Result<usize> {
      match document.member(name).and_then(|count| count.parse().ok()) {
        Some(count) if source.validates => Ok(count),
        _ => Ok(members(object).map_err(damaged)?.len()),
      }
    };
    let task_count = counted(TASK_COUNT, &tree.text)?;
    let agent_count = counted(AGENT_COUNT, agents)?;
    let restored_tree = RestoredTree {
      text: &tree.text,
      source,
    };
    let state = include_state.then(|| {
      let mut state = ObjectWriter::with_capacity(session.len() + tree.text.len() + agents.len() + 64);
      state.push("session", &session);
      state.push("taskTree", &tree.text);
      state.push("agentStates", agents);
      state.push("contextStore", part("contextStore").unwrap_or("{}"));
      state.finish()
    });
    // Nothing is restored that cannot be handed back.
    if let Some(state) = &state {
      check_length(state, path)?;
    }
    if !source.is_dry_run {
      self.backend.put_state(session_id, &LaidOut(&session), &restored_tree)?;
    }
    Ok(Restored {
      session: session_id.clone(),
      tasks: task_count,
      agents: agent_count,
      warnings: tree.warnings,
      state,
    })
  }
}
