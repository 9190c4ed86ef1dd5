use std::sync::Arc;

use super::*;
use crate::backend::{Encoding, MemoryBackend, Series};
use crate::checkpoint::compose::Parts;
use crate::json::layout::MAX_TEXT_UNITS;
use crate::types::error::Code;
use crate::types::id::CheckpointId;

fn parts() -> Parts {
  Parts {
    head: r#"{"trigger":"auto","session":{"id":"s","checkpointIds":[]}}"#.to_owned(),
    task_tree: r#"{"taskTree":{"a":{"status":"failed"}}}"#.to_owned(),
    agent_states: r#"{"agentStates":{"x":{}}}"#.to_owned(),
    context_store: r#"{"contextStore":{}}"#.to_owned(),
  }
}

fn opened(max_checkpoints_per_session: usize) -> OpenStore {
  let options = Options {
    max_checkpoints_per_session: Some(max_checkpoints_per_session),
    ..Options::default()
  };
  let store = Arc::new(Store::new(Arc::new(MemoryBackend::default()), options));
  store.begin_open().finish().unwrap();
  store.enter().unwrap()
}

fn session() -> SessionId {
  SessionId::parse("s").unwrap()
}

fn create(store: &Store, encoding: Encoding) -> CheckpointId {
  store
    .create_checkpoint(&store.ticket(session()), &parts(), encoding)
    .unwrap()
    .id
}

fn ids(store: &Store) -> Vec<CheckpointId> {
  let entries = store.list(&session().into(), 0, 0).unwrap().entries;
  let read = entries
    .iter()
    .map(|entry| store.read_entry(&session().into(), entry).unwrap());
  read.map(|stored| stored.unwrap().id).collect()
}

fn request(id: &CheckpointId) -> RestoreRequest {
  RestoreRequest {
    session: None,
    checkpoint: id.clone(),
    asked_for: id.to_string(),
    validate_checksum: true,
    resets: crate::checkpoint::reset::Resets::default(),
    include_state: false,
  }
}

#[test]
fn the_limit_holds_whatever_the_encoding() {
  let store = opened(3);
  let made: Vec<_> = (0..8)
    .map(|n| create(&store, if n % 2 == 0 { Encoding::Json } else { Encoding::Gzip }))
    .collect();
  let newest_first: Vec<_> = made.iter().rev().take(3).cloned().collect();
  assert_eq!(ids(&store), newest_first);
}

#[test]
fn a_checkpoint_from_the_clocks_future_is_neither_newest_for_ever_nor_in_the_way() {
  let store = opened(1);
  let future = CheckpointId::parse("cp-zzzzzzzz-zzzzzz").unwrap();
  store
    .backend
    .put(&session(), Item::Checkpoint(None, &future, Encoding::Json), b"{}")
    .unwrap();
  let made = create(&store, Encoding::Json);
  assert_eq!(ids(&store), [made]);
}

#[test]
fn a_process_with_a_clock_ahead_does_not_make_our_new_checkpoint_go() {
  let store = opened(1);
  create(&store, Encoding::Json);
  let ahead = CheckpointId::parse("cp-zzzzzzzz-zzzzzz").unwrap();
  store
    .backend
    .put(&session(), Item::Checkpoint(None, &ahead, Encoding::Json), b"{}")
    .unwrap();
  let made = create(&store, Encoding::Json);
  assert!(store.checkpoint(&session().into(), &made).unwrap().is_some());
  let next = create(&store, Encoding::Json);
  assert_eq!(ids(&store), [next]);
}

#[test]
fn pages_are_cut_from_the_newest_end() {
  let store = opened(100);
  let mut made: Vec<_> = (0..5).map(|_| create(&store, Encoding::Json)).collect();
  made.reverse();
  let page = |limit, offset| {
    let page = store.list(&session().into(), limit, offset).unwrap();
    assert_eq!(page.total, 5);
    page.entries.into_iter().map(|entry| entry.id).collect::<Vec<_>>()
  };
  assert_eq!(page(2, 0), made[..2]);
  assert_eq!(page(2, 4), made[4..]);
  assert_eq!(page(0, 1), made[1..]);
  assert_eq!(page(3, 9), []);
}

