//! Creation and migration of the tables, and schemas of other applications.

use std::thread;

use super::*;

/// A new role with these privileges, which is dropped with this value.
struct Role(String);

impl Role {
  fn new(grants: impl Fn(&str) -> String) -> Self {
    let name = format!("test_{}", Uuid::new_v4().simple());
    execute(&format!(
      "CREATE ROLE {name} LOGIN PASSWORD 'p4ssword'; {}",
      grants(&name)
    ));
    Self(name)
  }

  fn url(&self, schema: &Schema) -> String {
    let url = schema.url();
    let (_, rest) = url.split_once('@').unwrap();
    format!("postgres://{}:p4ssword@{rest}", self.0)
  }
}

impl Drop for Role {
  fn drop(&mut self) {
    execute(&format!("DROP OWNED BY {0} CASCADE; DROP ROLE {0}", self.0));
  }
}

#[test]
fn concurrent_opens_create_the_tables_once() {
  let Some(schema) = Schema::new() else { return };
  thread::scope(|scope| {
    for _ in 0..24 {
      scope.spawn(|| {
        let backend = schema.open(Settings::default());
        assert!(backend.all_sessions().unwrap().is_empty());
      });
    }
  });
}

#[test]
fn concurrent_opens_without_the_advisory_lock_retry_after_collisions() {
  let Some(schema) = Schema::new() else { return };
  thread::scope(|scope| {
    for _ in 0..8 {
      scope.spawn(|| {
        let backend = PostgresBackend::new(&schema.url(), Settings::default()).unwrap();
        schema::ensure_without_lock(&backend).unwrap();
        assert!(backend.all_sessions().unwrap().is_empty());
      });
    }
  });
}

#[test]
fn open_rejects_newer_tables() {
  let Some((schema, backend)) = backend() else { return };
  let set_version = |version: i32| execute(&format!("UPDATE \"{}\".meta SET version = {version}", schema.name));
  set_version(schema::VERSION + 1);
  let error = backend.open().unwrap_err();
  assert_eq!(error.code, Code::NewerVersion);
  assert!(error.message.contains("Update waymark to open it"), "{error}");
  assert!(error.message.contains(&backend.location()), "{error}");
  set_version(schema::VERSION);
  backend.open().unwrap();
}

#[test]
fn open_rejects_a_schema_of_another_application_and_leaves_it_unchanged() {
  let Some(schema) = Schema::new() else { return };
  execute(&format!(
    "CREATE SCHEMA \"{0}\"; CREATE TABLE \"{0}\".documents (mine text)",
    schema.name
  ));
  let backend = PostgresBackend::new(&schema.url(), Settings::default()).unwrap();
  let error = backend.open().unwrap_err();
  assert_eq!(error.code, Code::Corrupt, "{error}");
  assert!(error.message.contains("schema of its own"), "{error}");
  execute(&format!("SELECT mine FROM \"{}\".documents", schema.name));
}

#[test]
fn open_rejects_a_meta_table_of_another_application_and_leaves_it_unchanged() {
  for columns in [
    "mine text",
    "version integer",
    "id text, version integer",
    "id uuid, version text",
    "id integer, version text",
    "id integer, version bigint",
    "id integer, version integer",
  ] {
    let Some(schema) = Schema::new() else { return };
    let name = &schema.name;
    execute(&format!(
      "CREATE SCHEMA \"{name}\"; CREATE TABLE \"{name}\".meta ({columns})"
    ));
    if columns == "id integer, version text" || columns.ends_with("bigint") {
      execute(&format!("INSERT INTO \"{name}\".meta VALUES (1, '1')"));
    }
    let backend = PostgresBackend::new(&schema.url(), Settings::default()).unwrap();
    let error = backend.open().unwrap_err();
    assert_eq!(error.code, Code::Corrupt, "{columns}: {error}");
    assert!(error.message.contains("schema of its own"), "{columns}: {error}");
    execute(&format!(
      "SELECT 1 / (1 - count(*)) FROM pg_class WHERE relname = 'checkpoints' AND relnamespace = '\"{name}\"'::regnamespace"
    ));
  }
}

#[test]
fn open_needs_only_the_privileges_to_use_existing_tables_and_names_missing_ones() {
  let Some((schema, owner)) = backend() else { return };
  let name = &schema.name;
  let outsider = Role::new(|_| String::new());
  let backend = PostgresBackend::new(&outsider.url(&schema), Settings::default()).unwrap();
  let error = backend.open().unwrap_err();
  assert_eq!(error.code, Code::Io);
  assert!(
    error.message.contains("42501") && error.message.contains("GRANT"),
    "{error}"
  );

  let user = Role::new(|role| {
    format!(
      "GRANT USAGE ON SCHEMA \"{name}\" TO {role};
       GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"{name}\" TO {role}"
    )
  });
  let backend = PostgresBackend::new(&user.url(&schema), Settings::default()).unwrap();
  backend.open().unwrap();
  backend.put(&session("s"), Item::SESSION, b"{}").unwrap();
  assert_eq!(owner.saved_sessions().unwrap(), [session("s")]);
  backend.delete_any(&session("s")).unwrap();

  // An existing schema of its own is enough, too.
  let theirs = Schema::new().unwrap();
  let maker = Role::new(|role| format!("CREATE SCHEMA \"{}\" AUTHORIZATION {role}", theirs.name));
  let backend = PostgresBackend::new(&maker.url(&theirs), Settings::default()).unwrap();
  backend.open().unwrap();
  backend.put(&session("s"), Item::SESSION, b"{}").unwrap();
}

#[test]
fn open_creates_tables_again_that_were_dropped() {
  let Some((schema, backend)) = backend() else { return };
  backend.put(&session("s"), Item::SESSION, b"{}").unwrap();
  execute(&format!("DROP SCHEMA \"{}\" CASCADE", schema.name));
  let error = backend.put(&session("s"), Item::SESSION, b"{}").unwrap_err();
  assert!(error.message.contains("initialize()"), "{error}");
  backend.open().unwrap();
  backend.put(&session("s"), Item::SESSION, b"{}").unwrap();
}

#[test]
fn new_does_not_connect() {
  let Some(schema) = Schema::new() else { return };
  let backend = PostgresBackend::new(&schema.url(), Settings::default()).unwrap();
  assert_eq!(backend.pool.status().size, 0);
  drop(backend);
  let unreachable = PostgresBackend::new("postgres://user@0.0.0.0:1/x", Settings::default());
  assert!(unreachable.is_ok());
}
