//! The location picks the backend: a path means files, `sqlite:` and a path a database, a `postgres:` URL one on a server,
//! `memory:` means memory.

use std::path::{PathBuf, is_separator};
use std::sync::Arc;

use super::{Backend, FileBackend, MemoryBackend, PostgresBackend, Settings, SqliteBackend, postgres};
use crate::error::{Error, Result};
use crate::outside::absolute;

/// The backend for what a caller gave as the base directory. Nothing is touched.
pub fn open(location: &str, settings: Settings) -> Result<Arc<dyn Backend>> {
  if location == "memory:" {
    return Ok(Arc::new(MemoryBackend::new(settings.keep_previous)));
  }
  if location.starts_with("memory:") {
    return Err(Error::invalid_argument(format!(
      "baseDir {location:?}: a store in memory has no name, write \"memory:\""
    )));
  }
  if let Some(path) = location.strip_prefix("sqlite:") {
    return Ok(Arc::new(SqliteBackend::new(database(location, path)?, settings)));
  }
  if postgres::is_url(location) {
    return Ok(Arc::new(PostgresBackend::new(location, settings)?));
  }
  if let Some(scheme) = scheme(location) {
    // What follows could be a password.
    return Err(Error::invalid_argument(format!(
      "baseDir \"{scheme}:…\": this version has no {scheme:?} store. Give a directory, \"sqlite:\" and a file, the URL of \
       a PostgreSQL database, or \"memory:\"; for a directory of that name write \"./\" in front of it"
    )));
  }
  if location.is_empty() || location.contains('\0') {
    return Err(Error::invalid_argument(format!(
      "baseDir {location:?} is not a directory name"
    )));
  }
  Ok(Arc::new(FileBackend::new(absolute("baseDir", location)?, settings)))
}

/// The file of a database; `path` is what follows `sqlite:`.
fn database(location: &str, path: &str) -> Result<PathBuf> {
  let objection = if path == ":memory:" {
    "a store that lives and dies with the process is \"memory:\""
  } else if path.starts_with("//") || path.starts_with("file:") {
    // Conventions differ in whether three slashes mean an absolute path.
    "this is not a URL. Write \"sqlite:\" and the path of the file, such as \"sqlite:./store.db\""
  } else if path.is_empty() || path.contains('\0') || path.ends_with(is_separator) {
    "write \"sqlite:\" and the path of a file, such as \"sqlite:./store.db\""
  } else {
    let file = absolute("baseDir", path)?;
    if file.file_name().is_some() {
      return Ok(file);
    }
    "this is a directory. Write \"sqlite:\" and the path of a file"
  };
  Err(Error::invalid_argument(format!("baseDir {location:?}: {objection}")))
}

/// The `word:` that a location begins with. One letter is a Windows drive.
fn scheme(location: &str) -> Option<&str> {
  let (scheme, _) = location.split_once(':')?;
  let is_word = scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
  is_word.then_some(scheme)
}

#[cfg(test)]
mod tests {
  use std::env;

  use super::*;
  use crate::error::Code;

  fn location(text: &str) -> String {
    open(text, Settings::default()).unwrap().location()
  }

  #[test]
  fn the_text_picks_the_backend() {
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

  #[test]
  fn a_database_that_has_no_file_is_refused() {
    for text in [
      "sqlite:",
      "sqlite::memory:",
      "sqlite:///x.db",
      "sqlite:file:x.db?mode=ro",
      "sqlite:x/",
      "sqlite:/",
      "sqlite:a\0b",
    ] {
      let error = open(text, Settings::default())
        .map(|backend| backend.location())
        .unwrap_err();
      assert!(error.message.starts_with(&format!("baseDir {text:?}: ")), "{error}");
      assert_eq!(error.code, Code::InvalidArgument);
    }
  }

  #[test]
  fn a_store_that_this_version_does_not_have_is_refused() {
    for text in ["redis://user:secret@host/db", "memory:named", "", "a\0b"] {
      let error = open(text, Settings::default()).unwrap_err();
      assert!(error.message.starts_with("baseDir "), "{error}");
      assert!(!error.message.contains("secret"), "{error}");
    }
  }
}
