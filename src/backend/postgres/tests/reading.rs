//! What is read, how much of it, and how it is looked up.

use std::slice;

use super::*;
use crate::backend::{BackendExt, RetentionAnswer, RetentionQuery, RetentionScope};
use crate::types::id::AgentId;

#[test]
fn more_than_the_limit_is_not_read_and_what_lies_about_its_size_is_damaged() {
  let Some((schema, backend)) = backend() else { return };
  let (s, series) = (session("s"), Series::from(session("s")));
  let text = vec![b'x'; 50_000];
  write_checkpoint(&backend, &series, 1, &text);
  backend.put(&s, Item::SESSION, &text).unwrap();
  let id = checkpoint(1);
  let items = [Item::SESSION, series.item(&id, Encoding::Json)];
  for item in items {
    let error = backend.read(&s, item, 49_999).unwrap_err();
    assert_eq!(error.code, Code::TooLarge);
    assert!(error.message.contains("50000 bytes"), "{error}");
    assert_eq!(backend.read(&s, item, 50_000).unwrap().unwrap().len(), 50_000);
  }
  for size in [40_000, 60_000] {
    for table in ["documents", "checkpoints"] {
      execute(&format!("UPDATE \"{}\".{table} SET size = {size}", schema.name));
    }
    for item in items {
      assert_eq!(
        backend.read(&s, item, 100_000).unwrap_err().code,
        Code::Corrupt,
        "{size}"
      );
    }
  }
  for table in [
    "documents SET size = 10, packed = false",
    "checkpoints SET size = 3080, packed = false",
  ] {
    execute(&format!("UPDATE \"{}\".{table}", schema.name));
  }
  execute(&format!(
    "UPDATE \"{}\".documents SET bytes = decode(repeat('61', 9000), 'hex')",
    schema.name
  ));
  assert_eq!(backend.read(&s, Item::SESSION, 8999).unwrap_err().code, Code::TooLarge);
  assert_eq!(backend.read(&s, Item::SESSION, 9000).unwrap_err().code, Code::Corrupt);
}

#[test]
fn what_is_long_is_packed_once_and_counts_as_what_it_is() {
  let Some((schema, backend)) = backend() else { return };
  let (s, series) = (session("s"), Series::from(session("s")));
  let text = b"{ \"a\": \"some text\" }\n".repeat(5000);
  for (number, encoding) in [(1, Encoding::Json), (2, Encoding::Gzip)] {
    backend
      .put(&s, series.item(&checkpoint(number), encoding), &text)
      .unwrap();
  }
  backend.put(&s, Item::SESSION, &text).unwrap();
  assert_eq!(backend.usage_of(&s).unwrap().total_bytes, 3 * text.len() as u64);
  let sizes = |sql: &str| {
    let sql = sql.replace("waymark.", &format!("\"{}\".", schema.name));
    let rows = backend.ask("look", &|| sql.clone(), async |connection| {
      connection.query(&sql, &[]).await
    });
    rows.unwrap().iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>()
  };
  let stored = sizes("SELECT octet_length(middle) FROM waymark.checkpoints ORDER BY encoding");
  assert!(stored[0] < 1000 && stored[1] > 90_000, "{stored:?}");
  assert!(sizes("SELECT octet_length(bytes) FROM waymark.documents")[0] < 1000);
}

#[test]
fn pages_and_answers_for_many_are_those_for_each() {
  let Some((_schema, backend)) = backend() else { return };
  let sessions = ["a", "b", "missing"].map(session);
  for (number, s) in (1..).zip(&sessions[..2]) {
    let series = Series::from(s);
    for id in 0..7 {
      write_checkpoint(&backend, &series, id * number, &b"x".repeat(4000));
    }
    let (foreign, again) = (CheckpointId::parse("foreign").unwrap(), checkpoint(0));
    backend.put(s, series.item(&foreign, Encoding::Gzip), b"{}").unwrap();
    backend.put(s, series.item(&again, Encoding::Gzip), b"{}").unwrap();
    backend.put(s, Item::SESSION, &s.as_str()).unwrap();
  }
  let series = Series::from(&sessions[0]);
  let all = backend.checkpoints(&series).unwrap();
  for limit in [1, 2, 3, 9, 100, usize::MAX] {
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
      let page = backend.page(&series, after.as_ref(), limit).unwrap();
      assert_eq!(page.total, all.len());
      let Some(last) = page.entries.last() else { break };
      after = Some(last.clone());
      paged.extend(page.entries);
    }
    assert_eq!(paged, all, "{limit}");
  }
  assert_eq!(backend.page(&(&sessions[2]).into(), None, 5).unwrap().total, 0);
  let usages = backend.usage(&sessions).unwrap();
  let documents = backend.read_documents(&sessions, Document::Session, 9).unwrap();
  for ((s, usage), document) in sessions.iter().zip(usages).zip(documents) {
    assert_eq!(usage.unwrap(), backend.usage_of(s).unwrap());
    assert_eq!(document.unwrap(), backend.read(s, Item::SESSION, 9).unwrap());
  }
  let of = [
    (series.clone(), all[0].clone()),
    ((&sessions[2]).into(), all[0].clone()),
    ((&sessions[1]).into(), entry(12)),
  ];
  let checkpoints = of.each_ref().map(|(series, entry)| (series, entry));
  for (head, tail) in [(10, 10), (3000, 3000)] {
    let peeked = backend.peek(&checkpoints, head, tail).unwrap();
    for ((series, entry), peeked) in of.iter().zip(peeked) {
      let alone = backend
        .peek_in(series, slice::from_ref(entry), head, tail)
        .unwrap()
        .remove(0);
      assert_eq!(peeked.unwrap(), alone.unwrap());
    }
  }
}

