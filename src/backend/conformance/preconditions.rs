//! Preconditions of a new checkpoint.

use std::thread;

use super::Shorthand as _;
use super::{Factory, all_series, checkpoint, opened, session, stored, write_if};
use crate::backend::{
  BackendExt, CheckpointEntry, Encoding, Newest, Parent, Precondition, PutOptions, PutOutcome, Series,
};
use crate::types::time::Timestamp;

fn newest(parent: Parent, later: &[&str]) -> Precondition {
  Precondition::Newest(Newest {
    parent,
    later: later.iter().map(|id| checkpoint(id)).collect(),
  })
}

pub fn a_checkpoint_is_stored_only_after_its_expected_parent(new_backend: Factory<'_>) {
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
    "a write whose precondition fails creates no session"
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
  // One of many writers with the same parent succeeds.
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

pub fn a_new_checkpoint_must_be_newer_than_those_of_other_writers(new_backend: Factory<'_>) {
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
    // Checkpoints of later calls of the same store may be newer.
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
      "another store chose the same id"
    );
    assert_eq!(put("cp-2-000000", &Precondition::None), stored(7));
    // An id without a time has the time of the write.
    assert_eq!(put("backup", &Precondition::None), stored(7));
    assert!(is_behind(put("cp-6-000000", &newest(Parent::Any, &[])), "backup"));
    // It keeps that time when it is replaced.
    let backup = || backend.find(&series, &checkpoint("backup")).unwrap().unwrap();
    let earlier = CheckpointEntry {
      made_at: Timestamp::from_millis(1000),
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
        assert_eq!((backup().encoding, backup().made_at.as_millis()), (encoding, 1000));
      }
    }
    assert_eq!(backend.checkpoints(&series).unwrap().len(), 5);
  }
}

pub fn one_of_two_writers_with_the_same_id_succeeds(new_backend: Factory<'_>) {
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
      panic!("not one of two: {puts:?}");
    };
    let entry = backend.find(&series, &id).unwrap().unwrap();
    assert_eq!(entry.encoding, stored);
    let read = backend.read(&series.session, series.item_of(&entry), 100).unwrap();
    assert_eq!(read.unwrap(), stored.name().as_bytes());
  }
}
