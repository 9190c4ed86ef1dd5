use super::*;
use crate::checkpoint::document::Document;
use crate::json::layout::compact;
use crate::types::time::Timestamp;

fn parts() -> Parts {
  Parts {
    head: concat!(
      r#"{"trigger":"manual","description":"d","label":"l","session":{"7":"extra","id":"s","mine":1,"name":"n","#,
      r#""lastCheckpointId":"cp-0","checkpointIds":["cp-0"],"metadata":{"m":1}},"metadata":{"why":"not"}}"#
    )
    .to_owned(),
    task_tree: r#"{"taskTree":{"t":{"x":"é \" }"}}}"#.to_owned(),
    agent_states: r#"{"agentStates":{}}"#.to_owned(),
    context_store: r#"{"contextStore":{"k":1}}"#.to_owned(),
  }
}

fn composed(parts: &Parts) -> Result<String> {
  let checkpoint = NewCheckpoint::compose(&CheckpointId::parse("cp-1").unwrap(), Timestamp::from_millis(42), parts)?;
  Ok(checkpoint.compact().unwrap().0)
}

#[test]
fn members_are_in_the_order_of_the_format_and_our_own_follow() {
  let text = composed(&parts()).unwrap();
  let keys: Vec<_> = members(&text).unwrap().iter().map(|m| m.raw_key).collect();
  assert_eq!(
    keys,
    [
      "id",
      "sessionId",
      "timestamp",
      "trigger",
      "description",
      "session",
      "taskTree",
      "agentStates",
      "contextStore",
      "checksum",
      "version",
      "sizeBytes",
      "metadata",
      "taskCount",
      "agentCount",
      "label",
      "parent",
      "integrity"
    ]
  );
  assert_eq!(
    Document::parse(&text).unwrap().member("session").unwrap(),
    r#"{"7":"extra","id":"s","name":"n","lastCheckpointId":"cp-1","checkpointIds":["cp-0","cp-1"],"metadata":{"m":1},"mine":1}"#
  );
}

#[test]
fn small_and_large_documents_have_the_same_layout() {
  let mut parts = parts();
  for filling in ["", &"long ".repeat(LARGE_BYTES)] {
    parts.agent_states = format!(r#"{{"agentStates":{{"filling":"{filling}"}}}}"#);
    let checkpoint = NewCheckpoint::compose(
      &CheckpointId::parse("cp-1").unwrap(),
      Timestamp::from_millis(42),
      &parts,
    )
    .unwrap();
    let mut laid_out = Vec::new();
    checkpoint.write_laid_out(&mut laid_out).unwrap();
    let laid_out = String::from_utf8(laid_out).unwrap();
    assert!(laid_out.starts_with("{\n  \"id\": \"cp-1\",\n") && laid_out.ends_with("\"\n}"));
    assert_eq!(compact(&laid_out), composed(&parts).unwrap());
    assert!(Document::parse(&compact(&laid_out)).unwrap().checksums_match());
  }
}

#[test]
fn both_checksums_match_the_composed_text_and_no_changed_one() {
  let text = composed(&parts()).unwrap();
  assert!(Document::parse(&text).unwrap().checksums_match());
  for (from, to) in [
    ("é", "è"),
    ("\"k\":1", "\"k\":2"),
    ("\"why\":\"not\"", "\"why\":\"yes\""),
    ("\"d\"", "\"e\""),
  ] {
    let changed = text.replacen(from, to, 1);
    assert_ne!(changed, text);
    assert!(!Document::parse(&changed).unwrap().checksums_match(), "{from} -> {to}");
  }
  assert!(!Document::parse("{}").unwrap().checksums_match());
  // Without `integrity` only the members that the original writes are valid.
  let (original, _) = text.rsplit_once(",\"taskCount\"").unwrap();
  assert!(Document::parse(&format!("{original}}}")).unwrap().checksums_match());
  assert!(
    !Document::parse(&text.replace("\"integrity\"", "\"integrItY\""))
      .unwrap()
      .checksums_match()
  );
}

#[test]
fn the_checksums_cover_every_byte_of_the_layout() {
  let parts = parts();
  let checkpoint = NewCheckpoint::compose(
    &CheckpointId::parse("cp-1").unwrap(),
    Timestamp::from_millis(42),
    &parts,
  )
  .unwrap();
  let mut laid_out = Vec::new();
  checkpoint.write_laid_out(&mut laid_out).unwrap();
  let fits = |bytes: &[u8]| {
    let text = compact(str::from_utf8(bytes).ok()?);
    let fits = Document::parse(&text).ok()?.checksums_match();
    fits.then_some(text)
  };
  let whole = fits(&laid_out).unwrap();
  for at in 0..laid_out.len() {
    for other in *b";x{}[],:\" \n0\\" {
      let (before, after) = laid_out.split_at(at);
      let replaced = [before, &[other], &after[1..]].concat();
      let inserted = [before, &[other], after].concat();
      let removed = [before, &after[1..]].concat();
      for changed in [replaced, inserted, removed] {
        // Only changes of white space are not detected.
        assert!(fits(&changed).is_none_or(|text| text == whole), "{other} at {at}");
      }
    }
  }
}

#[test]
fn the_checksums_cover_a_second_member_with_the_same_name() {
  let text = composed(&parts()).unwrap();
  let doubled = text.replacen("\"taskTree\":", "\"taskTree\":{\"smuggled\":1},\"taskTree\":", 1);
  assert!(!Document::parse(&doubled).unwrap().checksums_match());
}

#[test]
fn a_part_that_is_not_an_object_is_refused_by_name() {
  let mut wrong = parts();
  wrong.agent_states = r#"{"agentStates":"gone"}"#.to_owned();
  let error = composed(&wrong).unwrap_err();
  assert_eq!(error.code, Code::NotSerializable);
  assert!(
    error.message.starts_with("agentStates must become a JSON object"),
    "{error}"
  );
  let mut wrong = parts();
  wrong.head = wrong.head.replace(r#"["cp-0"]"#, "{}");
  assert_eq!(composed(&wrong).unwrap_err().code, Code::InvalidArgument);
}
