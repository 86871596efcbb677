//! Snapshots, restores, first imports and durable writes of workspaces.

use std::path::Path;
use std::time::{Duration, Instant};

use offshoot_core::{Cause, Layout, Operator, RelPath, Result, WorkspaceId};
use offshoot_engine::{Content, Engine, EngineOptions, Quota, WriteOptions};

use super::figures::{Figure, Figures, Goal, median, timed};
use super::image::{BenchDir, failed};
use super::{peers, smallest_and_largest, tree};

const API_SNAPSHOT: &str = "snapshot of 10 API writes";
const WRITERS: usize = 16;
const GROWTH_ROUNDS: usize = 25;

fn cause() -> Cause {
    Cause::by(Operator::new("bench"))
}

fn write(engine: &Engine, ws: &WorkspaceId, path: &Path, bytes: &[u8]) -> Result<()> {
    let path = RelPath::parse(path.as_os_str().as_encoded_bytes())?;
    engine
        .workspaces
        .write_file(
            ws,
            &path,
            Content::Bytes(bytes),
            &WriteOptions::default(),
            &cause(),
        )
        .map(drop)
}

/// What git took, in milliseconds.
struct GitTimes {
    first: f64,
    commit: f64,
    restore: f64,
}

fn measure_git(dir: &Path, files: usize, repeat: usize) -> Result<GitTimes> {
    std::fs::create_dir_all(dir).map_err(|cause| failed("make a directory", cause))?;
    tree::write(dir, files)?;
    peers::git(dir, &["init", "-q"])?;
    let ((), first) = timed(|| peers::git_commit(dir))?;
    let (mut commits, mut restores) = (Vec::new(), Vec::new());
    for round in 0..repeat {
        for n in tree::ten_files(files, round) {
            tree::write_file(dir, n, round + 1)?;
        }
        commits.push(timed(|| peers::git_commit(dir))?.1);
    }
    for round in 0..repeat {
        for n in tree::ten_files(files, round) {
            tree::write_file(dir, n, 1000 + round)?;
        }
        restores.push(timed(|| peers::git_restore(dir))?.1);
    }
    Ok(GitTimes {
        first,
        commit: median(commits),
        restore: median(restores),
    })
}

