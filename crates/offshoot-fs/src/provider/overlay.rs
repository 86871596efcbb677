//! Forks as overlay mounts: made in the time of a mount, whatever the project's size.
//!
//! The lock file of a fork holds the target and the names of the layers of its last mount. With it,
//! an upper is never mounted at two places at once, which the kernel would allow with wrong
//! results, and never on other layers than its first ones. Mounts in other namespaces do not show
//! here; the kernel is asked for them before an upper is mounted again.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use offshoot_core::{Error, ErrorCode, RelPath, Result};
use offshoot_sys::{
    Overlay, OverlayXattrs, Stat, attach_mount, get_xattr, is_mount_point, is_mount_used,
    is_on_overlay, is_upper_in_use, set_immutable, set_read_only, set_xattr, unmount_idle,
    unmount_lazily,
};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown};
use rustix::io::Errno;

use super::other_mounts::is_mounted_elsewhere;
use super::{
    BUSY_GRACE, Capabilities, CopyUp, CreateCost, Created, Ensured, ForkChanges, ForkDirs,
    Provider, ProviderName, busy, exists, failed, make_private_dir, missing, move_below,
    removal_dir,
};
use crate::errors::is;
use crate::layer::remove_host_tree;
use crate::stack::{LayerStack, OPEN_DIR};
use crate::tree_writer::KEPT_PERM;
use crate::upper::{UpperFormat, upper_differences};
use crate::{SafeDir, Walk};

/// How long a mount may also be at another place before that counts as use: a starting container
/// has a copy of every mount for a moment.
const MOUNT_COPY_GRACE: Duration = Duration::from_millis(1_000);

/// How long an upper may be in use by a mount that does not show here: one whose namespace has just
/// ended is written to disk first.
const MOUNT_END_GRACE: Duration = Duration::from_secs(10);

/// Makes forks as overlay mounts.
#[derive(Clone, Copy, Debug)]
pub struct OverlayProvider {
    xattrs: OverlayXattrs,
    copy_up: CopyUp,
}

impl OverlayProvider {
    /// For forks whose layers and uppers lie on a file system that copies up like this.
    pub fn new(copy_up: CopyUp) -> OverlayProvider {
        OverlayProvider::with_xattrs(OverlayXattrs::best(), copy_up)
    }

    /// With metadata in the given attributes: `User` inside of a user namespace.
    pub fn with_xattrs(xattrs: OverlayXattrs, copy_up: CopyUp) -> OverlayProvider {
        OverlayProvider { xattrs, copy_up }
    }

    /// The kernel does not follow redirects in attributes that every user can write.
    fn redirects(&self) -> bool {
        self.xattrs == OverlayXattrs::Trusted
    }

    /// Mounts a fork. Returns whether the bare target refuses writes. A new fork (`is_new`) has no
    /// record of an earlier mount to check.
    fn mount(
        &self,
        layers: &[PathBuf],
        stack: &LayerStack,
        fork: &ForkDirs,
        is_new: bool,
    ) -> Result<bool> {
        let record = MountRecord::of(layers, fork)?;
        if !is_new {
            record.check(fork)?;
        }
        let (upper, work) = (open_dir(&fork.upper())?, open_dir(&fork.work())?);
        if !is_new {
            refuse_if_mounted_unseen(upper.as_fd())?;
        }
        let target = open_dir(&fork.target)?;
        let guarded = refuse_writes(&target).map_err(cannot_mount)?;
        let lowers: Vec<BorrowedFd<'_>> = stack.fds().iter().map(AsFd::as_fd).collect();
        let overlay = Overlay {
            lowers: &lowers,
            upper: upper.as_fd(),
            work: work.as_fd(),
            xattrs: self.xattrs,
            redirect_dir: self.redirects(),
        };
        // The record is written before the mount: a second mount is refused by it.
        record.write(fork).map_err(cannot_mount)?;
        overlay
            .mount()
            .and_then(|mount| attach_mount(mount, &target))
            .map_err(cannot_mount)?;
        Ok(guarded)
    }

