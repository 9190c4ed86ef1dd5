//! Arguments of methods for labels, forks, files, versions and all sessions.

use std::path::PathBuf;

use super::{Arguments, is_absent, is_undefined, to_usize};
use crate::api::convert::engine::{Value, number_of, text_of};
use crate::api::convert::text::Text;
use crate::store::user_files::file_path;
use crate::store::{AllRequest, Expiry, ForkRequest, Label, LabelRequest};
use crate::types::error::Result;
use crate::types::id::{CheckpointId, SessionId};
use crate::types::time::now_ms;

impl Arguments<'_> {
  /// A label and its JSON.
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

  /// The path of a file outside the store. A relative path is resolved now.
  pub fn file(self, value: Value) -> Result<PathBuf> {
    file_path(&self.string(value, "file")?)
  }

  /// `{ as? }`: another id for the imported session.
  pub fn imported_as(self, options: Value) -> Result<Option<SessionId>> {
    self.optional_object(options, "options")?;
    let Some(session) = self.option(options, "as")? else {
      return Ok(None);
    };
    SessionId::parse(&self.string(session, "options.as")?).map(Some)
  }

  /// `{ version? }`: 0 for the current version, or how many versions before it.
  pub fn version(self, options: Value) -> Result<u32> {
    self.optional_object(options, "options")?;
    let Some(version) = self.option(options, "version")? else {
      return Ok(0);
    };
    let number = number_of(version).filter(|number| *number <= 0.0 && number.fract() == 0.0);
    let steps_back = number.and_then(|number| u32::try_from(to_usize(-number)).ok());
    steps_back.ok_or_else(|| {
      self.wrong(
        "options.version",
        "0 for the current version, -1 for the one before, and so on",
        version,
      )
    })
  }
}
