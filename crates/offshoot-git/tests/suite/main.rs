//! The tests of this crate in one program, which links once.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod commits;
mod common;
mod dotgit;
mod export;
mod fetch;
mod fork_git;
mod fsck;
mod ignore;
mod import;
mod receive;
mod trees;
mod untrusted;
