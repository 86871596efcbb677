//! Ways to make a fork: a private writable directory that begins as a stack of layers.
//!
//! # Vocabulary
//!
//! A **layer** is a frozen directory ([`crate::LayerWriter`]); a **stack** is a list of them, the
//! newest first. A **fork** is a directory, its *target*, that shows the stack and takes changes.
//! What belongs to it and is never shown lies in its *private directory* ([`ForkDirs`]). A
//! **provider** makes forks in one way:
//!
//! | provider | how | a fork costs | a change of a large file costs |
//! |---|---|---|---|
//! | `overlay` | the kernel merges the layers and an upper directory | a mount, whatever is in it | a copy of the file, or nothing where the file system shares extents |
//! | `reflink` | a copy whose files share their bytes with the layers | a few calls per file | nothing |
//! | `copy` | a copy | every byte | nothing |
//!
//! # Life
//!
//! [`Provider::create`] makes the fork. From then on its target is a plain directory for all
//! programs, until [`Provider::cleanup`]. A mount ends with the machine, or by [`Provider::close`];
//! [`Provider::ensure`] brings it back with everything that was changed. A target without its mount
//! is empty and refuses writes, so that nothing is written where it would be lost. Every call of a
//! fork gets the layers that it was created with: changes are relative to them, and on another
//! stack they would undo the work of others. Layers must not change or go away before the fork does
//! (INV-2).
//!
//! A call that changes the fork holds a lock on its private directory, which ends with the process.
//! So a fork never has two mounts.
//!
//! # Example
//!
//! ```
//! use offshoot_core::RelPath;
//! use offshoot_fs::{DifferenceKind, ForkDirs, LayerWriter, choose};
//!
//! # let data = tempfile::tempdir()?;
//! # let data = data.path();
//! let mut layer = LayerWriter::new(data.join("layer"))?;
//! layer.file(&RelPath::parse(b"notes")?, 0o644, &mut &b"old"[..])?;
//! layer.finish()?;
//!
//! let provider = choose(data, None)?.provider;
//! let layers = [data.join("layer")];
//! let fork = ForkDirs::new(data.join("private"), data.join("workspace"));
//! provider.create(&layers, &fork)?;
//! std::fs::write(fork.target.join("notes"), "new")?;
//!
//! let found = provider.changes(&layers, &fork)?;
//! assert_eq!(found[0].path.as_bytes(), b"notes");
//! assert_eq!(found[0].kind(), DifferenceKind::Maybe);
//! provider.cleanup(&fork)?;
//! assert_eq!(std::fs::read(data.join("layer/notes"))?, b"old");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(target_os = "linux")]
mod convert;
mod copies;
#[cfg(target_os = "linux")]
mod other_mounts;
#[cfg(target_os = "linux")]
mod overlay;
mod probe;
mod record;

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use offshoot_core::{Error, ErrorCode, RelPath, Result};
use offshoot_sys::{FileLock, FollowLinks, LockMode, Stat};
use rustix::io::Errno;

use crate::Difference;
use crate::errors::is;
use crate::path_resolver::PathResolver;
use crate::stack::OPEN_DIR;

#[cfg(target_os = "linux")]
pub use convert::copy_changes;
pub use copies::{CopyProvider, ReflinkProvider};
#[cfg(target_os = "linux")]
pub use overlay::OverlayProvider;
pub use probe::{Choice, Probe, choose, probe, provider_named, sweep_probes};

/// How long a fork may look busy by chance: a child process has all open files of its parent
/// between `fork` and `exec`.
const BUSY_GRACE: Duration = Duration::from_millis(200);

/// How long a call waits for another one on the same fork.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// A way to make a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProviderName {
    /// An overlay mount.
    Overlay,
    /// A copy that shares extents.
    Reflink,
    /// A copy.
    Copy,
}

impl ProviderName {
    /// All of them, the best first.
    pub const ALL: [ProviderName; 3] = [
        ProviderName::Overlay,
        ProviderName::Reflink,
        ProviderName::Copy,
    ];

    /// The name as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            ProviderName::Overlay => "overlay",
            ProviderName::Reflink => "reflink",
            ProviderName::Copy => "copy",
        }
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ProviderName {
    type Err = Error;

    fn from_str(text: &str) -> Result<ProviderName> {
        let known = ProviderName::ALL.into_iter();
        let mut matching = known.filter(|name| name.as_str() == text);
        matching.next().ok_or_else(|| {
            Error::invalid(format!("there is no provider `{text}`"))
                .with_hint("use `overlay`, `reflink` or `copy`")
        })
    }
}

/// What the first change of a file of the base costs, beyond the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyUp {
    /// Nothing: the fork has its own file already.
    Nothing,
    /// About nothing: the file system shares the bytes.
    Shared,
    /// The whole file is copied first.
    WholeFile,
}

/// What making a fork costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateCost {
    /// Independent of the size of the project.
    Constant,
    /// A few calls for each file.
    PerFile,
    /// Every byte is copied.
    PerByte,
}

