//! Which database a URL means, and how it is reached.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::{Tls, Trust};
use super::url::{DEFAULT_PORT, Objection, Parts, check_user, database, decoded, encoded, hosts};
use crate::types::error::{Error, Result};

/// Where a client looks for a password that the URL does not have, as `psql` does.
const PASSWORD_VARIABLE: &str = "PGPASSWORD";

const DEFAULT_SCHEMA: &str = "waymark";

/// The longest name that `PostgreSQL` does not cut.
const MAX_SCHEMA_BYTES: usize = 63;

/// Between two looks at whether a silent server is still there, and how often it may fail to answer.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// Which database, which schema in it, and how it is reached.
pub struct Target {
  pub config: Config,
  pub schema: String,
  pub tls: Tls,
  /// Without the password, and without the schema.
  pub address: String,
}

impl fmt::Debug for Target {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.write_str(&self.location())
  }
}

impl Target {
  /// `patience` is how long a call may take.
  pub fn parse(url: &str, patience: Duration) -> Result<Self> {
    Parts::of(url)
      .and_then(|parts| parts.target(patience))
      .map_err(|objection| {
        Error::invalid_argument(format!(
          "baseDir is no URL of a PostgreSQL database: {objection}. Write \
           \"postgres://user:password@host:port/database?schema=name\""
        ))
      })
  }

  pub fn location(&self) -> String {
    format!("{}?schema={}", self.address, self.schema)
  }
}

impl Parts<'_> {
  fn target(&self, patience: Duration) -> Result<Target, Objection> {
    let hosts = hosts(self.hosts)?;
    let mut schema = DEFAULT_SCHEMA.to_owned();
    let (mut mode, mut root) = ("prefer".to_owned(), None);
    let mut others = String::new();
    for parameter in self.parameters.split('&').filter(|parameter| !parameter.is_empty()) {
      let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
      let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
      if !is_name {
        return Err("the name of a parameter is not spelt in small letters".into());
      }
      let value = decoded(value)?;
      match name {
        "schema" => schema = checked_schema(value)?,
        "sslmode" => mode = value,
        "sslrootcert" => root = Some(PathBuf::from(value)),
        _ => others.push_str(&checked_parameter(name, &value)?),
      }
    }
    let mut config: Config = others
      .parse()
      .map_err(|_| "two of its parameters contradict each other")?;
    if !hosts.is_empty() && !config.get_hosts().is_empty() {
      return Err("the host is given twice".into());
    }
    for (host, port) in &hosts {
      config.host(host).port(*port);
    }
    if config.get_hosts().is_empty() {
      return Err("it names no host".into());
    }
    if let Some(user) = self.user {
      config.user(decoded(user)?);
    }
    if let Some(name) = config.get_user() {
      check_user(name)?;
    }
    match self.password {
      Some(password) => drop(config.password(decoded(password)?)),
      None => password_from_environment(&mut config),
    }
    if !self.database.is_empty() {
      config.dbname(database(self.database)?);
    }
    let tls = tls(&mode, root)?;
    config.ssl_mode(match tls.trust {
      Trust::NoTls => SslMode::Disable,
      Trust::Anybody if tls.is_optional => SslMode::Prefer,
      _ => SslMode::Require,
    });
    set_defaults(&mut config, self.parameters, patience);
    Ok(Target {
      address: address(&config),
      config,
      schema,
      tls,
    })
  }
}

fn password_from_environment(config: &mut Config) {
  if config.get_password().is_none()
    && let Ok(password) = env::var(PASSWORD_VARIABLE)
    && !password.is_empty()
  {
    config.password(password);
  }
}

fn set_defaults(config: &mut Config, parameters: &str, patience: Duration) {
  if config.get_application_name().is_none() {
    config.application_name("waymark");
  }
  // Half of the time, so that the other half is left for another host, or for another try.
  if config.get_connect_timeout().is_none() {
    config.connect_timeout(patience / 2);
  }
  if config.get_tcp_user_timeout().is_none() {
    config.tcp_user_timeout(patience / 2);
  }
  // Where a URL says nothing, the system waits for hours.
  if !parameters.contains("keepalives") {
    config
      .keepalives_idle(KEEPALIVE_IDLE)
      .keepalives_interval(KEEPALIVE_INTERVAL)
      .keepalives_retries(KEEPALIVE_RETRIES);
  }
}

fn checked_schema(schema: String) -> Result<String, Objection> {
  let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
  let is_plain = schema.bytes().next().is_some_and(is_letter)
    && schema.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
    && schema.len() <= MAX_SCHEMA_BYTES;
  let lower = schema.to_ascii_lowercase();
  if lower.starts_with("pg_") || lower == "information_schema" {
    return Err(
      "its schema is one of the server's own. Give the store a schema of its own, such as schema=waymark".into(),
    );
  }
  if is_plain {
    return Ok(schema);
  }
  Err(format!(
    "its schema is not a name of up to {MAX_SCHEMA_BYTES} letters, digits and underscores that does not begin with a \
     digit"
  ))
}

/// A parameter as the client reads it, or why it does not.
fn checked_parameter(name: &str, value: &str) -> Result<String, Objection> {
  let value = value.replace('\\', "\\\\").replace('\'', "\\'");
  let text = format!("{name}='{value}' ");
  match text.parse::<Config>() {
    Ok(_) => Ok(text),
    Err(error) if format!("{error:?}").contains("UnknownOption") => {
      Err(format!("it has an unknown parameter, {name:?}"))
    }
    Err(_) => Err(format!("the value of its parameter {name:?} cannot be used")),
  }
}

/// What `sslmode` and `sslrootcert` mean to `libpq`.
fn tls(mode: &str, root: Option<PathBuf>) -> Result<Tls, Objection> {
  // The system's own are what is used without a file.
  let root = root.filter(|path| path.as_os_str() != "system");
  let trust = match (mode, &root) {
    ("disable", _) => Trust::NoTls,
    ("prefer", _) | ("require", None) => Trust::Anybody,
    // Whoever gives a certificate wants it to be looked at.
    ("require", Some(_)) | ("verify-ca", _) => Trust::Signed,
    ("verify-full", _) => Trust::SignedForHost,
    _ => return Err("its sslmode is none of disable, prefer, require, verify-ca and verify-full".into()),
  };
  Ok(Tls {
    trust,
    is_optional: mode == "prefer",
    root,
  })
}

/// What may be shown: who, where, and which database.
fn address(config: &Config) -> String {
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
  // The server takes the name of the user if there is no other.
  let database = config.get_dbname().or(config.get_user()).map(encoded);
  format!(
    "postgres://{}{}/{}",
    user.unwrap_or_default(),
    hosts.join(","),
    database.unwrap_or_default()
  )
}