#[test]
fn what_is_asked_with_a_checkpoint_is_answered_as_if_it_were_asked_afterwards() {
  let Some((_schema, backend)) = backend() else { return };
  let series = Series::from(session("s"));
  for (number, wanted) in (0..).zip([
    RetentionScope::Beyond(0),
    RetentionScope::Beyond(2),
    RetentionScope::Beyond(usize::MAX),
    RetentionScope::All,
    RetentionScope::Beyond(2),
  ]) {
    let question = query(wanted, false, 9);
    let after = if number == 4 {
      Precondition::Newest(Newest {
        parent: Parent::Checkpoint(checkpoint(3)),
        later: Vec::new(),
      })
    } else {
      Precondition::None
    };
    let write = PutOptions {
      precondition: after,
      retention: Some(question),
      ..PutOptions::new(Encoding::Json)
    };
    let put = backend
      .put_checkpoint(&series, &checkpoint(number), b"{}", &write)
      .unwrap();
    let answer = answer_in(put).unwrap();
    let surplus = answer.list.unwrap();
    assert_eq!(
      surplus,
      backend.list_for_retention(&series, wanted).unwrap(),
      "{wanted:?}"
    );
    assert_eq!(surplus.newest.unwrap().id, checkpoint(number));
    let retention = backend.read(&series.session, Item::RETENTION, 9);
    assert_eq!(answer.document.unwrap(), retention.unwrap());
    backend.put(&series.session, Item::RETENTION, b"{ }").unwrap();
  }
  let question = query(RetentionScope::All, false, 2);
  let write = PutOptions {
    retention: Some(question),
    ..PutOptions::new(Encoding::Gzip)
  };
  let put = backend.put_checkpoint(&series, &checkpoint(9), b"{}", &write).unwrap();
  let too_large = answer_in(put).unwrap().document.unwrap_err();
  assert_eq!(too_large.code, Code::TooLarge);
}

#[test]
fn what_does_not_stay_goes_with_the_checkpoint_that_takes_its_place() {
  let Some((_schema, backend)) = backend() else { return };
  let keep = |number: u64, series: &Series, encoding| {
    let question = query(RetentionScope::Beyond(2), true, 9);
    let write = PutOptions {
      retention: Some(question),
      ..PutOptions::new(encoding)
    };
    let put = backend
      .put_checkpoint(series, &checkpoint(number), b"{}", &write)
      .unwrap();
    let list = answer_in(put).unwrap().list;
    let left = backend.checkpoints(series).unwrap().into_iter().map(|entry| entry.id);
    (left.collect::<Vec<_>>(), list)
  };
  let ids = |numbers: &[u64]| numbers.iter().map(|number| checkpoint(*number)).collect::<Vec<_>>();
  let series = Series::from(session("s"));
  for number in [5, 6, 9] {
    write_checkpoint(&backend, &series, number, b"x");
  }
  backend.set_pinned(&series, &checkpoint(5), true).unwrap();
  let (left, surplus) = keep(4, &series, Encoding::Gzip);
  assert_eq!(
    left,
    ids(&[9, 6, 5, 4]),
    "what was just stored stays, even if the others were ahead"
  );
  assert_eq!(surplus, None, "it is for somebody else to judge");
  let (left, surplus) = keep(10, &series, Encoding::Json);
  assert_eq!(left, ids(&[10, 9, 5]), "pinned ones stay, and are not counted");
  let surplus = surplus.unwrap();
  assert!(surplus.entries.is_empty());
  assert_eq!(surplus.newest.unwrap().id, checkpoint(10));

  backend.put(&series.session, Item::RETENTION, b"{}").unwrap();
  let (left, surplus) = keep(11, &series, Encoding::Json);
  assert_eq!(left, ids(&[11, 10, 9, 5]), "the session says itself what stays");
  assert_eq!(surplus, None);
  let of_agent = Series {
    agent: Some(AgentId::parse("a").unwrap()),
    ..series.clone()
  };
  for number in [1, 2, 3] {
    keep(number, &of_agent, Encoding::Zstd);
  }
  assert_eq!(
    keep(4, &of_agent, Encoding::Zstd).0,
    ids(&[4, 3]),
    "but not which of an agent's"
  );
  backend.remove(&series.session, Item::RETENTION).unwrap();
  assert_eq!(keep(12, &series, Encoding::Json).0, ids(&[12, 11, 5]));

  let crowded = Series::from(session("crowded"));
  for number in 1..=70 {
    write_checkpoint(&backend, &crowded, number, b"x");
  }
  let (left, surplus) = keep(71, &crowded, Encoding::Json);
  assert!(
    left.len() < 70 && surplus.is_none(),
    "so many at once, and the rest is not forgotten"
  );
}

