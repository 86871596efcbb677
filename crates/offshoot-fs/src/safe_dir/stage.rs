//! Atomic writes: content is staged in a file of its own, which is renamed to its path when whole.
//!
//! Writing in place would destroy the old content on a full disk and show half of the new one to
//! readers. Staged files lie at the root of the directory, so that listing the root finds what a
//! killed process left behind.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::os::fd::AsFd;
use std::time::SystemTime;

use offshoot_core::{DEFAULT_DIR_PERM, Error, RelPath, Result};
use offshoot_sys::{DirReader, FileKind, Stat, fstat};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::{READ_DIR, SafeDir, reopen_dir};
use crate::errors::{is, lookup_error, read_error, write_error};

/// How the names of staged files begin. Such names at the root belong to Offshoot.
pub const STAGE_PREFIX: &[u8] = b".offshoot-stage-";

/// Whether a change must survive a power cut before the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// It may be lost in a power cut, never in a crash of the process.
    None,
    /// File and directories are on disk when the call returns.
    Durable,
}

/// A file being written; [`SafeDir::commit`] puts it in its place, dropping it removes it.
#[derive(Debug)]
pub struct Staged {
    dir: SafeDir,
    file: File,
    name: StageName,
    perm: u32,
    modified: Option<SystemTime>,
    written: u64,
}

/// A name at the root that is removed with its owner unless it was renamed away.
#[derive(Debug)]
struct StageName {
    dir: SafeDir,
    name: CString,
    renamed: bool,
}

impl Drop for StageName {
    fn drop(&mut self) {
        if !self.renamed {
            let _ = unlinkat(self.dir.root(), &self.name, AtFlags::empty());
        }
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.dir.hit("write")?;
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Staged {
    /// Chooses other permission bits for the committed file.
    pub fn set_perm(&mut self, perm: u32) {
        self.perm = perm;
    }

    /// Chooses when the committed file says that it was last modified; else when it was written.
    pub fn set_modified(&mut self, modified: SystemTime) {
        self.modified = Some(modified);
    }

    /// Skips `length` bytes. They read as zeros and, where the file system can, take no space.
    pub fn leave_hole(&mut self, length: u64) -> io::Result<()> {
        self.dir.hit("write")?;
        self.written += length;
        self.file.set_len(self.written)?;
        self.file.seek(SeekFrom::Start(self.written)).map(drop)
    }

    /// What was written so far.
    pub fn stat(&self) -> Result<Stat> {
        fstat(&self.file).map_err(|error| write_error(&RelPath::root(), error))
    }
}

impl SafeDir {
    /// Begins a file with these permission bits. Until it is committed, only its owner may read it.
    pub fn stage(&self, perm: u32) -> Result<Staged> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let (name, file) = self
            .with_stage_name("create", |name| {
                Ok(File::from(openat(
                    self.root(),
                    name,
                    flags | OFlags::CLOEXEC,
                    mode,
                )?))
            })
            .map_err(|error| write_error(&RelPath::root(), error))?;
        Ok(Staged {
            dir: self.clone(),
            file,
            name,
            perm,
            modified: None,
            written: 0,
        })
    }

    /// Puts a staged file in its place, replacing a file or a link there at once. Returns what
    /// stands there then.
    ///
    /// Readers see either all of the old content or all of the new one. `Durable` costs two
    /// flushes: the file before the rename (else a power cut leaves an empty file) and the
    /// directory after it.
    pub fn commit(
        &self,
        mut staged: Staged,
        to: &RelPath,
        make_parents: bool,
        sync: Sync,
    ) -> Result<Stat> {
        check_target(to)?;
        let parent = self.parent_for(to, make_parents, sync)?;
        let mode = Mode::from_raw_mode(staged.perm as _);
        let finish = || -> io::Result<()> {
            self.hit("chmod")?;
            rustix::fs::fchmod(&staged.file, mode)?;
            if let Some(at) = staged.modified {
                self.hit("utimens")?;
                staged.file.set_modified(at)?;
            }
            if sync == Sync::Durable {
                self.hit("fsync")?;
                staged.file.sync_all()?;
            }
            Ok(())
        };
        finish().map_err(|error| write_error(to, error))?;
        self.rename_stage(&mut staged.name, to, &parent)?;
        if sync == Sync::Durable {
            self.sync_dir(&parent)
                .map_err(|error| write_error(to, error))?;
        }
        fstat(&staged.file).map_err(|error| read_error(to, error))
    }

    /// Writes a whole file, making its parent directories.
    pub fn write(&self, path: &RelPath, bytes: &[u8], perm: u32, sync: Sync) -> Result<Stat> {
        check_target(path)?;
        let mut staged = self.stage(perm)?;
        staged
            .write_all(bytes)
            .map_err(|error| write_error(path, error))?;
        self.commit(staged, path, true, sync)
    }

    /// Copies a file with its permission bits, making the parent directories of the copy.
    ///
    /// The content is shared where the file system can share it.
    pub fn copy(&self, from: &RelPath, to: &RelPath, sync: Sync) -> Result<Stat> {
        check_target(to)?;
        let (mut source, stat) = self.open_file(from)?;
        let mut staged = self.stage(stat.perm)?;
        let copied = self.hit("write").and_then(|()| {
            if offshoot_sys::clone_file(&source, &staged.file).is_ok() {
                return Ok(());
            }
            io::copy(&mut source, &mut staged.file).map(drop)
        });
        copied.map_err(|error| write_error(to, error))?;
        self.commit(staged, to, true, sync)
    }

    /// Makes a link, replacing a file or a link at its place at once, and its parent directories.
    ///
    /// The target is stored as it is; one that leads out is refused whenever it is followed.
    pub fn symlink(&self, path: &RelPath, target: &[u8]) -> Result<Stat> {
        check_target(path)?;
        if target.is_empty() || target.contains(&0) {
            return Err(
                Error::invalid(format!("the target of the link `{path}` is not valid"))
                    .with_hint("a target is not empty and holds no NUL byte"),
            );
        }
        let parent = self.parent_for(path, true, Sync::None)?;
        let (mut name, ()) = self
            .with_stage_name("symlink", |name| Ok(symlinkat(target, self.root(), name)?))
            .map_err(|error| write_error(path, error))?;
        self.rename_stage(&mut name, path, &parent)?;
        let made = CString::new(path.name()).map_err(io::Error::from);
        made.and_then(|made| offshoot_sys::lstat_at(&parent, &made))
            .map_err(|error| read_error(path, error))
    }

    /// Removes what earlier processes staged and never committed. Returns how many there were.
    ///
    /// Only for a moment when no other call writes to the directory.
    pub fn clear_stages(&self) -> Result<usize> {
        let root = RelPath::root();
        let dir = self
            .resolve(&root, READ_DIR)
            .map_err(|error| lookup_error(&root, error))?;
        let mut names = Vec::new();
        DirReader::default()
            .for_each(&dir, |name, kind| {
                let staged = name.to_bytes().starts_with(STAGE_PREFIX);
                if staged && kind != Some(FileKind::Dir) {
                    names.push(name.to_owned());
                }
            })
            .map_err(|error| read_error(&root, error))?;
        for name in &names {
            match unlinkat(self.root(), name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT | Errno::ISDIR | Errno::PERM) => {}
                Err(errno) => return Err(write_error(&root, errno.into())),
            }
        }
        Ok(names.len())
    }

