//! Opens the backend that a location selects: `sqlite:` and a path select a database file, a `postgres:` URL a database on a server,
//! `memory:` memory, and any other path a directory of files.

use std::path::{PathBuf, is_separator};
use std::sync::Arc;

use super::{Backend, FileBackend, MemoryBackend, PostgresBackend, Settings, SqliteBackend, postgres};
use crate::backend::user_files::absolute;
use crate::types::error::{Error, Result};

/// The valid forms, for messages. Messages never quote the location, because it may contain a password.
const FORMS: &str = "a directory, \"sqlite:\" and the path of a file, \"postgres://user:password@host:port/database\" or \
  \"memory:\"";

/// Schemes of the URLs of databases and web pages, with common misspellings.
const URL_WORDS: [&str; 14] = [
  "postgres",
  "postgresql",
  "postgre",
  "postgress",
  "pgsql",
  "psql",
  "sqlite",
  "sqlite3",
  "mysql",
  "mariadb",
  "mongodb",
  "redis",
  "http",
  "https",
];

/// The backend that `baseDir` selects. Reads and writes nothing.
pub fn open(location: &str, settings: Settings) -> Result<Arc<dyn Backend>> {
  if location.is_empty() || location.contains('\0') {
    return invalid("is empty, or contains a NUL character", "");
  }
  if let Some(reason) = invalid_reason(location) {
    return invalid(reason, "");
  }
  if location == "memory:" {
    return Ok(Arc::new(MemoryBackend::new(settings.keep_previous)));
  }
  if location.starts_with("memory:") {
    return Err(Error::invalid_argument(
      "baseDir \"memory:…\": a store in memory has no name, write \"memory:\"",
    ));
  }
  if let Some(path) = location.strip_prefix("sqlite:") {
    return Ok(Arc::new(SqliteBackend::new(database(path)?, settings)));
  }
  if postgres::is_url(location) {
    return Ok(Arc::new(PostgresBackend::new(location, settings)?));
  }
  if is_mistyped(location) {
    return invalid(MISTYPED, "; for a directory of that name write \"./\" in front of it");
  }
  Ok(Arc::new(FileBackend::new(absolute("baseDir", location)?, settings)))
}

fn invalid<T>(reason: &str, alternative: &str) -> Result<T> {
  let message = format!("baseDir {reason}. Write {FORMS}{alternative}");
  Err(Error::invalid_argument(message))
}

const MISTYPED: &str = "looks like a URL that is mistyped, or that this version has no store for";

/// The file of a SQLite database; `path` follows `sqlite:` in the location.
fn database(path: &str) -> Result<PathBuf> {
  let reason = if path == ":memory:" {
    "a store that lives and dies with the process is \"memory:\""
  } else if path.starts_with("//") || path.starts_with("file:") {
    // Programs disagree whether three slashes begin an absolute path.
    "this is not a URL. Write \"sqlite:\" and the path of the file, such as \"sqlite:./store.db\""
  } else if path.is_empty()
    || path.ends_with(is_separator)
    || invalid_reason(path).is_some()
    || has_credentials(path)
    || is_unsupported_url(path)
  {
    "write \"sqlite:\" and the path of a file, such as \"sqlite:./store.db\""
  } else {
    let file = absolute("baseDir", path)?;
    if file.file_name().is_some() {
      return Ok(file);
    }
    "this is a directory. Write \"sqlite:\" and the path of a file"
  };
  Err(Error::invalid_argument(format!("baseDir \"sqlite:…\": {reason}")))
}

/// Why a location is invalid in every form.
fn invalid_reason(location: &str) -> Option<&'static str> {
  const QUOTES: [char; 9] = ['"', '\'', '`', '“', '”', '‘', '’', '«', '»'];
  // The name of a directory may end with a quotation mark.
  let ends_quoted = location.ends_with(QUOTES) && location.contains("://");
  if location.trim() != location {
    Some("begins or ends with white space")
  } else if location.starts_with(QUOTES) || ends_quoted {
    Some("has quotation marks around it")
  } else if has_url_as_directory(location) {
    Some("is a path that contains the URL of a database. Give the URL as it is, without resolving it as a path")
  } else {
    None
  }
}

/// Whether a location is more likely a URL, or a part of one, than a path.
fn is_mistyped(location: &str) -> bool {
  has_credentials(location) || !is_explicit_path(location) && (is_unsupported_url(location) || has_scheme(location))
}

