//! A disk in memory that fails a call, loses its power, or is changed by another process between two calls.
//!
//! A power cut keeps what was synced. Anything else may have reached the medium or not: each change of a name independently, and
//! the contents of a file completely, in part, as zeros or not at all. A rename is one change.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};

use waymark::backend::Peek;
use waymark::backend::file::disk::{Contents, Directory, Disk, Entry, Kind, Stat, not_that_file, peek_bounds};

/// What fails, and at which call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
  Nothing,
  /// The n-th call fails.
  Refuse(usize, io::ErrorKind),
  /// The n-th call writes half and reports success, like code that ignores short writes.
  ShortWrite(usize),
  /// From the n-th call on, the power is off.
  Cut(usize),
  /// No file of this name can be read: the system gives that error.
  Unreadable(&'static str, i32),
  /// No new file, directory or link can be created.
  NoInodes,
}

/// Whether the syncs of the disk work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syncs {
  Honest,
  /// Syncing a file does nothing.
  NoFiles,
  /// Syncing a directory does nothing.
  NoDirectories,
}

/// Which of the changes that were not synced survive a power cut.
#[derive(Debug, Clone, Copy)]
pub enum Survival {
  Nothing,
  Everything,
  /// A random choice with this seed.
  Some(u64),
}

type Node = usize;
const BASE: Node = 0;

#[derive(Debug, Clone)]
enum Stored {
  File { live: Vec<u8>, synced: Option<Vec<u8>> },
  Directory(BTreeMap<String, Node>),
  Link(String),
}

/// A change of names, in the order of the calls.
#[derive(Debug, Clone)]
struct Change {
  /// The directories whose sync makes it durable.
  directories: [Node; 2],
  removed: Option<(Node, String)>,
  added: Option<(Node, String, Node)>,
  is_durable: bool,
}

#[derive(Debug)]
struct State {
  nodes: Vec<Stored>,
  changes: Vec<Change>,
  times: BTreeMap<Node, SystemTime>,
  calls: usize,
  plan: Plan,
  syncs: Syncs,
  has_locks: bool,
  observer: Observer,
}

/// What runs before each call, as another process runs between two calls.
#[derive(Default)]
struct Observer(Option<Box<dyn FnMut() + Send>>);

impl fmt::Debug for Observer {
  fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    formatter.debug_struct("Observer").finish_non_exhaustive()
  }
}

#[derive(Debug, Clone)]
pub struct FaultyDisk {
  state: Arc<Mutex<State>>,
}

impl FaultyDisk {
  pub fn new(syncs: Syncs) -> Self {
    let state = State {
      nodes: vec![Stored::Directory(BTreeMap::new())],
      changes: Vec::new(),
      times: BTreeMap::new(),
      calls: 0,
      plan: Plan::Nothing,
      syncs,
      has_locks: true,
      observer: Observer::default(),
    };
    Self {
      state: Arc::new(Mutex::new(state)),
    }
  }

  /// Sets the plan, and counts calls from here on.
  pub fn plan(&self, plan: Plan) {
    let mut state = self.lock();
    state.calls = 0;
    state.plan = plan;
  }

  pub fn calls(&self) -> usize {
    self.lock().calls
  }

  /// Makes this a disk whose file system has no locks.
  pub fn without_locks(self) -> Self {
    self.lock().has_locks = false;
    self
  }

  /// Runs `act` before each call from here on. The calls of `act` itself are not observed.
  pub fn before_each_call(&self, act: impl FnMut() + Send + 'static) {
    self.lock().observer.0 = Some(Box::new(act));
  }

  /// Runs `act` once, before the n-th call from here on.
  pub fn before_call(&self, call: usize, act: impl FnOnce() + Send + 'static) {
    let mut count = 0;
    let mut act = Some(act);
    self.before_each_call(move || {
      count += 1;
      if count == call
        && let Some(act) = act.take()
      {
        act();
      }
    });
  }

  /// Ends the observation of calls.
  pub fn observe_nothing(&self) {
    self.lock().observer.0 = None;
  }

