//! The difference of two checkpoints, from their texts.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::checkpoint::document::Document;
use crate::json::canonical::canonical_string;
use crate::json::edit::ObjectWriter;
use crate::json::equality::equal_values;
use crate::json::scan::{Member, find, members};
use crate::types::id::{CheckpointId, SessionId};

/// One of the two checkpoints that are compared.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
  pub session: &'a SessionId,
  pub checkpoint: &'a CheckpointId,
  pub document: &'a Document<'a>,
}

/// Members of a session that name its checkpoint, and so differ in any two.
const CHECKPOINT_NAMES: [&str; 2] = ["lastCheckpointId", "checkpointIds"];

/// A JSON object: the `CheckpointDiff` of the declarations.
#[must_use]
pub fn diff(a: Side<'_>, b: Side<'_>) -> String {
  let part = |name| differing_texts(a.part(name), b.part(name));
  let tasks = Changes::of(part("taskTree"), task_change);
  let agents = Changes::of(part("agentStates"), |agent| Some(member_change(agent)?.finish()));
  let context = Changes::of(part("contextStore"), |value| {
    value.differs().then(|| quoted(value.raw_key))
  });
  let mut session = part("session");
  session.retain(|member| !CHECKPOINT_NAMES.contains(&canonical_string(member.raw_key).as_ref()));
  let session = names_of(session);

  let is_identical = tasks.is_empty() && agents.is_empty() && context.is_empty() && session.is_empty();
  let mut out = ObjectWriter::with_capacity(256);
  out.push("a", &a.name());
  out.push("b", &b.name());
  out.push("identical", if is_identical { "true" } else { "false" });
  out.push("tasks", &tasks.to_text());
  out.push("agents", &agents.to_text());
  out.push("context", &context.to_text());
  out.push("session", &list(&session));
  out.finish()
}

impl<'a> Side<'a> {
  fn part(self, name: &str) -> &'a str {
    self.document.member(name).unwrap_or("{}")
  }

  fn name(self) -> String {
    // An id has no characters to escape but quotes.
    let id = |id: &str| quoted(&id.replace('"', "\\\""));
    let timestamp = self.document.member("timestamp");
    let timestamp = timestamp.filter(|time| time.parse::<f64>().is_ok_and(f64::is_finite));
    let mut out = ObjectWriter::with_capacity(128);
    out.push("sessionId", &id(self.session.as_str()));
    out.push("checkpointId", &id(self.checkpoint.as_str()));
    out.push("timestamp", timestamp.unwrap_or("0"));
    out.finish()
  }
}

/// A member of two objects whose texts differ, or that only one of them has.
#[derive(Debug, Clone, Copy)]
struct Pair<'a> {
  raw_key: &'a str,
  a: Option<&'a str>,
  b: Option<&'a str>,
}

impl Pair<'_> {
  /// Whether the values differ, not only their texts.
  fn differs(&self) -> bool {
    match (self.a, self.b) {
      (Some(a), Some(b)) => !equal_values(a, b),
      _ => true,
    }
  }
}

/// The members whose texts differ: first those that `b` has, in its order; then those that only `a` has, in its own.
fn differing_texts<'a>(a: &'a str, b: &'a str) -> Vec<Pair<'a>> {
  if a == b {
    return Vec::new();
  }
  let (a, b) = (Object::of(a), Object::of(b));
  let in_b = b.members.iter().map(|member| Pair {
    raw_key: member.raw_key,
    a: a.get(member.raw_key),
    b: Some(member.value),
  });
  let only_in_a = a.members.iter().map(|member| Pair {
    raw_key: member.raw_key,
    a: Some(member.value),
    b: b.get(member.raw_key),
  });
  in_b
    .filter(|member| member.a != member.b)
    .chain(only_in_a.filter(|member| member.b.is_none()))
    .collect()
}

/// An object as a parser keeps it: of several members with one name, the last value at the position of the first.
struct Object<'a> {
  members: Vec<Member<'a>>,
  /// The position in `members` of each key, by its canonical form.
  positions: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Object<'a> {
  /// Documents are valid JSON: only a value that is no object has no members.
  fn of(text: &'a str) -> Self {
    let all = members(text).unwrap_or_default();
    let mut members: Vec<Member<'a>> = Vec::with_capacity(all.len());
    let mut positions = HashMap::with_capacity(all.len());
    for member in all {
      let position = *positions
        .entry(canonical_string(member.raw_key))
        .or_insert(members.len());
      match members.get_mut(position) {
        Some(earlier) => *earlier = member,
        None => members.push(member),
      }
    }
    Self { members, positions }
  }

  fn get(&self, raw_key: &str) -> Option<&'a str> {
    let position = *self.positions.get(canonical_string(raw_key).as_ref())?;
    Some(self.members[position].value)
  }
}

/// JSON values: ids, or descriptions of changes.
#[derive(Debug, Default)]
struct Changes {
  added: Vec<String>,
  removed: Vec<String>,
  changed: Vec<String>,
}

