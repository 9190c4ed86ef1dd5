//! Whether what is stored is whole, from its bytes.

use super::labels::{self, not_found};
use super::retention;
use super::{Store, StoredCheckpoint};
use crate::backend::{
  BackendExt, CheckpointEntry, Document as DocumentKind, Encoding, Item, ItemKind, Series, time_in_id,
};
use crate::checkpoint::agent::split_context;
use crate::checkpoint::document::Document;
use crate::json::layout::{MAX_TEXT_UNITS, excess_units};
use crate::json::scan::{find, members, text_of, unescape, validate};
use crate::store::Damaged;
use crate::types::error::{Code, Error, Result, shortened};
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::progress::{Control, Meter, Phase};

/// What the checksums of a checkpoint say about its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
  Unchecked,
  /// The checksums fit.
  Fits,
  /// They do not fit the text as it is spelt. It may still be another spelling of the same data: only the engine that
  /// defines the spelling can tell.
  Suspect,
}

/// Everything of a session, whole or not.
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
  /// Checks everything that the bytes can tell. The text comes back without white space: it takes the engine less time.
  pub fn check(&self) -> Result<(Spelling, String)> {
    let text = self.compact_text();
    let fits = self.document(&text)?.checksums_fit();
    Ok((if fits { Spelling::Fits } else { Spelling::Suspect }, text.into_owned()))
  }

  /// The same, checked.
  fn checked(mut self) -> Result<Self> {
    let (spelling, text) = self.check()?;
    match spelling {
      Spelling::Fits => self.take_over(text)?,
      Spelling::Suspect | Spelling::Unchecked => self.text = text,
    }
    Ok(Self { spelling, ..self })
  }

  /// An error if no JavaScript engine can hold the text: a version that did not count its units may have stored it.
  pub fn check_length(&self) -> Result<()> {
    // What is not the text that an engine gets has white space in it, or the bytes of an agent.
    match (self.spelling, self.is_of_agent) {
      _ if excess_units(&self.text).is_none() => Ok(()),
      (Spelling::Unchecked, true) => Ok(()),
      (Spelling::Unchecked, false) => check_length(&self.compact_text(), &self.path),
      (Spelling::Fits | Spelling::Suspect, _) => check_length(&self.text, &self.path),
    }
  }

  /// Goes on with a text that was checked. The bytes of an agent's checkpoint are taken out of it.
  pub fn take_over(&mut self, text: String) -> Result<()> {
    self.text = text;
    if self.is_of_agent {
      let split = split_context(&self.text);
      let (rest, context) = split.map_err(|error| Error::corrupt(&self.path, error).because(error))?;
      (self.text, self.context) = (rest.into_owned(), context);
    }
    Ok(())
  }

  /// Judges a suspect by its text as the engine spells it, compact.
  pub fn check_respelled(&self, text: &str) -> Result<()> {
    if self.document(text)?.checksums_fit() {
      return Ok(());
    }
    Err(Error::new(
      Code::ChecksumMismatch,
      format!("{} is damaged: its data do not fit its checksums", self.path),
    ))
  }

  /// The members of a compact text of this checkpoint, known to be of a version and an identity that it may have.
  pub(super) fn document<'a>(&self, compact: &'a str) -> Result<Document<'a>> {
    let document = Document::parse(compact).map_err(|error| {
      // Where the stored text goes wrong says more than where the compact one does.
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
    // A person may keep a copy under another name; our own names say what is inside.
    let id = document.member("id").unwrap_or("of no name");
    if time_in_id(self.id.as_str()).is_some() && unescape(id.trim_matches('"')) != self.id.as_str() {
      return Err(Error::corrupt(&self.path, format!("it holds the checkpoint {id}")));
    }
    Ok(document)
  }
}

/// An error if no JavaScript engine can hold a stored text.
pub fn check_length(text: &str, path: &str) -> Result<()> {
  match excess_units(text) {
    None => Ok(()),
    Some(units) => Err(Error::new(
      Code::TooLarge,
      format!(
        "{path} has {units} UTF-16 code units of JSON, and a JavaScript string holds at most {MAX_TEXT_UNITS}. Other programs \
         can read it; exportSession() carries it along"
      ),
    )),
  }
}

impl Store {
  /// A checkpoint, checked as far as its bytes allow.
  pub(super) fn verified(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
  ) -> Result<Option<StoredCheckpoint>> {
    let stored = self.read_checkpoint(series, id, encoding)?;
    stored.map(StoredCheckpoint::checked).transpose()
  }

  /// The same; one that no engine can hold is an error.
  pub(super) fn readable(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
  ) -> Result<Option<StoredCheckpoint>> {
    let Some(stored) = self.read_checkpoint(series, id, encoding)? else {
      return Ok(None);
    };
    // Before the checksums, which take longer.
    stored.check_length()?;
    let stored = stored.checked()?;
    stored.check_length()?;
    Ok(Some(stored))
  }

  /// The same, in whatever encoding it is stored.
  pub fn verified_anyhow(&self, series: &Series, id: &CheckpointId) -> Result<Option<StoredCheckpoint>> {
    let read = |encoding| self.verified(series, id, encoding);
    self.in_its_encoding(series, id, &Encoding::ALL, read)
  }

  /// The same as the first, but a large one is left for the caller to check: that takes about as long as parsing it, and can be done
  /// at the same time.
  pub(super) fn verified_if_small(
    &self,
    series: &Series,
    id: &CheckpointId,
    encoding: Encoding,
  ) -> Result<Option<StoredCheckpoint>> {
    const LARGE: usize = 1 << 17;
    match self.read_checkpoint(series, id, encoding)? {
      Some(stored) if stored.text.len() < LARGE => stored.checked().map(Some),
      unchecked => Ok(unchecked),
    }
  }

  /// One checkpoint: what is known of it, or what is wrong with it. One that does not exist is an error.
  pub fn verify_checkpoint(&self, series: &Series, id: &CheckpointId) -> Result<Result<StoredCheckpoint, Damaged>> {
    self.doubt_keys(series);
    let read = |encoding| match self.readable(series, id, encoding) {
      Ok(stored) => Ok(stored.map(Ok)),
      Err(error) => {
        let entry = CheckpointEntry::new(id.clone(), encoding, || 0);
        Ok(Some(Err(self.damaged(series, &entry, error))))
      }
    };
    let found = self.in_its_encoding(series, id, &Encoding::ALL, read)?;
    found.ok_or_else(|| not_found(series, id))
  }

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
    self.doubt_keys(series);
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
      // Of one that is whole, nobody needs the text, and all of them together may be more than fits.
      if let Some(Ok(stored)) = &mut read
        && stored.spelling == Spelling::Fits
      {
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

/// Whether a text is what an item of a session must be.
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

/// An error if a JSON text is no object, and the item must be one.
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

/// A document of another session was put there by hand: saving what it says would write to that session.
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
    Some(stranger) => Err(Error::corrupt(
      path,
      format!(
        "its label of {} is {}",
        shortened(stranger.raw_key),
        shortened(stranger.value)
      ),
    )),
    None => Ok(()),
  }
}
