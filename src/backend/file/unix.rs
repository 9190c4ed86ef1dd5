//! The disk of Unix systems. Directories are opened one name at a time and never through a link, and files by their name in an
//! open directory, so that no race can lead a call out of the base.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{
  AtFlags, Dir, FileType, Mode, OFlags, linkat, mkdirat, openat, renameat, statat, symlinkat, unlinkat,
};

use super::disk::{Contents, Directory, Disk, Entry, Kind, Stat, not_that_file, peek_bounds};
use super::{is_absence, locks};
use crate::backend::Peek;
use crate::types::fault_injection;

const OPEN_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const NO_LINK: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

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
  type Directory = UnixDirectory;

  fn make_base(&self, durable: bool) -> io::Result<()> {
    make_with_parents(&self.base, durable)?;
    // Its creator may have died before the sync. A parent that cannot be opened belongs to another user, and is not synced.
    match (durable, self.base.parent().map(File::open)) {
      (true, Some(Ok(parent))) => parent.sync_all(),
      _ => Ok(()),
    }
  }

  fn open_base(&self) -> io::Result<UnixDirectory> {
    UnixDirectory::opened(rustix::fs::open(&self.base, OPEN_DIRECTORY, Mode::empty()))
  }

  fn is_in_place(&self, path: &[&str], directory: &UnixDirectory) -> io::Result<bool> {
    let opened = directory.handle.metadata()?;
    match fs::symlink_metadata(path.iter().fold(self.base.clone(), |path, name| path.join(name))) {
      Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
      Err(error) if is_absence(&error) => Ok(false),
      Err(error) => Err(error),
    }
  }
}

/// Creates a directory and its missing parents, from the top down. Syncs each new name.
fn make_with_parents(path: &Path, durable: bool) -> io::Result<()> {
  let attempt = || rustix::fs::mkdir(path, Mode::RWXU).map_err(io::Error::from);
  let made = match (attempt(), path.parent()) {
    (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
      make_with_parents(parent, durable)?;
      attempt()
    }
    (made, _) => made,
  };
  match (made, path.parent()) {
    (Err(error), _) if error.kind() == io::ErrorKind::AlreadyExists => {
      if fs::metadata(path)?.is_dir() {
        Ok(())
      } else {
        Err(error)
      }
    }
    (Ok(()), Some(parent)) if durable => File::open(parent)?.sync_all(),
    (made, _) => made,
  }
}

/// A file that is being written.
#[derive(Debug)]
pub struct LockedFile {
  file: File,
}

#[derive(Debug)]
pub struct UnixDirectory {
  /// Open for reading; syncing it syncs the names in it.
  handle: File,
}

impl UnixDirectory {
  fn opened(handle: rustix::io::Result<OwnedFd>) -> io::Result<Self> {
    Ok(Self {
      handle: File::from(handle?),
    })
  }

  fn open(&self, name: &str, flags: OFlags) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(File::from(openat(&self.handle, name, flags.union(NO_LINK), mode)?))
  }

  /// A file to read, and its size; `None` if the name is not that of a file.
  fn open_file(&self, name: &str) -> io::Result<Option<(File, u64)>> {
    // Non-blocking: opening a pipe would block.
    let file = match self.open(name, OFlags::RDONLY | OFlags::NONBLOCK) {
      Ok(file) => file,
      // A link, or a socket.
      Err(_) if matches!(self.stat(name), Ok(stat) if stat.kind == Kind::Other) => return Ok(None),
      Err(error) => return Err(error),
    };
    let data = file.metadata()?;
    Ok(data.is_file().then_some((file, data.len())))
  }

  /// Opens a lock file, which is created if it is missing. Non-blocking: opening a pipe would block.
  fn open_lock(&self, name: &str) -> io::Result<File> {
    let file = self.open(name, OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK)?;
    if file.metadata()?.is_file() {
      Ok(file)
    } else {
      Err(io::Error::other("it is not a file"))
    }
  }
}

impl Directory for UnixDirectory {
  type File = LockedFile;
  type Lock = File;

  const LINK: Kind = Kind::Other;

  fn open_directory(&self, name: &str) -> io::Result<Self> {
    Self::opened(openat(&self.handle, name, OPEN_DIRECTORY.union(NO_LINK), Mode::empty()))
  }

  fn make_directory(&self, name: &str) -> io::Result<()> {
    Ok(mkdirat(&self.handle, name, Mode::RWXU)?)
  }

