//! Removing a data directory as a whole: what `rm -r` cannot, because forks are mounts and the places
//! of mounts are immutable.
//!
//! The directory is not opened as an engine would: it may be damaged, and nothing is to be made or
//! recovered in what is about to go.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offshoot_core::{Error, ErrorCode, RelPath, Result, escape_bytes};
use offshoot_fs::{
    CopyUp, ForkDirs, ProcessUsage, Provider, ProviderName, SafeDir, UseKind, is_fork_mounted,
    mounts_below, provider_named,
};

use crate::context::data_dir::DataDir;
use crate::context::data_dir::OWN_FILES;
use crate::context::process_marker::has_running_process;
use crate::context::server_lock::lock_server_of;

/// What was removed.
#[derive(Clone, Debug)]
pub struct RemovedData {
    /// How many workspaces had a directory.
    pub workspaces: usize,
    /// How many forks were mounted.
    pub mounts: usize,
    /// Names in the directory that are not Offshoot's. They stay, and so does the directory.
    pub left: Vec<OsString>,
    /// Whether the directory itself is gone.
    pub gone: bool,
}

/// Removes a data directory with everything that Offshoot has in it. Nothing is kept.
///
/// Refused before anything is touched: if it is no data directory, while a server or another
/// process has it open, while somebody uses a fork, and if something else is mounted in it. What a
/// killed removal left can be removed by another one.
pub fn remove_data(dir: &Path) -> Result<RemovedData> {
    let dir = std::fs::canonicalize(dir).map_err(|cause| {
        Error::new(ErrorCode::FileNotFound, "there is no data directory").with_source(cause)
    })?;
    let data = DataDir::at(&dir);
    if !data.database().is_file() {
        return Err(
            Error::invalid("this directory is no data directory of Offshoot")
                .with_hint("it has no `offshoot.db`; name the right one with `--data DIR`"),
        );
    }
    let _server = lock_server_of(&data)?;
    if has_running_process(&data.run()).map_err(cannot_remove)? {
        return Err(Error::new(
            ErrorCode::WorkspaceBusy,
            "another command works on this data directory",
        )
        .with_hint("wait for it, or end it, and try again"));
    }
    let mut mounts = mounts_below(&dir).map_err(cannot_remove)?;
    let mark = data.namespace();
    let is_marked = mounts.contains(&mark);
    mounts.retain(|point| *point != mark);
    refuse_other_mounts(&dir, &mounts)?;
    let overlay = provider_named(ProviderName::Overlay, CopyUp::WholeFile);
    let workspaces = names_in(&data.workspaces())?.len();
    refuse_used_directories(&data, &mounts)?;
    if let Ok(overlay) = &overlay {
        for target in &mounts {
            refuse_used(&**overlay, target)?;
        }
        // Mount points are empty and immutable, the bare ones of earlier starts of the machine too.
        for target in mounts.iter().cloned().chain(bare_targets(&data)?) {
            overlay.cleanup(&ForkDirs::new(data.tmp().join("nowhere"), target))?;
        }
    }
    if is_marked {
        unmark(mark)?;
    }
    let left = remove_own(&data)?;
    let gone = left.is_empty() && std::fs::remove_dir(&dir).is_ok();
    Ok(RemovedData {
        workspaces,
        mounts: mounts.len(),
        left,
        gone,
    })
}

/// Takes the mark of the user's namespace away. Its holder ends when its note is removed.
fn unmark(mark: PathBuf) -> Result<()> {
    #[cfg(target_os = "linux")]
    return offshoot_fs::UserNamespace::at(mark).unmark();
    #[cfg(not(target_os = "linux"))]
    {
        let _ = mark;
        Ok(())
    }
}

/// Only forks may be mounted there. Anything else is somebody else's, and what is in it must not go
/// with the directory.
fn refuse_other_mounts(dir: &Path, mounts: &[PathBuf]) -> Result<()> {
    for point in mounts {
        if !is_fork_mounted(point)? {
            let below = point.strip_prefix(dir).unwrap_or(point);
            let below = escape_bytes(below.as_os_str().as_encoded_bytes());
            return Err(Error::new(
                ErrorCode::WorkspaceBusy,
                format!("something is mounted at `{below}` in the data directory"),
            )
            .with_hint("unmount it first; nothing was removed"));
        }
    }
    Ok(())
}

fn refuse_used(overlay: &dyn Provider, target: &Path) -> Result<()> {
    let fork = ForkDirs::new(target, target);
    if !overlay.is_used(&fork)? {
        return Ok(());
    }
    Err(in_use(
        target,
        "files of it are open, or a program works in it",
    ))
}

/// Refuses if a process uses a workspace that is no mount. Looks at the processes of the machine
/// once, and at every file of these workspaces.
fn refuse_used_directories(data: &DataDir, mounts: &[PathBuf]) -> Result<()> {
    let used = ProcessUsage::collect(UseKind::Any);
    for name in names_in(&data.workspaces())? {
        let path = data.workspaces().join(name);
        if mounts.contains(&path) || !path.is_dir() {
            continue;
        }
        if let Some(user) = used.process_using(&path)? {
            return Err(in_use(&path, &user));
        }
    }
    Ok(())
}

fn in_use(workspace: &Path, how: &str) -> Error {
    let name = workspace.file_name().unwrap_or_default();
    let name = escape_bytes(name.as_encoded_bytes());
    Error::new(
        ErrorCode::WorkspaceBusy,
        format!("the workspace `{name}` is in use: {how}"),
    )
    .with_hint("end what uses it and try again; nothing was removed")
}

/// Empty directories where forks are shown: each may be a mount point.
fn bare_targets(data: &DataDir) -> Result<Vec<PathBuf>> {
    let mut bare = Vec::new();
    for place in [data.workspaces(), data.tmp()] {
        for name in names_in(&place)? {
            let path = place.join(name);
            let is_dir = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            if is_dir && names_in(&path)?.is_empty() {
                bare.push(path);
            }
        }
    }
    Ok(bare)
}

/// Removes what is Offshoot's, the database after everything else: as long as it is there, this can
/// be done again. Returns the names of what is not.
fn remove_own(data: &DataDir) -> Result<Vec<OsString>> {
    let dir = SafeDir::open(data.root())?.following_no_links();
    let own: Vec<PathBuf> = data
        .private_dirs()
        .into_iter()
        .chain([data.workspaces()])
        .collect();
    let (mut dirs, mut files, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for name in names_in(&data.root())? {
        if own.contains(&data.root().join(&name)) {
            dirs.push(name);
        } else if OWN_FILES.iter().any(|own| name == *own) {
            files.push(name);
        } else {
            left.push(name);
        }
    }
    // Its side files before it, and the lock at the very end.
    files.sort_by_key(|name| (name == "server.lock", name == "offshoot.db", name.clone()));
    for name in dirs.iter().chain(&files) {
        dir.remove_tree(&RelPath::parse(name.as_encoded_bytes())?)?;
    }
    Ok(left)
}

fn names_in(dir: &Path) -> Result<Vec<OsString>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(cannot_remove)?,
    };
    let names: std::io::Result<Vec<OsString>> = entries
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect();
    let mut names = names.map_err(cannot_remove)?;
    names.sort();
    Ok(names)
}

fn cannot_remove(cause: std::io::Error) -> Error {
    Error::new(
        ErrorCode::WriteFailed,
        "the data directory cannot be removed",
    )
    .with_source(cause)
}
