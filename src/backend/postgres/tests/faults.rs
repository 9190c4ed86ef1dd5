//! Broken connections and silent servers, and what is stored afterwards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::proxy::{Fault, Proxy};
use super::*;
use crate::backend::{BackendExt, source_of};
use crate::types::time::Timestamp;

/// A backend behind a proxy that fails on request.
fn behind_proxy(settings: Settings) -> Option<(Schema, Proxy, PostgresBackend)> {
  let schema = Schema::new()?;
  schema.open(Settings::default());
  let proxy = Proxy::start();
  let backend = PostgresBackend::new(&proxy.url(&schema), settings).unwrap();
  backend.open().unwrap();
  Some((schema, proxy, backend))
}

fn keeping(keep_previous: u32) -> Settings {
  Settings {
    keep_previous,
    ..Settings::default()
  }
}

/// A connection breaks before the server sees a message with these bytes, or after it.
fn breaks(bytes: &'static [u8]) -> [Fault; 2] {
  [Fault::Before(bytes), Fault::After(bytes)]
}

#[test]
fn put_stores_a_document_once_if_the_connection_breaks() {
  let Some((_schema, proxy, backend)) = behind_proxy(keeping(9)) else {
    return;
  };
  let s = session("victim");
  backend.put_state(&s, b"0", b"0").unwrap();
  for (number, fault) in breaks(b"victim").into_iter().enumerate() {
    let before = u32::try_from(number).unwrap() * 3;
    proxy.set(fault.clone());
    backend.put(&s, Item::SESSION, b"1").unwrap();
    assert!(proxy.is_over());
    assert_eq!(
      backend.versions(&s, Document::Session).unwrap(),
      before + 1,
      "{fault:?}"
    );
    proxy.set(fault.clone());
    backend.put_state(&s, b"2", b"2").unwrap();
    assert!(proxy.is_over());
    assert_eq!(
      backend.versions(&s, Document::Session).unwrap(),
      before + 2,
      "{fault:?}"
    );
    proxy.set(fault.clone());
    let longer = |old: Option<Vec<u8>>| Ok(Some([old.unwrap(), b"!".to_vec()].concat()));
    backend.update(&s, Document::Session, 9, &mut { longer }).unwrap();
    assert!(proxy.is_over());
    assert_eq!(
      backend.versions(&s, Document::Session).unwrap(),
      before + 3,
      "{fault:?}"
    );
    assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"2!");
    assert_eq!(backend.read(&s, Item::TASK_TREE, 9).unwrap().unwrap(), b"2");
  }
}

#[test]
fn update_document_applies_a_change_once_if_the_answer_is_lost() {
  let Some((_schema, proxy, backend)) = behind_proxy(keeping(0)) else {
    return;
  };
  let s = session("s");
  for round in 1..=3_usize {
    let mut is_first = true;
    let grow = &mut |old: Option<Vec<u8>>| {
      // The fault must hit the write, not the read before it.
      if std::mem::take(&mut is_first) {
        proxy.set(Fault::After(b"grown"));
      }
      Ok(Some([old.unwrap_or_default(), b"grown".to_vec()].concat()))
    };
    backend.update(&s, Document::Labels, 99, grow).unwrap();
    assert!(proxy.is_over());
    let stored = backend.read(&s, Item::LABELS, 99).unwrap().unwrap();
    assert_eq!(stored, b"grown".repeat(round));
  }
}

#[test]
fn put_stores_a_document_once_if_30_other_changes_come_before_the_retry() {
  let Some((schema, proxy, backend)) = behind_proxy(keeping(99)) else {
    return;
  };
  let other = schema.open(keeping(99));
  let s = session("victim");
  for is_update in [false, true] {
    backend.put(&s, Item::SESSION, b"before").unwrap();
    thread::scope(|scope| {
      proxy.set(Fault::Last(b"mine"));
      let written = scope.spawn(|| {
        if !is_update {
          return backend.put(&s, Item::SESSION, b"mine").map(drop);
        }
        backend.update(&s, Document::Session, 9, &mut |_| Ok(Some(b"mine".to_vec())))
      });
      while !proxy.is_over() {
        thread::sleep(Duration::from_millis(1));
      }
      for number in 0..30 {
        other.put(&s, Item::SESSION, &number.to_string()).unwrap();
      }
      proxy.set(Fault::None);
      written.join().unwrap().unwrap();
    });
    let versions = (0..=other.versions(&s, Document::Session).unwrap())
      .filter_map(|back| other.read(&s, Item::version(Document::Session, back), 9).unwrap())
      .filter(|bytes| bytes == b"mine");
    assert_eq!(versions.count(), 1, "{is_update}");
    other.delete_any(&s).unwrap();
  }
}

#[test]
fn close_closes_all_connections() {
  let Some((_schema, backend)) = backend() else { return };
  assert!(backend.pool.status().size > 0);
  backend.close().unwrap();
  assert_eq!(backend.pool.status().size, 0);
  assert!(backend.all_sessions().unwrap().is_empty());
}

