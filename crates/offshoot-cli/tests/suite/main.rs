//! The tests of this crate in one program, which links once.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod check_beside;
mod damage;
mod data;
mod docs;
mod errors;
mod flows;
mod forks;
mod from_elsewhere;
mod full_disk;
mod kill;
mod links;
mod merge_file;
mod merges;
mod nothing_lost;
mod power_cut;
mod projects;
mod push_kill;
mod reading;
#[cfg(target_os = "linux")]
mod rootless;
mod serve;
mod setup;
mod support;
mod surface;
mod writers;
