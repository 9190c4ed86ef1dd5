//! Paths that users pass, and their files outside a store: export files.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf, is_separator};

use uuid::Uuid;

use crate::types::error::{Code, Error, Result};

/// The absolute path of a file that a caller names.
pub fn file_path(text: &str) -> Result<PathBuf> {
  let reason = if text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:")) {
    "this is a URL. Give the path of the file"
  } else if text.is_empty() || text.contains('\0') || text.ends_with(is_separator) {
    "this is not the path of a file"
  } else {
    let path = absolute("file", text)?;
    if path.file_name().is_some() {
      return Ok(path);
    }
    "this is a directory. Give the path of a file"
  };
  Err(Error::invalid_argument(format!("file {text:?}: {reason}")))
}

/// Resolves `~` and relative paths now, so that a later change of directory has no effect. `argument` is the name of the
/// caller's argument.
pub fn absolute(argument: &str, location: &str) -> Result<PathBuf> {
  let path = match location.strip_prefix('~') {
    Some(rest) if rest.is_empty() || rest.starts_with(['/', '\\']) => {
      let home = env::home_dir()
        .ok_or_else(|| Error::invalid_argument(format!("{argument} {location:?}: this user has no home directory")))?;
      home.join(rest.trim_start_matches(['/', '\\']))
    }
    _ => PathBuf::from(location),
  };
  let absolute = std::path::absolute(&path).map_err(|error| Error::io("resolve", &path, error))?;
  Ok(without_dots(&absolute))
}

/// Takes `.` and `..` out of an absolute path by its text alone, as Node's `path.resolve` does.
fn without_dots(path: &Path) -> PathBuf {
  let mut plain = PathBuf::new();
  for component in path.components() {
    match component {
      Component::CurDir => {}
      Component::ParentDir => {
        plain.pop();
      }
      other => plain.push(other),
    }
  }
  plain
}

/// Opens a file for reading.
pub fn open(path: &Path) -> Result<File> {
  // Check first: opening a pipe blocks until it has a writer.
  let is_file = fs::metadata(path).map(|data| data.is_file());
  match is_file {
    Ok(true) => File::open(path),
    Ok(false) => return Err(Error::corrupt(&path.to_string_lossy(), "it is not a file")),
    Err(error) => Err(error),
  }
  .map_err(|error| Error::io("open", path, error))
}

/// A file under a temporary name. It is removed unless it gets its own name.
#[derive(Debug)]
pub struct NewFile {
  path: PathBuf,
  temporary: PathBuf,
  file: File,
}

impl NewFile {
  /// Creates a file, readable for its owner only, in the directory of `path`, which must not exist.
  pub fn create(path: PathBuf) -> Result<Self> {
    if fs::symlink_metadata(&path).is_ok() {
      return Err(exists(&path));
    }
    let temporary = path.with_file_name(format!(".waymark-{}.tmp", Uuid::new_v4().simple()));
    let file = new_file(&temporary).map_err(|error| Error::io("create", &path, error))?;
    Ok(Self { path, temporary, file })
  }

  /// Renames the file to its own name, unless that exists by now, and makes it durable. Returns the size in bytes.
  pub fn persist(self) -> Result<u64> {
    let fail = |error| Error::io("write", &self.path, error);
    self.file.sync_all().map_err(fail)?;
    let size = self.file.metadata().map_err(fail)?.len();
    match fs::hard_link(&self.temporary, &self.path) {
      Ok(()) => {}
      Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(&self.path)),
      // Not every file system has hard links.
      Err(_) => self.rename_into_place()?,
    }
    // Remove the temporary name before the sync of the directory, which then covers both names.
    let _ = fs::remove_file(&self.temporary);
    sync_directory_of(&self.path)
      .map_err(|error| Error::outcome_unknown("sync the directory of", &self.path, error))?;
    Ok(size)
  }

  /// Reserves the name with an empty file, which only its creator may replace.
  fn rename_into_place(&self) -> Result<()> {
    match new_file(&self.path) {
      Ok(_) => {}
      Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(&self.path)),
      Err(error) => return Err(Error::io("create", &self.path, error)),
    }
    fs::rename(&self.temporary, &self.path).map_err(|error| {
      let _ = fs::remove_file(&self.path);
      Error::io("write", &self.path, error)
    })
  }
}

impl Write for NewFile {
  fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
    self.file.write(bytes)
  }

  fn flush(&mut self) -> io::Result<()> {
    self.file.flush()
  }
}

impl Drop for NewFile {
  fn drop(&mut self) {
    // If this fails, the name still marks the file as temporary.
    let _ = fs::remove_file(&self.temporary);
  }
}

fn exists(path: &Path) -> Error {
  let message = format!(
    "{} exists already. Choose another name, or remove it first",
    path.display()
  );
  Error::new(Code::Exists, message)
}

/// Creates a file that must not exist yet, readable for its owner only.
fn new_file(path: &Path) -> io::Result<File> {
  let mut options = OpenOptions::new();
  options.write(true).create_new(true);
  #[cfg(unix)]
  std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
  options.open(path)
}

#[cfg(unix)]
fn sync_directory_of(path: &Path) -> io::Result<()> {
  path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// Windows cannot sync a directory.
#[cfg(not(unix))]
fn sync_directory_of(_path: &Path) -> io::Result<()> {
  Ok(())
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn new_file_has_its_name_only_after_persist() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.tar.zst");
    let mut file = NewFile::create(path.clone()).unwrap();
    file.write_all(b"whole").unwrap();
    assert!(!path.exists());
    assert_eq!(file.persist().unwrap(), 5);
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    assert_eq!(NewFile::create(path).unwrap_err().code, Code::Exists);
  }

  #[test]
  fn persist_does_not_replace_a_file_created_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.tar.zst");
    for rename in [false, true] {
      let file = NewFile::create(path.clone()).unwrap();
      fs::write(&path, b"other").unwrap();
      let refused = if rename {
        file.rename_into_place().unwrap_err()
      } else {
        file.persist().unwrap_err()
      };
      assert_eq!(refused.code, Code::Exists);
      assert_eq!(fs::read(&path).unwrap(), b"other");
      fs::remove_file(&path).unwrap();
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
  }

  #[test]
  fn new_file_is_renamed_where_there_are_no_hard_links() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.tar.zst");
    let mut file = NewFile::create(path.clone()).unwrap();
    file.write_all(b"whole").unwrap();
    file.rename_into_place().unwrap();
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
  }

  #[test]
  fn file_path_rejects_what_cannot_be_a_file() {
    for text in ["", "a\0b", "dir/", "/", "file:///x.zst", "FILE:x"] {
      assert_eq!(file_path(text).unwrap_err().code, Code::InvalidArgument, "{text:?}");
    }
    assert_eq!(file_path("a/../b").unwrap(), env::current_dir().unwrap().join("b"));
    assert_eq!(file_path("~/b").unwrap(), env::home_dir().unwrap().join("b"));
  }
}