impl Changes {
  /// `describe` says what changed in a member that both have; nothing if its values are equal.
  fn of(pairs: Vec<Pair<'_>>, describe: impl Fn(Pair<'_>) -> Option<String>) -> Self {
    let mut changes = Self::default();
    for pair in pairs {
      match (pair.a, pair.b) {
        (None, _) => changes.added.push(quoted(pair.raw_key)),
        (_, None) => changes.removed.push(quoted(pair.raw_key)),
        _ => changes.changed.extend(describe(pair)),
      }
    }
    changes
  }

  fn is_empty(&self) -> bool {
    self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
  }

  fn to_text(&self) -> String {
    let mut out = ObjectWriter::with_capacity(64);
    out.push("added", &list(&self.added));
    out.push("removed", &list(&self.removed));
    out.push("changed", &list(&self.changed));
    out.finish()
  }
}

/// A `MemberChange`, unless the values are equal.
fn member_change(pair: Pair<'_>) -> Option<ObjectWriter> {
  let (a, b) = (pair.a?, pair.b?);
  let mut members = Vec::new();
  let differs = if a.starts_with('{') && b.starts_with('{') {
    members = names_of(differing_texts(a, b));
    !members.is_empty()
  } else {
    pair.differs()
  };
  differs.then(|| {
    let mut out = ObjectWriter::with_capacity(64);
    out.push("id", &quoted(pair.raw_key));
    out.push("members", &list(&members));
    out
  })
}

/// A `TaskChange`, unless the values are equal.
fn task_change(pair: Pair<'_>) -> Option<String> {
  let mut out = member_change(pair)?;
  let (from, to) = (status(pair.a?), status(pair.b?));
  if !equal_values(from, to) {
    let mut status = ObjectWriter::with_capacity(64);
    status.push("from", from);
    status.push("to", to);
    out.push("status", &status.finish());
  }
  Some(out.finish())
}

/// The status of a task as a JSON value; `null` if it has none.
fn status(task: &str) -> &str {
  let status = find(&members(task).unwrap_or_default(), "status").map(|member| member.value);
  status.filter(|status| status.starts_with('"')).unwrap_or("null")
}

/// The names of the members whose values differ, as JSON.
fn names_of(members: Vec<Pair<'_>>) -> Vec<String> {
  let differing = members.into_iter().filter(Pair::differs);
  differing.map(|member| quoted(member.raw_key)).collect()
}

fn quoted(raw: &str) -> String {
  format!("\"{raw}\"")
}

fn list(values: &[String]) -> String {
  format!("[{}]", values.join(","))
}

#[cfg(test)]
mod tests {
  use super::*;

  use serde_json::{Value, json};

  fn text_of(a: &str, b: &str) -> String {
    let (session, checkpoint) = (SessionId::parse("s").unwrap(), CheckpointId::parse("cp\"1").unwrap());
    let documents = [a, b].map(|text| Document::parse(text).unwrap());
    let [a, b] = [&documents[0], &documents[1]].map(|document| Side {
      session: &session,
      checkpoint: &checkpoint,
      document,
    });
    diff(a, b)
  }

  fn diff_of(a: &str, b: &str) -> Value {
    serde_json::from_str(&text_of(a, b)).unwrap()
  }

