//! What every implementation of the store's traits must do, as suites that panic if it does not.
//!
//! Each check gets a store of its own from `make`, empty and not shared with anything else. The
//! checks know the traits' documentation only, none of the habits of one implementation.

#![expect(
    clippy::unwrap_used,
    reason = "a suite reports by panicking, like a test"
)]

mod blob;
mod concurrent;
mod earlier;
mod fixtures;
mod merges;
mod projects;
mod requests;
mod rows;
mod tokens;
mod transactions;

use std::sync::Arc;

pub use earlier::{earlier_schemas, make_earlier_database};

use crate::{BlobStore, MetaStore};

/// Checks an implementation of [`MetaStore`].
pub fn meta_store(make: impl Fn() -> Arc<dyn MetaStore>) {
    let checks: &[fn(&dyn MetaStore)] = &[
        transactions::a_view_does_not_change_while_it_is_read,
        transactions::a_transaction_sees_its_own_changes,
        transactions::nothing_remains_of_failed_work,
        transactions::upkeep_changes_no_row,
        concurrent::no_increment_is_lost,
        concurrent::errors_and_panics_of_some_do_not_touch_the_others,
        concurrent::a_follower_sees_every_line_once_and_in_order,
        rows::names_of_workspaces,
        rows::workspaces_are_updated_and_listed,
        rows::entries_with_tricky_names,
        rows::snapshots_are_found,
        rows::history_is_filtered,
        rows::objects_and_their_age,
        rows::packs_and_moves,
        rows::erasing_and_roots,
        rows::replacing_an_object_id,
        projects::names_of_projects_are_apart,
        projects::settings_of_a_project,
        projects::forks_are_found_by_project,
        projects::layers_and_their_users,
        projects::agents,
        projects::authors_from_the_closest_on,
        projects::refs_of_a_project,
        projects::erasing_a_project,
        merges::what_was_asked_for_waits_in_order,
        merges::receipts,
        merges::reviews_and_candidates,
        requests::what_a_request_made_is_noted_once,
        requests::the_oldest_notes_are_forgotten_first,
        requests::erasing_a_workspace_takes_the_notes_of_it,
        tokens::tokens_are_added_found_and_revoked,
    ];
    for check in checks {
        check(&*make());
    }
}

/// Checks an implementation of [`BlobStore`].
pub fn blob_store(make: impl Fn() -> Arc<dyn BlobStore>) {
    let checks: &[fn(&dyn BlobStore)] = &[
        blob::what_was_put_is_read,
        blob::ranges,
        blob::a_failed_put_stores_nothing,
        blob::listing_is_in_the_order_of_keys,
        blob::deleting,
        blob::deleting_by_age,
        blob::the_same_key_may_be_put_at_once,
        blob::keys_are_checked,
    ];
    for check in checks {
        check(&*make());
    }
}
