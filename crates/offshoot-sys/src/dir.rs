//! Reading the names in an open directory, without an allocation per name.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::FileKind;

/// What the directory itself says about the kind of a name; some file systems do not say.
pub type NameKind = Option<FileKind>;

/// Reads names from directories; keeps its buffer from one directory to the next.
#[derive(Debug, Default)]
pub struct DirReader {
    #[cfg(target_os = "linux")]
    buffer: Vec<u8>,
}

impl DirReader {
    /// Calls `each` for every name but `.` and `..`, in the order of the file system.
    ///
    /// The directory must be open for reading and at its beginning. One that was removed in the
    /// meantime has no names.
    #[cfg(target_os = "linux")]
    pub fn for_each(
        &mut self,
        dir: impl AsFd,
        mut each: impl FnMut(&CStr, NameKind),
    ) -> io::Result<()> {
        // Large enough for about a thousand names a call.
        self.buffer.reserve(32 * 1024);
        let mut entries = rustix::fs::RawDir::new(dir, self.buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) => visit(entry.file_name(), entry.file_type(), &mut each),
                Err(Errno::INTR) => {}
                Err(Errno::NOENT) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Calls `each` for every name but `.` and `..`, in the order of the file system.
    ///
    /// One that was removed in the meantime has no names.
    #[cfg(not(target_os = "linux"))]
    pub fn for_each(
        &mut self,
        dir: impl AsFd,
        mut each: impl FnMut(&CStr, NameKind),
    ) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(dir)? {
            match entry {
                Ok(entry) => visit(entry.file_name(), entry.file_type(), &mut each),
                Err(Errno::INTR) => {}
                Err(Errno::NOENT) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn visit(name: &CStr, kind: FileType, each: &mut impl FnMut(&CStr, NameKind)) {
    if name != c"." && name != c".." {
        each(
            name,
            (kind != FileType::Unknown).then(|| FileKind::of(kind)),
        );
    }
}
