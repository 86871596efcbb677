//! The tests of this crate in one program, which links once.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod loop_image;
