//! The tables: how they are created, migrated and recognized.

use sha2::{Digest as _, Sha256};
use tokio_postgres::error::SqlState;

use super::PostgresBackend;
use super::connection::Connection;
use super::error::{DbError, PgError};
use crate::types::error::{Code, Error, Result};

/// The number of the last step. A table or a column never changes its meaning without a new step.
pub const VERSION: i32 = 3;

/// Step 1: the tables. Texts are compared byte by byte, whatever the locale of the database. The indexes hold every column that
/// lists, sums and retention need, so these read no payload.
///
/// - `checkpoints`: one row per checkpoint. Its head and its tail, which lists read, are columns of their own. `agent` is empty
///   for the checkpoints of the session itself, `encoding` is the position in `Encoding::ALL`, and `key` is the base of a delta.
/// - `keys`: the bases, in pieces. `start` is the position of a piece in the base, in bytes.
/// - `packed` says that `middle` or `bytes` is a zstd frame; `size` is the size before compression.
/// - `documents`: a null `size` means that the document does not exist. `number` is the one that the document gets in `previous`
///   when it is replaced. Only versions from `oldest` on are kept, whatever other rows exist. `tokens` and `changed_at` are the
///   tokens and times of the last 64 changes, newest first: a retry looks for its own token.
/// - `sessions`: `founder` is the token of the call that created the session from a source. `pins` counts the times that a
///   checkpoint was pinned or unpinned. A row that is not `present` exists for its lease alone: writes and leases lock the same
///   row.
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

/// Step 2: an id is stored once. Of several encodings, which version 1 could leave, the first of `Encoding::ALL` is kept: it
/// needs no base.
const ONE_ENCODING: &str = "
  DELETE FROM waymark.checkpoints extra USING waymark.checkpoints kept
    WHERE kept.id = extra.id AND kept.session = extra.session AND kept.agent = extra.agent
      AND kept.encoding < extra.encoding;
  ALTER TABLE waymark.checkpoints DROP CONSTRAINT checkpoints_pkey;
  ALTER TABLE waymark.checkpoints ADD PRIMARY KEY (id, session, agent);
";

/// Step 3: the time when a lease was acquired or last renewed. Null in a row of an earlier version.
const LEASE_BEGAN: &str = "ALTER TABLE waymark.sessions ADD COLUMN lease_began bigint";

/// The steps from each version to the next. A step never changes after a release.
const STEPS: [&str; VERSION as usize] = [TABLES, ONE_ENCODING, LEASE_BEGAN];

/// After so many collisions of names, the existing tables are taken to be those of another application.
const MAX_COLLISIONS: u32 = 5;

/// Creates the tables, migrates those of an older version, and rejects those of a newer one. Needs no privilege to create
/// anything if the tables are up to date.
pub fn ensure(backend: &PostgresBackend) -> Result<()> {
  ensure_with(backend, true)
}

/// As on a database without advisory locks.
#[cfg(test)]
pub fn ensure_without_lock(backend: &PostgresBackend) -> Result<()> {
  ensure_with(backend, false)
}

fn ensure_with(backend: &PostgresBackend, mut has_locks: bool) -> Result<()> {
  let (schema, location) = (&backend.config.schema, backend.config.location());
  let mut collisions = 0;
  backend.with_connection("open", &|| location.clone(), async |connection| {
    let done = steps_done(version(connection, &location).await?, &location)?;
    if done == STEPS.len() {
      return Ok(());
    }
    if done == 0 && backend.settings.must_exist {
      return Err(Error::no_store(&location).into());
    }
    match migrate(connection, schema, &location, has_locks).await {
      Err(PgError::Db(error)) if error.has_sqlstate(&SqlState::UNDEFINED_FUNCTION) && has_locks => {
        has_locks = false;
        Err(PgError::RetryNow)
      }
      // Without the lock, two processes may create the same table at once.
      Err(PgError::Db(error)) if is_collision(&error) => {
        collisions += 1;
        if collisions < MAX_COLLISIONS {
          return Err(PgError::RetryNow);
        }
        Err(foreign(&location).because(error.into_error("open", &location)).into())
      }
      other => other,
    }
  })
}