/// Whether a location is `user:password@host/database`, `//user:password@host/database`, or a list of connection parameters.
fn has_credentials(location: &str) -> bool {
  let lower = location.to_ascii_lowercase();
  if lower.contains("password=") || lower.contains("pwd=") {
    return true;
  }
  let is_url_without_scheme = location.starts_with("//");
  if is_explicit_path(location) && !is_url_without_scheme {
    return false;
  }
  let authority = location.trim_start_matches('/').split_once(['/', '\\']);
  let authority = authority.map_or_else(|| location.trim_start_matches('/'), |(first, _)| first);
  match authority.split_once(':') {
    // The password may contain a slash.
    Some((_, rest)) if is_url_without_scheme => rest.contains('@'),
    Some(_) => location.contains('@'),
    None => false,
  }
}

/// Whether a location can only be a path: it begins like one, or with a Windows drive.
fn is_explicit_path(location: &str) -> bool {
  let mut bytes = location.bytes();
  let (first, second, third) = (bytes.next(), bytes.next(), bytes.next());
  let is_separator = |byte: Option<u8>| matches!(byte, Some(b'/' | b'\\'));
  let is_drive = first.is_some_and(|letter| letter.is_ascii_alphabetic()) && second == Some(b':');
  let is_home = first == Some(b'~') && (second.is_none() || is_separator(second));
  let is_relative = matches!(location.split(['/', '\\']).next(), Some("." | ".."));
  is_separator(first) || is_drive && is_separator(third) || is_home || is_relative
}

/// Whether it is `scheme://…`, or a known scheme without its colon.
fn is_unsupported_url(location: &str) -> bool {
  let word = location
    .split_once("//")
    .map(|(word, _)| word.trim_end_matches([':', ';', ',', '.', ' ']));
  location.contains("://") || word.is_some_and(is_url_word)
}

/// Whether it is a URL that was resolved as a path, such as `/home/me/postgres:/user:password@host/db`.
fn has_url_as_directory(location: &str) -> bool {
  let mut parts = location.split(['/', '\\']).skip(1);
  let is_url = |part: &str| {
    part
      .strip_suffix(':')
      .is_some_and(|word| matches!(word, "postgres" | "postgresql"))
  };
  parts.any(is_url)
}

/// Whether a location begins with a `scheme:`. A single letter is a Windows drive.
fn has_scheme(location: &str) -> bool {
  let is_word =
    |scheme: &str| scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
  location.split_once(':').is_some_and(|(scheme, _)| is_word(scheme))
}

