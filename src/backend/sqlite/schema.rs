//! The tables, and whether a file has them.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use super::failure::{DbError, Failure};
use crate::types::error::{Code, Error, Result};

/// Marks the file as ours: «wymk». It is a number in the header of every database.
pub const APPLICATION_ID: i32 = 0x7779_6d6b;

/// A new meaning of a table or a column is a new number.
pub const VERSION: i32 = 5;

/// A row is stored in the order of its columns, and a long one goes on in a chain of pages: the large column comes last,
/// so that those before it are read without the chain, or with its first page. Lists and sums are answered by
/// `checkpoints_by_series` alone. The other index on checkpoints begins with their ids, which grow: new ones come together
/// at its end, whatever session they belong to.
///
/// A key is a row of pieces; each says at which byte of the key it starts.
///
/// `agent` is empty for the checkpoints of the session itself. `encoding` counts as `Encoding::ALL` does. The `number` of a
/// document is 0; earlier versions of it have greater ones, the later the greater.
const TABLES: &str = "
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

/// What the second version added: deltas, and what they stand on.
const SECOND: &str = "
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

/// What the third version added: who owns a session. It need not exist.
const THIRD: &str = "
  CREATE TABLE leases (
    session TEXT PRIMARY KEY NOT NULL,
    number INTEGER NOT NULL,
    owner TEXT NOT NULL,
    expires_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
";

/// What the fourth version added: how many checkpoints of a series retention may remove, so that it need not count them. An
/// id is stored once: of several encodings, which earlier versions could leave, the one that needs no key stays.
const FOURTH: &str = "
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

/// What the fifth version added: when a lease was acquired or last renewed. Null in a record of an earlier version.
const FIFTH: &str = "
  ALTER TABLE leases ADD COLUMN began_at INTEGER;
";

/// What leads from each version to the next.
const STEPS: [&str; VERSION as usize] = [TABLES, SECOND, THIRD, FOURTH, FIFTH];

/// Makes the tables of a new database, adds to those of an old one, and refuses one that is not ours. That one is not changed.
pub fn ensure(connection: &mut Connection, path: &Path) -> Result<(), Failure> {
  // Another process may be making the tables: what it has done is looked at as of one instant.
  let version = version(&connection.transaction()?, path)?;
  if version == 0 {
    // It is decided with the first page whether freed pages can be given back.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
  }
  let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
  if mode != "wal" {
    let message = format!("the file system allows no shared log (the journal mode is {mode:?})");
    return Err(DbError::new(ErrorCode::CannotOpen, message).into());
  }
  if version < STEPS.len() {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Somebody may have been quicker.
    for step in &STEPS[self::version(&transaction, path)?..] {
      transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
  }
  Ok(())
}

/// Writes a page as it is: a commit that changes nothing would sync nothing. A newer release may have changed the version since
/// the database was opened.
pub fn touch(connection: &Connection) -> rusqlite::Result<()> {
  let version: i32 = connection.pragma_query_one(None, "user_version")?;
  connection.pragma_update(None, "user_version", version)
}

/// The version of the tables; 0 if they have still to be made. A database that cannot be used is an error.
fn version(connection: &Transaction<'_>, path: &Path) -> Result<usize, Failure> {
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