  fn create(&self, name: &str) -> io::Result<LockedFile> {
    let file = self.open(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
    // The lock tells other processes that the writer is alive. Without locks, they judge by the age of the file.
    let _ = file.try_lock();
    Ok(LockedFile { file })
  }

  fn reopen(&self, name: &str, size: u64) -> io::Result<LockedFile> {
    // Non-blocking: opening a pipe would block.
    let mut file = self.open(name, OFlags::WRONLY | OFlags::NONBLOCK)?;
    let data = file.metadata()?;
    if !data.is_file() || data.len() < size {
      return Err(not_that_file());
    }
    if data.len() > size {
      file.set_len(size)?;
    }
    file.seek(SeekFrom::Start(size))?;
    Ok(LockedFile { file })
  }

  fn write(&self, file: &mut LockedFile, bytes: &[u8]) -> io::Result<()> {
    if fault_injection::is_enabled("short-write") {
      return file.file.write(bytes).map(drop);
    }
    file.file.write_all(bytes)
  }

  #[cfg(target_os = "linux")]
  fn begin_sync(&self, file: &LockedFile) {
    // Linux starts to write dirty pages back on this call, and drops only clean ones.
    let _ = rustix::fs::fadvise(&file.file, 0, None, rustix::fs::Advice::DontNeed);
  }

  fn sync_file(&self, file: &LockedFile) -> io::Result<()> {
    if fault_injection::is_enabled("file-sync") {
      return Ok(());
    }
    // On macOS the standard library uses F_FULLFSYNC, which also flushes the cache of the disk.
    file.file.sync_all()
  }

  fn sync(&self) -> io::Result<()> {
    if fault_injection::is_enabled("directory-sync") {
      return Ok(());
    }
    self.handle.sync_all()
  }

  fn time(&self) -> io::Result<SystemTime> {
    self.handle.metadata()?.modified()
  }

  fn read(&self, name: &str, limit: u64) -> io::Result<Contents> {
    let Some((file, size)) = self.open_file(name)? else {
      return Ok(Contents::NotAFile);
    };
    if size > limit {
      return Ok(Contents::TooLarge(size));
    }
    // Files of this store do not change once they have their name. If one grows meanwhile, the addition is not read.
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < bytes.len() {
      match (&file).read(&mut bytes[filled..]) {
        Ok(0) => break,
        Ok(count) => filled += count,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) => return Err(error),
      }
    }
    bytes.truncate(filled);
    Ok(Contents::Bytes(bytes))
  }

  fn peek(&self, name: &str, head: usize, tail: usize) -> io::Result<Option<Peek>> {
    let Some((file, size)) = self.open_file(name)? else {
      return Ok(None);
    };
    let (head, tail_start) = peek_bounds(size, head, tail);
    let mut peek = Peek {
      head: vec![0; head],
      tail: vec![0; usize::try_from(size - tail_start).unwrap_or(0)],
      size,
    };
    file.read_exact_at(&mut peek.head, 0)?;
    file.read_exact_at(&mut peek.tail, tail_start)?;
    Ok(Some(peek))
  }

  fn rename(&self, from: &str, to: &Self, new_name: &str) -> io::Result<()> {
    Ok(renameat(&self.handle, from, &to.handle, new_name)?)
  }

  fn link(&self, target: &str, name: &str) -> io::Result<()> {
    Ok(symlinkat(target, &self.handle, name)?)
  }

  fn hard_link(&self, name: &str, second: &str) -> io::Result<()> {
    Ok(linkat(&self.handle, name, &self.handle, second, AtFlags::empty())?)
  }

  fn remove_file(&self, name: &str) -> io::Result<()> {
    Ok(unlinkat(&self.handle, name, AtFlags::empty())?)
  }

  fn remove_directory(&self, name: &str) -> io::Result<()> {
    Ok(unlinkat(&self.handle, name, AtFlags::REMOVEDIR)?)
  }

  fn entries(&self) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let directory = match Dir::read_from(&self.handle) {
      // A removed directory cannot be opened again, and has no entries.
      Err(rustix::io::Errno::NOENT) => return Ok(entries),
      directory => directory?,
    };
    for entry in directory {
      let entry = match entry {
        Err(rustix::io::Errno::NOENT) => break,
        entry => entry?,
      };
      // Names that are not UTF-8 belong to other programs.
      let Ok(name) = entry.file_name().to_str() else {
        continue;
      };
      if name == "." || name == ".." {
        continue;
      }
      let kind = match entry.file_type() {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Unknown => self.stat(name).map_or(Kind::Other, |stat| stat.kind),
        _ => Kind::Other,
      };
      entries.push(Entry {
        name: name.to_owned(),
        kind,
      });
    }
    Ok(entries)
  }

  fn stat(&self, name: &str) -> io::Result<Stat> {
    let stat = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
      FileType::RegularFile => Kind::File,
      FileType::Directory => Kind::Directory,
      _ => Kind::Other,
    };
    // The types of these members differ between systems.
    let (seconds, nanoseconds) = (i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec));
    Ok(Stat {
      kind,
      size: u64::try_from(stat.st_size).unwrap_or(0),
      modified: u64::try_from(seconds * 1000 + nanoseconds / 1_000_000).unwrap_or(0),
    })
  }

  fn try_lock(&self, name: &str) -> io::Result<Option<File>> {
    let Some(lock) = locks::take(self.open_lock(name)?)? else {
      return Ok(None);
    };
    // If the file was removed between the two steps, other processes lock another file.
    let locked = lock.metadata()?;
    match statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
      #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
      Ok(named) if (named.st_dev as u64, named.st_ino as u64) == (locked.dev(), locked.ino()) => Ok(Some(lock)),
      Ok(_) | Err(rustix::io::Errno::NOENT) => Err(io::ErrorKind::Interrupted.into()),
      Err(error) => Err(error.into()),
    }
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
    let file = self.open(name, OFlags::WRONLY | OFlags::NONBLOCK)?;
    file.set_modified(time)
  }

  fn is_abandoned(&self, name: &str) -> io::Result<Option<bool>> {
    Ok(locks::is_free(self.open(name, OFlags::RDONLY | OFlags::NONBLOCK)?))
  }
}
