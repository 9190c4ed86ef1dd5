//! What callers pass, read and checked on the JavaScript thread. Every complaint names the argument and its value.

use napi::ValueType;
use napi::bindgen_prelude::{JsObjectValue, JsValue, Object};

use super::engine::{Collection, Engine, Value, number_of, text_of};
use super::error::not_serializable;
use super::text::Text;
use crate::backend::{Durability, Encoding};
use crate::error::{Error, Result};
use crate::format::checkpoint::SESSION_MEMBERS;
use crate::format::compose::Parts;
use crate::format::reset::Resets;
use crate::id::{CheckpointId, SessionId, TaskId};
use crate::store::{Filter, InfoRequest, Options, RecoverRequest, RestoreRequest};

const TRIGGERS: [&str; 4] = ["auto", "manual", "error", "milestone"];

/// Reads arguments of one call.
#[derive(Clone, Copy)]
pub struct Arguments<'env> {
  engine: Engine<'env>,
}

/// What `createCheckpoint` is asked for.
pub struct CheckpointArguments {
  pub session: SessionId,
  pub encoding: Encoding,
  head: Text,
  task_tree: Text,
  agent_states: Text,
  context_store: Text,
}

impl CheckpointArguments {
  /// Takes as long as the texts, so not on the JavaScript thread.
  pub fn into_parts(self) -> Parts {
    Parts {
      head: self.head.into_string(),
      task_tree: self.task_tree.into_string(),
      agent_states: self.agent_states.into_string(),
      context_store: self.context_store.into_string(),
    }
  }
}

/// What `checkpoints` is asked for.
#[derive(Debug, Clone)]
pub struct IterationArguments {
  pub session: SessionId,
  pub filter: Filter,
  pub skip_damaged: bool,
}

/// The options of a checkpoint, checked.
struct CheckpointOptions {
  trigger: Value,
  description: Value,
  label: Value,
  metadata: Value,
  include_context: bool,
  encoding: Encoding,
}

impl<'env> Arguments<'env> {
  pub fn new(engine: Engine<'env>) -> Self {
    Self { engine }
  }

  pub fn session_id(self, value: Value) -> Result<SessionId> {
    SessionId::parse(&self.string(value, "sessionId")?)
  }

  pub fn task_id(self, value: Value) -> Result<TaskId> {
    TaskId::parse(&self.string(value, "taskId")?)
  }

  pub fn checkpoint_id(self, value: Value) -> Result<CheckpointId> {
    CheckpointId::parse(&self.string(value, "checkpointId")?)
  }

  /// A whole number that is not negative; 0 if it is absent.
  pub fn count(self, value: Value, name: &str) -> Result<usize> {
    if is_absent(value) {
      return Ok(0);
    }
    match number_of(value) {
      Some(f64::INFINITY) => Ok(usize::MAX),
      Some(number) if number >= 0.0 && number.fract() == 0.0 => Ok(to_usize(number)),
      _ => Err(self.wrong(name, "a whole number, 0 or more", value)),
    }
  }

  pub fn base_dir(self, value: Value) -> Result<String> {
    if is_undefined(value) {
      return Ok("~/.meshseeks/sessions".to_owned());
    }
    self.string(value, "baseDir")
  }

  /// The second argument of the constructor: a number or an object.
  pub fn store_options(self, value: Value) -> Result<Options> {
    let mut options = Options::default();
    match value.get_type() {
      Ok(ValueType::Undefined) => {}
      Ok(ValueType::Number) => options.max_checkpoints_per_session = self.limit(value, "maxCheckpointsPerSession")?,
      _ => {
        self.object(value, "options")?;
        let limit = self.get(value, "maxCheckpointsPerSession")?;
        if !is_undefined(limit) {
          options.max_checkpoints_per_session = self.limit(limit, "options.maxCheckpointsPerSession")?;
        }
        let read = self.get(value, "maxReadBytes")?;
        if !is_undefined(read) {
          options.max_read_bytes = self.limit(read, "options.maxReadBytes")? as u64;
        }
        let durability = self.get(value, "durability")?;
        if !is_undefined(durability) {
          options.durability = self.durability(durability)?;
        }
      }
    }
    Ok(options)
  }

