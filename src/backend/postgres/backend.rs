//! The operations of a place, on a server.

use uuid::Uuid;

use super::lists::Near;
use super::replacing::{self, Replacement};
use super::{PostgresBackend, checkpoints, documents, founding, keys, lists, schema, sessions};
use crate::backend::{
  Backend, Change, CheckpointEntry, Content, Document, Encoding, Footing, Item, Look, Peek, Peeked, Put, Series,
  Supply, Surplus, Usage, Wanted,
};
use crate::error::{Error, Result};
use crate::id::{AgentId, CheckpointId, SessionId, TaskId};

impl Backend for PostgresBackend {
  fn location(&self) -> String {
    self.target.location()
  }

  fn name_of(&self, session: &SessionId, item: Item<'_>) -> String {
    self.name(session, &item.to_string())
  }

  fn initialize(&self) -> Result<()> {
    schema::ensure(self)
  }

  fn create_session(&self, session: &SessionId) -> Result<()> {
    let name = || self.name_of_session(session);
    self.ask("create", &name, async |connection| {
      sessions::add(connection, session).await
    })
  }

  fn sessions(&self) -> Result<Vec<SessionId>> {
    let document = Item::SESSION.to_string();
    self.ask("read", &|| self.location(), async |connection| {
      sessions::list(connection, Some(&document)).await
    })
  }

  fn places(&self) -> Result<Vec<SessionId>> {
    self.ask("read", &|| self.location(), async |connection| {
      sessions::list(connection, None).await
    })
  }

  fn agents(&self, session: &SessionId) -> Result<Vec<AgentId>> {
    let name = || self.name_of_session(session);
    self.ask("read", &name, async |connection| {
      lists::agents(connection, session).await
    })
  }

  fn delete_session(&self, session: &SessionId) -> Result<Option<Error>> {
    let name = || self.name_of_session(session);
    self.ask("delete", &name, async |connection| {
      sessions::remove(connection, session).await
    })?;
    // The server uses the space again, after its next vacuum.
    Ok(None)
  }

  fn found(&self, session: &SessionId, supply: &mut Supply<'_>) -> Result<bool> {
    founding::found(self, session, supply)
  }

