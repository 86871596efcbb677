//! Working in a fork beside a bare overlay mount, a plain directory and fuse-overlayfs: reading all
//! files, `git status`, a search and a small build, each by the real programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use offshoot_core::{ProjectId, Result};
use offshoot_engine::Engine;

use super::figures::{Figures, Goal, median, timed};
use super::forks::{cause, fork_named, mount_bare, mount_fuse, peer, unmount};
use super::image::{failed, run as run_command};

/// What is done, as a shell does it.
const WORKLOADS: [(&str, &str); 4] = [
    (
        "cat of all files in a fork",
        "find . -path ./.git -prune -o -type f -print0 | xargs -0 cat > /dev/null",
    ),
    (
        "git status in a fork",
        "git -c safe.directory=* status --porcelain > /dev/null",
    ),
    ("search in a fork", SEARCH),
    (
        "a build of 20 C files in a fork",
        "cd c && for unit in *.c; do cc -O1 -c $unit || exit 1; done && rm -f *.o",
    ),
];

const SEARCH: &str = "if command -v rg > /dev/null; then rg -c function_7 . > /dev/null; \
                      else grep -rc function_7 . > /dev/null; fi";

/// The pause before each measurement, so that earlier work does not disturb it.
const REST: Duration = Duration::from_millis(500);

/// A directory in which the workloads run.
struct WorkDir {
    name: String,
    /// None if it is not there.
    dir: Option<PathBuf>,
    goal: Goal,
}

/// Measures everything; `root/git` is a plain work tree of the same files.
pub(crate) fn run(
    engine: &Engine,
    project: &ProjectId,
    root: &Path,
    files: usize,
    repeat: usize,
    figures: &mut Figures,
) -> Result<()> {
    let mut options = fork_named("inside")?;
    options.git = true;
    let (_, fork) = engine.forks.fork_out(project, &options, &cause())?;
    let layers = layers(&root.join("data/layers"))?;
    let layers: Vec<&Path> = layers.iter().map(PathBuf::as_path).collect();
    let bare = mount_bare(&root.join("bare-inside"), &layers)?;
    let fuse = mount_fuse(&root.join("fuse-inside"), &layers);
    let (fuse, fuse_name) = match fuse {
        Ok(dir) => (Some(dir), "fuse-overlayfs".to_owned()),
        Err(error) => (None, peer("fuse-overlayfs", Err(error)).0),
    };
    let spots = [
        work_dir("a bare overlay", Some(bare.clone()), Goal::AtMost(1.05)),
        work_dir("a plain directory", Some(root.join("git")), Goal::None),
        work_dir(&fuse_name, fuse.clone(), Goal::None),
    ];
    let mut measured = Ok(());
    for (name, script) in WORKLOADS {
        measured =
            measured.and_then(|()| work(name, script, &fork, &spots, files, repeat, figures));
    }
    unmount(&bare);
    if let Some(fuse) = &fuse {
        unmount(fuse);
    }
    engine
        .workspaces
        .delete_workspace(&"inside".parse()?, &cause())?;
    engine.context.wait_for_jobs();
    measured
}

fn work_dir(name: &str, dir: Option<PathBuf>, goal: Goal) -> WorkDir {
    WorkDir {
        name: name.to_owned(),
        dir,
        goal,
    }
}

/// Measures one workload in every directory, in turns, so that other load disturbs all alike.
fn work(
    name: &str,
    script: &str,
    fork: &Path,
    spots: &[WorkDir],
    files: usize,
    repeat: usize,
    figures: &mut Figures,
) -> Result<()> {
    let dirs: Vec<Option<&Path>> = [Some(fork)]
        .into_iter()
        .chain(spots.iter().map(|work_dir| work_dir.dir.as_deref()))
        .collect();
    let mut took: Vec<Vec<f64>> = vec![Vec::new(); dirs.len()];
    for round in 0..=repeat.max(5) {
        // The fork and the bare overlay one right after the other, each first every second time.
        // What comes last goes on in its daemon when the program has ended.
        let mut turns: Vec<usize> = (0..dirs.len()).collect();
        turns[..2].rotate_left(round % 2);
        std::thread::sleep(REST);
        for at in turns {
            let measured = match dirs[at] {
                Some(dir) => shell(dir, script)?,
                None => f64::NAN,
            };
            // The first round is that of the caches.
            if round > 0 {
                took[at].push(measured);
            }
        }
    }
    let mut medians = took.into_iter().map(median);
    let ours = medians.next().unwrap_or(f64::NAN);
    for (work_dir, theirs) in spots.iter().zip(medians) {
        figures.add_millis(files, name, ours, &work_dir.name, theirs, work_dir.goal);
    }
    Ok(())
}

fn shell(dir: &Path, script: &str) -> Result<f64> {
    let mut sh = Command::new("sh");
    sh.current_dir(dir).args(["-c", script]);
    sh.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    Ok(timed(|| run_command(&mut sh))?.1)
}

/// The layers that a fork with a `.git` stands on, the newest first.
fn layers(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).map_err(|cause| failed("list the layers", cause))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort_by_key(|path| path.extension().is_none());
    Ok(found)
}
