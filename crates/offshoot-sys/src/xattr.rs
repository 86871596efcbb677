//! Extended attributes of open files.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;

/// Longer values are of no interest to anybody here; a path is the longest.
const LONGEST: usize = 4096;

/// The value of an attribute; none if it is not set or the file system has no such attributes.
pub fn get_xattr(file: impl AsFd, name: &CStr) -> io::Result<Option<Vec<u8>>> {
    // Most files have none, so the usual answer needs no large buffer.
    let mut small = [0_u8; 64];
    match fgetxattr(&file, name, &mut small) {
        Ok(length) => return Ok(Some(small[..length].to_vec())),
        Err(Errno::RANGE) => {}
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let mut large = vec![0_u8; LONGEST];
    let length = fgetxattr(&file, name, &mut large[..])?;
    large.truncate(length);
    Ok(Some(large))
}

/// Sets an attribute.
pub fn set_xattr(file: impl AsFd, name: &CStr, value: &[u8]) -> io::Result<()> {
    Ok(fsetxattr(file, name, value, XattrFlags::empty())?)
}
