//! What listings of one large directory cost: `list_cost DIR FILES…`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::path::PathBuf;
use std::time::Instant;

use offshoot_core::{Cause, Operator, ProjectId, RelPath};
use offshoot_engine::{Engine, EngineOptions, ForkOptions, ImportOptions, ListOptions, ListSort};

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap());
    let cause = Cause::by(Operator::user());
    for files in args {
        let files: usize = files.parse().unwrap();
        let place = tempfile::tempdir_in(&dir).unwrap();
        let source = place.path().join("source");
        std::fs::create_dir(&source).unwrap();
        for number in 0..files {
            std::fs::write(
                source.join(format!("file-{number:06}.txt")),
                format!("{number}\n"),
            )
            .unwrap();
        }
        let engine = Engine::open(EngineOptions::new(place.path().join("data"))).unwrap();
        let project: ProjectId = "p".parse().unwrap();
        engine
            .projects
            .import_dir(
                &project,
                &source,
                &ImportOptions::default(),
                &mut |_| {},
                &cause,
            )
            .unwrap();
        let stored = engine
            .forks
            .fork(&project, &ForkOptions::default(), &cause)
            .unwrap();
        let (on_disk, path) = engine
            .forks
            .fork_out(&project, &ForkOptions::default(), &cause)
            .unwrap();
        for (what, id) in [
            ("on disk", &on_disk.workspace.id),
            ("in the store", &stored.workspace.id),
        ] {
            let page = |sort, limit| {
                let options = ListOptions {
                    sort,
                    limit,
                    after: None,
                    ..ListOptions::default()
                };
                let began = Instant::now();
                engine
                    .workspaces
                    .list_page(id, &RelPath::root(), &options, &|_| true)
                    .unwrap();
                began.elapsed()
            };
            let by_name = page(ListSort::Name, 200);
            println!(
                "{files} files {what}: 200 by name {by_name:?}, again {:?}, by size {:?}, by time \
                 {:?}, all {:?}",
                page(ListSort::Name, 200),
                page(ListSort::Size, 200),
                page(ListSort::Modified, 200),
                page(ListSort::Name, 0),
            );
        }
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
