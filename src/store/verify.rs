//! Verifying checkpoints and the other items of a session.

use super::labels::{self, not_found};
use super::retention;
use super::{Store, StoredCheckpoint};
use crate::backend::{
  BackendExt, CheckpointEntry, Document as DocumentKind, Encoding, Item, ItemKind, Series, time_in_id,
};
use crate::checkpoint::agent::split_context;
use crate::checkpoint::document::Document;
use crate::json::canonical::canonical;
use crate::json::layout::{MAX_TEXT_UNITS, excess_units};
use crate::json::scan::{find, members, text_of, unescape, validate};
use crate::store::Damaged;
use crate::types::error::{Code, Error, Result, shortened};
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::progress::{Control, Meter, Phase};
use crate::types::time::Timestamp;

/// The verification of all items of a session.
#[derive(Debug)]
pub struct SessionReport {
  pub session: SessionId,
  /// Newest first.
  pub checkpoints: Vec<Result<StoredCheckpoint, Damaged>>,
  /// Of each agent, newest first.
  pub agents: Vec<(AgentId, Vec<Result<StoredCheckpoint, Damaged>>)>,
  /// The session's documents and the results.
  pub files: Vec<FileReport>,
}

#[derive(Debug)]
pub struct FileReport {
  pub path: String,
  pub damage: Option<Error>,
}

impl StoredCheckpoint {
  /// The text without white space, and whether the checksums match it.
  pub fn check_as_stored(&self) -> Result<(bool, String)> {
    let text = self.compact_text();
    let matches = self.document(&text)?.checksums_match();
    Ok((matches, text.into_owned()))
  }

  /// The text, compact, in a form that the checksums match; an error if there is none.
  pub fn verified_text(&self) -> Result<String> {
    match self.check_as_stored()? {
      (true, text) => Ok(text),
      (false, _) => self.verified_canonical_text(),
    }
  }

  /// The canonical text, if the checksums match it: they do where another program has written the same data in another form.
  pub(super) fn verified_canonical_text(&self) -> Result<String> {
    let text = canonical(&self.text).map_err(|error| Error::corrupt(&self.path, error).because(error))?;
    if self.document(&text)?.checksums_match() {
      return Ok(text.into_owned());
    }
    Err(Error::new(
      Code::ChecksumMismatch,
      format!("{} is damaged: its checksums do not match its data", self.path),
    ))
  }

  /// The checkpoint with the form of its text that the checksums match; `None` if the stored form does. Both forms have the same
  /// checksums, but not always the same value: `1e400` is `null` in canonical JSON.
  pub fn verified_form(&self) -> Result<Option<Self>> {
    match self.check_as_stored()? {
      (true, _) => Ok(None),
      (false, _) => Ok(Some(Self {
        text: self.verified_canonical_text()?,
        is_compact: true,
        is_verified: true,
        ..self.clone()
      })),
    }
  }

  /// The same checkpoint with its verified text. The bytes of an agent's checkpoint are taken out of that.
  fn verified(mut self) -> Result<Self> {
    self.text = self.verified_text()?;
    (self.is_compact, self.is_verified) = (true, true);
    if self.is_of_agent {
      let split = split_context(&self.text);
      let (rest, context) = split.map_err(|error| Error::corrupt(&self.path, error).because(error))?;
      (self.text, self.context) = (rest.into_owned(), context);
    }
    Ok(self)
  }

  /// An error if the text is longer than a JavaScript string can be: an earlier version may have stored it.
  pub fn check_length(&self) -> Result<()> {
    if excess_units(&self.text).is_none() {
      return Ok(());
    }
    // The engine gets the verified text, which has neither white space nor the bytes of an agent.
    match (self.is_verified, self.is_of_agent) {
      (false, true) => Ok(()),
      _ => check_length(&self.compact_text(), &self.path),
    }
  }