  fn write(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<u64> {
    let bytes = self.bytes(session, item, content)?;
    let token = Uuid::new_v4();
    let name = || self.name_of(session, item);
    self.ask("write", &name, async |connection| match item {
      Item::Checkpoint(agent, id, encoding) => {
        let key = checkpoints::Key::new(session, agent, id, encoding);
        checkpoints::put(connection, &key, &bytes, None).await.map(drop)
      }
      Item::Key(agent, id) => keys::put(connection, &keys::Key::new(session, agent, id), &bytes).await,
      Item::Document(document) => {
        let replacement = self.replacement(session, vec![(document, &bytes[..])], token);
        replacing::replace(connection, &replacement, None).await
      }
      Item::Previous(..) | Item::TaskResult(_) => {
        let key = documents::Key::new(session, item);
        replacing::put(connection, session, &key, &bytes, token).await
      }
    })?;
    Ok(bytes.len() as u64)
  }

  fn write_delta(
    &self,
    series: &Series,
    id: &CheckpointId,
    footing: Footing<'_>,
    content: &dyn Content,
  ) -> Result<Put> {
    let item = series.item(id, Encoding::Delta);
    let bytes = self.bytes(&series.session, item, content)?;
    let key = checkpoints::Key::new(&series.session, series.agent.as_ref(), id, Encoding::Delta);
    let name = || self.name_of(&series.session, item);
    let is_stored = self.ask("write", &name, async |connection| {
      checkpoints::put(connection, &key, &bytes, Some(&footing)).await
    })?;
    Ok(if is_stored {
      Put::Stored {
        size: bytes.len() as u64,
        key: Look {
          size: footing.bytes(),
          modified: 0,
        },
      }
    } else {
      Put::KeyIsGone
    })
  }

  fn keys(&self, series: &Series) -> Result<Vec<(CheckpointId, u64)>> {
    let name = || self.name_of_session(&series.session);
    self.ask("read", &name, async |connection| keys::list(connection, series).await)
  }

  fn remove_unused_keys(&self, series: &Series) -> Result<u64> {
    let name = || self.name_of_session(&series.session);
    self.ask("clean up", &name, async |connection| {
      keys::remove_unused(connection, series).await
    })
  }

  fn write_state(&self, session: &SessionId, session_document: &dyn Content, task_tree: &dyn Content) -> Result<()> {
    let document = self.bytes(session, Item::SESSION, session_document)?;
    let tree = self.bytes(session, Item::TASK_TREE, task_tree)?;
    let documents = vec![(Document::Session, &document[..]), (Document::TaskTree, &tree[..])];
    let replacement = self.replacement(session, documents, Uuid::new_v4());
    let name = || self.name_of(session, Item::SESSION);
    self.ask("write", &name, async |connection| {
      replacing::replace(connection, &replacement, None).await
    })
  }

  fn update(&self, session: &SessionId, document: Document, limit: u64, change: &mut Change<'_>) -> Result<()> {
    let item = Item::Document(document);
    let key = documents::Key::new(session, item);
    let (name, token) = (|| self.name_of(session, item), Uuid::new_v4());
    // Nothing is locked while the caller thinks: what is stored must still be what it was shown, or it is asked again.
    self.ask("write", &name, async |connection| {
      let (old, seen) = documents::read_seen(connection, &key, limit).await?;
      if seen.is_of(token) {
        return Ok(());
      }
      let old = old.map(|old| old.within(&name(), limit)).transpose()?;
      let Some(bytes) = change(old)? else {
        return Ok(());
      };
      let replacement = self.replacement(session, vec![(document, &bytes[..])], token);
      replacing::replace(connection, &replacement, Some(seen)).await
    })
  }

  fn read(&self, session: &SessionId, item: Item<'_>, limit: u64) -> Result<Option<Vec<u8>>> {
    let name = || self.name_of(session, item);
    let contents = self.ask("read", &name, async |connection| match item {
      Item::Checkpoint(agent, id, encoding) => {
        checkpoints::read(connection, &checkpoints::Key::new(session, agent, id, encoding), limit).await
      }
      Item::Key(agent, id) => keys::read(connection, &keys::Key::new(session, agent, id), limit).await,
      _ => documents::read(connection, &documents::Key::new(session, item), limit).await,
    })?;
    contents.map(|contents| contents.within(&name(), limit)).transpose()
  }

  fn peek(&self, series: &Series, entries: &[CheckpointEntry], head: usize, tail: usize) -> Result<Vec<Peeked>> {
    let name = || self.name_of_session(&series.session);
    let near = self.ask("read", &name, async |connection| {
      lists::peek(connection, series, entries, head, tail).await
    })?;
    let peek = |(entry, near)| match near {
      None => Ok(None),
      Some(Near::Enough(peek)) => Ok(Some(peek)),
      Some(Near::TooLittle) => {
        let whole = self.read(&series.session, series.item_of(entry), u64::MAX)?;
        Ok(whole.map(|bytes| Peek::of(&bytes, head, tail)))
      }
    };
    Ok(entries.iter().zip(near).map(peek).collect())
  }

  fn versions(&self, session: &SessionId, document: Document) -> Result<u32> {
    let name = || self.name_of(session, Item::Document(document));
    self.ask("read", &name, async |connection| {
      documents::versions(connection, session, document).await
    })
  }

  fn remove(&self, session: &SessionId, item: Item<'_>) -> Result<bool> {
    let name = || self.name_of(session, item);
    let (token, mut number) = (Uuid::new_v4(), None);
    self.ask("delete", &name, async |connection| match item {
      Item::Checkpoint(agent, id, encoding) => {
        checkpoints::remove(connection, &checkpoints::Key::new(session, agent, id, encoding)).await
      }
      Item::Key(agent, id) => keys::remove(connection, &keys::Key::new(session, agent, id)).await,
      _ => documents::remove(connection, &documents::Key::new(session, item), token, &mut number).await,
    })
  }

  fn retire(&self, series: &Series, entry: &CheckpointEntry) -> Result<bool> {
    let name = || self.name_of(&series.session, series.item_of(entry));
    self.ask("delete", &name, async |connection| {
      checkpoints::retire(connection, &checkpoints::Key::of(series, entry)).await
    })
  }

  /// What the server answered is as durable as anything else that it did.
  fn confirm_retired(&self, _series: &Series) -> Result<()> {
    Ok(())
  }

  fn set_made_at(&self, series: &Series, entry: &CheckpointEntry) -> Result<()> {
    let name = || self.name_of(&series.session, series.item_of(entry));
    self.ask("set the time of", &name, async |connection| {
      checkpoints::set_made_at(connection, &checkpoints::Key::of(series, entry), entry.made_at).await
    })
  }

  fn set_pinned(&self, series: &Series, id: &CheckpointId, is_pinned: bool) -> Result<bool> {
    let name = || self.name_of(&series.session, series.item(id, Encoding::Json));
    self.ask("pin", &name, async |connection| {
      checkpoints::set_pinned(connection, series, id, is_pinned).await
    })
  }

  fn quarantine(&self, session: &SessionId, item: Item<'_>) -> Result<Option<String>> {
    let name = || self.name_of(session, item);
    // The name says what it was; the second part keeps two of the same name apart.
    let new_name = format!("damaged/{}.{}", item.file_name(), Uuid::new_v4().simple());
    let mut number = None;
    let moved = self.ask("move aside", &name, async |connection| match item {
      Item::Checkpoint(agent, id, encoding) => {
        let key = checkpoints::Key::new(session, agent, id, encoding);
        checkpoints::set_aside(connection, &key, &new_name).await
      }
      Item::Key(agent, id) => keys::set_aside(connection, &keys::Key::new(session, agent, id), &new_name).await,
      _ => documents::set_aside(connection, &documents::Key::new(session, item), &new_name, &mut number).await,
    })?;
    Ok(moved.then(|| self.name(session, &new_name)))
  }

  fn checkpoints(&self, series: &Series) -> Result<Vec<CheckpointEntry>> {
    let name = || self.name_of_session(&series.session);
    self.ask("read", &name, async |connection| lists::list(connection, series).await)
  }

  fn surplus(&self, series: &Series, wanted: Wanted) -> Result<Surplus> {
    let name = || self.name_of_session(&series.session);
    self.ask("read", &name, async |connection| {
      lists::surplus(connection, series, wanted).await
    })
  }

  fn results(&self, session: &SessionId) -> Result<Vec<TaskId>> {
    let name = || self.name_of_session(session);
    self.ask("read", &name, async |connection| {
      documents::results(connection, session).await
    })
  }

  fn sessions_with_checkpoint(&self, id: &CheckpointId) -> Result<Vec<SessionId>> {
    self.ask("read", &|| self.location(), async |connection| {
      lists::sessions_with(connection, id).await
    })
  }

  fn usage(&self, session: &SessionId) -> Result<Usage> {
    let name = || self.name_of_session(session);
    self.ask("read", &name, async |connection| {
      sessions::usage(connection, session).await
    })
  }
}

impl PostgresBackend {
  fn replacement<'a>(
    &self,
    session: &'a SessionId,
    documents: Vec<(Document, &'a [u8])>,
    token: Uuid,
  ) -> Replacement<'a> {
    Replacement {
      session,
      documents,
      keep: self.settings.keep_previous,
      token,
    }
  }
}
