//! Forks beside `git worktree add`, copies and the bare system calls; what changed in one; what
//! many cost. Working in one is in `inside.rs`.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use offshoot_core::{Cause, Operator, ProjectId, Result};
use offshoot_engine::{Engine, EngineOptions, ForkOptions, ImportOptions};

use super::figures::{Figure, Figures, Goal, median, millis, timed};
use super::image::{self, BenchDir, failed, run as run_command};
use super::{inside, peers, smallest_and_largest, tree};

const FORK: &str = "fork with its row and its directory";
/// Forks that are timed; more than of anything else, because one takes so little.
const FORKS: usize = 40;
/// Forks that exist at once when their cost is measured.
const MANY: usize = 1_000;

pub(crate) fn cause() -> Cause {
    Cause::by(Operator::new("bench"))
}

/// An engine with one project of so many files, and a few to build, imported from `root/src`.
pub(crate) fn project(root: &Path, files: usize) -> Result<(Engine, ProjectId)> {
    let source = root.join("src");
    std::fs::create_dir_all(&source).map_err(|cause| failed("make a directory", cause))?;
    tree::write(&source, files)?;
    tree::write_units(&source)?;
    let engine = Engine::open(EngineOptions::new(root.join("data")))?;
    let id: ProjectId = "bench".parse()?;
    let options = ImportOptions::default();
    engine
        .projects
        .import_dir(&id, &source, &options, &mut |_| {}, &cause())?;
    engine.context.wait_for_jobs();
    engine.directories.checkpoint()?;
    image::sync_disk(root)?;
    Ok((engine, id))
}

