//! A session with all kinds of items, every method that changes it, and a check of what is stored afterwards.

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use waymark::backend::file::FileBackend;
use waymark::backend::{Acquired, Claim, Encoding, Lease, MemoryBackend, Parent, Series, Settings};
use waymark::checkpoint::agent::AgentState;
use waymark::checkpoint::compose::Parts;
use waymark::checkpoint::reset::Resets;
use waymark::json::layout::compact;
use waymark::store::{
  CreateOptions, ExpectedRevision, Expiry, ExportFile, ForkRequest, Label, LabelRequest, Loaded, OpenStore,
  PruneRequest, RecoverOutcome, RecoverRequest, RestoreRequest, Retention, Store, revision,
};
use waymark::types::id::{AgentId, CheckpointId, SessionId, TaskId};
use waymark::types::progress::Control;
use waymark::{Error, Options};

use super::disk::{FaultyDisk, Plan};

/// Every method that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
  CreateSessionDirectory,
  SaveSession,
  /// With the revision that was read.
  SaveUnchangedSession,
  /// Under a lease.
  SaveOwnedSession,
  SaveTaskTree,
  SaveTaskResult,
  CreateCheckpoint,
  CreateCompressedCheckpoint,
  /// Several deltas: a new base, deltas based on it, and an appended base.
  CreateDeltas,
  RestoreCheckpoint,
  RecoverSession,
  DeleteCheckpoint,
  DeleteNewestCheckpoint,
  DeleteAllCheckpoints,
  DeleteSession,
  PinCheckpoint,
  LabelCheckpoint,
  SaveAgent,
  ForkSession,
  ExpireSessions,
  DeleteExpiredSessions,
  ConvertToDelta,
  ConvertToJson,
  SetRetention,
  UnsetRetention,
  Prune,
  ImportSession,
  /// With the newest checkpoint as the expected parent.
  CreateCheckpointAfterParent,
  AcquireSession,
  ReleaseSession,
}

pub const METHODS: [Method; 30] = [
  Method::CreateSessionDirectory,
  Method::SaveSession,
  Method::SaveUnchangedSession,
  Method::SaveOwnedSession,
  Method::SaveTaskTree,
  Method::SaveTaskResult,
  Method::CreateCheckpoint,
  Method::CreateCompressedCheckpoint,
  Method::CreateDeltas,
  Method::RestoreCheckpoint,
  Method::RecoverSession,
  Method::DeleteCheckpoint,
  Method::DeleteNewestCheckpoint,
  Method::DeleteAllCheckpoints,
  Method::DeleteSession,
  Method::PinCheckpoint,
  Method::LabelCheckpoint,
  Method::SaveAgent,
  Method::ForkSession,
  Method::ExpireSessions,
  Method::DeleteExpiredSessions,
  Method::ConvertToDelta,
  Method::ConvertToJson,
  Method::SetRetention,
  Method::UnsetRetention,
  Method::Prune,
  Method::ImportSession,
  Method::CreateCheckpointAfterParent,
  Method::AcquireSession,
  Method::ReleaseSession,
];

/// The encodings of the checkpoints that a scenario begins with.
pub const ENCODINGS: [Encoding; 2] = [Encoding::Json, Encoding::Delta];

/// How many checkpoints are kept. A scenario begins with that many.
const LIMIT: usize = 3;

pub fn open(disk: &FaultyDisk) -> OpenStore {
  open_keeping(disk, LIMIT)
}

/// Opens a store that keeps that many checkpoints of each session.
pub fn open_keeping(disk: &FaultyDisk, limit: usize) -> OpenStore {
  let settings = Settings {
    keep_previous: 2,
    ..Settings::default()
  };
  let backend = FileBackend::on(disk.clone(), PathBuf::from("/store"), settings);
  let options = Options {
    max_checkpoints_per_session: Some(limit),
    ..Options::default()
  };
  let store = Arc::new(Store::new(Arc::new(backend), options));
  store.begin_open().finish().unwrap();
  store.enter().unwrap()
}

pub fn session() -> SessionId {
  SessionId::parse("s").unwrap()
}

fn task() -> TaskId {
  TaskId::parse("t").unwrap()
}

