//! Arguments of the methods that store sessions, task trees and checkpoints.

use napi::bindgen_prelude::{JsObjectValue, JsValue, Object};

use super::{Arguments, is_absent, is_undefined};
use crate::api::convert::engine::{Collection, Value, text_of};
use crate::api::convert::error::not_serializable;
use crate::api::convert::text::Text;
use crate::checkpoint::compose::Parts;
use crate::checkpoint::document::SESSION_MEMBERS;
use crate::store::{Encoding, ExpectedRevision, Label, Parent};
use crate::types::error::{Error, Result};
use crate::types::id::{CheckpointId, SessionId};

/// The arguments of `createCheckpoint`, checked and serialized.
pub struct CheckpointArguments {
  pub session: SessionId,
  /// `None` for the encoding of the store.
  pub encoding: Option<Encoding>,
  /// A label that no other checkpoint of the session may have.
  pub unique_label: Option<Label>,
  pub parent: Parent,
  head: Text,
  task_tree: Text,
  agent_states: Text,
  context_store: Text,
}

impl CheckpointArguments {
  /// Takes time in proportion to the texts: call it on a worker thread.
  pub fn into_parts(self) -> Parts {
    Parts {
      head: self.head.into_string(),
      task_tree: self.task_tree.into_string(),
      agent_states: self.agent_states.into_string(),
      context_store: self.context_store.into_string(),
    }
  }
}

/// The checked options of a checkpoint.
struct CheckpointOptions {
  trigger: Value,
  description: Value,
  label: Value,
  metadata: Value,
  include_context: bool,
  encoding: Option<Encoding>,
  unique_label: Option<Label>,
  parent: Parent,
}

