//! Finding the holes of sparse files, so that they need not be read.

use std::fs::File;
use std::io;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// The next hole from `at` on: where it begins, and where data begins again. Both lie at the end of
/// the file or behind it if there is no more data. Where the file system knows no holes, there is
/// data up to the end. Moves the position of the file.
pub fn next_hole(file: &File, at: u64) -> io::Result<(u64, u64)> {
    let end = file.metadata()?.len().max(at);
    let hole = match seek(file, SeekFrom::Hole(at)) {
        Ok(hole) => hole.clamp(at, end),
        Err(Errno::NXIO) => end,
        Err(_) => return Ok((u64::MAX, u64::MAX)),
    };
    let data = match seek(file, SeekFrom::Data(hole)) {
        Ok(data) => data.max(hole),
        Err(Errno::NXIO) => end,
        Err(error) => return Err(error.into()),
    };
    Ok((hole, data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn holes_are_found_or_there_are_none() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(&[1; 4096], 4 << 20).unwrap();
        let (hole, data) = next_hole(&file, 0).unwrap();
        // A file system without holes has data everywhere.
        if hole == 0 {
            assert_eq!(data, 4 << 20);
            let (hole, data) = next_hole(&file, data).unwrap();
            assert!(((4 << 20) + 4096..8 << 20).contains(&hole));
            assert_eq!(data, 8 << 20);
        } else {
            assert!(hole >= 8 << 20);
        }
    }
}
