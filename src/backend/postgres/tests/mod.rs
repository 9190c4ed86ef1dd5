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
use crate::types::time::Timestamp;

mod fake_server;
mod faults;
mod leases;
mod migration;
mod proxy;
mod reading;
mod refusals;
mod sharing;
mod urls;

/// The environment variable with the URL of a server for the tests, with the rights of a superuser.
const VARIABLE: &str = "WAYMARK_TEST_DATABASE_URL";

/// The URL of the server; `None`, with a message, if there is none.
fn server() -> Option<&'static str> {
  static URL: OnceLock<Option<String>> = OnceLock::new();
  #[expect(clippy::print_stderr, reason = "a skipped test must not look like one that passed")]
  let url = URL.get_or_init(|| {
    let url = env::var(VARIABLE).ok();
    if url.is_none() {
      eprintln!("tests on a PostgreSQL server are skipped: {VARIABLE} is not set");
    }
    url
  });
  url.as_deref()
}

/// A new schema, which is dropped with this value.
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

  /// A backend of its own, as another process would have. `settings.timeout` does not apply to the creation of the tables.
  fn open(&self, settings: impl Into<Settings>) -> PostgresBackend {
    let creator = PostgresBackend::new(&self.url(), Settings::default()).unwrap();
    creator.open().unwrap();
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

/// Runs statements as a superuser.
fn execute(sql: &str) {
  let owner = PostgresBackend::new(server().unwrap(), Settings::default()).unwrap();
  let done = owner.with_connection("execute", &|| sql.to_owned(), async |connection| {
    connection.batch(sql).await
  });
  done.unwrap();
}

/// A backend in a new schema.
fn backend() -> Option<(Schema, PostgresBackend)> {
  let schema = Schema::new()?;
  let backend = schema.open(Settings::default());
  Some((schema, backend))
}

fn with_timeout(milliseconds: u64) -> Settings {
  Settings {
    timeout: Duration::from_millis(milliseconds),
    ..Settings::default()
  }
}

fn code_of_cause(error: &Error) -> Option<&str> {
  error.source()?.downcast_ref().and_then(system_code)
}

fn session(id: &str) -> SessionId {
  SessionId::parse(id).unwrap()
}

fn checkpoint(number: u64) -> CheckpointId {
  CheckpointId::parse(&format!("cp-{number}-000000")).unwrap()
}

fn entry(number: u64) -> CheckpointEntry {
  CheckpointEntry::new(checkpoint(number), Encoding::Json, Timestamp::default)
}

fn write_checkpoint(backend: &PostgresBackend, series: &Series, number: u64, bytes: &[u8]) {
  let id = checkpoint(number);
  let written = backend.put(&series.session, series.item(&id, Encoding::Json), &bytes);
  assert_eq!(written.unwrap(), bytes.len() as u64);
}

/// Stores a delta on a base of which the first `known` bytes are stored.
fn delta(backend: &PostgresBackend, series: &Series, id: u64, base: u64, known: u64, added: &[u8]) -> PutOutcome {
  let (id, key) = (checkpoint(id), checkpoint(base));
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
fn backend_passes_the_conformance_suite() {
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
fn names_contain_the_location_without_the_password() {
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
fn earlier_versions_can_be_replaced_and_deleted() {
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
  // Deleting a document keeps its earlier versions.
  assert!(backend.remove(&s, Item::SESSION).unwrap());
  assert!(!backend.remove(&s, Item::SESSION).unwrap());
  assert_eq!((versions(), backend.saved_sessions().unwrap().len()), ("4".into(), 0));
  backend.put(&s, Item::SESSION, b"6").unwrap();
  assert_eq!(versions(), "64");
}