    /// This provider with the attributes that the fork uses: the process that made the fork may
    /// have had other privileges.
    fn of_fork(&self, fork: &ForkDirs) -> Result<OverlayProvider> {
        let xattrs = recorded_xattrs(fork, self.xattrs)?.unwrap_or(self.xattrs);
        Ok(OverlayProvider { xattrs, ..*self })
    }

    fn create_locked(&self, layers: &[PathBuf], fork: &ForkDirs) -> Result<Created> {
        let stack = LayerStack::open_with(layers, self.xattrs)?;
        let kind = match self.xattrs {
            OverlayXattrs::Trusted => TRUSTED,
            OverlayXattrs::User => USER,
        };
        offshoot_sys::write_private(&xattrs_record(fork), kind).map_err(cannot_make)?;
        make_upper(&stack, fork).map_err(cannot_make)?;
        let guarded = self.mount(layers, &stack, fork, true)?;
        Ok(Created {
            provider: ProviderName::Overlay,
            files: 0,
            bytes_copied: 0,
            bytes_shared: 0,
            guarded,
        })
    }
}

impl Provider for OverlayProvider {
    fn name(&self) -> ProviderName {
        ProviderName::Overlay
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mounts: true,
            renames_base_dirs: self.redirects(),
            copy_up: self.copy_up,
            create: CreateCost::Constant,
            needs_root: self.xattrs == OverlayXattrs::Trusted,
        }
    }

    fn create(&self, layers: &[PathBuf], fork: &ForkDirs) -> Result<Created> {
        let made_private = make_private_dir(&fork.private).map_err(cannot_make)?;
        let lock = fork.lock()?;
        match fs::create_dir(fork.upper()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists()),
            Err(error) => return Err(cannot_make(error)),
        }
        if let Err(error) = fs::create_dir(&fork.target) {
            let _ = fs::remove_dir(fork.upper());
            if made_private {
                let _ = remove_host_tree(&fork.private);
            }
            return Err(match error.kind() {
                io::ErrorKind::AlreadyExists => exists(),
                _ => cannot_make(error),
            });
        }
        let created = self.create_locked(layers, fork);
        if created.is_err() {
            let _ = remove_target(&fork.target);
            let _ = remove_host_tree(&fork.upper());
            let _ = remove_host_tree(&fork.work());
            if made_private {
                let _ = remove_host_tree(&fork.private);
            }
        }
        drop(lock);
        created
    }

    fn ensure(&self, layers: &[PathBuf], fork: &ForkDirs) -> Result<Ensured> {
        if !fork.upper().is_dir() {
            return Err(missing());
        }
        let _lock = fork.lock()?;
        make_private_dir(&fork.target).map_err(cannot_make)?;
        if is_mounted(&fork.target).map_err(cannot_mount)? {
            return Ok(Ensured::Present);
        }
        refuse_occupied(&fork.target)?;
        make_private_dir(&fork.work()).map_err(cannot_make)?;
        let own = self.of_fork(fork)?;
        let stack = LayerStack::open_with(layers, own.xattrs)?;
        own.mount(layers, &stack, fork, false)?;
        Ok(Ensured::Mounted)
    }

    fn changes_pruned(
        &self,
        layers: &[PathBuf],
        fork: &ForkDirs,
        prune: &mut dyn FnMut(&RelPath, &Stat) -> bool,
    ) -> Result<ForkChanges> {
        let own = self.of_fork(fork)?;
        let stack = LayerStack::open_with(layers, own.xattrs)?;
        let upper = open_dir(&fork.upper())?;
        let format = UpperFormat {
            xattrs: own.xattrs,
            follow_redirects: own.redirects(),
        };
        upper_differences(&stack, upper.as_fd(), format, prune)
    }

    fn close(&self, fork: &ForkDirs) -> Result<()> {
        if !fork.private.is_dir() {
            return Ok(());
        }
        let _lock = fork.lock()?;
        if !is_mounted(&fork.target).map_err(cannot_unmount)? {
            // The user's own namespace may show it, which root does not see.
            return match open_dir(&fork.upper()) {
                Ok(upper) => refuse_if_mounted_unseen(upper.as_fd()),
                Err(_) => Ok(()),
            };
        }
        refuse_if_mounted_elsewhere(fork)?;
        unmount_with_retries(&fork.target)
    }

    fn is_used(&self, fork: &ForkDirs) -> Result<bool> {
        if !is_mounted(&fork.target).map_err(cannot_unmount)? {
            return Ok(false);
        }
        let used = is_mount_used(&fork.target)
            .and_then(|used| Ok(used || is_mounted_elsewhere(&fork.target)?));
        used.map_err(cannot_unmount)
    }

    fn freeze(&self, fork: &ForkDirs) -> Result<()> {
        if !is_mounted(&fork.target).map_err(cannot_unmount)? {
            return Ok(());
        }
        refuse_if_mounted_elsewhere(fork)?;
        let started = Instant::now();
        loop {
            match set_read_only(&fork.target, true) {
                Err(error) if is(&error, Errno::BUSY) => {
                    if started.elapsed() > BUSY_GRACE {
                        return Err(busy("files of it are open for writing").with_source(error));
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                answer => return answer.map_err(cannot_unmount),
            }
        }
    }

    fn thaw(&self, fork: &ForkDirs) -> Result<()> {
        match is_mounted(&fork.target).map_err(cannot_mount)? {
            true => set_read_only(&fork.target, false).map_err(cannot_mount),
            false => Ok(()),
        }
    }

    fn move_target(&self, layers: &[PathBuf], fork: &ForkDirs, target: &Path) -> Result<ForkDirs> {
        if !fork.upper().is_dir() {
            return Err(missing());
        }
        let moved = ForkDirs::new(&fork.private, target);
        if fs::symlink_metadata(target).is_ok() {
            return Err(exists());
        }
        self.close(fork)?;
        // A crash between the two leaves an upper that is whole and can be mounted.
        remove_target(&fork.target)?;
        self.ensure(layers, &moved)?;
        Ok(moved)
    }

    fn move_path(&self, from: &ForkDirs, to: &ForkDirs, path: &RelPath) -> Result<()> {
        let redirect = self.of_fork(from)?.xattrs.redirect();
        let upper = SafeDir::open(from.upper())?.following_no_links();
        let stands_on_layers = |path: &RelPath| -> Result<bool> {
            let dir = open_dir(&from.upper().join(OsStr::from_bytes(path.as_bytes())))?;
            let value = get_xattr(&dir, redirect).map_err(cannot_mount)?;
            Ok(value.is_some())
        };
        let Some(stat) = upper.stat(path)? else {
            return Ok(());
        };
        let mut moved_dir = stat.is_dir() && stands_on_layers(path)?;
        if stat.is_dir() {
            upper.walk(path, |below, stat| {
                moved_dir = moved_dir || (stat.is_dir() && stands_on_layers(below)?);
                Ok(if moved_dir { Walk::Skip } else { Walk::Enter })
            })?;
        }
        if moved_dir {
            return Err(Error::new(
                ErrorCode::Unsupported,
                format!(
                    "`{path}` is ignored and holds a directory that was moved from the project"
                ),
            )
            .with_hint("move that directory out of it, or copy it, and try again"));
        }
        let there = SafeDir::open(to.upper())?.following_no_links();
        let hides = there.stat(path)?.is_some_and(|stat| stat.is_whiteout());
        if hides && stat.is_dir() {
            // It stands for a directory of the layers that is not to show through this one. The mark
            // comes first, so that a repetition after a crash finds it.
            let dir = open_dir(&from.upper().join(OsStr::from_bytes(path.as_bytes())))?;
            let opaque = self.of_fork(from)?.xattrs.opaque();
            set_xattr(&dir, opaque, b"y").map_err(cannot_mount)?;
            there.remove_file(path)?;
        }
        move_below(&from.upper(), &to.upper(), path)
    }

    fn cleanup(&self, fork: &ForkDirs) -> Result<()> {
        let lock = fork.private.is_dir().then(|| fork.lock()).transpose()?;
        while is_mounted(&fork.target).map_err(cannot_unmount)? {
            unmount_lazily(&fork.target).map_err(cannot_unmount)?;
        }
        remove_target(&fork.target)?;
        // In one step: half of an upper would look as if the changes in the rest were undone.
        let removing = removal_dir(fork);
        remove_host_tree(&removing)?;
        match fs::rename(fork.upper(), &removing) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(cannot_unmount(error));
            }
            _ => {}
        }
        // The lock file is removed as well; a call that waits for it finds no fork afterwards.
        remove_host_tree(&fork.private)?;
        drop(lock);
        Ok(())
    }
}

