//! Reads, their limits, and the plans of lists.

use std::slice;

use super::*;
use crate::backend::{BackendExt, RetentionAnswer, RetentionQuery, RetentionScope};
use crate::types::id::AgentId;

#[test]
fn read_rejects_items_above_the_limit_and_items_with_a_wrong_size() {
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
fn long_items_are_compressed_once_and_count_with_their_full_size() {
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
    let rows = backend.with_connection("read", &|| sql.clone(), async |connection| {
      connection.query(&sql, &[]).await
    });
    rows.unwrap().iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>()
  };
  let stored = sizes("SELECT octet_length(middle) FROM waymark.checkpoints ORDER BY encoding");
  assert!(stored[0] < 1000 && stored[1] > 90_000, "{stored:?}");
  assert!(sizes("SELECT octet_length(bytes) FROM waymark.documents")[0] < 1000);
}

#[test]
fn pages_and_bulk_reads_equal_single_reads() {
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
fn put_checkpoint_answers_retention_like_a_later_list() {
  let Some((_schema, backend)) = backend() else { return };
  let series = Series::from(session("s"));
  for (number, wanted) in (0..).zip([
    RetentionScope::Beyond(0),
    RetentionScope::Beyond(2),
    RetentionScope::Beyond(usize::MAX),
    RetentionScope::All,
    RetentionScope::Beyond(2),
  ]) {
    let query = retention_query(wanted, false, 9);
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
      retention: Some(query),
      ..PutOptions::new(Encoding::Json)
    };
    let put = backend
      .put_checkpoint(&series, &checkpoint(number), b"{}", &write)
      .unwrap();
    let answer = answer_in(put).unwrap();
    let list = answer.list.unwrap();
    assert_eq!(list, backend.list_for_retention(&series, wanted).unwrap(), "{wanted:?}");
    assert_eq!(list.newest.unwrap().id, checkpoint(number));
    let retention = backend.read(&series.session, Item::RETENTION, 9);
    assert_eq!(answer.document.unwrap(), retention.unwrap());
    backend.put(&series.session, Item::RETENTION, b"{ }").unwrap();
  }
  let query = retention_query(RetentionScope::All, false, 2);
  let write = PutOptions {
    retention: Some(query),
    ..PutOptions::new(Encoding::Gzip)
  };
  let put = backend.put_checkpoint(&series, &checkpoint(9), b"{}", &write).unwrap();
  let too_large = answer_in(put).unwrap().document.unwrap_err();
  assert_eq!(too_large.code, Code::TooLarge);
}