/// What the forks of a provider can do and cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether a fork is a mount, which ends with the machine.
    pub mounts: bool,
    /// Whether directories of the base can be renamed in one call. Where not, `rename` answers
    /// EXDEV and tools copy instead.
    pub renames_base_dirs: bool,
    /// What the first change of a file costs.
    pub copy_up: CopyUp,
    /// What making a fork costs.
    pub create: CreateCost,
    /// Whether the host must let this user mount.
    pub needs_root: bool,
}

/// Where a fork lives. Both directories, and the layers, are on one file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkDirs {
    /// What is never shown to the fork's user; may hold further files of the caller.
    pub private: PathBuf,
    /// The directory that is shown.
    pub target: PathBuf,
}

impl ForkDirs {
    /// A fork with these places. The directories above them must exist.
    pub fn new(private: impl Into<PathBuf>, target: impl Into<PathBuf>) -> ForkDirs {
        ForkDirs {
            private: private.into(),
            target: target.into(),
        }
    }

    /// Where an overlay puts changes. Reading it is fine at any time, writing never.
    pub fn upper(&self) -> PathBuf {
        self.private.join("upper")
    }

    /// What an overlay needs for itself.
    pub fn work(&self) -> PathBuf {
        self.private.join("work")
    }

    fn lock_file(&self) -> PathBuf {
        self.private.join("lock")
    }

    fn lock(&self) -> Result<FileLock> {
        FileLock::acquire(&self.lock_file(), LockMode::Exclusive, LOCK_TIMEOUT)
            .map_err(|error| failed("the workspace cannot be locked", error))?
            .ok_or_else(|| busy("another operation makes or removes this workspace"))
    }
}

/// What making a fork really did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// The provider that made it.
    pub provider: ProviderName,
    /// Files that were copied or cloned.
    pub files: u64,
    /// Bytes that were copied.
    pub bytes_copied: u64,
    /// Bytes that are shared with the layers.
    pub bytes_shared: u64,
    /// Whether the target refuses writes, also those of root, while its mount is gone. Always so
    /// for a fork that is no mount.
    pub guarded: bool,
}

/// The result of [`Provider::changes_pruned`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForkChanges {
    /// What differs, or may differ, in the order of the paths.
    pub differences: Vec<Difference>,
    /// Whether there may be staged files at the root, which [`crate::SafeDir::clear_stages`]
    /// removes if their writer was killed.
    pub may_hold_stages: bool,
}

/// What [`Provider::ensure`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// The fork was there.
    Present,
    /// Its mount was gone and is back.
    Mounted,
}

/// A way to make forks. The module's page is the manual.
pub trait Provider: Send + Sync {
    /// Which one it is.
    fn name(&self) -> ProviderName;

    /// What its forks can do and cost.
    fn capabilities(&self) -> Capabilities;

    /// Makes a fork that shows `layers`, the newest first. If it fails, nothing is left of it.
    ///
    /// Fails with `already_exists` if the fork does. Costs as [`Capabilities::create`] says.
    fn create(&self, layers: &[PathBuf], fork: &ForkDirs) -> Result<Created>;

    /// Makes sure that the target shows the fork, after the end of a process or a machine too.
    ///
    /// `layers` are those of `create`. A few calls if it does, a mount if not.
    fn ensure(&self, layers: &[PathBuf], fork: &ForkDirs) -> Result<Ensured>;

    /// What differs, or may differ, from the layers, in the order of the paths.
    ///
    /// Content is not compared: see [`crate::DifferenceKind::Maybe`]. Changes made meanwhile may
    /// or may not be seen. For `overlay` the cost follows what was changed; `reflink` and `copy`
    /// cost one call per file of the fork, and compare with what was recorded when it was made.
    /// The bits of the root itself are not compared.
    fn changes(&self, layers: &[PathBuf], fork: &ForkDirs) -> Result<Vec<Difference>> {
        let seen = self.changes_pruned(layers, fork, &mut |_, _| false)?;
        Ok(seen.differences)
    }

    /// Finds changes as [`Provider::changes`] does, but leaves out the content of some directories.
    ///
    /// `prune` is called for each directory that only the fork has, or the fork and its setup layer
    /// ([`crate::SETUP_LAYER`]). If it returns true, the directory itself is listed and nothing
    /// below it. What the setup layer has and nobody touched is never listed, except that a copy
    /// lists a directory of it that was pruned.
    fn changes_pruned(
        &self,
        layers: &[PathBuf],
        fork: &ForkDirs,
        prune: &mut dyn FnMut(&RelPath, &Stat) -> bool,
    ) -> Result<ForkChanges>;

    /// Ends the mount, if it is one, and nothing else; `workspace_busy` if it is in use, or shown
    /// at another place such as a container. A copy stays where it is, and is busy as long as a
    /// process could change it.
    ///
    /// Syncs the file system, which takes from a millisecond to seconds: not for a request.
    fn close(&self, fork: &ForkDirs) -> Result<()>;