#[test]
fn deletions_report_success_if_the_connection_breaks() {
  let Some((_schema, proxy, backend)) = behind_proxy(keeping(0)) else {
    return;
  };
  let (s, series) = (session("victim"), Series::from(session("victim")));
  let (id, task) = (checkpoint(1), TaskId::parse("t").unwrap());
  for fault in breaks(b"victim") {
    for item in [
      series.item(&id, Encoding::Json),
      Item::TaskResult(&task),
      Item::LABELS,
      series.base(&id),
    ] {
      backend.put(&s, item, b"{}").unwrap();
      proxy.set(fault.clone());
      assert!(backend.remove(&s, item).unwrap(), "{fault:?} {item}");
      assert!(proxy.is_over());
      assert_eq!(backend.read(&s, item, 9).unwrap(), None);
    }
    write_checkpoint(&backend, &series, 1, b"{}");
    proxy.set(fault.clone());
    assert!(
      backend.quarantine(&series, &entry(1), Some(b"{}")).unwrap().is_some(),
      "{fault:?}"
    );
    assert!(proxy.is_over());
    assert_eq!(backend.find(&series, &id).unwrap(), None);
    write_checkpoint(&backend, &series, 1, b"{}");
    write_checkpoint(&backend, &series, 2, b"{}");
    backend.set_pinned(&series, &id, true).unwrap();
    proxy.set(fault.clone());
    assert!(
      !backend.delete_surplus(&series, &entry(1), None).unwrap(),
      "it is pinned"
    );
    backend.set_pinned(&series, &id, false).unwrap();
    proxy.set(fault.clone());
    assert!(backend.delete_surplus(&series, &entry(1), None).unwrap());
    proxy.set(fault.clone());
    assert_eq!(backend.delete_any(&s).unwrap().map(|error| error.message), None);
    assert!(backend.all_sessions().unwrap().is_empty());
  }
}

#[test]
fn put_checkpoint_stores_a_delta_with_its_whole_base_if_the_connection_breaks() {
  let Some((_schema, proxy, backend)) = behind_proxy(keeping(0)) else {
    return;
  };
  let series = Series::from(session("victim"));
  // Retention never deletes the newest checkpoint.
  write_checkpoint(&backend, &series, 9999, b"{}");
  for (round, fault) in breaks(b"victim").into_iter().enumerate() {
    let first = 10 * round as u64;
    let key = checkpoint(first);
    for (number, known, added) in [(0, 0, &b"base"[..]), (1, 4, b" and more"), (2, 13, b"")] {
      proxy.set(fault.clone());
      let put = delta(&backend, &series, first + number, first, known, added);
      assert!(matches!(put, PutOutcome::Stored { .. }));
      assert!(proxy.is_over());
    }
    let read = backend.read(&series.session, series.base(&key), 99).unwrap();
    assert_eq!(read.unwrap(), b"base and more");
    for number in 0..3 {
      let entry = CheckpointEntry::new(checkpoint(first + number), Encoding::Delta, Timestamp::default);
      proxy.set(fault.clone());
      assert!(backend.delete_surplus(&series, &entry, None).unwrap());
    }
    assert!(backend.sized_bases(&series).unwrap().is_empty());
  }
}

#[test]
fn create_session_creates_a_session_once_if_the_answer_is_lost() {
  let Some((_schema, proxy, backend)) = behind_proxy(keeping(0)) else {
    return;
  };
  for (round, fault) in [
    Fault::Before(b"COMMIT\0"),
    Fault::After(b"COMMIT\0"),
    Fault::Before(b"cp-7-000000"),
  ]
  .into_iter()
  .enumerate()
  {
    let (s, id) = (session(&format!("s{round}")), checkpoint(7));
    proxy.set(fault.clone());
    let items: [(Item<'_>, &dyn Content); 2] = [
      (Item::SESSION, &b"document"),
      (Item::Checkpoint(None, &id, Encoding::Json), &b"{}"),
    ];
    assert!(
      backend.create_session_with(&s, &mut source_of(&items)).unwrap(),
      "{fault:?}"
    );
    assert!(proxy.is_over());
    assert_eq!(backend.checkpoints(&(&s).into()).unwrap().len(), 1);
    assert!(
      !backend.create_session_with(&s, &mut source_of(&items)).unwrap(),
      "{fault:?}"
    );
  }
}

#[test]
fn a_timeout_reports_an_unknown_outcome_only_if_a_change_was_sent() {
  let Some((schema, proxy, backend)) = behind_proxy(with_timeout(1000)) else {
    return;
  };
  let s = session("victim");
  proxy.set(Fault::Last(b"victim"));
  let error = backend.put(&s, Item::SESSION, b"{}").unwrap_err();
  assert_eq!(error.code, Code::OutcomeUnknown, "{error}");
  assert!(error.message.starts_with("Could not write postgres://"), "{error}");
  assert!(error.message.contains("may or may not have been done"), "{error}");
  let error = backend.put(&s, Item::SESSION, b"{}").unwrap_err();
  assert_eq!(error.code, Code::Io, "no change was sent: {error}");
  assert!(error.message.starts_with("Could not connect to postgres://"), "{error}");
  assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap_err().code, Code::Io);
  proxy.set(Fault::None);
  assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"{}");
  drop(schema);
}

