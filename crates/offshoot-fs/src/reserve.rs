//! Reserved disk space, so that space can still be freed on a full disk.
//!
//! Freeing space needs some first: for the commit that says what goes, a longer log, a new name in
//! a directory. So a file, the reserve, takes real blocks while the disk has any, and releases them
//! for work that frees space ([`Reserve::release_for`]). Work that stores something is refused
//! until the file has its blocks again ([`Reserve::require`]). Each such call tries to allocate
//! them, so that storing works again once there is space.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use offshoot_core::{Error, Result};

/// The size of the reserve on a large disk.
const MAX_SIZE: u64 = 8 << 20;
/// On a smaller disk, its size divided by this.
const DISK_DIVISOR: u64 = 32;

/// The reserve of one data directory, which all its processes share.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    size: u64,
    /// None where no file can be made. Then there is no reserve and nothing is refused for it.
    file: Option<File>,
}

impl Reserve {
    /// The reserve in that file, which is made if it does not exist. Nothing is allocated yet.
    pub fn open(path: &Path) -> Reserve {
        Reserve {
            file: open_file(path).ok(),
            size: size_for(path),
            path: path.to_owned(),
        }
    }

    /// The size that the reserve in that file should have, and how much of it is allocated; none if
    /// there is no such file yet. Makes nothing.
    pub fn inspect(path: &Path) -> (u64, Option<u64>) {
        let held = std::fs::metadata(path).map(|metadata| metadata.len());
        (size_for(path), held.ok())
    }

    /// How many bytes are to be reserved.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// How many of them are allocated.
    pub fn allocated(&self) -> u64 {
        // The length and not the blocks: a file system that compresses stores zeros in none.
        let length = |file: &File| file.metadata().map_or(0, |metadata| metadata.len());
        self.file.as_ref().map_or(0, length)
    }

    /// Whether the disk has so many free bytes beside the reserve.
    pub fn has_free(&self, bytes: u64) -> bool {
        disk_space(&self.path).is_none_or(|disk| disk.free >= bytes)
    }

    /// Allocates what is missing, unless the reserve is released at the moment. Returns whether the
    /// reserve is whole. One call if it was.
    pub fn refill(&self) -> bool {
        if self.file.is_none() || self.allocated() >= self.size {
            return true;
        }
        // Opened anew, because a lock on a shared descriptor would end with the first thread.
        open_file(&self.path)
            .is_ok_and(|mut file| file.try_lock().is_ok() && allocate(&mut file, self.size).is_ok())
    }

    /// Fails while the reserve is not whole: the disk is full, or the reserve is released for work
    /// that frees space. One call if it is whole.
    pub fn require(&self) -> Result<()> {
        if self.refill() {
            return Ok(());
        }
        Err(Error::disk_full("nothing can be stored"))
    }

    /// Runs work that frees space, or that has to come before. On a full disk the reserve is
    /// released for the time of the work. `work` may be called twice.
    pub fn release_for<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let mut released = match self.disk_is_nearly_full() {
            true => self.release(),
            false => None,
        };
        let mut result = work();
        if released.is_none() && result.as_ref().is_err_and(Error::is_disk_full) {
            released = self.release();
            result = work();
        }
        if released.is_none() {
            return result;
        }
        drop(released);
        self.refill();
        result.map_err(|error| match error.is_disk_full() {
            false => error,
            true => Error::disk_full(format!(
                "{}, and what has to be stored for it is more than the {} KiB that were set aside",
                error.message(),
                self.size >> 10
            ))
            .with_hint(
                "free space by other means, or erase a workspace that is not needed any more: \
                 `offshoot purge workspace NAME` keeps nothing of it",
            )
            .with_source(error),
        })
    }

    /// Gives the blocks back to the disk. Until the returned lock is dropped, no call allocates
    /// them again.
    fn release(&self) -> Option<File> {
        let file = open_file(&self.path).ok()?;
        file.lock_shared().ok()?;
        file.set_len(0).ok()?;
        // A journaling file system reuses freed blocks only after the journal is written.
        let _ = file.sync_all();
        Some(file)
    }

    /// Whether less is free than the size of the reserve, which may be too little for any work.
    fn disk_is_nearly_full(&self) -> bool {
        disk_space(&self.path).is_some_and(|disk| disk.free < self.size)
    }
}

struct DiskSpace {
    total: u64,
    free: u64,
}

fn disk_space(path: &Path) -> Option<DiskSpace> {
    let there = path.ancestors().skip(1).find(|dir| dir.is_dir())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    Some(DiskSpace {
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
    })
}

fn size_for(path: &Path) -> u64 {
    disk_space(path).map_or(MAX_SIZE, |disk| (disk.total / DISK_DIVISOR).min(MAX_SIZE))
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Gives a file this length, with blocks allocated for all of it.
fn allocate(file: &mut File, size: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(&*file, rustix::fs::FallocateFlags::empty(), 0, size) {
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        answer => return Ok(answer?),
    }
    let mut at = file.seek(SeekFrom::End(0))?;
    let zeros = vec![0; 64 << 10];
    while at < size {
        let step = zeros.len().min((size - at) as usize);
        file.write_all(&zeros[..step])?;
        at += step as u64;
    }
    file.sync_all()
}
