//! Locks on open files, which the system releases when a process dies.
//!
//! Every wait for a lock has a deadline: a process that is stopped while it holds one must not stop all others. A holder
//! writes its name into the lock file. The others read it for their error message, and trust it for nothing else.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use super::disk::{Contents, Directory};
use crate::json::edit::{ObjectWriter, text_literal};
use crate::json::scan::{find, members, text_of};
use crate::types::error::{Code, Error, Result};
use crate::types::fault_injection;

/// Pauses grow slowly, so that a lock that many want is not left free for long, nor taken by newcomers only.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// The longest name of a holder, in bytes.
const LONGEST_HOLDER: usize = 256;

/// Waits for the lock on a file, which is created if it is missing; `None` if it is not free within `timeout`.
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

/// Waits for the lock on a file, and writes the name of this process into it. `None` where the file system has no locks. If
/// the lock is not free within `timeout`, the error names its holder; `path` is what the lock guards.
pub fn hold<D: Directory>(directory: &D, name: &str, path: &Path, timeout: Duration) -> Result<Option<D::Lock>> {
  match wait(directory, name, timeout) {
    Ok(Some(lock)) => {
      // Without it, the others do not know whom they wait for.
      let _ = directory.write_holder(&lock, &Holder::this().record);
      Ok(Some(lock))
    }
    Ok(None) => Err(busy(directory, name, path, timeout)),
    Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
    Err(error) => Err(Error::io("lock", path, error)),
  }
}

fn busy<D: Directory>(directory: &D, name: &str, path: &Path, timeout: Duration) -> Error {
  let holder = match directory.read(name, LONGEST_HOLDER as u64) {
    Ok(Contents::Bytes(bytes)) => parse(&bytes),
    // Windows lets nobody read a file that is locked.
    _ => None,
  };
  let this = Holder::this();
  let who = match holder {
    Some((pid, host)) if pid == this.pid && host == this.host => {
      format!("another call of this process ({pid}). Its disk may be slow")
    }
    Some((pid, host)) => format!("process {pid} on {host}. If that process is stopped, resume it or end it"),
    None => "an unknown process. If it is stopped, resume it or end it".to_owned(),
  };
  let (path, ms) = (path.display(), timeout.as_millis());
  let message = format!("{path} has been locked for {ms} ms by {who}; otherwise try again, or raise timeoutMs");
  Error::new(Code::Busy, message).because(io::Error::from(io::ErrorKind::ResourceBusy))
}

/// A process that holds locks.
struct Holder {
  pid: u32,
  host: String,
  /// As it is written into lock files.
  record: String,
}

impl Holder {
  fn this() -> &'static Self {
    static THIS: LazyLock<Holder> = LazyLock::new(|| {
      let (pid, host) = (process::id(), host_name());
      let mut record = ObjectWriter::with_capacity(64);
      record.push("pid", &pid.to_string());
      record.push("host", &text_literal(&host));
      Holder {
        pid,
        record: record.finish(),
        host,
      }
    });
    &THIS
  }
}

/// The process that a lock file names; `None` if it holds anything but a whole record, such as nothing at all.
fn parse(bytes: &[u8]) -> Option<(u32, String)> {
  let found = members(str::from_utf8(bytes).ok()?).ok()?;
  let pid = find(&found, "pid")?.value.parse().ok()?;
  let host = text_of(find(&found, "host")?.value)?;
  (host == plain(&host)).then(|| (pid, host.into_owned()))
}

/// What can be shown of the name of a host.
fn plain(host: &str) -> String {
  let is_plain = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
  let plain: String = host.chars().filter(is_plain).take(100).collect();
  if plain.is_empty() {
    "unknown-host".to_owned()
  } else {
    plain
  }
}

#[cfg(unix)]
fn host_name() -> String {
  plain(&rustix::system::uname().nodename().to_string_lossy())
}

#[cfg(not(unix))]
fn host_name() -> String {
  plain(&std::env::var("COMPUTERNAME").unwrap_or_default())
}

/// Makes a file that was just opened and locked hold `text` and nothing else. Most of the time it does already, and one read
/// is all that it costs; nothing is synced.
pub fn write_text(mut file: &File, text: &str) -> io::Result<()> {
  let mut found = [0; LONGEST_HOLDER];
  let length = file.read(&mut found)?;
  if &found[..length] == text.as_bytes() {
    return Ok(());
  }
  file.seek(SeekFrom::Start(0))?;
  file.write_all(text.as_bytes())?;
  file.set_len(text.len() as u64)
}

/// Takes the lock, unless somebody else holds it.
pub fn take(file: File) -> io::Result<Option<File>> {
  match file.try_lock() {
    Ok(()) => Ok(Some(file)),
    Err(TryLockError::WouldBlock) => Ok(None),
    Err(TryLockError::Error(error)) => Err(error),
  }
}

/// Whether nobody holds the lock; `None` where the file system cannot tell.
pub fn is_free(file: File) -> Option<bool> {
  take(file).ok().map(|taken| taken.is_some())
}
