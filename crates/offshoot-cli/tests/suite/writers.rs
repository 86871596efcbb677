//! Sixteen writers to one workspace from two processes: nothing acknowledged is lost or torn.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use offshoot_core::{Cause, Layout, ObjectId, Operator, RelPath, WorkspaceId};
use offshoot_engine::{Content, Engine, EngineOptions, Quota, WriteOptions};
use offshoot_testkit::{Process, Rng, soak};

const THREADS: usize = 8;
const PATHS: usize = 12;

fn open(data: &Path) -> Engine {
    Engine::open(EngineOptions::new(data)).unwrap()
}

/// Content that tells whether it is whole: its own length and a fill that follows from its head.
fn content(writer: usize, number: usize) -> Vec<u8> {
    let mut rng = Rng::new((writer * 1_000_003 + number) as u64);
    let mut fill = vec![0; rng.between(10, 5_000)];
    rng.fill(&mut fill);
    let mut bytes = format!("{writer} {number}\n").into_bytes();
    bytes.extend(fill);
    bytes
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(head) = bytes.split(|&byte| byte == b'\n').next() else {
        return false;
    };
    let Ok(head) = std::str::from_utf8(head) else {
        return false;
    };
    let mut words = head.split(' ').map(str::parse::<usize>);
    match (words.next(), words.next()) {
        (Some(Ok(writer)), Some(Ok(number))) => content(writer, number) == bytes,
        _ => false,
    }
}

/// The part of the test that runs as a process of its own; prints what was acknowledged.
#[test]
fn writer_process() {
    let Some(data) = std::env::var_os("OFFSHOOT_TEST_WRITER_DATA") else {
        return;
    };
    let process: usize = std::env::var("OFFSHOOT_TEST_WRITER")
        .unwrap()
        .parse()
        .unwrap();
    let each: usize = std::env::var("OFFSHOOT_TEST_WRITES")
        .unwrap()
        .parse()
        .unwrap();
    let engine = open(Path::new(&data));
    let ws: WorkspaceId = "w".parse().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (engine, ws) = (&engine, &ws);
            scope.spawn(move || {
                let writer = process * THREADS + thread;
                let cause = Cause::by(Operator::new(&format!("writer-{writer}")));
                let mut rng = Rng::new(writer as u64);
                for number in 0..each {
                    let path = format!("p{}/shared", rng.below(PATHS));
                    let rel = RelPath::parse(path.as_bytes()).unwrap();
                    let bytes = content(writer, number);
                    let written = engine
                        .workspaces
                        .write_file(
                            ws,
                            &rel,
                            Content::Bytes(&bytes),
                            &WriteOptions::default(),
                            &cause,
                        )
                        .unwrap();
                    println!("ack {path} {}", written.id);
                    let (read, _) = engine.workspaces.read_whole(ws, &rel).unwrap();
                    assert!(is_whole(&read), "{path} was read torn");
                }
            });
        }
    });
}

#[test]
fn writers_from_two_processes() {
    let each = if soak() { 500 } else { 25 };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let engine = open(&data);
    let ws: WorkspaceId = "w".parse().unwrap();
    let cause = Cause::by(Operator::user());
    engine
        .workspaces
        .create_workspace(Some(ws.clone()), Layout::Plain, Quota::default(), &cause)
        .unwrap();
    let started = Instant::now();
    let mut processes: Vec<Process> = (0..2)
        .map(|number| {
            Process::spawn(
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "writers::writer_process", "--nocapture"])
                    .env("OFFSHOOT_TEST_WRITER_DATA", &data)
                    .env("OFFSHOOT_TEST_WRITER", number.to_string())
                    .env("OFFSHOOT_TEST_WRITES", each.to_string())
                    .stdout(Stdio::piped()),
            )
        })
        .collect();
    let mut acknowledged: BTreeMap<String, BTreeSet<ObjectId>> = BTreeMap::new();
    let mut count = 0;
    for process in &mut processes {
        let stdout = process.take_stdout().unwrap();
        for line in std::io::BufReader::new(stdout).lines() {
            let line = line.unwrap();
            // The test harness may have begun the line with a word of its own.
            let Some(at) = line.find("ack ") else {
                continue;
            };
            let mut words = line[at + 4..].split(' ');
            let (path, id) = (words.next().unwrap(), words.next().unwrap());
            acknowledged
                .entry(path.to_owned())
                .or_default()
                .insert(id.parse().unwrap());
            count += 1;
        }
    }
    for process in &mut processes {
        let status = process
            .wait_at_most(Duration::from_secs(60))
            .expect("a writer hangs");
        assert!(status.success());
    }
    let took = started.elapsed();
    assert_eq!(count, 2 * THREADS * each, "every write was acknowledged");
    for (path, ids) in &acknowledged {
        let rel = RelPath::parse(path.as_bytes()).unwrap();
        let history = engine.history.lines(&ws, Some(&rel), 0).unwrap();
        let recorded: BTreeSet<ObjectId> =
            history.iter().filter_map(|row| row.line.after).collect();
        assert!(ids.is_subset(&recorded), "{path} lacks versions");
        let newest = history.iter().find_map(|row| row.line.after).unwrap();
        let (bytes, id) = engine.workspaces.read_whole(&ws, &rel).unwrap();
        assert!(is_whole(&bytes), "{path} is torn");
        assert_eq!(id, newest, "{path} holds its last version");
    }
    assert_eq!(engine.upkeep.check().unwrap().problems, []);
    println!(
        "soak: writers: {count} writes by {} writers in 2 processes in {:.1} s, all in the history, none torn",
        2 * THREADS,
        took.as_secs_f64()
    );
}
