//! Sessions that are past their time, and sessions that a dead process left behind.

use std::borrow::Cow;
use std::slice;

use super::info::Row;
use super::{Damaged, Store, StoredCheckpoint, laid_out};
use crate::backend::{BackendExt, CheckpointEntry, DeleteCondition, Document, Maintenance, Series, SessionFilter};
use crate::json::edit::{Edit, ObjectWriter, edit, quoted};
use crate::json::layout::compact;
use crate::json::scan::{find, members, text_of};
use crate::types::error::{Code, Error, Result};
use crate::types::fault_injection;
use crate::types::id::SessionId;

/// The parts of a session's life in which an orchestrator works on it.
const RUNNING: [&str; 4] = ["initializing", "active", "resuming", "completing"];

const ARCHIVED: &str = "archived";

/// How many session documents are read together.
const BATCH: usize = 256;

/// What becomes of a session that is past its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
  Archive,
  Delete,
}

/// A session that may have been running when its process died.
#[derive(Debug)]
pub struct Recoverable {
  pub session: SessionId,
  /// What its document says, if it can be read: that it was running.
  pub summary: Option<Summary>,
  /// From the newest down, to the first that is whole.
  pub candidates: Vec<Candidate>,
}

#[derive(Debug)]
pub enum Candidate {
  /// What it says of the session is known if it is whole, but too large for an engine.
  Damaged(Damaged, Option<Summary>),
  Whole {
    /// A JSON object: what a list shows of it.
    info: String,
    /// What it says of the session.
    summary: Option<Summary>,
  },
}

/// A session in two words.
#[derive(Debug, Clone)]
pub struct Summary {
  pub name: Option<String>,
  pub status: String,
}

impl Summary {
  pub(super) fn of(document: &str) -> Option<Self> {
    let found = members(document).ok()?;
    let text = |name| find(&found, name).and_then(|member| text_of(member.value).map(Cow::into_owned));
    Some(Self {
      name: text("name"),
      status: text("status")?,
    })
  }

  /// Whether somebody worked on it.
  #[must_use]
  pub fn is_running(&self) -> bool {
    RUNNING.contains(&self.status.as_str())
  }
}

/// What a session's document says of its life.
struct Life {
  status: Option<String>,
  /// As the document spells it.
  status_literal: String,
  expires_at: Option<f64>,
}

impl Life {
  fn of(document: &str) -> Option<Self> {
    let found = members(document).ok()?;
    let status = find(&found, "status").map_or("null", |member| member.value);
    Some(Self {
      status: text_of(status).map(Cow::into_owned),
      status_literal: status.to_owned(),
      expires_at: find(&found, "expiresAt")
        .and_then(|member| member.value.parse().ok())
        .filter(|time: &f64| time.is_finite()),
    })
  }

  /// What a document says, if its session is to be archived or deleted by `now`.
  fn to_end(document: &[u8], now: f64, expiry: Expiry) -> Option<Self> {
    let life = Self::of(str::from_utf8(document).ok()?)?;
    let is_archived = life.status.as_deref() == Some(ARCHIVED);
    (life.is_over(now) && !(is_archived && expiry == Expiry::Archive)).then_some(life)
  }

  fn is_running(&self) -> bool {
    self.status.as_deref().is_some_and(|status| RUNNING.contains(&status))
  }

  /// Whether it is past its time, and nobody works on it.
  fn is_over(&self, now: f64) -> bool {
    self.expires_at.is_some_and(|time| time <= now) && !self.is_running()
  }
}

/// What `expire_sessions` did.
#[derive(Debug, Default)]
pub struct Expired {
  /// A JSON object for each session that was archived or deleted.
  pub lines: Vec<String>,
  /// Sessions that are over, and could not be archived or deleted.
  pub failed: Vec<(SessionId, Error)>,
}

impl Store {
  /// Archives or deletes the sessions whose time was over by `now`. A session whose document cannot be read is skipped: a
  /// verification reports it. So is one that another store owns. A session that fails holds up no other.
  pub fn expire_sessions(&self, now: f64, expiry: Expiry) -> Result<Expired> {
    let mut expired = Expired::default();
    for some in self.backend.sessions(SessionFilter::Saved)?.chunks(BATCH) {
      // Most are not over: those are not locked.
      let documents = self
        .backend
        .read_documents(some, Document::Session, self.options.max_read_bytes)?;
      for (session, document) in some.iter().zip(documents) {
        let ended = match document {
          Ok(document) => match document.as_deref().and_then(|bytes| Life::to_end(bytes, now, expiry)) {
            Some(_) => self.end(session, now, expiry),
            None => Ok(None),
          },
          Err(error) => Err(error),
        };
        match ended {
          Ok(None) => {}
          Ok(Some(life)) => expired.lines.push(line(session, &life, expiry)),
          Err(error) if matches!(error.code, Code::Corrupt | Code::TooLarge | Code::LeaseLost) => {}
          Err(error) => expired.failed.push((session.clone(), error)),
        }
      }
    }
    Ok(expired)
  }

