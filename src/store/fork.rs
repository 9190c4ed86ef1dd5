//! Forks, which are new sessions from checkpoints of others, and the history of a session.

use std::borrow::Cow;
use std::collections::HashMap;

use super::info::Row;
use super::labels::not_found;
use super::{LaidOut, Stamp, Store};
use crate::backend::{BackendExt, Content, Encoding, Item, Series, SessionFilter, source_of};
use crate::checkpoint::compose::{NewCheckpoint, Parts};
use crate::checkpoint::reset::{Resets, reset_tasks};
use crate::json::edit::{Edit, ObjectWriter, edit, quoted};
use crate::json::scan::{SyntaxError, find, members, text_of};
use crate::store::write::CheckpointContent;
use crate::types::error::{Code, Error, Result};
use crate::types::id::{CheckpointId, SessionId};

/// The member of a forked session that names its origin: `{sessionId, checkpointId}`.
pub(super) const FORKED_FROM: &str = "forkedFrom";

#[derive(Debug, Clone)]
pub struct ForkRequest {
  pub session: SessionId,
  pub checkpoint: CheckpointId,
  pub new_session: SessionId,
  pub resets: Resets,
}

#[derive(Debug)]
pub struct Forked {
  pub session: SessionId,
  /// The first checkpoint of the new session, and its path.
  pub checkpoint: CheckpointId,
  pub path: String,
  pub tasks: usize,
  pub agents: usize,
  /// A JSON array of strings.
  pub warnings: String,
}

