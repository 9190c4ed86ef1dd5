use std::cell::RefCell;
use std::env;
use std::sync::OnceLock;
use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::backend::{Backend, CheckpointEntry, Document, Durability, Encoding, Peek, Series, contract};
use crate::id::{CheckpointId, TaskId};

mod urls;

/// Where a server for the tests is, as somebody who may do everything there.
const VARIABLE: &str = "WAYMARK_TEST_DATABASE_URL";

/// The URL of that server; `None`, and a reason, if there is none.
fn server() -> Option<&'static str> {
  static URL: OnceLock<Option<String>> = OnceLock::new();
  #[expect(
    clippy::print_stderr,
    reason = "a test that did not run must not look like one that did"
  )]
  let url = URL.get_or_init(|| {
    let url = env::var(VARIABLE).ok();
    if url.is_none() {
      eprintln!("tests on a PostgreSQL server do not run: {VARIABLE} names none");
    }
    url
  });
  url.as_deref()
}

/// A schema of its own, which goes with it.
struct Schema {
  name: String,
}

impl Schema {
  /// `None` if there is no server.
  fn new() -> Option<Self> {
    server()?;
    let name = format!("test_{}", Uuid::new_v4().simple());
    Some(Self { name })
  }

  fn url(&self) -> String {
    with_parameter(server().unwrap(), &format!("schema={}", self.name))
  }

  /// A backend on it, as if it were another process.
  fn open(&self, settings: impl Into<Settings>) -> PostgresBackend {
    let backend = PostgresBackend::new(&self.url(), settings).unwrap();
    backend.initialize().unwrap();
    backend
  }
}

impl Drop for Schema {
  fn drop(&mut self) {
    execute(&format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", self.name));
  }
}

fn with_parameter(url: &str, parameter: &str) -> String {
  let separator = if url.contains('?') { '&' } else { '?' };
  format!("{url}{separator}{parameter}")
}

/// Statements as the owner of the server.
fn execute(sql: &str) {
  let owner = PostgresBackend::new(server().unwrap(), Settings::default()).unwrap();
  let done = owner.ask("execute", &|| sql.to_owned(), async |connection| {
    connection.run(sql).await
  });
  done.unwrap();
}

/// A backend in a schema of its own.
fn backend() -> Option<(Schema, PostgresBackend)> {
  let schema = Schema::new()?;
  let backend = schema.open(Settings::default());
  Some((schema, backend))
}

fn session(id: &str) -> SessionId {
  SessionId::parse(id).unwrap()
}

fn checkpoint(number: u64) -> CheckpointId {
  CheckpointId::parse(&format!("cp-{number}-000000")).unwrap()
}

fn entry(number: u64) -> CheckpointEntry {
  CheckpointEntry::new(checkpoint(number), Encoding::Json, || 0)
}

fn write_checkpoint(backend: &PostgresBackend, series: &Series, number: u64, bytes: &[u8]) {
  let id = checkpoint(number);
  let written = backend.write(&series.session, series.item(&id, Encoding::Json), &bytes);
  assert_eq!(written.unwrap(), bytes.len() as u64);
}

#[test]
fn passes_the_contract() {
  if server().is_none() {
    return;
  }
  for durability in [Durability::Full, Durability::Relaxed] {
    let schemas = RefCell::new(Vec::new());
    contract::run(|keep_previous| {
      let schema = Schema::new().unwrap();
      let settings = Settings {
        durability,
        keep_previous,
        ..Settings::default()
      };
      let backend = PostgresBackend::new(&schema.url(), settings).unwrap();
      schemas.borrow_mut().push(schema);
      Box::new(backend)
    });
  }
}

#[test]
fn names_are_stable_and_say_which_database_it_is() {
  let url = "postgres://me:secret@db.example:6543/agents?schema=mine&application_name=x";
  let backend = PostgresBackend::new(url, Settings::default()).unwrap();
  let location = "postgres://me@db.example:6543/agents?schema=mine";
  assert_eq!(backend.location(), location);
  let task = TaskId::parse("t").unwrap();
  assert_eq!(
    backend.name_of(&session("s"), Item::TaskResult(&task)),
    format!("{location}#s/results/t.json")
  );
}

#[test]
fn a_peek_gives_both_ends_however_long_it_is_and_however_much_is_asked_for() {
  let Some((_schema, backend)) = backend() else { return };
  let series = Series::from(session("s"));
  for (number, size) in [
    (1, 0),
    (2, 2047),
    (3, 2048),
    (4, 2049),
    (5, 3072),
    (6, 3073),
    (7, 100_000),
  ] {
    let bytes: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).unwrap()).collect();
    write_checkpoint(&backend, &series, number, &bytes);
    let id = checkpoint(number);
    let read = backend.read(&series.session, series.item(&id, Encoding::Json), u64::MAX);
    assert_eq!(read.unwrap().unwrap(), bytes, "{size}");
    for (head, tail) in [(0, 0), (2048, 1024), (2049, 1), (1, 1025), (200_000, 200_000)] {
      let peeked = backend.peek(&series, &[entry(number)], head, tail).unwrap().remove(0);
      let expected = Peek::of(&bytes, head, tail);
      assert_eq!(peeked.unwrap().unwrap(), expected, "{size}: {head}, {tail}");
    }
  }
}

