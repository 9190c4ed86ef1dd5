//! How a checkpoint is stored: as one statement, with the key that a delta is based on, if its precondition holds.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::checkpoints::{CheckpointKey, Parts, where_id};
use super::connection::{Connection, Params, is_denied};
use super::documents::DocumentToken;
use super::failure::Failure;
use super::payload::{Payload, to_signed};
use super::sql::LOCK_SESSION;
use super::{leases, lists};
use crate::backend::{BaseRef, CheckpointEntry, Item, Newest, Parent, Precondition, PutOptions};
use crate::types::id::CheckpointId;

/// Stores a checkpoint on the parameters 1 to 12, if `$ground` has a row, in place of the same in any encoding, whose place in the
/// order stays. One that has to become the newest, by `$13`, replaces none: another store has chosen the same id.
macro_rules! insert {
  ($ground:literal) => {
    concat!(
      "put AS (
        INSERT INTO waymark.checkpoints
          (session, agent, id, encoding, made_at, pinned, size, key, packed, head, tail, middle)
        SELECT $1, $3::text, $4::text, $5::smallint, $6::bigint, false,
          $7::bigint, $8::text, $9::boolean, $10::bytea, $11::bytea, $12::bytea
        FROM ",
      $ground,
      " ON CONFLICT (id, session, agent) DO UPDATE SET encoding = excluded.encoding,
          size = excluded.size, key = excluded.key, packed = excluded.packed,
          head = excluded.head, tail = excluded.tail, middle = excluded.middle
          WHERE NOT $13::boolean
        RETURNING 1
      )"
    )
  };
}

/// The same for a checkpoint that has to exist. Its place in the order does not change.
macro_rules! replace {
  ($ground:literal) => {
    concat!(
      "put AS (
        UPDATE waymark.checkpoints SET encoding = $5::smallint, size = $7::bigint, key = $8::text, packed = $9::boolean,
          head = $10::bytea, tail = $11::bytea, middle = $12::bytea
        WHERE session = $1 AND agent = $3::text AND id = $4::text AND $6::bigint IS NOT NULL
          AND EXISTS (SELECT 1 FROM ",
      $ground,
      ")
        RETURNING 1
      )"
    )
  };
}

