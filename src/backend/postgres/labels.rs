//! Labels that are given to a checkpoint in the step that stores it.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::checkpoints::Parts;
use super::connection::Connection;
use super::documents::{self, DocumentKey, DocumentToken};
use super::error::PgError;
use super::payload::{Payload, to_signed};
use super::put::{self, NewCheckpoint};
use super::{PostgresBackend, lists};
use crate::backend::{Backend as _, Item, NewLabels, PutOutcome, Series};

/// The labels of a session, with that of a new checkpoint.
pub struct LabelUpdate<'a> {
  /// The token that the current labels must still have.
  pub seen: DocumentToken,
  pub document: &'a [u8],
  pub token: Uuid,
}

/// The parameters of `put_labels`.
pub struct LabelParams<'a> {
  update: &'a LabelUpdate<'a>,
  name: String,
  size: i64,
  payload: Payload<'a>,
}

impl<'a> LabelParams<'a> {
  pub fn new(update: &'a LabelUpdate<'a>) -> Self {
    Self {
      update,
      name: Item::LABELS.to_string(),
      size: to_signed(update.document.len() as u64),
      payload: Payload::packed(update.document),
    }
  }

  /// `key` are the session, the agent and the id of the checkpoint, `parts` its bytes.
  pub fn with<'p>(&'p self, key: &[&'p (dyn ToSql + Sync)], parts: &'p Parts<'_>) -> Vec<&'p (dyn ToSql + Sync)> {
    let Self { update, payload, .. } = self;
    vec![
      key[0],
      key[2],
      &self.name,
      &update.seen.0,
      &update.token,
      &self.size,
      &payload.is_packed,
      &payload.bytes,
      &parts.size,
      &parts.head,
      &parts.tail,
    ]
  }
}

impl PostgresBackend {
  /// Stores a checkpoint with its label, if the labels of the session have not changed since they were passed to `labels`.
  pub(super) async fn put_labelled(
    &self,
    connection: &Connection,
    series: &Series,
    checkpoint: &NewCheckpoint<'_>,
    labels: &NewLabels<'_>,
    token: Uuid,
  ) -> Result<PutOutcome, PgError> {
    let session = &series.session;
    let key = DocumentKey::new(session, Item::LABELS);
    let current = documents::read_current(connection, &key, token, u64::MAX).await?;
    if current.is_changed {
      return Ok(checkpoint.stored());
    }
    let name = || self.name_of(session, Item::LABELS);
    let old = current.contents.map(|old| old.within(&name(), u64::MAX)).transpose()?;
    let entries = lists::list(connection, series).await?;
    let document = match labels(old, &entries) {
      Ok(document) => document,
      Err(error) => return Err(self.lease_error_or(connection, session, error).await),
    };
    let labelled = NewCheckpoint {
      labels: Some(LabelUpdate {
        seen: current.seen,
        document: &document,
        token,
      }),
      ..*checkpoint
    };
    Ok(put::put(connection, &labelled, &[]).await?.0)
  }
}