#[test]
fn more_than_the_limit_is_not_read_and_what_lies_about_its_size_is_damaged() {
  let Some((schema, backend)) = backend() else { return };
  let (s, series) = (session("s"), Series::from(session("s")));
  let text = vec![b'x'; 50_000];
  write_checkpoint(&backend, &series, 1, &text);
  backend.write(&s, Item::SESSION, &text).unwrap();
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
  let (id, text) = (checkpoint(1), b"{ \"a\": \"some text\" }\n".repeat(5000));
  for encoding in [Encoding::Json, Encoding::Gzip] {
    backend.write(&s, series.item(&id, encoding), &text).unwrap();
  }
  backend.write(&s, Item::SESSION, &text).unwrap();
  assert_eq!(backend.usage(&s).unwrap().total_bytes, 3 * text.len() as u64);
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
fn what_is_moved_aside_is_read_by_nobody_and_still_counts() {
  let Some((_schema, backend)) = backend() else { return };
  let (s, series) = (session("s"), Series::from(session("s")));
  let id = checkpoint(1);
  for item in [series.item(&id, Encoding::Json), Item::TASK_TREE, series.key(&id)] {
    assert_eq!(backend.quarantine(&s, item).unwrap(), None);
    for round in 1..=2 {
      backend.write(&s, item, &[b'x'; 9000]).unwrap();
      let moved = backend.quarantine(&s, item).unwrap().unwrap();
      let prefix = backend.name(&s, &format!("damaged/{}.", item.file_name()));
      assert!(moved.starts_with(&prefix), "{moved}");
      assert_eq!(backend.read(&s, item, u64::MAX).unwrap(), None);
      assert_eq!(backend.usage(&s).unwrap().total_bytes % 18_000, 9000 * (round % 2));
    }
  }
  assert_eq!(backend.usage(&s).unwrap().checkpoints, 0);
  backend.delete_session(&s).unwrap();
  assert_eq!(backend.usage(&s).unwrap().total_bytes, 0);
}

#[test]
fn an_earlier_version_can_be_replaced_removed_and_moved_aside() {
  let Some(schema) = Schema::new() else { return };
  let backend = schema.open(Settings {
    keep_previous: 3,
    ..Settings::default()
  });
  let s = session("s");
  let versions = || {
    (0..5)
      .filter_map(|back| backend.read(&s, Item::version(Document::Session, back), 9).unwrap())
      .map(|bytes| String::from_utf8(bytes).unwrap())
      .collect::<String>()
  };
  for text in ["1", "2", "3", "4", "5"] {
    backend.write(&s, Item::SESSION, &text).unwrap();
  }
  assert_eq!(versions(), "5432");
  let previous = |back| Item::Previous(Document::Session, back);
  backend.write(&s, previous(2), b"x").unwrap();
  let missing = backend.write(&s, previous(4), b"x").unwrap_err();
  assert_eq!(missing.code, Code::InvalidArgument);
  assert_eq!(versions(), "54x2");
  assert!(backend.remove(&s, previous(2)).unwrap());
  assert!(backend.quarantine(&s, previous(2)).unwrap().is_some());
  assert!(!backend.remove(&s, previous(2)).unwrap());
  assert_eq!(
    (versions(), backend.versions(&s, Document::Session).unwrap()),
    ("54".into(), 1)
  );
  // Those before it outlive a document.
  assert!(backend.remove(&s, Item::SESSION).unwrap());
  assert!(!backend.remove(&s, Item::SESSION).unwrap());
  assert_eq!((versions(), backend.sessions().unwrap().len()), ("4".into(), 0));
  backend.write(&s, Item::SESSION, b"6").unwrap();
  assert_eq!(versions(), "64");
}

#[test]
fn lists_and_sums_are_looked_up() {
  let Some((_schema, backend)) = backend() else { return };
  let series = Series::from(session("s"));
  write_checkpoint(&backend, &series, 1, b"x");
  for (sql, parameters) in lists::LISTS.into_iter().chain([(sessions::USAGE, 1)]) {
    let values = ["'s'", "''", "3"][..parameters].join(", ");
    let types = ["text", "text", "bigint"][..parameters].join(", ");
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
  }
}