  /// The members of a compact text of this checkpoint; an error if its version is too new, or its id is another one.
  pub(super) fn document<'a>(&self, compact: &'a str) -> Result<Document<'a>> {
    let document = Document::parse(compact).map_err(|error| {
      // The position in the stored text is more useful than the one in the compact text.
      let error = validate(&self.text).err().unwrap_or(error);
      Error::corrupt(&self.path, error).because(error)
    })?;
    if let Some(version) = document.newer_version() {
      return Err(Error::new(
        Code::NewerVersion,
        format!(
          "{} was written by a newer version, {version}. Update waymark to read it",
          self.path
        ),
      ));
    }
    // Users may rename copies, but the ids that this store makes are those of their contents.
    let id = document.member("id").unwrap_or("of no name");
    if time_in_id(self.id.as_str()).is_some() && unescape(id.trim_matches('"')) != self.id.as_str() {
      return Err(Error::corrupt(&self.path, format!("it holds the checkpoint {id}")));
    }
    Ok(document)
  }
}

/// An error if a stored text is longer than a JavaScript string can be.
pub fn check_length(text: &str, path: &str) -> Result<()> {
  match excess_units(text) {
    None => Ok(()),
    Some(units) => Err(Error::new(
      Code::TooLarge,
      format!(
        "{path} has {units} UTF-16 code units of JSON, and a JavaScript string holds at most {MAX_TEXT_UNITS}. Other programs \
         can read it, and exportSession() includes it"
      ),
    )),
  }
}

impl Store {
  /// A checkpoint, verified.
  pub(super) fn verified(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
  ) -> Result<Option<StoredCheckpoint>> {
    let stored = self.read_checkpoint(series, id, encoding)?;
    stored.map(StoredCheckpoint::verified).transpose()
  }

  /// A checkpoint, verified; an error if its text is longer than a JavaScript string can be.
  pub(super) fn readable(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
  ) -> Result<Option<StoredCheckpoint>> {
    let Some(stored) = self.read_checkpoint(series, id, encoding)? else {
      return Ok(None);
    };
    // Cheaper than the checksums.
    stored.check_length()?;
    let stored = stored.verified()?;
    stored.check_length()?;
    Ok(Some(stored))
  }

  /// A checkpoint in any encoding, verified.
  pub fn verified_in_any_encoding(&self, series: &Series, id: &CheckpointId) -> Result<Option<StoredCheckpoint>> {
    let read = |encoding| self.verified(series, id, encoding);
    self.in_current_encoding(series, id, &Encoding::ALL, read)
  }

  /// A checkpoint, verified if it is small. The caller verifies a large one: that takes about as long as parsing it, and both can be
  /// done at the same time.
  pub(super) fn verified_if_small(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
  ) -> Result<Option<StoredCheckpoint>> {
    const LARGE: usize = 1 << 17;
    match self.read_checkpoint(series, id, encoding)? {
      Some(stored) if stored.text.len() < LARGE => stored.verified().map(Some),
      unverified => Ok(unverified),
    }
  }

  /// Verifies one checkpoint; an error if it does not exist.
  pub fn verify_checkpoint(&self, series: &Series, id: &CheckpointId) -> Result<Result<StoredCheckpoint, Damaged>> {
    self.recheck_bases(series);
    let read = |encoding| match self.readable(series, id, encoding) {
      Ok(stored) => Ok(stored.map(Ok)),
      Err(error) => {
        let entry = CheckpointEntry::new(id.clone(), encoding, Timestamp::default);
        Ok(Some(Err(self.damaged(series, &entry, error))))
      }
    };
    let found = self.in_current_encoding(series, id, &Encoding::ALL, read)?;
    found.ok_or_else(|| not_found(series, id))
  }

