//! Checkpoints as rows.

use tokio_postgres::types::ToSql;

use super::connection::{Connection, Params};
use super::contents::Contents;
use super::failure::Failure;
use super::payload::{Payload, to_signed, to_unsigned};
use super::sql::{SHARE_SESSION, is_set_aside, set_aside_answer, with_place};
use crate::backend::{CheckpointEntry, Encoding, Footing, Series, time_in_id};
use crate::clock::now_ms;
use crate::format::delta::Reference;
use crate::format::info::{HEAD_BYTES, TAIL_BYTES};
use crate::id::{AgentId, CheckpointId, SessionId};

/// What names one checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
  pub session: &'a str,
  agent: &'a str,
  id: &'a str,
  encoding: i16,
}

/// The condition that a [`Key`] is bound to as the first four parameters.
macro_rules! where_key {
  ($sql:literal) => {
    concat!($sql, " WHERE session = $1 AND agent = $2 AND id = $3 AND encoding = $4")
  };
}

impl<'a> Key<'a> {
  pub fn new(session: &'a SessionId, agent: Option<&'a AgentId>, id: &'a CheckpointId, encoding: Encoding) -> Self {
    Self {
      session: session.as_str(),
      agent: agent_text(agent),
      id: id.as_str(),
      encoding: number_of(encoding),
    }
  }

  pub fn of(series: &'a Series, entry: &'a CheckpointEntry) -> Self {
    Self::new(&series.session, series.agent.as_ref(), &entry.id, entry.encoding)
  }

  fn is_delta(&self) -> bool {
    self.encoding == number_of(Encoding::Delta)
  }

  /// The parameters of a statement that begins with a key.
  fn with<'p>(&'p self, more: &[&'p (dyn ToSql + Sync)]) -> Vec<&'p (dyn ToSql + Sync)> {
    let key: [&(dyn ToSql + Sync); 4] = [&self.session, &self.agent, &self.id, &self.encoding];
    key.into_iter().chain(more.iter().copied()).collect()
  }
}

pub fn agent_text(agent: Option<&AgentId>) -> &str {
  agent.map_or("", AgentId::as_str)
}

pub fn number_of(encoding: Encoding) -> i16 {
  match encoding {
    Encoding::Json => 0,
    Encoding::Gzip => 1,
    Encoding::Zstd => 2,
    Encoding::Delta => 3,
  }
}

/// `None` for a number that somebody else put there.
pub fn encoding_of(number: i16) -> Option<Encoding> {
  Encoding::ALL
    .into_iter()
    .find(|encoding| number_of(*encoding) == number)
}

/// The parts in which a checkpoint is stored. The first and the last are what a list needs to see.
struct Parts<'a> {
  size: i64,
  made_at: i64,
  stands_on: Option<String>,
  head: &'a [u8],
  middle: Payload<'a>,
  tail: &'a [u8],
}

impl<'a> Parts<'a> {
  fn of(key: &Key<'_>, bytes: &'a [u8]) -> Self {
    let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES));
    let (middle, tail) = rest.split_at(rest.len().saturating_sub(TAIL_BYTES));
    let stands_on = if key.is_delta() { Reference::of(bytes) } else { None };
    Self {
      size: to_signed(bytes.len() as u64),
      made_at: to_signed(time_in_id(key.id).unwrap_or_else(now_ms)),
      stands_on: stands_on.map(|reference| reference.key.to_string()),
      head,
      // All other encodings are packed already.
      middle: if key.encoding == number_of(Encoding::Json) {
        Payload::packed(middle)
      } else {
        Payload::plain(middle)
      },
      tail,
    }
  }
}

