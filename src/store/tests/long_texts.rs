//! Texts that exceed the longest JavaScript string.

use super::*;
use crate::json::layout::MAX_TEXT_UNITS;
use crate::types::time::Timestamp;

/// Parts whose text has about `units` UTF-16 code units of one character.
fn parts_of(character: &str, units: usize) -> Parts {
  let count = units / character.encode_utf16().count();
  Parts {
    context_store: format!("{{\"contextStore\":{{\"c\":\"{}\"}}}}", character.repeat(count)),
    ..parts()
  }
}

#[test]
fn a_state_that_exceeds_a_javascript_string_is_refused_in_every_encoding() {
  for encoding in Encoding::ALL {
    let store = opened(10);
    let create = |parts: &Parts| store.create_checkpoint(&store.ticket(session()), parts, encoding);
    create(&parts()).unwrap();
    for character in ["x", "é", "検", "🟦"] {
      let refused = create(&parts_of(character, MAX_TEXT_UNITS)).unwrap_err();
      assert_eq!(refused.code, Code::TooLarge, "{encoding:?} {character}: {refused}");
      assert!(refused.message.contains("Store large parts"), "{refused}");
      // Characters of several bytes, but not more units than fit.
      create(&parts_of(character, MAX_TEXT_UNITS - 2000)).unwrap();
    }
    assert_eq!(ids(&store).len(), 5, "{encoding:?}");
  }
}

#[test]
fn documents_and_results_that_exceed_a_javascript_string_are_refused() {
  let store = opened(10);
  let long = format!("{{\"id\":\"s\",\"text\":\"{}\"}}", "x".repeat(MAX_TEXT_UNITS));
  let task = crate::types::id::TaskId::parse("t").unwrap();
  let seen = ExpectedRevision(None);
  for refused in [
    store.save_session(&session(), &long, None).map(drop),
    store.save_session(&session(), &long, Some(&seen)).map(drop),
    store.save_task_tree(&session(), &long).map(drop),
    store.save_task_result(&session(), &task, &long).map(drop),
  ] {
    assert_eq!(refused.unwrap_err().code, Code::TooLarge);
  }
  assert!(store.sessions().unwrap().is_empty());
}

#[test]
fn an_agent_state_that_exceeds_a_javascript_string_is_refused_but_its_bytes_may_be_longer() {
  use crate::checkpoint::agent::AgentState;
  let agent = Some(crate::types::id::AgentId::parse("a").unwrap());
  let series = Series {
    session: session(),
    agent,
  };
  for encoding in Encoding::ALL {
    let store = opened(10);
    let save = |json: String, context: Option<Vec<u8>>| {
      let state = AgentState {
        json,
        context,
        ttl_ms: None,
      };
      store.save_agent(&store.ticket(series.clone()), &state, encoding)
    };
    let refused = save(format!("{{\"messages\":[\"{}\"]}}", "x".repeat(MAX_TEXT_UNITS)), None);
    assert_eq!(refused.unwrap_err().code, Code::TooLarge, "{encoding:?}");
    let saved = save("{\"messages\":[]}".to_owned(), Some(vec![7; MAX_TEXT_UNITS]));
    if encoding == Encoding::Json {
      assert_eq!(saved.unwrap_err().code, Code::TooLarge);
      continue;
    }
    let entry = store.list(&series, 0, 0).unwrap().entries.pop().unwrap();
    let stored = store.read_entry(&series, &entry).unwrap().unwrap();
    assert_eq!(
      (stored.id, stored.context.unwrap().len()),
      (saved.unwrap().id, MAX_TEXT_UNITS)
    );
  }
}

/// A store with a checkpoint that fits, and a newer one that exceeds a JavaScript string, as a version without the limit stored it.
fn with_too_large(encoding: Encoding) -> (OpenStore, CheckpointId, CheckpointId) {
  let store = opened(10);
  let fits = create(&store, Encoding::Json);
  let id = CheckpointId::parse("cp-zzzzzzzz-000001").unwrap();
  let parts = Parts {
    head: r#"{"trigger":"auto","session":{"id":"s","status":"active","checkpointIds":[]}}"#.to_owned(),
    ..parts_of("x", MAX_TEXT_UNITS)
  };
  let composed = crate::checkpoint::compose::NewCheckpoint::compose(&id, Timestamp::from_millis(42), &parts).unwrap();
  let (text, info) = composed.compact_of_any_length().unwrap();
  let bytes = match encoding {
    Encoding::Json => text.into_bytes(),
    Encoding::Gzip => crate::codec::gzip::compress(text.as_bytes(), &info.to_note()),
    Encoding::Zstd | Encoding::Delta => crate::codec::zstd::whole(text.as_bytes()),
  };
  let item = Item::Checkpoint(None, &id, encoding);
  store.backend.put(&session(), item, &bytes).unwrap();
  (store, fits, id)
}

#[test]
fn a_stored_checkpoint_that_exceeds_a_javascript_string_is_reported_and_skipped() {
  for encoding in [Encoding::Json, Encoding::Gzip, Encoding::Zstd] {
    let (store, fits, too_large) = with_too_large(encoding);
    let RecoverOutcome::Recovered {
      checkpoint,
      passed_over,
      ..
    } = store.recover(&recover_request()).unwrap()
    else {
      panic!("nothing was recovered");
    };
    assert_eq!(checkpoint, fits, "{encoding:?}");
    assert_eq!(passed_over.len(), 1);
    assert_eq!(passed_over[0].damaged.id, too_large);
    assert_eq!(passed_over[0].damaged.error.code, Code::TooLarge);
    assert_eq!(passed_over[0].moved_to, None, "it is whole: other programs can read it");

    let report = store.verify_checkpoint(&session().into(), &too_large).unwrap();
    assert_eq!(report.unwrap_err().error.code, Code::TooLarge);
    let with_state = RestoreRequest {
      include_state: true,
      ..request(&too_large)
    };
    assert_eq!(store.restore(&with_state).unwrap_err().code, Code::TooLarge);
  }
}

#[test]
fn a_session_whose_only_checkpoint_exceeds_a_javascript_string_is_recoverable() {
  let (store, fits, too_large) = with_too_large(Encoding::Gzip);
  store.delete_checkpoint(&session().into(), &fits).unwrap();
  let found = store.recoverable().unwrap();
  let [Recoverable { candidates, .. }] = &found[..] else {
    panic!("{found:?}");
  };
  let [Candidate::Damaged(damage, summary)] = &candidates[..] else {
    panic!("{candidates:?}");
  };
  assert_eq!((&damage.id, damage.error.code), (&too_large, Code::TooLarge));
  assert!(summary.as_ref().is_some_and(Summary::is_running));
}
