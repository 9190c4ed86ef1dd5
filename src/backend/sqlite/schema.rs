//! The tables, and the steps from each version of them to the next.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use super::error::{DbError, SqliteError};
use crate::types::error::{Code, Error, Result};

/// Marks the file as a store: «wymk». SQLite keeps this number in the header of the database.
pub const APPLICATION_ID: i32 = 0x7779_6d6b;

/// Grows with each change of the tables, or of the meaning of a column.
pub const VERSION: i32 = 5;

/// A row is stored in the order of its columns, and a long row continues in a chain of overflow pages. The large column comes last, so
/// that the others are read without that chain, or with its first page. Lists and sums read `checkpoints_by_series` alone. The other
/// index on checkpoints begins with their ids, which grow, so new entries of all sessions are added at its end.
///
/// `agent` is empty for the checkpoints of the session itself. `encoding` is a number of [`crate::backend::sql::encoding_number`]. The
/// `number` of a document is 0; its earlier versions have greater numbers, the latest of them the greatest.
const VERSION_1: &str = "
  CREATE TABLE sessions (
    id TEXT PRIMARY KEY NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE documents (
    session TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    size INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    UNIQUE (session, name, number)
  ) STRICT;

  CREATE TABLE checkpoints (
    id TEXT NOT NULL,
    session TEXT NOT NULL,
    agent TEXT NOT NULL,
    encoding INTEGER NOT NULL,
    made_at INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    size INTEGER NOT NULL,
    head BLOB NOT NULL,
    tail BLOB NOT NULL,
    middle BLOB NOT NULL,
    UNIQUE (id, session, agent, encoding)
  ) STRICT;
  CREATE INDEX checkpoints_by_series ON checkpoints (session, agent, made_at, id, encoding, pinned, size);

  CREATE TABLE damaged (
    session TEXT NOT NULL,
    name TEXT NOT NULL,
    size INTEGER NOT NULL,
    head BLOB NOT NULL,
    tail BLOB NOT NULL,
    middle BLOB NOT NULL,
    UNIQUE (session, name)
  ) STRICT;
";

/// Adds deltas and their bases. A base is stored in pieces, one per row, which begin at the byte `start` of the base. `key` is the id of
/// the base of a delta.
const VERSION_2: &str = "
  ALTER TABLE checkpoints ADD COLUMN key TEXT;
  CREATE INDEX checkpoints_by_key ON checkpoints (session, agent, key) WHERE key IS NOT NULL;

  CREATE TABLE keys (
    session TEXT NOT NULL,
    agent TEXT NOT NULL,
    id TEXT NOT NULL,
    start INTEGER NOT NULL,
    size INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    UNIQUE (session, agent, id, start)
  ) STRICT;
";

/// Adds leases. The session of a lease need not exist.
const VERSION_3: &str = "
  CREATE TABLE leases (
    session TEXT PRIMARY KEY NOT NULL,
    number INTEGER NOT NULL,
    owner TEXT NOT NULL,
    expires_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
";

/// Adds the number of checkpoints of a series that are not pinned, so that retention need not count them. Each id is stored once: of
/// the several encodings that earlier versions could leave, the first in order is kept, which needs no base.
const VERSION_4: &str = "
  DELETE FROM checkpoints AS extra WHERE EXISTS (
    SELECT 1 FROM checkpoints AS kept
    WHERE kept.id = extra.id AND kept.session = extra.session AND kept.agent = extra.agent
      AND kept.encoding < extra.encoding
  );

  CREATE TABLE unpinned (
    session TEXT NOT NULL,
    agent TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (session, agent)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO unpinned SELECT session, agent, count(*) FROM checkpoints WHERE NOT pinned GROUP BY session, agent;

  CREATE TRIGGER checkpoint_inserted AFTER INSERT ON checkpoints WHEN NOT NEW.pinned BEGIN
    INSERT INTO unpinned VALUES (NEW.session, NEW.agent, 1) ON CONFLICT DO UPDATE SET count = count + 1;
  END;
  CREATE TRIGGER checkpoint_deleted AFTER DELETE ON checkpoints WHEN NOT OLD.pinned BEGIN
    UPDATE unpinned SET count = count - 1 WHERE session = OLD.session AND agent = OLD.agent;
  END;
  CREATE TRIGGER checkpoint_pinned AFTER UPDATE OF pinned ON checkpoints WHEN OLD.pinned <> NEW.pinned BEGIN
    INSERT INTO unpinned VALUES (NEW.session, NEW.agent, OLD.pinned - NEW.pinned)
      ON CONFLICT DO UPDATE SET count = count + excluded.count;
  END;
";

/// Adds the time at which a lease was acquired or last renewed. NULL in records of earlier versions.
const VERSION_5: &str = "
  ALTER TABLE leases ADD COLUMN began_at INTEGER;
";

/// The statements that lead from each version to the next.
const STEPS: [&str; VERSION as usize] = [VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5];

/// Creates the tables, or brings them to the current version. The database of another application is an error, and is not changed.
pub fn ensure(connection: &mut Connection, path: &Path) -> Result<(), SqliteError> {
  // Read in one transaction, because another process may be creating the tables.
  let version = version(&connection.transaction()?, path)?;
  if version == 0 {
    // This takes effect only before the first page is written. It allows free pages to be returned to the file system.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
  }
  let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
  if mode != "wal" {
    let message = format!("the file system does not support a shared log (the journal mode is {mode:?})");
    return Err(DbError::new(ErrorCode::CannotOpen, message).into());
  }
  if version < STEPS.len() {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read the version again under the lock: another process may have run the steps.
    for step in &STEPS[self::version(&transaction, path)?..] {
      transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
  }
  Ok(())
}

/// Writes a page without changing it, because a commit without changes is not synced. The version is read first: a newer release may
/// have changed it since the database was opened.
pub fn touch(connection: &Connection) -> rusqlite::Result<()> {
  let version: i32 = connection.pragma_query_one(None, "user_version")?;
  connection.pragma_update(None, "user_version", version)
}

/// The version of the tables; 0 if there are none yet. A database that this release cannot use is an error.
fn version(connection: &Transaction<'_>, path: &Path) -> Result<usize, SqliteError> {
  let application: i32 = connection.pragma_query_one(None, "application_id")?;
  let version: i32 = connection.pragma_query_one(None, "user_version")?;
  let entries: u64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
  let name = path.display();
  match (application, usize::try_from(version)) {
    (0, Ok(0)) if entries == 0 => Ok(0),
    (APPLICATION_ID, Ok(known)) if (1..=STEPS.len()).contains(&known) => Ok(known),
    (APPLICATION_ID, Ok(newer)) if newer > STEPS.len() => {
      let message = format!("{name} was made by a newer version (schema {newer}). Update waymark to open it");
      Err(Error::new(Code::NewerVersion, message).into())
    }
    (APPLICATION_ID, _) => Err(Error::corrupt(&name.to_string(), "its schema has no version").into()),
    _ => {
      let message = format!("{name} is the database of another application. Give the store a file of its own");
      Err(Error::new(Code::Corrupt, message).into())
    }
  }
}