    /// Whether a process has files of the fork open, works in it, or shows it at another place.
    ///
    /// A few calls for each process of the machine.
    fn is_used(&self, fork: &ForkDirs) -> Result<bool>;

    /// Makes the fork read-only until [`Provider::thaw`]; `workspace_busy` if a file is open for
    /// writing, or if the fork is shown at another place. Processes that work in it or read stay,
    /// and their writes fail.
    ///
    /// Only for mounts, `unsupported` for copies.
    fn freeze(&self, fork: &ForkDirs) -> Result<()>;

    /// Takes [`Provider::freeze`] back; fine if it is not frozen.
    fn thaw(&self, fork: &ForkDirs) -> Result<()>;

    /// Lets the fork stand at `target`, which must be free, from now on. The old target is gone.
    ///
    /// This is how a fork that was made aside takes the place of another one. `workspace_busy`
    /// if it is in use. Costs as `close` and `ensure`; a copy is just renamed.
    fn move_target(&self, layers: &[PathBuf], fork: &ForkDirs, target: &Path) -> Result<ForkDirs>;

    /// Moves a file or directory that only `from` has, with all that is in it, to this path of
    /// `to`. Both forks are closed; `to` has the parent directory and nothing at the path, also if
    /// its layers had something there that was removed from it. Does nothing if `from` has nothing
    /// at the path.
    ///
    /// This is how ignored files follow a fork to another base. `unsupported` if it holds a
    /// directory of the base that was moved there, which stands on layers. For `overlay` one call
    /// for each directory in it, otherwise one call.
    fn move_path(&self, from: &ForkDirs, to: &ForkDirs, path: &RelPath) -> Result<()>;

    /// Removes the fork with its private directory. Does nothing if it is gone, and completes a
    /// removal that a killed process began.
    ///
    /// Processes can use its open files until they close them. Costs as `close`, and one call per
    /// file: not for a request.
    fn cleanup(&self, fork: &ForkDirs) -> Result<()>;
}

/// Whether the target of a fork is a mount right now. Always no where forks are no mounts.
pub fn is_fork_mounted(target: &Path) -> Result<bool> {
    #[cfg(target_os = "linux")]
    return overlay::is_mounted(target)
        .map_err(|error| failed("the workspace cannot be looked at", error));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = target;
        Ok(false)
    }
}

/// The error of a failed step; the system's message, which may hold host paths, goes to the log.
pub(crate) fn failed(what: &str, error: io::Error) -> Error {
    let described = match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
        Errno::NOSPC | Errno::DQUOT => Error::disk_full(what),
        Errno::PERM | Errno::ACCESS => Error::new(
            ErrorCode::PermissionDenied,
            format!("{what}: it is not permitted"),
        ),
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV | Errno::XDEV => Error::new(
            ErrorCode::Unsupported,
            format!("{what}: this file system or kernel cannot do it"),
        )
        .with_hint("`offshoot doctor` says which providers work here"),
        Errno::EXIST => Error::new(
            ErrorCode::AlreadyExists,
            format!("{what}: it exists already"),
        ),
        Errno::MFILE | Errno::NFILE => Error::internal(format!("{what}: too many open files"))
            .with_hint("raise the limit of open files (`ulimit -n`)"),
        _ => Error::internal(what.to_owned()),
    };
    described.with_source(error)
}

fn busy(why: &str) -> Error {
    Error::new(
        ErrorCode::WorkspaceBusy,
        format!("the workspace is in use: {why}"),
    )
    .with_hint("end what uses it and try again")
}

fn exists() -> Error {
    Error::new(
        ErrorCode::AlreadyExists,
        "the workspace has a directory already",
    )
}

fn missing() -> Error {
    Error::internal("the directory of the workspace is missing")
        .with_hint("restore the workspace from its last snapshot")
}

/// Where the fork is moved to be removed.
fn removal_dir(fork: &ForkDirs) -> PathBuf {
    fork.private.join("removing")
}

/// Renames one path from below a directory to below another. No link on the way is followed: the
/// fork's user may be at work.
fn move_below(from: &Path, to: &Path, path: &RelPath) -> Result<()> {
    let parent = |root: &Path| -> io::Result<std::os::fd::OwnedFd> {
        let root = rustix::fs::open(root, OPEN_DIR, rustix::fs::Mode::empty())?;
        let above = path.parent().unwrap_or_default();
        PathResolver::best().open(root.as_fd(), above.as_bytes(), OPEN_DIR, FollowLinks::Never)
    };
    let moved = (|| {
        let (from, to) = (parent(from)?, parent(to)?);
        Ok(rustix::fs::renameat(&from, path.name(), &to, path.name())?)
    })();
    match moved {
        Err(error) if !is(&error, Errno::NOENT) => Err(failed(
            "an ignored file cannot be moved to the new directory",
            error,
        )),
        _ => Ok(()),
    }
}

/// Makes a private directory unless it exists. Returns whether it was made.
fn make_private_dir(path: &Path) -> io::Result<bool> {
    match rustix::fs::mkdir(path, rustix::fs::Mode::RWXU) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
