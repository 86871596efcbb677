//! What durable writes cost when many write at once: `write_cost DIR SECONDS THREADS WHAT`, where
//! WHAT is `writes` or, for their rows alone, `commits`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use offshoot_core::{Cause, Layout, Operator, RelPath, WorkspaceId};
use offshoot_engine::{Content, Engine, EngineOptions, Quota, WriteOptions};

fn four_kib(seed: usize) -> String {
    let line = format!("line of {seed} with some words in it that differ by {seed}\n");
    line.repeat(4096 / line.len() + 1)[..4096].to_owned()
}

/// What this process has used of the processors.
fn used() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split(' ').collect();
    let ticks: u64 = fields[12].parse::<u64>().unwrap() + fields[13].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let place = tempfile::tempdir_in(PathBuf::from(&args[0])).unwrap();
    let round = Duration::from_secs(args[1].parse().unwrap());
    let threads: usize = args[2].parse().unwrap();
    let whole = args[3] == "writes";
    let engine = Engine::open(EngineOptions::new(place.path().join("data"))).unwrap();
    let ws: WorkspaceId = "w".parse().unwrap();
    let cause = Cause::by(Operator::user());
    engine
        .workspaces
        .create_workspace(Some(ws.clone()), Layout::Plain, Quota::default(), &cause)
        .unwrap();
    let (began, before) = (Instant::now(), used());
    let count: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|client| {
                let (engine, ws, cause) = (&engine, &ws, &cause);
                scope.spawn(move || {
                    let mut n = 0;
                    while began.elapsed() < round {
                        let path = format!("p{client}/{}.txt", n % 64);
                        let path = RelPath::parse(path.as_bytes()).unwrap();
                        let text = four_kib(client * 1_000_000 + n);
                        if whole {
                            let options = WriteOptions::default();
                            let content = Content::Bytes(text.as_bytes());
                            engine
                                .workspaces
                                .write_file(ws, &path, content, &options, cause)
                                .unwrap();
                        } else {
                            engine
                                .workspaces
                                .baseline_write(ws, &path, text.as_bytes(), cause)
                                .unwrap();
                        }
                        n += 1;
                    }
                    n
                })
            })
            .collect();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum()
    });
    let (took, cpu) = (began.elapsed(), used() - before);
    println!(
        "{:.0} /s, {:.0} us of processor each, {:.2} processors in use",
        count as f64 / took.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / count as f64,
        cpu.as_secs_f64() / took.as_secs_f64()
    );
}
