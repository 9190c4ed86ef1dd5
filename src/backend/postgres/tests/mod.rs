use std::cell::RefCell;
use std::env;
use std::error::Error as _;
use std::sync::OnceLock;
use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::backend::conformance::Shorthand as _;
use crate::backend::{
  Backend, BackendExt, BaseRef, CheckpointEntry, Document, Durability, Encoding, Newest, Parent, Precondition,
  PutOptions, PutOutcome, Series, conformance,
};
use crate::codec::delta::{Reference, compose};
use crate::types::error::system_code;
use crate::types::id::{CheckpointId, TaskId};

mod faults;
mod leases;
mod migration;
mod pretender;
mod proxy;
mod reading;
mod refusals;
mod sharing;
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

  /// A backend on it, as if it were another process. It is not hurried while the tables are made.
  fn open(&self, settings: impl Into<Settings>) -> PostgresBackend {
    let maker = PostgresBackend::new(&self.url(), Settings::default()).unwrap();
    maker.open().unwrap();
    let backend = PostgresBackend::new(&self.url(), settings).unwrap();
    backend.open().unwrap();
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

fn hurried(milliseconds: u64) -> Settings {
  Settings {
    timeout: Duration::from_millis(milliseconds),
    ..Settings::default()
  }
}

fn name_of_cause(error: &Error) -> Option<&str> {
  error.source()?.downcast_ref().and_then(system_code)
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
  let written = backend.put(&series.session, series.item(&id, Encoding::Json), &bytes);
  assert_eq!(written.unwrap(), bytes.len() as u64);
}

/// Stores a delta on a key of which so much is known.
fn delta(backend: &PostgresBackend, series: &Series, id: u64, key: u64, known: u64, added: &[u8]) -> PutOutcome {
  let (id, key) = (checkpoint(id), checkpoint(key));
  let reference = Reference {
    is_same: true,
    key: key.clone(),
    bytes: 4,
    checksum: 0,
  };
  let base = BaseRef {
    id: &key,
    known,
    added,
    fingerprint: None,
  };
  let write = PutOptions {
    base: Some(base),
    ..PutOptions::new(Encoding::Delta)
  };
  backend
    .put_checkpoint(series, &id, &compose(&reference, "{}", b""), &write)
    .unwrap()
}

#[test]
fn passes_the_contract() {
  if server().is_none() {
    return;
  }
  for durability in [Durability::Full, Durability::Relaxed] {
    let schemas = RefCell::new(Vec::new());
    conformance::run(|keep_previous| {
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
fn an_earlier_version_can_be_replaced_and_removed() {
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
    backend.put(&s, Item::SESSION, &text).unwrap();
  }
  assert_eq!(versions(), "5432");
  let previous = |back| Item::Previous(Document::Session, back);
  backend.put(&s, previous(2), b"x").unwrap();
  let missing = backend.put(&s, previous(4), b"x").unwrap_err();
  assert_eq!(missing.code, Code::InvalidArgument);
  assert_eq!(versions(), "54x2");
  assert!(backend.remove(&s, previous(2)).unwrap());
  assert!(backend.remove(&s, previous(2)).unwrap());
  assert!(!backend.remove(&s, previous(2)).unwrap());
  assert_eq!(
    (versions(), backend.versions(&s, Document::Session).unwrap()),
    ("54".into(), 1)
  );
  // Those before it outlive a document.
  assert!(backend.remove(&s, Item::SESSION).unwrap());
  assert!(!backend.remove(&s, Item::SESSION).unwrap());
  assert_eq!((versions(), backend.saved_sessions().unwrap().len()), ("4".into(), 0));
  backend.put(&s, Item::SESSION, b"6").unwrap();
  assert_eq!(versions(), "64");
}