/// `ground` has a row if a key has so many bytes; it is kept from being removed until the statement is done.
macro_rules! on_key {
  ($place:literal, $key:literal, $known:literal, $added:literal) => {
    concat!(
      "base AS (
        SELECT start FROM waymark.keys
        WHERE session = $1 AND agent = $3 AND id = ",
      $key,
      "::text AND start = 0
          AND EXISTS (SELECT 1 FROM ",
      $place,
      ") FOR KEY SHARE
      ),
      ground AS (
        SELECT start FROM base WHERE ",
      $known,
      "::bigint <= (
          SELECT max(start + size) FROM waymark.keys WHERE session = $1 AND agent = $3 AND id = ",
      $key,
      "
        )
      ),
      cut AS (
        DELETE FROM waymark.keys WHERE session = $1 AND agent = $3 AND id = ",
      $key,
      " AND start > ",
      $known,
      "
          AND octet_length(",
      $added,
      "::bytea) > 0 AND EXISTS (SELECT 1 FROM ground)
      ),
      added AS (
        INSERT INTO waymark.keys (session, agent, id, start, size, bytes)
        SELECT $1, $3, ",
      $key,
      ", ",
      $known,
      ", octet_length(",
      $added,
      "), ",
      $added,
      " FROM ground
        WHERE octet_length(",
      $added,
      ") > 0
        ON CONFLICT (session, agent, id, start) DO UPDATE SET size = excluded.size, bytes = excluded.bytes
      ), "
    )
  };
}

/// `ground` has a row if a key could be made. One of that name is kept if it begins with the same bytes and is longer; if it
/// holds other bytes, nothing is done.
macro_rules! on_new_key {
  ($place:literal, $key:literal, $added:literal) => {
    concat!(
      "pieces AS (
        SELECT start, bytes FROM waymark.keys
        WHERE session = $1 AND agent = $3 AND id = ",
      $key,
      "::text AND EXISTS (SELECT 1 FROM ",
      $place,
      ")
        ORDER BY start FOR UPDATE
      ),
      present AS (SELECT coalesce(string_agg(bytes, ''::bytea ORDER BY start), ''::bytea) AS bytes FROM pieces),
      ground AS (
        SELECT octet_length(present.bytes) >= octet_length(",
      $added,
      "::bytea) AS is_longer FROM ",
      $place,
      ", present
        WHERE substring(present.bytes FROM 1 FOR octet_length(",
      $added,
      ")) = substring(",
      $added,
      " FROM 1 FOR octet_length(present.bytes))
      ),
      cut AS (
        DELETE FROM waymark.keys WHERE session = $1 AND agent = $3 AND id = ",
      $key,
      " AND start > 0
          AND EXISTS (SELECT 1 FROM ground WHERE NOT is_longer)
      ),
      added AS (
        INSERT INTO waymark.keys (session, agent, id, start, size, bytes)
        SELECT $1, $3, ",
      $key,
      ", 0, octet_length(",
      $added,
      "), ",
      $added,
      " FROM ground WHERE NOT is_longer
        ON CONFLICT (session, agent, id, start) DO UPDATE SET size = excluded.size, bytes = excluded.bytes
      ), "
    )
  };
}

/// A statement that stores a checkpoint which may have to become the newest: `fitting` has a row if it can. What was
/// acknowledged before the call began is seen by the statement; what is stored at the same time may come before or after it.
///
/// `$with` is `with_place`, or `with_session` where a parent has to exist, so that a refusal creates no session. `$13` says whether
/// it has to, `$14` are the checkpoints that may be newer, `$15` says whether the newest has to be `$16`.
macro_rules! if_newest {
  ($with:ident, $($sql:expr),+) => {
    $with!(
      "newest AS (
        SELECT id FROM waymark.checkpoints WHERE session = $1 AND agent = $3::text
        ORDER BY made_at DESC, id DESC LIMIT 1
      ),
      newer AS (
        SELECT id, encoding, made_at, pinned FROM waymark.checkpoints
        WHERE $13::boolean AND session = $1 AND agent = $3 AND (made_at, id) >= ($6::bigint, $4::text)
          AND id <> ALL ($14::text[])
        ORDER BY made_at DESC, id DESC LIMIT 1
      ),
      fitting AS (
        SELECT place.id FROM place
        WHERE (NOT $15::boolean OR (SELECT id FROM newest) IS NOT DISTINCT FROM $16::text)
          AND NOT EXISTS (SELECT 1 FROM newer)
      ), ",
      $($sql),+,
      answer!("put"),
      ", EXISTS (SELECT 1 FROM fitting), CASE WHEN $15 THEN (SELECT id FROM newest) END, newer.*
      FROM (SELECT 1) AS one LEFT JOIN newer ON true"
    )
  };
}

/// A statement that replaces a checkpoint which has to exist.
macro_rules! if_stored {
  ($ground:literal, $($sql:expr),+) => {
    with_session!($($sql),+, answer!("put"), ", EXISTS (SELECT 1 FROM ", $ground, ")")
  };
}

const PUT: &str = if_newest!(with_place, insert!("fitting"));
const PUT_ON_KEY: &str = if_newest!(with_place, on_key!("fitting", "$17", "$18", "$19"), insert!("ground"));
const PUT_ON_NEW_KEY: &str = if_newest!(with_place, on_new_key!("fitting", "$17", "$18"), insert!("ground"));
const ADD: &str = if_newest!(with_session, insert!("fitting"));
const ADD_ON_KEY: &str = if_newest!(with_session, on_key!("fitting", "$17", "$18", "$19"), insert!("ground"));
const ADD_ON_NEW_KEY: &str = if_newest!(with_session, on_new_key!("fitting", "$17", "$18"), insert!("ground"));
const REPLACE: &str = if_stored!("place", replace!("place"));
const REPLACE_ON_KEY: &str = if_stored!("ground", on_key!("place", "$13", "$14", "$15"), replace!("ground"));
const REPLACE_ON_NEW_KEY: &str = if_stored!("ground", on_new_key!("place", "$13", "$14"), replace!("ground"));

/// Makes the session if it is not there, and keeps everybody else out of it until the transaction is over: nobody else has a
/// newest checkpoint then. If it does not admit who writes, or somebody else makes it at the same time, it divides by zero.
pub const TAKE_SESSION: &str = concat!(
  "WITH held AS (SELECT id, lease_number, lease_expires FROM waymark.sessions WHERE id = $1::text FOR UPDATE),
  made AS (
    INSERT INTO waymark.sessions (id, present) SELECT $1, true WHERE NOT EXISTS (SELECT 1 FROM held) AND $2::bigint IS NULL
    ON CONFLICT (id) DO NOTHING RETURNING id
  )
  SELECT 1 / ((SELECT count(*) FROM held WHERE ",
  admitted!("held"),
  ") + (SELECT count(*) FROM made))"
);

/// What became of a checkpoint.
pub enum Outcome {
  Stored,
  /// The key is missing, or is not what it was; nothing was done.
  BaseIsGone,
  /// Another one is the newest; nothing was done.
  Conflict(Option<CheckpointId>),
  /// One of another writer is newer; nothing was done.
  Behind(CheckpointEntry),
  /// The checkpoint does not exist; nothing was done.
  Missing,
}

/// Replaces the labels of a session whose lock the transaction holds, if the checkpoint was stored; divides by zero if they are not
/// those that were seen.
const LABEL: &str = "WITH stored AS (
    SELECT 1 / (CASE WHEN (SELECT tokens[1] FROM waymark.documents WHERE session = $1 AND name = $3::text)
      IS NOT DISTINCT FROM $4::uuid THEN 1 ELSE 0 END) AS one
    FROM waymark.checkpoints WHERE session = $1 AND agent = '' AND id = $2::text
      AND size = $9::bigint AND head = $10::bytea AND tail = $11::bytea
  )
  INSERT INTO waymark.documents AS d (session, name, number, oldest, tokens, changed_at, size, packed, bytes)
  SELECT $1, $3, 1, 1, ARRAY[$5::uuid], ARRAY[clock_timestamp()], $6::bigint, $7::boolean, $8::bytea FROM stored WHERE one = 1
  ON CONFLICT (session, name) DO UPDATE SET
    number = d.number + (d.size IS NOT NULL)::int, oldest = d.number + (d.size IS NOT NULL)::int,
    tokens = ($5 || d.tokens)[1:64], changed_at = (clock_timestamp() || d.changed_at)[1:64],
    size = excluded.size, packed = excluded.packed, bytes = excluded.bytes";

/// The labels of a session with that of a new checkpoint.
pub struct LabelsWith<'a> {
  /// What they must be when they are replaced.
  pub seen: DocumentToken,
  pub document: &'a [u8],
  pub token: Uuid,
}

/// The parameters of [`LABEL`].
struct PackedLabels<'a> {
  labels: &'a LabelsWith<'a>,
  name: String,
  size: i64,
  payload: Payload<'a>,
}

impl<'a> PackedLabels<'a> {
  fn of(labels: &'a LabelsWith<'a>) -> Self {
    Self {
      labels,
      name: Item::LABELS.to_string(),
      size: to_signed(labels.document.len() as u64),
      payload: Payload::packed(labels.document),
    }
  }

  /// `named` are the session, the agent and the id of the checkpoint, `parts` its bytes.
  fn params<'p>(&'p self, named: &[&'p (dyn ToSql + Sync)], parts: &'p Parts<'_>) -> Vec<&'p (dyn ToSql + Sync)> {
    let Self { labels, payload, .. } = self;
    vec![
      named[0],
      named[2],
      &self.name,
      &labels.seen.0,
      &labels.token,
      &self.size,
      &payload.is_packed,
      &payload.bytes,
      &parts.size,
      &parts.head,
      &parts.tail,
    ]
  }
}

/// A checkpoint on its way.
pub struct Storing<'a> {
  pub key: CheckpointKey<'a>,
  /// Under which number.
  pub fence: Option<i64>,
  pub bytes: &'a [u8],
  pub options: &'a PutOptions<'a>,
  pub labels: Option<LabelsWith<'a>>,
}

/// Stores a checkpoint; what is asked for next is asked for at once.
pub async fn put(
  connection: &Connection,
  storing: &Storing<'_>,
  questions: &[(&str, Params<'_>)],
) -> Result<(Outcome, Vec<Option<Vec<Row>>>), Failure> {
  let Storing {
    key,
    fence,
    bytes,
    options,
    labels,
  } = storing;
  let PutOptions { base, precondition, .. } = options;
  let parts = Parts::of(key, bytes);
  let middle = &*parts.middle.bytes;
  let params = key.under(
    fence,
    &[
      &parts.made_at,
      &parts.size,
      &parts.base,
      &parts.middle.is_packed,
      &parts.head,
      &parts.tail,
      &middle,
    ],
  );
  let (base_id, known, added) = base.map_or(("", 0, &[][..]), |base| {
    (base.id.as_str(), to_signed(base.known), base.added)
  });
  let (put, add, replace, on_key): (_, _, _, Params<'_>) = match base {
    None => (PUT, ADD, REPLACE, &[]),
    Some(BaseRef { known: 0, .. }) => (PUT_ON_NEW_KEY, ADD_ON_NEW_KEY, REPLACE_ON_NEW_KEY, &[&base_id, &added]),
    Some(_) => (PUT_ON_KEY, ADD_ON_KEY, REPLACE_ON_KEY, &[&base_id, &known, &added]),
  };
  let (must_be_newest, newest) = match precondition {
    Precondition::Newest(newest) => (true, newest),
    Precondition::None | Precondition::Exists => (false, &Newest::default()),
  };
  let later: Vec<_> = newest.later.iter().map(CheckpointId::as_str).collect();
  let has_parent = newest.parent != Parent::Any;
  let parent = match &newest.parent {
    Parent::Checkpoint(parent) => Some(parent.as_str()),
    Parent::Any | Parent::Missing => None,
  };
  let conditions: Params<'_> = &[&must_be_newest, &later, &has_parent, &parent];
  let (sql, all) = if *precondition == Precondition::Exists {
    (replace, [&params, on_key].concat())
  } else {
    let put = if parent.is_some() { add } else { put };
    (put, [&params, conditions, on_key].concat())
  };
  let is_locked = has_parent || labels.is_some();
  let mut changes = vec![(sql, &all[..])];
  if is_locked {
    let lock = if parent.is_some() { LOCK_SESSION } else { TAKE_SESSION };
    changes.insert(0, (lock, &all[..2]));
  }
  let named = key.with(&[]);
  let labels = labels.as_ref().map(PackedLabels::of);
  let label = labels
    .as_ref()
    .map(|labels| labels.params(&named, &parts))
    .unwrap_or_default();
  if labels.is_some() {
    changes.push((LABEL, &label));
  }
  let (rows, answered) = match connection.change_and_ask(&changes, questions).await {
    Ok((answers, answered)) => {
      let stored = answers.into_iter().nth(usize::from(is_locked));
      (Ok(stored.unwrap_or_default()), answered)
    }
    Err(failure) => (Err(failure), Vec::new()),
  };
  let refusal = match &rows {
    Ok(rows) => refusal(rows, precondition, base.is_some()),
    // The session does not exist.
    Err(_) => Ok(Outcome::Conflict(None)),
  };
  let is_stored = if *precondition == Precondition::Exists || parent.is_some() {
    match rows {
      Err(failure) if is_denied(&failure) => {
        leases::explain(connection, key.of, *fence).await?;
        false
      }
      rows => leases::let_in(connection, key.of, *fence, &rows?).await?,
    }
  } else {
    leases::placed(connection, key.of, *fence, rows).await?
  };
  let outcome = if is_stored {
    Outcome::Stored
  } else if connection.is_repeat
    && matches!(refusal, Ok(Outcome::Conflict(_) | Outcome::Behind(_)))
    && is_there(connection, key).await?
  {
    // An earlier attempt, whose answer did not arrive, has stored it.
    Outcome::Stored
  } else {
    refusal?
  };
  Ok((outcome, answered))
}

/// Why nothing was stored, if nothing was.
fn refusal(rows: &[Row], precondition: &Precondition, is_delta: bool) -> Result<Outcome, Failure> {
  let row = rows.first().ok_or(Failure::Overtaken)?;
  let is_fitting: bool = row.try_get(2)?;
  if *precondition == Precondition::Exists {
    // Without a session there is nothing to be based on either.
    let has_session: bool = row.try_get(0)?;
    let is_missing = is_fitting || !has_session;
    return Ok(if is_missing {
      Outcome::Missing
    } else {
      Outcome::BaseIsGone
    });
  }
  if is_fitting {
    // What needs no key was refused for its id: the next attempt sees the checkpoint that has it.
    return if is_delta {
      Ok(Outcome::BaseIsGone)
    } else {
      Err(Failure::Overtaken)
    };
  }
  let newest = row.try_get::<_, Option<&str>>(3)?;
  let newest = newest.map(CheckpointId::parse).transpose()?;
  if let Precondition::Newest(Newest { parent, .. }) = precondition
    && !parent.accepts(newest.as_ref())
  {
    return Ok(Outcome::Conflict(newest));
  }
  // A name that no store gives cannot be passed by an id.
  let is_newer = row.try_get::<_, Option<&str>>(4)?.is_some();
  let newer = if is_newer { lists::entry(row, 4)? } else { None };
  Ok(newer.map_or(Outcome::BaseIsGone, Outcome::Behind))
}

/// Whether a checkpoint of that id is stored. Ids are as good as unique: an earlier attempt has stored it, and another store may have
/// converted it meanwhile.
async fn is_there(connection: &Connection, key: &CheckpointKey<'_>) -> Result<bool, Failure> {
  let sql = where_id!("SELECT 1 FROM waymark.checkpoints");
  let rows = connection.query(sql, &key.with(&[])[..3]).await?;
  Ok(!rows.is_empty())
}