/// Measures everything that depends on the number of files.
pub(crate) fn run(
    place: &BenchDir,
    files: usize,
    repeat: usize,
    largest: bool,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    let root = place.dir().join(format!("forks-{files}"));
    progress(&format!("import of {files} files"));
    let (engine, project) = project(&root, files)?;
    progress(&format!("forks of {files} files"));
    let layer = base_layer(&root.join("data/layers"))?;
    let (mut forks, mut bare, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..FORKS {
        let name = format!("timed-{round}");
        let started = Instant::now();
        engine
            .forks
            .fork_out(&project, &fork_named(&name)?, &cause())?;
        forks.push(millis(started.elapsed()));
        bare.push(bare_fork(&root.join(format!("bare-{round}")), &layer)?);
        commits.push(timed(|| engine.workspaces.baseline_commit(&name))?.1);
    }
    let (fork, bare, commit) = (median(forks), median(bare), median(commits));
    figures.add_millis(
        files,
        FORK,
        fork,
        "4 mkdirs and the mount",
        bare,
        Goal::None,
    );
    figures.add_millis(
        files,
        FORK,
        fork,
        "3 times that and a commit",
        3.0 * bare + commit,
        Goal::AtMost(1.0),
    );
    let mounted = fuse_fork(&root.join("fuse-fork"), &layer);
    let (name, fuse) = peer("fuse-overlayfs", mounted);
    figures.add_millis(files, FORK, fork, &name, fuse, Goal::None);
    for round in 0..FORKS {
        engine
            .workspaces
            .delete_workspace(&format!("timed-{round}").parse()?, &cause())?;
    }
    engine.context.wait_for_jobs();
    let (first, with_git) = forks_with_git(&engine, &project)?;
    figures.add_millis(
        files,
        "fork with a `.git`",
        with_git,
        "fork without",
        fork,
        Goal::None,
    );

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
    figures.add_millis(
        files,
        FORK,
        fork,
        "git worktree add",
        median(worktrees),
        goal,
    );
    let shared = root.join("clone").to_string_lossy().into_owned();
    let (_, clone) = timed(|| peers::git(&git, &["clone", "-q", "--shared", ".", &shared]))?;
    figures.add_millis(files, FORK, fork, "git clone --shared", clone, Goal::None);
    let (_, copied) = timed(|| copy(&root.join("src"), &root.join("copy")))?;
    figures.add_millis(files, FORK, fork, "cp -r", copied, Goal::None);
    let shared = image::XfsImage::make(files).and_then(|xfs| reflink_copy(&root.join("src"), &xfs));
    let (name, shared) = peer("cp --reflink on XFS", shared);
    figures.add_millis(files, FORK, fork, &name, shared, Goal::None);
    figures.add_millis(
        files,
        "first fork of a snapshot with a `.git`",
        first,
        "git clone --shared",
        clone,
        Goal::None,
    );

    progress(&format!("work in a fork of {files} files"));
    inside::run(&engine, &project, &root, files, repeat, figures)?;

    progress(&format!("changes in a fork of {files} files"));
    changes(&engine, &project, &root, files, repeat, figures)?;
    if largest {
        many(&engine, &project, &root, progress, figures)?;
    }
    Ok(())
}

/// What changed in a fork, beside the least that finding it can cost and `git status`.
fn changes(
    engine: &Engine,
    project: &ProjectId,
    root: &Path,
    files: usize,
    repeat: usize,
    figures: &mut Figures,
) -> Result<()> {
    let git = root.join("git");
    let (_, path) = engine
        .forks
        .fork_out(project, &fork_named("changed")?, &cause())?;
    let id = "changed".parse()?;
    let upper = root.join("data/forks/changed.1/upper");
    let (mut ours, mut walks, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..repeat.max(5) {
        for n in tree::ten_files(files, round) {
            tree::write_file(&path, n, round + 1)?;
            tree::write_file(&git, n, round + 1)?;
        }
        std::thread::sleep(std::time::Duration::from_millis(30));
        // Looked at once before: what changed since the last look is hashed, the rest is not.
        engine.sync.changes(&id)?;
        std::thread::sleep(std::time::Duration::from_millis(30));
        // In turns, so that both find the same caches.
        for _ in 0..repeat.max(5) {
            ours.push(timed(|| engine.sync.changes(&id))?.1);
            walks.push(timed(|| peers::bare_walk(&upper))?.1);
        }
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
    figures.add_millis(
        files,
        name,
        changes,
        "bare walk of the upper",
        median(walks),
        large(3.0),
    );
    figures.add_millis(
        files,
        name,
        changes,
        "git status",
        median(statuses),
        large(1.0 / 100.0),
    );

    engine.workspaces.delete_workspace(&id, &cause())?;
    engine.context.wait_for_jobs();
    Ok(())
}

/// How much slower a fork of the largest project is than one of the smallest. In turns: what else
/// the machine does meets both.
pub(crate) fn growth(
    place: &BenchDir,
    files: &[usize],
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    let Some((small, large)) = smallest_and_largest(files) else {
        return Ok(());
    };
    progress("forks of the smallest and the largest project in turns");
    let project: ProjectId = "bench".parse()?;
    let open = |files: usize| {
        let root = place.dir().join(format!("forks-{files}"));
        Engine::open(EngineOptions::new(root.join("data")))
    };
    let engines = [open(small)?, open(large)?];
    image::sync_disk(place.dir())?;
    let mut took = [Vec::new(), Vec::new()];
    let name = |round: usize| format!("turn-{round}");
    for round in 0..FORKS {
        for (engine, took) in engines.iter().zip(&mut took) {
            let options = fork_named(&name(round))?;
            took.push(timed(|| engine.forks.fork_out(&project, &options, &cause()))?.1);
        }
    }
    for engine in &engines {
        for round in 0..FORKS {
            engine
                .workspaces
                .delete_workspace(&name(round).parse()?, &cause())?;
        }
        engine.context.wait_for_jobs();
    }
    let [at_small, at_large] = took.map(median);
    let peer = format!("the same with {small} files, in turns");
    let name = format!("{FORK}, growth");
    figures.add_millis(large, &name, at_large, &peer, at_small, Goal::AtMost(1.3));
    Ok(())
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
        engine
            .forks
            .fork_out(project, &fork_named(&format!("many-{number}"))?, &cause())?;
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
        engine
            .workspaces
            .delete_workspace(&format!("many-{number}").parse()?, &cause())?;
    }
    engine.context.wait_for_jobs();
    Ok(())
}

pub(crate) fn fork_named(name: &str) -> Result<ForkOptions> {
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

/// The least that a fork can cost: the bare mount. Returns its milliseconds, and ends the mount.
fn bare_fork(at: &Path, layer: &Path) -> Result<f64> {
    let started = Instant::now();
    let target = mount_bare(at, &[layer])?;
    let took = millis(started.elapsed());
    unmount(&target);
    Ok(took)
}

pub(crate) fn mount_bare(at: &Path, layers: &[&Path]) -> Result<PathBuf> {
    let mount = || -> std::io::Result<PathBuf> {
        std::fs::create_dir(at)?;
        for name in ["upper", "work", "target"] {
            std::fs::create_dir(at.join(name))?;
        }
        let open = |path: &Path| std::fs::File::open(path);
        let lowers: Vec<_> = layers
            .iter()
            .map(|one| open(one))
            .collect::<Result<_, _>>()?;
        let lowers: Vec<_> = lowers.iter().map(AsFd::as_fd).collect();
        let upper = open(&at.join("upper"))?;
        let (work, target) = (open(&at.join("work"))?, open(&at.join("target"))?);
        let mounted = offshoot_sys::Overlay {
            lowers: &lowers,
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

pub(crate) fn unmount(target: &Path) {
    let _ = offshoot_sys::unmount_lazily(target);
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    run_command(Command::new("cp").arg("-r").arg(from).arg(to)).map(drop)
}

/// Forks with a `.git`: the first of a snapshot, which writes it, and the median of others.
fn forks_with_git(engine: &Engine, project: &ProjectId) -> Result<(f64, f64)> {
    let mut took = Vec::new();
    for round in 0..FORKS {
        let mut options = fork_named(&format!("git-{round}"))?;
        options.git = true;
        took.push(timed(|| engine.forks.fork_out(project, &options, &cause()))?.1);
    }
    for round in 0..FORKS {
        engine
            .workspaces
            .delete_workspace(&format!("git-{round}").parse()?, &cause())?;
    }
    engine.context.wait_for_jobs();
    let first = took.remove(0);
    Ok((first, median(took)))
}

/// A mount by fuse-overlayfs, and its end. Returns the milliseconds of the first.
fn fuse_fork(at: &Path, layer: &Path) -> Result<f64> {
    let (target, took) = timed(|| mount_fuse(at, &[layer]))?;
    unmount(&target);
    Ok(took)
}

/// Makes a mount by fuse-overlayfs and leaves it mounted.
pub(crate) fn mount_fuse(at: &Path, layers: &[&Path]) -> Result<PathBuf> {
    for name in ["upper", "work", "target"] {
        std::fs::create_dir_all(at.join(name))
            .map_err(|cause| failed("make a directory", cause))?;
    }
    let lowers: Vec<String> = layers.iter().map(|one| one.display().to_string()).collect();
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lowers.join(":"),
        at.join("upper").display(),
        at.join("work").display()
    );
    let target = at.join("target");
    run_command(
        Command::new("fuse-overlayfs")
            .args(["-o", &options])
            .arg(&target),
    )?;
    Ok(target)
}

fn reflink_copy(from: &Path, xfs: &image::XfsImage) -> Result<f64> {
    let source = xfs.dir().join("src");
    copy(from, &source)?;
    let mut cp = Command::new("cp");
    cp.args(["-r", "--reflink=always"]).arg(&source);
    cp.arg(xfs.dir().join("copy"));
    Ok(timed(|| run_command(&mut cp))?.1)
}

/// The name and figure of a peer; the name of a missing one says so.
pub(crate) fn peer(name: &str, measured: Result<f64>) -> (String, f64) {
    match measured {
        Ok(value) => (name.to_owned(), value),
        Err(error) => (format!("{name} (not here: {})", error.message()), f64::NAN),
    }
}

/// The bytes that a file, or a directory with its content, takes on disk. What a mount
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