/// Stores a checkpoint on the parameters 1 to 11, if `$source` has a row. Of one id, all encodings are pinned, or none.
macro_rules! put {
  ($source:literal) => {
    concat!(
      "put AS (
        INSERT INTO waymark.checkpoints
          (session, agent, id, encoding, made_at, pinned, size, key, packed, head, tail, middle)
        SELECT $1, $2::text, $3::text, $4::smallint, $5::bigint,
          EXISTS (SELECT 1 FROM held) AND EXISTS (
            SELECT 1 FROM waymark.checkpoints WHERE session = $1 AND agent = $2 AND id = $3 AND pinned
          ),
          $6::bigint, $7::text, $8::boolean, $9::bytea, $10::bytea, $11::bytea
        FROM ",
      $source,
      " ON CONFLICT (id, session, agent, encoding) DO UPDATE SET made_at = excluded.made_at, size = excluded.size,
          key = excluded.key, packed = excluded.packed,
          head = excluded.head, tail = excluded.tail, middle = excluded.middle
        RETURNING 1
      )
      SELECT EXISTS (SELECT 1 FROM place), EXISTS (SELECT 1 FROM put)"
    )
  };
}

const PUT: &str = with_place!(put!("place"));

/// On a key that is known to have so many bytes: it is kept from going until the statement is done.
const PUT_ON_KEY: &str = with_place!(
  "base AS (
    SELECT start FROM waymark.keys
    WHERE session = $1 AND agent = $2 AND id = $12::text AND start = 0 AND EXISTS (SELECT 1 FROM place) FOR KEY SHARE
  ),
  ground AS (
    SELECT start FROM base
    WHERE $13::bigint <= (SELECT max(start + size) FROM waymark.keys WHERE session = $1 AND agent = $2 AND id = $12)
  ),
  cut AS (
    DELETE FROM waymark.keys WHERE session = $1 AND agent = $2 AND id = $12 AND start > $13
      AND octet_length($14::bytea) > 0 AND EXISTS (SELECT 1 FROM ground)
  ),
  added AS (
    INSERT INTO waymark.keys (session, agent, id, start, size, bytes)
    SELECT $1, $2, $12, $13, octet_length($14), $14 FROM ground WHERE octet_length($14) > 0
    ON CONFLICT (session, agent, id, start) DO UPDATE SET size = excluded.size, bytes = excluded.bytes
  ), ",
  put!("ground")
);

/// On a key that is made now, unless what is there already begins with it.
const PUT_ON_NEW_KEY: &str = with_place!(
  "pieces AS (
    SELECT start, bytes FROM waymark.keys
    WHERE session = $1 AND agent = $2 AND id = $12::text AND EXISTS (SELECT 1 FROM place) ORDER BY start FOR UPDATE
  ),
  there AS (SELECT string_agg(bytes, ''::bytea ORDER BY start) AS bytes FROM pieces),
  ground AS (
    SELECT octet_length(there.bytes) > octet_length($13::bytea)
      AND substring(there.bytes FROM 1 FOR octet_length($13)) = $13 AS is_longer
    FROM place, there
  ),
  cut AS (
    DELETE FROM waymark.keys WHERE session = $1 AND agent = $2 AND id = $12 AND start > 0
      AND EXISTS (SELECT 1 FROM ground WHERE is_longer IS NOT TRUE)
  ),
  added AS (
    INSERT INTO waymark.keys (session, agent, id, start, size, bytes)
    SELECT $1, $2, $12, 0, octet_length($13), $13 FROM ground WHERE is_longer IS NOT TRUE
    ON CONFLICT (session, agent, id, start) DO UPDATE SET size = excluded.size, bytes = excluded.bytes
  ), ",
  put!("ground")
);

