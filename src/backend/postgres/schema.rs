//! The tables, and whether a database has them.

use sha2::{Digest as _, Sha256};
use tokio_postgres::error::SqlState;

use super::PostgresBackend;
use super::connection::Connection;
use super::failure::{DbError, Failure};
use crate::types::error::{Code, Error, Result};

/// A new meaning of a table or a column is a new number.
pub const VERSION: i32 = 3;

/// Ids are compared byte by byte, whatever the language of the database. The keys of the indexes that answer lists, sums
/// and retention hold all that those need, so no payload is read for them.
///
/// A checkpoint is one row; its head and its tail, which lists show, are columns of their own. `agent` is empty for the
/// checkpoints of the session itself, `encoding` counts as `Encoding::ALL` does, and `key` is what a delta stands on. A key
/// is a row of pieces; each says at which byte of the key it starts. `packed` says that `middle` or `bytes` is a zstd
/// frame; `size` is what it was before.
///
/// A document whose `size` is null is not there. Its `number` is the one that it gets in `previous` when another takes its
/// place; those from `oldest` on are kept, whatever else is there. `tokens` are those of the last changes, newest first, and
/// `changed_at` when they came: who makes a change a second time finds its own. A session has the token of who founded it, and `pins` counts how often
/// something was pinned or let go in it. One that is not `present` is there for its lease alone: writes and leases meet in
/// this one row, so that neither can pass the other by.
const TABLES: &str = r#"
  CREATE TABLE waymark.meta (
    id integer PRIMARY KEY,
    version integer NOT NULL
  );

  CREATE TABLE waymark.sessions (
    id text COLLATE "C" PRIMARY KEY,
    present boolean NOT NULL,
    founder uuid,
    pins bigint NOT NULL DEFAULT 0,
    lease_number bigint,
    lease_owner text,
    lease_expires bigint,
    lease_token uuid
  );
  CREATE INDEX sessions_by_lease ON waymark.sessions (id) WHERE lease_expires > 0;

  CREATE TABLE waymark.documents (
    session text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    oldest bigint NOT NULL,
    tokens uuid[] NOT NULL,
    changed_at timestamptz[] NOT NULL DEFAULT '{}',
    size bigint,
    packed boolean,
    bytes bytea,
    PRIMARY KEY (session, name)
  );

  CREATE TABLE waymark.previous (
    session text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    size bigint NOT NULL,
    packed boolean NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (session, name, number)
  );

  CREATE TABLE waymark.checkpoints (
    id text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    encoding smallint NOT NULL,
    made_at bigint NOT NULL,
    pinned boolean NOT NULL,
    size bigint NOT NULL,
    key text COLLATE "C",
    packed boolean NOT NULL,
    head bytea NOT NULL,
    tail bytea NOT NULL,
    middle bytea NOT NULL,
    PRIMARY KEY (id, session, agent, encoding)
  );
  CREATE INDEX checkpoints_by_series ON waymark.checkpoints (session, agent, made_at, id, encoding)
    INCLUDE (pinned, size);
  CREATE INDEX checkpoints_by_key ON waymark.checkpoints (session, agent, key) WHERE key IS NOT NULL;

  CREATE TABLE waymark.keys (
    session text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    start bigint NOT NULL,
    size bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (session, agent, id, start)
  );

  CREATE TABLE waymark.damaged (
    session text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    size bigint NOT NULL,
    packed boolean NOT NULL,
    head bytea NOT NULL,
    tail bytea NOT NULL,
    middle bytea NOT NULL,
    PRIMARY KEY (session, name)
  );
"#;

/// What the second version changed: an id is stored once. Of several encodings, which the first version could leave, the one
/// that needs no key stays.
const SECOND: &str = "
  DELETE FROM waymark.checkpoints extra USING waymark.checkpoints kept
    WHERE kept.id = extra.id AND kept.session = extra.session AND kept.agent = extra.agent
      AND kept.encoding < extra.encoding;
  ALTER TABLE waymark.checkpoints DROP CONSTRAINT checkpoints_pkey;
  ALTER TABLE waymark.checkpoints ADD PRIMARY KEY (id, session, agent);
";

/// What the third version added: when a lease was acquired or last renewed. Null in a row of an earlier version.
const THIRD: &str = "ALTER TABLE waymark.sessions ADD COLUMN lease_began bigint";

/// What leads from each version to the next.
const STEPS: [&str; VERSION as usize] = [TABLES, SECOND, THIRD];

/// How often others may be quicker with something of the same name before it is taken to be somebody else's.
const MOST_COLLISIONS: u32 = 5;

/// Makes the tables, adds to those of an older version, and refuses those of a newer one. Who may only use them finds that
/// they are there, and is not asked for more.
pub fn ensure(backend: &PostgresBackend) -> Result<()> {
  ensure_with(backend, true)
}

/// As on a database that has no such lock.
#[cfg(test)]
pub fn ensure_without_lock(backend: &PostgresBackend) -> Result<()> {
  ensure_with(backend, false)
}

