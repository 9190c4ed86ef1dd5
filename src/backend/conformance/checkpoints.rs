//! Checkpoints, their order, and what deltas stand on.

use std::thread;

use super::Shorthand as _;
use super::{Factory, checkpoint, opened, session};
use crate::backend::{
  BackendExt, BaseRef, CheckpointEntry, DocumentUpdate, Encoding, Item, Newest, Parent, Peek, Precondition, PutOptions,
  PutOutcome, RetentionScope, Series, Usage,
};
use crate::codec::delta::{self, Reference};
use crate::types::id::{AgentId, CheckpointId};

pub fn a_peek_shows_both_ends(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let entry = |id| CheckpointEntry::new(checkpoint(id), Encoding::Json, || 0);
  let entries = [entry("cp-1-000000"), entry("cp-2-000000"), entry("cp-3-000000")];
  let peek = |head, tail| {
    let peeked = backend.peek_in(&(&s).into(), &entries, head, tail).unwrap();
    peeked.into_iter().map(Result::unwrap).collect::<Vec<_>>()
  };
  assert_eq!(peek(3, 2), [None, None, None]);
  backend
    .put(&s, Series::from(&s).item_of(&entries[0]), b"0123456789")
    .unwrap();
  backend.put(&s, Series::from(&s).item_of(&entries[2]), b"").unwrap();
  for (head, tail, first, last) in [(3, 2, "012", "89"), (20, 9, "0123456789", "123456789"), (0, 0, "", "")] {
    let whole = |head: &str, tail: &str, size| {
      let (head, tail) = (head.into(), tail.into());
      Some(Peek { head, tail, size })
    };
    assert_eq!(peek(head, tail), [whole(first, last, 10), None, whole("", "", 0)]);
  }
}

pub fn checkpoints_are_listed_newest_first(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let made = [
    ("cp-mwima86h-000002", Encoding::Json),
    ("cp-mwima86i-000000", Encoding::Gzip),
    ("cp-mwima86h-00000z", Encoding::Gzip),
    ("cp-1-000000", Encoding::Json),
    ("foreign", Encoding::Json),
  ];
  for (id, encoding) in made {
    backend
      .put(&s, Item::Checkpoint(None, &checkpoint(id), encoding), b"{}")
      .unwrap();
  }
  let listed = backend.checkpoints(&(&s).into()).unwrap();
  let ids: Vec<_> = listed
    .iter()
    .map(|entry| entry.id.as_str())
    .filter(|id| *id != "foreign")
    .collect();
  assert_eq!(
    ids,
    [
      "cp-mwima86i-000000",
      "cp-mwima86h-00000z",
      "cp-mwima86h-000002",
      "cp-1-000000"
    ]
  );
  assert_eq!(listed.len(), 5);
  for keep in [0, 1, 4, 5, 9, usize::MAX] {
    let surplus = backend
      .list_for_retention(&(&s).into(), RetentionScope::Beyond(keep))
      .unwrap();
    assert_eq!(surplus.newest.as_ref(), listed.first());
    assert_eq!(surplus.entries, listed[keep.min(5)..], "{keep}");
  }
  assert_eq!(
    backend
      .list_for_retention(&(&s).into(), RetentionScope::All)
      .unwrap()
      .entries,
    listed
  );
  assert!(
    listed
      .iter()
      .all(|entry| made.contains(&(entry.id.as_str(), entry.encoding)))
  );
}

pub fn a_checkpoint_is_found_in_every_session_that_holds_it(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let id = checkpoint("cp-1-000000");
  backend
    .put(&session("b"), Item::Checkpoint(None, &id, Encoding::Gzip), b"x")
    .unwrap();
  backend
    .put(&session("a"), Item::Checkpoint(None, &id, Encoding::Json), b"x")
    .unwrap();
  backend
    .put(
      &session("c"),
      Item::Checkpoint(None, &checkpoint("cp-2-000000"), Encoding::Json),
      b"x",
    )
    .unwrap();
  assert_eq!(
    backend.sessions_with_checkpoint(&id).unwrap(),
    [session("a"), session("b")]
  );
}