  /// Appends to a file. No call is counted.
  pub fn append(&self, path: &str, bytes: &[u8]) {
    let mut state = self.lock();
    let node = path
      .split('/')
      .try_fold(BASE, |node, name| state.find(node, name))
      .unwrap();
    if let Stored::File { live, .. } = &mut state.nodes[node] {
      live.extend_from_slice(bytes);
    }
  }

  /// An independent disk with the same contents.
  pub fn fork(&self) -> Self {
    let state = self.lock();
    let copy = State {
      nodes: state.nodes.clone(),
      changes: state.changes.clone(),
      times: state.times.clone(),
      calls: 0,
      plan: Plan::Nothing,
      syncs: state.syncs,
      has_locks: state.has_locks,
      observer: Observer::default(),
    };
    Self {
      state: Arc::new(Mutex::new(copy)),
    }
  }

  /// The disk after a power cut.
  pub fn after_power_cut(&self, survival: Survival) -> Self {
    let disk = self.fork();
    let mut state = disk.lock();
    let mut random = Random::new(survival);
    for node in &mut state.nodes {
      match node {
        Stored::Directory(names) => names.clear(),
        Stored::Link(_) => {}
        Stored::File { live, synced } => {
          *live = match synced {
            None => random.contents(live),
            // Any part of what was appended since may have been written.
            Some(synced) => match live.strip_prefix(&synced[..]) {
              Some(appended) => [&synced[..], &random.contents(appended)].concat(),
              None => synced.clone(),
            },
          };
          *synced = Some(live.clone());
        }
      }
    }
    for change in std::mem::take(&mut state.changes) {
      if change.is_durable || random.survives() {
        state.apply(&change);
        state.changes.push(Change {
          is_durable: true,
          ..change
        });
      }
    }
    drop(state);
    disk
  }

  /// The names of all files and directories, joined by `/`.
  fn names(&self) -> Vec<String> {
    let state = self.lock();
    let mut names = Vec::new();
    let mut waiting = vec![(BASE, String::new())];
    while let Some((node, path)) = waiting.pop() {
      if let Stored::Directory(entries) = &state.nodes[node] {
        for (name, below) in entries {
          let path = format!("{path}{name}");
          names.push(path.clone());
          waiting.push((*below, format!("{path}/")));
        }
      }
    }
    names.sort();
    names
  }

  /// The names of all temporary files and staging directories.
  pub fn temporaries(&self) -> Vec<String> {
    self
      .names()
      .into_iter()
      .filter(|name| name.strip_suffix(".tmp").is_some())
      .collect()
  }

  /// The names of all bases of deltas.
  pub fn bases(&self) -> Vec<String> {
    let names = self.names().into_iter();
    names.filter(|name| name.ends_with(".key.zst")).collect()
  }

  /// Whether a name exists.
  pub fn holds(&self, name: &str) -> bool {
    self.names().iter().any(|held| held == name)
  }

  /// The target of a link in a directory of the base, relative to that directory.
  pub fn target(&self, directory: &str, name: &str) -> Option<String> {
    let state = self.lock();
    let directory = state.find(BASE, directory).ok()?;
    match &state.nodes[state.find(directory, name).ok()?] {
      Stored::Link(target) => Some(target.clone()),
      _ => None,
    }
  }

  /// Whether there is a pending commit of two documents.
  pub fn is_pending(&self) -> bool {
    self.names().iter().any(|name| name.strip_suffix("/.pending").is_some())
  }

  fn lock(&self) -> MutexGuard<'_, State> {
    self.state.lock()
  }

  /// Runs what observes the disk, counts a call, and fails as planned.
  fn call(&self) -> io::Result<MutexGuard<'_, State>> {
    let observer = self.lock().observer.0.take();
    if let Some(mut act) = observer {
      act();
      self.lock().observer.0.get_or_insert(act);
    }
    let mut state = self.lock();
    state.call()?;
    Ok(state)
  }
}

struct Random {
  survival: Survival,
  state: u64,
}