/// Measures everything that depends on the number of files.
pub(crate) fn run(
    place: &BenchDir,
    files: usize,
    repeat: usize,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    let root = place.dir().join(format!("tree-{files}"));
    progress(&format!("git with {files} files"));
    let git = measure_git(&root.join("git"), files, repeat)?;
    let add = |figures: &mut Figures, name: &str, ours: f64, peer_name: &str, peer: f64, goal| {
        figures.add(Figure {
            name: name.to_owned(),
            files,
            ours,
            peer_name: peer_name.to_owned(),
            peer,
            unit: "ms",
            goal,
        });
    };
    let large = files >= 100_000;
    let goal = |limit: f64| {
        if large {
            Goal::AtMost(limit)
        } else {
            Goal::None
        }
    };

    progress(&format!("first snapshot of {files} files"));
    let engine = Engine::open(EngineOptions::new(root.join("data")))?;
    let ws: WorkspaceId = "bench".parse()?;
    engine.workspaces.create_workspace(
        Some(ws.clone()),
        Layout::Plain,
        Quota::default(),
        &cause(),
    )?;
    let path = engine.workspaces.hand_out_path(&ws)?;
    tree::write(&path, files)?;
    let (_, first) = timed(|| engine.workspaces.snapshot(&ws, None, false, &cause()))?;
    let commit = "git add -A && git commit";
    add(
        figures,
        "first snapshot of existing files",
        first,
        commit,
        git.first,
        goal(1.0 / 5.0),
    );

    progress(&format!(
        "snapshots of a handed-out path with {files} files"
    ));
    // Old enough that a second change in the same tick of the clock is out of the question.
    std::thread::sleep(Duration::from_millis(50));
    engine.workspaces.snapshot(&ws, None, false, &cause())?;
    let (mut walks, mut snapshots) = (Vec::new(), Vec::new());
    for round in 0..repeat {
        for n in tree::ten_files(files, round) {
            tree::write_file(&path, n, round + 1)?;
        }
        std::thread::sleep(Duration::from_millis(30));
        walks.push(timed(|| peers::bare_walk(&path))?.1);
        snapshots.push(timed(|| engine.workspaces.snapshot(&ws, None, false, &cause()))?.1);
    }
    let (walk, handed_out) = (median(walks), median(snapshots));
    let name = "snapshot of 10 outside changes";
    add(
        figures,
        name,
        handed_out,
        "bare stat walk, 2 threads",
        walk,
        goal(1.3),
    );
    add(figures, name, handed_out, commit, git.commit, Goal::None);

    progress(&format!("snapshots of API writes with {files} files"));
    // Away and back: a directory that nobody outside knows.
    engine.upkeep.clean(Duration::ZERO, false, &cause())?;
    write(&engine, &ws, &tree::file_path(0), &tree::content(0, 99))?;
    engine.directories.checkpoint()?;
    engine.workspaces.snapshot(&ws, None, false, &cause())?;
    let (mut snapshots, mut with_writes) = (Vec::new(), Vec::new());
    for round in 0..repeat.max(11) {
        let started = Instant::now();
        for n in tree::ten_files(files, round) {
            write(
                &engine,
                &ws,
                &tree::file_path(n),
                &tree::content(n, 100 + round),
            )?;
        }
        snapshots.push(timed(|| engine.workspaces.snapshot(&ws, None, false, &cause()))?.1);
        with_writes.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    let (snapshot, all) = (median(snapshots), median(with_writes));
    add(
        figures,
        API_SNAPSHOT,
        snapshot,
        commit,
        git.commit,
        goal(1.0 / 50.0),
    );
    add(
        figures,
        "10 durable API writes and their snapshot",
        all,
        commit,
        git.commit,
        Goal::None,
    );

    progress(&format!("restores with {files} files"));
    let head = engine.workspaces.snapshots(&ws, 1)?[0].id.to_hex();
    let mut restores = Vec::new();
    for round in 0..repeat.max(11) {
        for n in tree::ten_files(files, round) {
            write(
                &engine,
                &ws,
                &tree::file_path(n),
                &tree::content(n, 200 + round),
            )?;
        }
        restores.push(timed(|| engine.workspaces.restore(&ws, &head, None, &cause()))?.1);
    }
    let reset = "git reset --hard && git clean -fd";
    let restore = median(restores);
    add(
        figures,
        "restore of 10 changes",
        restore,
        reset,
        git.restore,
        goal(1.0 / 20.0),
    );
    drop(engine);
    // The data directory is needed once more, for the growth between sizes.
    std::fs::remove_dir_all(root.join("git")).map_err(|cause| failed("clean up", cause))
}

/// How much a snapshot of the same change grows with the tree: both in turns, because what a sync
/// of the disk takes changes from minute to minute.
pub(crate) fn growth(
    place: &BenchDir,
    files: &[usize],
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    let Some((small, large)) = smallest_and_largest(files) else {
        return Ok(());
    };
    progress("snapshots of API writes, the smallest and the largest tree in turns");
    let ws: WorkspaceId = "bench".parse()?;
    let open = |files: usize| {
        let root = place.dir().join(format!("tree-{files}"));
        Engine::open(EngineOptions::new(root.join("data")))
    };
    let engines = [(small, open(small)?), (large, open(large)?)];
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..GROWTH_ROUNDS {
        for ((files, engine), took) in engines.iter().zip(&mut took) {
            for n in tree::ten_files(*files, round) {
                let content = tree::content(n, 10_000 + round);
                write(engine, &ws, &tree::file_path(n), &content)?;
            }
            took.push(timed(|| engine.workspaces.snapshot(&ws, None, false, &cause()))?.1);
        }
    }
    let [at_small, at_large] = took.map(median);
    figures.add(Figure {
        name: format!("{API_SNAPSHOT}, growth"),
        files: large,
        ours: at_large,
        peer_name: format!("the same with {small} files, in turns"),
        peer: at_small,
        unit: "ms",
        goal: Goal::AtMost(1.5),
    });
    Ok(())
}

/// Durable, recorded writes of 4 KiB by sixteen writers against a careful loop.
pub(crate) fn durable_writes(
    place: &BenchDir,
    repeat: usize,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    progress("durable writes");
    let root = place.dir().join("writes");
    let engine = Engine::open(EngineOptions::new(root.join("data")))?;
    let ws: WorkspaceId = "bench".parse()?;
    engine.workspaces.create_workspace(
        Some(ws.clone()),
        Layout::Plain,
        Quota::default(),
        &cause(),
    )?;
    let loop_dir = root.join("loop");
    std::fs::create_dir_all(&loop_dir).map_err(|cause| failed("make a directory", cause))?;
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for round in 0..repeat {
        peers.push(safe_loop(&loop_dir, round)?);
        ours.push(our_writers(&engine, &ws, round)?);
    }
    figures.add(Figure {
        name: format!("durable recorded 4 KiB writes, {WRITERS} writers"),
        files: 0,
        ours: median(ours),
        peer_name: "write + fsync + rename + fsync, one at a time".to_owned(),
        peer: median(peers),
        unit: "/s",
        goal: Goal::AtLeast(4.0),
    });
    drop(engine);
    std::fs::remove_dir_all(&root).map_err(|cause| failed("clean up", cause))
}

/// 4 KiB that do not compress.
fn four_kib(seed: usize) -> Vec<u8> {
    let mut state = seed as u64 | 1;
    (0..512)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .collect()
}

fn safe_loop(dir: &Path, round: usize) -> Result<f64> {
    const WRITES: usize = 300;
    let started = Instant::now();
    for n in 0..WRITES {
        let bytes = four_kib(round * WRITES + n + 1);
        peers::safe_write(dir, &format!("file{n}"), &bytes)
            .map_err(|cause| failed("write a file", cause))?;
    }
    Ok(WRITES as f64 / started.elapsed().as_secs_f64())
}

fn our_writers(engine: &Engine, ws: &WorkspaceId, round: usize) -> Result<f64> {
    const EACH: usize = 150;
    let started = Instant::now();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || -> Result<()> {
                    for n in 0..EACH {
                        let bytes = four_kib((round * WRITERS + writer) * EACH + n + 7);
                        let path = format!("w{writer}/file{n}");
                        write(engine, ws, Path::new(&path), &bytes)?;
                    }
                    Ok(())
                })
            })
            .collect();
        for writer in writers {
            writer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok::<(), offshoot_core::Error>(())
    })?;
    Ok((WRITERS * EACH) as f64 / started.elapsed().as_secs_f64())
}

