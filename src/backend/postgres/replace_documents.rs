//! Replacement of documents, and of their earlier versions.

use uuid::Uuid;

use super::connection::{Connection, Params};
use super::documents::{DocumentKey, DocumentToken, version_number};
use super::error::{DbError, PgError};
use super::leases;
use super::payload::{Payload, to_signed};
use super::sql::SQL;
use crate::backend::sql::{FIRST_NUMBER, missing_version};
use crate::backend::{Document, Item};
use crate::types::error::Error;
use crate::types::id::{CheckpointId, SessionId};

/// Documents of one session that are replaced in one step.
pub struct Replacement<'a> {
  pub session: &'a SessionId,
  /// The fencing token.
  pub fence: Option<i64>,
  /// The names, and the new bytes; `None` deletes the document.
  documents: Vec<(String, Option<&'a [u8]>)>,
  /// How many earlier versions are kept.
  keep: i64,
  /// The token of this change, which a retry looks for.
  token: Uuid,
  /// A checkpoint of the session that must exist in the same step.
  pub relies_on: Option<&'a CheckpointId>,
}

impl<'a> Replacement<'a> {
  pub fn new(
    session: &'a SessionId,
    fence: Option<i64>,
    documents: &[(Document, Option<&'a [u8]>)],
    keep: u32,
    token: Uuid,
  ) -> Self {
    let is_versioned = documents
      .iter()
      .all(|(document, _)| Document::VERSIONED.contains(document));
    let names = documents
      .iter()
      .map(|(document, bytes)| (Item::Document(*document).to_string(), *bytes));
    Self {
      session,
      fence,
      documents: names.collect(),
      keep: if is_versioned { keep.into() } else { 0 },
      token,
      relies_on: None,
    }
  }

  /// Replaces the documents. With `seen`, the only document must still have this token; otherwise [`PgError::RetryNow`].
  pub async fn run(&self, connection: &Connection, seen: Option<DocumentToken>) -> Result<(), PgError> {
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
    let ms_since_first_attempt = connection.ms_since_first_attempt();
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
      &ms_since_first_attempt,
    ];
    let rows = match self.relies_on {
      None => connection.execute(&SQL.replace_documents, params).await,
      // Under the lock of the session, the checkpoint is not deleted before this transaction ends. Divides by zero if it does not
      // exist.
      Some(id) => connection
        .execute_together(&[
          (&SQL.lock_session, &[&session, &self.fence]),
          (
            "SELECT 1 / count(*) FROM waymark.checkpoints WHERE session = $1 AND agent = '' AND id = $2",
            &[&session, &id.as_str()],
          ),
          (&SQL.replace_documents, params),
        ])
        .await
        .map(|answers| answers.into_iter().last().unwrap_or_default()),
    };
    if let Ok(rows) = &rows
      && let Some(row) = rows.first()
    {
      let is_unclear = row.try_get(3)?;
      if is_unclear {
        return Err(DbError::untraceable_attempt().into());
      }
    }
    if leases::creating_write_outcome(connection, self.session, self.fence, rows).await? {
      Ok(())
    } else {
      Err(PgError::RetryNow)
    }
  }
}

/// Stores a document, a task result, or an existing earlier version, without keeping the version that it replaces.
pub async fn put(
  connection: &Connection,
  key: &DocumentKey<'_>,
  fence: Option<i64>,
  bytes: &[u8],
  token: Uuid,
) -> Result<(), PgError> {
  let Some(skipped) = key.skipped() else {
    let replacement = Replacement {
      session: key.session_id,
      fence,
      documents: vec![(key.name.clone(), Some(bytes))],
      keep: 0,
      token,
      relies_on: None,
    };
    return replacement.run(connection, None).await;
  };
  let Some(number) = version_number(connection, key, skipped).await? else {
    return Err(missing_version().into());
  };
  let (size, payload) = (to_signed(bytes.len() as u64), Payload::packed(bytes));
  let (bytes, is_packed) = (&*payload.bytes, payload.is_packed);
  let rows = connection
    .execute(
      &SQL.replace_version,
      &[&key.session, &fence, &key.name, &number, &size, &is_packed, &bytes],
    )
    .await?;
  leases::write_outcome(connection, key.session_id, fence, &rows)
    .await
    .map(drop)
}

/// Stores a document of a session that is being created, or an earlier version of one.
pub async fn add(connection: &Connection, key: &DocumentKey<'_>, bytes: &[u8], token: Uuid) -> Result<(), PgError> {
  let (size, payload) = (to_signed(bytes.len() as u64), Payload::packed(bytes));
  let bytes = &*payload.bytes;
  if key.back > 0 {
    // The row of the document, without bytes: the document itself may never arrive.
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
    return Err(Error::invalid_argument(format!("{} is given twice", key.name)).into());
  }
  Ok(())
}
