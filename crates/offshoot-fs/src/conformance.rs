//! What every provider must do, as a suite that panics if one does not.
//!
//! The checks know the manual of [`crate::provider`] only. They restate, for forks of frozen
//! layers, what the snapshotters of container runtimes are tested for, and add what overlays get
//! wrong when they are used carelessly. Everything that a check makes is gone when it ends, also by
//! a panic.

#![expect(
    clippy::unwrap_used,
    reason = "a suite reports by panicking, like a test"
)]

mod content;
mod fixture;
mod hostile;
mod life;
mod random;
mod tree;

use std::path::Path;

use crate::Provider;
use fixture::Fixture;

/// One check.
type Check = fn(&Fixture<'_>);

/// The checks with their names.
const CHECKS: &[(&str, Check)] = &[
    ("shows the base and takes changes", content::basic),
    ("newer layers win", content::newer_layers_win),
    (
        "files updated in many layers",
        content::updated_in_many_layers,
    ),
    ("deleted files stay deleted", content::deleted_files),
    ("whiteouts of both forms", content::whiteouts_of_both_forms),
    (
        "directory removed then made again",
        content::removed_then_made_again,
    ),
    ("opaque directories of layers", content::opaque_directories),
    ("rename of files", content::rename_files),
    ("rename of directories", content::rename_directories),
    ("renames of renames", content::rename_chains),
    ("modes", content::modes),
    (
        "modes of directories in layers",
        content::directory_modes_in_layers,
    ),
    ("mode of the root", content::root_mode),
    ("owners", content::owners),
    ("symbolic links", content::symbolic_links),
    ("hard links", content::hard_links),
    ("file becomes directory and back", content::type_changes),
    (
        "touched files are only maybe changed",
        content::touched_files,
    ),
    ("large files", content::large_files),
    ("empty directories", content::empty_directories),
    ("flatten shows what a fork shows", tree::flatten_is_the_fork),
    ("128 layers", tree::many_layers),
    ("more layers than possible", tree::too_many_layers),
    ("what a setup made", tree::setup_layer),
    ("a second fork of the same name", life::second_fork_refused),
    ("forks do not see each other", life::forks_are_isolated),
    ("forks never write to layers", life::layers_do_not_change),
    ("a layer is never written twice", life::layers_are_frozen),
    (
        "an unfinished layer leaves nothing",
        life::unfinished_layers,
    ),
    ("a missing layer", life::missing_layer),
    ("ensure again and again", life::ensure_is_idempotent),
    ("closed and mounted again", life::close_and_ensure),
    ("a bare target refuses writes", life::bare_target),
    ("an occupied target is not buried", life::occupied_target),
    ("close while in use", life::close_while_in_use),
    ("one mount for one upper", life::one_mount_per_upper),
    ("changes belong to their layers", life::other_layers_refused),
    ("a fork is moved", life::moved_target),
    ("removal, twice", life::cleanup_twice),
    ("removal while in use", life::cleanup_while_in_use),
    ("a fork whose record was lost", life::lost_record),
    ("changes while others write", life::changes_under_load),
    ("odd names of files", hostile::odd_names),
    ("odd names of layers", hostile::odd_layer_paths),
    ("forged attributes", hostile::forged_attributes),
    ("forged whiteouts", hostile::forged_whiteouts),
    ("set-id bits and attributes", hostile::set_id_and_attributes),
    ("links that lead out", hostile::links_that_lead_out),
    ("random edits", |fixture| {
        random::random_edits(fixture, STACKS);
    }),
];

/// How many stacks of layers [`provider`] tries random edits on; twelve comparisons each.
const STACKS: u64 = 10;

/// Runs every check with forks in `dir`, an empty directory on the file system to be tested.
///
/// # Panics
/// If the provider does not do what the manual says.
pub fn provider(provider: &dyn Provider, dir: &Path) {
    for (number, (name, check)) in CHECKS.iter().enumerate() {
        let place = dir.join(format!("{number:02}"));
        std::fs::create_dir(&place).unwrap();
        let fixture = Fixture::new(provider, &place, name);
        check(&fixture);
        drop(fixture);
        std::fs::remove_dir_all(&place).unwrap();
    }
}

/// Only the comparison after random edits, on as many stacks as wanted; twelve comparisons each.
///
/// # Panics
/// If the changes that the provider finds are not what a full comparison finds.
pub fn random_edits(provider: &dyn Provider, dir: &Path, stacks: u64) {
    random::random_edits(&Fixture::new(provider, dir, "random edits"), stacks);
}