/// Every read in the middle of it sees one whole write, and two items written together end up of one kind.
pub fn agents_have_rows_of_their_own(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, id) = (session("s"), checkpoint("cp-1-000000"));
  let of = |agent: &str| Series {
    session: s.clone(),
    agent: Some(AgentId::parse(agent).unwrap()),
  };
  let series = [of("a"), of("b"), (&s).into()];
  assert!(backend.agents(&s).unwrap().is_empty());
  for (number, series) in series.iter().enumerate() {
    let bytes = number.to_string();
    backend.put(&s, series.item(&id, Encoding::Json), &bytes).unwrap();
  }
  let names: Vec<_> = backend.agents(&s).unwrap().iter().map(ToString::to_string).collect();
  assert_eq!(names, ["a", "b"]);
  assert_eq!(
    (
      backend.usage_of(&s).unwrap().checkpoints,
      backend.usage_of(&s).unwrap().agent_checkpoints
    ),
    (1, 2)
  );
  let surplus = backend
    .list_for_retention(&series[0], RetentionScope::Beyond(0))
    .unwrap();
  assert_eq!(surplus.entries.len(), 1);
  assert!(backend.remove(&s, series[0].item_of(&surplus.entries[0])).unwrap());
  assert!(!backend.remove(&s, series[0].item_of(&surplus.entries[0])).unwrap());
  backend.sync_deletes(&series[0]).unwrap();
  backend.vacuum().unwrap();
  for (number, series) in series.iter().enumerate() {
    let read = backend.read(&s, series.item(&id, Encoding::Json), u64::MAX).unwrap();
    let expected = (number > 0).then(|| number.to_string().into_bytes());
    assert_eq!(read, expected, "{series}");
    assert_eq!(backend.checkpoints(series).unwrap().len(), usize::from(number > 0));
    let peeked = backend.peek_in(series, &surplus.entries, 1, 1).unwrap();
    assert_eq!(peeked[0].as_ref().unwrap().is_some(), number > 0);
  }
  let only = vec![s.clone()];
  assert_eq!(backend.sessions_with_checkpoint(&id).unwrap(), only);
  assert_eq!(backend.all_sessions().unwrap(), only);
  backend.delete_any(&s).unwrap();
  assert!(backend.agents(&s).unwrap().is_empty() && backend.all_sessions().unwrap().is_empty());
}

pub fn a_pinned_checkpoint_is_not_retired_and_not_counted(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let (s, series) = (session("s"), Series::from(session("s")));
  let ids: Vec<_> = (1..=4)
    .map(|number| checkpoint(&format!("cp-{number}-000000")))
    .collect();
  assert!(!backend.set_pinned(&series, &ids[0], true).unwrap());
  for id in &ids {
    backend.put(&s, series.item(id, Encoding::Json), b"{}").unwrap();
  }
  let surplus = |keep| {
    let entries = backend
      .list_for_retention(&series, RetentionScope::Beyond(keep))
      .unwrap()
      .entries;
    entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>()
  };
  assert_eq!(surplus(2), [ids[1].clone(), ids[0].clone()]);
  assert!(!backend.set_pinned(&series, &checkpoint("cp-9-000000"), true).unwrap());
  for _ in 0..2 {
    assert!(backend.set_pinned(&series, &ids[0], true).unwrap());
  }
  assert_eq!(surplus(2), [ids[1].clone()]);
  assert_eq!(surplus(0).len(), 3);
  assert_eq!(
    backend
      .list_for_retention(&series, RetentionScope::All)
      .unwrap()
      .entries
      .len(),
    4
  );
  let pinned = backend.checkpoints(&series).unwrap().pop().unwrap();
  assert!(pinned.is_pinned && pinned.id == ids[0]);
  assert!(!backend.delete_surplus(&series, &pinned, None).unwrap());
  assert_eq!(backend.usage_of(&s).unwrap().pinned, 1);
  assert!(backend.set_pinned(&series, &ids[0], false).unwrap());
  assert_eq!(surplus(2).len(), 2);
  assert!(backend.delete_surplus(&series, &pinned, None).unwrap());
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 3);
  // Who deletes it by name means it.
  backend.set_pinned(&series, &ids[3], true).unwrap();
  assert!(backend.remove(&s, series.item(&ids[3], Encoding::Json)).unwrap());
  backend.put(&s, series.item(&ids[3], Encoding::Json), b"{}").unwrap();
  assert!(!backend.checkpoints(&series).unwrap()[0].is_pinned);
}