/// Stores a checkpoint. The answer is whether what it has to stand on is there; otherwise nothing was done.
pub async fn put(
  connection: &Connection,
  key: &Key<'_>,
  bytes: &[u8],
  footing: Option<&Footing<'_>>,
) -> Result<bool, Failure> {
  let parts = Parts::of(key, bytes);
  let middle = &*parts.middle.bytes;
  let params = key.with(&[
    &parts.made_at,
    &parts.size,
    &parts.stands_on,
    &parts.middle.is_packed,
    &parts.head,
    &parts.tail,
    &middle,
  ]);
  let rows = match footing {
    None => connection.change(PUT, &params).await?,
    Some(footing) => {
      let (stands_on, known) = (footing.key.as_str(), to_signed(footing.known));
      let more: Params<'_> = &[&stands_on, &known, &footing.added];
      if footing.known == 0 {
        let params = [&params, &more[..1], &more[2..]].concat();
        connection.change(PUT_ON_NEW_KEY, &params).await?
      } else {
        connection.change(PUT_ON_KEY, &[&params, more].concat()).await?
      }
    }
  };
  let row = rows.first().ok_or(Failure::Overtaken)?;
  match (row.try_get(0)?, row.try_get(1)?) {
    (false, _) => Err(Failure::Overtaken),
    (true, is_stored) => Ok(is_stored),
  }
}

/// Stores a checkpoint of a session that is being made, with what else is known of it.
pub async fn add(
  connection: &Connection,
  key: &Key<'_>,
  bytes: &[u8],
  made_at: Option<u64>,
  is_pinned: bool,
) -> Result<(), Failure> {
  let parts = Parts::of(key, bytes);
  let (made_at, middle) = (made_at.map_or(parts.made_at, to_signed), &*parts.middle.bytes);
  let sql = "INSERT INTO waymark.checkpoints
      (session, agent, id, encoding, made_at, pinned, size, key, packed, head, tail, middle)
    VALUES ($1, $2, $3, $4, $5,
      $6 OR EXISTS (SELECT 1 FROM waymark.checkpoints WHERE session = $1 AND agent = $2 AND id = $3 AND pinned),
      $7, $8, $9, $10, $11, $12)";
  let params = key.with(&[
    &made_at,
    &is_pinned,
    &parts.size,
    &parts.stands_on,
    &parts.middle.is_packed,
    &parts.head,
    &parts.tail,
    &middle,
  ]);
  connection.query(sql, &params).await?;
  if is_pinned {
    let sql =
      "UPDATE waymark.checkpoints SET pinned = true WHERE session = $1 AND agent = $2 AND id = $3 AND NOT pinned";
    connection.query(sql, &key.with(&[])[..3]).await?;
  }
  Ok(())
}

pub async fn read(connection: &Connection, key: &Key<'_>, limit: u64) -> Result<Option<Contents>, Failure> {
  // What is too large is not even loaded, whatever it says of itself.
  let sql = where_key!(
    "SELECT size, packed, head, tail,
      CASE WHEN greatest(size, octet_length(head) + octet_length(middle) + octet_length(tail)) <= $5 THEN middle END
    FROM waymark.checkpoints"
  );
  let rows = connection.query(sql, &key.with(&[&to_signed(limit)])).await?;
  let Some(row) = rows.first() else {
    return Ok(None);
  };
  Ok(Some(Contents {
    size: to_unsigned(row.try_get(0)?),
    is_packed: row.try_get(1)?,
    head: row.try_get(2)?,
    tail: row.try_get(3)?,
    middle: row.try_get(4)?,
  }))
}

/// Keeps a key as it is, while what stands on it goes. Who stores something on it waits for that.
const LOCK_KEY: &str = "SELECT k.start FROM waymark.keys k
  JOIN waymark.checkpoints c ON c.session = k.session AND c.agent = k.agent AND c.key = k.id
  WHERE c.session = $1 AND c.agent = $2 AND c.id = $3 AND c.encoding = $4 AND k.start = 0
  FOR UPDATE OF k";

