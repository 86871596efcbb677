//! The tests of this crate in one program, which links once.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod common;
#[cfg(target_os = "linux")]
mod disk_full;
#[cfg(target_os = "linux")]
mod durability;
mod locks;
#[cfg(target_os = "linux")]
mod provider;
#[cfg(target_os = "linux")]
mod provider_convert;
#[cfg(target_os = "linux")]
mod provider_kill;
#[cfg(target_os = "linux")]
mod provider_tools;
#[cfg(target_os = "linux")]
mod provider_user_namespace;
#[cfg(target_os = "linux")]
mod race;
mod safe_dir;
mod safe_dir_changes;
mod scan;
mod scan_random;
