//! The peers of the figures: git, a bare walk, a loop of safe file writes.

use std::ffi::CString;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use offshoot_core::Result;
use offshoot_sys::{DirReader, FileKind, lstat_at};

use super::image::{failed, run};

/// Stock git in `dir` with nothing but its defaults and an author.
pub(crate) fn git(dir: &Path, args: &[&str]) -> Result<()> {
    git_output(dir, args).map(drop)
}

/// Runs stock git as [`git`] does, and returns what it printed.
pub(crate) fn git_output(dir: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "bench")
        .env("GIT_AUTHOR_EMAIL", "bench@offshoot.invalid")
        .env("GIT_COMMITTER_NAME", "bench")
        .env("GIT_COMMITTER_EMAIL", "bench@offshoot.invalid")
        // Background maintenance would disturb the next measurement.
        .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
        .args(args);
    let printed = run(&mut command)?;
    Ok(String::from_utf8_lossy(&printed).trim().to_owned())
}

/// `git add -A && git commit`.
pub(crate) fn git_commit(dir: &Path) -> Result<()> {
    git(dir, &["add", "-A"])?;
    git(dir, &["commit", "-q", "-m", "bench"])
}

/// `git reset --hard && git clean -fd`.
pub(crate) fn git_restore(dir: &Path) -> Result<()> {
    git(dir, &["reset", "-q", "--hard"])?;
    git(dir, &["clean", "-fdq"])
}

/// The least that finding changes can cost: every name of a tree, with one `stat` each, on two
/// threads. Returns how many names there are.
pub(crate) fn bare_walk(root: &Path) -> Result<usize> {
    let start = CString::new(root.as_os_str().as_encoded_bytes())
        .map_err(|cause| failed("walk", cause.into()))?;
    let queue = Mutex::new((vec![start], 0usize));
    let seen = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let walkers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| walk_worker(&queue, &seen)))
            .collect();
        for walker in walkers {
            let ended = walker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ended.map_err(|cause| failed("walk", cause))?;
        }
        Ok::<(), offshoot_core::Error>(())
    })?;
    Ok(seen.into_inner())
}

fn walk_worker(queue: &Mutex<(Vec<CString>, usize)>, seen: &AtomicUsize) -> std::io::Result<()> {
    let lock = || {
        queue
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    };
    let mut reader = DirReader::default();
    loop {
        let path = {
            let mut queue = lock();
            match queue.0.pop() {
                Some(path) => {
                    queue.1 += 1;
                    path
                }
                None if queue.1 == 0 => return Ok(()),
                None => {
                    drop(queue);
                    std::thread::yield_now();
                    continue;
                }
            }
        };
        let dir = std::fs::File::open(std::ffi::OsStr::new(
            path.to_str().map_err(std::io::Error::other)?,
        ))?;
        let mut below = Vec::new();
        let mut count = 0;
        reader.for_each(&dir, |name, _| {
            count += 1;
            if lstat_at(dir.as_fd(), name).is_ok_and(|stat| stat.kind == FileKind::Dir) {
                below.extend(CString::new(
                    [path.to_bytes(), b"/", name.to_bytes()].concat(),
                ));
            }
        })?;
        seen.fetch_add(count, Ordering::Relaxed);
        let mut queue = lock();
        queue.0.append(&mut below);
        queue.1 -= 1;
    }
}

/// Writes, fsyncs and renames one file, and fsyncs the directory: what a careful program does to
/// have a write survive a power cut.
pub(crate) fn safe_write(dir: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let temp = dir.join(format!(".{name}.tmp"));
    let mut file = std::fs::File::create(&temp)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(&temp, dir.join(name))?;
    std::fs::File::open(dir)?.sync_all()
}
