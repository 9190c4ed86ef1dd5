//! How documents are replaced, and what stays of those before them.

use uuid::Uuid;

use super::connection::{Connection, is_denied};
use super::documents::{Key, Seen, number};
use super::failure::Failure;
use super::payload::{Payload, to_signed};
use super::sql::with_place;
use crate::backend::{Document, Item};
use crate::error::Error;
use crate::id::SessionId;

/// What is to become of documents of one session, as one step.
pub struct Replacement<'a> {
  pub session: &'a SessionId,
  pub documents: Vec<(Document, &'a [u8])>,
  /// How many earlier ones stay.
  pub keep: u32,
  /// Whose doing it is: what was done already is not done again.
  pub token: Uuid,
}

/// A document that is being made by somebody else at the same time has an old version that nobody here sees: nothing is
/// done then, and neither is half of it.
const REPLACE: &str = with_place!(
  "new AS (
    SELECT new.name, new.size, new.packed, new.bytes
    FROM unnest($2::text[], $3::bigint[], $4::boolean[], $5::bytea[]) AS new (name, size, packed, bytes)
  ),
  old AS (
    SELECT name, number, tokens, size, packed, bytes FROM waymark.documents
    WHERE session = $1 AND name = ANY ($2) AND EXISTS (SELECT 1 FROM place) ORDER BY name FOR UPDATE
  ),
  known AS (SELECT 1 FROM old WHERE $6::uuid = ANY (tokens)),
  ground AS (
    SELECT 1 FROM place
    WHERE NOT EXISTS (SELECT 1 FROM known)
      AND (NOT $8::boolean OR (SELECT tokens[1] FROM old LIMIT 1) IS NOT DISTINCT FROM $9::uuid)
  ),
  kept AS (
    INSERT INTO waymark.previous (session, name, number, size, packed, bytes)
    SELECT $1, old.name, old.number, old.size, old.packed, old.bytes FROM old, ground
    WHERE $7::bigint > 0 AND old.size IS NOT NULL
  ),
  cut AS (
    DELETE FROM waymark.previous p USING old, ground
    WHERE p.session = $1 AND p.name = old.name AND p.number < old.number + (old.size IS NOT NULL)::int - $7
  ),
  put AS (
    INSERT INTO waymark.documents AS d (session, name, number, oldest, tokens, size, packed, bytes)
    SELECT $1, new.name, 1, 1, ARRAY[$6], new.size, new.packed, new.bytes FROM new, ground ORDER BY new.name
    ON CONFLICT (session, name) DO UPDATE SET
      number = d.number + (d.size IS NOT NULL)::int,
      oldest = greatest(d.oldest, d.number + (d.size IS NOT NULL)::int - $7),
      tokens = (ARRAY[$6] || d.tokens)[1:8],
      size = excluded.size, packed = excluded.packed, bytes = excluded.bytes
    WHERE EXISTS (SELECT 1 FROM old WHERE old.name = d.name)
    RETURNING 1
  )
  SELECT EXISTS (SELECT 1 FROM known), (SELECT count(*) FROM put),
    1 / (CASE WHEN (SELECT count(*) FROM put) IN (0, cardinality($2)) THEN 1 ELSE 0 END)"
);

/// Replaces documents, if that one of them is what it was, if anything is said of it.
pub async fn replace(
  connection: &Connection,
  replacement: &Replacement<'_>,
  seen: Option<Seen>,
) -> Result<(), Failure> {
  let names = replacement
    .documents
    .iter()
    .map(|(document, bytes)| (Item::Document(*document).to_string(), *bytes));
  // What is never kept has no earlier versions either.
  let is_versioned = replacement
    .documents
    .iter()
    .all(|(document, _)| Document::VERSIONED.contains(document));
  let keep = if is_versioned { replacement.keep } else { 0 };
  put_all(
    connection,
    replacement.session,
    &names.collect::<Vec<_>>(),
    keep,
    replacement.token,
    seen,
  )
  .await
}

/// Stores something under a name, in place of what is there.
pub async fn put(
  connection: &Connection,
  session: &SessionId,
  key: &Key<'_>,
  bytes: &[u8],
  token: Uuid,
) -> Result<(), Failure> {
  let Some(skipped) = key.skipped() else {
    return put_all(connection, session, &[(key.name.clone(), bytes)], 0, token, None).await;
  };
  let Some(number) = number(connection, key, skipped).await? else {
    return Err(Error::invalid_argument("A version that is not there cannot be replaced").into());
  };
  let sql = "UPDATE waymark.previous SET size = $4, packed = $5, bytes = $6
    WHERE session = $1 AND name = $2 AND number = $3";
  let (size, payload) = (to_signed(bytes.len() as u64), Payload::packed(bytes));
  let bytes = &*payload.bytes;
  connection
    .change(
      sql,
      &[&key.session, &key.name, &number, &size, &payload.is_packed, &bytes],
    )
    .await
    .map(drop)
}

async fn put_all(
  connection: &Connection,
  session: &SessionId,
  documents: &[(String, &[u8])],
  keep: u32,
  token: Uuid,
  seen: Option<Seen>,
) -> Result<(), Failure> {
  let names: Vec<_> = documents.iter().map(|(name, _)| name.as_str()).collect();
  let sizes: Vec<_> = documents
    .iter()
    .map(|(_, bytes)| to_signed(bytes.len() as u64))
    .collect();
  let payloads: Vec<_> = documents.iter().map(|(_, bytes)| Payload::packed(bytes)).collect();
  let packed: Vec<_> = payloads.iter().map(|payload| payload.is_packed).collect();
  let bytes: Vec<_> = payloads.iter().map(|payload| &*payload.bytes).collect();
  let (keep, expected) = (i64::from(keep), seen.and_then(|seen| seen.0));
  let answer = connection
    .change(
      REPLACE,
      &[
        &session.as_str(),
        &names,
        &sizes,
        &packed,
        &bytes,
        &token,
        &keep,
        &seen.is_some(),
        &expected,
      ],
    )
    .await;
  let rows = match answer {
    Err(failure) if is_denied(&failure) => return Err(Failure::Overtaken),
    answer => answer?,
  };
  let row = rows.first().ok_or(Failure::Overtaken)?;
  let (is_known, stored): (bool, i64) = (row.try_get(0)?, row.try_get(1)?);
  if is_known || stored > 0 {
    Ok(())
  } else {
    Err(Failure::Overtaken)
  }
}

/// Stores a document of a session that is being made, or an earlier version of one.
pub async fn add(connection: &Connection, key: &Key<'_>, bytes: &[u8], token: Uuid) -> Result<(), Failure> {
  // Numbers count up; these count down from one that no count of saves comes near, so that they may come in any order.
  const NUMBER: i64 = 1 << 32;
  let (size, payload) = (to_signed(bytes.len() as u64), Payload::packed(bytes));
  let bytes = &*payload.bytes;
  if key.back > 0 {
    // The document itself may never come.
    let sql =
      "INSERT INTO waymark.documents (session, name, number, oldest, tokens) VALUES ($1, $2, $3, 0, ARRAY[$4::uuid])
      ON CONFLICT (session, name) DO NOTHING";
    connection
      .query(sql, &[&key.session, &key.name, &NUMBER, &token])
      .await?;
    let sql =
      "INSERT INTO waymark.previous (session, name, number, size, packed, bytes) VALUES ($1, $2, $3, $4, $5, $6)";
    let number = NUMBER - i64::from(key.back);
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
        &NUMBER,
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
