//! The configuration that a URL holds: servers, database, schema, TLS.

use std::env;
use std::error::Error as _;
use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config as ClientConfig;
use tokio_postgres::config::{Host, SslMode};

use super::tls::{Tls, Trust};
use super::url::{InvalidReason, UrlParts, decoded, encoded};
use crate::types::error::{Error, Result};

/// The environment variable with the password if the URL has none, as for `psql`.
const PASSWORD_VARIABLE: &str = "PGPASSWORD";

const DEFAULT_PORT: u16 = 5432;

const DEFAULT_SCHEMA: &str = "waymark";

/// `PostgreSQL` truncates longer names.
const MAX_SCHEMA_BYTES: usize = 63;

/// When the system begins to probe a silent connection, how often, and how many probes may fail.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// A schema of a database, and how to connect to it.
pub struct PgConfig {
  pub client: ClientConfig,
  pub schema: String,
  pub tls: Tls,
  /// The URL without the password, the schema and other parameters.
  pub address: String,
}

impl fmt::Debug for PgConfig {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.write_str(&self.location())
  }
}

impl PgConfig {
  /// `timeout` is the limit of a whole call.
  pub fn parse(url: &str, timeout: Duration) -> Result<Self> {
    UrlParts::of(url)
      .and_then(|parts| Self::from_parts(&parts, timeout))
      .map_err(|reason| {
        Error::invalid_argument(format!(
          "baseDir is not a valid URL of a PostgreSQL database: {reason}. Write \
           \"postgres://user:password@host:port/database?schema=name\""
        ))
      })
  }

  fn from_parts(parts: &UrlParts<'_>, timeout: Duration) -> Result<Self, InvalidReason> {
    let mut schema = DEFAULT_SCHEMA.to_owned();
    let (mut mode, mut root) = ("prefer".to_owned(), None);
    let mut client_parameters = Vec::new();
    for (name, value) in &parts.parameters {
      match *name {
        "schema" => schema = checked_schema(&decoded(value))?,
        "sslmode" => mode = decoded(value).into_owned(),
        "sslrootcert" => root = Some(PathBuf::from(decoded(value).into_owned())),
        "host" if !parts.hosts.is_empty() => return Err("the host is given twice".into()),
        // `ClientConfig` reads a value with commas as one host.
        "host" => client_parameters.extend(value.split(',').map(|host| format!("host={host}"))),
        _ => client_parameters.push(format!("{name}={value}")),
      }
    }
    // The credentials are left out, so that no error can contain them.
    let url = format!(
      "postgres://{}/{}?{}",
      parts.hosts,
      parts.database,
      client_parameters.join("&")
    );
    let mut config: ClientConfig = url.parse().map_err(|error| config_error(&error))?;
    check_hosts(&config)?;
    if let Some(user) = parts.user {
      config.user(decoded(user));
    }
    if config.get_user().is_some_and(|user| user.contains(':')) {
      return Err("the user name contains a colon. Write the : before the password as it is, not as %3A".into());
    }
    match parts.password {
      Some(password) => drop(config.password(decoded(password).as_ref())),
      None => password_from_environment(&mut config),
    }
    let tls = tls(&mode, root)?;
    config.ssl_mode(match tls.trust {
      Trust::NoTls => SslMode::Disable,
      Trust::AnyCertificate if tls.is_optional => SslMode::Prefer,
      _ => SslMode::Require,
    });
    set_defaults(&mut config, parts, timeout);
    Ok(Self {
      address: address(&config),
      client: config,
      schema,
      tls,
    })
  }

  pub fn location(&self) -> String {
    format!("{}?schema={}", self.address, self.schema)
  }
}

fn check_hosts(config: &ClientConfig) -> Result<(), InvalidReason> {
  if config.get_hosts().is_empty() {
    return Err("it names no host".into());
  }
  if config.get_ports().contains(&0) {
    return Err(INVALID_PORT.into());
  }
  for host in config.get_hosts() {
    match host {
      Host::Tcp(name) if name.is_empty() => return Err("it names no host".into()),
      // A delimiter was encoded together with the parts around it, one of which may be the password.
      Host::Tcp(name) if name.contains(['@', '=', ' ']) || (name.contains(':') && !is_ipv6_address(name)) => {
        return Err(
          "the host contains a character that host names do not have. Encode the user name and the password separately"
            .into(),
        );
      }
      _ => {}
    }
  }
  Ok(())
}

