//! Reads mutated documents with every read method: nothing crashes, and every change of a checkpoint is detected unless its
//! meaning is the same. `WAYMARK_MUTATIONS` sets the number of mutations.

#![allow(
  clippy::unwrap_used,
  clippy::print_stdout,
  reason = "a test may panic, and prints its figures"
)]

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use waymark::Options;
use waymark::backend::{Backend, BackendExt, Encoding, Item, ItemName, MemoryBackend, Series};
use waymark::checkpoint::compose::Parts;
use waymark::checkpoint::reset::Resets;
use waymark::codec::delta::{self, Reference, Tip};
use waymark::codec::{gzip, zstd};
use waymark::json::canonical::canonical;
use waymark::json::scan::validate;
use waymark::store::{Filter, InfoRequest, OpenStore, RecoverRequest, RestoreRequest, Store};
use waymark::types::id::{CheckpointId, SessionId, TaskId};
use waymark::types::progress::Control;

fn parts() -> Parts {
  Parts {
    head: concat!(
      r#"{"trigger":"manual","description":"a \"quoted\" é","label":"l","session":{"id":"s","name":"né","#,
      r#""lastCheckpointId":"cp-0","checkpointIds":["cp-0"],"#,
      r#""metadata":{"n":[1,2.5,-0.1,1e+21],"deep":{"a":{"b":[[],{}]}}}}}"#
    )
    .to_owned(),
    task_tree: concat!(
      r#"{"taskTree":{"1":{"status":"failed","x":null},"#,
      r#""t":{"status":"in_progress","result":{"ok":true}}}}"#
    )
    .to_owned(),
    agent_states: r#"{"agentStates":{"a":{"state":"idle"}}}"#.to_owned(),
    context_store: r#"{"contextStore":{"k":"v"}}"#.to_owned(),
  }
}

struct Random(u64);

impl Random {
  fn below(&mut self, limit: usize) -> usize {
    self.0 ^= self.0 << 13;
    self.0 ^= self.0 >> 7;
    self.0 ^= self.0 << 17;
    usize::try_from(self.0 >> 16).unwrap() % limit.max(1)
  }
}

/// Changes bytes in one of several ways; some insert parts of `other`.
fn mutated(random: &mut Random, bytes: &[u8], other: &[u8]) -> Vec<u8> {
  let mut changed = bytes.to_vec();
  let at = random.below(bytes.len());
  match random.below(8) {
    0 => changed[at] ^= 1 << random.below(8),
    1 => changed.truncate(at),
    2 => changed[at] = u8::try_from(random.below(256)).unwrap(),
    3 => {
      let end = (at + 1 + random.below(64)).min(bytes.len());
      changed.drain(at..end);
    }
    4 => {
      let from = random.below(other.len());
      let to = (from + 1 + random.below(64)).min(other.len());
      changed.splice(at..at, other[from..to].iter().copied());
    }
    5 => {
      let from = random.below(other.len());
      let length = random.below(64).min(other.len() - from).min(bytes.len() - at);
      changed[at..at + length].copy_from_slice(&other[from..from + length]);
    }
    6 => changed = other.to_vec(),
    _ => {
      const TOKENS: [&str; 12] = ["{", "}", "[", "]", ",", ":", "\"", "\\", " ", "0", "null", "\\u0000"];
      let token = TOKENS[random.below(TOKENS.len())].bytes();
      changed.splice(at..at, token);
    }
  }
  changed
}

/// Calls every method that reads. The results do not matter, but every call must return.
fn read_everything(store: &OpenStore, session: &SessionId, id: &CheckpointId, task: &TaskId) {
  let series = &Series::from(session);
  let _ = store.load_session(session, 0);
  let _ = store.load_task_tree(session, 0);
  let _ = store.load_task_result(session, task);
  let _ = store.checkpoint(series, id);
  let _ = store.latest_checkpoint(series);
  for entry in store.list(series, 0, 0).unwrap().entries {
    let _ = store.read_entry(series, &entry);
    if let Ok(difference) = store.diff(&(session.clone(), id.clone()), &(session.clone(), entry.id)) {
      assert!(validate(&difference).is_ok(), "{difference}");
    }
  }
  for filter in [
    Filter::default(),
    Filter {
      since: Some(1.0),
      ..Filter::default()
    },
  ] {
    let mut walk = store.iterate(series, filter.clone()).unwrap();
    while store.next_of(&mut walk).is_some() {}
    let page = store.list_info(&InfoRequest {
      series: series.clone(),
      limit: 0,
      cursor: None,
      filter,
    });
    let infos = page.unwrap().infos;
    assert!(serde_json::from_str::<Value>(&infos).is_ok(), "{infos}");
  }
  let _ = store.verify_checkpoint(series, id);
  let _ = store.verify_session(session, &Control::default()).unwrap();
  let resets = Resets {
    failed: true,
    in_progress: true,
  };
  for validate_checksum in [true, false] {
    let _ = store.restore(&RestoreRequest {
      session: Some(session.clone()),
      checkpoint: id.clone(),
      asked_for: id.to_string(),
      validate_checksum,
      resets,
      include_state: true,
    });
  }
  let _ = store.recover(&RecoverRequest {
    session: session.clone(),
    resets,
    include_state: true,
    quarantine: false,
    is_dry_run: false,
  });
}

