//! What the SQL backends share: how items become columns, and columns become items.
//!
//! Belongs here: what SQLite and `PostgreSQL` store in the same form. Does not belong here: statements, connections, transactions and
//! the errors of a database, which differ.

mod checkpoints;
mod documents;
mod numbers;

pub use checkpoints::{
  SplitCheckpoint, agent_column, base_of_delta, encoding_number, encoding_of_number, entry_of, peek_columns,
  series_columns,
};
pub use documents::{FIRST_NUMBER, document_name, missing_version, row_too_large, task_of_result};
pub use numbers::{to_signed, to_unsigned};