pub fn a_delta_needs_its_key_and_the_key_goes_with_the_last_one(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let agent = AgentId::parse("a").unwrap();
  for series in [
    Series::from(&s),
    Series {
      session: s.clone(),
      agent: Some(agent),
    },
  ] {
    let ids: Vec<_> = (0..4)
      .map(|number| checkpoint(&format!("cp-1-00000{number}")))
      .collect();
    let (key, other_key) = (&ids[0], &ids[3]);
    let bytes = |key: &CheckpointId| {
      let reference = Reference {
        key: key.clone(),
        bytes: 4,
        checksum: 0,
        is_same: true,
      };
      delta::compose(&reference, "{}", b"")
    };
    let write = |id: &CheckpointId, key: &CheckpointId, known, added| {
      let base = BaseRef {
        id: key,
        known,
        added,
        fingerprint: None,
      };
      let write = PutOptions {
        base: Some(base),
        ..PutOptions::new(Encoding::Delta)
      };
      match backend.put_checkpoint(&series, id, &bytes(key), &write).unwrap() {
        PutOutcome::Stored { size, .. } => Some(size),
        PutOutcome::BaseIsGone => None,
        other => unreachable!("there are locks here, and no conditions: {other:?}"),
      }
    };
    let read = |key| backend.read(&s, series.base(key), u64::MAX).unwrap();

    assert_eq!(write(&ids[1], key, 4, b""), None, "there is no key");
    assert!(backend.checkpoints(&series).unwrap().is_empty());
    assert_eq!(write(&ids[0], key, 0, b"key!"), Some(bytes(key).len() as u64));
    assert_eq!(write(&ids[1], key, 5, b"more"), None, "the key is shorter");
    assert!(write(&ids[1], key, 4, b" and more").is_some());
    assert_eq!(read(key).unwrap(), b"key! and more");
    assert!(write(&ids[2], key, 4, b"").is_some());
    // A new key of the same name never replaces what checkpoints are based on.
    assert!(write(&ids[2], key, 0, b"key!").is_some(), "it is the beginning");
    assert_eq!(read(key).unwrap(), b"key! and more");
    assert_eq!(write(&ids[2], key, 0, b"kex! and more"), None, "it is another");
    assert_eq!(read(key).unwrap(), b"key! and more");
    assert_eq!(backend.sized_bases(&series).unwrap(), [(key.clone(), 13)]);
    assert_eq!(backend.checkpoints(&series).unwrap().len(), 3);
    assert_eq!(backend.delete_unused_bases(&series).unwrap(), 0);

    // The one that it was made for is not needed for it.
    assert!(backend.remove(&s, series.item(&ids[0], Encoding::Delta)).unwrap());
    assert!(read(key).is_some());
    let retired = CheckpointEntry::new(ids[1].clone(), Encoding::Delta, || 0);
    backend.delete_surplus(&series, &retired, None).unwrap();
    assert!(read(key).is_some());
    assert!(write(&ids[3], other_key, 0, b"other").is_some());
    assert!(backend.remove(&s, series.item(&ids[2], Encoding::Delta)).unwrap());
    assert_eq!((read(key), read(other_key).is_some()), (None, true));
    assert_eq!(write(&ids[2], key, 4, b""), None, "it is gone");

    // What an interruption may leave.
    backend.put(&s, series.base(key), b"orphan").unwrap();
    assert_eq!(backend.delete_unused_bases(&series).unwrap(), 6);
    assert_eq!(backend.sized_bases(&series).unwrap(), [(other_key.clone(), 5)]);
    let usage = backend.usage_of(&s).unwrap();
    assert!(usage.total_bytes >= 5 + bytes(other_key).len() as u64);
  }
  backend.delete_any(&s).unwrap();
  assert_eq!(backend.usage_of(&s).unwrap(), Usage::default());
  assert!(backend.sized_bases(&s.into()).unwrap().is_empty());
}