fn ensure_with(backend: &PostgresBackend, mut has_locks: bool) -> Result<()> {
  let (schema, location) = (&backend.target.schema, backend.target.location());
  let mut collisions = 0;
  backend.ask("open", &|| location.clone(), async |connection| {
    let known = is_known(version(connection, &location).await?, &location)?;
    if known == STEPS.len() {
      return Ok(());
    }
    if known == 0 && backend.settings.must_exist {
      return Err(Error::no_store(&location).into());
    }
    match migrate(connection, schema, &location, has_locks).await {
      Err(Failure::Refused(refusal)) if refusal.has_state(&SqlState::UNDEFINED_FUNCTION) && has_locks => {
        has_locks = false;
        Err(Failure::Overtaken)
      }
      // Without the lock, or beside somebody who does not take it, two may make the same thing at once.
      Err(Failure::Refused(refusal)) if is_collision(&refusal) => {
        collisions += 1;
        if collisions < MOST_COLLISIONS {
          return Err(Failure::Overtaken);
        }
        Err(foreign(&location).because(refusal.into_error("open", &location)).into())
      }
      other => other,
    }
  })
}

fn is_collision(refusal: &DbError) -> bool {
  [
    SqlState::DUPLICATE_TABLE,
    SqlState::DUPLICATE_SCHEMA,
    SqlState::DUPLICATE_OBJECT,
    SqlState::UNIQUE_VIOLATION,
  ]
  .iter()
  .any(|state| refusal.has_state(state))
}

/// Why a schema that another application uses is not opened.
fn foreign(location: &str) -> Error {
  let message = format!(
    "{location} cannot be opened: its schema holds tables that no store made. Give the store a schema of its own, with \
     schema=<name> in the URL"
  );
  Error::new(Code::Corrupt, message)
}

/// How the server says that a table is there, but not with the columns that it is asked for.
fn is_foreign(refusal: &DbError) -> bool {
  [
    SqlState::UNDEFINED_COLUMN,
    // A column that is compared has another type.
    SqlState::UNDEFINED_FUNCTION,
    SqlState::DATATYPE_MISMATCH,
    SqlState::INVALID_TEXT_REPRESENTATION,
    SqlState::WRONG_OBJECT_TYPE,
  ]
  .iter()
  .any(|state| refusal.has_state(state))
}

/// The version of the tables; 0 if they have still to be made.
async fn version(connection: &Connection, location: &str) -> Result<i32, Failure> {
  let sql = "SELECT version FROM waymark.meta WHERE id = 1";
  match connection.query(sql, &[]).await {
    Ok(rows) => match rows.first().map(|row| row.try_get::<_, i32>(0)) {
      Some(version) => Ok(version.map_err(|error| foreign(location).because(error))?),
      None => Ok(0),
    },
    Err(Failure::Refused(refusal)) if is_foreign(&refusal) => {
      Err(foreign(location).because(refusal.into_error("open", location)).into())
    }
    Err(Failure::Refused(refusal))
      if refusal.has_state(&SqlState::UNDEFINED_TABLE) || refusal.has_state(&SqlState::INVALID_SCHEMA_NAME) =>
    {
      Ok(0)
    }
    Err(failure) => Err(failure),
  }
}

/// How many steps a version is away from nothing.
fn is_known(version: i32, location: &str) -> Result<usize> {
  match usize::try_from(version) {
    Ok(known) if known <= STEPS.len() => Ok(known),
    Ok(newer) => Err(Error::new(
      Code::NewerVersion,
      format!("{location} was made by a newer version (schema {newer}). Update waymark to open it"),
    )),
    Err(_) => Err(Error::corrupt(location, "its schema has no version")),
  }
}

/// One transaction, and one at a time: whoever comes second finds everything done.
async fn migrate(connection: &Connection, schema: &str, location: &str, has_locks: bool) -> Result<(), Failure> {
  connection.begin().await?;
  if has_locks {
    // Databases without this function go on without it: what collides there is tried again.
    let sql = "SELECT pg_advisory_xact_lock($1)";
    connection.query(sql, &[&lock_number(schema)]).await?;
  }
  // Whoever has no right to make schemas may have been given this one.
  let sql = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
  if connection.query(sql, &[&schema]).await?.is_empty() {
    connection.run(&format!("CREATE SCHEMA \"{schema}\"")).await?;
  }
  let sql = "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = 'meta'";
  let has_tables = !connection.query(sql, &[&schema]).await?.is_empty();
  let version = if has_tables {
    version(connection, location).await?
  } else {
    0
  };
  for step in &STEPS[is_known(version, location)?..] {
    connection.run(step).await?;
  }
  let sql = "INSERT INTO waymark.meta (id, version) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET version = $1";
  connection.query(sql, &[&VERSION]).await?;
  connection.commit().await
}

/// The lock of a schema: no two of one database should have the same, and no other application any of them.
fn lock_number(schema: &str) -> i64 {
  let hash = Sha256::digest(format!("waymark schema {schema}"));
  i64::from_le_bytes(*hash.first_chunk().unwrap_or(&[0; 8]))
}