  /// Verifies all items of a session.
  pub fn verify_session(&self, session: &SessionId, control: &Control) -> Result<SessionReport> {
    let mut meter = Meter::new(control, Phase::Verify);
    let checkpoints = self.verify_series(&session.into(), &mut meter)?;
    let mut agents = Vec::new();
    for series in self.agent_series(session)? {
      let verified = self.verify_series(&series, &mut meter)?;
      agents.extend(series.agent.map(|agent| (agent, verified)));
    }
    let results = self.backend.items(session, ItemKind::TaskResults)?;
    let items = [Item::SESSION, Item::TASK_TREE, Item::LABELS, Item::RETENTION]
      .into_iter()
      .chain(results.iter().map(|result| result.name.item()));
    let files = items.filter_map(|item| self.verify_file(session, item)).collect();
    Ok(SessionReport {
      session: session.clone(),
      checkpoints,
      agents,
      files,
    })
  }

  fn verify_series(&self, series: &Series, meter: &mut Meter<'_>) -> Result<Vec<Result<StoredCheckpoint, Damaged>>> {
    self.recheck_bases(series);
    let entries = self.backend.checkpoints(series)?;
    meter.expect(entries.len());
    let mut verified = Vec::with_capacity(entries.len());
    for entry in &entries {
      meter.check()?;
      let mut read = self.read_entry(series, entry);
      meter.done(match &read {
        Some(Ok(stored)) => stored.size_bytes,
        _ => 0,
      });
      // The report needs no text, and all texts together may exceed the memory.
      if let Some(Ok(stored)) = &mut read {
        (stored.text, stored.context) = (String::new(), None);
      }
      verified.extend(read);
    }
    Ok(verified)
  }

  fn verify_file(&self, session: &SessionId, item: Item<'_>) -> Option<FileReport> {
    let path = self.backend.name_of(session, item);
    let damage = match self.load(session, item) {
      Ok(None) => return None,
      Ok(Some(loaded)) => check_file(session, item, &loaded.text, &path).err(),
      Err(error) => Some(error),
    };
    Some(FileReport { path, damage })
  }
}

/// An error if a text is not valid for an item of a session.
fn check_file(session: &SessionId, item: Item<'_>, text: &str, path: &str) -> Result<()> {
  validate(text).map_err(|error| Error::corrupt(path, error).because(error))?;
  check_shape(item, text, path)?;
  check_length(text, path)?;
  match item {
    Item::SESSION => check_id(session, text, path),
    Item::LABELS => labels::parse(text.as_bytes().to_vec(), path).and_then(|_| check_labels(text, path)),
    Item::RETENTION => retention::parse(text, path).map(drop),
    _ => Ok(()),
  }
}

/// An error if an item that must be a JSON object is none.
pub(super) fn check_shape(item: Item<'_>, text: &str, path: &str) -> Result<()> {
  let what = match item {
    Item::Document(kind) | Item::Previous(kind, _) => match kind {
      DocumentKind::Session => "session",
      DocumentKind::TaskTree => "task tree",
      DocumentKind::Labels => "document of labels",
      DocumentKind::Retention => "document of retention",
    },
    _ => return Ok(()),
  };
  if text.trim_start().starts_with('{') {
    return Ok(());
  }
  Err(Error::corrupt(
    path,
    format!("it holds no JSON object, so it is no {what}"),
  ))
}

/// An error if a session document has the id of another session: saving it would write to that one.
fn check_id(session: &SessionId, text: &str, path: &str) -> Result<()> {
  let members = members(text).map_err(|error| Error::corrupt(path, error).because(error))?;
  match find(&members, "id").and_then(|id| text_of(id.value)) {
    Some(id) if id != session.as_str() => Err(Error::corrupt(
      path,
      format!(
        "it is the document of session {:?}. Restore a checkpoint of this session, or save it with its own id",
        shortened(&id)
      ),
    )),
    _ => Ok(()),
  }
}

fn check_labels(text: &str, path: &str) -> Result<()> {
  let members = members(text).map_err(|error| Error::corrupt(path, error).because(error))?;
  let is_label = |value: &str| value == "null" || value.starts_with('"');
  match members.iter().find(|member| !is_label(member.value)) {
    Some(member) => Err(Error::corrupt(
      path,
      format!(
        "its label of {} is {}",
        shortened(member.raw_key),
        shortened(member.value)
      ),
    )),
    None => Ok(()),
  }
}