/// What 1,000 edits of a workspace with 10,000 files and a snapshot take on disk, beyond the
/// workspace directory itself.
pub(crate) fn disk_growth(
    place: &BenchDir,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    const FILES: usize = 10_000;
    const EDITS: usize = 1_000;
    progress("disk growth of 1,000 edits");
    let root = place.dir().join("growth");
    let data = root.join("data");
    let engine = Engine::open(EngineOptions::new(&data))?;
    let ws: WorkspaceId = "bench".parse()?;
    engine.workspaces.create_workspace(
        Some(ws.clone()),
        Layout::Plain,
        Quota::default(),
        &cause(),
    )?;
    let path = engine.workspaces.hand_out_path(&ws)?;
    tree::write(&path, FILES)?;
    engine.workspaces.snapshot(&ws, None, false, &cause())?;
    engine.upkeep.clean(Duration::ZERO, false, &cause())?;
    write(&engine, &ws, &tree::file_path(0), b"materialise")?;
    engine.directories.checkpoint()?;
    let before = store_bytes(&data)?;
    let mut unique = 0;
    for n in 0..EDITS {
        let bytes = four_kib(1_000_000 + n);
        unique += bytes.len();
        write(&engine, &ws, &tree::file_path(n * 7 % FILES), &bytes)?;
    }
    engine.workspaces.snapshot(&ws, None, false, &cause())?;
    engine.directories.checkpoint()?;
    let grown = store_bytes(&data)?.saturating_sub(before);
    figures.add(Figure {
        name: "disk taken by 1,000 edits of 4 KiB and a snapshot".to_owned(),
        files: FILES,
        ours: grown as f64 / 1024.0,
        peer_name: "1.2 × unique bytes + 1 KiB an edit".to_owned(),
        peer: (1.2 * unique as f64 + EDITS as f64 * 1024.0) / 1024.0,
        unit: "KiB",
        goal: Goal::AtMost(1.0),
    });
    drop(engine);
    std::fs::remove_dir_all(&root).map_err(|cause| failed("clean up", cause))
}

/// The bytes that the store takes, the workspace directories left out.
fn store_bytes(data: &Path) -> Result<u64> {
    fn below(dir: &Path) -> std::io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        let mut bytes = 0;
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            bytes += if meta.is_dir() {
                below(&entry.path())?
            } else {
                meta.blocks() * 512
            };
        }
        Ok(bytes)
    }
    let sum = || -> std::io::Result<u64> {
        let mut bytes = 0;
        for entry in std::fs::read_dir(data)? {
            use std::os::unix::fs::MetadataExt;
            let entry = entry?;
            let meta = entry.metadata()?;
            if entry.file_name() == "workspaces" {
                continue;
            }
            bytes += if meta.is_dir() {
                below(&entry.path())?
            } else {
                meta.blocks() * 512
            };
        }
        Ok(bytes)
    };
    sum().map_err(|cause| failed("measure the store", cause))
}
