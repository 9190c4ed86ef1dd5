//! How documents are replaced, and what stays of those before them.

use uuid::Uuid;

use super::connection::{Connection, Params};
use super::documents::{DocumentKey, DocumentToken, number};
use super::failure::{DbError, Failure};
use super::leases;
use super::payload::{Payload, to_signed};
use super::sql::LOCK_SESSION;
use crate::backend::sql::{FIRST_NUMBER, missing_version};
use crate::backend::{Document, Item};
use crate::types::error::Error;
use crate::types::id::{CheckpointId, SessionId};

/// What is to become of documents of one session, as one step.
pub struct Replacement<'a> {
  pub session: &'a SessionId,
  /// Under which number.
  pub fence: Option<i64>,
  /// `None` removes one.
  pub documents: Vec<(Document, Option<&'a [u8]>)>,
  /// How many earlier ones stay.
  pub keep: u32,
  /// Whose doing it is: what was done already is not done again.
  pub token: Uuid,
  /// A checkpoint of the session that must exist when it is done.
  pub relies_on: Option<&'a CheckpointId>,
}

/// Divides by zero if a checkpoint of a session does not exist.
const REQUIRE_CHECKPOINT: &str =
  "SELECT 1 / count(*) FROM waymark.checkpoints WHERE session = $1 AND agent = '' AND id = $2";

/// Who tries again looks for its own token. If it is not among those of the last 64 changes, and all of them came after it
/// first tried, nobody knows whether one of its own came before them: `unclear`.
///
/// A document that is being made by somebody else at the same time has an old version that nobody here sees: nothing is
/// done then, and neither is half of it.
const REPLACE: &str = with_place!(
  "new AS (
    SELECT new.name, new.size, new.packed, new.bytes
    FROM unnest($3::text[], $4::bigint[], $5::boolean[], $6::bytea[]) AS new (name, size, packed, bytes)
  ),
  old AS (
    SELECT name, number, tokens, changed_at, size, packed, bytes FROM waymark.documents
    WHERE session = $1 AND name = ANY ($3) AND EXISTS (SELECT 1 FROM place) ORDER BY name FOR UPDATE
  ),
  known AS (SELECT 1 FROM old WHERE $7::uuid = ANY (tokens)),
  unclear AS (
    SELECT 1 FROM old
    WHERE changed_at[64] > clock_timestamp() - $11::bigint * interval '1 millisecond' AND NOT EXISTS (SELECT 1 FROM known)
  ),
  ground AS (
    SELECT 1 FROM place
    WHERE NOT EXISTS (SELECT 1 FROM known UNION ALL SELECT 1 FROM unclear)
      AND (NOT $9::boolean OR (SELECT tokens[1] FROM old LIMIT 1) IS NOT DISTINCT FROM $10::uuid)
  ),
  kept AS (
    INSERT INTO waymark.previous (session, name, number, size, packed, bytes)
    SELECT $1, old.name, old.number, old.size, old.packed, old.bytes FROM old, ground
    WHERE $8::bigint > 0 AND old.size IS NOT NULL
  ),
  cut AS (
    DELETE FROM waymark.previous p USING old, ground
    WHERE p.session = $1 AND p.name = old.name AND p.number < old.number + (old.size IS NOT NULL)::int - $8
  ),
  put AS (
    INSERT INTO waymark.documents AS d (session, name, number, oldest, tokens, changed_at, size, packed, bytes)
    SELECT $1, new.name, 1, 1, ARRAY[$7], ARRAY[clock_timestamp()], new.size, new.packed, new.bytes
    FROM new, ground ORDER BY new.name
    ON CONFLICT (session, name) DO UPDATE SET
      number = d.number + (d.size IS NOT NULL)::int,
      oldest = greatest(d.oldest, d.number + (d.size IS NOT NULL)::int - $8),
      tokens = (ARRAY[$7] || d.tokens)[1:64],
      changed_at = (ARRAY[clock_timestamp()] || d.changed_at)[1:64],
      size = excluded.size, packed = excluded.packed, bytes = excluded.bytes
    WHERE EXISTS (SELECT 1 FROM old WHERE old.name = d.name)
    RETURNING 1
  )
  SELECT EXISTS (SELECT 1 FROM place), EXISTS (SELECT 1 FROM known UNION ALL SELECT 1 FROM put),
    1 / (CASE WHEN (SELECT count(*) FROM put) IN (0, cardinality($3)) THEN 1 ELSE 0 END),
    EXISTS (SELECT 1 FROM unclear)"
);

/// Replaces documents, if that one of them is what it was, if anything is said of it.
pub async fn replace(
  connection: &Connection,
  replacement: &Replacement<'_>,
  seen: Option<DocumentToken>,
) -> Result<(), Failure> {
  let documents = &replacement.documents;
  let names = documents
    .iter()
    .map(|(document, bytes)| (Item::Document(*document).to_string(), *bytes));
  // What is never kept has no earlier versions either.
  let is_versioned = documents
    .iter()
    .all(|(document, _)| Document::VERSIONED.contains(document));
  let put = RowReplacement {
    session: replacement.session,
    fence: replacement.fence,
    documents: names.collect(),
    keep: if is_versioned { replacement.keep.into() } else { 0 },
    token: replacement.token,
    relies_on: replacement.relies_on,
  };
  put.run(connection, seen).await
}