  /// What changed between two task trees.
  fn tasks(a: &str, b: &str) -> Value {
    let [a, b] = [a, b].map(|tree| format!(r#"{{"taskTree":{tree}}}"#));
    diff_of(&a, &b)["tasks"].clone()
  }

  #[test]
  fn documents_without_a_difference_are_identical() {
    let text =
      r#"{"timestamp":5,"session":{"id":"s"},"taskTree":{"a":{"x":1}},"agentStates":{},"contextStore":{"k":[]}}"#;
    let nothing = json!({ "added": [], "removed": [], "changed": [] });
    let named = json!({ "sessionId": "s", "checkpointId": "cp\"1", "timestamp": 5 });
    let expected = json!({
      "a": named, "b": named, "identical": true,
      "tasks": nothing, "agents": nothing, "context": nothing, "session": [],
    });
    assert_eq!(diff_of(text, text), expected);
    let other_form = concat!(
      r#"{"contextStore":{"\u006b":[]},"agentStates":{},"taskTree":{"a":{"x":1.0}},"#,
      r#""session":{"id":"\u0073"},"timestamp":5}"#
    );
    assert_eq!(diff_of(text, other_form), expected);
  }

  #[test]
  fn ids_are_listed_in_the_order_of_the_tree_that_has_them() {
    let changes = tasks(
      r#"{"gone2":{},"kept":{"x":1},"gone1":{},"also":{"y":1},"same":{}}"#,
      r#"{"new2":{},"also":{"y":2},"same":{},"kept":{"x":2},"new1":1}"#,
    );
    assert_eq!(changes["added"], json!(["new2", "new1"]));
    assert_eq!(changes["removed"], json!(["gone2", "gone1"]));
    assert_eq!(
      changes["changed"],
      json!([{ "id": "also", "members": ["y"] }, { "id": "kept", "members": ["x"] }])
    );
  }

  #[test]
  fn added_removed_and_changed_members_are_named() {
    let changes = tasks(
      r#"{"t":{"gone":1,"deep":{"a":[1,{"b":2,"c":3}]},"same":{"p":1,"q":2},"other":null}}"#,
      r#"{"t":{"new":1,"same":{"q":2,"p":1},"other":false,"deep":{"a":[1,{"c":3,"b":4}]}}}"#,
    );
    assert_eq!(
      changes["changed"],
      json!([{ "id": "t", "members": ["new", "other", "deep", "gone"] }])
    );
  }

  #[test]
  fn a_changed_status_is_shown_and_a_missing_one_as_null() {
    for (a, b, expected) in [
      (
        r#"{"status":"failed"}"#,
        r#"{"status":"pending"}"#,
        json!({ "from": "failed", "to": "pending" }),
      ),
      (
        r"{}",
        r#"{"status":"pending"}"#,
        json!({ "from": null, "to": "pending" }),
      ),
      (r#"{"status":"a\"b"}"#, "7", json!({ "from": "a\"b", "to": null })),
      (r#"{"status":1}"#, r#"{"status":2}"#, Value::Null),
      (r#"{"status":"\u0061","x":1}"#, r#"{"status":"a","x":2}"#, Value::Null),
    ] {
      let changes = tasks(&format!(r#"{{"t":{a}}}"#), &format!(r#"{{"t":{b}}}"#));
      assert_eq!(changes["changed"][0]["status"], expected, "{a} and {b}");
      assert_eq!(changes["changed"].as_array().unwrap().len(), 1);
    }
  }

  #[test]
  fn values_that_are_no_objects_are_compared_as_a_whole() {
    let changes = tasks(
      r#"{"n":1,"same":1,"list":[1],"kind":{"x":1}}"#,
      r#"{"n":2,"same":1.0,"list":[2],"kind":[]}"#,
    );
    assert_eq!(
      changes["changed"],
      json!([
        { "id": "n", "members": [] }, { "id": "list", "members": [] }, { "id": "kind", "members": [] },
      ])
    );
    assert_eq!(tasks("5", "6"), json!({ "added": [], "removed": [], "changed": [] }));
    assert_eq!(tasks("null", r#"{"a":1}"#)["added"], json!(["a"]));
  }

  #[test]
  fn the_last_of_several_members_with_one_name_counts() {
    let changes = tasks(
      r#"{"t":{"x":1},"\u0074":{"x":2}}"#,
      r#"{"t":{"x":3,"x":2,"\u0078":2.0}}"#,
    );
    assert_eq!(changes["changed"], json!([]));
    assert_eq!(tasks(r#"{"t":1,"u":1,"t":2}"#, "{}")["removed"], json!(["t", "u"]));
  }

  #[test]
  fn an_escaped_name_equals_the_plain_one() {
    let changes = tasks(r#"{"a\u002fb":{"\u0078":1}}"#, r#"{"a/b":{"x":2}}"#);
    assert_eq!(changes["changed"], json!([{ "id": "a/b", "members": ["x"] }]));
    let lone = text_of(r#"{"taskTree":{"\ud800":1}}"#, r#"{"taskTree":{"\ud801":1}}"#);
    assert!(
      lone.contains(r#"{"added":["\ud801"],"removed":["\ud800"],"changed":[]}"#),
      "{lone}"
    );
  }

  #[test]
  fn agents_context_and_session_have_their_own_lists() {
    let changes = diff_of(
      concat!(
        r#"{"agentStates":{"x":{"state":"idle"},"y":{}},"contextStore":{"k":1,"l":[1,2],"m":0},"#,
        r#""session":{"id":"s","lastCheckpointId":"cp-1","checkpointIds":["cp-1"],"status":"active","errors":[]}}"#
      ),
      concat!(
        r#"{"agentStates":{"x":{"state":"busy"},"z":{}},"contextStore":{"n":1,"l":[2,1],"m":-0},"#,
        r#""session":{"id":"s","lastCheckpointId":"cp-2","checkpointIds":["cp-1","cp-2"],"status":"paused","pausedAt":1}}"#
      ),
    );
    assert_eq!(changes["identical"], false);
    assert_eq!(
      changes["agents"],
      json!({ "added": ["z"], "removed": ["y"], "changed": [{ "id": "x", "members": ["state"] }] })
    );
    assert_eq!(
      changes["context"],
      json!({ "added": ["n"], "removed": ["k"], "changed": ["l"] })
    );
    assert_eq!(changes["session"], json!(["status", "pausedAt", "errors"]));
  }

  #[test]
  fn a_timestamp_that_is_no_number_is_shown_as_zero() {
    let changes = diff_of(r#"{"timestamp":"soon"}"#, r#"{"timestamp":1e999}"#);
    assert_eq!([&changes["a"]["timestamp"], &changes["b"]["timestamp"]], [0, 0]);
  }
}
