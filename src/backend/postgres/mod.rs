//! A `PostgreSQL` database, version 14 or later: for many machines that share their sessions.
//!
//! The backend uses plain SQL with parameters. It installs no extension, procedure or trigger, and does not use notifications. A
//! database that speaks the protocol can take the place of `PostgreSQL` if it has `INSERT … ON CONFLICT`, statements that change
//! data in `WITH`, `RETURNING`, row locks (`FOR UPDATE`, `FOR SHARE`, `FOR KEY SHARE`), arrays with `unnest`, `bytea` and `uuid`,
//! partial indexes and `INCLUDE`, and READ COMMITTED, in which a statement that waited for a row sees its current version.
//! `pg_advisory_xact_lock` is used if it exists, so that the tables are created once.
//!
//! Most changes are one statement, which is a transaction of its own; others are several statements in one round trip. A
//! precondition is checked in the transaction that makes the change.
//!
//! A pooler between the store and the server should work in session mode: statements are prepared once for each connection, and
//! so are the settings of the planner. What a transaction depends on, such as its durability, is set with `SET LOCAL` in it.

use std::fmt;
use std::path::Path;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};

use super::{Content, Fences, Item, Settings};
use crate::types::error::{Code, Error, Result};
use crate::types::id::SessionId;

mod backend;
mod bases;
mod call;
mod checkpoints;
mod config;
mod connection;
mod connector;
mod contents;
mod create_session;
mod delete;
mod delete_session;
mod documents;
mod error;
mod labels;
mod leases;
mod lists;
mod payload;
mod put;
mod replace_documents;
mod retention;
mod schema;
mod sessions;
mod sql;
mod sqlstate;
mod tls;
mod url;

use config::PgConfig;
use connector::Connector;
pub use url::is_url;

pub struct PostgresBackend {
  config: PgConfig,
  settings: Settings,
  connector: Connector,
  pool: Pool,
  fences: Fences,
}

/// Shows no field that could contain a password.
impl fmt::Debug for PostgresBackend {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.debug_tuple("PostgresBackend").field(&self.config).finish()
  }
}

impl PostgresBackend {
  /// Connects to nothing before [`super::Backend::open`].
  pub fn new(url: &str, settings: impl Into<Settings>) -> Result<Self> {
    let settings = settings.into();
    let config = PgConfig::parse(url, settings.timeout)?;
    let connector = Connector::new(config.tls.clone(), settings.durability);
    // A closed connection is detected without a round trip.
    let recycling_method = RecyclingMethod::Fast;
    let manager = Manager::from_connect(
      config.client.clone(),
      connector.clone(),
      ManagerConfig { recycling_method },
    );
    let pool = Pool::builder(manager)
      .max_size(settings.max_connections)
      .runtime(Runtime::Tokio1)
      .build()
      .map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    Ok(Self {
      config,
      settings,
      connector,
      pool,
      fences: Fences::default(),
    })
  }

  /// The name of an item of a session.
  fn name(&self, session: &SessionId, item: &str) -> String {
    format!("{}/{item}", self.name_of_session(session))
  }

  fn name_of_session(&self, session: &SessionId) -> String {
    format!("{}#{session}", self.config.location())
  }

  /// The fencing token of this store for a session, as the type of the column.
  fn fence(&self, session: &SessionId) -> Option<i64> {
    self.fences.of(session).map(payload::to_signed)
  }

  /// Renders an item before the call, so that retries send the same bytes.
  fn bytes(&self, session: &SessionId, item: Item<'_>, content: &dyn Content) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match content.write_to(&mut bytes) {
      Ok(()) => Ok(bytes),
      Err(error) => {
        let name = self.name(session, &item.to_string());
        Err(Error::io("write", Path::new(&name), error))
      }
    }
  }
}

#[cfg(test)]
mod tests;
