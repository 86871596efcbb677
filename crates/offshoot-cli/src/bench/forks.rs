//! Forks beside `git worktree add`, copies and the bare system calls; what changed in one; what
//! many cost; reading in one.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use offshoot_core::{Cause, Operator, ProjectId, Result};
use offshoot_engine::{Engine, EngineOptions, ForkOptions, ImportOptions};

use super::figures::{Figure, Figures, Goal, median, millis, timed};
use super::image::{Place, failed, run as run_command};
use super::{peers, tree};

const FORK: &str = "fork with its row and its directory";
/// Forks that are timed; more than of anything else, because one takes so little.
const FORKS: usize = 40;
/// Forks that exist at once when their cost is measured.
const MANY: usize = 1_000;

fn cause() -> Cause {
    Cause::by(Operator::new("bench"))
}

/// An engine with one project of so many files, imported from `root/src`.
pub(crate) fn project(root: &Path, files: usize) -> Result<(Engine, ProjectId)> {
    let source = root.join("src");
    std::fs::create_dir_all(&source).map_err(|cause| failed("make a directory", cause))?;
    tree::write(&source, files)?;
    let engine = Engine::open(EngineOptions::new(root.join("data")))?;
    let id: ProjectId = "bench".parse()?;
    let options = ImportOptions::default();
    engine.import_dir(&id, &source, &options, &mut |_| {}, &cause())?;
    engine.wait_for_upkeep();
    engine.checkpoint()?;
    Ok((engine, id))
}

