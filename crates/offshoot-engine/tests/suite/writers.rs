//! Many writers at once, from several engines and processes, on one workspace: no acknowledged
//! version is lost, none is torn, and in the end the directory is what the index says.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use crate::fixture::consistency::{out_of_line, prove_store};
use crate::fixture::{TestEngine, p, try_write, user};
use offshoot_core::{ErrorCode, ObjectId, ObjectKind, RelPath, WorkspaceId};
use offshoot_engine::{Content, Engine, EngineOptions, Expect, Quota, WriteOptions};
use offshoot_testkit::{Process, Rng};

const WRITERS: usize = 16;
/// A test that takes longer than this hangs.
const LIMIT: Duration = Duration::from_secs(200);

/// The environment variables that make this binary a writing process.
const CHILD_DATA: &str = "OFFSHOOT_TEST_WRITER_DATA";
const CHILD_NAME: &str = "OFFSHOOT_TEST_WRITER_NAME";

/// Content that proves that it is whole: writer, number, and a checksum over all of it.
fn version(writer: &str, number: usize, rng: &mut Rng) -> Vec<u8> {
    let mut noise = vec![0; rng.below(6_000)];
    rng.fill(&mut noise);
    let text: String = noise
        .iter()
        .map(|byte| (b'a' + byte % 26) as char)
        .collect();
    let body = format!("{writer} {number} {text}");
    let id = offshoot_git::hash(ObjectKind::Blob, body.as_bytes()).unwrap();
    format!("{} {body}", id.to_hex()).into_bytes()
}

fn is_whole(bytes: &[u8]) -> bool {
    bytes.len() > 41
        && offshoot_git::hash(ObjectKind::Blob, &bytes[41..])
            .is_ok_and(|id| id.to_hex().as_bytes() == &bytes[..40])
}

/// Runs `work` and fails if it does not end in time.
fn in_time(work: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match wait.recv_timeout(LIMIT) {
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the writers block each other"),
    }
}

fn rounds(normal: usize) -> usize {
    if offshoot_testkit::soak() {
        normal * 20
    } else {
        normal
    }
}

/// An acknowledged version: path, content, and version number.
type Acknowledged = (RelPath, ObjectId, i64);

/// Writes and reads back. A read gives the version just written or a newer one, and a whole one.
fn write_and_read(
    engine: &Engine,
    ws: &WorkspaceId,
    writer: &str,
    paths: &[RelPath],
    count: usize,
) -> Vec<Acknowledged> {
    let seed = writer
        .bytes()
        .fold(1, |sum, byte| sum * 31 + u64::from(byte));
    let mut rng = Rng::new(seed);
    let mut acknowledged: Vec<Acknowledged> = Vec::new();
    for number in 0..count {
        let path = rng.pick(paths).clone();
        let bytes = version(writer, number, &mut rng);
        let written = try_write(engine, ws, &path, &bytes).unwrap();
        acknowledged.push((path.clone(), written.id, written.version));
        let (read, id) = engine.workspaces.read_whole(ws, &path).unwrap();
        assert!(is_whole(&read), "a torn version of {path}");
        if id != written.id {
            let lines = engine.history.lines(ws, Some(&path), 0).unwrap();
            let newest = lines.iter().find(|line| line.line.after == Some(id));
            let seen = newest
                .expect("what was read is in the history")
                .line
                .revision;
            assert!(
                seen > written.version,
                "{path}: version {} was acknowledged and {seen} was read after it",
                written.version
            );
        }
    }
    acknowledged
}

/// Every acknowledged version is in the history under its number, and its content is there.
fn prove_history(engine: &Engine, ws: &WorkspaceId, acknowledged: &[Acknowledged]) {
    let lines = engine.history.lines(ws, None, 0).unwrap();
    let known: HashSet<(RelPath, ObjectId, i64)> = lines
        .iter()
        .filter_map(|line| {
            let line = &line.line;
            Some((line.path.clone(), line.after?, line.revision))
        })
        .collect();
    let mut numbers = HashSet::new();
    for version in acknowledged {
        assert!(known.contains(version), "{version:?} is lost");
        assert!(
            numbers.insert(version.2),
            "two writes have the number {}",
            version.2
        );
        assert!(is_whole(&engine.workspaces.content_of(&version.1).unwrap()));
    }
}

