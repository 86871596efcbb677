//! Renames that plain `rename` cannot express.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
use rustix::fs::{RenameFlags, renameat_with};

/// Renames and fails with EEXIST when the new name is taken, without a moment in between.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub fn rename_noreplace(
    from_dir: impl AsFd,
    from: &CStr,
    to_dir: impl AsFd,
    to: &CStr,
) -> io::Result<()> {
    Ok(renameat_with(
        from_dir,
        from,
        to_dir,
        to,
        RenameFlags::NOREPLACE,
    )?)
}

/// Swaps two names, which must both exist, without a moment in between.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub fn rename_exchange(
    from_dir: impl AsFd,
    from: &CStr,
    to_dir: impl AsFd,
    to: &CStr,
) -> io::Result<()> {
    Ok(renameat_with(
        from_dir,
        from,
        to_dir,
        to,
        RenameFlags::EXCHANGE,
    )?)
}

/// Renames and fails with EEXIST when the new name is taken, without a moment in between.
///
/// Files get the new name as a second one first. Directories cannot have two names, so there the
/// kernel's rule helps that `rename` replaces only an empty directory.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub fn rename_noreplace(
    from_dir: impl AsFd,
    from: &CStr,
    to_dir: impl AsFd,
    to: &CStr,
) -> io::Result<()> {
    use rustix::fs::{AtFlags, linkat, mkdirat, renameat, unlinkat};
    let (from_dir, to_dir) = (from_dir.as_fd(), to_dir.as_fd());
    if crate::lstat_at(from_dir, from)?.kind == crate::FileKind::Dir {
        mkdirat(to_dir, to, rustix::fs::Mode::RWXU)?;
        return Ok(renameat(from_dir, from, to_dir, to)?);
    }
    linkat(from_dir, from, to_dir, to, AtFlags::empty())?;
    Ok(unlinkat(from_dir, from, AtFlags::empty())?)
}

/// Swaps two names, which must both exist, without a moment in between.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub fn rename_exchange(
    _from_dir: impl AsFd,
    _from: &CStr,
    _to_dir: impl AsFd,
    _to: &CStr,
) -> io::Result<()> {
    Err(rustix::io::Errno::NOSYS.into())
}
