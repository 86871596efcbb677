//! Several processes on one database, and processes that die in the middle.
//!
//! The children are this very test program: it runs the test `child`, which does nothing unless
//! an environment variable says what to do.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use offshoot_core::ErrorCode;
use offshoot_store::{Durability, MetaStore, SqliteOptions, SqliteStore};
use offshoot_testkit::Process;

const TASK: &str = "OFFSHOOT_STORE_TEST_TASK";
const DATABASE: &str = "OFFSHOOT_STORE_TEST_DATABASE";

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteOptions::default()).unwrap()
}

fn task(task: &str, database: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "processes::child", "--nocapture"])
        .env(TASK, task)
        .env(DATABASE, database)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

fn start(name: &str, database: &Path) -> Child {
    task(name, database).spawn().unwrap()
}

#[test]
fn child() {
    let (Ok(task), Some(database)) = (std::env::var(TASK), std::env::var_os(DATABASE)) else {
        return;
    };
    let store = open(Path::new(&database));
    match task.as_str() {
        "hold" => hold(&store, Path::new(&database)),
        "increment" => (0..INCREMENTS).for_each(|turn| increment(&store, turn % 3 == 0)),
        _ => write_until_killed(&store, &task),
    }
}

/// Begins a transaction and ends it when it is told to.
fn hold(store: &SqliteStore, database: &Path) {
    store
        .write(Durability::Synced, &mut |tx| {
            tx.put_setting("held", "1")?;
            std::io::stdout().write_all(b"\nholds\n").unwrap();
            while !database.with_extension("go").exists() {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_stopped_process_keeps_others_waiting_for_a_bounded_time() {
    const PATIENCE: Duration = Duration::from_millis(600);
    const WRITERS: usize = 16;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.db");
    let options = SqliteOptions {
        lock_timeout: PATIENCE,
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open(&path, options.clone()).unwrap();
    let mut child = Process::spawn(&mut task("hold", &path));
    let mut lines = BufReader::new(child.take_stdout().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap() == "holds"));
    child.pause();
    // Writers in the queue wait at the same time, not one after the other.
    let began = Instant::now();
    let write = |key: &str| store.write(Durability::Synced, &mut |tx| tx.put_setting(key, "1"));
    std::thread::scope(|scope| {
        for n in 0..WRITERS {
            let write = &write;
            scope.spawn(move || {
                let error = write(&format!("refused {n}")).unwrap_err();
                assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error:?}");
            });
        }
    });
    let waited = began.elapsed();
    assert!(waited >= PATIENCE, "{waited:?}");
    assert!(waited < PATIENCE * WRITERS as u32 / 2, "{waited:?}");
    // Opening the store fails meanwhile, too, and reads go on.
    let opened = SqliteStore::open(&path, options).map(drop);
    assert_eq!(opened.unwrap_err().code(), ErrorCode::StoreUnavailable);
    store
        .read(&mut |tx| tx.setting("held").map(|found| assert!(found.is_none())))
        .unwrap();
    // All processes go on; nothing is lost, and no refused write was committed.
    child.resume();
    std::fs::write(path.with_extension("go"), "").unwrap();
    assert!(child.wait().success());
    drop(lines);
    write("after").unwrap();
    write("after too").unwrap();
    store
        .read(&mut |tx| {
            for key in ["held", "after", "after too"] {
                assert!(tx.setting(key)?.is_some(), "{key}");
            }
            for n in 0..WRITERS {
                assert!(tx.setting(&format!("refused {n}"))?.is_none(), "{n}");
            }
            Ok(())
        })
        .unwrap();
}

const INCREMENTS: u64 = 100;

fn increment(store: &SqliteStore, synced: bool) {
    let durability = if synced {
        Durability::Synced
    } else {
        Durability::Relaxed
    };
    store
        .write(durability, &mut |tx| {
            let before: u64 = tx
                .setting("counter")?
                .map_or(0, |text| text.parse().unwrap());
            tx.put_setting("counter", &(before + 1).to_string())
        })
        .unwrap();
}

fn write_until_killed(store: &SqliteStore, name: &str) {
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                for turn in 0u64.. {
                    let key = format!("{name} {thread} {turn}");
                    store
                        .write(Durability::Synced, &mut |tx| {
                            tx.put_setting(&key, "first")?;
                            tx.put_setting(&format!("{key} too"), "second")
                        })
                        .unwrap();
                    // One call, so that no line is torn.
                    let line = format!("ack {key}\n");
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

#[test]
fn two_processes_lose_no_increment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.db");
    // Both also create and migrate the database at once.
    let children = [start("increment", &path), start("increment", &path)];
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let store = open(&path);
    increment(&store, true);
    let expected = (2 * INCREMENTS + 1).to_string();
    store
        .read(&mut |tx| {
            assert_eq!(tx.setting("counter")?, Some(expected.clone()));
            Ok(())
        })
        .unwrap();
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let rounds = if std::env::var_os("OFFSHOOT_SOAK").is_some() {
        200
    } else {
        6
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.db");
    let mut total = 0;
    for round in 0..rounds {
        let mut child = start(&format!("round{round}"), &path);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Let it begin, then kill it at some moment.
        let mut acknowledged: Vec<String> = Vec::new();
        let take = |line: String| line.rsplit_once("ack ").map(|(_, key)| key.to_owned());
        while acknowledged.len() < 3 {
            acknowledged.extend(take(lines.next().unwrap().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(7 + 13 * (round % 7)));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(lines.map_while(Result::ok).filter_map(take));
        let store = open(&path);
        store
            .read(&mut |tx| {
                for key in &acknowledged {
                    assert_eq!(tx.setting(key)?.as_deref(), Some("first"), "{key}");
                    assert_eq!(
                        tx.setting(&format!("{key} too"))?.as_deref(),
                        Some("second")
                    );
                }
                Ok(())
            })
            .unwrap();
        total += acknowledged.len();
    }
    assert!(total >= 3 * rounds as usize);
}