  fn limit(self, value: Value, name: &str) -> Result<usize> {
    match number_of(value) {
      Some(f64::INFINITY) => Ok(usize::MAX),
      Some(number) if number >= 1.0 && number.fract() == 0.0 => Ok(to_usize(number)),
      _ => Err(self.wrong(name, "a whole number of at least 1, or Infinity", value)),
    }
  }

  fn durability(self, value: Value) -> Result<Durability> {
    match text_of(value).as_deref() {
      Some("full") => Ok(Durability::Full),
      Some("relaxed") => Ok(Durability::Relaxed),
      _ => Err(self.wrong("options.durability", "\"full\" or \"relaxed\"", value)),
    }
  }

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

  /// The JSON of anything.
  pub fn json(self, value: Value, name: &str) -> Result<Text> {
    let text = self
      .engine
      .stringify(value)
      .map_err(|error| not_serializable(name, error))?;
    text.ok_or_else(|| {
      let cause = napi::Error::from_reason(format!("JSON has no way to write {}", self.engine.describe(value)));
      not_serializable(name, cause)
    })
  }

  /// `(session, agentStates, contextStore, options)`, or `(session, options)` for a session without either.
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
    if !self.engine.is_array(checkpoint_ids)? {
      return Err(self.wrong("session.checkpointIds", "an array", checkpoint_ids));
    }
    let options = self.checkpoint_options(options)?;
    let agents = self.map_or_nothing(agents, "agentStates")?;
    // What is not stored may be anything.
    let context = if options.include_context {
      self.map_or_nothing(context, "contextStore")?
    } else {
      self.engine.object()?.to_unknown()
    };

