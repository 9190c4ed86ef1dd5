//! Expired sessions, and sessions that a dead process left running.

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

/// The statuses of a session that an orchestrator works on.
const RUNNING: [&str; 4] = ["initializing", "active", "resuming", "completing"];

const ARCHIVED: &str = "archived";

/// The number of session documents that are read in one call of the backend.
const BATCH: usize = 256;

/// What happens to an expired session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
  Archive,
  Delete,
}

/// A session that may have been running when its process died.
#[derive(Debug)]
pub struct Recoverable {
  pub session: SessionId,
  /// From its document, if that can be read; its status is a running one.
  pub summary: Option<Summary>,
  /// The newest checkpoints, up to the first whole one.
  pub candidates: Vec<Candidate>,
}

#[derive(Debug)]
pub enum Candidate {
  /// With the summary of the session, if it is whole, but too long for a JavaScript string.
  Damaged(Damaged, Option<Summary>),
  Whole {
    /// A row of a list, as a JSON object.
    info: String,
    /// The session in it.
    summary: Option<Summary>,
  },
}

/// The name and the status of a session.
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

  /// Whether an orchestrator worked on it.
  #[must_use]
  pub fn is_running(&self) -> bool {
    RUNNING.contains(&self.status.as_str())
  }
}

/// The status and the expiry of a session.
struct Lifetime {
  status: Option<String>,
  /// In the JSON of the document.
  status_literal: String,
  expires_at: Option<f64>,
}

impl Lifetime {
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

  /// That of a document whose session has to be archived or deleted at `now`.
  fn if_expired(document: &[u8], now: f64, expiry: Expiry) -> Option<Self> {
    let lifetime = Self::of(str::from_utf8(document).ok()?)?;
    let is_archived = lifetime.status.as_deref() == Some(ARCHIVED);
    (lifetime.is_expired(now) && !(is_archived && expiry == Expiry::Archive)).then_some(lifetime)
  }

  fn is_running(&self) -> bool {
    self.status.as_deref().is_some_and(|status| RUNNING.contains(&status))
  }

  /// Whether it has expired and is not running.
  fn is_expired(&self, now: f64) -> bool {
    self.expires_at.is_some_and(|time| time <= now) && !self.is_running()
  }
}

/// What `expire_sessions` did.
#[derive(Debug, Default)]
pub struct Expired {
  /// A JSON object for each session that was archived or deleted.
  pub lines: Vec<String>,
  /// Expired sessions that could not be archived or deleted.
  pub failed: Vec<(SessionId, Error)>,
}

impl Store {
  /// Archives or deletes the sessions that had expired at `now`. Skips sessions whose document cannot be read, which a verification
  /// reports, and sessions of other owners. A failure of one session does not affect the others.
  pub fn expire_sessions(&self, now: f64, expiry: Expiry) -> Result<Expired> {
    let mut expired = Expired::default();
    for batch in self.backend.sessions(SessionFilter::Saved)?.chunks(BATCH) {
      // Most have not expired; these are not locked.
      let documents = self
        .backend
        .read_documents(batch, Document::Session, self.options.max_read_bytes)?;
      for (session, document) in batch.iter().zip(documents) {
        let ended = match document {
          Ok(document) => match document
            .as_deref()
            .and_then(|bytes| Lifetime::if_expired(bytes, now, expiry))
          {
            Some(_) => self.expire(session, now, expiry),
            None => Ok(None),
          },
          Err(error) => Err(error),
        };
        match ended {
          Ok(None) => {}
          Ok(Some(lifetime)) => expired.lines.push(row(session, &lifetime, expiry)),
          Err(error) if matches!(error.code, Code::Corrupt | Code::TooLarge | Code::LeaseLost) => {}
          Err(error) => expired.failed.push((session.clone(), error)),
        }
      }
    }
    Ok(expired)
  }