  /// Archives or deletes a session if its time is over. The decision is one step with the change: a session that becomes
  /// active again stays. The answer is what its document said; `None` if the session stays as it is.
  fn end(&self, session: &SessionId, now: f64, expiry: Expiry) -> Result<Option<Life>> {
    let mut ended = None;
    let limit = self.options.max_read_bytes;
    if expiry == Expiry::Delete {
      let accepts = &mut |document: Option<&[u8]>| {
        ended = document.and_then(|bytes| Life::to_end(bytes, now, expiry));
        Ok(ended.is_some() || fault_injection::is_enabled("expiry-once"))
      };
      let condition = DeleteCondition { limit, accepts };
      let deleted = self.backend.delete_session(session, Some(condition))?;
      if deleted.is_some() {
        self.forget(session);
      }
      return Ok(ended.filter(|_| deleted.is_some()));
    }
    self
      .backend
      .update_document(session, Document::Session, limit, &mut |old, _| {
        ended = old.as_deref().and_then(|bytes| Life::to_end(bytes, now, expiry));
        let (Some(_), Some(text)) = (&ended, old.and_then(|bytes| String::from_utf8(bytes).ok())) else {
          return Ok(None);
        };
        let archived = edit(&compact(&text), &[Edit::Set("status", &quoted(ARCHIVED))]);
        let archived = archived.map_err(|error| Error::corrupt(&self.session_path(session), error))?;
        Ok(Some(laid_out(&archived)?.into()))
      })?;
    Ok(ended)
  }

  /// Removes all checkpoints of a series, pinned ones too; the answer is how many. What cannot be removed keeps no other, and
  /// is the answer when all others are gone.
  pub fn delete_checkpoints(&self, series: &Series) -> Result<usize> {
    let (mut gone, mut refused) = (0, None);
    let entries = self.backend.checkpoints(series)?;
    // The oldest first: should it be interrupted, the newest are what is left.
    for entry in entries.iter().rev() {
      match self.backend.remove(&series.session, series.item_of(entry)) {
        Ok(removed) => gone += usize::from(removed),
        // The time limit is that of the call, not of each checkpoint.
        Err(error) if error.code == Code::Busy => return Err(error),
        Err(error) => refused = refused.or(Some(error)),
      }
    }
    let ids: Vec<_> = entries.into_iter().map(|entry| entry.id).collect();
    if let Err(error) = self.forget_labels(series, &ids) {
      refused = refused.or(Some(error));
    }
    // Those that lost their deltas in another way. One that stays costs room, and nothing else.
    let _ = self.backend.maintain(Maintenance::DeleteUnusedBases(series));
    refused.map_or(Ok(gone), Err)
  }

  /// The sessions whose last state may say that somebody worked on them.
  pub fn recoverable(&self) -> Result<Vec<Recoverable>> {
    let mut found = Vec::new();
    for session in self.backend.sessions(SessionFilter::All)? {
      found.extend(self.recoverable_session(session)?);
    }
    Ok(found)
  }

  fn recoverable_session(&self, session: SessionId) -> Result<Option<Recoverable>> {
    let series = Series::from(&session);
    // A session that was never saved, or whose document is damaged, is judged by its newest whole checkpoint.
    let document = self.session_document(&session).ok().flatten();
    let summary = document.as_deref().and_then(Summary::of);
    if summary.as_ref().is_some_and(|summary| !summary.is_running()) {
      return Ok(None);
    }
    let mut candidates = Vec::new();
    for entry in self.backend.checkpoints(&series)? {
      let read = |encoding| self.readable(&series, &entry.id, encoding);
      match self.in_current_encoding(&series, &entry.id, &[entry.encoding], read) {
        Ok(None) => {}
        Err(error) => {
          // One that is too large for an engine still says what the session was.
          let is_too_large = error.code == Code::TooLarge;
          let stored = is_too_large.then(|| self.read_checkpoint(&series, &entry.id, entry.encoding));
          let stored = stored.and_then(|read| read.ok().flatten());
          let summary = stored.and_then(|stored| Summary::of(&session_of(&stored)?));
          candidates.push(Candidate::Damaged(self.damaged(&series, &entry, error), summary));
        }
        Ok(Some(stored)) => {
          let summary = session_of(&stored).as_deref().and_then(Summary::of);
          let Some(info) = self.info_of(&series, &entry)? else {
            continue;
          };
          candidates.push(Candidate::Whole { info, summary });
          break;
        }
      }
    }
    Ok(Some(Recoverable {
      session,
      summary,
      candidates,
    }))
  }
}

impl Store {
  /// What a list shows of one checkpoint, as JSON.
  fn info_of(&self, series: &Series, entry: &CheckpointEntry) -> Result<Option<String>> {
    let (rows, _) = self.rows(series, slice::from_ref(entry))?;
    Ok(rows.first().map(Row::to_json))
  }
}

/// What became of a session that was past its time.
fn line(session: &SessionId, life: &Life, expiry: Expiry) -> String {
  let mut out = ObjectWriter::with_capacity(128);
  out.push("sessionId", &quoted(session.as_str()));
  out.push("status", &life.status_literal);
  out.push("expiresAt", &life.expires_at.unwrap_or_default().to_string());
  let action = match expiry {
    Expiry::Archive => "\"archived\"",
    Expiry::Delete => "\"deleted\"",
  };
  out.push("action", action);
  out.finish()
}

fn session_of(stored: &StoredCheckpoint) -> Option<String> {
  let text = stored.compact_text();
  let found = members(&text).ok()?;
  find(&found, "session").map(|member| member.value.to_owned())
}