    /// Makes something under a fresh name at the root.
    fn with_stage_name<T>(
        &self,
        call: &'static str,
        make: impl Fn(&CStr) -> io::Result<T>,
    ) -> io::Result<(StageName, T)> {
        loop {
            self.hit(call)?;
            // The name must only be unlikely to be taken; O_EXCL does the rest.
            let number = RandomState::new().hash_one(std::process::id());
            let mut name = STAGE_PREFIX.to_vec();
            name.extend_from_slice(format!("{number:016x}").as_bytes());
            let name = CString::new(name)?;
            match make(&name) {
                Ok(made) => {
                    return Ok((
                        StageName {
                            dir: self.clone(),
                            name,
                            renamed: false,
                        },
                        made,
                    ));
                }
                Err(error) if is(&error, Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn rename_stage(&self, stage: &mut StageName, to: &RelPath, parent: &impl AsFd) -> Result<()> {
        let rename = || -> io::Result<()> {
            let name = CString::new(to.name())?;
            self.hit("rename")?;
            Ok(renameat(stage.dir.root(), &stage.name, parent, &name)?)
        };
        rename().map_err(|error| write_error(to, error))?;
        stage.renamed = true;
        Ok(())
    }

    fn parent_for(&self, path: &RelPath, make: bool, sync: Sync) -> Result<super::DirFd<'_>> {
        let parent = path.parent().unwrap_or_default();
        if make {
            return self.make_dirs(&parent, DEFAULT_DIR_PERM, sync);
        }
        self.dir_handle(&parent)
            .map_err(|error| lookup_error(&parent, error))
    }

    pub(super) fn sync_dir(&self, dir: &impl AsFd) -> io::Result<()> {
        self.hit("fsync")?;
        reopen_dir(dir)?.sync_all()
    }
}

/// Refuses places that cannot be written: the root itself and names that staging uses.
pub(super) fn check_target(path: &RelPath) -> Result<()> {
    if path.is_root() {
        return Err(Error::new(
            offshoot_core::ErrorCode::IsADirectory,
            "the workspace itself cannot be replaced",
        ));
    }
    if path
        .parts()
        .next()
        .is_some_and(|part| part.starts_with(STAGE_PREFIX))
    {
        return Err(Error::invalid(format!("the name `{path}` is reserved"))
            .with_hint("choose a name that does not begin with `.offshoot-stage-`"));
    }
    Ok(())
}
