//! One connection, for one attempt.

use std::cell::Cell;
use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::future::{join_all, join4};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::connect::Connector;
use super::failure::{DbError, Failure, Retry};

pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// What the statements of this backend call the schema. Each store has its own in its place.
const SCHEMA: &str = "waymark.";

pub struct Connection {
  client: Object,
  /// Quoted, with the dot behind it.
  schema: String,
  connector: Connector,
  /// Whether something was sent that changes what is stored, and the answer has not come.
  is_under_way: Cell<bool>,
  is_in_transaction: Cell<bool>,
  /// Whether nobody knows what became of an earlier attempt.
  pub is_repeat: bool,
  /// How long ago the first attempt began.
  age: Duration,
}

impl Connection {
  pub fn new(client: Object, connector: Connector, schema: &str, is_repeat: bool, age: Duration) -> Self {
    Self {
      client,
      schema: format!("\"{schema}\"."),
      connector,
      is_under_way: Cell::new(false),
      is_in_transaction: Cell::new(false),
      is_repeat,
      age,
    }
  }

  /// How many milliseconds ago an attempt may have been made of which nobody knows what became; `None` if there was none.
  pub fn repeats_since_ms(&self) -> Option<i64> {
    // The server's clock may be a little faster than ours.
    const SLACK: Duration = Duration::from_secs(1);
    let age = self.age + SLACK;
    self
      .is_repeat
      .then(|| i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
  }

  pub fn is_under_way(&self) -> bool {
    self.is_under_way.get()
  }

  /// Whether it was begun, and neither committed nor taken back.
  pub fn is_in_transaction(&self) -> bool {
    self.is_in_transaction.get()
  }

  /// Asks for something, or does something in a transaction that is not ended yet.
  pub async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
    let statement = self.client.prepare_cached(&self.in_schema(sql)).await?;
    Ok(self.client.query(&statement, params).await?)
  }

  /// A statement that is a transaction of its own.
  pub async fn change(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Failure> {
    let answers = self.change_and_ask(&[(sql, params)], &[]).await?.0;
    Ok(answers.into_iter().next().unwrap_or_default())
  }

  /// Statements that are one transaction, sent all at once: it takes no longer than one of them. The answers are theirs.
  pub async fn change_together(&self, statements: &[(&str, Params<'_>)]) -> Result<Vec<Vec<Row>>, Failure> {
    Ok(self.change_and_ask(statements, &[]).await?.0)
  }

  /// The same, and what is asked as soon as they are done, in the same journey. An answer may be missing.
  pub async fn change_and_ask(
    &self,
    changes: &[(&str, Params<'_>)],
    questions: &[(&str, Params<'_>)],
  ) -> Result<(Vec<Vec<Row>>, Vec<Option<Vec<Row>>>), Failure> {
    let (changes, questions) = (self.prepared(changes).await?, self.prepared(questions).await?);
    self.is_under_way.set(true);
    // They are sent in the order in which they are first asked. After a change that is refused, all others of its transaction
    // are, and so is the transaction.
    let is_alone = changes.len() == 1 && !self.connector.sets_durability();
    let bracket = async |sql: &str| {
      if is_alone {
        return Ok(());
      }
      self.client.batch_execute(sql).await
    };
    let opening = self.connector.begin();
    let (begun, done, ended, answers) = join4(
      bracket(&opening),
      self.answers(&changes),
      bracket("COMMIT"),
      self.answers(&questions),
    )
    .await;
    let done = begun.and_then(|()| done.into_iter().collect::<Result<Vec<_>, _>>());
    let done = done.and_then(|done| ended.map(|()| done));
    let done = self.settled(done.map_err(|error| DbError::of_statement(&error)))?;
    Ok((done, answers.into_iter().map(Result::ok).collect()))
  }

  async fn answers(&self, prepared: &[(Statement, Params<'_>)]) -> Vec<Result<Vec<Row>, tokio_postgres::Error>> {
    let answers = prepared
      .iter()
      .map(|(statement, params)| self.client.query(statement, params));
    join_all(answers).await
  }

  async fn prepared<'a>(&self, statements: &[(&str, Params<'a>)]) -> Result<Vec<(Statement, Params<'a>)>, Failure> {
    let mut prepared = Vec::with_capacity(statements.len());
    for (sql, params) in statements {
      prepared.push((self.client.prepare_cached(&self.in_schema(sql)).await?, *params));
    }
    Ok(prepared)
  }

  /// Begins a transaction that is not sent all at once.
  pub async fn begin(&self) -> Result<(), Failure> {
    self.is_in_transaction.set(true);
    Ok(self.client.batch_execute(&self.connector.begin()).await?)
  }

  pub async fn roll_back(&self) -> Result<(), Failure> {
    self.client.batch_execute("ROLLBACK").await?;
    self.is_in_transaction.set(false);
    Ok(())
  }

  pub async fn commit(&self) -> Result<(), Failure> {
    self.is_under_way.set(true);
    let ended = self.client.batch_execute("COMMIT").await;
    self.settled(ended.map_err(|error| DbError::of_statement(&error)))?;
    self.is_in_transaction.set(false);
    Ok(())
  }

  /// Statements without parameters, as they are.
  pub async fn run(&self, sql: &str) -> Result<(), Failure> {
    Ok(self.client.batch_execute(&self.in_schema(sql)).await?)
  }

  fn in_schema(&self, sql: &str) -> String {
    sql.replace(SCHEMA, &self.schema)
  }

  /// A refusal is an answer too, unless it says that none will come.
  fn settled<T>(&self, answer: Result<T, DbError>) -> Result<T, Failure> {
    let is_answer = match &answer {
      Ok(_) => true,
      Err(refusal) => refusal.outlook != Retry::Unanswered,
    };
    self.is_under_way.set(!is_answer);
    Ok(answer?)
  }

  /// Whoever gets it next would wait for what this one did not wait for.
  pub fn discard(self) {
    drop(Object::take(self.client));
  }

  /// The same, and the server is asked to stop.
  pub fn abandon(self) {
    self.connector.cancel(self.client.cancel_token());
    self.discard();
  }
}

/// How a statement says that something it needs is not so: it divides by none of it. Nothing of it, or of its transaction,
/// is then done.
pub fn is_denied(failure: &Failure) -> bool {
  matches!(failure, Failure::Refused(refusal) if refusal.has_state(&SqlState::DIVISION_BY_ZERO))
}
