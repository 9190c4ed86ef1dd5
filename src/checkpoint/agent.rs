//! Agent checkpoints: composed from a state, and split into JSON and bytes when they are read.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::checkpoint::compose::{NamedValue, NewCheckpoint};
use crate::checkpoint::document::{AGENT_ID, Document, EXPIRES_AT, Kind, LABEL, VERSION};
use crate::json::canonical::array_index;
use crate::json::edit::{Edit, edit, quoted};
use crate::json::scan::{Member, SyntaxError, find, members};
use crate::types::error::{Code, Error, Result, shortened};
use crate::types::id::{AgentId, CheckpointId, SessionId};
use crate::types::time::Timestamp;

/// The caller's bytes, as base64.
pub const CONTEXT: &str = "context";

/// The members that a list shows, if the state has them; they come first.
const HEAD: [&str; 6] = [
  "iteration",
  "status",
  "statusReason",
  LABEL,
  "tokensUsed",
  "costEstimate",
];

/// The members that follow, in this order; the first two are always written.
const PAYLOAD: [&str; 6] = [
  "messages",
  "toolCalls",
  "pendingToolCalls",
  "partialResults",
  "resumeHint",
  "metadata",
];

/// The members that are arrays.
pub const LISTS: [&str; 4] = ["messages", "toolCalls", "pendingToolCalls", "partialResults"];

/// JavaScript's `Number.MAX_SAFE_INTEGER`.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Members that describe the checkpoint itself. A state that was loaded, changed and saved again still has them: they are replaced.
const REPLACED: [&str; 11] = [
  "id",
  "sessionId",
  AGENT_ID,
  "timestamp",
  EXPIRES_AT,
  "version",
  "sizeBytes",
  "messageCount",
  "toolCallCount",
  "integrity",
  "passedOver",
];

/// The state to store.
#[derive(Debug)]
pub struct AgentState {
  /// An object as canonical JSON, without the bytes.
  pub json: String,
  pub context: Option<Vec<u8>>,
  pub ttl_ms: Option<u64>,
}

impl<'a> NewCheckpoint<'a> {
  pub fn of_agent(
    session: &SessionId,
    agent: &AgentId,
    id: &CheckpointId,
    timestamp: Timestamp,
    state: &'a AgentState,
  ) -> Result<Self> {
    let given = members(&state.json).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    let value = |name: &str| find(&given, name).map(|member| Cow::Borrowed(member.value));
    for name in LISTS {
      if let Some(list) = value(name).filter(|list| !list.starts_with('[')) {
        return Err(Error::new(
          Code::NotSerializable,
          format!(
            "state.{name} must become a JSON array; its toJSON() made {} of it",
            shortened(&list)
          ),
        ));
      }
    }
    let own = given.iter().filter(|member| {
      let mut known = HEAD.iter().chain(&PAYLOAD).chain(&REPLACED);
      !known.any(|name| member.is_named(name))
    });
    // JavaScript orders array indexes first.
    let (numbered, own): (Vec<&Member<'_>>, Vec<&Member<'_>>) =
      own.partition(|member| array_index(member.raw_key).is_some());
    let mut first: Vec<NamedValue<'a>> = Vec::with_capacity(given.len() + 6);
    first.extend(numbered.iter().map(|member| (member.raw_key, member.value.into())));
    first.push(("id", quoted(id.as_str()).into()));
    first.push(("sessionId", quoted(session.as_str()).into()));
    first.push((AGENT_ID, quoted(agent.as_str()).into()));
    first.push(("timestamp", timestamp.as_millis().to_string().into()));
    first.extend(HEAD.into_iter().filter_map(|name| Some((name, value(name)?))));
    if let Some(ttl) = state.ttl_ms {
      let expires_at = timestamp.as_millis().saturating_add(ttl).min(MAX_SAFE_INTEGER);
      first.push((EXPIRES_AT, expires_at.to_string().into()));
    }
    for (at, name) in PAYLOAD.into_iter().enumerate() {
      let otherwise = (at < 2).then_some(Cow::Borrowed("[]"));
      first.extend(value(name).or(otherwise).map(|value| (name, value)));
    }
    first.extend(own.iter().map(|member| (member.raw_key, member.value.into())));
    if let Some(bytes) = &state.context {
      first.push((CONTEXT, format!("\"{}\"", BASE64.encode(bytes)).into()));
    }
    Ok(Self {
      kind: &Kind::AGENT,
      first,
      second: vec![("version", format!("\"{VERSION}\"").into()), ("sizeBytes", "0".into())],
      third: Vec::new(),
    })
  }
}