impl Random {
  fn new(survival: Survival) -> Self {
    let seed = match survival {
      Survival::Some(seed) => seed,
      _ => 0,
    };
    Self {
      survival,
      state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
    }
  }

  fn next(&mut self) -> u64 {
    self.state ^= self.state << 13;
    self.state ^= self.state >> 7;
    self.state ^= self.state << 17;
    self.state
  }

  /// Whether a change survives.
  fn survives(&mut self) -> bool {
    match self.survival {
      Survival::Nothing => false,
      Survival::Everything => true,
      Survival::Some(_) => self.next().is_multiple_of(2),
    }
  }

  /// What a power cut leaves of contents that were not synced.
  fn contents(&mut self, live: &[u8]) -> Vec<u8> {
    match self.survival {
      Survival::Nothing => Vec::new(),
      Survival::Everything => live.to_vec(),
      Survival::Some(_) => match self.next() % 4 {
        0 => Vec::new(),
        1 => vec![0; live.len()],
        2 => live[..live.len() / 2].to_vec(),
        _ => live.to_vec(),
      },
    }
  }
}

impl State {
  /// Counts a call, and fails as planned.
  fn call(&mut self) -> io::Result<()> {
    self.calls += 1;
    match self.plan {
      Plan::Refuse(call, kind) if call == self.calls => Err(kind.into()),
      Plan::Cut(call) if self.calls >= call => Err(io::Error::other("the power is off")),
      _ => Ok(()),
    }
  }

  /// Fails if nothing can be created.
  fn check_inodes(&self) -> io::Result<()> {
    match self.plan {
      Plan::NoInodes => Err(io::ErrorKind::StorageFull.into()),
      _ => Ok(()),
    }
  }

  fn names(&self, directory: Node) -> io::Result<&BTreeMap<String, Node>> {
    match &self.nodes[directory] {
      Stored::Directory(names) => Ok(names),
      Stored::File { .. } | Stored::Link(_) => Err(io::ErrorKind::NotADirectory.into()),
    }
  }

  fn find(&self, directory: Node, name: &str) -> io::Result<Node> {
    self
      .names(directory)?
      .get(name)
      .copied()
      .ok_or_else(|| io::ErrorKind::NotFound.into())
  }

  fn apply(&mut self, change: &Change) {
    if let Some((directory, name)) = &change.removed
      && let Stored::Directory(names) = &mut self.nodes[*directory]
    {
      names.remove(name);
    }
    if let Some((directory, name, node)) = &change.added
      && let Stored::Directory(names) = &mut self.nodes[*directory]
    {
      names.insert(name.clone(), *node);
    }
  }

  fn change(&mut self, removed: Option<(Node, &str)>, added: Option<(Node, &str, Node)>) {
    let first = removed.map_or(added.map_or(BASE, |(node, ..)| node), |(node, _)| node);
    let change = Change {
      directories: [first, added.map_or(first, |(node, ..)| node)],
      removed: removed.map(|(node, name)| (node, name.to_owned())),
      added: added.map(|(node, name, target)| (node, name.to_owned(), target)),
      is_durable: false,
    };
    self.apply(&change);
    self.changes.push(change);
  }

  fn kind(&self, node: Node) -> Kind {
    match &self.nodes[node] {
      Stored::File { .. } => Kind::File,
      Stored::Directory(_) => Kind::Directory,
      Stored::Link(_) => Kind::Other,
    }
  }

  fn add(&mut self, directory: Node, name: &str, stored: Stored) -> io::Result<Node> {
    if self.names(directory)?.contains_key(name) {
      return Err(io::ErrorKind::AlreadyExists.into());
    }
    self.check_inodes()?;
    self.nodes.push(stored);
    let node = self.nodes.len() - 1;
    self.change(None, Some((directory, name, node)));
    Ok(node)
  }
}

impl Disk for FaultyDisk {
  type Directory = FaultyDirectory;

  fn make_base(&self, _durable: bool) -> io::Result<()> {
    self.call().map(drop)
  }

  fn open_base(&self) -> io::Result<FaultyDirectory> {
    drop(self.call()?);
    Ok(FaultyDirectory {
      disk: self.clone(),
      node: BASE,
    })
  }

