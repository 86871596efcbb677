//! `offshoot bench`: what things cost here, side by side with git and the bare system calls.
//!
//! Everything runs on one journaled ext4 image that the benchmark makes itself, so that peers are
//! not slowed by whatever file system happens to be below. Figures are medians; ratios are what
//! counts, because both sides ran in the same minute on the same disk.

mod figures;
mod forks;
mod http;
mod http_peers;
mod image;
mod inside;
mod load;
mod merges;
mod peers;
mod tree;
mod workspaces;

use std::path::PathBuf;

use offshoot_core::Result;

pub use figures::Figures;

/// A group of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Group {
    /// Snapshots, restores and writes of workspaces
    Workspaces,
    /// Forks of projects
    Forks,
    /// Merges into projects
    Merges,
    /// The server and MCP under load
    Http,
}

/// What is measured and where.
#[derive(Debug)]
pub struct BenchOptions {
    /// Which groups; none means all.
    pub groups: Vec<Group>,
    /// How many files the trees have, one run each.
    pub files: Vec<usize>,
    /// The directory to work in; none means a fresh image.
    pub dir: Option<PathBuf>,
    /// How often each step is repeated.
    pub repeat: usize,
}

/// Runs the benchmark and calls `progress` with each step's name.
pub fn run(options: &BenchOptions, progress: &dyn Fn(&str)) -> Result<Figures> {
    let place = image::BenchDir::make(options.dir.as_deref(), options.files.iter().copied().max())?;
    let mut figures = Figures::new(place.describe());
    let wanted = |group| options.groups.is_empty() || options.groups.contains(&group);
    if wanted(Group::Workspaces) {
        for &files in &options.files {
            workspaces::run(&place, files, options.repeat, progress, &mut figures)?;
        }
        workspaces::growth(&place, &options.files, progress, &mut figures)?;
        workspaces::durable_writes(&place, options.repeat, progress, &mut figures)?;
        workspaces::disk_growth(&place, progress, &mut figures)?;
        figures.add_memory();
    }
    let largest = options.files.iter().copied().max();
    if wanted(Group::Forks) {
        for &files in &options.files {
            let is_largest = Some(files) == largest;
            forks::run(
                &place,
                files,
                options.repeat,
                is_largest,
                progress,
                &mut figures,
            )?;
        }
        forks::growth(&place, &options.files, progress, &mut figures)?;
    }
    if wanted(Group::Merges) {
        let sizes = options.files.iter().copied();
        let sizes: Vec<usize> = sizes.filter(|files| *files >= 1_000).collect();
        for &files in &sizes {
            merges::run(&place, files, files <= 10_000, progress, &mut figures)?;
        }
        merges::growth(&sizes, &mut figures);
        merges::json(&place, progress, &mut figures)?;
    }
    if wanted(Group::Http) {
        http::run(&place, options.repeat, progress, &mut figures)?;
        for &files in options.files.iter().filter(|files| **files != 10_000) {
            http::fork(&place, files, progress, &mut figures)?;
        }
    }
    Ok(figures)
}

/// The smallest and the largest of these trees, if they are two.
fn smallest_and_largest(files: &[usize]) -> Option<(usize, usize)> {
    let (small, large) = (*files.iter().min()?, *files.iter().max()?);
    (small < large).then_some((small, large))
}
