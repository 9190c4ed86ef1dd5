//! The URL of a database, taken apart.
//!
//! An error quotes nothing but names of parameters: wherever a character is missing or not encoded, the rest of the URL may
//! be a piece of the password.

use std::fmt::Write as _;
use std::net::Ipv6Addr;

pub const DEFAULT_PORT: u16 = 5432;

/// The schemes that mean this backend.
const SCHEMES: [&str; 2] = ["postgres", "postgresql"];

/// Whether a location means this backend, whatever is wrong with it.
pub fn is_url(location: &str) -> bool {
  let scheme = location.split_once(':').map(|(scheme, _)| scheme);
  scheme.is_some_and(|scheme| SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)))
}

/// Why a URL cannot be used, without a piece of it.
pub type Objection = String;

/// A URL as it is written.
pub struct Parts<'a> {
  pub user: Option<&'a str>,
  pub password: Option<&'a str>,
  pub hosts: &'a str,
  pub database: &'a str,
  pub parameters: &'a str,
}

impl<'a> Parts<'a> {
  pub fn of(url: &'a str) -> Result<Self, Objection> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if !SCHEMES.contains(&scheme) {
      return Err("it does not begin with \"postgres://\", in small letters".into());
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    // What follows such a character could be the rest of the password.
    if tail.contains(['@', '#']) || authority.matches('@').count() > 1 {
      return Err(
        "a name, the password or a value has a character that means something else there. Write %40 for @, %2F for /, \
         %3A for :, %3F for ? and %23 for #"
          .into(),
      );
    }
    let (credentials, hosts) = match authority.split_once('@') {
      Some((credentials, hosts)) => (Some(credentials), hosts),
      None => (None, authority),
    };
    let (user, password) = match credentials.map(|credentials| (credentials, credentials.split_once(':'))) {
      Some((_, Some((user, password)))) => (Some(user), Some(password)),
      Some((user, None)) => (Some(user), None),
      None => (None, None),
    };
    let (path, parameters) = tail.split_once('?').unwrap_or((tail, ""));
    Ok(Self {
      user: user.filter(|user| !user.is_empty()),
      password: password.filter(|password| !password.is_empty()),
      hosts,
      database: path.strip_prefix('/').unwrap_or(path),
      parameters,
    })
  }
}

/// The hosts of an authority and their ports, of which there may be several.
pub fn hosts(text: &str) -> Result<Vec<(String, u16)>, Objection> {
  if text.is_empty() {
    return Ok(Vec::new());
  }
  text.split(',').map(host_and_port).collect()
}

fn host_and_port(text: &str) -> Result<(String, u16), Objection> {
  let (host, port) = if let Some(rest) = text.strip_prefix('[') {
    let (host, port) = rest.split_once(']').ok_or("an address has no closing bracket")?;
    (
      host,
      if port.is_empty() {
        None
      } else {
        port.strip_prefix(':').or(Some("?"))
      },
    )
  } else {
    match text.split_once(':') {
      Some((host, port)) => (host, Some(port)),
      None => (text, None),
    }
  };
  if host.is_empty() {
    return Err("it names no host".into());
  }
  let port = match port {
    None | Some("") => DEFAULT_PORT,
    // Without an @, this could be the password.
    Some(port) => port
      .parse()
      .ok()
      .filter(|port| *port > 0)
      .ok_or("the port is not a number from 1 to 65535")?,
  };
  let host = decoded(host)?;
  // In a name of a host, they mean that the rest of the URL was encoded with it: the password, too.
  let is_address = host
    .split('%')
    .next()
    .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
  let is_name = !host.starts_with('/');
  if is_name && (host.contains(['@', '=', ' ']) || (host.contains(':') && !is_address)) {
    return Err(
      "the host has a character that no name of a host has. Encode the name and the password by themselves".into(),
    );
  }
  Ok((host, port))
}

/// The name of a database, which a URL shows.
pub fn database(text: &str) -> Result<String, Objection> {
  // Where the ? is missing, its parameters follow, and one of them may be the password.
  if text.contains(['=', '&', ';', ' ']) {
    return Err(
      "a ? is missing before its parameters, or the name of the database has a character that is not encoded".into(),
    );
  }
  decoded(text)
}

/// The name of a user, which a URL shows.
pub fn check_user(name: &str) -> Result<(), Objection> {
  if name.contains(':') {
    return Err("the name of the user has a colon. Write the : before the password as it is, and not as %3A".into());
  }
  Ok(())
}

/// A piece of a URL, without its escapes.
pub fn decoded(text: &str) -> Result<String, Objection> {
  let mut bytes = Vec::with_capacity(text.len());
  let mut rest = text.bytes();
  while let Some(byte) = rest.next() {
    let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
    let byte = match byte {
      b'%' => digit()
        .zip(digit())
        .and_then(|(high, low)| u8::try_from(high * 16 + low).ok()),
      other => Some(other),
    };
    bytes.push(
      byte
        .filter(|byte| *byte != 0)
        .ok_or("a % in it is not followed by the two digits of a character")?,
    );
  }
  String::from_utf8(bytes).map_err(|_| "the escapes in it are no UTF-8 text".into())
}

pub fn encoded(text: &str) -> String {
  let mut out = String::with_capacity(text.len());
  for byte in text.bytes() {
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
      out.push(byte.into());
    } else {
      let _ = write!(out, "%{byte:02X}");
    }
  }
  out
}
