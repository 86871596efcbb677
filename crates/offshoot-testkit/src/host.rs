//! A temporary directory that is removed even if mounts and immutable directories are in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A temporary directory for tests that mount. Dropping it ends every mount below it first, also
/// when the test failed half-way.
#[derive(Debug)]
pub struct HostDir {
    dir: Option<tempfile::TempDir>,
}

impl HostDir {
    /// A fresh one in the place for temporary files.
    pub fn new() -> HostDir {
        let dir =
            tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary directory: {error}"));
        HostDir { dir: Some(dir) }
    }

    /// A fresh one below a directory, such as that of a [`crate::LoopImage`].
    pub fn below(dir: &Path) -> HostDir {
        let dir = tempfile::tempdir_in(dir)
            .unwrap_or_else(|error| panic!("no temporary directory: {error}"));
        HostDir { dir: Some(dir) }
    }

    /// A fresh one in memory where the machine has such a place, else on disk: for tests that are
    /// about logic and would only wait for syncs.
    pub fn in_memory() -> HostDir {
        HostDir {
            dir: Some(crate::scratch()),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir
            .as_ref()
            .map_or(Path::new("/nowhere"), |dir| dir.path())
    }

    /// The mount points below it right now, the newest first.
    pub fn mounts(&self) -> Vec<PathBuf> {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = self.path();
        let mut below: Vec<PathBuf> = table
            .lines()
            .filter_map(|line| line.split(' ').nth(4))
            .map(|point| PathBuf::from(point.replace("\\040", " ")))
            .filter(|point| point.starts_with(own))
            .collect();
        below.reverse();
        below
    }
}

impl Default for HostDir {
    fn default() -> Self {
        HostDir::new()
    }
}

impl Drop for HostDir {
    fn drop(&mut self) {
        for point in self.mounts() {
            run(Command::new("umount").arg("-l").arg(point));
        }
        let Some(dir) = self.dir.take() else {
            return;
        };
        let path = dir.keep();
        if std::fs::remove_dir_all(&path).is_ok() {
            return;
        }
        run(Command::new("chattr").args(["-R", "-f", "-i"]).arg(&path));
        if std::fs::remove_dir_all(&path).is_err() && !std::thread::panicking() {
            panic!("{} could not be removed", path.display());
        }
    }
}

fn run(command: &mut Command) {
    let _ = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
