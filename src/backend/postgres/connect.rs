//! How a connection is made, and what it is told before anybody uses it.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::Connect;
use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Client, Config, Error, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::{DbError, is_about_tls};
use super::tls::{Tls, Trust};
use crate::backend::Durability;

/// A transaction that waits for its client for longer than this has lost it, and must not keep its locks.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(60);

/// A request to stop a statement that nobody waits for any more may take so long.
const CANCELLING: Duration = Duration::from_secs(5);

type Made = Result<(Client, JoinHandle<()>), Error>;

/// Makes connections. What it knows of TLS is read when the first one is made.
#[derive(Clone)]
pub struct Connector(Arc<Shared>);

struct Shared {
  tls: Tls,
  durability: Durability,
  rustls: Mutex<Option<MakeRustlsConnect>>,
  /// Whether a connection was found whose commits are not synced unless they are told to be.
  is_unsynced_by_default: AtomicBool,
}

impl fmt::Debug for Connector {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "{:?}", self.0.tls)
  }
}

impl Connector {
  pub fn new(tls: Tls, durability: Durability) -> Self {
    Self(Arc::new(Shared {
      tls,
      durability,
      rustls: Mutex::default(),
      is_unsynced_by_default: AtomicBool::new(false),
    }))
  }

  /// Reads the certificates, if there is need of any.
  pub fn prepare(&self) -> Result<(), DbError> {
    let mut rustls = self.0.rustls.lock().unwrap_or_else(PoisonError::into_inner);
    if rustls.is_none() && self.0.tls.trust != Trust::NoTls {
      *rustls = Some(self.0.tls.connector().map_err(DbError::of_certificates)?);
    }
    Ok(())
  }

  fn rustls(&self) -> Option<MakeRustlsConnect> {
    self.0.rustls.lock().unwrap_or_else(PoisonError::into_inner).clone()
  }

  /// Asks the server to stop what a connection was told to do. Nobody waits for it.
  pub fn cancel(&self, token: CancelToken) {
    let rustls = self.rustls();
    tokio::spawn(tokio::time::timeout(CANCELLING, async move {
      // Whether it comes in time is not known either way.
      let _ = match rustls {
        Some(rustls) => token.cancel_query(rustls).await,
        None => token.cancel_query(NoTls).await,
      };
    }));
  }

  async fn made(&self, config: Config) -> Made {
    let rustls = self.rustls().filter(|_| has_tls(&config));
    let made = match rustls {
      Some(rustls) => {
        let made = open(&config, rustls).await;
        match made {
          // As `libpq` does: what is only preferred may not keep anybody out.
          Err(error) if self.0.tls.is_optional && (is_about_tls(&error) || is_turned_away(&error)) => {
            // What is said the second time is more to the point, unless it is that this is not the way.
            let second = without_tls(config).await;
            second.map_err(|second| {
              if second.code().is_none() || is_turned_away(&second) {
                error
              } else {
                second
              }
            })
          }
          made => made,
        }
      }
      None => without_tls(config).await,
    };
    let (client, task) = made?;
    match client.simple_query(first_words()).await {
      Ok(answers) => {
        if is_commit_unsynced(&answers) {
          self.0.is_unsynced_by_default.store(true, Ordering::Relaxed);
        }
        Ok((client, task))
      }
      Err(error) => {
        task.abort();
        Err(error)
      }
    }
  }

  /// What begins a transaction. Nothing of it outlasts the transaction: behind a pooler, the next one on this connection of the
  /// server may be that of another client.
  pub fn begin(&self) -> String {
    let begin = format!(
      "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = {}",
      IDLE_IN_TRANSACTION.as_millis()
    );
    match self.synchronous_commit() {
      Some(value) => format!("{begin}; SET LOCAL synchronous_commit = {value}"),
      None => begin,
    }
  }

  /// Whether a single statement needs a transaction around it, to be as durable as was asked for.
  pub fn sets_durability(&self) -> bool {
    self.synchronous_commit().is_some()
  }

  /// What a commit has to be told; `None` if the setting of the server does. Whatever the server waits for is its own affair,
  /// but a store with full durability makes it wait.
  fn synchronous_commit(&self) -> Option<&'static str> {
    match self.0.durability {
      Durability::Relaxed => Some("off"),
      Durability::Full => self.0.is_unsynced_by_default.load(Ordering::Relaxed).then_some("on"),
    }
  }
}

/// What a new connection is told: how statements are planned, and what is compressed. Every statement looks its rows up in an
/// index, whoever they belong to: planning each anew would find nothing else, unless the server knew nothing of the table yet.
/// And what the server compresses by itself is packed already, or short. Servers that do not know one of these do without it.
///
/// These settings outlast a transaction, but nothing that is stored depends on them. The isolation does, for single statements:
/// it is set only where the default is another.
fn first_words() -> &'static str {
  "SELECT set_config(name, value, false) FROM pg_catalog.pg_settings JOIN (VALUES \
   ('plan_cache_mode', 'force_generic_plan'), ('enable_seqscan', 'off'), ('default_toast_compression', 'lz4')) \
   AS wanted (name, value) USING (name) WHERE vartype = 'bool' OR value = ANY (enumvals); \
   SELECT set_config('default_transaction_isolation', 'read committed', false) \
   WHERE current_setting('default_transaction_isolation') <> 'read committed'; \
   SELECT current_setting('synchronous_commit') AS synchronous_commit"
}

/// Whether the server acknowledges commits that it has not synced, unless it is told otherwise.
fn is_commit_unsynced(answers: &[SimpleQueryMessage]) -> bool {
  answers.iter().any(|answer| match answer {
    SimpleQueryMessage::Row(row) => row.try_get("synchronous_commit").ok().flatten() == Some("off"),
    _ => false,
  })
}

/// Whether somebody may not come in this way, whatever the password.
fn is_turned_away(error: &Error) -> bool {
  error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// Sockets of the same machine have none.
fn has_tls(config: &Config) -> bool {
  config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)))
}

async fn without_tls(mut config: Config) -> Made {
  config.ssl_mode(SslMode::Disable);
  open(&config, NoTls).await
}

async fn open<T>(config: &Config, tls: T) -> Made
where
  T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>,
  T::Stream: Send + 'static,
{
  let (client, connection) = config.connect(tls).await?;
  // Whoever waits for an answer is told what became of it.
  Ok((client, tokio::spawn(connection.map(drop))))
}

impl Connect for Connector {
  fn connect(&self, config: &Config) -> Pin<Box<dyn Future<Output = Made> + Send + '_>> {
    let config = config.clone();
    Box::pin(self.made(config))
  }
}