/// The newest acknowledged version of every path is the current content.
fn prove_newest(test: &TestEngine, ws: &WorkspaceId, acknowledged: &[Acknowledged]) {
    let mut newest: BTreeMap<&RelPath, (i64, ObjectId)> = BTreeMap::new();
    for (path, id, number) in acknowledged {
        let entry = newest.entry(path).or_insert((*number, *id));
        *entry = (*entry).max((*number, *id));
    }
    for (path, (_, id)) in newest {
        assert_eq!(
            test.engine.workspaces.read_whole(ws, path).unwrap().1,
            id,
            "{path}"
        );
    }
    assert_eq!(out_of_line(test, ws), None);
}

fn many_paths(count: usize) -> Vec<RelPath> {
    (0..count).map(|n| p(&format!("d{}/f{n}", n % 7))).collect()
}

/// Sixteen threads over two engines.
fn threads(
    test: &TestEngine,
    ws: &WorkspaceId,
    paths: &[RelPath],
    count: usize,
) -> Vec<Acknowledged> {
    let second = test.open_another().unwrap();
    let acknowledged = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let engine = if writer % 2 == 0 {
                &test.engine
            } else {
                &second
            };
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                let mine = write_and_read(engine, ws, &format!("t{writer}"), paths, count);
                acknowledged.lock().unwrap().extend(mine);
            });
        }
    });
    acknowledged.into_inner().unwrap()
}

#[test]
fn writers_on_few_paths() {
    in_time(|| {
        let test = TestEngine::plain();
        let ws = test.create("w");
        let acknowledged = threads(&test, &ws, &[p("a"), p("d/b"), p("d/e/c")], rounds(60));
        assert_eq!(acknowledged.len(), WRITERS * rounds(60));
        prove_history(&test.engine, &ws, &acknowledged);
        prove_newest(&test, &ws, &acknowledged);
        prove_store(&test);
    });
}

#[test]
fn writers_on_many_paths() {
    in_time(|| {
        let test = TestEngine::plain();
        let ws = test.create("w");
        let acknowledged = threads(&test, &ws, &many_paths(200), rounds(60));
        prove_history(&test.engine, &ws, &acknowledged);
        prove_newest(&test, &ws, &acknowledged);
    });
}

#[test]
fn writers_on_a_path_that_was_handed_out() {
    in_time(|| {
        let test = TestEngine::plain();
        let ws = test.create("w");
        test.engine.workspaces.hand_out_path(&ws).unwrap();
        let acknowledged = threads(&test, &ws, &many_paths(20), rounds(30));
        prove_history(&test.engine, &ws, &acknowledged);
        prove_newest(&test, &ws, &acknowledged);
    });
}

/// The first writes of a workspace, some of which are refused: no refused write removes the
/// directory that the others write to.
#[test]
fn writers_that_come_first() {
    in_time(|| {
        let test = TestEngine::plain();
        for round in 0..rounds(50) {
            let ws = &test.create(&format!("w{round}"));
            let engine = &test.engine;
            std::thread::scope(|scope| {
                for writer in 0..8 {
                    scope.spawn(move || {
                        let expect = match writer % 2 {
                            0 => Expect::Anything,
                            _ => Expect::Content(offshoot_core::EMPTY_TREE),
                        };
                        let options = WriteOptions {
                            expect,
                            ..WriteOptions::default()
                        };
                        let path = p(&format!("d/f{writer}"));
                        let content = Content::Bytes(b"first");
                        match engine
                            .workspaces
                            .write_file(ws, &path, content, &options, &user())
                        {
                            Ok(_) => assert_eq!(writer % 2, 0),
                            Err(error) => {
                                assert_eq!(
                                    error.code(),
                                    ErrorCode::PreconditionFailed,
                                    "{error:?}"
                                );
                                assert_eq!(writer % 2, 1);
                            }
                        }
                    });
                }
            });
            assert_eq!(test.image(ws).len(), 5);
            assert_eq!(out_of_line(&test, ws), None);
        }
    });
}