/// Removes a delta, and the key that it was the last one to stand on.
macro_rules! remove_delta {
  ($condition:literal) => {
    concat!(
      "WITH gone AS (",
      where_key!("DELETE FROM waymark.checkpoints"),
      $condition,
      " RETURNING key),
      released AS (
        DELETE FROM waymark.keys USING gone
        WHERE keys.session = $1 AND keys.agent = $2 AND keys.id = gone.key AND NOT EXISTS (
          SELECT 1 FROM waymark.checkpoints c
          WHERE c.session = $1 AND c.agent = $2 AND c.key = gone.key AND (c.id <> $3 OR c.encoding <> $4)
        )
      )
      SELECT 1 FROM gone"
    )
  };
}

pub async fn remove(connection: &Connection, key: &Key<'_>) -> Result<bool, Failure> {
  let plain = concat!(where_key!("DELETE FROM waymark.checkpoints"), " RETURNING 1");
  delete(connection, key, plain, remove_delta!("")).await
}

/// The same, unless it is pinned.
pub async fn retire(connection: &Connection, key: &Key<'_>) -> Result<bool, Failure> {
  let plain = concat!(
    where_key!("DELETE FROM waymark.checkpoints"),
    " AND NOT pinned RETURNING 1"
  );
  delete(connection, key, plain, remove_delta!(" AND NOT pinned")).await
}

async fn delete(connection: &Connection, key: &Key<'_>, plain: &str, of_delta: &str) -> Result<bool, Failure> {
  let params = key.with(&[]);
  let gone = if key.is_delta() {
    let answers = connection
      .change_together(&[(SHARE_SESSION, &params[..1]), (LOCK_KEY, &params), (of_delta, &params)])
      .await?;
    answers.last().is_some_and(|rows| !rows.is_empty())
  } else {
    !connection.change(plain, &params).await?.is_empty()
  };
  if gone || !connection.is_repeat {
    return Ok(gone);
  }
  // Nobody answered the first time; what is not there any more was there then.
  let sql = where_key!("SELECT 1 FROM waymark.checkpoints");
  Ok(connection.query(sql, &params).await?.is_empty())
}

pub async fn set_made_at(connection: &Connection, key: &Key<'_>, made_at: u64) -> Result<(), Failure> {
  let sql = where_key!("UPDATE waymark.checkpoints SET made_at = $5");
  let made_at = to_signed(made_at);
  connection.change(sql, &key.with(&[&made_at])).await.map(drop)
}

pub async fn set_pinned(
  connection: &Connection,
  series: &Series,
  id: &CheckpointId,
  is_pinned: bool,
) -> Result<bool, Failure> {
  let (session, agent, id) = (series.session.as_str(), agent_text(series.agent.as_ref()), id.as_str());
  let answers = connection
    .change_together(&[
      // Whoever stores the same checkpoint in another encoding has to know.
      ("UPDATE waymark.sessions SET pins = pins + 1 WHERE id = $1", &[&session]),
      (
        "UPDATE waymark.checkpoints SET pinned = $4 WHERE session = $1 AND agent = $2 AND id = $3 RETURNING 1",
        &[&session, &agent, &id, &is_pinned],
      ),
    ])
    .await?;
  Ok(answers.last().is_some_and(|rows| !rows.is_empty()))
}

/// Moves a checkpoint to where nobody reads it. What it stood on stays: without it, nobody could tell what was damaged.
pub async fn set_aside(connection: &Connection, key: &Key<'_>, new_name: &str) -> Result<bool, Failure> {
  let sql = concat!(
    "WITH held AS (SELECT 1 FROM waymark.sessions WHERE id = $1 FOR SHARE),
    gone AS (",
    where_key!("DELETE FROM waymark.checkpoints"),
    " AND EXISTS (SELECT 1 FROM held) RETURNING size, packed, head, tail, middle),
    moved AS (
      INSERT INTO waymark.damaged (session, name, size, packed, head, tail, middle)
      SELECT $1, $5::text, size, packed, head, tail, middle FROM gone RETURNING 1
    )",
    set_aside_answer!("$5")
  );
  is_set_aside(&connection.change(sql, &key.with(&[&new_name])).await?)
}
