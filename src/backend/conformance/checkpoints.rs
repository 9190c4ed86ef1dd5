//! Checkpoints: peeks, lists, agents and encodings.

use super::Shorthand as _;
use super::{Factory, all_series, checkpoint, opened, session, stored, write_if};
use crate::backend::{
  BackendExt, CheckpointEntry, Encoding, Item, Peek, Precondition, PutOptions, PutOutcome, RetentionScope, Series,
};
use crate::types::id::{AgentId, CheckpointId};
use crate::types::time::Timestamp;

pub fn peek_returns_both_ends(new_backend: Factory<'_>) {
  let backend = opened(new_backend);
  let s = session("s");
  let entry = |id| CheckpointEntry::new(checkpoint(id), Encoding::Json, Timestamp::default);
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
    let page = backend
      .list_for_retention(&(&s).into(), RetentionScope::Beyond(keep))
      .unwrap();
    assert_eq!(page.newest.as_ref(), listed.first());
    assert_eq!(page.entries, listed[keep.min(5)..], "{keep}");
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

pub fn sessions_with_a_checkpoint_are_listed(new_backend: Factory<'_>) {
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

pub fn agents_have_checkpoints_of_their_own(new_backend: Factory<'_>) {
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
  let page = backend
    .list_for_retention(&series[0], RetentionScope::Beyond(0))
    .unwrap();
  assert_eq!(page.entries.len(), 1);
  assert!(backend.remove(&s, series[0].item_of(&page.entries[0])).unwrap());
  assert!(!backend.remove(&s, series[0].item_of(&page.entries[0])).unwrap());
  backend.sync_deletes(&series[0]).unwrap();
  backend.vacuum().unwrap();
  for (number, series) in series.iter().enumerate() {
    let read = backend.read(&s, series.item(&id, Encoding::Json), u64::MAX).unwrap();
    let expected = (number > 0).then(|| number.to_string().into_bytes());
    assert_eq!(read, expected, "{series}");
    assert_eq!(backend.checkpoints(series).unwrap().len(), usize::from(number > 0));
    let peeked = backend.peek_in(series, &page.entries, 1, 1).unwrap();
    assert_eq!(peeked[0].as_ref().unwrap().is_some(), number > 0);
  }
  let only = vec![s.clone()];
  assert_eq!(backend.sessions_with_checkpoint(&id).unwrap(), only);
  assert_eq!(backend.all_sessions().unwrap(), only);
  backend.delete_any(&s).unwrap();
  assert!(backend.agents(&s).unwrap().is_empty() && backend.all_sessions().unwrap().is_empty());
}

pub fn a_checkpoint_has_one_encoding(new_backend: Factory<'_>) {
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
      assert_eq!((found.encoding, found.is_pinned), (encoding, true), "the pin is kept");
      let listed: Vec<_> = backend.checkpoints(&series).unwrap();
      assert_eq!(listed.iter().map(|entry| &entry.id).collect::<Vec<_>>(), [newer, older]);
      assert_eq!(listed[1], found);
      for other in Encoding::ALL {
        let read = backend.read(&series.session, series.item(older, other), 100).unwrap();
        assert_eq!(read.is_some(), other == encoding);
      }
    }
    // A caller may pass an encoding that the checkpoint no longer has.
    assert!(
      backend
        .remove(&series.session, series.item(older, Encoding::Delta))
        .unwrap()
    );
    put(older, Encoding::Json, &Precondition::None);
    let entry = CheckpointEntry::new(older.clone(), Encoding::Delta, Timestamp::default);
    assert!(backend.delete_surplus(&series, &entry, None).unwrap());
    assert_eq!(backend.checkpoints(&series).unwrap().len(), 1);
  }
}
