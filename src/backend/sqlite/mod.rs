//! One SQLite database in WAL mode: for many sessions, many writers, and one file to carry.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::{Content, Fences, Item, NewItem, Settings};
use crate::types::error::{Error, Result};
use crate::types::id::SessionId;

mod backend;
mod bases;
mod checkpoints;
mod connections;
mod contents;
mod documents;
mod failure;
mod leases;
mod queue;
mod schema;
mod sessions;
mod writer;

use bases::BaseKey;
use checkpoints::CheckpointKey;
use connections::Readers;
use contents::Contents;
use documents::DocumentKey;
use failure::{DbError, Failure};
use queue::Queue;
use writer::{Label, Operation, give_back_pages};

/// After a deletion, so many pages are given back in one transaction: others get their turn in between.
const PAGES_AT_ONCE: u32 = 512;

#[derive(Debug)]
pub struct SqliteBackend {
  path: PathBuf,
  settings: Settings,
  /// Closed before the writer: none of them keeps the log from being moved.
  readers: Readers,
  queue: Queue,
  fences: Fences,
}

impl SqliteBackend {
  /// `path` must be absolute. Nothing is touched before [`super::Backend::initialize`].
  #[must_use]
  pub fn new(path: PathBuf, settings: impl Into<Settings>) -> Self {
    let settings = settings.into();
    Self {
      readers: Readers::new(path.clone(), settings.timeout),
      queue: Queue::new(settings.timeout),
      fences: Fences::default(),
      path,
      settings,
    }
  }

  /// The name of something below a session.
  fn name(&self, session: &SessionId, below: &str) -> String {
    format!("sqlite:{}#{session}/{below}", self.path.display())
  }

  fn name_of_session(&self, session: &SessionId) -> String {
    format!("sqlite:{}#{session}", self.path.display())
  }

  fn label(&self, doing: &'static str, session: &SessionId, item: Item<'_>) -> Label {
    let name = self.name(session, &item.to_string());
    Label { doing, name }
  }

  /// Everything is rendered before it queues, outside of any lock.
  fn bytes(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let name = || self.name(session, &item.to_string());
    match content.write_to(&mut bytes) {
      Ok(()) => Ok(bytes),
      Err(error) => Err(Error::io("write", Path::new(&name()), error)),
    }
  }

  /// Puts a write to a session into the queue. It is held against the session's lease in its own transaction.
  fn submit(
    &self,
    session: &SessionId,
    label: Label,
    must_last: bool,
    mut run: impl FnMut(&Connection) -> Result<bool, Failure> + Send + 'static,
  ) -> Result<bool> {
    let (session, fence) = (session.clone(), self.fences.of(session));
    let done = self.queue.submit(label, must_last, move |connection| {
      leases::admitted(connection, &session, fence, || run(connection))
    });
    done.inspect_err(|error| self.fences.observe(error))
  }

  /// On this thread, and durable when it returns: nobody works under a lease that a power cut takes back.
  fn change_lease<T>(
    &self,
    doing: &'static str,
    session: &SessionId,
    change: impl Fn(&Connection) -> Result<T, Failure>,
  ) -> Result<T> {
    let label = Label {
      doing,
      name: self.name_of_session(session),
    };
    let mut answer = None;
    self.queue.exclusively(|writer| {
      let writer = writer.as_mut().ok_or_else(queue::not_open)?;
      let mut run = |connection: &_| {
        answer = Some(change(connection)?);
        Ok(true)
      };
      let mut operations = [Operation {
        label: &label,
        must_last: true,
        run: &mut run,
      }];
      let outcomes = writer.commit(&mut operations);
      outcomes.into_iter().try_for_each(|outcome| outcome.map(drop))
    })?;
    answer.ok_or_else(queue::not_open)
  }

  /// Gives free pages back to the file system and cuts the log; `name` is that of what was deleted.
  fn vacuum(&self, name: &str) -> Result<()> {
    let doing = "give back the space of";
    let label = || Label {
      doing,
      name: name.to_owned(),
    };
    let some = |connection: &_| Ok(give_back_pages(connection, PAGES_AT_ONCE)?);
    while self.queue.submit(label(), false, some)? {}
    self.queue.exclusively(|writer| match writer {
      Some(writer) => {
        let shortened = writer.shorten_files();
        shortened.map(drop).map_err(|refusal| refusal.to_error(doing, name))
      }
      None => Ok(()),
    })
  }

  fn query<T>(&self, name: impl FnOnce() -> String, read: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T> {
    self
      .readers
      .read(read)
      .map_err(|failure| failure.into_error("read", &name()))
  }
}

/// Where an item is stored, in words of its own: an operation may run on another thread.
enum RowKey {
  Checkpoint(CheckpointKey),
  Base(BaseKey),
  Document(DocumentKey),
}

impl RowKey {
  fn of(session: &SessionId, item: Item<'_>) -> Self {
    match item {
      Item::Checkpoint(agent, id, encoding) => Self::Checkpoint(CheckpointKey::new(session, agent, id, encoding)),
      Item::Base(agent, id) => Self::Base(BaseKey::new(session, agent, id)),
      _ => Self::Document(DocumentKey::new(session, item)),
    }
  }

  /// What it replaces is not kept.
  fn put(&self, connection: &Connection, bytes: &[u8]) -> Result<(), Failure> {
    match self {
      Self::Checkpoint(key) => checkpoints::put(connection, key, bytes)?,
      Self::Base(key) => bases::put(connection, key, bytes)?,
      Self::Document(key) => {
        if !documents::put(connection, key, bytes)? {
          return Err(Error::invalid_argument("A version that is not there cannot be replaced").into());
        }
      }
    }
    Ok(())
  }

  /// Into a session that is being made.
  fn add(&self, connection: &Connection, new: &NewItem<'_>, bytes: &[u8]) -> Result<(), DbError> {
    match self {
      Self::Checkpoint(key) => checkpoints::add(connection, key, bytes, new.made_at, new.is_pinned)?,
      Self::Base(key) => bases::put(connection, key, bytes)?,
      Self::Document(key) => documents::add(connection, key, bytes)?,
    }
    Ok(())
  }

  fn read(&self, connection: &Connection, limit: u64) -> rusqlite::Result<Option<Contents>> {
    match self {
      Self::Checkpoint(key) => checkpoints::read(connection, key, limit),
      Self::Base(key) => bases::read(connection, key, limit),
      Self::Document(key) => documents::read(connection, key, limit),
    }
  }

  fn remove(&self, connection: &Connection) -> rusqlite::Result<bool> {
    match self {
      Self::Checkpoint(key) => checkpoints::remove(connection, key),
      Self::Base(key) => bases::remove(connection, key),
      Self::Document(key) => documents::remove(connection, key),
    }
  }
}

#[cfg(test)]
mod tests;