/// Accepts an address with a zone, too.
fn is_ipv6_address(host: &str) -> bool {
  let address = host.split('%').next();
  address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

const INVALID_PORT: &str = "the port is not a number from 1 to 65535";

/// The errors of `ClientConfig` quote names of parameters, in backticks, and no values.
fn config_error(error: &tokio_postgres::Error) -> InvalidReason {
  let cause = error.source().map(ToString::to_string).unwrap_or_default();
  let name = cause.split('`').nth(1).unwrap_or_default();
  match name {
    "port" => INVALID_PORT.into(),
    "host" => {
      "an address in brackets is not closed, or is followed by something other than a colon and the port".into()
    }
    _ if cause.starts_with("unknown option") => format!("it has an unknown parameter, {name:?}"),
    _ => format!("the value of its parameter {name:?} is invalid"),
  }
}

fn password_from_environment(config: &mut ClientConfig) {
  if config.get_password().is_none()
    && let Ok(password) = env::var(PASSWORD_VARIABLE)
    && !password.is_empty()
  {
    config.password(password);
  }
}

fn set_defaults(config: &mut ClientConfig, parts: &UrlParts<'_>, timeout: Duration) {
  if config.get_application_name().is_none() {
    config.application_name("waymark");
  }
  // Half of the timeout leaves time for another host or attempt.
  if config.get_connect_timeout().is_none() {
    config.connect_timeout(timeout / 2);
  }
  if config.get_tcp_user_timeout().is_none() {
    config.tcp_user_timeout(timeout / 2);
  }
  // The default of the system is hours.
  if !parts.parameters.iter().any(|(name, _)| name.starts_with("keepalives")) {
    config
      .keepalives_idle(KEEPALIVE_IDLE)
      .keepalives_interval(KEEPALIVE_INTERVAL)
      .keepalives_retries(KEEPALIVE_RETRIES);
  }
}

fn checked_schema(schema: &str) -> Result<String, InvalidReason> {
  let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
  let is_plain = schema.bytes().next().is_some_and(is_letter)
    && schema.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
    && schema.len() <= MAX_SCHEMA_BYTES;
  let lower = schema.to_ascii_lowercase();
  if lower.starts_with("pg_") || lower == "information_schema" {
    return Err("its schema belongs to the server. Give the store a schema of its own, such as schema=waymark".into());
  }
  if is_plain {
    return Ok(schema.to_owned());
  }
  Err(format!(
    "its schema is not a name of up to {MAX_SCHEMA_BYTES} letters, digits and underscores, of which the first is not a \
     digit"
  ))
}

/// `sslmode` and `sslrootcert` with the meaning that they have for `libpq`.
fn tls(mode: &str, root: Option<PathBuf>) -> Result<Tls, InvalidReason> {
  // The certificates of the system are used if no file is given.
  let root = root.filter(|path| path.as_os_str() != "system");
  let trust = match (mode, &root) {
    ("disable", _) => Trust::NoTls,
    ("prefer", _) | ("require", None) => Trust::AnyCertificate,
    // For libpq, a root certificate turns `require` into `verify-ca`.
    ("require", Some(_)) | ("verify-ca", _) => Trust::VerifyCa,
    ("verify-full", _) => Trust::VerifyFull,
    _ => return Err("its sslmode is not one of disable, prefer, require, verify-ca and verify-full".into()),
  };
  Ok(Tls {
    trust,
    is_optional: mode == "prefer",
    root,
  })
}

/// The user, the hosts and the database: the parts that messages may show.
fn address(config: &ClientConfig) -> String {
  let user = config.get_user().map(|user| format!("{}@", encoded(user)));
  let ports = config.get_ports();
  let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
    let host = match host {
      Host::Tcp(host) if host.contains(':') => format!("[{host}]"),
      Host::Tcp(host) => encoded(host),
      #[cfg(unix)]
      Host::Unix(path) => encoded(&path.to_string_lossy()),
    };
    let port = ports.get(at).or(ports.first()).copied().unwrap_or(DEFAULT_PORT);
    format!("{host}:{port}")
  });
  let hosts: Vec<_> = hosts.collect();
  // The server uses the user name by default.
  let database = config.get_dbname().or(config.get_user()).map(encoded);
  format!(
    "postgres://{}{}/{}",
    user.unwrap_or_default(),
    hosts.join(","),
    database.unwrap_or_default()
  )
}
