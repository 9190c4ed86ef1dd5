use std::sync::Arc;

use super::*;
use crate::backend::{Encoding, MemoryBackend, Series};
use crate::checkpoint::compose::Parts;
use crate::types::error::Code;
use crate::types::id::CheckpointId;

mod long_texts;

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
fn the_limit_holds_in_every_encoding() {
  let store = opened(3);
  let made: Vec<_> = (0..8)
    .map(|n| create(&store, if n % 2 == 0 { Encoding::Json } else { Encoding::Gzip }))
    .collect();
  let newest_first: Vec<_> = made.iter().rev().take(3).cloned().collect();
  assert_eq!(ids(&store), newest_first);
}

#[test]
fn a_new_checkpoint_becomes_the_newest_after_one_from_the_future() {
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
fn retention_keeps_a_new_checkpoint_if_the_clock_of_another_process_is_ahead() {
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
fn pages_begin_with_the_newest_checkpoint() {
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
fn an_unreadable_checkpoint_is_reported_and_does_not_affect_others() {
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
fn restore_returns_the_state_that_it_wrote() {
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
fn restore_of_a_damaged_checkpoint_writes_nothing() {
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
fn a_checkpoint_in_another_json_form_is_whole() {
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
fn a_checkpoint_with_changed_data_in_another_json_form_is_damaged() {
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
fn restore_rejects_an_id_that_exists_in_two_sessions() {
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
fn close_waits_for_active_operations_and_rejects_new_ones() {
  let store = Arc::new(Store::new(Arc::new(MemoryBackend::default()), Options::default()));
  store.begin_open().finish().unwrap();
  let operation = store.enter().unwrap();
  let (tell, closed) = std::sync::mpsc::channel();
  for _ in 0..2 {
    let tell = tell.clone();
    store.close(move |closing| tell.send(closing.finish()).unwrap());
  }
  assert_eq!(store.enter().unwrap_err().code, Code::Closed);
  assert!(closed.try_recv().is_err());
  drop(operation);
  assert_eq!(closed.try_iter().count(), 2);
  store.close(move |closing| tell.send(closing.finish()).unwrap());
  assert_eq!(closed.try_iter().count(), 1);
  store.begin_open().finish().unwrap();
  assert!(store.enter().is_ok());
}

#[test]
fn a_close_during_an_opening_leaves_the_store_closed() {
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
fn operations_are_rejected_before_initialize() {
  let store = Arc::new(Store::new(Arc::new(MemoryBackend::default()), Options::default()));
  let error = store.enter().unwrap_err();
  assert_eq!(error.code, Code::NotInitialized);
  assert_eq!(
    error.message,
    "CheckpointStore not initialized. Call initialize() first."
  );
}
