use std::sync::Arc;

use super::*;
use crate::backend::{Encoding, MemoryBackend};
use crate::error::Code;
use crate::format::compose::Parts;
use crate::id::CheckpointId;

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
    .create_checkpoint(&session(), store.stamp(), &parts(), encoding)
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
    resets: crate::format::reset::Resets::default(),
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
    .write(&session(), Item::Checkpoint(None, &future, Encoding::Json), b"{}")
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
    .write(&session(), Item::Checkpoint(None, &ahead, Encoding::Json), b"{}")
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
    .write(&session(), Item::Checkpoint(None, &bad, Encoding::Gzip), b"not gzip")
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
  let RestoreOutcome::Restored(restored) = store.restore(wanted).unwrap() else {
    panic!("its own checkpoint needs no other spelling");
  };
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
    crate::format::layout::compact(&tree.text),
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
    .write(&session(), item, &text.replace("failed", "healed"))
    .unwrap();
  let RestoreOutcome::NeedsRespelling(respelling) = store.restore(request(&id)).unwrap() else {
    panic!("a changed status cannot fit the checksum");
  };
  let respelt = crate::format::layout::compact(&respelling.stored.text);
  let error = store.restore_respelled(&respelling, &respelt).unwrap_err();
  assert_eq!(error.code, Code::ChecksumMismatch);

  store.backend.write(&session(), item, b"{\"id\":").unwrap();
  assert_eq!(store.restore(request(&id)).unwrap_err().code, Code::Corrupt);
  assert_eq!(store.load_session(&session(), 0).unwrap(), None);
}

#[test]
fn a_plain_id_in_two_sessions_is_not_guessed() {
  let store = opened(100);
  let id = create(&store, Encoding::Json);
  let other = SessionId::parse("copy").unwrap();
  store
    .backend
    .write(&other, Item::Checkpoint(None, &id, Encoding::Gzip), b"")
    .unwrap();
  let error = store.restore(request(&id)).unwrap_err();
  assert_eq!(error.code, Code::Ambiguous);
  assert!(error.message.contains("copy, s"), "{error}");
  let missing = store
    .restore(request(&CheckpointId::parse("cp-none").unwrap()))
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
    store.close(move || tell.send(()).unwrap());
  }
  assert_eq!(store.enter().unwrap_err().code, Code::Closed);
  assert!(closed.try_recv().is_err());
  drop(inside);
  assert_eq!(closed.try_iter().count(), 2);
  store.close(move || tell.send(()).unwrap());
  assert_eq!(closed.try_iter().count(), 1);
  store.begin_open().finish().unwrap();
  assert!(store.enter().is_ok());
}

#[test]
fn a_close_that_comes_while_the_store_opens_has_the_last_word() {
  let store = Arc::new(Store::new(Arc::new(MemoryBackend::default()), Options::default()));
  let (tell, closed) = std::sync::mpsc::channel();
  let opening = store.begin_open();
  store.close(move || tell.send(()).unwrap());
  assert!(closed.try_recv().is_err());
  assert_eq!(opening.finish().unwrap_err().code, Code::Closed);
  closed.recv().unwrap();
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