/// Writes in one batch, some of which are refused: each gets its own answer, a refused one leaves
/// no trace, and the counters fit the index.
#[test]
fn writers_some_of_whom_are_refused() {
    in_time(|| {
        let test = TestEngine::plain();
        let (ws, engine) = (&test.create("w"), &test.engine);
        test.write(ws, "taken", b"by the first");
        let quota = Quota {
            inodes: Some(120),
            bytes: None,
        };
        engine.workspaces.set_quota(ws, quota, &user()).unwrap();
        let before = engine.history.lines(ws, None, 0).unwrap().len();
        let made = Mutex::new(Vec::new());
        let refused = Mutex::new(BTreeMap::<&str, usize>::new());
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (made, refused) = (&made, &refused);
                scope.spawn(move || {
                    for n in 0..20 {
                        let mut options = WriteOptions::default();
                        let content = format!("{writer} {n}");
                        let content = Content::Bytes(content.as_bytes());
                        let answer = match n % 4 {
                            0 => {
                                options.expect = Expect::Absent;
                                engine.workspaces.write_file(
                                    ws,
                                    &p("taken"),
                                    content,
                                    &options,
                                    &user(),
                                )
                            }
                            1 => engine.workspaces.write_file(
                                ws,
                                &p("taken/x"),
                                content,
                                &options,
                                &user(),
                            ),
                            2 => engine.workspaces.upload(
                                ws,
                                b"same.txt",
                                content,
                                &options,
                                &user(),
                            ),
                            _ => {
                                let path = p(&format!("f{writer}-{n}"));
                                engine
                                    .workspaces
                                    .write_file(ws, &path, content, &options, &user())
                            }
                        };
                        match answer {
                            Ok(written) => {
                                assert!(written.created, "{}", written.path);
                                made.lock().unwrap().push((written.path, written.version));
                            }
                            Err(error) => {
                                let mut refused = refused.lock().unwrap();
                                *refused.entry(error.code().as_str()).or_default() += 1;
                            }
                        }
                    }
                });
            }
        });
        let (made, refused) = (made.into_inner().unwrap(), refused.into_inner().unwrap());
        // One file was there before, and uploads have a directory of their own.
        assert_eq!(made.len(), 118, "{refused:?}");
        let expected = [
            ("precondition_failed", 80),
            ("not_a_directory", 80),
            ("quota_exceeded", 160 - 118),
        ];
        assert_eq!(refused, BTreeMap::from(expected));
        let paths: HashSet<&RelPath> = made.iter().map(|(path, _)| path).collect();
        let versions: HashSet<i64> = made.iter().map(|(_, version)| *version).collect();
        assert_eq!((paths.len(), versions.len()), (118, 118));
        let info = engine.workspaces.workspace(ws).unwrap();
        assert_eq!((info.files, info.dirs), (119, 1));
        let lines = engine.history.lines(ws, None, 0).unwrap();
        assert_eq!(lines.len(), before + 118 + 1, "one for the directory");
        assert_eq!(test.image(ws).len(), 120);
        assert_eq!(out_of_line(&test, ws), None);
        prove_store(&test);
    });
}

/// A power cut left a file that is no recorded version. It is replaced, but kept as a version,
/// because an outside program may have written it.
#[test]
fn writers_before_a_power_cut_lose_nothing_that_was_there() {
    for (found, is_new) in [(&b"one"[..], false), (b"torn", true)] {
        let mut test = TestEngine::plain();
        let ws = test.create("w");
        test.engine.workspaces.hand_out_path(&ws).unwrap();
        test.write(&ws, "a", b"one");
        test.write(&ws, "a", b"two");
        let before = test
            .engine
            .history
            .lines(&ws, Some(&p("a")), 0)
            .unwrap()
            .len();
        test.close();
        std::fs::write(test.path_of(&ws).join("a"), found).unwrap();
        let other_boot = |tx: &mut dyn offshoot_store::WriteTx| {
            tx.put_setting("boot_id", "that of another start")
        };
        let synced = offshoot_store::Durability::Synced;
        test.store().write(synced, other_boot).unwrap();
        test.reopen();
        assert_eq!(std::fs::read(test.path_of(&ws).join("a")).unwrap(), b"two");
        let lines = test.engine.history.lines(&ws, Some(&p("a")), 0).unwrap();
        assert_eq!(lines.len() > before, is_new);
        let id = offshoot_git::hash(ObjectKind::Blob, found).unwrap();
        assert!(lines.iter().any(|line| line.line.after == Some(id)));
        assert_eq!(out_of_line(&test, &ws), None);
    }
}