fn is_collision(error: &DbError) -> bool {
  [
    SqlState::DUPLICATE_TABLE,
    SqlState::DUPLICATE_SCHEMA,
    SqlState::DUPLICATE_OBJECT,
    SqlState::UNIQUE_VIOLATION,
  ]
  .iter()
  .any(|state| error.has_sqlstate(state))
}

/// The error for a schema that another application uses.
fn foreign(location: &str) -> Error {
  let message = format!(
    "{location} cannot be opened: its schema contains tables of another application. Give the store a schema of its own, with \
     schema=<name> in the URL"
  );
  Error::new(Code::Corrupt, message)
}

/// Whether the table exists with other columns.
fn is_foreign(error: &DbError) -> bool {
  [
    SqlState::UNDEFINED_COLUMN,
    // No comparison exists for the type of the column.
    SqlState::UNDEFINED_FUNCTION,
    SqlState::DATATYPE_MISMATCH,
    SqlState::INVALID_TEXT_REPRESENTATION,
    SqlState::WRONG_OBJECT_TYPE,
  ]
  .iter()
  .any(|state| error.has_sqlstate(state))
}

/// The version of the tables; 0 if they do not exist.
async fn version(connection: &Connection, location: &str) -> Result<i32, PgError> {
  let sql = "SELECT version FROM waymark.meta WHERE id = 1";
  match connection.query(sql, &[]).await {
    Ok(rows) => match rows.first().map(|row| row.try_get::<_, i32>(0)) {
      Some(version) => Ok(version.map_err(|error| foreign(location).because(error))?),
      None => Ok(0),
    },
    Err(PgError::Db(error)) if is_foreign(&error) => {
      Err(foreign(location).because(error.into_error("open", location)).into())
    }
    Err(PgError::Db(error))
      if error.has_sqlstate(&SqlState::UNDEFINED_TABLE) || error.has_sqlstate(&SqlState::INVALID_SCHEMA_NAME) =>
    {
      Ok(0)
    }
    Err(error) => Err(error),
  }
}

/// The number of steps that led to a version. An error if this store does not know it.
fn steps_done(version: i32, location: &str) -> Result<usize> {
  match usize::try_from(version) {
    Ok(known) if known <= STEPS.len() => Ok(known),
    Ok(newer) => Err(Error::new(
      Code::NewerVersion,
      format!("{location} was created by a newer version (schema {newer}). Update waymark to open it"),
    )),
    Err(_) => Err(Error::corrupt(location, "its schema has no version")),
  }
}

/// Runs the missing steps in one transaction. The advisory lock lets only one process migrate at a time.
async fn migrate(connection: &Connection, schema: &str, location: &str, has_locks: bool) -> Result<(), PgError> {
  connection.begin().await?;
  if has_locks {
    // On a database without this function, `ensure_with` goes on without it, and repeats the migration after a collision.
    let sql = "SELECT pg_advisory_xact_lock($1)";
    connection.query(sql, &[&lock_number(schema)]).await?;
  }
  // The user may have a schema without the privilege to create one.
  let sql = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
  if connection.query(sql, &[&schema]).await?.is_empty() {
    connection.batch(&format!("CREATE SCHEMA \"{schema}\"")).await?;
  }
  let sql = "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = 'meta'";
  let has_tables = !connection.query(sql, &[&schema]).await?.is_empty();
  let version = if has_tables {
    version(connection, location).await?
  } else {
    0
  };
  for step in &STEPS[steps_done(version, location)?..] {
    connection.batch(step).await?;
  }
  let sql = "INSERT INTO waymark.meta (id, version) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET version = $1";
  connection.query(sql, &[&VERSION]).await?;
  connection.commit().await
}

/// The number of the advisory lock of a schema. A hash, because other schemas and applications use the same numbers.
fn lock_number(schema: &str) -> i64 {
  let hash = Sha256::digest(format!("waymark schema {schema}"));
  i64::from_le_bytes(*hash.first_chunk().unwrap_or(&[0; 8]))
}
