//! Lists of checkpoints, from the names of their files.

use super::disk::{Directory, Disk};
use super::{
  FileBackend, below, directories, each_once, encodings_of, exists, is_absence, listing_cache, modified, pin_of,
};
use crate::backend::{CheckpointEntry, CheckpointPage, Encoding, PeekResult, RetentionScope, Selection, Series};
use crate::types::error::{Error, Result};
use crate::types::id::CheckpointId;

impl<D: Disk> FileBackend<D> {
  pub(super) fn select(&self, series: &Series, selection: Selection<'_>) -> Result<CheckpointPage> {
    match selection {
      Selection::All => Ok(CheckpointPage::all(self.list_checkpoints(series)?)),
      Selection::One(id) => {
        let entry = self.find_checkpoint(series, id)?;
        Ok(CheckpointPage::all(entry.into_iter().collect()))
      }
      Selection::Page { after, limit } => Ok(CheckpointPage::cut(self.list_checkpoints(series)?, after, limit)),
      Selection::Retention(scope) => self.list_for_retention(series, scope),
    }
  }

  pub(super) fn list_checkpoints(&self, series: &Series) -> Result<Vec<CheckpointEntry>> {
    match self.open_directory(&below(&series.session, series.folders()))? {
      Some(directory) => {
        listing_cache::list_unchanged(&directory, || self.checkpoints_in(series, &directory), each_once)
      }
      None => Ok(Vec::new()),
    }
  }

  pub(super) fn find_checkpoint(&self, series: &Series, id: &CheckpointId) -> Result<Option<CheckpointEntry>> {
    let Some(directory) = self.open_directory(&below(&series.session, series.folders()))? else {
      return Ok(None);
    };
    // Under the lock: a conversion adds one name before it removes the other.
    listing_cache::with_lock(&directory, |is_locked| {
      let item = series.item(id, Encoding::Json);
      let encodings = match encodings_of(&directory, item) {
        // Without the lock, a conversion can add a name that was checked already and remove one that was not: check again.
        Ok(encodings) if encodings.is_empty() && !is_locked => encodings_of(&directory, item),
        encodings => encodings,
      };
      let encodings = encodings.map_err(|error| Error::io("read", &self.path(&series.session, item), error))?;
      let Some(encoding) = encodings.first() else {
        return Ok(None);
      };
      let name = series.item(id, *encoding).file_name();
      Ok(Some(CheckpointEntry {
        is_pinned: exists(&directory, &pin_of(id)).unwrap_or(true),
        ..CheckpointEntry::new(id.clone(), *encoding, || modified(&directory, &name))
      }))
    })
  }

  pub(super) fn list_for_retention(&self, series: &Series, scope: RetentionScope) -> Result<CheckpointPage> {
    let Some(directory) = self.open_directory(&below(&series.session, series.folders()))? else {
      return Ok(CheckpointPage::default());
    };
    let session = &series.session;
    self.names.list_for_retention(
      series,
      &directory,
      scope,
      || self.checkpoints_in(series, &directory),
      |newest| {
        if series.agent.is_some() {
          return None;
        }
        let open = || directories::open(&self.disk, &[session.as_str()]);
        let moved = self.latest.follow(session, newest, open);
        // Only other programs use the link: an error is reported as a warning.
        let path = self.path(session, series.item_of(newest));
        moved
          .err()
          .map(|error| Error::io("move the link to", &path, error).message)
      },
    )
  }

  pub(super) fn refresh_latest_link(&self, series: &Series) -> Result<()> {
    let newest = self.list_checkpoints(series)?.into_iter().next();
    if let (Some(newest), None) = (newest, &series.agent) {
      self.latest.doubt(&series.session);
      self.latest.made(&series.session, newest);
      self.list_for_retention(series, RetentionScope::Beyond(usize::MAX))?;
    }
    Ok(())
  }

  pub(super) fn peek_at(
    &self,
    series: &Series,
    entries: &[&CheckpointEntry],
    head: usize,
    tail: usize,
  ) -> Result<Vec<PeekResult>> {
    let Some(directory) = self.open_directory(&below(&series.session, series.folders()))? else {
      return Ok(entries.iter().map(|_| Ok(None)).collect());
    };
    let peek = |entry: &&CheckpointEntry| {
      let path = || self.path(&series.session, series.item_of(entry));
      match directory.peek(&series.item_of(entry).file_name(), head, tail) {
        Ok(Some(peek)) => Ok(Some(peek)),
        Ok(None) => Err(Error::corrupt(&path().to_string_lossy(), "it is not a file")),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(Error::io("read", &path(), error)),
      }
    };
    Ok(entries.iter().map(peek).collect())
  }
}
