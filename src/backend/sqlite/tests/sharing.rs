//! Several backends on one file, and its permissions.

use std::thread;

use rusqlite::Connection;

use super::*;

#[cfg(unix)]
#[test]
fn files_and_directories_are_accessible_to_their_owner_only() {
  use std::os::unix::fs::PermissionsExt;
  let root = tempfile::tempdir().unwrap();
  let directory = root.path().join("new/and below");
  let backend = SqliteBackend::new(directory.join("store.db"), Settings::default());
  backend.open().unwrap();
  backend.put(&session("s"), Item::SESSION, b"{}").unwrap();
  let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
  for name in ["store.db", "store.db-wal", "store.db-shm"] {
    assert_eq!(mode(directory.join(name)), 0o600, "{name}");
  }
  assert_eq!(mode(directory.clone()), 0o700);
  assert_eq!(mode(root.path().join("new")), 0o700);
}

#[test]
fn two_backends_on_one_file_see_the_changes_of_each_other() {
  let (root, one) = backend();
  let two = open(&root);
  let (s, series) = (session("s"), Series::from(session("s")));
  for number in 0..6 {
    write_checkpoint(if number % 2 == 0 { &one } else { &two }, &series, number, b"{}");
  }
  let numbers = |entries: Vec<CheckpointEntry>| {
    entries
      .into_iter()
      .map(|entry| entry.made_at.as_millis())
      .collect::<Vec<_>>()
  };
  for backend in [&one, &two] {
    assert_eq!(numbers(backend.checkpoints(&series).unwrap()), [5, 4, 3, 2, 1, 0]);
    let listed = backend.list_for_retention(&series, RetentionScope::Beyond(4)).unwrap();
    assert_eq!(listed.newest, Some(entry(5)));
    assert_eq!(numbers(listed.entries), [1, 0]);
  }
  one.delete_surplus(&series, &entry(0), None).unwrap();
  assert_eq!(
    numbers(
      two
        .list_for_retention(&series, RetentionScope::Beyond(4))
        .unwrap()
        .entries
    ),
    [1]
  );
  two.set_pinned(&series, &checkpoint(1), true).unwrap();
  one.delete_surplus(&series, &entry(1), None).unwrap();
  assert_eq!(one.checkpoints(&series).unwrap().len(), 5);
  assert!(
    one
      .list_for_retention(&series, RetentionScope::Beyond(4))
      .unwrap()
      .entries
      .is_empty()
  );
  two.delete_any(&s).unwrap();
  assert!(one.all_sessions().unwrap().is_empty());
}

#[test]
fn backends_on_one_file_write_concurrently() {
  let root = tempfile::tempdir().unwrap();
  let s = session("s");
  thread::scope(|scope| {
    for writer in 0..4 {
      let (root, s) = (&root, &s);
      scope.spawn(move || {
        let backend = open(root);
        for number in 0..25 {
          write_checkpoint(&backend, &s.into(), writer * 100 + number, &[b'x'; 3000]);
          let longer = |old: Option<Vec<u8>>| Ok(Some([old.unwrap_or_default(), b"x".to_vec()].concat()));
          backend.update(s, Document::Labels, u64::MAX, &mut { longer }).unwrap();
        }
      });
    }
  });
  let backend = open(&root);
  assert_eq!(backend.checkpoints(&(&s).into()).unwrap().len(), 100);
  assert_eq!(backend.read(&s, Item::LABELS, u64::MAX).unwrap().unwrap().len(), 100);
}

#[test]
fn backends_create_one_file_concurrently() {
  for _ in 0..20 {
    let root = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
      for writer in 0..4 {
        let root = &root;
        scope.spawn(move || open(root).create_empty(&session(&writer.to_string())).unwrap());
      }
    });
    assert_eq!(open(&root).all_sessions().unwrap().len(), 4);
  }
}

#[test]
fn a_reader_does_not_block_a_writer() {
  let (root, backend) = backend();
  let (s, other) = (session("s"), open(&root));
  backend.put(&s, Item::SESSION, b"old").unwrap();
  let row = RowKey::of(&s, Item::SESSION);
  let read = |connection: &Connection| match row.read(connection, 9) {
    Ok(Some(StoredBytes::Complete(bytes))) => bytes,
    _ => Vec::new(),
  };
  let read = other.readers.read(|connection| {
    let before = read(connection);
    backend.put(&s, Item::SESSION, b"new").unwrap();
    Ok((before, read(connection)))
  });
  assert_eq!(read.unwrap(), (b"old".to_vec(), b"old".to_vec()));
  assert_eq!(other.read(&s, Item::SESSION, 9).unwrap().unwrap(), b"new");
}
