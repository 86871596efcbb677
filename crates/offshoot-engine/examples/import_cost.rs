//! What an import costs beside `git add -A && git commit`: `import_cost DIR FILES…`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::path::PathBuf;
use std::time::Instant;

use offshoot_core::{Cause, Operator, ProjectId};
use offshoot_engine::{Engine, EngineOptions, ForkOptions, ImportOptions, ImportStage};
use offshoot_testkit::{TreeSpec, git, make_tree};

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap());
    let cause = Cause::by(Operator::user());
    for files in args {
        let files: usize = files.parse().unwrap();
        let place = tempfile::tempdir_in(&dir).unwrap();
        let source = place.path().join("source");
        std::fs::create_dir(&source).unwrap();
        let made = make_tree(&source, &TreeSpec::source_code(files), 1);
        let engine = Engine::open(EngineOptions::new(place.path().join("data"))).unwrap();
        let project: ProjectId = "p".parse().unwrap();
        let began = Instant::now();
        let mut layer_began = None;
        let mut progress = |told: offshoot_engine::ImportProgress| {
            if told.stage == ImportStage::Layer && layer_began.is_none() {
                layer_began = Some(began.elapsed());
            }
        };
        let options = ImportOptions::default();
        engine
            .projects
            .import_dir(&project, &source, &options, &mut progress, &cause)
            .unwrap();
        let import = began.elapsed();
        let began = Instant::now();
        let fork = engine
            .forks
            .fork_out(&project, &ForkOptions::default(), &cause);
        let forked = began.elapsed();
        let (_, path) = fork.unwrap();
        let began = Instant::now();
        git(&source, &["init", "-q"]);
        git(&source, &["add", "-A"]);
        git(&source, &["commit", "-q", "-m", "all"]);
        let by_git = began.elapsed();
        let began = Instant::now();
        let from_git: ProjectId = "q".parse().unwrap();
        engine
            .projects
            .import_git(&from_git, &source, &mut |_| {}, &cause)
            .unwrap();
        println!(
            "{files} files, {} MiB: import {import:?} (stored after {:?}), first fork {forked:?}, \
             git add and commit {by_git:?}, import of that repository {:?}",
            made.bytes >> 20,
            layer_began.unwrap_or_default(),
            began.elapsed()
        );
        drop(engine);
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(&path)
            .status();
        let _ = std::process::Command::new("chattr")
            .args(["-R", "-f", "-i"])
            .arg(place.path())
            .status();
    }
}