impl Store {
  /// Creates a session with the state of a checkpoint of another one, in one atomic step.
  pub fn fork(&self, request: &ForkRequest, stamp: Stamp) -> Result<Forked> {
    let source = Series::from(&request.session);
    let Some(stored) = self.verified_in_any_encoding(&source, &request.checkpoint)? else {
      return Err(not_found(&source, &request.checkpoint));
    };
    let damaged = |error: SyntaxError| Error::corrupt(&stored.path, error).because(error);
    let document = stored.document(&stored.text)?;
    let part = |name: &str| document.member(name).filter(|value| value.starts_with('{'));
    let session = part("session").ok_or_else(|| Error::corrupt(&stored.path, "it holds no session"))?;
    let tree = reset_tasks(part("taskTree").unwrap_or("{}"), request.resets).map_err(damaged)?;
    let agents = part("agentStates").unwrap_or("{}");
    let origin = origin(&request.session, &request.checkpoint);
    let name = quoted(request.new_session.as_str());
    let edits = [
      Edit::Set("id", &name),
      Edit::Set("lastCheckpointId", "null"),
      Edit::Set("checkpointIds", "[]"),
      Edit::Set(FORKED_FROM, &origin),
      Edit::Remove("taskTree"),
    ];
    let session = edit(session, &edits).map_err(damaged)?;
    let description = format!("Forked from {}/{}", request.session, request.checkpoint);
    let mut head = ObjectWriter::with_capacity(session.len() + 128);
    head.push("trigger", "\"manual\"");
    head.push("description", &quoted(&description));
    head.push("session", &session);
    let parts = Parts {
      head: head.finish(),
      task_tree: format!("{{\"taskTree\":{}}}", tree.text),
      agent_states: format!("{{\"agentStates\":{agents}}}"),
      context_store: format!("{{\"contextStore\":{}}}", part("contextStore").unwrap_or("{}")),
    };
    let series = Series::from(&request.new_session);
    let id = stamp.id()?;
    // The first checkpoint of a session has no base for a delta.
    let encoding = match self.options.encoding {
      Encoding::Delta => Encoding::Zstd,
      other => other,
    };
    let content = CheckpointContent {
      checkpoint: NewCheckpoint::compose(&id, stamp.timestamp, &parts)?,
      encoding,
    };
    let item = series.item(&id, encoding);
    let session = LaidOut(content.checkpoint.session());
    let tree_text = LaidOut(&tree.text);
    let items: [(Item<'_>, &dyn Content); 3] = [
      (item, &content),
      (Item::TASK_TREE, &tree_text),
      (Item::SESSION, &session),
    ];
    if !self
      .backend
      .create_session(&series.session, Some(&mut source_of(&items)))?
    {
      return Err(exists(
        &series.session,
        "Choose another newSessionId, or delete it first",
      ));
    }
    let path = self.backend.name_of(&series.session, item);
    // This also updates the link to the newest checkpoint.
    self.apply_retention(&series, &id, None, None);
    Ok(Forked {
      session: request.new_session.clone(),
      checkpoint: id,
      path,
      tasks: members(&tree.text).map_err(damaged)?.len(),
      agents: members(agents).map_err(damaged)?.len(),
      warnings: tree.warnings,
    })
  }

  /// The tree of a session's checkpoints and forks, as JSON: a flat list in which every checkpoint names its children, because a chain
  /// of thousands would be nested too deeply.
  pub fn history(&self, session: &SessionId) -> Result<String> {
    let series = Series::from(session);
    let entries = self.backend.checkpoints(&series)?;
    // A damaged document has no known origin; a verification reports it.
    let document = self.session_document(session).ok().flatten();
    if entries.is_empty() && document.is_none() {
      return Err(Error::no_session(session));
    }
    let (rows, damaged) = self.rows(&series, &entries)?;
    let damaged: Vec<_> = damaged.iter().map(|damaged| quoted(damaged.id.as_str())).collect();
    let forks = self.forks_of(session)?;
    let mut out = ObjectWriter::with_capacity(400 * rows.len() + 128);
    out.push("sessionId", &quoted(session.as_str()));
    if let Some(origin) = document.as_deref().and_then(origin_in) {
      out.push(FORKED_FROM, &self::origin(&origin.0, &origin.1));
    }
    out.push("checkpoints", &nodes(&rows, &forks));
    out.push("damaged", &format!("[{}]", damaged.join(",")));
    Ok(out.finish())
  }

  /// The sessions that were forked from this one, by checkpoint.
  fn forks_of(&self, session: &SessionId) -> Result<HashMap<CheckpointId, Vec<SessionId>>> {
    let mut forks: HashMap<_, Vec<_>> = HashMap::new();
    for other in self.backend.sessions(SessionFilter::Saved)? {
      // A damaged document has no known origin.
      let document = self.session_document(&other).ok().flatten();
      if let Some((from, checkpoint)) = document.as_deref().and_then(origin_in)
        && from == *session
      {
        forks.entry(checkpoint).or_default().push(other);
      }
    }
    Ok(forks)
  }

  /// The name of a session's document.
  pub(super) fn session_path(&self, session: &SessionId) -> String {
    self.backend.name_of(session, Item::SESSION)
  }

  /// The text of a session's document.
  pub(super) fn session_document(&self, session: &SessionId) -> Result<Option<String>> {
    Ok(self.load(session, Item::SESSION)?.map(|loaded| loaded.text))
  }
}

/// The error if a session exists already. `hint` says what to do.
pub(super) fn exists(session: &SessionId, hint: &str) -> Error {
  Error::new(Code::Exists, format!("Session {session} exists already. {hint}"))
}

fn origin(session: &SessionId, checkpoint: &CheckpointId) -> String {
  let mut out = ObjectWriter::with_capacity(128);
  out.push("sessionId", &quoted(session.as_str()));
  out.push("checkpointId", &quoted(checkpoint.as_str()));
  out.finish()
}

/// The origin that a session document names.
fn origin_in(document: &str) -> Option<(SessionId, CheckpointId)> {
  let origin = members(find(&members(document).ok()?, FORKED_FROM)?.value).ok()?;
  let session = text_of(find(&origin, "sessionId")?.value)?;
  let checkpoint = text_of(find(&origin, "checkpointId")?.value)?;
  Some((SessionId::parse(&session).ok()?, CheckpointId::parse(&checkpoint).ok()?))
}

/// The rows as JSON, each with its children, which are newer, and its forks.
fn nodes(rows: &[Row], forks: &HashMap<CheckpointId, Vec<SessionId>>) -> String {
  let mut children: HashMap<Cow<'_, str>, Vec<&str>> = HashMap::new();
  for row in rows.iter().rev() {
    if let Some(parent) = row.info.get("parent") {
      let parent = text_of(parent).unwrap_or_default();
      children.entry(parent).or_default().push(row.entry.id.as_str());
    }
  }
  let list = |ids: Vec<&str>| format!("[{}]", ids.into_iter().map(quoted).collect::<Vec<_>>().join(","));
  let lines = rows.iter().map(|row| {
    let id = row.entry.id.as_str();
    let forked = forks.get(&row.entry.id).into_iter().flatten().map(SessionId::as_str);
    let line = row.to_json();
    let children = list(children.get(id).cloned().unwrap_or_default());
    let forks = list(forked.collect());
    let Some(open) = line.strip_suffix('}') else {
      return line;
    };
    format!("{open},\"children\":{children},\"forks\":{forks}}}")
  });
  format!("[{}]", lines.collect::<Vec<_>>().join(","))
}