/// The canonical text of a checkpoint; `None` if it is damaged. `tip` has the text that a delta differs from.
fn canonical_text(encoding: Encoding, bytes: &[u8], tip: &Tip) -> Option<String> {
  let json = match encoding {
    Encoding::Json => bytes.to_vec(),
    Encoding::Gzip => gzip::decompress(bytes, 1 << 20).ok()?,
    Encoding::Zstd => zstd::text_of(bytes, b"", 1 << 20).ok()?,
    Encoding::Delta => delta::text(bytes, &Reference::of(bytes)?, tip, 1 << 20).ok()?,
  };
  let text = String::from_utf8(json).ok()?;
  canonical(&text).ok().map(Cow::into_owned)
}

#[test]
fn readers_survive_every_mutation_and_detect_those_that_change_a_checkpoint() {
  let count: usize = std::env::var("WAYMARK_MUTATIONS").map_or(3000, |count| count.parse().unwrap());
  let backend = Arc::new(MemoryBackend::default());
  let store = Arc::new(Store::new(Arc::clone(&backend) as Arc<dyn Backend>, Options::default()));
  store.begin_open().finish().unwrap();
  let store = store.enter().unwrap();
  let session = SessionId::parse("s").unwrap();
  let task = TaskId::parse("t").unwrap();
  store.save_session(&session, r#"{"id":"s","name":"n"}"#, None).unwrap();
  store.save_task_tree(&session, r#"{"a":{"status":"pending"}}"#).unwrap();
  store
    .save_task_result(&session, &task, r#"[1,"two",{"three":null}]"#)
    .unwrap();
  // Twice, so that one delta creates a base and another uses it.
  let created: Vec<_> = Encoding::ALL
    .into_iter()
    .chain(Encoding::ALL)
    .map(|encoding| {
      let checkpoint = store
        .create_checkpoint(&store.ticket(&session), &parts(), encoding)
        .unwrap();
      (checkpoint.id, encoding)
    })
    .collect();
  let checkpoints = created
    .iter()
    .map(|(id, encoding)| Item::Checkpoint(None, id, *encoding));
  let ItemName::Base(_, base) = backend.bases(&(&session).into()).unwrap().remove(0).name else {
    panic!("not a base");
  };
  let items: Vec<_> = [
    Item::SESSION,
    Item::TASK_TREE,
    Item::TaskResult(&task),
    Item::Base(None, &base),
  ]
  .into_iter()
  .chain(checkpoints)
  .collect();
  let base_bytes = backend
    .read(&session, Item::Base(None, &base), u64::MAX)
    .unwrap()
    .unwrap();
  let tip = Tip::read(&base_bytes, base_bytes.len() as u64, u64::MAX).unwrap();
  let originals: Vec<Vec<u8>> = items
    .iter()
    .map(|item| backend.read(&session, *item, u64::MAX).unwrap().unwrap())
    .collect();

  let mut random = Random(0x5eed_2026);
  let (mut detected, mut harmless) = (0, 0);
  for _ in 0..count {
    let chosen = random.below(items.len());
    let other = random.below(items.len());
    let bytes = mutated(&mut random, &originals[chosen], &originals[other]);
    backend.put(&session, items[chosen], &bytes).unwrap();
    read_everything(&store, &session, &created[0].0, &task);
    if let Item::Checkpoint(None, id, encoding) = items[chosen] {
      match store.checkpoint(&(&session).into(), id) {
        Ok(Some(stored)) if stored.is_verified => {
          assert_eq!(
            canonical_text(encoding, &bytes, &tip),
            canonical_text(encoding, &originals[chosen], &tip),
            "{bytes:?}"
          );
          harmless += 1;
        }
        _ => detected += 1,
      }
    }
    for (item, original) in items.iter().zip(&originals) {
      backend.put(&session, *item, original).unwrap();
    }
  }
  assert!(detected > count / 10, "{detected}");
  println!("campaign: {count} files; of the checkpoints among them {detected} detected, {harmless} mean the same");
}
