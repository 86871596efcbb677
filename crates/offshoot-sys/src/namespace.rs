//! User and mount namespaces: what lets an ordinary user mount, and who else sees it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, PidfdFlags, chdir, fchdir, getcwd, pidfd_open};
use rustix::thread::{
    CapabilitySet, ThreadNameSpaceType, UnshareFlags, capabilities, move_into_thread_name_spaces,
};

use crate::{attach_mount, clone_mount};

/// Gives this process a user namespace, in which it keeps its user and group and may mount, and a
/// mount namespace of its own. What is mounted on the machine later shows there too; what is mounted
/// there shows nowhere else. The process must have one thread.
///
/// The namespaces end with the last process in them. A program that this process starts has no rights
/// there, unless its user is root.
#[expect(unsafe_code, reason = "no library has a safe form of this call")]
pub fn unshare_mounts() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    // SAFETY: the flags do not separate the table of open files, which is what other code relies on.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)? };
    // Without this the kernel lets nobody but root map a group.
    fs::write("/proc/self/setgroups", "deny")?;
    let (user, group) = (user.as_raw(), group.as_raw());
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// A process by its number, as a handle: if the number passes to another process, the handle does not.
pub fn process_handle(pid: i32) -> io::Result<OwnedFd> {
    let pid = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Moves this process into the user and mount namespaces of a running one. The process must have one
/// thread. The kernel refuses namespaces that the user of this process did not make.
///
/// The working directory stays: what has its path there, or else, if there is no such place, the
/// directory that it was. Relative paths never mean something else afterwards.
pub fn enter_namespaces(process: impl AsFd) -> io::Result<()> {
    let path = getcwd(Vec::new());
    let here = open(
        c".",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let both = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
    move_into_thread_name_spaces(process.as_fd(), both)?;
    // The kernel has made `/` the working directory.
    match path {
        Ok(path) if chdir(&path).is_ok() => Ok(()),
        _ => Ok(fchdir(here?)?),
    }
}

/// The number of a process's mount namespace, which no other one has as long as it lives. `process` is
/// a directory of `/proc`. Fails for processes of other users.
pub fn mount_namespace(process: &Path) -> io::Result<u64> {
    Ok(fs::metadata(process.join("ns/mnt"))?.ino())
}

/// Whether this process may mount in the mount namespace that it is in.
pub fn may_mount() -> bool {
    capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Makes a directory a mount point that shows what it showed before.
pub fn bind_onto_itself(dir: &Path) -> io::Result<()> {
    attach_mount(clone_mount(dir)?, fs::File::open(dir)?)
}