#[test]
fn an_unreadable_checkpoint_is_reported_and_blocks_nothing() {
  let store = opened(100);
  let good = create(&store, Encoding::Json);
  let bad = CheckpointId::parse("cp-1-000000").unwrap();
  store
    .backend
    .put(&session(), Item::Checkpoint(None, &bad, Encoding::Gzip), b"not gzip")
    .unwrap();
  let page = store.list(&session().into(), 0, 0).unwrap();
  assert_eq!(page.total, 2);
  let mut read = page
    .entries
    .iter()
    .filter_map(|entry| store.read_entry(&session().into(), entry));
  let damaged = read.find_map(Result::err).unwrap();
  assert_eq!((damaged.id, damaged.error.code), (bad, Code::Corrupt));
  assert_eq!(store.latest_checkpoint(&session().into()).unwrap().unwrap().id, good);
  create(&store, Encoding::Gzip);
}

#[test]
fn a_restore_hands_back_what_it_wrote() {
  let store = opened(100);
  let id = create(&store, Encoding::Gzip);
  let mut wanted = request(&id);
  wanted.include_state = true;
  wanted.resets.failed = true;
  let restored = store.restore(&wanted).unwrap();
  assert_eq!((restored.tasks, restored.agents), (1, 1));
  assert_eq!(restored.warnings, r#"["Reset failed task: a"]"#);
  assert_eq!(
    restored.state.unwrap(),
    format!(
      r#"{{"session":{{"id":"s","lastCheckpointId":"{id}","checkpointIds":["{id}"]}},"taskTree":{{"a":{{"status":"pending","retryCount":0}}}},"agentStates":{{"x":{{}}}},"contextStore":{{}}}}"#
    )
  );
  let tree = store.load_task_tree(&session(), 0).unwrap().unwrap();
  assert_eq!(
    crate::json::layout::compact(&tree.text),
    r#"{"a":{"status":"pending","retryCount":0}}"#
  );
}

#[test]
fn damage_writes_nothing() {
  let store = opened(100);
  let id = create(&store, Encoding::Json);
  let item = Item::Checkpoint(None, &id, Encoding::Json);
  let text = String::from_utf8(store.backend.read(&session(), item, u64::MAX).unwrap().unwrap()).unwrap();
  store
    .backend
    .put(&session(), item, &text.replace("failed", "healed"))
    .unwrap();
  assert_eq!(store.restore(&request(&id)).unwrap_err().code, Code::ChecksumMismatch);

  store.backend.put(&session(), item, b"{\"id\":").unwrap();
  assert_eq!(store.restore(&request(&id)).unwrap_err().code, Code::Corrupt);
  assert_eq!(store.load_session(&session(), 0).unwrap(), None);
}

/// Replaces the text of a checkpoint.
fn rewrite(store: &Store, id: &CheckpointId, change: impl Fn(&str) -> String) {
  let item = Item::Checkpoint(None, id, Encoding::Json);
  let bytes = store.backend.read(&session(), item, u64::MAX).unwrap().unwrap();
  let text = change(str::from_utf8(&bytes).unwrap());
  store.backend.put(&session(), item, &text.as_bytes()).unwrap();
}

fn recover_request() -> RecoverRequest {
  RecoverRequest {
    session: session(),
    resets: crate::checkpoint::reset::Resets::default(),
    include_state: false,
    quarantine: true,
    is_dry_run: false,
  }
}

fn fork_request(id: &CheckpointId) -> ForkRequest {
  ForkRequest {
    session: session(),
    checkpoint: id.clone(),
    new_session: SessionId::parse("fork").unwrap(),
    resets: crate::checkpoint::reset::Resets::default(),
  }
}

#[test]
fn a_checkpoint_written_in_another_form_is_whole() {
  let store = opened(100);
  let (original, id) = (create(&store, Encoding::Gzip), create(&store, Encoding::Json));
  rewrite(&store, &id, |text| {
    let other_form = text
      .replace("\"failed\"", "\"\\u0066ailed\"")
      .replace("\"sizeBytes\": 0", "\"sizeBytes\":0e5");
    assert_eq!(other_form.len(), text.len() + 6);
    other_form
  });
  let series = Series::from(&session());
  assert!(store.verify_checkpoint(&series, &id).unwrap().is_ok());
  let stored = store.checkpoint(&series, &id).unwrap().unwrap();
  assert!(stored.is_verified && stored.text.contains("\"failed\"") && stored.text.contains("\"sizeBytes\":0,"));
  assert_eq!(store.latest_checkpoint(&series).unwrap().unwrap().id, id);
  assert_eq!(ids(&store), [id.clone(), original.clone()]);
  let difference = store.diff(&(session(), original), &(session(), id.clone())).unwrap();
  assert!(difference.contains("\"identical\":true"), "{difference}");

  let mut wanted = request(&id);
  wanted.resets.failed = true;
  assert_eq!(store.restore(&wanted).unwrap().warnings, r#"["Reset failed task: a"]"#);
  let outcome = store.recover(&recover_request()).unwrap();
  assert!(
    matches!(&outcome, RecoverOutcome::Recovered { checkpoint, passed_over, .. } if *checkpoint == id && passed_over.is_empty()),
    "{outcome:?}"
  );
  store.fork(&fork_request(&id), store.stamp()).unwrap();
  let forked = store
    .load_task_tree(&SessionId::parse("fork").unwrap(), 0)
    .unwrap()
    .unwrap();
  assert_eq!(
    crate::json::layout::compact(&forked.text),
    r#"{"a":{"status":"failed"}}"#
  );
}

#[test]
fn a_checkpoint_with_other_data_in_another_form_is_damaged() {
  let store = opened(100);
  let (whole, id) = (create(&store, Encoding::Json), create(&store, Encoding::Json));
  rewrite(&store, &id, |text| text.replace("\"failed\"", "\"\\u0046ailed\""));
  let series = Series::from(&session());
  let damaged = store.verify_checkpoint(&series, &id).unwrap().unwrap_err();
  assert_eq!(damaged.error.code, Code::ChecksumMismatch);
  assert_eq!(store.checkpoint(&series, &id).unwrap_err().code, Code::ChecksumMismatch);
  assert_eq!(store.restore(&request(&id)).unwrap_err().code, Code::ChecksumMismatch);
  let forked = store.fork(&fork_request(&id), store.stamp());
  assert_eq!(forked.unwrap_err().code, Code::ChecksumMismatch);
  let difference = store.diff(&(session(), whole.clone()), &(session(), id.clone()));
  assert_eq!(difference.unwrap_err().code, Code::ChecksumMismatch);
  assert_eq!(store.load_session(&session(), 0).unwrap(), None);
  let unchecked = RestoreRequest {
    validate_checksum: false,
    ..request(&id)
  };
  assert_eq!(store.restore(&unchecked).unwrap().tasks, 1);

  let RecoverOutcome::Recovered {
    checkpoint,
    passed_over,
    ..
  } = store.recover(&recover_request()).unwrap()
  else {
    panic!("the older checkpoint is whole");
  };
  assert_eq!((checkpoint, &passed_over[0].damaged.id), (whole.clone(), &id));
  assert!(passed_over[0].moved_to.is_some());
  assert_eq!(ids(&store), [whole]);
}

#[test]
fn a_plain_id_in_two_sessions_is_not_guessed() {
  let store = opened(100);
  let id = create(&store, Encoding::Json);
  let other = SessionId::parse("copy").unwrap();
  store
    .backend
    .put(&other, Item::Checkpoint(None, &id, Encoding::Gzip), b"")
    .unwrap();
  let error = store.restore(&request(&id)).unwrap_err();
  assert_eq!(error.code, Code::Ambiguous);
  assert!(error.message.contains("copy, s"), "{error}");
  let missing = store
    .restore(&request(&CheckpointId::parse("cp-none").unwrap()))
    .unwrap_err();
  assert_eq!(
    (missing.code, missing.message.as_str()),
    (Code::NotFound, "Checkpoint not found: cp-none")
  );
}

#[test]
fn closing_waits_for_what_is_under_way_and_lets_nothing_else_in() {
  let store = Arc::new(Store::new(Arc::new(MemoryBackend::default()), Options::default()));
  store.begin_open().finish().unwrap();
  let inside = store.enter().unwrap();
  let (tell, closed) = std::sync::mpsc::channel();
  for _ in 0..2 {
    let tell = tell.clone();
    store.close(move |closing| tell.send(closing.finish()).unwrap());
  }
  assert_eq!(store.enter().unwrap_err().code, Code::Closed);
  assert!(closed.try_recv().is_err());
  drop(inside);
  assert_eq!(closed.try_iter().count(), 2);
  store.close(move |closing| tell.send(closing.finish()).unwrap());
  assert_eq!(closed.try_iter().count(), 1);
  store.begin_open().finish().unwrap();
  assert!(store.enter().is_ok());
}

#[test]
fn a_close_that_comes_while_the_store_opens_has_the_last_word() {
  let store = Arc::new(Store::new(Arc::new(MemoryBackend::default()), Options::default()));
  let (tell, closed) = std::sync::mpsc::channel();
  let opening = store.begin_open();
  store.close(move |closing| tell.send(closing.finish()).unwrap());
  assert!(closed.try_recv().is_err());
  assert_eq!(opening.finish().unwrap_err().code, Code::Closed);
  closed.recv().unwrap().unwrap();
  assert_eq!(store.enter().unwrap_err().code, Code::Closed);
}

#[test]
fn nothing_works_before_initialize() {
  let store = Arc::new(Store::new(Arc::new(MemoryBackend::default()), Options::default()));
  let error = store.enter().unwrap_err();
  assert_eq!(error.code, Code::NotInitialized);
  assert_eq!(
    error.message,
    "CheckpointStore not initialized. Call initialize() first."
  );
}

/// Parts whose text has about so many UTF-16 code units, made of one character.
fn parts_of(character: &str, units: usize) -> Parts {
  let count = units / character.encode_utf16().count();
  Parts {
    context_store: format!("{{\"contextStore\":{{\"c\":\"{}\"}}}}", character.repeat(count)),
    ..parts()
  }
}

#[test]
fn a_state_that_no_engine_could_read_back_is_refused_in_every_encoding() {
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
fn documents_and_results_that_no_engine_could_read_back_are_refused() {
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
fn a_state_of_an_agent_is_refused_likewise_but_its_bytes_may_be_longer() {
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

/// A store with a checkpoint that fits, and a newer one that no engine can hold, as a version without the limit left it.
fn with_too_large(encoding: Encoding) -> (OpenStore, CheckpointId, CheckpointId) {
  let store = opened(10);
  let fits = create(&store, Encoding::Json);
  let id = CheckpointId::parse("cp-zzzzzzzz-000001").unwrap();
  let parts = Parts {
    head: r#"{"trigger":"auto","session":{"id":"s","status":"active","checkpointIds":[]}}"#.to_owned(),
    ..parts_of("x", MAX_TEXT_UNITS)
  };
  let composed = crate::checkpoint::compose::NewCheckpoint::compose(&id, 42, &parts).unwrap();
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
fn a_stored_checkpoint_that_no_engine_can_hold_is_reported_and_passed_over() {
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
fn a_session_whose_only_checkpoint_no_engine_can_hold_is_recoverable_by_what_it_says() {
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
