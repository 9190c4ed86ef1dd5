//! A `PostgreSQL` database, version 14 or later: for many machines that share their sessions.
//!
//! Plain SQL with parameters, and nothing that would have to be installed: no extension, procedure or trigger, and nobody
//! listens for notifications. A database that speaks the protocol serves as well if it has `INSERT … ON CONFLICT`,
//! statements that change data in `WITH`, `RETURNING`, row locks (`FOR UPDATE`, `FOR SHARE`, `FOR KEY SHARE`), arrays with
//! `unnest`, `bytea` and `uuid`, indexes with conditions and `INCLUDE`, and READ COMMITTED in which whoever waited for a row
//! sees it as it is then. `pg_advisory_xact_lock` is used where it is there, to make the tables once.
//!
//! Most changes are one statement, which is a transaction of its own; others are several that are sent at once. What they
//! check is checked where it is changed: nothing is looked at first and changed later.
//!
//! A pooler between the store and the server should keep a session for a connection: statements are prepared once, and how they
//! are planned is set once. What a transaction depends on, such as its durability, is set with `SET LOCAL` in that transaction.

use std::fmt;
use std::path::Path;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};

use super::{Content, Fences, Item, Settings};
use crate::types::error::{Code, Error, Result};
use crate::types::id::SessionId;

#[macro_use]
mod sql;

mod backend;
mod bases;
mod call;
mod checkpoints;
mod clearing;
mod connect;
mod connection;
mod contents;
mod create_session;
mod documents;
mod failure;
mod leases;
mod lists;
mod payload;
mod removal;
mod replacing;
mod schema;
mod sessions;
mod sqlstate;
mod storing;
mod target;
mod tls;
mod url;

use connect::Connector;
use target::Target;
pub use url::is_url;

pub struct PostgresBackend {
  target: Target,
  settings: Settings,
  connector: Connector,
  pool: Pool,
  fences: Fences,
}

/// Nothing that could hold a password.
impl fmt::Debug for PostgresBackend {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.debug_tuple("PostgresBackend").field(&self.target).finish()
  }
}

impl PostgresBackend {
  /// Nothing is touched before [`super::Backend::open`].
  pub fn new(url: &str, settings: impl Into<Settings>) -> Result<Self> {
    let settings = settings.into();
    let target = Target::parse(url, settings.timeout)?;
    let connector = Connector::new(target.tls.clone(), settings.durability);
    // A connection that was closed is noticed without asking.
    let recycling_method = RecyclingMethod::Fast;
    let manager = Manager::from_connect(
      target.config.clone(),
      connector.clone(),
      ManagerConfig { recycling_method },
    );
    let pool = Pool::builder(manager)
      .max_size(settings.max_connections)
      .runtime(Runtime::Tokio1)
      .build()
      .map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    Ok(Self {
      target,
      settings,
      connector,
      pool,
      fences: Fences::default(),
    })
  }

  /// The name of something below a session.
  fn name(&self, session: &SessionId, below: &str) -> String {
    format!("{}/{below}", self.name_of_session(session))
  }

  fn name_of_session(&self, session: &SessionId) -> String {
    format!("{}#{session}", self.target.location())
  }

  /// Under which number this store writes to a session, as the database counts.
  fn fence(&self, session: &SessionId) -> Option<i64> {
    self.fences.of(session).map(payload::to_signed)
  }

  /// Everything is rendered before it is sent, and once.
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
