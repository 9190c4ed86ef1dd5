//! Locks on open files, which the system releases when the process ends.
//!
//! Every wait for a lock has a deadline, so that a process that is stopped while it holds one does not block all others. The
//! holder writes its process id and host into the lock file. Others read them only for error messages.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::disk::{Contents, Directory};
use crate::types::error::{Code, Error, Result};
use crate::types::fault_injection;

/// Pauses grow slowly: a contended lock is not left free for long, and new waiters gain little over old ones.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// The limit for the contents of a lock file, in bytes.
const MAX_HOLDER_BYTES: usize = 256;

/// Locks a file, which is created if it is missing; `None` if another process holds the lock for longer than `timeout`.
pub fn wait<D: Directory>(directory: &D, name: &str, timeout: Duration) -> io::Result<Option<D::Lock>> {
  let began = Instant::now();
  let mut pause = FIRST_PAUSE;
  loop {
    match directory.try_lock(name) {
      Ok(None) => {}
      Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
      answer => return answer,
    }
    let left = timeout.saturating_sub(began.elapsed());
    if left.is_zero() && !fault_injection::is_enabled("no-deadline") {
      return Ok(None);
    }
    thread::sleep(pause.min(left));
    pause = (pause + pause / 4).min(LONGEST_PAUSE);
  }
}

/// Locks a file and writes the identity of this process into it. `None` if the file system has no locks. After `timeout` the
/// error names the holder; `path` is what the lock guards.
pub fn hold<D: Directory>(directory: &D, name: &str, path: &Path, timeout: Duration) -> Result<Option<D::Lock>> {
  match wait(directory, name, timeout) {
    Ok(Some(lock)) => {
      // Only error messages depend on it.
      let _ = directory.write_holder(&lock, &this_process().record);
      Ok(Some(lock))
    }
    Ok(None) => Err(busy(directory, name, path, timeout)),
    Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
    Err(error) => Err(Error::io("lock", path, error)),
  }
}

fn busy<D: Directory>(directory: &D, name: &str, path: &Path, timeout: Duration) -> Error {
  let holder = match directory.read(name, MAX_HOLDER_BYTES as u64) {
    Ok(Contents::Bytes(bytes)) => Holder::parse(&bytes),
    // Windows refuses to read a locked file.
    _ => None,
  };
  let holder = match holder {
    Some(holder) if holder == this_process().holder => {
      format!("another call of this process ({}). Its disk may be slow", holder.pid)
    }
    Some(Holder { pid, host }) => format!("process {pid} on {host}. If that process is stopped, resume it or end it"),
    None => "an unknown process. If it is stopped, resume it or end it".to_owned(),
  };
  let (path, ms) = (path.display(), timeout.as_millis());
  let message = format!("{path} has been locked for {ms} ms by {holder}; otherwise try again, or raise timeoutMs");
  Error::new(Code::Busy, message).because(io::Error::from(io::ErrorKind::ResourceBusy))
}

/// The contents of a lock file: the process that locked it last.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
  pid: u32,
  host: String,
}

impl Holder {
  /// `None` if the file does not contain a complete record. An empty file is normal.
  fn parse(bytes: &[u8]) -> Option<Self> {
    let holder: Self = serde_json::from_slice(bytes).ok()?;
    (holder.host == printable(&holder.host)).then_some(holder)
  }
}

struct ThisProcess {
  holder: Holder,
  /// The holder as JSON.
  record: String,
}

fn this_process() -> &'static ThisProcess {
  static THIS: LazyLock<ThisProcess> = LazyLock::new(|| {
    let holder = Holder {
      pid: process::id(),
      host: host_name(),
    };
    let record = serde_json::to_string(&holder).unwrap_or_default();
    ThisProcess { holder, record }
  });
  &THIS
}

/// A host name without the characters that must not reach a terminal.
fn printable(host: &str) -> String {
  let is_printable = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
  let printable: String = host.chars().filter(is_printable).take(100).collect();
  if printable.is_empty() {
    "unknown-host".to_owned()
  } else {
    printable
  }
}

#[cfg(unix)]
fn host_name() -> String {
  printable(&rustix::system::uname().nodename().to_string_lossy())
}

#[cfg(not(unix))]
fn host_name() -> String {
  printable(&std::env::var("COMPUTERNAME").unwrap_or_default())
}

/// Replaces the contents of a locked file, whose position is at its start, by `text`. Usually it holds that text already, and
/// one read is all the cost. Nothing is synced.
pub fn write_text(mut file: &File, text: &str) -> io::Result<()> {
  let mut current = [0; MAX_HOLDER_BYTES];
  let length = file.read(&mut current)?;
  if &current[..length] == text.as_bytes() {
    return Ok(());
  }
  file.seek(SeekFrom::Start(0))?;
  file.write_all(text.as_bytes())?;
  file.set_len(text.len() as u64)
}

/// Locks the file; `None` if another process holds the lock.
pub fn take(file: File) -> io::Result<Option<File>> {
  match file.try_lock() {
    Ok(()) => Ok(Some(file)),
    Err(TryLockError::WouldBlock) => Ok(None),
    Err(TryLockError::Error(error)) => Err(error),
  }
}

/// Whether no process holds the lock; `None` if the file system cannot tell.
pub fn is_free(file: File) -> Option<bool> {
  take(file).ok().map(|taken| taken.is_some())
}