/// Fails if the fork is mounted at another place, where processes could go on using it.
fn refuse_if_mounted_elsewhere(fork: &ForkDirs) -> Result<()> {
    let started = Instant::now();
    while is_mounted_elsewhere(&fork.target).map_err(cannot_unmount)? {
        if started.elapsed() > MOUNT_COPY_GRACE {
            return Err(busy("a container or another mount shows it"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Fails if an upper that is not mounted here is mounted all the same: in a mount namespace that does
/// not show here, or lazily unmounted and still in use.
fn refuse_if_mounted_unseen(upper: BorrowedFd<'_>) -> Result<()> {
    let started = Instant::now();
    loop {
        match is_upper_in_use(upper) {
            Ok(false) => return Ok(()),
            Ok(true) if started.elapsed() > MOUNT_END_GRACE => {
                return Err(busy("it is mounted in another namespace"));
            }
            Ok(true) => std::thread::sleep(Duration::from_millis(10)),
            // Who may not mount cannot ask, and the mount that follows says why.
            Err(error) if is(&error, Errno::PERM) => return Ok(()),
            Err(error) => return Err(cannot_mount(error)),
        }
    }
}

/// Ends an unused mount. Not lazily: a detached mount that lives on would be a second one on the
/// same upper.
fn unmount_with_retries(target: &Path) -> Result<()> {
    let started = Instant::now();
    loop {
        match unmount_idle(target) {
            Err(error) if is(&error, Errno::BUSY) => {
                if started.elapsed() > BUSY_GRACE {
                    let error =
                        busy("files of it are open, or a command runs in it").with_source(error);
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            answer => return answer.map_err(cannot_unmount),
        }
    }
}

/// The content of the file beside a fork that records its attribute namespace.
const TRUSTED: &[u8] = b"trusted";
const USER: &[u8] = b"user";

fn xattrs_record(fork: &ForkDirs) -> PathBuf {
    fork.private.join("xattrs")
}

/// The attribute namespace that a fork uses; none if that was not recorded. `permission_denied` if
/// this process, which can read `readable`, cannot read it.
pub(super) fn recorded_xattrs(
    fork: &ForkDirs,
    readable: OverlayXattrs,
) -> Result<Option<OverlayXattrs>> {
    let noted = match fs::read(xattrs_record(fork)) {
        Ok(noted) if noted == TRUSTED => OverlayXattrs::Trusted,
        Ok(noted) if noted == USER => OverlayXattrs::User,
        // Not there, or torn by a power cut.
        _ => return Ok(None),
    };
    if noted == OverlayXattrs::Trusted && readable == OverlayXattrs::User {
        return Err(Error::new(
            ErrorCode::PermissionDenied,
            "this user cannot read what the overlay noted about the changes of the workspace",
        )
        .with_hint("try again as root, outside of a container that may do little"));
    }
    Ok(Some(noted))
}

/// What the last mount of a fork was made of.
struct MountRecord(Vec<u8>);

impl MountRecord {
    /// Layers by their last names: the data directory may be moved as a whole.
    fn of(layers: &[PathBuf], fork: &ForkDirs) -> Result<MountRecord> {
        let target = std::path::absolute(&fork.target).map_err(cannot_mount)?;
        let mut record = target.into_os_string().into_encoded_bytes();
        for layer in layers {
            record.push(0);
            record.extend_from_slice(layer.file_name().unwrap_or_default().as_bytes());
        }
        Ok(MountRecord(record))
    }

    fn layers(record: &[u8]) -> &[u8] {
        let end = record.iter().position(|&byte| byte == 0);
        &record[end.unwrap_or(record.len())..]
    }

    fn target(record: &[u8]) -> &Path {
        let end = record.iter().position(|&byte| byte == 0);
        Path::new(OsStr::from_bytes(&record[..end.unwrap_or(record.len())]))
    }

    /// Refuses a second mount of the same upper, and one on other layers. Under the lock.
    fn check(&self, fork: &ForkDirs) -> Result<()> {
        let last = fs::read(fork.lock_file()).map_err(cannot_mount)?;
        // Not mounted yet, or torn by a power cut; then nothing is mounted either.
        if last.is_empty() {
            return Ok(());
        }
        if MountRecord::layers(&last) != MountRecord::layers(&self.0) {
            return Err(
                Error::internal("the changes of the workspace belong to other layers")
                    .with_hint("move the workspace to the new base with `offshoot update`"),
            );
        }
        let elsewhere = MountRecord::target(&last);
        if elsewhere != MountRecord::target(&self.0)
            && is_mounted(elsewhere).map_err(cannot_mount)?
        {
            return Err(busy("it is mounted at another place"));
        }
        Ok(())
    }

    fn write(&self, fork: &ForkDirs) -> io::Result<()> {
        offshoot_sys::write_private(&fork.lock_file(), &self.0)
    }
}

/// Gives the upper the bits and the owner of the base's root, which the fork then shows.
fn make_upper(stack: &LayerStack, fork: &ForkDirs) -> io::Result<()> {
    let root = stack.root_metadata()?;
    let upper = fs::File::open(fork.upper())?;
    let made = upper.metadata()?;
    if (root.uid(), root.gid()) != (made.uid(), made.gid()) {
        let (uid, gid) = (Uid::from_raw(root.uid()), Gid::from_raw(root.gid()));
        fchown(&upper, Some(uid), Some(gid))?;
    }
    let bits = root.mode() & KEPT_PERM;
    if bits != made.mode() & 0o7777 {
        fchmod(&upper, Mode::from_raw_mode(bits as _))?;
    }
    make_private_dir(&fork.work())?;
    Ok(())
}

/// Makes the bare target refuse writes. Where the file system has no immutable flag, the permission
/// bits stop every user but root.
fn refuse_writes(target: &OwnedFd) -> io::Result<bool> {
    match set_immutable(target, true) {
        Ok(()) => Ok(true),
        Err(_) => {
            fchmod(target, Mode::RUSR | Mode::XUSR)?;
            Ok(false)
        }
    }
}

/// Fails if the bare target is not empty: without the immutable flag it may have been written to,
/// and a mount would hide that.
fn refuse_occupied(target: &Path) -> Result<()> {
    let mut names = fs::read_dir(target).map_err(cannot_mount)?;
    if names.next().is_none() {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::AlreadyExists,
        "files were written to the workspace's path while it was not mounted",
    )
    .with_hint("move them away and try again; then put them back"))
}

fn remove_target(target: &Path) -> Result<()> {
    match rustix::fs::open(target, OPEN_DIR, Mode::empty()) {
        Ok(dir) => {
            // If the flag cannot be cleared it was never set, or the removal below says so.
            let _ = set_immutable(&dir, false);
        }
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(cannot_unmount(error.into())),
    }
    // Only an empty directory is removed: files in a bare target must not be lost (INV-5).
    fs::remove_dir(target).map_err(cannot_unmount)
}

/// Whether an overlay is mounted at a place; not if there is no such place. Three calls.
pub(super) fn is_mounted(target: &Path) -> io::Result<bool> {
    match rustix::fs::open(target, OPEN_DIR, Mode::empty()) {
        Ok(dir) => Ok(is_mount_point(&dir)? && is_on_overlay(&dir)?),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn open_dir(path: &Path) -> Result<OwnedFd> {
    let flags = OPEN_DIR | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT => missing().with_source(io::Error::from(errno)),
        _ => cannot_mount(errno.into()),
    })
}

fn cannot_make(error: io::Error) -> Error {
    failed("the directory of the workspace cannot be made", error)
}

fn cannot_mount(error: io::Error) -> Error {
    failed("the workspace cannot be mounted", error)
}

fn cannot_unmount(error: io::Error) -> Error {
    failed("the workspace cannot be unmounted", error)
}
