//! Extended attributes and whiteouts, in which an overlay keeps its metadata.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;

/// The longest value that is read: the longest path.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
const MAX_VALUE_LEN: usize = 4096;

/// The namespace of the extended attributes in which an overlay keeps its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayXattrs {
    /// `trusted.overlay.*`: needs root, and no unprivileged program can write them.
    Trusted,
    /// `user.overlay.*`: for mounts inside a user namespace. The kernel then refuses redirects.
    User,
}

impl OverlayXattrs {
    /// The namespace that this process can write, found out by trying. Root in a user namespace,
    /// or in a container with few capabilities, cannot write `trusted` attributes.
    pub fn best() -> OverlayXattrs {
        static DETECTED: std::sync::OnceLock<OverlayXattrs> = std::sync::OnceLock::new();
        *DETECTED.get_or_init(|| {
            if may_write_trusted() {
                OverlayXattrs::Trusted
            } else {
                OverlayXattrs::User
            }
        })
    }

    /// The attribute of a directory that hides everything at its path in lower layers (`y`), or
    /// whose files may be whiteouts by their attribute (`x`).
    pub fn opaque(self) -> &'static CStr {
        match self {
            OverlayXattrs::Trusted => c"trusted.overlay.opaque",
            OverlayXattrs::User => c"user.overlay.opaque",
        }
    }

    /// The attribute of a renamed directory with the path of its lower part.
    pub fn redirect(self) -> &'static CStr {
        match self {
            OverlayXattrs::Trusted => c"trusted.overlay.redirect",
            OverlayXattrs::User => c"user.overlay.redirect",
        }
    }

    /// The attribute that makes an empty file a whiteout.
    pub fn whiteout(self) -> &'static CStr {
        match self {
            OverlayXattrs::Trusted => c"trusted.overlay.whiteout",
            OverlayXattrs::User => c"user.overlay.whiteout",
        }
    }
}

#[cfg(target_os = "linux")]
fn may_write_trusted() -> bool {
    use rustix::fs::{MemfdFlags, memfd_create};
    // The kernel checks the permission before it asks the file system, so any file serves.
    let Ok(file) = memfd_create(c"offshoot", MemfdFlags::CLOEXEC) else {
        return rustix::process::geteuid().is_root();
    };
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::fsetxattr(&file, c"trusted.offshoot", b"", flags) != Err(Errno::PERM)
}

#[cfg(not(target_os = "linux"))]
fn may_write_trusted() -> bool {
    false
}

/// The value of an attribute; none if it is not set or the file system has no such attributes.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub fn get_xattr(file: impl AsFd, name: &CStr) -> io::Result<Option<Vec<u8>>> {
    // Most files have none, so the usual answer needs no large buffer.
    let mut small = [0_u8; 64];
    match rustix::fs::fgetxattr(&file, name, &mut small) {
        Ok(length) => return Ok(Some(small[..length].to_vec())),
        Err(Errno::RANGE) => {}
        Err(error) if is_absent(error) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let mut large = vec![0_u8; MAX_VALUE_LEN];
    let length = rustix::fs::fgetxattr(&file, name, &mut large[..])?;
    large.truncate(length);
    Ok(Some(large))
}

#[cfg(target_os = "linux")]
fn is_absent(error: Errno) -> bool {
    error == Errno::NODATA || error == Errno::OPNOTSUPP
}

#[cfg(target_vendor = "apple")]
fn is_absent(error: Errno) -> bool {
    error == Errno::NOATTR || error == Errno::NOTSUP
}

/// Sets an attribute.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub fn set_xattr(file: impl AsFd, name: &CStr, value: &[u8]) -> io::Result<()> {
    let flags = rustix::fs::XattrFlags::empty();
    Ok(rustix::fs::fsetxattr(file, name, value, flags)?)
}

/// The names of all attributes; none where the file system has no such attributes.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub fn xattr_names(file: impl AsFd) -> io::Result<Vec<Vec<u8>>> {
    // The longest list that Linux gives; a small one first, because most files have none.
    for size in [256, 64 << 10] {
        let mut names = vec![0_u8; size];
        match rustix::fs::flistxattr(&file, &mut names[..]) {
            Ok(length) => {
                let names = names[..length].split(|byte| *byte == 0);
                let names = names.filter(|name| !name.is_empty());
                return Ok(names.map(<[u8]>::to_vec).collect());
            }
            Err(Errno::RANGE) => {}
            Err(error) if is_absent(error) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Vec::new())
}

/// The names of all attributes; none on a system without them.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub fn xattr_names(_file: impl AsFd) -> io::Result<Vec<Vec<u8>>> {
    Ok(Vec::new())
}

/// The value of an attribute; none on a system without them.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub fn get_xattr(_file: impl AsFd, _name: &CStr) -> io::Result<Option<Vec<u8>>> {
    Ok(None)
}

/// Sets an attribute.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub fn set_xattr(_file: impl AsFd, _name: &CStr, _value: &[u8]) -> io::Result<()> {
    Err(Errno::NOSYS.into())
}

/// Makes a whiteout: a character device with the number 0:0. Since Linux 5.8 this needs no
/// privilege.
#[cfg(target_os = "linux")]
pub fn make_whiteout(dir: impl AsFd, name: &CStr) -> io::Result<()> {
    use rustix::fs::{FileType, Mode, mknodat};
    Ok(mknodat(
        dir,
        name,
        FileType::CharacterDevice,
        Mode::empty(),
        0,
    )?)
}

/// Makes a whiteout where the system has such a thing.
#[cfg(not(target_os = "linux"))]
pub fn make_whiteout(_dir: impl AsFd, _name: &CStr) -> io::Result<()> {
    Err(Errno::PERM.into())
}
