//! A disk that uses only paths and the standard library, for systems without calls on open directories. It compiles and passes
//! the same tests on every system.
//!
//! Each call first checks that the path is not a link. On these systems there is no protection against a process that replaces a
//! directory by a link between the check and the call.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use super::disk::{Contents, Directory, Disk, Entry, Kind, Stat, not_that_file, peek_bounds};
use super::locks;
use crate::backend::Peek;
use crate::types::time::millis_since_epoch;

#[derive(Debug)]
pub struct SystemDisk {
  base: PathBuf,
}

impl SystemDisk {
  #[must_use]
  pub fn new(base: PathBuf) -> Self {
    Self { base }
  }
}

impl Disk for SystemDisk {
  type Directory = PathDirectory;

  fn make_base(&self, _durable: bool) -> io::Result<()> {
    fs::create_dir_all(&self.base)
  }

  fn is_in_place(&self, _path: &[&str], directory: &PathDirectory) -> io::Result<bool> {
    // A directory is identified by its path here, so it is in place if it exists.
    fs::exists(&directory.path)
  }

  fn open_base(&self) -> io::Result<PathDirectory> {
    if fs::metadata(&self.base)?.is_dir() {
      Ok(PathDirectory {
        path: self.base.clone(),
      })
    } else {
      Err(io::ErrorKind::NotADirectory.into())
    }
  }
}

#[derive(Debug)]
pub struct PathDirectory {
  path: PathBuf,
}

impl PathDirectory {
  fn kind(&self, name: &str) -> io::Result<Kind> {
    Ok(self.stat(name)?.kind)
  }

  fn open_lock(&self, name: &str) -> io::Result<File> {
    if matches!(self.kind(name), Ok(Kind::Other | Kind::Directory)) {
      return Err(io::ErrorKind::InvalidInput.into());
    }
    OpenOptions::new()
      .read(true)
      .write(true)
      .create(true)
      .truncate(false)
      .open(self.path.join(name))
  }
}

impl Directory for PathDirectory {
  type File = File;
  type Lock = File;

  const LINK: Kind = Kind::File;

  fn open_directory(&self, name: &str) -> io::Result<Self> {
    match self.kind(name)? {
      Kind::Directory => Ok(Self {
        path: self.path.join(name),
      }),
      Kind::File | Kind::Other => Err(io::ErrorKind::NotADirectory.into()),
    }
  }

  fn make_directory(&self, name: &str) -> io::Result<()> {
    fs::create_dir(self.path.join(name))
  }

  fn create(&self, name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
      .write(true)
      .create_new(true)
      .open(self.path.join(name))?;
    if !cfg!(windows) {
      // The lock tells other processes that the writer is alive. On Windows it would also lock out readers after the rename.
      let _ = file.try_lock();
    }
    Ok(file)
  }

  fn reopen(&self, name: &str, size: u64) -> io::Result<File> {
    let stat = self.stat(name)?;
    if stat.kind != Kind::File || stat.size < size {
      return Err(not_that_file());
    }
    let mut file = OpenOptions::new().write(true).open(self.path.join(name))?;
    if stat.size > size {
      file.set_len(size)?;
    }
    file.seek(SeekFrom::Start(size))?;
    Ok(file)
  }

  fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)
  }

  fn sync_file(&self, file: &File) -> io::Result<()> {
    file.sync_all()
  }

  fn sync(&self) -> io::Result<()> {
    // Windows cannot sync a directory. NTFS journals names.
    Ok(())
  }

  fn time(&self) -> io::Result<SystemTime> {
    fs::metadata(&self.path)?.modified()
  }

  fn read(&self, name: &str, limit: u64) -> io::Result<Contents> {
    let stat = self.stat(name)?;
    if stat.kind != Kind::File {
      return Ok(Contents::NotAFile);
    }
    if stat.size > limit {
      return Ok(Contents::TooLarge(stat.size));
    }
    let mut bytes = Vec::new();
    File::open(self.path.join(name))?
      .take(limit.saturating_add(1))
      .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
      return Ok(Contents::TooLarge(bytes.len() as u64));
    }
    Ok(Contents::Bytes(bytes))
  }

  fn peek(&self, name: &str, head: usize, tail: usize) -> io::Result<Option<Peek>> {
    let stat = self.stat(name)?;
    if stat.kind != Kind::File {
      return Ok(None);
    }
    let (head, tail_start) = peek_bounds(stat.size, head, tail);
    let mut peek = Peek {
      head: vec![0; head],
      tail: vec![0; usize::try_from(stat.size - tail_start).unwrap_or(0)],
      size: stat.size,
    };
    let mut file = File::open(self.path.join(name))?;
    file.read_exact(&mut peek.head)?;
    file.seek(SeekFrom::Start(tail_start))?;
    file.read_exact(&mut peek.tail)?;
    Ok(Some(peek))
  }

  /// Retries on Windows for a while: virus scanners and indexers keep files open for moments.
  fn rename(&self, from: &str, to: &Self, new_name: &str) -> io::Result<()> {
    use std::time::Duration;
    let mut wait = Duration::from_millis(1);
    loop {
      match fs::rename(self.path.join(from), to.path.join(new_name)) {
        Err(error)
          if cfg!(windows) && error.kind() == io::ErrorKind::PermissionDenied && wait < Duration::from_secs(2) =>
        {
          std::thread::sleep(wait);
          wait *= 2;
        }
        renamed => return renamed,
      }
    }
  }

  fn link(&self, target: &str, name: &str) -> io::Result<()> {
    // Few users of these systems have the right to create links.
    fs::write(self.path.join(name), target)
  }

  fn hard_link(&self, name: &str, second: &str) -> io::Result<()> {
    fs::hard_link(self.path.join(name), self.path.join(second))
  }

  fn remove_file(&self, name: &str) -> io::Result<()> {
    fs::remove_file(self.path.join(name))
  }

  fn remove_directory(&self, name: &str) -> io::Result<()> {
    fs::remove_dir(self.path.join(name))
  }

  fn entries(&self) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let directory = match fs::read_dir(&self.path) {
      Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(entries),
      directory => directory?,
    };
    for entry in directory {
      let entry = entry?;
      let kind = entry.file_type().map_or(Kind::Other, kind_of);
      if let Ok(name) = entry.file_name().into_string() {
        entries.push(Entry { name, kind });
      }
    }
    Ok(entries)
  }

  fn stat(&self, name: &str) -> io::Result<Stat> {
    let data = fs::symlink_metadata(self.path.join(name))?;
    Ok(Stat {
      kind: kind_of(data.file_type()),
      size: data.len(),
      modified: data.modified().map_or(0, millis_since_epoch),
    })
  }

  fn try_lock(&self, name: &str) -> io::Result<Option<File>> {
    locks::take(self.open_lock(name)?)
  }

  fn write_holder(&self, lock: &File, holder: &str) -> io::Result<()> {
    locks::write_text(lock, holder)
  }

  fn time_of(&self, lock: &File) -> io::Result<SystemTime> {
    lock.metadata()?.modified()
  }

  fn set_time(&self, lock: &File, time: SystemTime) -> io::Result<()> {
    lock.set_modified(time)
  }

  fn set_modified(&self, name: &str, time: SystemTime) -> io::Result<()> {
    if self.kind(name)? != Kind::File {
      return Err(not_that_file());
    }
    let file = OpenOptions::new().write(true).open(self.path.join(name))?;
    file.set_modified(time)
  }

  fn is_abandoned(&self, name: &str) -> io::Result<Option<bool>> {
    if cfg!(windows) {
      return Ok(None);
    }
    Ok(locks::is_free(File::open(self.path.join(name))?))
  }
}

fn kind_of(kind: fs::FileType) -> Kind {
  if kind.is_file() {
    Kind::File
  } else if kind.is_dir() {
    Kind::Directory
  } else {
    Kind::Other
  }
}