fn query(scope: RetentionScope, may_delete: bool, limit: u64) -> RetentionQuery {
  RetentionQuery {
    scope,
    may_delete,
    limit,
  }
}

/// The answer that came with a stored checkpoint.
fn answer_in(put: PutOutcome) -> Option<RetentionAnswer> {
  match put {
    PutOutcome::Stored { retention, .. } => retention,
    other => panic!("not stored: {other:?}"),
  }
}

/// Stores a checkpoint of which two stay.
fn keep_two(backend: &PostgresBackend, series: &Series, number: u64) -> PutOutcome {
  let question = query(RetentionScope::Beyond(2), true, 9);
  let write = PutOptions {
    retention: Some(question),
    ..PutOptions::new(Encoding::Json)
  };
  backend
    .put_checkpoint(series, &checkpoint(number), b"{}", &write)
    .unwrap()
}

#[test]
fn an_old_one_that_cannot_go_is_no_reason_to_refuse_the_new_one() {
  let Some((schema, backend)) = backend() else { return };
  let series = Series::from(session("s"));
  for number in 1..=2 {
    keep_two(&backend, &series, number);
  }
  let run = |sql: &str| {
    let ran = backend.ask("try", &|| sql.to_owned(), async |connection| connection.run(sql).await);
    ran.unwrap();
  };
  run(
    "CREATE FUNCTION waymark.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
    CREATE TRIGGER refuse BEFORE DELETE ON waymark.checkpoints FOR EACH ROW EXECUTE FUNCTION waymark.refuse()",
  );
  assert!(matches!(keep_two(&backend, &series, 3), PutOutcome::Stored { .. }));
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 3);
  run("DROP TRIGGER refuse ON waymark.checkpoints");

  // Nor is one that somebody holds.
  let other = schema.open(Settings::default());
  let put = other.call("hold", &String::new, |attempt| {
    attempt.run(attempt.connection.begin())?;
    let sql = "SELECT 1 FROM waymark.checkpoints WHERE id = $1 FOR UPDATE";
    attempt.run(attempt.connection.query(sql, &[&checkpoint(1).as_str()]))?;
    let put = keep_two(&backend, &series, 4);
    attempt.run(attempt.connection.roll_back())?;
    Ok(put)
  });
  assert!(matches!(put.unwrap(), PutOutcome::Stored { .. }));
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 4);
  keep_two(&backend, &series, 5);
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 2);
}

#[test]
fn lists_sums_and_removals_are_looked_up() {
  const REMOVAL: [(&str, &str); 8] = [
    ("'s'", "text"),
    ("NULL", "bigint"),
    ("''", "text"),
    ("'x'", "text"),
    ("0", "smallint"),
    ("3", "bigint"),
    ("'x'", "text"),
    ("9", "bigint"),
  ];
  const PARAMETERS: [(&str, &str); 6] = [
    ("'s'", "text"),
    ("''", "text"),
    ("3", "bigint"),
    ("9", "bigint"),
    ("'x'", "text"),
    ("0", "smallint"),
  ];
  let Some((_schema, backend)) = backend() else { return };
  let series = Series::from(session("s"));
  write_checkpoint(&backend, &series, 1, b"x");
  let lists = lists::LISTS.map(|(sql, parameters)| (sql, &PARAMETERS[..parameters]));
  let others = [
    (sessions::USAGE, &[("'{s}'", "text[]")][..]),
    (lists::OF_SESSIONS, &[("'{s}'", "text[]")][..]),
    (removal::REMOVE_BEYOND, &REMOVAL[..]),
  ];
  for (sql, parameters) in lists.into_iter().chain(others) {
    let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
    let types: Vec<_> = parameters.iter().map(|(_, name)| *name).collect();
    let (values, types) = (values.join(", "), types.join(", "));
    let explain = format!(
      "SET enable_seqscan = off; SET enable_sort = off; PREPARE looked_up ({types}) AS {sql}; \
       CREATE TEMPORARY TABLE plan (line text)"
    );
    let name = || sql.to_owned();
    let plan = backend.ask("explain", &name, async |connection| {
      connection.run(&explain).await?;
      let plan = connection
        .query(&format!("EXPLAIN EXECUTE looked_up ({values})"), &[])
        .await;
      connection.run("DISCARD ALL").await?;
      plan
    });
    let plan: Vec<String> = plan.unwrap().iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    assert!(!plan.contains("Seq Scan on checkpoints"), "{sql}\n{plan}");
    // What goes is found once, and not once for each row of something else.
    assert!(!(sql.contains("DELETE") && plan.contains("Join")), "{sql}\n{plan}");
  }
}