  fn is_in_place(&self, path: &[&str], directory: &FaultyDirectory) -> io::Result<bool> {
    let state = self.call()?;
    let found = path.iter().try_fold(BASE, |node, name| state.find(node, name));
    Ok(found.is_ok_and(|node| node == directory.node))
  }
}

#[derive(Debug)]
pub struct FaultyDirectory {
  disk: FaultyDisk,
  node: Node,
}

impl FaultyDirectory {
  fn call(&self) -> io::Result<MutexGuard<'_, State>> {
    self.disk.call()
  }
}

impl Directory for FaultyDirectory {
  type File = Node;
  type Lock = Node;

  const LINK: Kind = Kind::Other;

  fn open_directory(&self, name: &str) -> io::Result<Self> {
    let state = self.call()?;
    let node = state.find(self.node, name)?;
    state.names(node)?;
    Ok(Self {
      disk: self.disk.clone(),
      node,
    })
  }

  fn make_directory(&self, name: &str) -> io::Result<()> {
    self.call()?.add(self.node, name, Stored::Directory(BTreeMap::new()))?;
    Ok(())
  }

  fn create(&self, name: &str) -> io::Result<Node> {
    let stored = Stored::File {
      live: Vec::new(),
      synced: None,
    };
    self.call()?.add(self.node, name, stored)
  }

  fn reopen(&self, name: &str, size: u64) -> io::Result<Node> {
    let mut state = self.call()?;
    let node = state.find(self.node, name)?;
    let size = usize::try_from(size).unwrap();
    match &mut state.nodes[node] {
      Stored::File { live, .. } if live.len() >= size => live.truncate(size),
      _ => return Err(not_that_file()),
    }
    Ok(node)
  }

  fn write(&self, file: &mut Node, bytes: &[u8]) -> io::Result<()> {
    let mut state = self.call()?;
    let is_short = state.plan == Plan::ShortWrite(state.calls);
    let written = if is_short { &bytes[..bytes.len() / 2] } else { bytes };
    if let Stored::File { live, .. } = &mut state.nodes[*file] {
      live.extend_from_slice(written);
    }
    Ok(())
  }

  fn sync_file(&self, file: &Node) -> io::Result<()> {
    let mut state = self.call()?;
    if state.syncs != Syncs::NoFiles
      && let Stored::File { live, synced } = &mut state.nodes[*file]
    {
      *synced = Some(live.clone());
    }
    Ok(())
  }

  fn sync(&self) -> io::Result<()> {
    let mut state = self.call()?;
    if state.syncs != Syncs::NoDirectories {
      for change in &mut state.changes {
        change.is_durable |= change.directories.contains(&self.node);
      }
    }
    Ok(())
  }

