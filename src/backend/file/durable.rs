//! The durable steps. Each is owned by one function here; the syncs are inside them, not at call sites.

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

/// A file that nobody reads yet; it is removed again unless it gets its name.
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
    // From here on, an early return removes what there is of the file.
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

  /// Sets the time of its last change, durably.
  pub fn set_modified(&self, time: SystemTime, durability: Durability) -> io::Result<()> {
    self.directory.set_modified(&self.name, time)?;
    sync(self.directory, &self.file, durability)
  }

  /// Gives the file its name, replacing what was there. The directory is not synced yet.
  pub fn persist(mut self, name: &str) -> io::Result<()> {
    self.directory.rename(&self.name, self.directory, name)?;
    self.has_name = true;
    Ok(())
  }
}

impl<D: Directory> Drop for Temporary<'_, D> {
  fn drop(&mut self) {
    if !self.has_name {
      // If even this fails there is nothing better to do: the name marks it as a left-over.
      let _ = self.directory.remove_file(&self.name);
    }
  }
}

/// Writes the contents of a new file, without waiting for them. The answer is how many bytes they are.
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

/// Lets the medium begin to write a file, and does not wait for it.
pub fn begin_sync<D: Directory>(directory: &D, file: &D::File, durability: Durability) {
  if durability.is_full() {
    directory.begin_sync(file);
  }
}

/// Waits until the contents of a file are durable.
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

/// Makes names that are already visible durable. When this fails, nobody knows whether they survive.
pub fn sync_names<D: Directory>(directory: &D, path: &Path, durability: Durability) -> Result<()> {
  if durability.is_full() {
    directory
      .sync()
      .map_err(|error| Error::outcome_unknown("sync the directory of", path, error))?;
  }
  Ok(())
}

/// How often a step is begun again because somebody else was at work in the same directory.
pub const ATTEMPTS: u32 = 100;

/// For removals: what is gone needs no removing.
pub fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
  match removed {
    Err(error) if is_absence(&error) => Ok(()),
    removed => removed,
  }
}

/// A name that nobody can guess and no reader takes for an item.
pub fn temporary_name(name: &str) -> String {
  format!(".{name}.{}.tmp", Uuid::new_v4().simple())
}

/// Whether [`temporary_name`] made it.
pub fn is_temporary(name: &str) -> bool {
  let inside = name.strip_prefix('.').and_then(|rest| rest.strip_suffix(".tmp"));
  let tail = inside.and_then(|inside| inside.rsplit_once('.')).map(|(_, tail)| tail);
  tail.is_some_and(is_uuid)
}

/// Whether it is the random part of a name that this store makes.
pub fn is_uuid(text: &str) -> bool {
  text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