/// A session's own checkpoints, and those of an agent.
fn all_series() -> [Series; 2] {
  let own = Series::from(session("s"));
  let agent = Series {
    agent: Some(AgentId::parse("a").unwrap()),
    ..own.clone()
  };
  [own, agent]
}

fn write_if(precondition: &Precondition) -> PutOptions<'static> {
  PutOptions {
    precondition: precondition.clone(),
    ..PutOptions::new(Encoding::Json)
  }
}

fn stored(size: u64) -> PutOutcome {
  PutOutcome::Stored {
    size,
    base: None,
    retention: None,
  }
}

fn newest(parent: Parent, later: &[&str]) -> Precondition {
  Precondition::Newest(Newest {
    parent,
    later: later.iter().map(|id| checkpoint(id)).collect(),
  })
}

pub fn a_checkpoint_comes_after_the_one_that_was_expected_or_not_at_all(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let series = Series::from(session("s"));
  let put = |id: &str, precondition: &Precondition| {
    let write = write_if(precondition);
    backend
      .put_checkpoint(&series, &checkpoint(id), b"content", &write)
      .unwrap()
  };
  let after = |id: &str| newest(Parent::Checkpoint(checkpoint(id)), &[]);
  let first = newest(Parent::Missing, &[]);

  assert_eq!(put("cp-1-000000", &after("cp-0-000000")), PutOutcome::Conflict(None));
  assert!(
    backend.all_sessions().unwrap().is_empty(),
    "a write that is refused creates no session"
  );
  assert_eq!(put("cp-1-000000", &first), stored(7));
  assert_eq!(
    put("cp-2-000000", &first),
    PutOutcome::Conflict(Some(checkpoint("cp-1-000000")))
  );
  assert_eq!(put("cp-2-000000", &after("cp-1-000000")), stored(7));
  assert_eq!(put("cp-3-000000", &Precondition::None), stored(7));
  let third = Some(checkpoint("cp-3-000000"));
  assert_eq!(put("cp-4-000000", &after("cp-2-000000")), PutOutcome::Conflict(third));
  assert_eq!(backend.checkpoints(&series).unwrap().len(), 3);
  // Of many writers that have seen the same parent, one succeeds.
  let (put, after) = (&put, &after);
  let winners = thread::scope(|scope| {
    let writers: Vec<_> = (0..8)
      .map(|number| scope.spawn(move || put(&format!("cp-5-00000{number}"), &after("cp-3-000000"))))
      .collect();
    let outcomes = writers.into_iter().map(|writer| writer.join().unwrap());
    outcomes.filter(|put| matches!(put, PutOutcome::Stored { .. })).count()
  });
  assert_eq!(winners, 1);
}

