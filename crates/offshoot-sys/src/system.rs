//! Calls about the system or the process as a whole, and about private files.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit, setrlimit};

/// Flushes the whole file system that `fd` lies on.
pub fn syncfs(fd: impl AsFd) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        Ok(rustix::fs::syncfs(fd)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = fd;
        rustix::fs::sync();
        Ok(())
    }
}

/// Writes a file that only its owner may read, whatever the umask. An existing file is truncated,
/// and its permission bits are corrected.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_private(path)?.write_all(bytes)
}

/// Creates an empty file that only its owner may read, as [`write_private`] does.
pub fn create_private(path: &Path) -> io::Result<File> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Lets this process open as many files as the system allows it, and says how many that is.
pub fn raise_open_file_limit() -> io::Result<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// A value that differs after every start of the machine; none where the system has no such thing.
///
/// If it differs from a stored value, the page cache was lost since.
pub fn boot_id() -> Option<String> {
    // It cannot change while this process lives.
    static BOOT_ID: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    BOOT_ID.get_or_init(read).clone()
}

/// The effective user id of this process.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Lets `to` share the content of `from` where the file system can (reflink); an error elsewhere.
pub fn clone_file(from: impl AsFd, to: impl AsFd) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        Ok(rustix::fs::ioctl_ficlone(to, from)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (from, to);
        Err(rustix::io::Errno::NOSYS.into())
    }
}
