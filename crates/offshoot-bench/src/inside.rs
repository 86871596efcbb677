//! Working in a fork beside a bare overlay mount, a plain directory and fuse-overlayfs: reading all
//! files, `git status`, a search and a small build, each by the real programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use offshoot_core::{ProjectId, Result};
use offshoot_engine::Engine;

use super::figures::{Figures, Goal, median, timed};
use super::forks::{cause, mount_bare, mount_fuse, named, peer, unmount};
use super::image::{failed, run as run_command};

/// What is done, as a shell does it.
const WORKS: [(&str, &str); 4] = [
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

/// How long everything before is given to come to rest.
const SETTLE: Duration = Duration::from_millis(500);

/// Somewhere to work.
struct Spot {
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
    let mut options = named("inside")?;
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
        spot("a bare overlay", Some(bare.clone()), Goal::AtMost(1.05)),
        spot("a plain directory", Some(root.join("git")), Goal::None),
        spot(&fuse_name, fuse.clone(), Goal::None),
    ];
    let mut measured = Ok(());
    for (name, script) in WORKS {
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

fn spot(name: &str, dir: Option<PathBuf>, goal: Goal) -> Spot {
    Spot {
        name: name.to_owned(),
        dir,
        goal,
    }
}

/// One sort of work at every place, in turns: what else the machine does meets all of them.
fn work(
    name: &str,
    script: &str,
    fork: &Path,
    spots: &[Spot],
    files: usize,
    repeat: usize,
    figures: &mut Figures,
) -> Result<()> {
    let dirs: Vec<Option<&Path>> = [Some(fork)]
        .into_iter()
        .chain(spots.iter().map(|spot| spot.dir.as_deref()))
        .collect();
    let mut took: Vec<Vec<f64>> = vec![Vec::new(); dirs.len()];
    for round in 0..=repeat.max(5) {
        // The fork and the bare overlay one right after the other, each first every second time.
        // What comes last goes on in its daemon when the program has ended.
        let mut turns: Vec<usize> = (0..dirs.len()).collect();
        turns[..2].rotate_left(round % 2);
        std::thread::sleep(SETTLE);
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
    for (spot, theirs) in spots.iter().zip(medians) {
        figures.beside(files, name, ours, &spot.name, theirs, spot.goal);
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
