//! The parts of a database URL that `tokio_postgres::Config` does not parse strictly enough. It parses the others.
//!
//! Errors quote only names of parameters: where a delimiter is missing or not encoded, any other part of the URL may belong to
//! the password.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const SCHEMES: [&str; 2] = ["postgres", "postgresql"];

/// All except the unreserved characters of a URL.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Whether a location selects this backend, valid or not.
pub fn is_url(location: &str) -> bool {
  let scheme = location.split_once(':').map(|(scheme, _)| scheme);
  scheme.is_some_and(|scheme| SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)))
}

/// Why a URL is invalid. It quotes only names of parameters.
pub type InvalidReason = String;

/// The parts of a URL, still encoded.
pub struct UrlParts<'a> {
  /// `None` if it is empty, like the password.
  pub user: Option<&'a str>,
  pub password: Option<&'a str>,
  /// With their ports, separated by commas.
  pub hosts: &'a str,
  pub database: &'a str,
  pub parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> UrlParts<'a> {
  pub fn of(url: &'a str) -> Result<Self, InvalidReason> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if !SCHEMES.contains(&scheme) {
      return Err("it does not begin with \"postgres://\", in lower case".into());
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    // The text behind such a character could be the end of the password.
    if tail.contains(['@', '#']) || authority.matches('@').count() > 1 {
      return Err(
        "a name, the password or a value contains a delimiter. Write %40 for @, %2F for /, %3A for :, %3F for ? and %23 \
         for #"
          .into(),
      );
    }
    check_escapes(rest)?;
    let (credentials, hosts) = authority.split_once('@').unwrap_or(("", authority));
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let database = path.strip_prefix('/').unwrap_or(path);
    // If the ? is missing, the parameters are here, and one of them may be the password.
    if database.contains(['=', '&', ';', ' ']) {
      return Err(
        "a ? is missing before its parameters, or the database name contains a character that is not encoded".into(),
      );
    }
    Ok(Self {
      user: Some(user).filter(|user| !user.is_empty()),
      password: Some(password).filter(|password| !password.is_empty()),
      hosts,
      database,
      parameters: parameters(query)?,
    })
  }
}

fn parameters(query: &str) -> Result<Vec<(&str, &str)>, InvalidReason> {
  let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
  parameters
    .map(|parameter| {
      let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
      let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
      if is_name {
        Ok((name, value))
      } else {
        Err("the name of a parameter is not in lower case".into())
      }
    })
    .collect()
}

/// A decoder would keep an incomplete escape. Here it means that a % of the password is not encoded.
fn check_escapes(text: &str) -> Result<(), InvalidReason> {
  let is_escape = |after: &str| {
    let digits = after.as_bytes().first_chunk::<2>();
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit) && digits != b"00")
  };
  if !text.split('%').skip(1).all(is_escape) {
    return Err("a % in it is not followed by the two digits of a character".into());
  }
  match percent_decode_str(text).decode_utf8() {
    Ok(_) => Ok(()),
    Err(_) => Err("the escapes in it are not UTF-8 text".into()),
  }
}

/// A part of a valid URL without its escapes.
pub fn decoded(text: &str) -> Cow<'_, str> {
  percent_decode_str(text).decode_utf8_lossy()
}

pub fn encoded(text: &str) -> String {
  utf8_percent_encode(text, RESERVED).to_string()
}