    let mut session = self.session_without_tree(session)?;
    // The checkpoint names the members of the session one by one; a toJSON of its own has no say in that.
    session.delete_named_property("toJSON")?;
    let mut head = self.engine.object()?;
    head.set_named_property("trigger", options.trigger)?;
    head.set_named_property("description", options.description)?;
    head.set_named_property("label", options.label)?;
    head.set_named_property("session", session)?;
    head.set_named_property("metadata", options.metadata)?;
    Ok(CheckpointArguments {
      session: id,
      encoding: options.encoding,
      head: self.json(head.to_unknown(), "The checkpoint")?,
      task_tree: self.member_json("taskTree", tree)?,
      agent_states: self.member_json("agentStates", agents)?,
      context_store: self.member_json("contextStore", context)?,
    })
  }

  /// The JSON of an object with that one member: its `toJSON()` is told the name of the member.
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
    if !is_undefined(label) {
      self.label(label, "options.label")?;
    }
    let metadata = self.get(options, "metadata")?;
    if !is_undefined(metadata) {
      self.object(metadata, "options.metadata")?;
    }
    let is_compressed = self.flag(options, "compress")?;
    Ok(CheckpointOptions {
      trigger,
      description,
      label,
      metadata,
      include_context: self.flag(options, "includeContext")?,
      encoding: if is_compressed { Encoding::Gzip } else { Encoding::Json },
    })
  }

  fn trigger(self, value: Value) -> Result<String> {
    let trigger = text_of(value).filter(|trigger| TRIGGERS.contains(&trigger.as_str()));
    trigger.ok_or_else(|| {
      let expected = "one of \"auto\", \"manual\", \"error\" and \"milestone\"";
      self.wrong("options.trigger", expected, value)
    })
  }

  /// A name that a person gives to a checkpoint.
  fn label(self, value: Value, name: &str) -> Result<String> {
    const LONGEST: usize = 200;
    let label = self.string(value, name)?;
    if label.is_empty() || label.len() > LONGEST {
      return Err(self.wrong(name, &format!("a string of 1 to {LONGEST} bytes"), value));
    }
    Ok(label)
  }

  /// `({checkpointId, …})`, or `(sessionId, checkpointId, options?)`.
  pub fn restore(self, first: Value, second: Value, third: Value) -> Result<RestoreRequest> {
    let by_name = matches!(first.get_type(), Ok(ValueType::String));
    let (session, checkpoint, options) = if by_name {
      (first, second, third)
    } else {
      self.object(first, "options")?;
      (self.get(first, "sessionId")?, self.get(first, "checkpointId")?, first)
    };
    let mut named_session = if is_undefined(session) {
      None
    } else {
      Some(self.session_id(session)?)
    };
    if by_name && is_undefined(checkpoint) {
      return Err(Error::invalid_argument(
        "checkpointId must be a string; got undefined. Call restoreCheckpoint({ checkpointId, … }) or \
         restoreCheckpoint(sessionId, checkpointId)",
      ));
    }
    let asked_for = self.string(checkpoint, "checkpointId")?;
    let checkpoint = match asked_for.split_once('/') {
      None => CheckpointId::parse(&asked_for)?,
      Some((session, id)) => {
        let session = SessionId::parse(session)?;
        if let Some(other) = named_session.replace(session.clone())
          && other != session
        {
          return Err(Error::invalid_argument(format!(
            "checkpointId names the session {session:?}, sessionId names {other:?}",
            session = session.as_str(),
            other = other.as_str()
          )));
        }
        CheckpointId::parse(id)?
      }
    };
    self.optional_object(options, "options")?;
    Ok(RestoreRequest {
      session: named_session,
      checkpoint,
      asked_for,
      validate_checksum: self.flag(options, "validateChecksum")?,
      resets: self.resets(options)?,
      include_state: self.flag(options, "includeState")?,
    })
  }

  pub fn info_request(self, session: Value, options: Value) -> Result<InfoRequest> {
    let session = self.session_id(session)?;
    self.optional_object(options, "options")?;
    let limit = self.option(options, "limit")?;
    let cursor = self.option(options, "cursor")?;
    Ok(InfoRequest {
      session,
      limit: limit.map_or(Ok(0), |limit| self.count(limit, "options.limit"))?,
      cursor: cursor.map(|cursor| self.string(cursor, "options.cursor")).transpose()?,
      filter: self.filter(options)?,
    })
  }

  pub fn iteration(self, session: Value, options: Value) -> Result<IterationArguments> {
    let session = self.session_id(session)?;
    self.optional_object(options, "options")?;
    Ok(IterationArguments {
      session,
      filter: self.filter(options)?,
      skip_damaged: self.flag(options, "skipDamaged")?,
    })
  }

  fn filter(self, options: Value) -> Result<Filter> {
    let trigger = self.option(options, "trigger")?;
    let label = self.option(options, "label")?;
    let time = |name| {
      let value = self.option(options, name)?;
      value
        .map(|value| self.time(value, &format!("options.{name}")))
        .transpose()
    };
    Ok(Filter {
      trigger: trigger.map(|trigger| self.trigger(trigger)).transpose()?,
      label: label.map(|label| self.label(label, "options.label")).transpose()?,
      since: time("since")?,
      until: time("until")?,
    })
  }

  /// Milliseconds since 1970, or a Date.
  fn time(self, value: Value, name: &str) -> Result<f64> {
    let time = match number_of(value) {
      None if value.is_date()? => value.coerce_to_number()?.get_double().ok(),
      number => number,
    };
    time
      .filter(|time| !time.is_nan())
      .ok_or_else(|| self.wrong(name, "a number of milliseconds since 1970, or a Date", value))
  }

  pub fn recover(self, session: Value, options: Value) -> Result<RecoverRequest> {
    let session = self.session_id(session)?;
    self.optional_object(options, "options")?;
    Ok(RecoverRequest {
      session,
      resets: self.resets(options)?,
      include_state: self.flag(options, "includeState")?,
      quarantine: self.flag(options, "quarantine")?,
    })
  }

  fn resets(self, options: Value) -> Result<Resets> {
    Ok(Resets {
      failed: self.flag(options, "resetFailedTasks")?,
      in_progress: self.flag(options, "resetInProgressTasks")?,
    })
  }

  fn id_of_session(self, session: Value) -> Result<SessionId> {
    self.object(session, "session")?;
    SessionId::parse(&self.string(self.get(session, "id")?, "session.id")?)
  }

  /// A copy with the session's own members, and with the known ones that it inherits: sessions may be instances of a
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

  /// A Map becomes a plain object; an object stays what it is.
  fn map_or_object(self, value: Value, name: &str) -> Result<Value> {
    if !self.is_object(value)? {
      return Err(self.wrong(name, "a Map or an object", value));
    }
    let collection = self.engine.collection(value);
    match collection.map_err(|error| not_serializable(name, error))? {
      Collection::Map => {
        let copy = self.engine.copy(value).map_err(|error| not_serializable(name, error))?;
        Ok(copy.to_unknown())
      }
      // JSON would make `{}` of it.
      Collection::Set => Err(self.wrong(name, "a Map or an object", value)),
      Collection::None => Ok(value),
    }
  }

  /// The same; what is left out is empty.
  fn map_or_nothing(self, value: Value, name: &str) -> Result<Value> {
    if is_undefined(value) {
      return Ok(self.engine.object()?.to_unknown());
    }
    self.map_or_object(value, name)
  }

  /// An object that is no array.
  fn is_object(self, value: Value) -> Result<bool> {
    Ok(matches!(value.get_type(), Ok(ValueType::Object)) && !self.engine.is_array(value)?)
  }

  fn object(self, value: Value, name: &str) -> Result<()> {
    if self.is_object(value)? {
      Ok(())
    } else {
      Err(self.wrong(name, "an object", value))
    }
  }

  fn optional_object(self, value: Value, name: &str) -> Result<()> {
    if is_undefined(value) {
      Ok(())
    } else {
      self.object(value, name)
    }
  }

  /// A boolean option; `false` if it, or the options, are left out.
  fn flag(self, options: Value, name: &str) -> Result<bool> {
    if is_undefined(options) {
      return Ok(false);
    }
    let value = self.get(options, name)?;
    match value.get_type() {
      Ok(ValueType::Undefined) => Ok(false),
      Ok(ValueType::Boolean) => Ok(value.coerce_to_bool()?),
      _ => Err(self.wrong(&format!("options.{name}"), "true or false", value)),
    }
  }

  /// A member of the options, unless it, or the options, are left out.
  fn option(self, options: Value, name: &str) -> Result<Option<Value>> {
    if is_undefined(options) {
      return Ok(None);
    }
    let value = self.get(options, name)?;
    Ok((!is_undefined(value)).then_some(value))
  }

  fn string(self, value: Value, name: &str) -> Result<String> {
    text_of(value).ok_or_else(|| self.wrong(name, "a string", value))
  }

  fn get(self, object: Value, name: &str) -> Result<Value> {
    self
      .engine
      .get(object, name)
      .map_err(|error| not_serializable(name, error))
  }

  fn wrong(self, name: &str, expected: &str, value: Value) -> Error {
    Error::invalid_argument(format!(
      "{name} must be {expected}; got {}",
      self.engine.describe(value)
    ))
  }
}

fn is_undefined(value: Value) -> bool {
  matches!(value.get_type(), Ok(ValueType::Undefined))
}

fn is_absent(value: Value) -> bool {
  matches!(value.get_type(), Ok(ValueType::Undefined | ValueType::Null))
}

#[expect(
  clippy::cast_possible_truncation,
  clippy::cast_sign_loss,
  reason = "callers pass whole numbers that are not negative, and a cast saturates"
)]
fn to_usize(number: f64) -> usize {
  number as usize
}