/// Another engine may have changed a workspace since this one read its row: its directory was
/// removed, its path was handed out, or another workspace has its name.
#[test]
fn writers_beside_an_engine_that_changes_what_a_workspace_is() {
    let test = TestEngine::plain();
    let other = test.open_another().unwrap();
    let ws = test.create("w");
    test.write(&ws, "a", b"one");
    test.write(&ws, "a", b"two");

    test.engine.workspaces.hand_out_path(&ws).unwrap();
    other.upkeep.clean(Duration::ZERO, false, &user()).unwrap();
    assert!(!test.path_of(&ws).exists());
    test.write(&ws, "a", b"three");
    assert_eq!(out_of_line(&test, &ws), None);

    test.write(&ws, "a", b"four");
    let path = other.workspaces.hand_out_path(&ws).unwrap();
    std::fs::write(path.join("a"), "by hand").unwrap();
    let written = test.write(&ws, "a", b"five");
    let lines = test.engine.history.lines(&ws, Some(&p("a")), 2).unwrap();
    assert_eq!(lines[0].line.revision, written.version);
    let by_hand = offshoot_git::hash(ObjectKind::Blob, b"by hand").unwrap();
    assert_eq!(lines[0].line.before, Some(by_hand));

    let ws = test.create("v");
    test.write(&ws, "a", b"one");
    test.write(&ws, "b", b"two");
    other.workspaces.delete_workspace(&ws, &user()).unwrap();
    crate::fixture::create(&other, "v");
    assert!(test.write(&ws, "a", b"three").created);
    assert_eq!(test.image(&ws).len(), 1);
    assert_eq!(out_of_line(&test, &ws), None);
    prove_store(&test);
}

/// The writing process: this binary again. It prints one line for each acknowledged version.
#[test]
fn writers_child_process() {
    let (Some(data), Ok(name)) = (std::env::var_os(CHILD_DATA), std::env::var(CHILD_NAME)) else {
        return;
    };
    let engine = Engine::open(EngineOptions::new(data)).unwrap();
    let ws: WorkspaceId = "w".parse().unwrap();
    let paths = many_paths(12);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS / 2 {
            let (engine, ws, paths, name) = (&engine, &ws, &paths, &name);
            scope.spawn(move || {
                let mine =
                    write_and_read(engine, ws, &format!("{name}{writer}"), paths, rounds(50));
                for (path, id, number) in mine {
                    println!("acknowledged {path} {} {number}", id.to_hex());
                }
            });
        }
    });
}

#[test]
fn writers_from_two_processes() {
    in_time(|| {
        let test = TestEngine::plain();
        let ws = test.create("w");
        let children: Vec<Process> = ["x", "y"]
            .iter()
            .map(|name| {
                Process::spawn(
                    Command::new(std::env::current_exe().unwrap())
                        .args(["--exact", "writers::writers_child_process", "--nocapture"])
                        .env(CHILD_DATA, test.data())
                        .env(CHILD_NAME, name)
                        .stdout(Stdio::piped()),
                )
            })
            .collect();
        let mut acknowledged = Vec::new();
        for mut child in children {
            let lines = BufReader::new(child.take_stdout().unwrap()).lines();
            for line in lines.map(Result::unwrap) {
                let Some(rest) = line.split_once("acknowledged ").map(|(_, rest)| rest) else {
                    continue;
                };
                let words: Vec<&str> = rest.split(' ').collect();
                acknowledged.push((
                    p(words[0]),
                    words[1].parse::<ObjectId>().unwrap(),
                    words[2].parse().unwrap(),
                ));
            }
            assert!(child.wait().success());
        }
        assert_eq!(acknowledged.len(), WRITERS * rounds(50));
        prove_history(&test.engine, &ws, &acknowledged);
        prove_newest(&test, &ws, &acknowledged);
        prove_store(&test);
    });
}

