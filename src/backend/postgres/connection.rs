//! A connection for one attempt of a call.

use std::cell::Cell;
use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::future::{join_all, join4};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::connector::Connector;
use super::error::{DbError, PgError, Retry};

pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The schema in the texts of statements. It is replaced by that of the store.
const SCHEMA: &str = "waymark.";

pub struct Connection {
  client: Object,
  /// Quoted, with the dot behind it.
  schema: String,
  connector: Connector,
  /// Whether a change was sent whose answer has not arrived.
  is_unanswered: Cell<bool>,
  is_in_transaction: Cell<bool>,
  /// Whether the outcome of an earlier attempt of this call is unknown.
  pub is_retry: bool,
  /// The time since the first attempt began.
  age: Duration,
}

impl Connection {
  pub fn new(client: Object, connector: Connector, schema: &str, is_retry: bool, age: Duration) -> Self {
    Self {
      client,
      schema: format!("\"{schema}\"."),
      connector,
      is_unanswered: Cell::new(false),
      is_in_transaction: Cell::new(false),
      is_retry,
      age,
    }
  }

  /// The milliseconds since the first attempt; `None` if the outcome of no attempt is unknown.
  pub fn ms_since_first_attempt(&self) -> Option<i64> {
    // The server's clock may run a little faster.
    const SLACK: Duration = Duration::from_secs(1);
    let age = self.age + SLACK;
    self
      .is_retry
      .then(|| i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
  }

  pub fn is_unanswered(&self) -> bool {
    self.is_unanswered.get()
  }

  /// Whether a transaction was begun that has not ended.
  pub fn is_in_transaction(&self) -> bool {
    self.is_in_transaction.get()
  }

  /// Runs a statement that reads, or one of a transaction that has not ended.
  pub async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, PgError> {
    let statement = self.client.prepare_cached(&self.in_schema(sql)).await?;
    Ok(self.client.query(&statement, params).await?)
  }

  /// Runs a statement that changes something as a transaction of its own.
  pub async fn execute(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, PgError> {
    let answers = self.execute_then_query(&[(sql, params)], &[]).await?.0;
    Ok(answers.into_iter().next().unwrap_or_default())
  }

  /// Runs statements as one transaction in one round trip, and returns the answer of each.
  pub async fn execute_together(&self, statements: &[(&str, Params<'_>)]) -> Result<Vec<Vec<Row>>, PgError> {
    Ok(self.execute_then_query(statements, &[]).await?.0)
  }

  /// Like [`Self::execute_together`], and runs `queries` after the commit, in the same round trip. The answer of a query that
  /// failed is `None`.
  pub async fn execute_then_query(
    &self,
    changes: &[(&str, Params<'_>)],
    queries: &[(&str, Params<'_>)],
  ) -> Result<(Vec<Vec<Row>>, Vec<Option<Vec<Row>>>), PgError> {
    let (changes, queries) = (self.prepare(changes).await?, self.prepare(queries).await?);
    self.is_unanswered.set(true);
    // Requests are sent in the order in which their futures are first polled. After a statement fails, the server refuses all
    // others of its transaction, and the commit rolls back.
    let is_single = changes.len() == 1 && !self.connector.sets_durability();
    let bracket = async |sql: &str| {
      if is_single {
        return Ok(());
      }
      self.client.batch_execute(sql).await
    };
    let opening = self.connector.begin();
    let (begun, results, committed, answers) = join4(
      bracket(&opening),
      self.answers(&changes),
      bracket("COMMIT"),
      self.answers(&queries),
    )
    .await;
    let results = begun.and_then(|()| results.into_iter().collect::<Result<Vec<_>, _>>());
    let results = results.and_then(|results| committed.map(|()| results));
    let results = self.record_answer(results)?;
    Ok((results, answers.into_iter().map(Result::ok).collect()))
  }

  async fn answers(&self, prepared: &[(Statement, Params<'_>)]) -> Vec<Result<Vec<Row>, tokio_postgres::Error>> {
    let answers = prepared
      .iter()
      .map(|(statement, params)| self.client.query(statement, params));
    join_all(answers).await
  }

  async fn prepare<'a>(&self, statements: &[(&str, Params<'a>)]) -> Result<Vec<(Statement, Params<'a>)>, PgError> {
    let mut prepared = Vec::with_capacity(statements.len());
    for (sql, params) in statements {
      prepared.push((self.client.prepare_cached(&self.in_schema(sql)).await?, *params));
    }
    Ok(prepared)
  }

  /// Begins a transaction of several round trips.
  pub async fn begin(&self) -> Result<(), PgError> {
    self.is_in_transaction.set(true);
    Ok(self.client.batch_execute(&self.connector.begin()).await?)
  }

  pub async fn rollback(&self) -> Result<(), PgError> {
    self.client.batch_execute("ROLLBACK").await?;
    self.is_in_transaction.set(false);
    Ok(())
  }

  pub async fn commit(&self) -> Result<(), PgError> {
    self.is_unanswered.set(true);
    let committed = self.client.batch_execute("COMMIT").await;
    self.record_answer(committed)?;
    self.is_in_transaction.set(false);
    Ok(())
  }

  /// Runs statements without parameters.
  pub async fn batch(&self, sql: &str) -> Result<(), PgError> {
    Ok(self.client.batch_execute(&self.in_schema(sql)).await?)
  }

  fn in_schema(&self, sql: &str) -> String {
    sql.replace(SCHEMA, &self.schema)
  }

  /// An error is an answer too, unless it means that none will arrive.
  fn record_answer<T>(&self, answer: Result<T, tokio_postgres::Error>) -> Result<T, PgError> {
    let answer = answer.map_err(|error| DbError::from_statement(&error));
    let is_answer = match &answer {
      Ok(_) => true,
      Err(error) => error.retry != Retry::Unanswered,
    };
    self.is_unanswered.set(!is_answer);
    Ok(answer?)
  }

  /// Closes the connection instead of returning it to the pool: the next user would wait for the statement that this one did not
  /// wait for.
  pub fn discard(self) {
    drop(Object::take(self.client));
  }

  /// Closes the connection, and asks the server to cancel its statement.
  pub fn cancel_and_discard(self) {
    self.connector.cancel(self.client.cancel_token());
    self.discard();
  }
}

/// Whether a statement failed one of its own checks, which it reports by dividing by zero. Nothing of it, or of its transaction,
/// was stored.
pub fn is_failed_check(error: &PgError) -> bool {
  matches!(error, PgError::Db(error) if error.has_sqlstate(&SqlState::DIVISION_BY_ZERO))
}
