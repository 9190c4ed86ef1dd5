//! What every backend must do. A new backend runs this suite before anything else.

use super::Backend;
use crate::types::id::{CheckpointId, SessionId};

mod checkpoints;
mod create_session;
mod items;
mod leases;
mod peek;
mod quarantine;
mod shorthand;

pub use leases::stored_leases;
pub use shorthand::Shorthand;

type Factory<'a> = &'a dyn Fn(u32) -> Box<dyn Backend>;

/// Runs every clause on a backend of its own; `new_backend` is told how many earlier versions it keeps.
pub fn run(new_backend: impl Fn(u32) -> Box<dyn Backend>) {
  let new_backend: Factory<'_> = &new_backend;
  items::what_is_missing_is_none_and_no_error(new_backend);
  items::what_was_written_is_read_back_and_replaced(new_backend);
  items::session_and_tree_are_written_together(new_backend);
  items::a_state_that_is_not_confirmed_replaces_nothing(new_backend);
  items::removing_takes_one_item_and_deleting_takes_all(new_backend);
  items::a_session_is_deleted_only_if_its_document_is_accepted(new_backend);
  items::nothing_that_is_acknowledged_goes_with_a_session_that_was_over(new_backend);
  items::usage_counts_every_byte(new_backend);
  items::an_update_sees_what_is_there_and_no_other_comes_between(new_backend);
  items::as_many_earlier_versions_stay_as_are_wanted(new_backend);
  items::simultaneous_writers_never_mix(new_backend);
  peek::peek_returns_both_ends_of_checkpoints_of_any_size(new_backend);
  quarantine::quarantine_moves_a_checkpoint_only_while_its_bytes_match(new_backend);
  checkpoints::a_peek_shows_both_ends(new_backend);
  checkpoints::checkpoints_are_listed_newest_first(new_backend);
  checkpoints::a_checkpoint_is_found_in_every_session_that_holds_it(new_backend);
  checkpoints::agents_have_rows_of_their_own(new_backend);
  checkpoints::a_pinned_checkpoint_is_not_retired_and_not_counted(new_backend);
  checkpoints::a_delta_needs_its_key_and_the_key_goes_with_the_last_one(new_backend);
  checkpoints::a_checkpoint_comes_after_the_one_that_was_expected_or_not_at_all(new_backend);
  checkpoints::a_new_checkpoint_is_newer_than_those_of_other_writers(new_backend);
  checkpoints::of_two_writers_that_choose_the_same_id_one_stores_it(new_backend);
  checkpoints::a_checkpoint_is_stored_in_one_encoding(new_backend);
  checkpoints::the_newest_checkpoint_is_never_retired(new_backend);
  checkpoints::labels_change_in_one_step_with_a_look_at_the_checkpoints(new_backend);
  create_session::only_sessions_with_a_session_document_are_listed(new_backend);
  create_session::a_session_is_founded_whole_or_not_at_all(new_backend);
  create_session::what_a_session_is_founded_with_has_its_place(new_backend);
  create_session::a_supply_that_fails_leaves_nothing(new_backend);
  leases::one_has_a_session_until_it_is_given_back(new_backend);
  leases::a_lease_that_is_past_its_time_can_be_taken_and_until_then_renewed(new_backend);
  leases::a_write_without_a_lease_ends_one_that_is_past_its_time(new_backend);
  leases::what_changes_nothing_ends_no_lease(new_backend);
  leases::of_many_who_want_a_session_one_gets_it(new_backend);
  leases::whoever_does_not_own_a_session_cannot_write_to_it(new_backend);
  leases::a_session_that_is_owned_is_founded_by_its_owner(new_backend);
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