/// One of the disturbing threads: snapshots, restores, deletions, moves, checks and syncs in a row.
fn disturb(engine: &Engine, ws: &WorkspaceId, seed: u64, until: &AtomicBool) {
    let mut rng = Rng::new(seed);
    let paths = many_paths(12);
    while !until.load(Ordering::Relaxed) {
        let outcome = match rng.below(7) {
            0 => engine
                .workspaces
                .snapshot(ws, Some("busy"), false, &user())
                .map(drop),
            1 => engine
                .workspaces
                .snapshot(ws, None, rng.chance(300), &user())
                .map(drop),
            2 => engine.workspaces.snapshots(ws, 5).and_then(|all| {
                let Some(old) = all.last() else { return Ok(()) };
                let path = rng.chance(500).then(|| rng.pick(&paths).clone());
                let id = old.id.to_hex();
                engine
                    .workspaces
                    .restore(ws, &id, path.as_ref(), &user())
                    .map(drop)
            }),
            3 => {
                let dir = p(&format!("d{}", rng.below(7)));
                engine
                    .workspaces
                    .delete_file(ws, &dir, true, &user())
                    .map(drop)
            }
            4 => {
                let to = p(&format!("moved{}", rng.below(1000)));
                engine
                    .workspaces
                    .move_file(ws, rng.pick(&paths), &to, &user())
                    .map(drop)
            }
            5 => engine.directories.checkpoint(),
            _ => engine.workspaces.info(ws).map(drop),
        };
        if let Err(error) = outcome {
            let expected = [
                ErrorCode::FileNotFound,
                ErrorCode::AlreadyExists,
                ErrorCode::WorkspaceBusy,
                ErrorCode::NotADirectory,
            ];
            assert!(expected.contains(&error.code()), "{error:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn writers_beside_snapshots_restores_and_deletions() {
    in_time(|| {
        for handed_out in [false, true] {
            let test = TestEngine::plain();
            let ws = &test.create("w");
            if handed_out {
                test.engine.workspaces.hand_out_path(ws).unwrap();
            }
            let second = &test.open_another().unwrap();
            let stop = AtomicBool::new(false);
            let acknowledged = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for seed in 0..3 {
                    let engine = if seed == 0 { second } else { &test.engine };
                    let stop = &stop;
                    scope.spawn(move || disturb(engine, ws, seed, stop));
                }
                let writers: Vec<_> = (0..WRITERS)
                    .map(|writer| {
                        let engine = if writer % 2 == 0 {
                            &test.engine
                        } else {
                            second
                        };
                        let acknowledged = &acknowledged;
                        scope.spawn(move || {
                            let mut rng = Rng::new(writer as u64);
                            for number in 0..rounds(30) {
                                let path = rng.pick(&many_paths(12)).clone();
                                let bytes = version(&format!("t{writer}"), number, &mut rng);
                                let written = try_write(engine, ws, &path, &bytes).unwrap();
                                acknowledged.lock().unwrap().push((
                                    path.clone(),
                                    written.id,
                                    written.version,
                                ));
                                // The file may have been deleted or restored away by now, but is
                                // never torn.
                                match engine.workspaces.read_whole(ws, &path) {
                                    Ok((read, _)) => assert!(is_whole(&read), "torn: {path}"),
                                    Err(error) => assert!(
                                        [ErrorCode::FileNotFound, ErrorCode::NotADirectory]
                                            .contains(&error.code()),
                                        "{error:?}"
                                    ),
                                }
                            }
                        })
                    })
                    .collect();
                let outcomes: Vec<_> = writers
                    .into_iter()
                    .map(std::thread::ScopedJoinHandle::join)
                    .collect();
                stop.store(true, Ordering::Relaxed);
                for outcome in outcomes {
                    if let Err(panic) = outcome {
                        std::panic::resume_unwind(panic);
                    }
                }
            });
            let acknowledged = acknowledged.into_inner().unwrap();
            prove_history(&test.engine, ws, &acknowledged);
            assert_eq!(out_of_line(&test, ws), None, "handed out: {handed_out}");
            assert_eq!(test.engine.upkeep.check().unwrap().problems, []);
            // Every snapshot that was taken meanwhile can be restored.
            for snapshot in test.engine.workspaces.snapshots(ws, 6).unwrap() {
                test.engine
                    .workspaces
                    .restore(ws, &snapshot.id.to_hex(), None, &user())
                    .unwrap();
                assert_eq!(out_of_line(&test, ws), None);
            }
        }
    });
}