/// Measures everything that depends on the number of files.
pub(crate) fn run(
    place: &Place,
    files: usize,
    repeat: usize,
    largest: bool,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    let root = place.dir().join(format!("forks-{files}"));
    progress(&format!("import of {files} files"));
    let (engine, project) = project(&root, files)?;
    let mut add = |name: &str, ours: f64, peer_name: &str, peer: f64, goal| {
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

    progress(&format!("forks of {files} files"));
    let layer = base_layer(&root.join("data/layers"))?;
    let (mut forks, mut bare) = (Vec::new(), Vec::new());
    for round in 0..FORKS {
        let name = format!("timed-{round}");
        let started = Instant::now();
        engine.fork_out(&project, &named(&name)?, &cause())?;
        forks.push(millis(started.elapsed()));
        bare.push(bare_fork(&root.join(format!("bare-{round}")), &layer)?);
    }
    let fork = median(forks);
    add(
        FORK,
        fork,
        "4 mkdirs and the mount",
        median(bare),
        Goal::AtMost(3.0),
    );
    for round in 0..FORKS {
        engine.delete_workspace(&format!("timed-{round}").parse()?, &cause())?;
    }
    engine.wait_for_upkeep();

    progress(&format!("git and copies with {files} files"));
    let git = root.join("git");
    copy(&root.join("src"), &git)?;
    peers::git(&git, &["init", "-q"])?;
    peers::git_commit(&git)?;
    let mut worktrees = Vec::new();
    for round in 0..repeat.min(3) {
        let at = root.join(format!("worktree-{round}"));
        let at = at.to_string_lossy().into_owned();
        worktrees.push(timed(|| peers::git(&git, &["worktree", "add", "-q", "--detach", &at]))?.1);
    }
    let goal = match files {
        10_000.. => Goal::AtMost(1.0 / 500.0),
        _ => Goal::None,
    };
    add(FORK, fork, "git worktree add", median(worktrees), goal);
    let shared = root.join("clone").to_string_lossy().into_owned();
    let (_, clone) = timed(|| peers::git(&git, &["clone", "-q", "--shared", ".", &shared]))?;
    add(FORK, fork, "git clone --shared", clone, Goal::None);
    let (_, copied) = timed(|| copy(&root.join("src"), &root.join("copy")))?;
    add(FORK, fork, "cp -r", copied, Goal::None);

    progress(&format!("changes in a fork of {files} files"));
    let (_, path) = engine.fork_out(&project, &named("changed")?, &cause())?;
    let id = "changed".parse()?;
    let upper = root.join("data/forks/changed.1/upper");
    let (mut ours, mut walks, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..repeat.max(5) {
        for n in tree::ten(files, round) {
            tree::write_file(&path, n, round + 1)?;
            tree::write_file(&git, n, round + 1)?;
        }
        std::thread::sleep(std::time::Duration::from_millis(30));
        // Looked at once before: what changed since the last look is hashed, the rest is not.
        engine.changes(&id, &cause())?;
        std::thread::sleep(std::time::Duration::from_millis(30));
        ours.push(timed(|| engine.changes(&id, &cause()))?.1);
        walks.push(timed(|| peers::bare_walk(&upper))?.1);
        peers::git(&git, &["status", "--porcelain"])?;
        statuses.push(timed(|| peers::git(&git, &["status", "--porcelain"]))?.1);
    }
    let changes = median(ours);
    let name = "changes of 10 files";
    let large = |limit: f64| {
        if files >= 100_000 {
            Goal::AtMost(limit)
        } else {
            Goal::None
        }
    };
    add(
        name,
        changes,
        "bare walk of the upper",
        median(walks),
        large(3.0),
    );
    add(
        name,
        changes,
        "git status",
        median(statuses),
        large(1.0 / 100.0),
    );

    progress(&format!("reading in a fork of {files} files"));
    let (_, read_path) = engine.fork_out(&project, &named("read")?, &cause())?;
    let plain = root.join("src");
    let mounted = mount_bare(&root.join("bare-read"), &layer)?;
    let (mut in_fork, mut in_bare, mut in_plain) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repeat.max(3) {
        in_fork.push(timed(|| read_all(&read_path))?.1);
        in_bare.push(timed(|| read_all(&mounted))?.1);
        in_plain.push(timed(|| read_all(&plain))?.1);
    }
    unmount(&mounted);
    let name = "reading every file in a fork";
    let reading = median(in_fork);
    add(
        name,
        reading,
        "a bare overlay",
        median(in_bare),
        Goal::AtMost(1.05),
    );
    add(
        name,
        reading,
        "a plain directory",
        median(in_plain),
        Goal::None,
    );
    if largest {
        many(&engine, &project, &root, progress, figures)?;
    }
    for name in ["changed", "read"] {
        engine.delete_workspace(&name.parse()?, &cause())?;
    }
    engine.wait_for_upkeep();
    Ok(())
}

/// How much slower a fork of the largest project is than one of the smallest.
pub(crate) fn growth(files: &[usize], figures: &mut Figures) {
    let of = |files: Option<&usize>| {
        let files = *files?;
        let same = |figure: &&Figure| {
            figure.name == FORK && figure.files == files && figure.peer_name.starts_with('4')
        };
        figures.list.iter().find(same).map(|figure| figure.ours)
    };
    let (smallest, largest) = (files.iter().min(), files.iter().max());
    if let (Some(small), Some(large)) = (of(smallest), of(largest))
        && smallest != largest
    {
        figures.add(Figure {
            name: format!("{FORK}, the largest against the smallest"),
            files: 0,
            ours: large,
            peer_name: "the smallest".to_owned(),
            peer: small,
            unit: "ms",
            goal: Goal::AtMost(1.3),
        });
    }
}

/// What a thousand forks cost each, in disk and memory.
fn many(
    engine: &Engine,
    project: &ProjectId,
    root: &Path,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    progress(&format!("{MANY} forks at once"));
    let data = root.join("data");
    let places = [
        "forks",
        "workspaces",
        "locks",
        "cache",
        "offshoot.db",
        "offshoot.db-wal",
    ];
    let disk = || -> f64 {
        places
            .iter()
            .map(|place| disk_usage(&data.join(place)))
            .sum()
    };
    let (disk_before, memory_before) = (disk(), memory_in_use());
    for number in 0..MANY {
        engine.fork_out(project, &named(&format!("many-{number}"))?, &cause())?;
    }
    let (disk_after, memory_after) = (disk(), memory_in_use());
    for (name, used) in [
        ("disk of each of 1,000 forks", disk_after - disk_before),
        (
            "memory of each of 1,000 forks",
            memory_after - memory_before,
        ),
    ] {
        figures.add(Figure {
            name: name.to_owned(),
            files: 0,
            ours: used / MANY as f64 / 1024.0,
            peer_name: "limit".to_owned(),
            peer: 64.0,
            unit: "KiB",
            goal: Goal::AtMost(1.0),
        });
    }
    for number in 0..MANY {
        engine.delete_workspace(&format!("many-{number}").parse()?, &cause())?;
    }
    engine.wait_for_upkeep();
    Ok(())
}

fn named(name: &str) -> Result<ForkOptions> {
    Ok(ForkOptions {
        id: Some(name.parse()?),
        ..ForkOptions::default()
    })
}

fn base_layer(layers: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(layers).map_err(|cause| failed("list the layers", cause))?;
    let mut dirs = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    dirs.next()
        .ok_or_else(|| offshoot_core::Error::internal("the import made no layer"))
}

/// The least that a fork can cost. Returns its milliseconds; the mount is taken away afterwards.
fn bare_fork(at: &Path, layer: &Path) -> Result<f64> {
    let started = Instant::now();
    let target = mount_bare(at, layer)?;
    let took = millis(started.elapsed());
    unmount(&target);
    Ok(took)
}

fn mount_bare(at: &Path, layer: &Path) -> Result<PathBuf> {
    let mount = || -> std::io::Result<PathBuf> {
        std::fs::create_dir(at)?;
        for name in ["upper", "work", "target"] {
            std::fs::create_dir(at.join(name))?;
        }
        let open = |path: &Path| std::fs::File::open(path);
        let (lower, upper) = (open(layer)?, open(&at.join("upper"))?);
        let (work, target) = (open(&at.join("work"))?, open(&at.join("target"))?);
        let mounted = offshoot_sys::Overlay {
            lowers: &[lower.as_fd()],
            upper: upper.as_fd(),
            work: work.as_fd(),
            xattrs: offshoot_sys::OverlayXattrs::Trusted,
            redirect_dir: true,
        }
        .mount()?;
        offshoot_sys::attach_mount(mounted, &target)?;
        Ok(at.join("target"))
    };
    mount().map_err(|cause| failed("mount an overlay", cause))
}

fn unmount(target: &Path) {
    let _ = offshoot_sys::unmount_lazily(target);
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    run_command(Command::new("cp").arg("-r").arg(from).arg(to)).map(drop)
}

/// Reads every file below a directory and returns how many bytes there are.
fn read_all(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        let entries = std::fs::read_dir(&dir).map_err(|cause| failed("list a directory", cause))?;
        for entry in entries.flatten() {
            let kind = entry
                .file_type()
                .map_err(|cause| failed("look at a file", cause))?;
            if kind.is_dir() {
                open.push(entry.path());
            } else {
                let read = std::fs::read(entry.path());
                bytes += read.map_err(|cause| failed("read a file", cause))?.len() as u64;
            }
        }
    }
    Ok(bytes)
}

/// The bytes that a file, or everything of ours below a directory, takes on disk. What a mount
/// shows is not below its mount point.
fn disk_usage(path: &Path) -> f64 {
    let Ok(metadata) = path.symlink_metadata() else {
        return 0.0;
    };
    let mut sum = metadata.blocks() as f64 * 512.0;
    if metadata.is_dir() && path.file_name().is_some_and(|name| name != "target") {
        let same_disk = |entry: &std::fs::DirEntry| {
            entry
                .metadata()
                .is_ok_and(|below| below.dev() == metadata.dev())
        };
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        sum += entries
            .filter(same_disk)
            .map(|entry| disk_usage(&entry.path()))
            .sum::<f64>();
    }
    sum
}

/// The kernel's own memory and that of this process, in bytes.
fn memory_in_use() -> f64 {
    let kib = |file: &str, key: &str| -> f64 {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|rest| rest.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0.0)
    };
    let kernel = kib("/proc/meminfo", "SUnreclaim:") + kib("/proc/meminfo", "Percpu:");
    (kernel + kib("/proc/self/status", "VmRSS:")) * 1024.0
}