/// The JSON of a stored checkpoint without the bytes, and the bytes. `compact` has no white space between its tokens.
pub fn split_context(compact: &str) -> Result<(Cow<'_, str>, Option<Vec<u8>>), SyntaxError> {
  let document = Document::parse(compact)?;
  let literal = document
    .member(CONTEXT)
    .and_then(|value| value.strip_prefix('"')?.strip_suffix('"'));
  match literal.map(|literal| BASE64.decode(literal)) {
    Some(Ok(bytes)) => Ok((edit(compact, &[Edit::Remove(CONTEXT)])?.into(), Some(bytes))),
    // It is a member of another program.
    Some(Err(_)) | None => Ok((compact.into(), None)),
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::checkpoint::summary::Info;
  use crate::json::layout::compact;

  fn composed(state: &AgentState) -> NewCheckpoint<'_> {
    NewCheckpoint::of_agent(
      &SessionId::parse("s").unwrap(),
      &AgentId::parse("a\"b").unwrap(),
      &CheckpointId::parse("cp-1").unwrap(),
      Timestamp::from_millis(42),
      state,
    )
    .unwrap()
  }

  fn state(json: &str) -> AgentState {
    AgentState {
      json: json.to_owned(),
      context: Some(vec![0, 255, 10]),
      ttl_ms: Some(8),
    }
  }

  const JSON: &str = concat!(
    r#"{"mine":1,"toolCalls":[{"a":[1,2]}],"id":"old","messages":[{"role":"user"},{}],"taskTree":{"t":1},"#,
    r#""iteration":7,"status":"failed","statusReason":"why","label":"l","integrity":"old","metadata":{}}"#
  );

  #[test]
  fn list_members_precede_the_payload_and_unknown_members_are_kept() {
    let state = state(JSON);
    let (text, info) = composed(&state).compact().unwrap();
    let document = Document::parse(&text).unwrap();
    let names: Vec<_> = members(&text).unwrap().iter().map(|member| member.raw_key).collect();
    assert_eq!(
      names,
      [
        "id",
        "sessionId",
        "agentId",
        "timestamp",
        "iteration",
        "status",
        "statusReason",
        "label",
        "expiresAt",
        "messages",
        "toolCalls",
        "metadata",
        "mine",
        "taskTree",
        "context",
        "version",
        "sizeBytes",
        "messageCount",
        "toolCallCount",
        "integrity"
      ]
    );
    assert_eq!(
      (document.member("id"), document.member("expiresAt")),
      (Some("\"cp-1\""), Some("50"))
    );
    assert_eq!(
      (info.get("messageCount"), info.get("toolCallCount")),
      (Some("2"), Some("1"))
    );
    assert!(info.is_expired(50) && !info.is_expired(49));
  }

  #[test]
  fn peek_gives_the_same_info_as_the_whole_document() {
    for json in [JSON, "{}"] {
      let state = state(json);
      let checkpoint = composed(&state);
      let (text, info) = checkpoint.compact().unwrap();
      let mut laid_out = Vec::new();
      checkpoint.write_laid_out(&mut laid_out).unwrap();
      assert_eq!(Info::peek(&Kind::AGENT, &laid_out, &laid_out).as_ref(), Some(&info));
      assert_eq!(
        Info::of_document(&Kind::AGENT, &Document::parse(&text).unwrap()).unwrap(),
        info
      );
      assert_eq!(compact(str::from_utf8(&laid_out).unwrap()), text);
    }
  }

  #[test]
  fn the_integrity_digest_covers_every_member() {
    let state = state(JSON);
    let (text, _) = composed(&state).compact().unwrap();
    assert!(Document::parse(&text).unwrap().checksums_match());
    for (from, to) in [
      ("\"t\":1", "\"t\":2"),
      ("\"mine\":1", "\"mine\":2"),
      ("\"role\"", "\"rule\""),
      ("AP8K", "AP8L"),
      ("\"agentId\"", "\"agentiD\""),
      ("\"integrity\"", "\"integritY\""),
    ] {
      let changed = text.replacen(from, to, 1);
      assert_ne!(changed, text);
      assert!(!Document::parse(&changed).unwrap().checksums_match(), "{from}");
    }
  }

  #[test]
  fn bytes_are_read_back_unchanged() {
    let state = state("{}");
    let (text, _) = composed(&state).compact().unwrap();
    let (json, bytes) = split_context(&text).unwrap();
    assert_eq!(bytes.unwrap(), [0, 255, 10]);
    assert!(!json.contains(CONTEXT));
    let foreign = r#"{"context":"no base64!"}"#;
    assert_eq!(split_context(foreign).unwrap(), (foreign.into(), None));
  }
}