#[test]
fn put_checkpoint_deletes_the_checkpoints_beyond_the_rule() {
  let Some((_schema, backend)) = backend() else { return };
  let keep = |number: u64, series: &Series, encoding| {
    let query = retention_query(RetentionScope::Beyond(2), true, 9);
    let write = PutOptions {
      retention: Some(query),
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
  let (left, list) = keep(4, &series, Encoding::Gzip);
  assert_eq!(
    left,
    ids(&[9, 6, 5, 4]),
    "the new checkpoint is kept, even if it is not the newest"
  );
  assert_eq!(list, None, "further checkpoints have to be considered");
  let (left, list) = keep(10, &series, Encoding::Json);
  assert_eq!(left, ids(&[10, 9, 5]), "pinned checkpoints are kept, and do not count");
  let list = list.unwrap();
  assert!(list.entries.is_empty());
  assert_eq!(list.newest.unwrap().id, checkpoint(10));

  backend.put(&series.session, Item::RETENTION, b"{}").unwrap();
  let (left, list) = keep(11, &series, Encoding::Json);
  assert_eq!(left, ids(&[11, 10, 9, 5]), "the session has rules of its own");
  assert_eq!(list, None);
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
    "these rules do not apply to agents"
  );
  backend.remove(&series.session, Item::RETENTION).unwrap();
  assert_eq!(keep(12, &series, Encoding::Json).0, ids(&[12, 11, 5]));

  let crowded = Series::from(session("crowded"));
  for number in 1..=70 {
    write_checkpoint(&backend, &crowded, number, b"x");
  }
  let (left, list) = keep(71, &crowded, Encoding::Json);
  assert!(
    left.len() < 70 && list.is_none(),
    "one call deletes at most 64, and reports that more remain"
  );
}

fn retention_query(scope: RetentionScope, may_delete: bool, limit: u64) -> RetentionQuery {
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

/// Stores a checkpoint, and keeps the two newest.
fn keep_two(backend: &PostgresBackend, series: &Series, number: u64) -> PutOutcome {
  let query = retention_query(RetentionScope::Beyond(2), true, 9);
  let write = PutOptions {
    retention: Some(query),
    ..PutOptions::new(Encoding::Json)
  };
  backend
    .put_checkpoint(series, &checkpoint(number), b"{}", &write)
    .unwrap()
}

#[test]
fn put_checkpoint_succeeds_if_an_old_checkpoint_cannot_be_deleted() {
  let Some((schema, backend)) = backend() else { return };
  let series = Series::from(session("s"));
  for number in 1..=2 {
    keep_two(&backend, &series, number);
  }
  let run = |sql: &str| {
    let ran = backend.with_connection("try", &|| sql.to_owned(), async |connection| {
      connection.batch(sql).await
    });
    ran.unwrap();
  };
  run(
    "CREATE FUNCTION waymark.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
    CREATE TRIGGER refuse BEFORE DELETE ON waymark.checkpoints FOR EACH ROW EXECUTE FUNCTION waymark.refuse()",
  );
  assert!(matches!(keep_two(&backend, &series, 3), PutOutcome::Stored { .. }));
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 3);
  run("DROP TRIGGER refuse ON waymark.checkpoints");

  // Nor can one be deleted that another transaction has locked.
  let other = schema.open(Settings::default());
  let put = other.call("hold", &String::new, |attempt| {
    attempt.block_on(attempt.connection.begin())?;
    let sql = "SELECT 1 FROM waymark.checkpoints WHERE id = $1 FOR UPDATE";
    attempt.block_on(attempt.connection.query(sql, &[&checkpoint(1).as_str()]))?;
    let put = keep_two(&backend, &series, 4);
    attempt.block_on(attempt.connection.rollback())?;
    Ok(put)
  });
  assert!(matches!(put.unwrap(), PutOutcome::Stored { .. }));
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 4);
  keep_two(&backend, &series, 5);
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 2);
}

#[test]
fn lists_usage_and_retention_use_indexes() {
  const DELETION: [(&str, &str); 8] = [
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
  let lists = lists::LISTS.into_iter().chain(retention::LISTS);
  let lists = lists.map(|(sql, parameters)| (sql, &PARAMETERS[..parameters]));
  let others = [
    (sql::SQL.read_usage.as_str(), &[("'{s}'", "text[]")][..]),
    (lists::OF_SESSIONS, &[("'{s}'", "text[]")][..]),
    (&sql::SQL.delete_old_checkpoints, &DELETION[..]),
  ];
  for (sql, parameters) in lists.chain(others) {
    let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
    let types: Vec<_> = parameters.iter().map(|(_, name)| *name).collect();
    let (values, types) = (values.join(", "), types.join(", "));
    let explain = format!(
      "SET enable_seqscan = off; SET enable_sort = off; PREPARE explained ({types}) AS {sql}; \
       CREATE TEMPORARY TABLE plan (line text)"
    );
    let name = || sql.to_owned();
    let plan = backend.with_connection("explain", &name, async |connection| {
      connection.batch(&explain).await?;
      let plan = connection
        .query(&format!("EXPLAIN EXECUTE explained ({values})"), &[])
        .await;
      connection.batch("DISCARD ALL").await?;
      plan
    });
    let plan: Vec<String> = plan.unwrap().iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    assert!(!plan.contains("Seq Scan on checkpoints"), "{sql}\n{plan}");
    // A deletion must not join: it would be evaluated once per row of the other side.
    assert!(!(sql.contains("DELETE") && plan.contains("Join")), "{sql}\n{plan}");
  }
}
