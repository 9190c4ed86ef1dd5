//! Arguments of the methods for agents.

use napi::ValueType;
use napi::bindgen_prelude::{FromNapiValue, JsObjectValue, JsValue, Uint8Array};

use super::{Arguments, is_absent, to_usize};
use crate::api::convert::engine::{Collection, Value, number_of, text_of};
use crate::api::convert::error::not_serializable;
use crate::api::convert::text::Text;
use crate::checkpoint::agent::{AgentState, CONTEXT, LISTS};
use crate::store::{Encoding, Order, Series};
use crate::types::error::Result;
use crate::types::id::{AgentId, SessionId};

const STATUSES: [&str; 4] = ["in_progress", "completed", "failed", "halted"];

/// The state of an agent, checked and serialized.
pub struct AgentStateArguments {
  json: Text,
  context: Option<Vec<u8>>,
  ttl_ms: Option<u64>,
}

impl AgentStateArguments {
  /// Takes time in proportion to the text: call it on a worker thread.
  pub fn into_state(self) -> AgentState {
    AgentState {
      json: self.json.into_string(),
      context: self.context,
      ttl_ms: self.ttl_ms,
    }
  }
}

impl Arguments<'_> {
  pub fn agent(self, session: Value, agent: Value) -> Result<Series> {
    Ok(Series {
      session: SessionId::parse(&self.string(session, "sessionId")?)?,
      agent: Some(AgentId::parse(&self.string(agent, "agentId")?)?),
    })
  }

  /// The state, checked and serialized. Each member is read once, into a copy, so that the checked value is the stored one.
  pub fn agent_state(self, state: Value) -> Result<AgentStateArguments> {
    self.object(state, "state")?;
    let unreadable = |error| not_serializable("state", error);
    if self.engine.collection(state).map_err(unreadable)? != Collection::None {
      return Err(self.wrong("state", "an object", state));
    }
    let mut copy = self.engine.copy(state).map_err(unreadable)?;
    let state = copy.to_unknown();
    self.amount(state, "iteration", true)?;
    self.amount(state, "tokensUsed", false)?;
    self.amount(state, "costEstimate", false)?;
    let ttl = self.amount(state, "ttlMs", true)?;
    if let Some(ttl) = ttl.filter(|ttl| *ttl < 1.0) {
      return Err(self.wrong("state.ttlMs", "a whole number of at least 1", self.engine.value(ttl)?));
    }
    if let Some(status) = self.option(state, "status")?
      && !text_of(status).is_some_and(|status| STATUSES.contains(&status.as_str()))
    {
      let expected = "one of \"in_progress\", \"completed\", \"failed\" and \"halted\"";
      return Err(self.wrong("state.status", expected, status));
    }
    for name in ["statusReason", "resumeHint"] {
      if let Some(text) = self.option(state, name)? {
        self.string(text, &format!("state.{name}"))?;
      }
    }
    if let Some(label) = self.option(state, "label")? {
      self.label(label, "state.label")?;
    }
    for name in LISTS {
      if let Some(list) = self.option(state, name)?
        && !self.is_array(list, &format!("state.{name}"))?
      {
        return Err(self.wrong(&format!("state.{name}"), "an array", list));
      }
    }
    if let Some(metadata) = self.option(state, "metadata")? {
      self.object(metadata, "state.metadata")?;
    }
    let context = self.option(state, CONTEXT)?;
    let context = context.map(|bytes| self.bytes(bytes, "state.context")).transpose()?;
    copy.delete_named_property(CONTEXT)?;
    // A `toJSON` of the state must not replace the checked members.
    if let Some(method) = self.option(state, "toJSON")?
      && matches!(method.get_type(), Ok(ValueType::Function))
    {
      copy.delete_named_property("toJSON")?;
    }
    Ok(AgentStateArguments {
      json: self.json(state, "state")?,
      context,
      ttl_ms: ttl.map(|ttl| to_usize(ttl) as u64),
    })
  }

  /// `{ encoding?, compress? }`
  pub fn agent_encoding(self, options: Value) -> Result<Option<Encoding>> {
    self.optional_object(options, "options")?;
    self.encoding(options)
  }

  /// `{ order?, limit?, cursor? }`
  pub fn agent_list(self, options: Value) -> Result<(Order, usize, Option<String>)> {
    self.optional_object(options, "options")?;
    let order = match self.option(options, "order")? {
      None => Order::Newest,
      Some(order) => match text_of(order).as_deref() {
        Some("newest") => Order::Newest,
        Some("iteration") => Order::Iteration,
        _ => return Err(self.wrong("options.order", "\"newest\" or \"iteration\"", order)),
      },
    };
    let (limit, cursor) = self.page(options)?;
    Ok((order, limit, cursor))
  }

  /// A number of at least 0 in the state.
  fn amount(self, state: Value, name: &str, is_whole: bool) -> Result<Option<f64>> {
    let Some(value) = self.option(state, name)? else {
      return Ok(None);
    };
    match number_of(value) {
      Some(number) if number >= 0.0 && number.is_finite() && (!is_whole || number.fract() == 0.0) => Ok(Some(number)),
      _ => {
        let kind = if is_whole { "a whole number" } else { "a number" };
        Err(self.wrong(&format!("state.{name}"), &format!("{kind}, 0 or more"), value))
      }
    }
  }

  /// The bytes of a `Uint8Array`, copied, because the caller may change it.
  fn bytes(self, value: Value, name: &str) -> Result<Vec<u8>> {
    let is_object = matches!(value.get_type(), Ok(ValueType::Object));
    let bytes = is_object.then(|| Uint8Array::from_unknown(value).ok()).flatten();
    let bytes = bytes.map(|bytes| bytes.to_vec());
    bytes.ok_or_else(|| self.wrong(name, "a Uint8Array", value))
  }

  /// A whole number of at least 0 that must be present.
  pub fn required_count(self, value: Value, name: &str) -> Result<usize> {
    if is_absent(value) {
      return Err(self.wrong(name, "a whole number, 0 or more", value));
    }
    self.count(value, name)
  }
}