#[test]
fn a_silent_server_is_waited_for_until_the_timeout() {
  let Some((_schema, proxy, backend)) = behind_proxy(with_timeout(1000)) else {
    return;
  };
  let s = session("s");
  backend.put(&s, Item::SESSION, b"old").unwrap();
  proxy.set(Fault::Silent);
  let begun = Instant::now();
  let error = backend.read(&s, Item::SESSION, 9).unwrap_err();
  assert_eq!(
    (error.code, code_of_cause(&error)),
    (Code::Io, Some("ETIMEDOUT")),
    "{error}"
  );
  assert!(error.message.contains("timeoutMs"), "{error}");
  let waited = begun.elapsed();
  assert!(
    waited > Duration::from_millis(990) && waited < Duration::from_secs(4),
    "{waited:?}"
  );
  let error = backend.put(&s, Item::SESSION, b"new").unwrap_err();
  assert_eq!(error.code, Code::Io, "no connection could be opened: {error}");
  proxy.set(Fault::None);
  // Prepare the statement, so that the next write is sent on this connection.
  backend.put(&s, Item::SESSION, b"old").unwrap();
  proxy.set(Fault::Silent);
  let error = backend.put(&s, Item::SESSION, b"new").unwrap_err();
  assert_eq!(
    (error.code, code_of_cause(&error)),
    (Code::OutcomeUnknown, Some("ETIMEDOUT")),
    "{error}"
  );
  proxy.set(Fault::None);
  assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"old");
}

#[test]
fn a_statement_that_waits_for_a_lock_is_cancelled_at_the_timeout() {
  let Some(schema) = Schema::new() else { return };
  let backend = schema.open(with_timeout(1000));
  let other = schema.open(Settings::default());
  let s = session("s");
  backend.put(&s, Item::SESSION, b"old").unwrap();
  let lock = format!("SELECT 1 FROM \"{}\".sessions FOR UPDATE", schema.name);
  let held = other.with_connection("lock", &|| lock.clone(), async |connection| {
    connection.begin().await?;
    connection.batch(&lock).await?;
    let error = tokio::task::block_in_place(|| {
      thread::scope(|scope| {
        scope
          .spawn(|| backend.put(&s, Item::SESSION, b"new").unwrap_err())
          .join()
          .unwrap()
      })
    });
    // Wait until the request to cancel has arrived.
    tokio::time::sleep(Duration::from_millis(500)).await;
    connection.rollback().await?;
    Ok(error)
  });
  assert_eq!(held.unwrap().code, Code::OutcomeUnknown);
  // Without the cancellation, the write would have succeeded by now.
  thread::sleep(Duration::from_millis(300));
  assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"old");
}

#[test]
fn a_call_succeeds_if_the_server_is_reachable_again_before_the_timeout() {
  let Some((_schema, proxy, backend)) = behind_proxy(with_timeout(5000)) else {
    return;
  };
  let s = session("s");
  proxy.set(Fault::Closed);
  thread::scope(|scope| {
    let written = scope.spawn(|| backend.put(&s, Item::SESSION, b"{}"));
    thread::sleep(Duration::from_millis(300));
    proxy.set(Fault::None);
    written.join().unwrap().unwrap();
  });
  assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"{}");
}

#[test]
fn writes_succeed_while_the_server_terminates_connections() {
  let Some(schema) = Schema::new() else { return };
  let name = format!("application_name={}", &schema.name);
  let backend = PostgresBackend::new(&with_parameter(&schema.url(), &name), keeping(0)).unwrap();
  backend.open().unwrap();
  let is_done = AtomicBool::new(false);
  thread::scope(|scope| {
    scope.spawn(|| {
      let sql = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{}'",
        &schema.name
      );
      while !is_done.load(Ordering::Relaxed) {
        execute(&sql);
        thread::sleep(Duration::from_millis(30));
      }
    });
    let writers: Vec<_> = (0..4)
      .map(|writer| {
        let backend = &backend;
        scope.spawn(move || {
          let series = Series::from(session(&format!("s{writer}")));
          for number in 0..60 {
            write_checkpoint(backend, &series, number, b"{}");
          }
          assert_eq!(backend.checkpoints(&series).unwrap().len(), 60);
        })
      })
      .collect();
    for writer in writers {
      writer.join().unwrap();
    }
    is_done.store(true, Ordering::Relaxed);
  });
}

#[test]
fn an_exhausted_pool_is_reported_with_the_option_to_raise() {
  let Some(schema) = Schema::new() else { return };
  let backend = schema.open(Settings {
    max_connections: 1,
    ..with_timeout(1000)
  });
  let error = backend.call("hold", &String::new, |_attempt| {
    Ok(thread::scope(|scope| {
      scope.spawn(|| backend.all_sessions().unwrap_err()).join().unwrap()
    }))
  });
  let error = error.unwrap();
  assert_eq!((error.code, code_of_cause(&error)), (Code::Io, Some("POOL_TIMEOUT")));
  assert!(error.message.contains("maxConnections"), "{error}");
  assert!(backend.all_sessions().unwrap().is_empty());
}
