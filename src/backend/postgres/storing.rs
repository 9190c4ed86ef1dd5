//! How a checkpoint is stored: as one statement, with the key that a delta stands on, and only after the one that was
//! expected, if any was.

use tokio_postgres::Row;

use super::checkpoints::{Key, Parts, where_key};
use super::connection::{Connection, Params};
use super::failure::Failure;
use super::leases;
use super::payload::to_signed;
use crate::backend::{After, Footing};
use crate::id::CheckpointId;

/// Stores a checkpoint on the parameters 1 to 12, if `$ground` has a row. Of one id, all encodings are pinned, or none.
macro_rules! put {
  ($ground:literal) => {
    concat!(
      "put AS (
        INSERT INTO waymark.checkpoints
          (session, agent, id, encoding, made_at, pinned, size, key, packed, head, tail, middle)
        SELECT $1, $3::text, $4::text, $5::smallint, $6::bigint,
          EXISTS (SELECT 1 FROM held) AND EXISTS (
            SELECT 1 FROM waymark.checkpoints WHERE session = $1 AND agent = $3 AND id = $4 AND pinned
          ),
          $7::bigint, $8::text, $9::boolean, $10::bytea, $11::bytea, $12::bytea
        FROM ",
      $ground,
      " ON CONFLICT (id, session, agent, encoding) DO UPDATE SET made_at = excluded.made_at, size = excluded.size,
          key = excluded.key, packed = excluded.packed,
          head = excluded.head, tail = excluded.tail, middle = excluded.middle
        RETURNING 1
      )",
      answer!("put")
    )
  };
}

/// On a key that is known to have so many bytes: it is kept from going until the statement is done.
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
      ), ",
      put!("ground")
    )
  };
}

/// On a key that is made now, unless what is there already begins with it.
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
      there AS (SELECT string_agg(bytes, ''::bytea ORDER BY start) AS bytes FROM pieces),
      ground AS (
        SELECT octet_length(there.bytes) > octet_length(",
      $added,
      "::bytea)
          AND substring(there.bytes FROM 1 FOR octet_length(",
      $added,
      ")) = ",
      $added,
      " AS is_longer
        FROM ",
      $place,
      ", there
      ),
      cut AS (
        DELETE FROM waymark.keys WHERE session = $1 AND agent = $3 AND id = ",
      $key,
      " AND start > 0
          AND EXISTS (SELECT 1 FROM ground WHERE is_longer IS NOT TRUE)
      ),
      added AS (
        INSERT INTO waymark.keys (session, agent, id, start, size, bytes)
        SELECT $1, $3, ",
      $key,
      ", 0, octet_length(",
      $added,
      "), ",
      $added,
      " FROM ground WHERE is_longer IS NOT TRUE
        ON CONFLICT (session, agent, id, start) DO UPDATE SET size = excluded.size, bytes = excluded.bytes
      ), ",
      put!("ground")
    )
  };
}

/// `fitting` has a row if the newest checkpoint of the series is the one that was expected.
macro_rules! if_newest {
  ($($sql:expr),+) => {
    with_place!(
      "newest AS (
        SELECT id FROM waymark.checkpoints WHERE session = $1 AND agent = $3::text
        ORDER BY made_at DESC, id DESC, encoding DESC LIMIT 1
      ),
      fitting AS (SELECT place.id FROM place WHERE (SELECT id FROM newest) IS NOT DISTINCT FROM $13::text), ",
      $($sql),+,
      ", EXISTS (SELECT 1 FROM fitting), (SELECT id FROM newest)"
    )
  };
}

const PUT: &str = with_place!(put!("place"));
const PUT_ON_KEY: &str = with_place!(on_key!("place", "$13", "$14", "$15"));
const PUT_ON_NEW_KEY: &str = with_place!(on_new_key!("place", "$13", "$14"));
const PUT_AFTER: &str = if_newest!(put!("fitting"));
const PUT_ON_KEY_AFTER: &str = if_newest!(on_key!("fitting", "$14", "$15", "$16"));
const PUT_ON_NEW_KEY_AFTER: &str = if_newest!(on_new_key!("fitting", "$14", "$15"));

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
  /// What it has to stand on is not there; nothing was done.
  KeyIsGone,
  /// Another one is the newest; nothing was done.
  Conflict(Option<CheckpointId>),
}

/// A checkpoint on its way.
pub struct Storing<'a> {
  pub key: Key<'a>,
  /// Under which number.
  pub fence: Option<i64>,
  pub bytes: &'a [u8],
  pub footing: Option<&'a Footing<'a>>,
  pub after: &'a After,
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
    footing,
    after,
  } = storing;
  let parts = Parts::of(key, bytes);
  let middle = &*parts.middle.bytes;
  let params = key.under(
    fence,
    &[
      &parts.made_at,
      &parts.size,
      &parts.stands_on,
      &parts.middle.is_packed,
      &parts.head,
      &parts.tail,
      &middle,
    ],
  );
  let expected = match after {
    After::Any => None,
    After::Newest(expected) => Some(expected.as_ref().map(CheckpointId::as_str)),
  };
  let (stands_on, known, added) = footing.map_or(("", 0, &[][..]), |footing| {
    (footing.key.as_str(), to_signed(footing.known), footing.added)
  });
  let (plain, after, more): (_, _, Params<'_>) = match footing {
    None => (PUT, PUT_AFTER, &[]),
    Some(Footing { known: 0, .. }) => (PUT_ON_NEW_KEY, PUT_ON_NEW_KEY_AFTER, &[&stands_on, &added]),
    Some(_) => (PUT_ON_KEY, PUT_ON_KEY_AFTER, &[&stands_on, &known, &added]),
  };
  let after_that;
  let (sql, all) = match &expected {
    None => (plain, [&params, more].concat()),
    Some(expected) => (after, [&params, &[expected as _][..], more].concat()),
  };
  let mut changes = vec![(sql, &all[..])];
  if expected.is_some() {
    changes.insert(0, (TAKE_SESSION, &all[..2]));
  }
  let rows = match connection.change_and_ask(&changes, questions).await {
    Ok((answers, answered)) => {
      after_that = answered;
      Ok(answers.into_iter().last().unwrap_or_default())
    }
    Err(failure) => {
      after_that = Vec::new();
      Err(failure)
    }
  };
  let conflict = match (&expected, &rows) {
    (Some(_), Ok(rows)) => conflict(rows)?,
    _ => None,
  };
  let outcome = if leases::placed(connection, key.of, *fence, rows).await? {
    Outcome::Stored
  } else {
    match conflict {
      // An attempt that nobody answered may have stored it.
      Some(_) if connection.is_repeat && is_there(connection, key).await? => Outcome::Stored,
      Some(conflict) => conflict,
      None => Outcome::KeyIsGone,
    }
  };
  Ok((outcome, after_that))
}

/// What is in the way, if the newest is not the one that was expected.
fn conflict(rows: &[Row]) -> Result<Option<Outcome>, Failure> {
  let row = rows.first().ok_or(Failure::Overtaken)?;
  if row.try_get(2)? {
    return Ok(None);
  }
  let newest = row.try_get::<_, Option<&str>>(3)?;
  let newest = newest.map(CheckpointId::parse).transpose()?;
  Ok(Some(Outcome::Conflict(newest)))
}

async fn is_there(connection: &Connection, key: &Key<'_>) -> Result<bool, Failure> {
  let sql = where_key!("SELECT 1 FROM waymark.checkpoints");
  Ok(!connection.query(sql, &key.with(&[])).await?.is_empty())
}