pub fn a_new_checkpoint_is_newer_than_those_of_other_writers(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  for series in all_series() {
    let put = |id: &str, precondition: &Precondition| {
      let write = write_if(precondition);
      backend
        .put_checkpoint(&series, &checkpoint(id), b"content", &write)
        .unwrap()
    };
    let is_behind = |put: PutOutcome, id: &str| matches!(put, PutOutcome::Behind(newer) if newer.id == checkpoint(id));

    assert_eq!(put("cp-5-000000", &newest(Parent::Any, &[])), stored(7));
    for id in ["cp-4-zzzzzz", "cp-1-000000"] {
      assert!(is_behind(put(id, &newest(Parent::Any, &[])), "cp-5-000000"), "{id}");
      let after = newest(Parent::Checkpoint(checkpoint("cp-5-000000")), &[]);
      assert!(is_behind(put(id, &after), "cp-5-000000"), "{id}");
    }
    assert_eq!(put("cp-5-000001", &newest(Parent::Any, &[])), stored(7));
    // Those of later calls of the same store may be newer.
    assert!(is_behind(
      put("cp-3-000000", &newest(Parent::Any, &["cp-5-000001"])),
      "cp-5-000000"
    ));
    assert_eq!(
      put("cp-3-000000", &newest(Parent::Any, &["cp-5-000001", "cp-5-000000"])),
      stored(7)
    );
    assert!(
      is_behind(put("cp-5-000001", &newest(Parent::Any, &[])), "cp-5-000001"),
      "another store has chosen the same id"
    );
    assert_eq!(put("cp-2-000000", &Precondition::None), stored(7));
    // A name that carries no time has that of its arrival.
    assert_eq!(put("backup", &Precondition::None), stored(7));
    assert!(is_behind(put("cp-6-000000", &newest(Parent::Any, &[])), "backup"));
    // It keeps that time when it is replaced, in the same step.
    let backup = || backend.find(&series, &checkpoint("backup")).unwrap().unwrap();
    let earlier = CheckpointEntry {
      made_at: 1000,
      ..backup()
    };
    backend.set_made_at(&series, &earlier).unwrap();
    for precondition in [Precondition::Exists, Precondition::None] {
      for encoding in [Encoding::Gzip, Encoding::Json] {
        let write = PutOptions {
          encoding,
          ..write_if(&precondition)
        };
        let put = backend
          .put_checkpoint(&series, &checkpoint("backup"), b"content", &write)
          .unwrap();
        assert_eq!(put, stored(7));
        assert_eq!((backup().encoding, backup().made_at), (encoding, 1000));
      }
    }
    assert_eq!(backend.checkpoints(&series).unwrap().len(), 5);
  }
}

