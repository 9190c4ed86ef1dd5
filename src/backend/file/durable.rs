//! Durable steps. Each is one function with the syncs inside, so that a caller cannot forget them.

use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use uuid::Uuid;

use super::disk::Directory;
use super::is_absence;
use crate::backend::Content;
use crate::types::error::{Error, Result};

/// How much must have reached the disk before a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
  /// Files and directories are synced: what was acknowledged survives a power cut.
  #[default]
  Full,
  /// Nothing is synced: what was acknowledged survives the process, not the machine. Still atomic.
  Relaxed,
}

impl Durability {
  #[must_use]
  pub fn is_full(self) -> bool {
    self == Self::Full
  }
}

/// A file under a temporary name, which no reader sees. It is removed unless it gets its own name.
pub struct Temporary<'a, D: Directory> {
  directory: &'a D,
  name: String,
  has_name: bool,
  /// Open, and so locked, for as long as the temporary exists.
  file: D::File,
  pub size: u64,
}

impl<'a, D: Directory> Temporary<'a, D> {
  /// Writes and syncs `content` beside `name`.
  pub fn write(directory: &'a D, name: &str, content: &dyn Content, durability: Durability) -> io::Result<Self> {
    let name = temporary_name(name);
    let file = directory.create(&name)?;
    // From here on, an early return removes the file.
    let mut temporary = Self {
      directory,
      name,
      has_name: false,
      file,
      size: 0,
    };
    temporary.size = fill(directory, &mut temporary.file, content, durability)?;
    sync(directory, &temporary.file, durability)?;
    Ok(temporary)
  }

  /// Sets the time of the last change, and makes it durable.
  pub fn set_modified(&self, time: SystemTime, durability: Durability) -> io::Result<()> {
    self.directory.set_modified(&self.name, time)?;
    sync(self.directory, &self.file, durability)
  }

  /// Renames the file to its own name, and replaces an existing file. The caller syncs the directory.
  pub fn persist(mut self, name: &str) -> io::Result<()> {
    self.directory.rename(&self.name, self.directory, name)?;
    self.has_name = true;
    Ok(())
  }
}

impl<D: Directory> Drop for Temporary<'_, D> {
  fn drop(&mut self) {
    if !self.has_name {
      // If this fails, the name still marks the file as left over.
      let _ = self.directory.remove_file(&self.name);
    }
  }
}

/// Writes the contents of a new file without a sync. Returns their size in bytes.
pub fn fill<D: Directory>(
  directory: &D,
  file: &mut D::File,
  content: &dyn Content,
  durability: Durability,
) -> io::Result<u64> {
  let mut out = FileWriter {
    directory,
    file,
    written: 0,
    durability,
  };
  content.write_to(&mut out)?;
  Ok(out.written)
}

/// Lets the disk begin to write a file, without waiting for it.
pub fn begin_sync<D: Directory>(directory: &D, file: &D::File, durability: Durability) {
  if durability.is_full() {
    directory.begin_sync(file);
  }
}

/// Makes the contents of a file durable.
pub fn sync<D: Directory>(directory: &D, file: &D::File, durability: Durability) -> io::Result<()> {
  if durability.is_full() {
    directory.sync_file(file)?;
  }
  Ok(())
}

struct FileWriter<'a, D: Directory> {
  directory: &'a D,
  file: &'a mut D::File,
  written: u64,
  durability: Durability,
}

impl<D: Directory> Write for FileWriter<'_, D> {
  fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
    self.directory.write(self.file, bytes)?;
    self.written += bytes.len() as u64;
    Ok(bytes.len())
  }

  fn flush(&mut self) -> io::Result<()> {
    begin_sync(self.directory, self.file, self.durability);
    Ok(())
  }
}

/// Makes names durable that are already visible. If this fails, it is unknown whether they survive a power cut.
pub fn sync_names<D: Directory>(directory: &D, path: &Path, durability: Durability) -> Result<()> {
  if durability.is_full() {
    directory
      .sync()
      .map_err(|error| Error::outcome_unknown("sync the directory of", path, error))?;
  }
  Ok(())
}

/// The maximum number of attempts of a step that another process can interrupt in the same directory.
pub const ATTEMPTS: u32 = 100;

/// Accepts the result of a removal whose name did not exist.
pub fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
  match removed {
    Err(error) if is_absence(&error) => Ok(()),
    removed => removed,
  }
}

/// A name that cannot be guessed and is not that of an item.
pub fn temporary_name(name: &str) -> String {
  format!(".{name}.{}.tmp", Uuid::new_v4().simple())
}

/// Whether the name has the form of [`temporary_name`].
pub fn is_temporary(name: &str) -> bool {
  let inside = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
  let tail = inside.and_then(|inside| inside.rsplit_once('.')).map(|(_, tail)| tail);
  tail.is_some_and(is_uuid)
}

/// Whether the text has the form of the random part in names of this store.
pub fn is_uuid(text: &str) -> bool {
  text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