fn is_url_word(word: &str) -> bool {
  URL_WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
  use std::env;

  use super::*;
  use crate::types::error::Code;

  fn location(text: &str) -> String {
    open(text, Settings::default()).unwrap().location()
  }

  #[test]
  fn open_selects_the_backend_and_resolves_paths() {
    assert_eq!(location("memory:"), "memory:");
    let here = env::current_dir().unwrap();
    assert_eq!(
      location("some/./where/../else"),
      here.join("some/else").to_str().unwrap()
    );
    assert_eq!(location("./odd:name"), here.join("odd:name").to_str().unwrap());
    let home = env::home_dir().unwrap();
    assert_eq!(location("~"), home.to_str().unwrap());
    assert_eq!(location("~/a/b"), home.join("a/b").to_str().unwrap());
    assert_eq!(location("~other"), here.join("~other").to_str().unwrap());
    let database = |path: PathBuf| format!("sqlite:{}", path.display());
    assert_eq!(location("sqlite:x/../y.db"), database(here.join("y.db")));
    assert_eq!(
      location("sqlite:/x.db"),
      database(std::path::absolute("/x.db").unwrap())
    );
    assert_eq!(location("sqlite:~/x.db"), database(home.join("x.db")));
    let url = "postgres://user@host:5432/db?schema=waymark";
    assert_eq!(location("postgresql://user:secret@host/db"), url);
  }

  fn error_message(text: &str) -> String {
    let error = open(text, Settings::default())
      .map(|backend| backend.location())
      .unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument, "{text}");
    assert!(error.message.starts_with("baseDir "), "{error}");
    error.message
  }

  #[test]
  fn open_rejects_a_sqlite_location_without_a_file() {
    for text in [
      "sqlite:",
      "sqlite::memory:",
      "sqlite:///x.db",
      "sqlite:file:x.db?mode=ro",
      "sqlite:x/",
      "sqlite:/",
    ] {
      assert!(error_message(text).starts_with("baseDir \"sqlite:…\": "), "{text}");
    }
  }

  #[test]
  fn open_rejects_unsupported_locations() {
    for text in ["redis://user:secret@host/db", "memory:named", "", "a\0b", "sqlite:a\0b"] {
      assert!(!error_message(text).contains("secret"), "{text}");
    }
  }

  #[test]
  fn open_rejects_mistyped_urls_and_quotes_no_part_of_them() {
    for text in [
      "\"postgres://usr:s3cret@hst/dbx\"",
      "'postgres://usr:s3cret@hst/dbx'",
      "`postgres://usr:s3cret@hst/dbx`",
      "“postgres://usr:s3cret@hst/dbx”",
      "\"postgres://usr:s3cret@hst/dbx",
      "postgres://usr:s3cret@hst/dbx\"",
      "\"s3cret\"",
      "'sqlite:s3cret.db'",
      "sqlite:'s3cret.db'",
      "sqlite:\"s3cret.db\"",
      "sqlite: s3cret.db",
      "sqlite://usr:s3cret@hst/dbx",
      "sqlite:postgres://usr:s3cret@hst/dbx",
      "sqlite:usr:s3cret@hst/dbx",
      "sqlite//s3cret.db",
      "SQLITE:s3cret.db",
      "Sqlite://s3cret.db",
      "sqlite3:s3cret.db",
      "postgres//usr:s3cret@hst/dbx",
      "postgres//hst/s3cret",
      "postgresql//usr:s3cret@hst/dbx",
      "postgresql//s3cret",
      "postgre//s3cret",
      "postgres;//s3cret",
      "postgres:/s3cret",
      "postgres:s3cret",
      "postgres:\\\\usr:s3cret@hst",
      "postgre://usr:s3cret@hst/dbx",
      "post-gres://usr:s3cret@hst/dbx",
      "postgres ://usr:s3cret@hst/dbx",
      "POSTGRES://usr:s3cret@hst/dbx",
      "Postgresql://usr:s3cret@hst/dbx",
      "http://s3cret.example/",
      "https://s3cret.example/",
      "HTTPS://s3cret.example/",
      "file:///s3cret",
      "mysql://usr:s3cret@hst/dbx",
      "s3cret://",
      "jdbc:postgresql://hst/dbx?user=usr&password=s3cret",
      "DATABASE_URL=postgres://usr:s3cret@hst/dbx",
      " postgres://usr:s3cret@hst/dbx",
      "postgres://usr:s3cret@hst/dbx ",
      "postgres://usr:s3cret@hst/dbx\n",
      "\tsqlite:s3cret.db",
      "sqlite:s3cret.db\n",
      " s3cret",
      "/s3cret\n",
      "memory: ",
      "usr:s3cret@hst/dbx",
      "usr:s3cret@hst",
      "my_usr:s3/cret@hst/dbx",
      "u:s3cret@hst/dbx",
      "//usr:s3cret@hst/dbx",
      "//usr:s3cret@hst:5432/dbx",
      "host=hst user=usr password=s3cret dbname=dbx",
      "Server=hst;Pwd=s3cret",
      "/home/me/postgres:/usr:s3cret@hst/dbx",
      "./postgresql:/usr:s3cret@hst/dbx",
      "C:\\me\\postgres:\\usr:s3cret@hst\\dbx",
    ] {
      let message = error_message(text);
      assert!(message.to_lowercase().contains("write"), "{text:?}: {message}");
      for part in ["s3", "cret", "usr", "hst", "dbx"] {
        assert!(!message.contains(part), "{text:?}: {message}");
      }
    }
  }

  #[test]
  fn open_accepts_paths_that_resemble_urls() {
    for text in [
      "C:\\stores\\a@b",
      "C:/stores/a@b",
      "c:/",
      "\\\\server\\share\\store",
      "//server/share/store",
      "\\\\?\\C:\\stores\\a@b",
      "stores//nested",
      "postgres",
      "postgres/data",
      "sqlite/store",
      "./postgres//data",
      "http",
      "me@example.com",
      "2024-01-01T10:00:00",
      "./odd:name",
      "./usr:pw@host",
      "/usr:pw@host",
      "with space/and 'quotes' inside",
      "a+b",
      "~/store",
      "sqlite:C:/stores/a@b.db",
      "sqlite:C:\\stores\\a.db",
      "sqlite:a:b.db",
      "sqlite:\\\\server\\share\\a.db",
      "sqlite:o'clock.db",
    ] {
      let opened = open(text, Settings::default());
      assert!(opened.is_ok(), "{text}: {:?}", opened.err());
    }
  }
}
