//! `offshoot bench`: what things cost here, side by side with git and the bare system calls.
//!
//! Everything runs on one journaled ext4 image that the benchmark makes itself, so that peers are
//! not slowed by whatever file system happens to be below. Figures are medians; ratios are what
//! counts, because both sides ran in the same minute on the same disk.

mod figures;
mod image;
mod peers;
mod tree;
mod workspaces;

use std::path::PathBuf;

use offshoot_core::Result;

pub(crate) use figures::Figures;

/// What is measured and where.
pub(crate) struct BenchOptions {
    /// How many files the trees have, one run each.
    pub(crate) files: Vec<usize>,
    /// Where to work instead of an image of our own.
    pub(crate) dir: Option<PathBuf>,
    /// How often each step is repeated.
    pub(crate) repeat: usize,
}

/// Runs the benchmark of workspaces and calls `progress` with each step's name.
pub(crate) fn run(options: &BenchOptions, progress: &dyn Fn(&str)) -> Result<Figures> {
    let place = image::Place::make(options.dir.as_deref(), options.files.iter().copied().max())?;
    let mut figures = Figures::new(place.describe());
    for &files in &options.files {
        workspaces::run(&place, files, options.repeat, progress, &mut figures)?;
    }
    workspaces::growth(&options.files, &mut figures);
    workspaces::durable_writes(&place, options.repeat, progress, &mut figures)?;
    workspaces::disk_growth(&place, progress, &mut figures)?;
    figures.add_memory();
    Ok(figures)
}