fn agent() -> Series {
  Series {
    session: session(),
    agent: Some(AgentId::parse("a").unwrap()),
  }
}

fn fork() -> SessionId {
  SessionId::parse("fork").unwrap()
}

/// A retention that keeps the newest checkpoints.
pub fn keep(last: u64) -> Retention {
  Retention {
    keep_last: Some(last),
    ..Retention::default()
  }
}

fn imported() -> SessionId {
  SessionId::parse("imported").unwrap()
}

/// A session with all kinds of items, as an export file.
static ARCHIVE: LazyLock<Vec<u8>> = LazyLock::new(|| {
  let store = Arc::new(Store::new(Arc::new(MemoryBackend::new(2)), Options::default()));
  store.begin_open().finish().unwrap();
  let store = store.enter().unwrap();
  let s = imported();
  for version in ["old", "new"] {
    store.save_session(&s, &document(version), None).unwrap();
  }
  store.save_task_tree(&s, &tree("new")).unwrap();
  store.save_task_result(&s, &task(), "\"new\"").unwrap();
  for encoding in Encoding::ALL {
    let made = store
      .create_checkpoint(&store.ticket(&s), &parts("new"), encoding)
      .unwrap();
    store.pin_checkpoint(&s, &made.id, true).unwrap();
  }
  let mut file = Vec::new();
  let to = ExportFile {
    file: &mut file,
    name: "export file",
  };
  store.export_session(&s, to, &Control::default()).unwrap();
  file
});

/// Whether the imported session exists completely; `None` if it exists in part.
fn is_imported(store: &Store) -> Option<bool> {
  let s = imported();
  let documents = [
    store.load_session(&s, 0),
    store.load_session(&s, 1),
    store.load_task_tree(&s, 0),
    store.load_task_result(&s, &task()),
  ];
  let entries = store.list(&(&s).into(), 0, 0).ok()?.entries;
  let is_whole = |entry| matches!(store.read_entry(&(&s).into(), entry), Some(Ok(_)));
  let is_present = |loaded: &Result<Option<Loaded>, Error>| matches!(loaded, Ok(Some(_)));
  if documents.iter().all(is_present) && entries.len() == Encoding::ALL.len() {
    return entries
      .iter()
      .all(|entry| entry.is_pinned && is_whole(entry))
      .then_some(true);
  }
  (entries.is_empty() && !documents.iter().any(is_present)).then_some(false)
}

