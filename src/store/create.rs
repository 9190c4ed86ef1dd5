//! Creating checkpoints of sessions: id, document, precondition, retention.

use super::labels::LabelChange;
use super::write::{CheckpointContent, WriteOutcome};
use super::{Label, Saved, Stamp, Store, Ticket};
use crate::backend::{
  CheckpointEntry, Encoding, NewLabels, Newest, Parent, Precondition, PutOptions, RetentionAnswer, RetentionQuery,
  Series,
};
use crate::checkpoint::compose::{NewCheckpoint, Parts};
use crate::types::error::{Code, Error, Result};
use crate::types::id::CheckpointId;

/// How often an operation is repeated because a concurrent one changed what it read.
pub(super) const MAX_ATTEMPTS: u32 = 100;

/// How a checkpoint is created.
#[derive(Debug, Default)]
pub struct CreateOptions {
  /// That of the store, if it is absent.
  pub encoding: Option<Encoding>,
  pub parent: Parent,
  /// A label that no other checkpoint of the session may have.
  pub unique_label: Option<Label>,
}

impl<E: Into<Option<Encoding>>> From<E> for CreateOptions {
  fn from(encoding: E) -> Self {
    Self {
      encoding: encoding.into(),
      ..Self::default()
    }
  }
}

/// A checkpoint that was created.
#[derive(Debug)]
pub struct Created {
  pub id: CheckpointId,
  pub path: String,
  pub size_bytes: u64,
  /// Failures after the checkpoint was durable.
  pub warnings: Vec<String>,
}

impl Store {
  /// The id and the time of a checkpoint that starts a new session.
  #[must_use]
  pub fn stamp(&self) -> Stamp {
    self.ids.stamp()
  }

  /// The id and the time of a checkpoint that is about to be created. Taken on the caller's thread: it fixes the order of calls.
  #[must_use]
  pub fn ticket(&self, series: impl Into<Series>) -> Ticket {
    self.ids.ticket(series.into())
  }

  /// Stores a checkpoint, then applies retention.
  pub fn create_checkpoint(
    &self,
    ticket: &Ticket,
    parts: &Parts,
    options: impl Into<CreateOptions>,
  ) -> Result<Created> {
    let (options, series) = (options.into(), ticket.series());
    let compose = |id: &CheckpointId| NewCheckpoint::compose(id, ticket.timestamp, parts);
    let query = self.retention_query(series);
    // With labels, no backend answers in the same round trip.
    let query = options.unique_label.is_none().then_some(query);
    let (id, saved, answer) = self.append(ticket, compose, &options, query)?;
    Ok(self.created(series, id, saved, query.zip(answer)))
  }

  /// Stores a checkpoint as the newest of its series. The step that stores it decides whether it is the newest: if another writer has
  /// stored a newer one, the checkpoint gets the next id and is composed again.
  pub(super) fn append<'a>(
    &self,
    ticket: &Ticket,
    compose: impl Fn(&CheckpointId) -> Result<NewCheckpoint<'a>>,
    options: &CreateOptions,
    retention: Option<RetentionQuery>,
  ) -> Result<(CheckpointId, Saved, Option<RetentionAnswer>)> {
    let series = ticket.series();
    let encoding = self.encoding_or(options.encoding);
    let unique = options.unique_label.as_ref();
    let made_with = unique
      .map(|label| self.made_with_label(series, &label.text))
      .transpose()?;
    for attempt in 0..MAX_ATTEMPTS {
      let id = ticket.id()?;
      let checkpoint = compose(&id)?;
      let with_label = |old: Option<Vec<u8>>, entries: &[CheckpointEntry]| {
        let change = LabelChange {
          series,
          id: &id,
          label: unique,
          made_with: made_with.as_ref(),
        };
        self.labels_after(&change, old, entries)?.document()
      };
      let put = PutOptions {
        precondition: Precondition::Newest(Newest {
          parent: options.parent.clone(),
          later: ticket.later_ids()?,
        }),
        retention,
        labels: unique.map(|_| &with_label as &NewLabels<'_>),
        ..PutOptions::new(encoding)
      };
      match self.write_checkpoint(series, &id, &CheckpointContent { checkpoint, encoding }, &put)? {
        WriteOutcome::Stored(saved, answer) => return Ok((id, saved, answer)),
        WriteOutcome::Behind(newest) => ticket.move_beyond(&newest, attempt),
        WriteOutcome::Missing | WriteOutcome::NoDelta => break,
      }
    }
    Err(Error::new(
      Code::Io,
      format!(
        "Could not store a checkpoint of {series}: other writers kept adding newer ones. Let one process at a time write to it, \
         for example with a lease"
      ),
    ))
  }

  /// Applies retention after a checkpoint was stored. Its failures are warnings.
  pub(super) fn created(
    &self,
    series: &Series,
    id: CheckpointId,
    saved: Saved,
    answer: Option<(RetentionQuery, RetentionAnswer)>,
  ) -> Created {
    let warnings = self.apply_retention(series, &id, Some(saved.size_bytes), answer);
    Created {
      id,
      path: saved.path,
      size_bytes: saved.size_bytes,
      warnings,
    }
  }

  /// The requested encoding, or the default one of the store.
  fn encoding_or(&self, encoding: Option<Encoding>) -> Encoding {
    encoding.unwrap_or(self.options.encoding)
  }
}