  fn time(&self) -> io::Result<SystemTime> {
    let state = self.call()?;
    let here = |change: &&Change| change.directories.contains(&self.node);
    let count = state.changes.iter().filter(here).count() as u64;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(count))
  }

  fn read(&self, name: &str, limit: u64) -> io::Result<Contents> {
    let state = self.call()?;
    let node = state.find(self.node, name)?;
    if let Plan::Unreadable(unreadable, error) = state.plan
      && unreadable == name
    {
      return Err(io::Error::from_raw_os_error(error));
    }
    Ok(match &state.nodes[node] {
      Stored::File { live, .. } if live.len() as u64 > limit => Contents::TooLarge(live.len() as u64),
      Stored::File { live, .. } => Contents::Bytes(live.clone()),
      Stored::Directory(_) | Stored::Link(_) => Contents::NotAFile,
    })
  }

  fn peek(&self, name: &str, head: usize, tail: usize) -> io::Result<Option<Peek>> {
    let state = self.call()?;
    let node = state.find(self.node, name)?;
    Ok(match &state.nodes[node] {
      Stored::File { live, .. } => {
        let size = live.len() as u64;
        let (head, tail_start) = peek_bounds(size, head, tail);
        Some(Peek {
          head: live[..head].to_vec(),
          tail: live[usize::try_from(tail_start).unwrap()..].to_vec(),
          size,
        })
      }
      Stored::Directory(_) | Stored::Link(_) => None,
    })
  }

  fn rename(&self, from: &str, to: &Self, new_name: &str) -> io::Result<()> {
    let mut state = self.call()?;
    let node = state.find(self.node, from)?;
    if let Ok(replaced) = state.find(to.node, new_name)
      && state.kind(replaced) == Kind::Directory
    {
      return Err(io::ErrorKind::DirectoryNotEmpty.into());
    }
    state.change(Some((self.node, from)), Some((to.node, new_name, node)));
    Ok(())
  }

  fn link(&self, target: &str, name: &str) -> io::Result<()> {
    let mut state = self.call()?;
    state.check_inodes()?;
    state.nodes.push(Stored::Link(target.to_owned()));
    let node = state.nodes.len() - 1;
    state.change(None, Some((self.node, name, node)));
    Ok(())
  }

  fn hard_link(&self, name: &str, second: &str) -> io::Result<()> {
    let mut state = self.call()?;
    let node = state.find(self.node, name)?;
    state.change(None, Some((self.node, second, node)));
    Ok(())
  }

  fn remove_file(&self, name: &str) -> io::Result<()> {
    let mut state = self.call()?;
    state.find(self.node, name)?;
    state.change(Some((self.node, name)), None);
    Ok(())
  }

  fn remove_directory(&self, name: &str) -> io::Result<()> {
    let mut state = self.call()?;
    let node = state.find(self.node, name)?;
    if !state.names(node)?.is_empty() {
      return Err(io::ErrorKind::DirectoryNotEmpty.into());
    }
    state.change(Some((self.node, name)), None);
    Ok(())
  }

  fn entries(&self) -> io::Result<Vec<Entry>> {
    let state = self.call()?;
    let names = state.names(self.node)?.iter();
    Ok(
      names
        .map(|(name, node)| Entry {
          name: name.clone(),
          kind: state.kind(*node),
        })
        .collect(),
    )
  }

  fn stat(&self, name: &str) -> io::Result<Stat> {
    let state = self.call()?;
    let node = state.find(self.node, name)?;
    let size = match &state.nodes[node] {
      Stored::File { live, .. } => live.len() as u64,
      Stored::Directory(_) => 0,
      Stored::Link(target) => target.len() as u64,
    };
    Ok(Stat {
      kind: state.kind(node),
      size,
      modified: 0,
    })
  }

  fn try_lock(&self, name: &str) -> io::Result<Option<Node>> {
    let mut state = self.call()?;
    if !state.has_locks {
      return Err(io::ErrorKind::Unsupported.into());
    }
    if let Ok(node) = state.find(self.node, name) {
      return Ok(Some(node));
    }
    let stored = Stored::File {
      live: Vec::new(),
      synced: Some(Vec::new()),
    };
    state.add(self.node, name, stored).map(Some)
  }

  fn write_holder(&self, lock: &Node, holder: &str) -> io::Result<()> {
    if let Stored::File { live, .. } = &mut self.call()?.nodes[*lock] {
      *live = holder.as_bytes().to_vec();
    }
    Ok(())
  }

  fn time_of(&self, lock: &Node) -> io::Result<SystemTime> {
    let times = &self.call()?.times;
    Ok(times.get(lock).copied().unwrap_or(SystemTime::UNIX_EPOCH))
  }

  fn set_time(&self, lock: &Node, time: SystemTime) -> io::Result<()> {
    self.call()?.times.insert(*lock, time);
    Ok(())
  }

  fn set_modified(&self, name: &str, time: SystemTime) -> io::Result<()> {
    let mut state = self.call()?;
    let node = state.find(self.node, name)?;
    state.times.insert(node, time);
    Ok(())
  }

  fn is_abandoned(&self, _name: &str) -> io::Result<Option<bool>> {
    // The tests have one thread, which does not sweep while it writes.
    drop(self.call()?);
    Ok(Some(true))
  }
}