fn document(version: &str) -> String {
  format!(r#"{{"id":"s","version":"{version}","checkpointIds":[],"status":"paused","expiresAt":1}}"#)
}

fn tree(version: &str) -> String {
  // Text that compresses badly.
  let numbers = (1..150_u32).map(|number| number.wrapping_mul(2_654_435_761).to_string());
  let text: String = numbers.collect();
  format!(r#"{{"task":{{"version":"{version}","text":"{text}"}}}}"#)
}

fn parts(version: &str) -> Parts {
  Parts {
    head: format!(r#"{{"trigger":"auto","session":{}}}"#, document(version)),
    task_tree: format!(r#"{{"taskTree":{}}}"#, tree(version)),
    agent_states: r#"{"agentStates":{}}"#.to_owned(),
    context_store: r#"{"contextStore":{}}"#.to_owned(),
  }
}

/// What was acknowledged before the fault.
#[derive(Debug, Clone)]
pub struct Baseline {
  /// Oldest first.
  pub checkpoints: Vec<CheckpointId>,
}

/// Stores a session document, task tree and result of version `old`, and as many checkpoints as are kept, in that encoding.
pub fn prepare(disk: &FaultyDisk, encoding: Encoding) -> Baseline {
  let store = open(disk);
  store.save_session(&session(), &document("old"), None).unwrap();
  store.save_task_tree(&session(), &tree("old")).unwrap();
  store.save_task_result(&session(), &task(), "\"old\"").unwrap();
  store.set_retention(&session(), Some(keep(7))).unwrap();
  let checkpoints = (0..LIMIT).map(|_| checkpoint(&store, encoding).unwrap()).collect();
  Baseline { checkpoints }
}

pub fn checkpoint(store: &Store, encoding: Encoding) -> Result<CheckpointId, Error> {
  let created = store.create_checkpoint(&store.ticket(session()), &parts("new"), encoding)?;
  Ok(created.id)
}

/// Saves the session with the revision that was read.
fn save_if_unchanged(store: &Store) -> Result<(), Error> {
  let read = store.load_session(&session(), 0)?;
  let expected = ExpectedRevision(read.map(|read| revision(read.text.as_bytes())));
  store
    .save_session(&session(), &document("new"), Some(&expected))
    .map(drop)
}

/// Creates a checkpoint with the newest one as the expected parent.
fn create_after_parent(store: &Store) -> Result<CheckpointId, Error> {
  let newest = store.list(&session().into(), 1, 0)?.entries.pop();
  let options = CreateOptions {
    encoding: Some(Encoding::Json),
    parent: newest.map_or(Parent::Missing, |newest| Parent::Checkpoint(newest.id)),
    ..CreateOptions::default()
  };
  let created = store.create_checkpoint(&store.ticket(session()), &parts("new"), options)?;
  Ok(created.id)
}

/// Acquires the session, even if another owner holds it.
fn take(store: &Store) -> Result<Lease, Error> {
  let claim = Claim {
    owner: "another owner",
    ttl_ms: 1_000_000,
    is_forced: true,
  };
  match store.acquire(&session(), claim)? {
    Acquired::Taken(lease) | Acquired::Held(lease) => Ok(lease),
  }
}

/// Whether the session is leased.
fn is_owned(store: &Store) -> bool {
  store.sessions_info().is_ok_and(|lines| lines.contains("\"lease\""))
}

/// Archives or deletes expired sessions. Returns the error of one that failed.
fn expire(store: &Store, expiry: Expiry) -> Result<(), Error> {
  match store.expire_sessions(2.0, expiry)?.failed.pop() {
    Some((_, error)) => Err(error),
    None => Ok(()),
  }
}

/// Keeps the newest checkpoint only. Returns the error of one that cannot be deleted.
fn prune(store: &Store) -> Result<(), Error> {
  let request = PruneRequest {
    session: Some(session()),
    is_dry_run: false,
    retention: Some(keep(1)),
  };
  match store.prune(&request, &Control::default())?.failed.pop() {
    Some(failure) => Err(failure.error),
    None => Ok(()),
  }
}

/// Runs a method. Returns the id of a new checkpoint.
pub fn run(store: &Store, method: Method, baseline: &Baseline) -> Result<Option<CheckpointId>, Error> {
  let s = session();
  match method {
    Method::CreateSessionDirectory => store.create_session(&SessionId::parse("other").unwrap())?,
    Method::SaveSession => drop(store.save_session(&s, &document("new"), None)?),
    Method::SaveUnchangedSession => save_if_unchanged(store)?,
    Method::SaveOwnedSession => {
      take(store)?;
      drop(store.save_session(&s, &document("new"), None)?);
    }
    Method::CreateCheckpointAfterParent => return create_after_parent(store).map(Some),
    Method::AcquireSession => drop(take(store)?),
    Method::ReleaseSession => assert!(store.release(&s, take(store)?.number)?),
    Method::SaveTaskTree => drop(store.save_task_tree(&s, &tree("new"))?),
    Method::SaveTaskResult => drop(store.save_task_result(&s, &task(), "\"new\"")?),
    Method::CreateCheckpoint => return checkpoint(store, Encoding::Json).map(Some),
    Method::CreateCompressedCheckpoint => return checkpoint(store, Encoding::Gzip).map(Some),
    Method::CreateDeltas => {
      for _ in 0..LIMIT {
        checkpoint(store, Encoding::Delta)?;
      }
      return checkpoint(store, Encoding::Delta).map(Some);
    }
    Method::RestoreCheckpoint => {
      let id = baseline.checkpoints[1].clone();
      drop(store.restore(&RestoreRequest {
        session: Some(s),
        asked_for: id.to_string(),
        checkpoint: id,
        validate_checksum: true,
        resets: Resets::default(),
        include_state: false,
      })?);
    }
    Method::RecoverSession => {
      let request = RecoverRequest {
        session: s,
        resets: Resets::default(),
        include_state: false,
        quarantine: true,
        is_dry_run: false,
      };
      if let RecoverOutcome::NoneWhole(error, mut passed_over) = store.recover(&request)? {
        return Err(passed_over.pop().map_or(error, |last| *last.damaged.error));
      }
    }
    Method::DeleteCheckpoint => store.delete_checkpoint(&s.into(), &baseline.checkpoints[0])?,
    Method::DeleteNewestCheckpoint => store.delete_checkpoint(&s.into(), &baseline.checkpoints[LIMIT - 1])?,
    Method::DeleteAllCheckpoints => drop(store.delete_checkpoints(&s.into())?),
    Method::DeleteSession => drop(store.delete_session(&s)?),
    Method::PinCheckpoint => store.pin_checkpoint(&s, &baseline.checkpoints[1], true)?,
    Method::LabelCheckpoint => store.label_checkpoint(&LabelRequest {
      session: s,
      checkpoint: baseline.checkpoints[1].clone(),
      label: Some(Label {
        text: "l".to_owned(),
        literal: "\"l\"".to_owned(),
      }),
      is_unique: false,
    })?,
    Method::SaveAgent => {
      let state = AgentState {
        json: r#"{"iteration":1}"#.to_owned(),
        context: Some(vec![1, 2, 3]),
        ttl_ms: None,
      };
      drop(store.save_agent(&store.ticket(agent()), &state, Encoding::Json)?);
    }
    Method::ForkSession => {
      let request = ForkRequest {
        session: s,
        checkpoint: baseline.checkpoints[1].clone(),
        new_session: fork(),
        resets: Resets::default(),
      };
      drop(store.fork(&request, store.stamp())?);
    }
    Method::ExpireSessions => expire(store, Expiry::Archive)?,
    Method::DeleteExpiredSessions => expire(store, Expiry::Delete)?,
    Method::ConvertToDelta => drop(store.convert(&s, Encoding::Delta, &Control::default())?),
    Method::ConvertToJson => drop(store.convert(&s, Encoding::Json, &Control::default())?),
    Method::SetRetention => store.set_retention(&s, Some(keep(8)))?,
    Method::UnsetRetention => store.set_retention(&s, None)?,
    Method::Prune => prune(store)?,
    Method::ImportSession => {
      let from = ExportFile {
        file: Cursor::new(&*ARCHIVE),
        name: "export file",
      };
      drop(store.import_session(from, None, &Control::default())?);
    }
  }
  Ok(None)
}

/// The version of a document: `old`, `new` or `torn`; `None` if it is missing.
fn version(text: Option<String>) -> Option<&'static str> {
  let text = text?;
  let is = |version: &str| text.contains(&format!("\"{version}\""));
  Some(match (is("old"), is("new")) {
    (true, false) => "old",
    (false, true) => "new",
    _ => "torn",
  })
}

/// How a method ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
  Acknowledged,
  Failed,
  /// The change may be stored or not.
  Unknown,
}

/// Whether the effect of a method is visible.
fn is_done(store: &Store, method: Method) -> bool {
  let s = session();
  match method {
    Method::PinCheckpoint => {
      let entries = store.list(&s.into(), 0, 0).map(|list| list.entries);
      entries.is_ok_and(|entries| entries.iter().any(|entry| entry.is_pinned))
    }
    Method::LabelCheckpoint => matches!(store.checkpoint_with_label(&s, "l"), Ok(Some(_))),
    Method::SaveAgent => matches!(store.has_agent_checkpoint(&agent()), Ok(true)),
    Method::ForkSession => {
      let document = store.load_session(&fork(), 0);
      matches!(document, Ok(Some(_)))
        && store
          .latest_checkpoint(&fork().into())
          .is_ok_and(|found| found.is_some())
    }
    Method::ExpireSessions => {
      let document = store.load_session(&s, 0).ok().flatten();
      document.is_some_and(|document| document.text.contains("\"archived\""))
    }
    Method::ConvertToDelta => is_all(store, Encoding::Delta),
    Method::ConvertToJson => is_all(store, Encoding::Json),
    Method::SetRetention => matches!(store.retention_of(&s), Ok(Some(found)) if found == keep(8)),
    Method::UnsetRetention => matches!(store.retention_of(&s), Ok(None)),
    Method::Prune => store.list(&s.into(), 0, 0).is_ok_and(|list| list.entries.len() == 1),
    Method::ImportSession => is_imported(store) == Some(true),
    Method::AcquireSession | Method::SaveOwnedSession => is_owned(store),
    Method::ReleaseSession => !is_owned(store),
    _ => true,
  }
}

/// Whether all checkpoints have that encoding.
fn is_all(store: &Store, encoding: Encoding) -> bool {
  let entries = store.list(&session().into(), 0, 0).map(|list| list.entries);
  entries.is_ok_and(|entries| entries.iter().all(|entry| entry.encoding == encoding))
}

/// The versions of the session, its tree and its result, and whether a method may leave them like that.
fn documents(store: &Store, method: Method, ending: Ending) -> ([Option<&'static str>; 3], bool) {
  let s = session();
  let text = |loaded: Result<Option<Loaded>, Error>| match loaded {
    Ok(loaded) => loaded.map(|loaded| compact(&loaded.text)),
    Err(error) => Some(format!("damaged: {error}")),
  };
  let found = [
    version(text(store.load_session(&s, 0))),
    version(text(store.load_task_tree(&s, 0))),
    version(text(store.load_task_result(&s, &task()))),
  ];
  let mut allowed = vec![[Some("old"); 3]];
  let changed = match method {
    Method::SaveSession | Method::SaveUnchangedSession | Method::SaveOwnedSession => {
      Some([Some("new"), Some("old"), Some("old")])
    }
    Method::SaveTaskTree => Some([Some("old"), Some("new"), Some("old")]),
    Method::SaveTaskResult => Some([Some("old"), Some("old"), Some("new")]),
    Method::RestoreCheckpoint | Method::RecoverSession => Some([Some("new"), Some("new"), Some("old")]),
    Method::DeleteSession | Method::DeleteExpiredSessions => Some([None; 3]),
    _ => None,
  };
  match (changed, ending) {
    (Some(changed), Ending::Acknowledged) => allowed = vec![changed],
    (Some(changed), Ending::Unknown) => allowed.push(changed),
    _ => {}
  }
  let are_allowed = allowed.contains(&found);
  (found, are_allowed)
}

/// Opens the disk again, and returns what is wrong with the stored data. Then writes to it, which must work too.
pub fn check_disk(
  disk: &FaultyDisk,
  method: Method,
  baseline: &Baseline,
  ending: Ending,
  created: Option<&CheckpointId>,
) -> Vec<String> {
  disk.plan(Plan::Nothing);
  let mut findings = Vec::new();
  let mut check = |holds: bool, finding: String| {
    if !holds {
      findings.push(finding);
    }
  };
  if let Some(target) = disk.target("s", "latest") {
    let names = disk.holds(&format!("s/{target}"));
    check(names, format!("the latest link names {target}, which is missing"));
  }
  let store = open(disk);
  let s = session();
  let (found, are_allowed) = documents(&store, method, ending);
  check(are_allowed, format!("the documents are {found:?}"));

  if (ending, method) == (Ending::Acknowledged, Method::CreateSessionDirectory) {
    check(disk.holds("other/logs"), "the new directories are missing".to_owned());
  }

  let series = Series::from(&s);
  let entries = store.list(&series, 0, 0).map(|list| list.entries).unwrap_or_default();
  let mut whole = Vec::new();
  for read in entries.iter().filter_map(|entry| store.read_entry(&series, entry)) {
    match read {
      Ok(stored) => whole.push(stored.id),
      Err(damaged) => check(false, format!("damaged: {}", damaged.error)),
    }
  }
  let is_deletion = matches!(method, Method::DeleteSession | Method::DeleteExpiredSessions);
  let is_deleted = found == [None; 3] && is_deletion;
  for (age, id) in baseline.checkpoints.iter().enumerate() {
    // Retention deletes the oldest for a new one. Some methods delete others.
    let may_be_deleted = match method {
      Method::CreateCheckpoint | Method::CreateCompressedCheckpoint | Method::CreateCheckpointAfterParent => {
        age == 0 && whole.len() >= LIMIT
      }
      Method::CreateDeltas => whole.len() >= LIMIT,
      // If one deletion fails, the others continue.
      Method::DeleteAllCheckpoints => true,
      Method::DeleteCheckpoint => age == 0 && ending != Ending::Failed,
      Method::DeleteNewestCheckpoint => age == LIMIT - 1 && ending != Ending::Failed,
      // Some are deleted before the one that fails.
      Method::Prune => age < LIMIT - 1,
      _ => is_deleted,
    };
    check(
      may_be_deleted || whole.contains(id),
      format!("lost the checkpoint {id}"),
    );
  }
  let retention = store.retention_of(&s);
  let allowed = match method {
    Method::SetRetention => [Some(keep(7)), Some(keep(8))],
    Method::UnsetRetention | Method::DeleteSession | Method::DeleteExpiredSessions => [Some(keep(7)), None],
    _ => [Some(keep(7)); 2],
  };
  let is_whole = retention.as_ref().is_ok_and(|found| allowed.contains(found));
  check(is_whole, format!("the retention is {retention:?}"));
  check(
    is_imported(&store).is_some(),
    "a session was imported in part".to_owned(),
  );
  if ending == Ending::Acknowledged {
    check(is_done(&store, method), "the acknowledged change is lost".to_owned());
  }
  for read in store
    .verify_session(&s, &Control::default())
    .map(|report| report.agents)
    .unwrap_or_default()
  {
    let all_whole = read.1.iter().all(Result::is_ok);
    check(all_whole, "an agent's checkpoint is damaged".to_owned());
  }
  if let (Ending::Acknowledged, Some(created)) = (ending, created) {
    check(whole.contains(created), format!("lost the new checkpoint {created}"));
  }
  let deleted = match method {
    Method::DeleteCheckpoint => baseline.checkpoints.first(),
    Method::DeleteNewestCheckpoint => baseline.checkpoints.last(),
    _ => None,
  };
  if (ending, method) == (Ending::Acknowledged, Method::DeleteAllCheckpoints) {
    check(whole.is_empty(), "deleted checkpoints reappeared".to_owned());
    let removed = store.delete_unused_bases(&series);
    let bases = disk.bases();
    check(removed.is_ok() && bases.is_empty(), format!("unused bases: {bases:?}"));
  }
  if let (Ending::Acknowledged, Some(deleted)) = (ending, deleted) {
    check(!whole.contains(deleted), "a deleted checkpoint reappeared".to_owned());
  }

  if [Method::AcquireSession, Method::SaveOwnedSession, Method::ReleaseSession].contains(&method) {
    let taken = take(&store);
    check(taken.is_ok(), format!("the session cannot be acquired: {taken:?}"));
  }

  findings.extend(afterwards(disk, store, baseline));
  findings
}

/// Checks that every method works again, and that no temporary files are left.
fn afterwards(disk: &FaultyDisk, store: OpenStore, baseline: &Baseline) -> Vec<String> {
  let mut findings = Vec::new();
  for method in METHODS {
    // These methods need a checkpoint that may be deleted by now, or a name that exists.
    let cannot_repeat = [
      Method::RestoreCheckpoint,
      Method::PinCheckpoint,
      Method::LabelCheckpoint,
      Method::ForkSession,
      Method::ImportSession,
    ];
    if !cannot_repeat.contains(&method) {
      let again = run(&store, method, baseline);
      if again.is_err() {
        findings.push(format!("afterwards {method:?} fails: {again:?}"));
      }
    }
  }
  drop(store);
  // The first write of a new process into a directory sweeps it.
  let swept = open(disk);
  let writes = [
    Method::CreateCheckpoint,
    Method::SaveSession,
    Method::SaveTaskResult,
    Method::SaveAgent,
    Method::ReleaseSession,
  ];
  for method in writes {
    let _ = run(&swept, method, baseline);
  }
  // These sessions may exist in part, and nothing writes to them.
  let _ = swept.delete_session(&fork());
  let _ = swept.delete_session(&imported());
  let left = disk.temporaries();
  if !left.is_empty() || disk.is_pending() {
    findings.push(format!("left over: {left:?}"));
  }
  findings
}
