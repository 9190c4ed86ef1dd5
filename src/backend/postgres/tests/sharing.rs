//! Concurrent use of the same sessions by several stores.

use std::thread;

use super::*;
use crate::backend::{BackendExt, PutOutcome};
use crate::codec::delta::Reference;
use crate::types::time::Timestamp;

fn rows(backend: &PostgresBackend, sql: &str) -> Vec<i64> {
  let rows = backend.with_connection("read", &|| sql.to_owned(), async |connection| {
    connection.query(sql, &[]).await
  });
  rows.unwrap().iter().map(|row| row.get(0)).collect()
}

/// The number of deadlocks that the server has resolved.
fn deadlocks(backend: &PostgresBackend) -> i64 {
  rows(
    backend,
    "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
  )[0]
}

/// Counts the rows of sessions that do not exist.
const ORPHANS: &str = "SELECT count(*) FROM (
    SELECT session FROM waymark.checkpoints UNION ALL SELECT session FROM waymark.documents
    UNION ALL SELECT session FROM waymark.previous UNION ALL SELECT session FROM waymark.keys
    UNION ALL SELECT session FROM waymark.damaged
  ) rows WHERE NOT EXISTS (SELECT 1 FROM waymark.sessions WHERE id = rows.session)";

#[test]
fn deleting_a_session_during_writes_leaves_no_orphans_and_no_deadlocks() {
  let Some(schema) = Schema::new() else { return };
  let settings = Settings {
    keep_previous: 2,
    ..Settings::default()
  };
  let (one, other) = (schema.open(settings), schema.open(settings));
  let before = deadlocks(&one);
  let (s, series) = (session("s"), Series::from(session("s")));
  thread::scope(|scope| {
    for writer in 0..4_u64 {
      let (backend, s, series) = (if writer % 2 == 0 { &one } else { &other }, &s, &series);
      scope.spawn(move || {
        for round in 0..40 {
          let number = writer * 1000 + round * 10;
          write_checkpoint(backend, series, number, b"{}");
          delta(backend, series, number + 1, 5000 + writer, 0, b"base");
          delta(backend, series, number + 2, 5000 + writer, 4, b"more");
          backend.put_state(s, b"document", b"tree").unwrap();
          backend.set_pinned(series, &checkpoint(number), true).unwrap();
          let entry = CheckpointEntry::new(checkpoint(number), Encoding::Json, Timestamp::default);
          backend.quarantine(series, &entry, Some(b"{}")).unwrap();
          let entry = CheckpointEntry::new(checkpoint(number + 1), Encoding::Delta, Timestamp::default);
          backend.delete_surplus(series, &entry, None).unwrap();
        }
      });
    }
    scope.spawn(|| {
      for _ in 0..60 {
        other.delete_any(&s).unwrap();
      }
    });
  });
  assert_eq!(rows(&one, ORPHANS), [0]);
  // Every remaining delta has its base.
  for entry in one.checkpoints(&series).unwrap() {
    if entry.encoding == Encoding::Delta {
      let bytes = one.read(&s, series.item_of(&entry), 9999).unwrap().unwrap();
      let key = Reference::of(&bytes).unwrap().key;
      assert!(one.read(&s, series.base(&key), 99).unwrap().is_some(), "{}", entry.id);
    }
  }
  one.delete_any(&s).unwrap();
  assert_eq!(deadlocks(&one), before);
}

#[test]
fn a_base_is_not_deleted_while_a_delta_is_stored_on_it() {
  let Some(schema) = Schema::new() else { return };
  let (one, other) = (schema.open(Settings::default()), schema.open(Settings::default()));
  let series = Series::from(session("s"));
  // Retention never deletes the newest checkpoint.
  write_checkpoint(&one, &series, 9999, b"{}");
  for round in 0..40 {
    let first = round * 10;
    delta(&one, &series, first, first, 0, b"base");
    // The last delta on the base is deleted while another is stored.
    let put = thread::scope(|scope| {
      let put = scope.spawn(|| delta(&one, &series, first + 1, first, 4, b""));
      let entry = CheckpointEntry::new(checkpoint(first), Encoding::Delta, Timestamp::default);
      assert!(other.delete_surplus(&series, &entry, None).unwrap());
      put.join().unwrap()
    });
    let key = checkpoint(first);
    let has_base = one.read(&series.session, series.base(&key), 9).unwrap().is_some();
    assert_eq!(has_base, matches!(put, PutOutcome::Stored { .. }), "{put:?}");
  }
}

#[test]
fn a_pin_is_kept_while_its_checkpoint_is_converted() {
  let Some(schema) = Schema::new() else { return };
  let (one, other) = (schema.open(Settings::default()), schema.open(Settings::default()));
  let series = Series::from(session("s"));
  for number in 0..40 {
    let id = checkpoint(number);
    write_checkpoint(&one, &series, number, b"{}");
    thread::scope(|scope| {
      scope.spawn(|| {
        one
          .put(&series.session, series.item(&id, Encoding::Gzip), b"{}")
          .unwrap()
      });
      scope.spawn(|| assert!(other.set_pinned(&series, &id, true).unwrap()));
    });
    let entries = one.checkpoints(&series).unwrap();
    let pins: Vec<_> = entries
      .iter()
      .filter(|entry| entry.id == id)
      .map(|entry| entry.is_pinned)
      .collect();
    assert_eq!(pins, [true]);
  }
}

#[test]
fn concurrent_writes_of_documents_keep_earlier_versions() {
  let Some(schema) = Schema::new() else { return };
  let settings = Settings {
    keep_previous: 3,
    ..Settings::default()
  };
  let (one, other) = (schema.open(settings), schema.open(settings));
  for round in 0..20 {
    let s = session(&format!("s{round}"));
    thread::scope(|scope| {
      for writer in 0..8 {
        let (backend, s) = (if writer % 2 == 0 { &one } else { &other }, &s);
        scope.spawn(move || {
          let text = writer.to_string();
          backend.put_state(s, &text, &text).unwrap();
        });
      }
    });
    let mut seen = Vec::new();
    for back in 0..=4 {
      let version = |document| one.read(&s, Item::version(document, back), 9).unwrap();
      assert_eq!(version(Document::Session), version(Document::TaskTree));
      seen.extend(version(Document::Session));
    }
    assert_eq!(seen.len(), 4, "the current one and three before it");
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert_eq!(one.usage_of(&s).unwrap().total_bytes, 8);
  }
}

#[test]
fn ids_are_ordered_by_bytes_and_may_contain_any_character() {
  let Some((_schema, backend)) = backend() else { return };
  let mut ids = [
    "b",
    "B",
    "a_",
    "a-",
    "a b",
    "é",
    "e",
    "日本",
    "a'b\"c",
    "x%y",
    "😀",
    "$1",
    "~",
    "waymark.x",
  ]
  .map(session);
  for id in &ids {
    backend.put(id, Item::SESSION, b"{}").unwrap();
    backend
      .put(id, Item::TaskResult(&TaskId::parse(id.as_str()).unwrap()), b"{}")
      .unwrap();
  }
  ids.sort();
  assert_eq!(backend.saved_sessions().unwrap(), ids);
  for id in &ids {
    assert_eq!(backend.results(id).unwrap().len(), 1);
    assert_eq!(backend.usage_of(id).unwrap().results, 1);
  }
}