  /// Archives or deletes a session if it has expired. Decision and change are one atomic step: a session that becomes active again is
  /// kept. Returns its lifetime; `None` if the session was not changed.
  fn expire(&self, session: &SessionId, now: f64, expiry: Expiry) -> Result<Option<Lifetime>> {
    let mut ended = None;
    let limit = self.options.max_read_bytes;
    if expiry == Expiry::Delete {
      let accepts = &mut |document: Option<&[u8]>| {
        ended = document.and_then(|bytes| Lifetime::if_expired(bytes, now, expiry));
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
        ended = old
          .as_deref()
          .and_then(|bytes| Lifetime::if_expired(bytes, now, expiry));
        let (Some(_), Some(text)) = (&ended, old.and_then(|bytes| String::from_utf8(bytes).ok())) else {
          return Ok(None);
        };
        let archived = edit(&compact(&text), &[Edit::Set("status", &quoted(ARCHIVED))]);
        let archived = archived.map_err(|error| Error::corrupt(&self.session_path(session), error))?;
        Ok(Some(laid_out(&archived)?.into()))
      })?;
    Ok(ended)
  }

  /// Deletes all checkpoints of a series, pinned ones too, and returns how many. If one cannot be deleted, the others are, and its error
  /// is returned.
  pub fn delete_checkpoints(&self, series: &Series) -> Result<usize> {
    let (mut deleted, mut first_error) = (0, None);
    let entries = self.backend.checkpoints(series)?;
    // Oldest first: an interruption leaves the newest.
    for entry in entries.iter().rev() {
      match self.backend.remove(&series.session, series.item_of(entry)) {
        Ok(is_deleted) => deleted += usize::from(is_deleted),
        // The timeout is that of the call, not of each checkpoint.
        Err(error) if error.code == Code::Busy => return Err(error),
        Err(error) => first_error = first_error.or(Some(error)),
      }
    }
    let ids: Vec<_> = entries.into_iter().map(|entry| entry.id).collect();
    if let Err(error) = self.forget_labels(series, &ids) {
      first_error = first_error.or(Some(error));
    }
    // Delete bases that lost their deltas in another way. One that remains only takes up space.
    let _ = self.backend.maintain(Maintenance::DeleteUnusedBases(series));
    first_error.map_or(Ok(deleted), Err)
  }

  /// The sessions whose last known status may be a running one.
  pub fn recoverable(&self) -> Result<Vec<Recoverable>> {
    let mut found = Vec::new();
    for session in self.backend.sessions(SessionFilter::All)? {
      found.extend(self.recoverable_session(session)?);
    }
    Ok(found)
  }

  fn recoverable_session(&self, session: SessionId) -> Result<Option<Recoverable>> {
    let series = Series::from(&session);
    // Without a readable document, the newest whole checkpoint decides.
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
          // A checkpoint that is too long for a JavaScript string still has a summary.
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

  /// The row of one checkpoint, as JSON.
  fn info_of(&self, series: &Series, entry: &CheckpointEntry) -> Result<Option<String>> {
    let (rows, _) = self.rows(series, slice::from_ref(entry))?;
    Ok(rows.first().map(Row::to_json))
  }
}

/// The report of an expired session, as JSON.
fn row(session: &SessionId, lifetime: &Lifetime, expiry: Expiry) -> String {
  let mut out = ObjectWriter::with_capacity(128);
  out.push("sessionId", &quoted(session.as_str()));
  out.push("status", &lifetime.status_literal);
  out.push("expiresAt", &lifetime.expires_at.unwrap_or_default().to_string());
  let action = match expiry {
    Expiry::Archive => "\"archived\"",
    Expiry::Delete => "\"deleted\"",
  };
  out.push("action", action);
  out.finish()
}

/// The session in a checkpoint, as JSON.
fn session_of(stored: &StoredCheckpoint) -> Option<String> {
  let text = stored.compact_text();
  let found = members(&text).ok()?;
  find(&found, "session").map(|member| member.value.to_owned())
}
