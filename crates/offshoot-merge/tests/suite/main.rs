//! The tests of this crate in one program, which links once.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod decision_table;
mod entries;
mod histories;
mod json;
mod json_cases;
mod reasons;
mod refusals;
mod removed_lines;
mod support;
mod text;
mod tree_against_git;
mod tree_cases;
