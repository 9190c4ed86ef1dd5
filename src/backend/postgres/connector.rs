//! Opens connections, and sets how each is used.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::Connect;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Client, Config, Error, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{DbError, is_tls_error};
use super::tls::{Tls, Trust};
use crate::backend::Durability;

/// The server ends a transaction whose client sends nothing for this long: the client is lost, and its locks must not stay.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(60);

/// The limit on a request to cancel an abandoned statement.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

type Opened = Result<(Client, JoinHandle<()>), Error>;

/// Opens connections. Certificates are read before the first one.
#[derive(Clone)]
pub struct Connector(Arc<Shared>);

struct Shared {
  tls: Tls,
  durability: Durability,
  rustls: Mutex<Option<MakeRustlsConnect>>,
  /// Whether the server acknowledges commits that it has not synced, unless a transaction sets `synchronous_commit`.
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

  /// Reads the certificates, if TLS is used and they were not read yet.
  pub fn prepare(&self) -> Result<(), DbError> {
    let mut rustls = self.0.rustls.lock();
    if rustls.is_none() && self.0.tls.trust != Trust::NoTls {
      *rustls = Some(self.0.tls.connector().map_err(DbError::from_certificates)?);
    }
    Ok(())
  }

  fn rustls(&self) -> Option<MakeRustlsConnect> {
    self.0.rustls.lock().clone()
  }

  /// Asks the server to cancel the statement of a connection, without waiting for it.
  pub fn cancel(&self, token: CancelToken) {
    let rustls = self.rustls();
    tokio::spawn(tokio::time::timeout(CANCEL_TIMEOUT, async move {
      // The server does not answer whether the request arrived in time.
      let _ = match rustls {
        Some(rustls) => token.cancel_query(rustls).await,
        None => token.cancel_query(NoTls).await,
      };
    }));
  }

  async fn open(&self, config: Config) -> Opened {
    let rustls = self.rustls().filter(|_| has_tls(&config));
    let opened = match rustls {
      Some(rustls) => match connect(&config, rustls).await {
        // As with `libpq`, a server without usable TLS is accepted if TLS is only preferred.
        Err(error) if self.0.tls.is_optional && (is_tls_error(&error) || is_rejected(&error)) => {
          // The second error is more specific, unless it rejects connections without TLS.
          connect_without_tls(config).await.map_err(|second| {
            if second.code().is_none() || is_rejected(&second) {
              error
            } else {
              second
            }
          })
        }
        opened => opened,
      },
      None => connect_without_tls(config).await,
    };
    let (client, task) = opened?;
    match client.simple_query(SESSION_SETTINGS).await {
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

  /// The statements that begin a transaction. Their settings end with it: behind a pooler, the next transaction on this
  /// connection of the server may be that of another client.
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

  /// Whether a single statement needs an explicit transaction, to have the durability of the store.
  pub fn sets_durability(&self) -> bool {
    self.synchronous_commit().is_some()
  }

  /// The value that a transaction sets; `None` to keep the server's. A store with full durability accepts every setting of the
  /// server under which a commit waits for a sync.
  fn synchronous_commit(&self) -> Option<&'static str> {
    match self.0.durability {
      Durability::Relaxed => Some("off"),
      Durability::Full => self.0.is_unsynced_by_default.load(Ordering::Relaxed).then_some("on"),
    }
  }
}

/// Sent once on each connection: sets how statements are planned and how the server compresses.
///
/// Every statement finds its rows through an index, whatever its parameters, so one generic plan is enough. Without statistics of
/// a new table, the server would plan sequential scans; they are off. What the server compresses is short or compressed already,
/// so the fast lz4 is enough. A server that does not know one of these settings keeps its own.
///
/// These settings outlast a transaction, but nothing that is stored depends on them. Single statements depend on the isolation
/// level, which is set only if the default is another.
const SESSION_SETTINGS: &str = "\
  SELECT set_config(name, value, false) FROM pg_catalog.pg_settings JOIN (VALUES \
   ('plan_cache_mode', 'force_generic_plan'), ('enable_seqscan', 'off'), ('default_toast_compression', 'lz4')) \
   AS wanted (name, value) USING (name) WHERE vartype = 'bool' OR value = ANY (enumvals); \
   SELECT set_config('default_transaction_isolation', 'read committed', false) \
   WHERE current_setting('default_transaction_isolation') <> 'read committed'; \
   SELECT current_setting('synchronous_commit') AS synchronous_commit";

/// Whether the server acknowledges commits that it has not synced, by its own setting.
fn is_commit_unsynced(answers: &[SimpleQueryMessage]) -> bool {
  answers.iter().any(|answer| match answer {
    SimpleQueryMessage::Row(row) => row.try_get("synchronous_commit").ok().flatten() == Some("off"),
    _ => false,
  })
}

/// Whether the server accepts no connection of this kind, whatever the password.
fn is_rejected(error: &Error) -> bool {
  error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// Unix sockets have no TLS.
fn has_tls(config: &Config) -> bool {
  config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)))
}

async fn connect_without_tls(mut config: Config) -> Opened {
  config.ssl_mode(SslMode::Disable);
  connect(&config, NoTls).await
}

async fn connect<T>(config: &Config, tls: T) -> Opened
where
  T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>,
  T::Stream: Send + 'static,
{
  let (client, connection) = config.connect(tls).await?;
  // The client reports an error of this task to each caller that waits for an answer.
  Ok((client, tokio::spawn(connection.map(drop))))
}

impl Connect for Connector {
  fn connect(&self, config: &Config) -> Pin<Box<dyn Future<Output = Opened> + Send + '_>> {
    let config = config.clone();
    Box::pin(self.open(config))
  }
}