pub fn of_two_writers_that_choose_the_same_id_one_stores_it(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let series = Series::from(session("s"));
  let must_be_newest = newest(Parent::Any, &[]);
  for round in 0..20 {
    let id = checkpoint(&format!("cp-{}-000000", round + 1));
    let write = |encoding: Encoding| {
      let write = PutOptions {
        encoding,
        ..write_if(&must_be_newest)
      };
      backend.put_checkpoint(&series, &id, &encoding.name(), &write).unwrap()
    };
    let encodings = [Encoding::Json, Encoding::Gzip];
    let puts: Vec<_> = thread::scope(|scope| {
      let writers = encodings.map(|encoding| scope.spawn(move || (encoding, write(encoding))));
      writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let stored: Vec<_> = puts
      .iter()
      .filter(|(_, put)| matches!(put, PutOutcome::Stored { .. }))
      .map(|(encoding, _)| *encoding)
      .collect();
    let [stored] = stored[..] else {
      panic!("one of two: {puts:?}");
    };
    let found = backend.find(&series, &id).unwrap().unwrap();
    assert_eq!(found.encoding, stored);
    let read = backend.read(&series.session, series.item_of(&found), 100).unwrap();
    assert_eq!(read.unwrap(), stored.name().as_bytes());
  }
}

pub fn a_checkpoint_is_stored_in_one_encoding(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  for series in all_series() {
    let ids = ["cp-1-000000", "cp-2-000000"].map(checkpoint);
    let put = |id: &CheckpointId, encoding, precondition: &Precondition| {
      let write = PutOptions {
        encoding,
        ..write_if(precondition)
      };
      backend.put_checkpoint(&series, id, &encoding.name(), &write).unwrap()
    };
    let [older, newer] = &ids;
    let missing = put(older, Encoding::Zstd, &Precondition::Exists);
    assert_eq!(missing, PutOutcome::Missing);
    assert!(backend.checkpoints(&series).unwrap().is_empty());
    assert_eq!(backend.find(&series, older).unwrap(), None);
    for id in &ids {
      put(id, Encoding::Json, &Precondition::None);
    }
    assert!(backend.set_pinned(&series, older, true).unwrap());
    for (precondition, encoding) in [
      (Precondition::Exists, Encoding::Zstd),
      (Precondition::None, Encoding::Gzip),
      (Precondition::Exists, Encoding::Gzip),
      (Precondition::Exists, Encoding::Json),
    ] {
      let size = encoding.name().len() as u64;
      assert_eq!(put(older, encoding, &precondition), stored(size));
      let found = backend.find(&series, older).unwrap().unwrap();
      assert_eq!((found.encoding, found.is_pinned), (encoding, true), "the pin stays");
      let listed: Vec<_> = backend.checkpoints(&series).unwrap();
      assert_eq!(listed.iter().map(|entry| &entry.id).collect::<Vec<_>>(), [newer, older]);
      assert_eq!(listed[1], found);
      for other in Encoding::ALL {
        let read = backend.read(&series.session, series.item(older, other), 100).unwrap();
        assert_eq!(read.is_some(), other == encoding);
      }
    }
    // Whatever encoding the caller believes that it has.
    assert!(
      backend
        .remove(&series.session, series.item(older, Encoding::Delta))
        .unwrap()
    );
    put(older, Encoding::Json, &Precondition::None);
    let entry = CheckpointEntry::new(older.clone(), Encoding::Delta, || 0);
    assert!(backend.delete_surplus(&series, &entry, None).unwrap());
    assert_eq!(backend.checkpoints(&series).unwrap().len(), 1);
  }
}

pub fn the_newest_checkpoint_is_never_retired(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  for series in all_series() {
    let ids = ["cp-1-000000", "cp-2-000000", "cp-2-000001"].map(checkpoint);
    for id in &ids {
      backend
        .put_checkpoint(&series, id, b"content", &write_if(&Precondition::None))
        .unwrap();
    }
    let entries = backend.checkpoints(&series).unwrap();
    assert!(!backend.delete_surplus(&series, &entries[0], None).unwrap());
    // Retention has decided on a list that is older than this.
    assert!(backend.remove(&series.session, series.item_of(&entries[0])).unwrap());
    assert!(!backend.delete_surplus(&series, &entries[1], None).unwrap());
    assert!(backend.delete_surplus(&series, &entries[2], None).unwrap());
    backend.sync_deletes(&series).unwrap();
    let left: Vec<_> = backend.checkpoints(&series).unwrap();
    assert_eq!(left, [entries[1].clone()]);
  }
}

pub fn labels_change_in_one_step_with_a_look_at_the_checkpoints(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let series = Series::from(&s);
  let refused = backend.update_labels(&s, 100, &mut |old, entries| {
    assert!(old.is_none() && entries.is_empty());
    Err(crate::types::error::Error::invalid_argument("no"))
  });
  assert!(refused.is_err());
  assert!(
    backend.all_sessions().unwrap().is_empty(),
    "a change that is refused creates no session"
  );
  for number in 0..3 {
    let id = checkpoint(&format!("cp-1-00000{number}"));
    backend
      .put_checkpoint(&series, &id, b"content", &write_if(&Precondition::None))
      .unwrap();
  }
  // Each of many writers finds the labels of all others that are done.
  thread::scope(|scope| {
    for letter in b'a'..=b'h' {
      let (backend, s) = (&backend, &s);
      scope.spawn(move || {
        let append = &mut |old: Option<Vec<u8>>, entries: &[CheckpointEntry]| {
          assert_eq!(entries.len(), 3);
          Ok(Some(DocumentUpdate {
            document: Some([old.unwrap_or_default(), vec![letter]].concat()),
            relies_on: None,
          }))
        };
        backend.update_labels(s, 100, append).unwrap();
      });
    }
  });
  let mut labels = backend.read(&s, Item::LABELS, 100).unwrap().unwrap();
  labels.sort_unstable();
  assert_eq!(labels, b"abcdefgh");
  let remove = &mut |_: Option<Vec<u8>>, _: &[CheckpointEntry]| {
    Ok(Some(DocumentUpdate {
      document: None,
      relies_on: None,
    }))
  };
  for _ in 0..2 {
    backend.update_labels(&s, 100, remove).unwrap();
    assert_eq!(backend.read(&s, Item::LABELS, 100).unwrap(), None);
  }
}
