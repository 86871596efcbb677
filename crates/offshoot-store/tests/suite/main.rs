//! The tests of this crate in one program, which links once.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod conformance;
mod earlier_schemas;
mod erasing;
mod objects;
mod processes;
mod upkeep;
