//! Storing a checkpoint, with its labels and with what a delta adds to its base.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::bases::BaseAddition;
use super::documents::{self, DocumentKey};
use super::error::SqliteError;
use super::{RowKey, SqliteBackend, lists};
use crate::backend::{
  CheckpointEntry, Content, Document, Item, NewLabels, Precondition, PutOptions, PutOutcome, Series,
};
use crate::types::error::Result;
use crate::types::id::CheckpointId;
use crate::types::time::Timestamp;

/// A checkpoint that is about to be stored. Owned, because the operation may run on another thread.
struct NewCheckpoint {
  series: Series,
  entry: CheckpointEntry,
  name: String,
  row: RowKey,
  bytes: Vec<u8>,
  base: Option<BaseAddition>,
  precondition: Precondition,
}

impl SqliteBackend {
  pub(super) fn store_checkpoint(
    &self,
    series: &Series,
    id: &CheckpointId,
    content: &dyn Content,
    options: &PutOptions<'_>,
  ) -> Result<PutOutcome> {
    let (session, item) = (&series.session, series.item(id, options.encoding));
    let action = self.action_on_item("write", session, item);
    let bytes = self.bytes(session, item, content)?;
    let checkpoint = NewCheckpoint {
      series: series.clone(),
      entry: CheckpointEntry::new(id.clone(), options.encoding, Timestamp::now),
      name: action.name.clone(),
      row: RowKey::of(session, item),
      bytes,
      base: options.base.map(|base| BaseAddition::new(series, base)),
      precondition: options.precondition.clone(),
    };
    let outcome = Arc::new(Mutex::new(None));
    if options.labels.is_some() {
      self.submit_here(session, &action, &mut |connection| {
        *outcome.lock() = Some(checkpoint.put(connection, options.labels)?);
        Ok(true)
      })?;
    } else {
      let outcome = Arc::clone(&outcome);
      self.submit(session, action, true, move |connection| {
        *outcome.lock() = Some(checkpoint.put(connection, None)?);
        Ok(true)
      })?;
    }
    let outcome = outcome.lock().take();
    Ok(outcome.unwrap_or(PutOutcome::BaseIsGone))
  }
}

impl NewCheckpoint {
  fn put(&self, connection: &Connection, labels: Option<&NewLabels<'_>>) -> Result<PutOutcome, SqliteError> {
    if let Some(refusal) = lists::refusal(connection, &self.series, &self.entry, &self.precondition)? {
      return Ok(refusal);
    }
    let labels = labels.map(|labels| self.labels(connection, labels)).transpose()?;
    if let Some(base) = &self.base
      && !base.apply(connection)?
    {
      return Ok(PutOutcome::BaseIsGone);
    }
    if let Some(document) = labels {
      documents::replace(connection, &self.series.session, Document::Labels, &document, 0)?;
    }
    self.row.put(connection, &self.bytes)?;
    Ok(PutOutcome::Stored {
      size: self.bytes.len() as u64,
      base: self.base.as_ref().map(BaseAddition::stamp),
      retention: None,
    })
  }

  /// The labels of the session together with those of this checkpoint.
  fn labels(&self, connection: &Connection, labels: &NewLabels<'_>) -> Result<Vec<u8>, SqliteError> {
    let key = DocumentKey::new(&self.series.session, Item::LABELS);
    let old = documents::read(connection, &key, u64::MAX)?;
    let old = old.map(|old| old.within(&self.name, u64::MAX)).transpose()?;
    Ok(labels(old, &lists::list(connection, &self.series)?)?)
  }
}
