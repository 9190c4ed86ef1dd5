//! Labels, forks, and what concerns all sessions.

use std::path::PathBuf;

use super::{Arguments, is_absent, is_undefined, to_usize};
use crate::api::convert::engine::{Value, number_of, text_of};
use crate::api::convert::text::Text;
use crate::backend::user_files::file_path;
use crate::store::{AllRequest, Expiry, ForkRequest, Label, LabelRequest};
use crate::types::error::Result;
use crate::types::id::{CheckpointId, SessionId};
use crate::types::time::now_ms;

impl Arguments<'_> {
  /// A label, and the same as JSON.
  pub fn label_and_literal(self, value: Value, name: &str) -> Result<Label> {
    let literal = self.json(value, name).map(Text::into_string);
    Ok(Label {
      text: self.label(value, name)?,
      literal: literal?,
    })
  }

  pub fn label_request(self, session: Value, checkpoint: Value, label: Value, options: Value) -> Result<LabelRequest> {
    let (session, checkpoint) = self.names(session, checkpoint)?;
    if is_undefined(label) {
      return Err(self.wrong("label", "a string, or null", label));
    }
    let label = if is_absent(label) {
      None
    } else {
      Some(self.label_and_literal(label, "label")?)
    };
    self.optional_object(options, "options")?;
    Ok(LabelRequest {
      session,
      checkpoint,
      label,
      is_unique: self.flag(options, "unique")?,
    })
  }

  pub fn fork(self, options: Value) -> Result<ForkRequest> {
    self.object(options, "options")?;
    let text = |name: &str| self.string(self.get(options, name)?, &format!("options.{name}"));
    Ok(ForkRequest {
      session: SessionId::parse(&text("sessionId")?)?,
      checkpoint: CheckpointId::parse(&text("checkpointId")?)?,
      new_session: SessionId::parse(&text("newSessionId")?)?,
      resets: self.resets(options)?,
    })
  }

  pub fn all_request(self, options: Value) -> Result<AllRequest> {
    self.optional_object(options, "options")?;
    let (limit, cursor) = self.page(options)?;
    Ok(AllRequest {
      limit,
      cursor,
      filter: self.filter(options)?,
    })
  }

  /// `(now?, { action? })`
  pub fn expiry(self, now: Value, options: Value) -> Result<(f64, Expiry)> {
    #[expect(clippy::cast_precision_loss, reason = "times are below 2^53")]
    let now = if is_undefined(now) {
      now_ms() as f64
    } else {
      self.time(now, "now")?
    };
    self.optional_object(options, "options")?;
    let expiry = match self.option(options, "action")? {
      None => Expiry::Archive,
      Some(action) => match text_of(action).as_deref() {
        Some("archive") => Expiry::Archive,
        Some("delete") => Expiry::Delete,
        _ => return Err(self.wrong("options.action", "\"archive\" or \"delete\"", action)),
      },
    };
    Ok((now, expiry))
  }

  pub fn copied_session(self, options: Value) -> Result<Option<SessionId>> {
    self.optional_object(options, "options")?;
    let session = self.option(options, "sessionId")?;
    session.map(|session| self.session_id(session)).transpose()
  }

  /// A file of the user's, outside of the store. A relative path is resolved now.
  pub fn file(self, value: Value) -> Result<PathBuf> {
    file_path(&self.string(value, "file")?)
  }

  /// Another id for the session that comes in.
  pub fn imported_as(self, options: Value) -> Result<Option<SessionId>> {
    self.optional_object(options, "options")?;
    let Some(session) = self.option(options, "as")? else {
      return Ok(None);
    };
    SessionId::parse(&self.string(session, "options.as")?).map(Some)
  }

  /// Which version of a document is wanted: 0, or how many before the current one.
  pub fn version(self, options: Value) -> Result<u32> {
    self.optional_object(options, "options")?;
    let Some(version) = self.option(options, "version")? else {
      return Ok(0);
    };
    let back = number_of(version).filter(|number| *number <= 0.0 && number.fract() == 0.0);
    if let Some(back) = back.and_then(|number| u32::try_from(to_usize(-number)).ok()) {
      return Ok(back);
    }
    Err(self.wrong(
      "options.version",
      "0 for the current one, -1 for the one before, and so on",
      version,
    ))
  }
}
