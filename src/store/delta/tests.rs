use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::cache::MAX_TEXTS;
use super::*;
use crate::Options;
use crate::backend::{FileStamp, MemoryBackend, Settings};
use crate::checkpoint::compose::Parts;
use crate::codec::delta::{BasePrefix, max_work};
use crate::types::id::{AgentId, SessionId};

const NO_LIMIT: u64 = u64::MAX;

fn id() -> CheckpointId {
  CheckpointId::parse("cp-1-000001").unwrap()
}

fn series(number: usize) -> Series {
  SessionId::parse(&format!("s{number}")).unwrap().into()
}

/// A tip whose text has `length` bytes, of a base of `frame` bytes and a first text of `text` bytes.
fn tip(length: usize, (frame, text): (u64, u64)) -> Tip {
  Tip {
    text: vec![b'x'; length],
    prefix: BasePrefix {
      bytes: frame,
      checksum: 0,
      texts: 1,
      work: text,
      first: (frame, text),
    },
  }
}

fn cached(is_own: bool) -> Arc<CachedBase> {
  CachedBase::new(id(), tip(10, (1000, 4000)), None, is_own)
}

fn base_of(length: usize) -> Arc<CachedBase> {
  CachedBase::new(id(), tip(length, (1, 1)), None, true)
}

#[test]
fn small_differences_are_stored_until_moving_the_tip_is_worth_its_bytes() {
  let base = cached(true);
  assert_eq!(base.next_step(100, 4000, NO_LIMIT), DeltaStep::Store);
  assert_eq!(base.next_step(100, 4000, NO_LIMIT), DeltaStep::MoveTip);
  // A difference that has grown counts for more than those before it.
  let base = cached(true);
  let steps = [10, 20, 40, 80, 100].map(|size| base.next_step(size, 4000, NO_LIMIT));
  assert_eq!(
    steps,
    [
      DeltaStep::Store,
      DeltaStep::Store,
      DeltaStep::Store,
      DeltaStep::Store,
      DeltaStep::MoveTip
    ]
  );
}

#[test]
fn a_difference_of_half_the_whole_text_begins_a_new_base() {
  for is_own in [true, false] {
    assert_eq!(cached(is_own).next_step(500, 4000, NO_LIMIT), DeltaStep::Store);
    assert_eq!(cached(is_own).next_step(501, 4000, NO_LIMIT), DeltaStep::NewBase);
    // The whole of a longer text has more bytes.
    assert_eq!(cached(is_own).next_step(501, 8000, NO_LIMIT), DeltaStep::Store);
    assert_eq!(cached(is_own).next_step(1, 0, NO_LIMIT), DeltaStep::NewBase);
  }
}

#[test]
fn a_base_of_another_store_is_replaced_when_its_differences_exceed_the_whole_text() {
  let base = cached(false);
  for _ in 0..10 {
    assert_eq!(base.next_step(100, 4000, NO_LIMIT), DeltaStep::Store);
  }
  assert_eq!(base.next_step(100, 4000, NO_LIMIT), DeltaStep::NewBase);
}

#[test]
fn a_base_never_exceeds_the_limits_of_a_reader() {
  let of = |change: fn(&mut Tip), limit| {
    let mut tip = tip(10, (1000, 4000));
    change(&mut tip);
    let base = CachedBase::new(id(), tip, None, true);
    base.next_step(100, 4000, limit);
    base.next_step(100, 4000, limit)
  };
  assert_eq!(of(|_| {}, NO_LIMIT), DeltaStep::MoveTip);
  assert_eq!(of(|tip| tip.prefix.texts = MAX_TEXTS - 1, NO_LIMIT), DeltaStep::MoveTip);
  assert_eq!(of(|tip| tip.prefix.texts = MAX_TEXTS, NO_LIMIT), DeltaStep::Store);
  assert_eq!(
    of(|tip| tip.prefix.work = max_work(4000) - 4000, NO_LIMIT),
    DeltaStep::MoveTip
  );
  assert_eq!(
    of(|tip| tip.prefix.work = max_work(4000) - 3999, NO_LIMIT),
    DeltaStep::Store
  );
  assert_eq!(of(|_| {}, 1100), DeltaStep::MoveTip);
  assert_eq!(of(|_| {}, 1099), DeltaStep::Store);
}

