//! What a fork costs, a look at its changes, or a snapshot: `change_cost DIR FILES ROUNDS WHAT`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use offshoot_core::{Cause, Operator, ProjectId, RelPath, WorkspaceId};
use offshoot_engine::{Content, Engine, EngineOptions, ForkOptions, ImportOptions, WriteOptions};

fn file_path(n: usize) -> String {
    let dir = n / 100;
    format!("pkg{}/mod{dir}/file{n}.rs", dir / 10)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let dir = PathBuf::from(&args[0]);
    let files: usize = args[1].parse().unwrap();
    let rounds: usize = args[2].parse().unwrap();
    let what = args[3].as_str();
    let cause = Cause::by(Operator::user());
    let place = tempfile::tempdir_in(&dir).unwrap();
    let source = place.path().join("source");
    for n in 0..files {
        let path = source.join(file_path(n));
        if n % 100 == 0 {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        std::fs::write(path, format!("file {n}\n").repeat(100)).unwrap();
    }
    let engine = Engine::open(EngineOptions::new(place.path().join("data"))).unwrap();
    let project: ProjectId = "p".parse().unwrap();
    let mut times = Vec::new();
    let id: WorkspaceId = "w".parse().unwrap();
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
    match what {
        "changes" => {
            engine.context.wait_for_jobs();
            let options = ForkOptions {
                id: Some(id.clone()),
                ..ForkOptions::default()
            };
            let (_, path) = engine.forks.fork_out(&project, &options, &cause).unwrap();
            for n in 0..10 {
                std::fs::write(path.join(file_path(n * files / 10)), "changed").unwrap();
            }
            std::thread::sleep(Duration::from_millis(50));
            engine.sync.changes(&id).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            engine.sync.changes(&id).unwrap();
            for _ in 0..rounds {
                let began = Instant::now();
                let changes = engine.sync.changes(&id).unwrap();
                times.push(began.elapsed());
                assert!(!changes.set.changes.is_empty());
            }
            engine.workspaces.delete_workspace(&id, &cause).unwrap();
            engine.context.wait_for_jobs();
        }
        "snapshot" => {
            let options = ForkOptions {
                id: Some(id.clone()),
                ..ForkOptions::default()
            };
            engine.forks.fork(&project, &options, &cause).unwrap();
            for round in 0..rounds {
                for n in 0..10 {
                    let path =
                        RelPath::parse(file_path((n * files / 10 + round * 7) % files).as_bytes())
                            .unwrap();
                    engine
                        .workspaces
                        .write_file(
                            &id,
                            &path,
                            Content::Bytes(format!("round {round}").as_bytes()),
                            &WriteOptions::default(),
                            &cause,
                        )
                        .unwrap();
                }
                let began = Instant::now();
                engine
                    .workspaces
                    .snapshot(&id, None, false, &cause)
                    .unwrap();
                times.push(began.elapsed());
            }
            engine.workspaces.delete_workspace(&id, &cause).unwrap();
            engine.context.wait_for_jobs();
        }
        "fork" => {
            engine.context.wait_for_jobs();
            for round in 0..rounds {
                let options = ForkOptions {
                    id: Some(format!("w{round}").parse().unwrap()),
                    ..ForkOptions::default()
                };
                let began = Instant::now();
                engine.forks.fork_out(&project, &options, &cause).unwrap();
                times.push(began.elapsed());
            }
            for round in 0..rounds {
                let id = format!("w{round}").parse().unwrap();
                engine.workspaces.delete_workspace(&id, &cause).unwrap();
            }
            engine.context.wait_for_jobs();
        }
        _ => panic!("changes, fork or snapshot"),
    }
    times.sort();
    println!(
        "{what} {files}: median {:?}, least {:?}",
        times[times.len() / 2],
        times[0]
    );
}
