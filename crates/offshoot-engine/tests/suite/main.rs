//! The tests of this crate in one program, which links once.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod agents;
mod atomic_landing;
mod atomic_properties;
mod blame;
mod candidates;
mod check;
mod convert;
mod damage;
mod data_removal;
mod deep_paths;
#[cfg(target_os = "linux")]
mod disk_full;
mod erased_beside_writes;
mod faults;
mod fixture;
#[cfg(target_os = "linux")]
mod fork_container;
mod fork_faults;
mod fork_git;
mod fork_kill;
mod fork_layers;
mod fork_tools;
mod forks;
mod forks_stay;
mod ignored;
mod import;
mod left_out;
mod life;
mod listing;
mod maintenance;
mod merge;
mod merge_keeps;
mod merge_kill;
mod merge_properties;
mod meta;
mod oracle;
mod others_wait;
mod outside;
mod overview;
mod priority;
mod priority_properties;
mod properties;
mod protect;
mod purge_projects;
mod reused_names;
mod review_rights;
mod review_texts;
mod reviews_close;
mod session_places;
mod too_large;
mod unrecorded;
mod update_reviews;
mod workspace;
mod writers;