#[test]
fn set_stamp_keeps_the_stamp_with_the_greatest_size() {
  let base = cached(false);
  let stamp = |size, modified| FileStamp { size, modified };
  assert!(base.fingerprint().is_none());
  for (set, expected) in [
    (stamp(10, 1), stamp(10, 1)),
    (stamp(20, 2), stamp(20, 2)),
    (stamp(10, 1), stamp(20, 2)),
    (stamp(20, 3), stamp(20, 3)),
  ] {
    base.set_stamp(set);
    assert_eq!(base.fingerprint().unwrap().stamp, expected);
  }
}

#[test]
fn forget_drops_the_next_base_only_if_it_is_the_given_one() {
  let bases = SeriesBases::default();
  let (one, other) = (cached(true), cached(true));
  *bases.next.lock() = Some(Arc::clone(&one));
  bases.forget(&other);
  assert!(bases.is_next(&one));
  bases.forget(&one);
  assert!(bases.next().is_none());
}

#[test]
fn the_cache_keeps_its_limit_and_counts_the_base_that_was_read_too() {
  let deltas = DeltaCache::new(400);
  for number in 0..4 {
    *deltas.of(&series(number)).next.lock() = Some(base_of(100));
  }
  let first = deltas.of(&series(0));
  *first.read.lock() = Some(base_of(100));
  assert_eq!(first.bytes(), 200);
  deltas.evict();
  let kept: Vec<_> = (0..4).filter(|number| deltas.get(&series(*number)).is_some()).collect();
  assert_eq!(kept, [0, 3]);
}

#[test]
fn bases_that_are_replaced_during_an_eviction_do_not_confuse_the_sum() {
  let deltas = DeltaCache::new(1000);
  let bases = deltas.of(&series(0));
  thread::scope(|scope| {
    scope.spawn(|| {
      for length in (0..2000).cycle().take(20_000) {
        *bases.next.lock() = Some(base_of(length));
      }
    });
    for number in 0..2000 {
      *deltas.of(&series(number % 50)).next.lock() = Some(base_of(100));
      deltas.evict();
    }
  });
}

#[test]
fn forget_drops_every_series_of_a_session() {
  let deltas = DeltaCache::new(1000);
  let agent = Series {
    agent: Some(AgentId::parse("a").unwrap()),
    ..series(1)
  };
  for series in [&series(1), &agent, &series(2)] {
    let _ = deltas.of(series);
    assert!(deltas.is_first(series));
    assert!(!deltas.is_first(series));
  }
  deltas.forget(&series(1).session);
  assert!(deltas.get(&series(1)).is_none() && deltas.get(&agent).is_none() && deltas.get(&series(2)).is_some());
  assert!(deltas.is_first(&agent) && !deltas.is_first(&series(2)));
}

#[test]
fn a_checkpoint_is_stored_whole_if_another_call_makes_the_base_for_longer_than_the_timeout() {
  let settings = Settings {
    timeout: Duration::from_millis(10),
    ..Settings::default()
  };
  let options = Options {
    settings,
    ..Options::default()
  };
  let store = Arc::new(Store::new(Arc::new(MemoryBackend::default()), options));
  store.begin_open().finish().unwrap();
  let parts = Parts {
    head: r#"{"trigger":"auto","session":{"id":"s1","checkpointIds":[]}}"#.to_owned(),
    task_tree: r#"{"taskTree":{}}"#.to_owned(),
    agent_states: r#"{"agentStates":{}}"#.to_owned(),
    context_store: r#"{"contextStore":{}}"#.to_owned(),
  };
  let series = series(1);
  let bases = store.deltas.of(&series);
  let growing = bases.lock_growth(Duration::ZERO).unwrap();
  let (tell, created) = mpsc::channel();
  let caller = (Arc::clone(&store), store.ticket(series.clone()), parts.clone());
  thread::spawn(move || {
    let (store, ticket, parts) = caller;
    tell
      .send(store.create_checkpoint(&ticket, &parts, Encoding::Delta))
      .unwrap();
  });
  let encoding_of = |id: &CheckpointId| store.backend.find(&series, id).unwrap().unwrap().encoding;
  // Without the timeout, the call does not end.
  let whole = created.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
  assert_eq!(encoding_of(&whole.id), Encoding::Zstd);
  drop(growing);
  let ticket = store.ticket(series.clone());
  let delta = store.create_checkpoint(&ticket, &parts, Encoding::Delta).unwrap();
  assert_eq!(encoding_of(&delta.id), Encoding::Delta);
}