/// Stores something under a name, in place of what is there.
pub async fn put(
  connection: &Connection,
  key: &DocumentKey<'_>,
  fence: Option<i64>,
  bytes: &[u8],
  token: Uuid,
) -> Result<(), Failure> {
  let Some(skipped) = key.skipped() else {
    let put = RowReplacement {
      session: key.of,
      fence,
      documents: vec![(key.name.clone(), Some(bytes))],
      keep: 0,
      token,
      relies_on: None,
    };
    return put.run(connection, None).await;
  };
  let Some(number) = number(connection, key, skipped).await? else {
    return Err(missing_version().into());
  };
  let sql = with_session!(
    "done AS (
      UPDATE waymark.previous SET size = $5, packed = $6, bytes = $7
      WHERE session = $1 AND name = $3 AND number = $4 AND EXISTS (SELECT 1 FROM place) RETURNING 1
    )",
    answer!("done")
  );
  let (size, payload) = (to_signed(bytes.len() as u64), Payload::packed(bytes));
  let (bytes, is_packed) = (&*payload.bytes, payload.is_packed);
  let rows = connection
    .change(
      sql,
      &[&key.session, &fence, &key.name, &number, &size, &is_packed, &bytes],
    )
    .await?;
  leases::let_in(connection, key.of, fence, &rows).await.map(drop)
}

struct RowReplacement<'a> {
  session: &'a SessionId,
  fence: Option<i64>,
  documents: Vec<(String, Option<&'a [u8]>)>,
  keep: i64,
  token: Uuid,
  relies_on: Option<&'a CheckpointId>,
}

impl RowReplacement<'_> {
  async fn run(&self, connection: &Connection, seen: Option<DocumentToken>) -> Result<(), Failure> {
    let documents = &self.documents;
    let names: Vec<_> = documents.iter().map(|(name, _)| name.as_str()).collect();
    let sizes: Vec<_> = documents
      .iter()
      .map(|(_, bytes)| bytes.map(|bytes| to_signed(bytes.len() as u64)))
      .collect();
    let payloads: Vec<_> = documents.iter().map(|(_, bytes)| bytes.map(Payload::packed)).collect();
    let packed: Vec<_> = payloads
      .iter()
      .map(|payload| payload.as_ref().map(|payload| payload.is_packed))
      .collect();
    let bytes: Vec<_> = payloads
      .iter()
      .map(|payload| payload.as_ref().map(|payload| &*payload.bytes))
      .collect();
    let session = self.session.as_str();
    let (is_conditional, seen) = (seen.is_some(), seen.and_then(|seen| seen.0));
    let repeats_since_ms = connection.repeats_since_ms();
    let params: Params<'_> = &[
      &session,
      &self.fence,
      &names,
      &sizes,
      &packed,
      &bytes,
      &self.token,
      &self.keep,
      &is_conditional,
      &seen,
      &repeats_since_ms,
    ];
    let rows = match self.relies_on {
      None => connection.change(REPLACE, params).await,
      // With the session locked, nothing in it is removed before this is done.
      Some(id) => connection
        .change_together(&[
          (LOCK_SESSION, &[&session, &self.fence]),
          (REQUIRE_CHECKPOINT, &[&session, &id.as_str()]),
          (REPLACE, params),
        ])
        .await
        .map(|answers| answers.into_iter().last().unwrap_or_default()),
    };
    if let Ok(rows) = &rows
      && let Some(row) = rows.first()
      && row.try_get(3)?
    {
      return Err(DbError::forgotten().into());
    }
    if leases::placed(connection, self.session, self.fence, rows).await? {
      Ok(())
    } else {
      Err(Failure::Overtaken)
    }
  }
}

/// Stores a document of a session that is being made, or an earlier version of one.
pub async fn add(connection: &Connection, key: &DocumentKey<'_>, bytes: &[u8], token: Uuid) -> Result<(), Failure> {
  let (size, payload) = (to_signed(bytes.len() as u64), Payload::packed(bytes));
  let bytes = &*payload.bytes;
  if key.back > 0 {
    // The document itself may never come.
    let sql =
      "INSERT INTO waymark.documents (session, name, number, oldest, tokens) VALUES ($1, $2, $3, 0, ARRAY[$4::uuid])
      ON CONFLICT (session, name) DO NOTHING";
    connection
      .query(sql, &[&key.session, &key.name, &FIRST_NUMBER, &token])
      .await?;
    let sql =
      "INSERT INTO waymark.previous (session, name, number, size, packed, bytes) VALUES ($1, $2, $3, $4, $5, $6)";
    let number = FIRST_NUMBER - i64::from(key.back);
    connection
      .query(
        sql,
        &[&key.session, &key.name, &number, &size, &payload.is_packed, &bytes],
      )
      .await?;
    return Ok(());
  }
  let sql = "INSERT INTO waymark.documents AS d (session, name, number, oldest, tokens, size, packed, bytes)
    VALUES ($1, $2, $3, 0, ARRAY[$4::uuid], $5, $6, $7)
    ON CONFLICT (session, name) DO UPDATE SET size = excluded.size, packed = excluded.packed, bytes = excluded.bytes
    WHERE d.size IS NULL RETURNING 1";
  let rows = connection
    .query(
      sql,
      &[
        &key.session,
        &key.name,
        &FIRST_NUMBER,
        &token,
        &size,
        &payload.is_packed,
        &bytes,
      ],
    )
    .await?;
  if rows.is_empty() {
    return Err(Error::invalid_argument(format!("{} comes twice", key.name)).into());
  }
  Ok(())
}
