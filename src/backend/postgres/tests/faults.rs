//! Connections that break, servers that fall silent, and what is stored afterwards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::proxy::{Fault, Proxy};
use super::*;
use crate::backend::{BackendExt, source_of};

/// A backend behind something that fails when it is told to.
fn behind_proxy(settings: Settings) -> Option<(Schema, Proxy, PostgresBackend)> {
  let schema = Schema::new()?;
  schema.open(Settings::default());
  let proxy = Proxy::start();
  let backend = PostgresBackend::new(&proxy.url(&schema), settings).unwrap();
  backend.open().unwrap();
  Some((schema, proxy, backend))
}

fn kept(keep_previous: u32) -> Settings {
  Settings {
    keep_previous,
    ..Settings::default()
  }
}

/// Both ways in which a connection can break while something with these bytes is under way.
fn breaks(bytes: &'static [u8]) -> [Fault; 2] {
  [Fault::Before(bytes), Fault::After(bytes)]
}

#[test]
fn a_document_whose_connection_breaks_is_stored_once() {
  let Some((_schema, proxy, backend)) = behind_proxy(kept(9)) else {
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
fn an_update_that_was_answered_by_nobody_is_not_made_twice() {
  let Some((_schema, proxy, backend)) = behind_proxy(kept(0)) else {
    return;
  };
  let s = session("s");
  for round in 1..=3_usize {
    let mut is_first = true;
    let grow = &mut |old: Option<Vec<u8>>| {
      // Only what is stored breaks, not what is read before it.
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
fn a_document_is_stored_once_even_if_many_others_come_before_it_is_tried_again() {
  let Some((schema, proxy, backend)) = behind_proxy(kept(99)) else {
    return;
  };
  let other = schema.open(kept(99));
  let s = session("victim");
  for way in 0..2 {
    backend.put(&s, Item::SESSION, b"before").unwrap();
    thread::scope(|scope| {
      proxy.set(Fault::Last(b"mine"));
      let written = scope.spawn(|| {
        if way == 0 {
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
    assert_eq!(versions.count(), 1, "{way}");
    other.delete_any(&s).unwrap();
  }
}

#[test]
fn a_store_that_is_closed_keeps_no_connections() {
  let Some((_schema, backend)) = backend() else { return };
  assert!(backend.pool.status().size > 0);
  backend.close().unwrap();
  assert_eq!(backend.pool.status().size, 0);
  assert!(backend.all_sessions().unwrap().is_empty());
}

#[test]
fn what_is_removed_while_the_connection_breaks_was_there() {
  let Some((_schema, proxy, backend)) = behind_proxy(kept(0)) else {
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
fn a_delta_whose_connection_breaks_is_stored_on_a_whole_key() {
  let Some((_schema, proxy, backend)) = behind_proxy(kept(0)) else {
    return;
  };
  let series = Series::from(session("victim"));
  // The newest is not retired.
  write_checkpoint(&backend, &series, 9999, b"{}");
  for (round, fault) in breaks(b"victim").into_iter().enumerate() {
    let first = 10 * round as u64;
    let key = checkpoint(first);
    for (number, known, added) in [(0, 0, &b"key!"[..]), (1, 4, b" and more"), (2, 13, b"")] {
      proxy.set(fault.clone());
      let put = delta(&backend, &series, first + number, first, known, added);
      assert!(matches!(put, PutOutcome::Stored { .. }));
      assert!(proxy.is_over());
    }
    let read = backend.read(&series.session, series.base(&key), 99).unwrap();
    assert_eq!(read.unwrap(), b"key! and more");
    for number in 0..3 {
      let entry = CheckpointEntry::new(checkpoint(first + number), Encoding::Delta, || 0);
      proxy.set(fault.clone());
      assert!(backend.delete_surplus(&series, &entry, None).unwrap());
    }
    assert!(backend.sized_bases(&series).unwrap().is_empty());
  }
}

#[test]
fn a_session_whose_founding_is_answered_by_nobody_is_founded_once() {
  let Some((_schema, proxy, backend)) = behind_proxy(kept(0)) else {
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
fn when_the_time_is_up_the_outcome_is_unknown_only_if_it_is() {
  let Some((schema, proxy, backend)) = behind_proxy(hurried(1000)) else {
    return;
  };
  let s = session("victim");
  proxy.set(Fault::Last(b"victim"));
  let error = backend.put(&s, Item::SESSION, b"{}").unwrap_err();
  assert_eq!(error.code, Code::OutcomeUnknown, "{error}");
  assert!(error.message.starts_with("Could not write postgres://"), "{error}");
  assert!(error.message.contains("may or may not have been done"), "{error}");
  let error = backend.put(&s, Item::SESSION, b"{}").unwrap_err();
  assert_eq!(error.code, Code::Io, "nothing was sent: {error}");
  assert!(error.message.starts_with("Could not connect to postgres://"), "{error}");
  assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap_err().code, Code::Io);
  proxy.set(Fault::None);
  assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"{}");
  drop(schema);
}

#[test]
fn a_server_that_falls_silent_is_waited_for_as_long_as_was_asked_and_no_longer() {
  let Some((_schema, proxy, backend)) = behind_proxy(hurried(1000)) else {
    return;
  };
  let s = session("s");
  backend.put(&s, Item::SESSION, b"old").unwrap();
  proxy.set(Fault::Silent);
  let begun = Instant::now();
  let error = backend.read(&s, Item::SESSION, 9).unwrap_err();
  assert_eq!(
    (error.code, name_of_cause(&error)),
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
  assert_eq!(error.code, Code::Io, "there is no connection to send it on: {error}");
  proxy.set(Fault::None);
  // What is sent, is sent on a connection that knows the statement.
  backend.put(&s, Item::SESSION, b"old").unwrap();
  proxy.set(Fault::Silent);
  let error = backend.put(&s, Item::SESSION, b"new").unwrap_err();
  assert_eq!(
    (error.code, name_of_cause(&error)),
    (Code::OutcomeUnknown, Some("ETIMEDOUT")),
    "{error}"
  );
  proxy.set(Fault::None);
  assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"old");
}

#[test]
fn a_lock_that_somebody_keeps_is_waited_for_and_the_statement_is_stopped() {
  let Some(schema) = Schema::new() else { return };
  let backend = schema.open(hurried(1000));
  let other = schema.open(Settings::default());
  let s = session("s");
  backend.put(&s, Item::SESSION, b"old").unwrap();
  let lock = format!("SELECT 1 FROM \"{}\".sessions FOR UPDATE", schema.name);
  let held = other.ask("lock", &|| lock.clone(), async |connection| {
    connection.begin().await?;
    connection.run(&lock).await?;
    let error = tokio::task::block_in_place(|| {
      thread::scope(|scope| {
        scope
          .spawn(|| backend.put(&s, Item::SESSION, b"new").unwrap_err())
          .join()
          .unwrap()
      })
    });
    // Time for the request to stop it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    connection.roll_back().await?;
    Ok(error)
  });
  assert_eq!(held.unwrap().code, Code::OutcomeUnknown);
  // Had it not been stopped, it would be stored now.
  thread::sleep(Duration::from_millis(300));
  assert_eq!(backend.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"old");
}

#[test]
fn a_server_that_comes_back_in_time_is_found_again() {
  let Some((_schema, proxy, backend)) = behind_proxy(hurried(5000)) else {
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
fn whoever_writes_while_the_server_ends_all_connections_does_not_notice() {
  let Some(schema) = Schema::new() else { return };
  let name = format!("application_name={}", &schema.name);
  let backend = PostgresBackend::new(&with_parameter(&schema.url(), &name), kept(0)).unwrap();
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
fn when_all_connections_are_in_use_the_error_says_what_to_raise() {
  let Some(schema) = Schema::new() else { return };
  let backend = schema.open(Settings {
    max_connections: 1,
    ..hurried(1000)
  });
  let error = backend.call("hold", &String::new, |_attempt| {
    Ok(thread::scope(|scope| {
      scope.spawn(|| backend.all_sessions().unwrap_err()).join().unwrap()
    }))
  });
  let error = error.unwrap();
  assert_eq!((error.code, name_of_cause(&error)), (Code::Io, Some("POOL_TIMEOUT")));
  assert!(error.message.contains("maxConnections"), "{error}");
  assert!(backend.all_sessions().unwrap().is_empty());
}