impl Arguments<'_> {
  /// The id of a session and its JSON, without the task tree.
  pub fn session(self, value: Value) -> Result<(SessionId, Text)> {
    let id = self.id_of_session(value)?;
    let session = self.session_without_tree(value)?;
    Ok((id, self.json(session.to_unknown(), "session")?))
  }

  /// The JSON of a task tree.
  pub fn task_tree(self, value: Value) -> Result<Text> {
    let tree = self.map_or_object(value, "taskTree")?;
    self.json(tree, "taskTree")
  }

  /// `(session, agentStates, contextStore, options)` or `(session, options)`.
  pub fn checkpoint(self, session: Value, second: Value, third: Value, fourth: Value) -> Result<CheckpointArguments> {
    let is_short_form = is_undefined(third) && is_undefined(fourth);
    let undefined = fourth;
    let (agents, context, options) = if is_short_form {
      (undefined, undefined, second)
    } else {
      (second, third, fourth)
    };
    let id = self.id_of_session(session)?;
    let tree = self.map_or_object(self.get(session, "taskTree")?, "session.taskTree")?;
    let checkpoint_ids = self.get(session, "checkpointIds")?;
    if !self.is_array(checkpoint_ids, "session.checkpointIds")? {
      return Err(self.wrong("session.checkpointIds", "an array", checkpoint_ids));
    }
    let options = self.checkpoint_options(options)?;
    let agents = self.map_or_empty(agents, "agentStates")?;
    // A context that is not stored is not checked.
    let context = if options.include_context {
      self.map_or_empty(context, "contextStore")?
    } else {
      self.engine.object()?.to_unknown()
    };

    let mut session = self.session_without_tree(session)?;
    // A `toJSON` of the session must not replace its members.
    session.delete_named_property("toJSON")?;
    let mut head = self.engine.object()?;
    head.set_named_property("trigger", options.trigger)?;
    head.set_named_property("description", options.description)?;
    // A unique label is set in a separate step and is not part of the checkpoint.
    if options.unique_label.is_none() {
      head.set_named_property("label", options.label)?;
    }
    head.set_named_property("session", session)?;
    head.set_named_property("metadata", options.metadata)?;
    Ok(CheckpointArguments {
      session: id,
      encoding: options.encoding,
      unique_label: options.unique_label,
      parent: options.parent,
      head: self.json(head.to_unknown(), "The checkpoint")?,
      task_tree: self.member_json("taskTree", tree)?,
      agent_states: self.member_json("agentStates", agents)?,
      context_store: self.member_json("contextStore", context)?,
    })
  }

  /// The JSON of an object with one member. A `toJSON()` of the value gets the name of the member as its argument.
  fn member_json(self, name: &str, value: Value) -> Result<Text> {
    let mut object = self.engine.object()?;
    object.set_named_property(name, value)?;
    self.json(object.to_unknown(), name)
  }

  fn checkpoint_options(self, options: Value) -> Result<CheckpointOptions> {
    if is_undefined(options) {
      return Err(Error::invalid_argument(
        "options must be an object; got undefined. Call createCheckpoint(session, agentStates, contextStore, options) \
         or createCheckpoint(session, options)",
      ));
    }
    self.object(options, "options")?;
    let trigger = self.get(options, "trigger")?;
    self.trigger(trigger)?;
    let description = self.get(options, "description")?;
    if !is_undefined(description) {
      self.string(description, "options.description")?;
    }
    let label = self.get(options, "label")?;
    let label_text = if is_undefined(label) {
      None
    } else {
      Some(self.label(label, "options.label")?)
    };
    let is_unique = self.flag(options, "uniqueLabel")?;
    if is_unique && label_text.is_none() {
      return Err(Error::invalid_argument(
        "options.uniqueLabel needs a label: set options.label too",
      ));
    }
    let metadata = self.get(options, "metadata")?;
    if !is_undefined(metadata) {
      self.object(metadata, "options.metadata")?;
    }
    Ok(CheckpointOptions {
      trigger,
      description,
      label,
      metadata,
      include_context: self.flag(options, "includeContext")?,
      encoding: self.encoding(options)?,
      unique_label: if is_unique {
        Some(self.label_and_literal(label, "options.label")?)
      } else {
        None
      },
      parent: self.parent(options)?,
    })
  }

  /// `{ ifParent? }`: an id, or `null` for a session without checkpoints.
  fn parent(self, options: Value) -> Result<Parent> {
    match self.option(options, "ifParent")? {
      None => Ok(Parent::Any),
      Some(value) if is_absent(value) => Ok(Parent::Missing),
      Some(value) => match text_of(value) {
        Some(id) => Ok(Parent::Checkpoint(CheckpointId::parse(&id)?)),
        None => Err(self.wrong("options.ifParent", "the id of a checkpoint, or null", value)),
      },
    }
  }

  /// `{ ifRevision? }`: a revision, or `null` for a session that does not exist yet.
  pub fn expected_revision(self, options: Value) -> Result<Option<ExpectedRevision>> {
    self.optional_object(options, "options")?;
    match self.option(options, "ifRevision")? {
      None => Ok(None),
      Some(value) if is_absent(value) => Ok(Some(ExpectedRevision(None))),
      Some(value) => match text_of(value) {
        Some(revision) => Ok(Some(ExpectedRevision(Some(revision)))),
        None => Err(self.wrong("options.ifRevision", "a revision, or null", value)),
      },
    }
  }

  /// `{ encoding?, compress? }`
  pub fn encoding(self, options: Value) -> Result<Option<Encoding>> {
    let is_compressed = self.flag(options, "compress")?;
    let encoding = self.option(options, "encoding")?;
    let encoding = encoding.map(|encoding| self.encoding_named(encoding, "options.encoding"));
    match encoding.transpose()? {
      None => Ok(is_compressed.then_some(Encoding::Gzip)),
      Some(Encoding::Gzip) => Ok(Some(Encoding::Gzip)),
      Some(other) if is_compressed => Err(Error::invalid_argument(format!(
        "options.compress means \"gzip\", and options.encoding says {:?}: leave one of them out",
        other.name()
      ))),
      encoding => Ok(encoding),
    }
  }

  pub fn encoding_named(self, value: Value, name: &str) -> Result<Encoding> {
    let encoding = text_of(value).and_then(|text| Encoding::named(&text));
    encoding.ok_or_else(|| self.wrong(name, "one of \"json\", \"gzip\", \"zstd\" and \"delta\"", value))
  }

  fn id_of_session(self, session: Value) -> Result<SessionId> {
    self.object(session, "session")?;
    SessionId::parse(&self.string(self.get(session, "id")?, "session.id")?)
  }

  /// A copy with the session's own members, and with the known members that it inherits: a session may be an instance of a
  /// class with getters.
  fn session_without_tree(self, session: Value) -> Result<Object<'static>> {
    let mut copy = self
      .engine
      .copy(session)
      .map_err(|error| not_serializable("session", error))?;
    copy.delete_named_property("taskTree")?;
    if self
      .engine
      .is_plain(session)
      .map_err(|error| not_serializable("session", error))?
    {
      return Ok(copy);
    }
    for name in SESSION_MEMBERS {
      if !copy.has_own_property(name)? {
        let inherited = self.get(session, name)?;
        if !is_undefined(inherited) {
          copy.set_named_property(name, inherited)?;
        }
      }
    }
    Ok(copy)
  }

  /// A Map or an object. A Map becomes a plain object.
  fn map_or_object(self, value: Value, name: &str) -> Result<Value> {
    if !self.is_object(value, name)? {
      return Err(self.wrong(name, "a Map or an object", value));
    }
    let collection = self.engine.collection(value);
    match collection.map_err(|error| not_serializable(name, error))? {
      Collection::Map => {
        let copy = self.engine.copy(value).map_err(|error| not_serializable(name, error))?;
        Ok(copy.to_unknown())
      }
      // JSON would write it as `{}`.
      Collection::Set => Err(self.wrong(name, "a Map or an object", value)),
      Collection::None => Ok(value),
    }
  }

  /// [`Self::map_or_object`]; an empty object if the value is undefined.
  fn map_or_empty(self, value: Value, name: &str) -> Result<Value> {
    if is_undefined(value) {
      return Ok(self.engine.object()?.to_unknown());
    }
    self.map_or_object(value, name)
  }
}
