//! Retention: the statement that lists what its rules need, and the round trip that stores a checkpoint and answers or applies
//! them.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::{Connection, Params};
use super::contents::Contents;
use super::error::PgError;
use super::payload::to_signed;
use super::put::{self, NewCheckpoint};
use super::sql::SQL;
use super::{PostgresBackend, documents, lists};
use crate::backend::sql::series_columns;
use crate::backend::{
  Backend as _, CheckpointEntry, CheckpointPage, Item, PutOutcome, RetentionAnswer, RetentionQuery, RetentionScope,
  Series,
};

const NEWEST: &str = "SELECT id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = $1 AND agent = $2
  ORDER BY made_at DESC, id DESC, encoding DESC LIMIT 1";

/// The newest checkpoint, and those beyond the $3 newest that are not pinned.
const BEYOND: &str = "(
    SELECT true AS is_newest, id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = $1 AND agent = $2
    ORDER BY made_at DESC, id DESC, encoding DESC LIMIT 1
  ) UNION ALL (
    SELECT false, id, encoding, made_at, pinned FROM waymark.checkpoints WHERE session = $1 AND agent = $2 AND NOT pinned
    ORDER BY made_at DESC, id DESC, encoding DESC OFFSET $3
  )";

/// The statements that a test checks for sequential scans, with the number of their parameters.
#[cfg(test)]
pub const LISTS: [(&str, usize); 2] = [(NEWEST, 2), (BEYOND, 3)];

/// The statement that lists the checkpoints in scope of retention.
pub struct RetentionSelect<'a> {
  scope: RetentionScope,
  session: &'a str,
  agent: &'a str,
  keep: i64,
}

impl<'a> RetentionSelect<'a> {
  pub fn new(series: &'a Series, scope: RetentionScope) -> Self {
    let (session, agent) = series_columns(series);
    let keep = match scope {
      RetentionScope::Beyond(keep) => to_signed(keep as u64),
      RetentionScope::All => 0,
    };
    Self {
      scope,
      session,
      agent,
      keep,
    }
  }

  pub fn sql(&self) -> &'static str {
    match self.scope {
      // No series is that long.
      RetentionScope::Beyond(keep) if u32::try_from(keep).is_err() => NEWEST,
      RetentionScope::Beyond(_) => BEYOND,
      RetentionScope::All => lists::ALL,
    }
  }

  pub fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.session, &self.agent];
    if self.sql() == BEYOND {
      params.push(&self.keep);
    }
    params
  }

  pub fn read(&self, rows: &[Row]) -> Result<CheckpointPage, PgError> {
    let (mut newest, mut entries) = (None, Vec::new());
    match self.scope {
      RetentionScope::All => {
        entries = lists::entries(rows)?;
        newest = entries.first().cloned();
      }
      RetentionScope::Beyond(_) if self.sql() == NEWEST => newest = lists::entries(rows)?.pop(),
      RetentionScope::Beyond(_) => {
        for row in rows {
          if row.try_get(0)? {
            newest = lists::entry(row, 1)?;
          } else {
            entries.extend(lists::entry(row, 1)?);
          }
        }
        // The order of a UNION ALL is not guaranteed.
        entries.sort_by(CheckpointEntry::newest_first);
      }
    }
    Ok(CheckpointPage {
      total: entries.len(),
      newest,
      entries,
      warning: None,
    })
  }
}

/// The answer of `delete_old_checkpoints`.
struct DeletedOld {
  /// The retention document of the session.
  rules: Option<Contents>,
  /// The newest checkpoint, if no further one has to be deleted.
  newest: Option<CheckpointEntry>,
}

impl DeletedOld {
  fn read(row: &Row) -> Result<Self, PgError> {
    let newest = if row.try_get(5)? { lists::entry(row, 6)? } else { None };
    Ok(Self {
      rules: documents::contents(row, 2)?,
      newest,
    })
  }
}

impl PostgresBackend {
  /// Stores a checkpoint, and in the same round trip answers the query of retention, or applies its rule. A failure of that part
  /// does not undo the checkpoint: the answer is then `None`, and the caller queries again.
  pub(super) async fn put_with_retention(
    &self,
    connection: &Connection,
    series: &Series,
    checkpoint: &NewCheckpoint<'_>,
    query: &RetentionQuery,
  ) -> Result<(PutOutcome, Option<RetentionAnswer>), PgError> {
    let (session, document) = (series.session.as_str(), Item::RETENTION.to_string());
    let limit = to_signed(query.limit);
    let within = |contents: Contents| {
      let name = self.name_of(&series.session, Item::RETENTION);
      contents.within(&name, query.limit)
    };
    // The deletion that follows a delta would not consider its base.
    if let Some(keep) = query.keep().filter(|_| !checkpoint.key.is_delta()) {
      let keep = to_signed(keep.max(1) as u64);
      let params = checkpoint
        .key
        .write_params(&checkpoint.fence, &[&keep, &document, &limit]);
      let queries: [(_, Params<'_>); 1] = [(SQL.delete_old_checkpoints.as_str(), &params)];
      let (outcome, answers) = put::put(connection, checkpoint, &queries).await?;
      let row = answers.first().and_then(|rows| rows.as_ref()?.first());
      let deleted = row.and_then(|row| DeletedOld::read(row).ok());
      let answer = deleted.map(|deleted| RetentionAnswer {
        document: deleted.rules.map(within).transpose(),
        list: deleted.newest.map(|newest| CheckpointPage {
          newest: Some(newest),
          ..CheckpointPage::default()
        }),
      });
      return Ok((outcome, answer));
    }
    let select = RetentionSelect::new(series, query.scope);
    let queries: [(_, Params<'_>); 2] = [
      (documents::READ, &[&session, &document, &limit]),
      (select.sql(), &select.params()),
    ];
    let (outcome, answers) = put::put(connection, checkpoint, &queries).await?;
    let mut answer = None;
    if let [Some(rules), Some(entries)] = &answers[..]
      && let Ok(list) = select.read(entries)
      && let Ok(contents) = rules.first().map(|row| documents::contents(row, 0)).transpose()
    {
      answer = Some(RetentionAnswer {
        document: contents.flatten().map(within).transpose(),
        list: Some(list),
      });
    }
    Ok((outcome, answer))
  }
}
