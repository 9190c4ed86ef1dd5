//! The conformance suite: what every backend must do.

use super::{Backend, Encoding, Precondition, PutOptions, PutOutcome, Series};
use crate::types::id::{AgentId, CheckpointId, SessionId};

mod bases;
mod checkpoints;
mod create_session;
mod items;
mod labels;
mod leases;
mod peek;
mod preconditions;
mod quarantine;
mod retention;
mod shorthand;

pub use leases::stored_leases;
pub use shorthand::Shorthand;

type Factory<'a> = &'a dyn Fn(u32) -> Box<dyn Backend>;

/// Runs every test on a new backend. The argument of `new_backend` is how many earlier versions of a document it keeps.
pub fn run(new_backend: impl Fn(u32) -> Box<dyn Backend>) {
  let new_backend: Factory<'_> = &new_backend;
  items::a_missing_item_is_none_and_not_an_error(new_backend);
  items::put_replaces_an_item_and_read_returns_it(new_backend);
  items::put_state_replaces_both_documents(new_backend);
  items::put_state_if_replaces_nothing_without_confirmation(new_backend);
  items::delete_removes_one_item_and_delete_session_all(new_backend);
  items::delete_session_deletes_only_if_the_document_is_accepted(new_backend);
  items::writes_after_a_deletion_go_to_a_new_session(new_backend);
  items::usage_counts_every_byte(new_backend);
  items::update_document_is_atomic(new_backend);
  items::documents_keep_as_many_earlier_versions_as_configured(new_backend);
  items::concurrent_writers_replace_both_documents_together(new_backend);
  peek::peek_returns_both_ends_of_checkpoints_of_any_size(new_backend);
  quarantine::quarantine_moves_a_checkpoint_only_while_its_bytes_match(new_backend);
  checkpoints::peek_returns_both_ends(new_backend);
  checkpoints::checkpoints_are_listed_newest_first(new_backend);
  checkpoints::sessions_with_a_checkpoint_are_listed(new_backend);
  checkpoints::agents_have_checkpoints_of_their_own(new_backend);
  checkpoints::a_checkpoint_has_one_encoding(new_backend);
  preconditions::a_checkpoint_is_stored_only_after_its_expected_parent(new_backend);
  preconditions::a_new_checkpoint_must_be_newer_than_those_of_other_writers(new_backend);
  preconditions::one_of_two_writers_with_the_same_id_succeeds(new_backend);
  retention::retention_neither_deletes_nor_counts_pinned_checkpoints(new_backend);
  retention::retention_never_deletes_the_newest_checkpoint(new_backend);
  bases::a_delta_needs_its_base_and_the_last_one_deletes_it(new_backend);
  labels::labels_change_atomically(new_backend);
  labels::labels_change_only_with_a_checkpoint_that_is_stored(new_backend);
  create_session::saved_sessions_are_those_with_a_session_document(new_backend);
  create_session::create_session_stores_all_items_or_none(new_backend);
  create_session::create_session_keeps_order_pins_and_versions(new_backend);
  create_session::a_failing_source_leaves_no_session(new_backend);
  leases::a_session_has_one_owner_until_it_is_released(new_backend);
  leases::an_expired_lease_can_be_renewed_until_another_owner_acquires_it(new_backend);
  leases::a_write_without_a_lease_ends_an_expired_one(new_backend);
  leases::calls_that_change_nothing_end_no_lease(new_backend);
  leases::one_of_many_claims_succeeds(new_backend);
  leases::only_the_owner_can_write(new_backend);
  leases::only_the_owner_can_create_the_session(new_backend);
}

fn opened(new_backend: Factory<'_>) -> Box<dyn Backend> {
  let backend = new_backend(0);
  backend.open().unwrap();
  backend.open().unwrap();
  backend
}

fn session(id: &str) -> SessionId {
  SessionId::parse(id).unwrap()
}

fn checkpoint(id: &str) -> CheckpointId {
  CheckpointId::parse(id).unwrap()
}

/// A session's own checkpoints, and those of an agent.
fn all_series() -> [Series; 2] {
  let own = Series::from(session("s"));
  let agent = Series {
    agent: Some(AgentId::parse("a").unwrap()),
    ..own.clone()
  };
  [own, agent]
}

fn write_if(precondition: &Precondition) -> PutOptions<'static> {
  PutOptions {
    precondition: precondition.clone(),
    ..PutOptions::new(Encoding::Json)
  }
}

fn stored(size: u64) -> PutOutcome {
  PutOutcome::Stored {
    size,
    base: None,
    retention: None,
  }
}
