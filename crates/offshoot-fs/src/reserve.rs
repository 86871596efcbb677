//! Space that is set aside, so that a full disk has a way out.
//!
//! Whatever frees space needs some first: the commit that says what goes, a longer log, a new name in
//! a directory. So a file takes real blocks while there are any, and work that frees space gets them
//! for as long as it lasts ([`Reserve::lend`]). Nobody else does: who stores something is refused
//! until the file has its blocks again ([`Reserve::require`]), which is tried each time, so that work
//! goes on by itself once there is space.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use offshoot_core::{Error, Result};

/// What is set aside on a disk that is large enough.
const SIZE: u64 = 8 << 20;
/// And on smaller ones: this part of them.
const PART: u64 = 32;

/// The reserve of one data directory, which all its processes share.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    size: u64,
    /// None where no file can be made. Then there is no reserve and nothing is refused for it.
    file: Option<File>,
}

impl Reserve {
    /// The reserve in that file, which is made if it does not exist. Nothing is set aside yet.
    pub fn open(path: &Path) -> Reserve {
        Reserve {
            file: open_file(path).ok(),
            size: size_for(path),
            path: path.to_owned(),
        }
    }

    /// How much is to be set aside in that file, and how much of it is; none if there is no such file
    /// yet. Makes nothing.
    pub fn look(path: &Path) -> (u64, Option<u64>) {
        let held = std::fs::metadata(path).map(|metadata| metadata.len());
        (size_for(path), held.ok())
    }

    /// How much is to be set aside.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// How much of it is.
    pub fn held(&self) -> u64 {
        // Not the blocks: a disk that compresses needs none for a file of zeros.
        let length = |file: &File| file.metadata().map_or(0, |metadata| metadata.len());
        self.file.as_ref().map_or(0, length)
    }

    /// Whether so many bytes are free on the disk beside what is set aside.
    pub fn leaves(&self, bytes: u64) -> bool {
        disk_of(&self.path).is_none_or(|disk| disk.free >= bytes)
    }

    /// Sets aside what is missing, or as much as there is. Returns whether nothing is missing then.
    /// One call if nothing was. Not while somebody has the reserve.
    pub fn set_aside(&self) -> bool {
        if self.file.is_none() || self.held() >= self.size {
            return true;
        }
        // A file of its own: a lock that threads share would end with the first of them.
        open_file(&self.path)
            .is_ok_and(|mut file| file.try_lock().is_ok() && allocate(&mut file, self.size).is_ok())
    }

    /// Refuses to store anything while the reserve is not whole: there is no space left, or it
    /// belongs to somebody who frees some. One call if it is.
    pub fn require(&self) -> Result<()> {
        if self.set_aside() {
            return Ok(());
        }
        Err(Error::disk_full("nothing can be stored"))
    }

    /// Runs work that frees space, or without which none can be freed. If the disk is full, the work
    /// has the reserve. `work` may be called twice.
    pub fn lend<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let mut lent = match self.disk_is_tight() {
            true => self.give_back(),
            false => None,
        };
        let mut done = work();
        if lent.is_none() && done.as_ref().is_err_and(Error::is_disk_full) {
            lent = self.give_back();
            done = work();
        }
        if lent.is_none() {
            return done;
        }
        drop(lent);
        self.set_aside();
        done.map_err(|error| match error.is_disk_full() {
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

    /// Gives the blocks back to the disk. Until the returned lock is dropped nobody takes them for
    /// the reserve again.
    fn give_back(&self) -> Option<File> {
        let file = open_file(&self.path).ok()?;
        file.lock_shared().ok()?;
        file.set_len(0).ok()?;
        // A journal keeps blocks from being used again until it has noted that they are free.
        let _ = file.sync_all();
        Some(file)
    }

    /// Whether less is free than what is set aside: then it may be too little for anything.
    fn disk_is_tight(&self) -> bool {
        disk_of(&self.path).is_some_and(|disk| disk.free < self.size)
    }
}

struct Disk {
    total: u64,
    free: u64,
}

fn disk_of(path: &Path) -> Option<Disk> {
    let there = path.ancestors().skip(1).find(|dir| dir.is_dir())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    Some(Disk {
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
    })
}

fn size_for(path: &Path) -> u64 {
    disk_of(path).map_or(SIZE, |disk| (disk.total / PART).min(SIZE))
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

/// Makes a file so long, with blocks behind all of it.
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
