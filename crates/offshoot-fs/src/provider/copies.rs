//! Forks as copies of what the layers show: with shared extents (`reflink`) or without (`copy`).
//!
//! `reflink` never falls back to copying: a caller that requires it must learn that it does not
//! work here.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use offshoot_core::{Error, ErrorCode, RelPath, Result};
use offshoot_sys::{FileKind, Stat, clone_file, fstat, lstat_at};
use rustix::fs::{Timespec, Timestamps, futimens};
use rustix::io::Errno;

use super::record::{ForkRecord, RecordedStat};
use super::{
    BUSY_GRACE, Capabilities, CopyUp, CreateCost, Created, Ensured, ForkChanges, ForkDirs,
    Provider, ProviderName, busy, exists, failed, make_private_dir, missing, removal_dir,
};
use crate::difference::{BaseEntry, Difference};
use crate::errors::is;
use crate::layer::remove_host_tree;
use crate::stack::{LayerEntry, LayerStack};
use crate::tree_writer::{KEPT_PERM, Owner, TreeWriter};
use crate::{SafeDir, UseKind, Walk, find_process_using, write_error};

/// Makes forks as copies whose files share their extents with the layers: btrfs, XFS and others.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReflinkProvider;

/// Makes forks as copies; works everywhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyProvider;

macro_rules! provide_copies {
    ($provider:ty, $name:expr, $cost:expr, $method:expr) => {
        impl Provider for $provider {
            fn name(&self) -> ProviderName {
                $name
            }

            fn capabilities(&self) -> Capabilities {
                Capabilities {
                    mounts: false,
                    renames_base_dirs: true,
                    copy_up: if $cost == CreateCost::PerByte {
                        CopyUp::Nothing
                    } else {
                        CopyUp::Shared
                    },
                    create: $cost,
                    needs_root: false,
                }
            }

            fn create(&self, layers: &[PathBuf], fork: &ForkDirs) -> Result<Created> {
                create($name, $method, layers, fork)
            }

            fn ensure(&self, _layers: &[PathBuf], fork: &ForkDirs) -> Result<Ensured> {
                if fork.target.is_dir() {
                    Ok(Ensured::Present)
                } else {
                    Err(missing())
                }
            }

            fn changes_pruned(
                &self,
                layers: &[PathBuf],
                fork: &ForkDirs,
                prune: &mut dyn FnMut(&RelPath, &Stat) -> bool,
            ) -> Result<ForkChanges> {
                changes(layers, fork, prune)
            }

            fn close(&self, fork: &ForkDirs) -> Result<()> {
                refuse_if_used(fork)
            }

            fn is_used(&self, fork: &ForkDirs) -> Result<bool> {
                Ok(find_process_using(&fork.target, UseKind::Any)?.is_some())
            }

            fn freeze(&self, _fork: &ForkDirs) -> Result<()> {
                Err(Error::new(
                    ErrorCode::Unsupported,
                    "a copy cannot be made to refuse changes",
                ))
            }

            fn thaw(&self, _fork: &ForkDirs) -> Result<()> {
                Ok(())
            }

            fn move_target(
                &self,
                _layers: &[PathBuf],
                fork: &ForkDirs,
                target: &Path,
            ) -> Result<ForkDirs> {
                move_target(fork, target)
            }

            fn move_path(&self, from: &ForkDirs, to: &ForkDirs, path: &RelPath) -> Result<()> {
                super::move_below(&from.target, &to.target, path)
            }

            fn cleanup(&self, fork: &ForkDirs) -> Result<()> {
                cleanup(fork)
            }
        }
    };
}

provide_copies!(
    ReflinkProvider,
    ProviderName::Reflink,
    CreateCost::PerFile,
    |from, to| clone_file(from, to)
);
provide_copies!(
    CopyProvider,
    ProviderName::Copy,
    CreateCost::PerByte,
    |mut from, mut to| io::copy(&mut from, &mut to).map(drop)
);

type CloneFile = fn(&File, &File) -> io::Result<()>;

fn create(
    name: ProviderName,
    method: CloneFile,
    layers: &[PathBuf],
    fork: &ForkDirs,
) -> Result<Created> {
    let stack = LayerStack::open(layers)?;
    let made_private = make_private_dir(&fork.private).map_err(cannot_make)?;
    let lock = fork.lock()?;
    let building = fork.private.join("building");
    let record = record_of(fork);
    let result = (|| {
        if fs::symlink_metadata(&fork.target).is_ok() {
            return Err(exists());
        }
        // What a killed process left.
        remove_host_tree(&building)?;
        let mut copy = CopyBuilder::begin(name, &stack, &building, method)?;
        for entry in stack.flatten() {
            copy.entry(&entry?)?;
        }
        let copied = copy.finish(&fork.private)?;
        copied.record.write(&record).map_err(cannot_make)?;
        // A target that came into being meanwhile is empty at most, or this fails.
        fs::rename(&building, &fork.target).map_err(cannot_make)?;
        Ok(copied)
    })();
    if result.is_err() {
        let _ = remove_host_tree(&building);
        if made_private {
            let _ = remove_host_tree(&fork.private);
        }
    }
    drop(lock);
    let copied = result?;
    let shared = name == ProviderName::Reflink;
    Ok(Created {
        provider: name,
        files: copied.files,
        bytes_copied: if shared { 0 } else { copied.bytes },
        bytes_shared: if shared { copied.bytes } else { 0 },
        guarded: true,
    })
}

/// A copy in the making.
struct CopyBuilder<'a> {
    name: ProviderName,
    stack: &'a LayerStack,
    tree: TreeWriter,
    method: CloneFile,
    copied: CopyResult,
}

#[derive(Default)]
struct CopyResult {
    record: ForkRecord,
    files: u64,
    bytes: u64,
}

impl<'a> CopyBuilder<'a> {
    fn begin(
        name: ProviderName,
        stack: &'a LayerStack,
        building: &Path,
        method: CloneFile,
    ) -> Result<CopyBuilder<'a>> {
        let root = stack.root_metadata().map_err(cannot_make)?;
        let begin = || {
            fs::create_dir(building)?;
            let dir = File::open(building)?;
            let own = dir.metadata()?;
            // Layers have one owner, and so has the copy; only root can make it another one.
            let other = (own.uid(), own.gid()) != (root.uid(), root.gid());
            let owner = other.then(|| Owner {
                uid: root.uid(),
                gid: root.gid(),
            });
            let mut tree = TreeWriter::new(dir.into(), owner);
            tree.dir(&RelPath::root(), root.permissions().mode())?;
            io::Result::Ok(tree)
        };
        Ok(CopyBuilder {
            name,
            stack,
            tree: begin().map_err(cannot_make)?,
            method,
            copied: CopyResult::default(),
        })
    }

    fn entry(&mut self, entry: &LayerEntry) -> Result<()> {
        let path = &entry.path;
        let in_copy = |error| write_error(path, error);
        let mut recorded = match entry.stat.kind {
            FileKind::Dir => {
                self.tree.dir(path, entry.stat.perm).map_err(in_copy)?;
                let mut recorded = RecordedStat::of(&entry.stat);
                recorded.base.perm &= KEPT_PERM;
                recorded
            }
            FileKind::File => {
                let from = self.stack.open_file(entry)?;
                let to = self.tree.file(path).map_err(in_copy)?;
                (self.method)(&from, &to).map_err(|error| self.cannot_fill(path, error))?;
                self.set_metadata(&to, entry).map_err(in_copy)?
            }
            FileKind::Symlink => {
                let target = self.stack.read_link(entry)?;
                self.link(path, &target).map_err(in_copy)?
            }
            // No layer holds special files.
            FileKind::Other(_) => return Ok(()),
        };
        recorded.of_setup = self.stack.is_of_setup(entry);
        self.copied.record.entries.insert(path.clone(), recorded);
        Ok(())
    }

    /// If the file system cannot share content, the error names no single file.
    fn cannot_fill(&self, path: &RelPath, error: io::Error) -> Error {
        let never = [
            Errno::OPNOTSUPP,
            Errno::XDEV,
            Errno::INVAL,
            Errno::NOSYS,
            Errno::NOTTY,
        ];
        if self.name == ProviderName::Reflink && never.iter().any(|&errno| is(&error, errno)) {
            return Error::new(
                ErrorCode::Unsupported,
                "files of this file system cannot share their content",
            )
            .with_hint("use the provider `overlay` or `copy`")
            .with_source(error);
        }
        write_error(path, error)
    }

    fn set_metadata(&mut self, to: &File, entry: &LayerEntry) -> io::Result<RecordedStat> {
        self.tree.set_metadata(to, entry.stat.perm)?;
        let mtime = Timespec {
            tv_sec: entry.stat.mtime_ns.div_euclid(1_000_000_000) as _,
            tv_nsec: entry.stat.mtime_ns.rem_euclid(1_000_000_000) as _,
        };
        // As in an overlay, files keep their modification time: builds rely on it.
        futimens(
            to,
            &Timestamps {
                last_access: mtime,
                last_modification: mtime,
            },
        )?;
        let stat = fstat(to)?;
        self.copied.files += 1;
        self.copied.bytes += stat.size;
        Ok(RecordedStat::of(&stat))
    }

    fn link(&mut self, path: &RelPath, target: &[u8]) -> io::Result<RecordedStat> {
        self.tree.symlink(path, target)?;
        let name = self.tree.enter_parent(path)?;
        Ok(RecordedStat::of(&lstat_at(self.tree.here(), &name)?))
    }

    /// Waits until the clock of the file system has moved on, so that every later change has
    /// another time than the recorded one.
    fn finish(self, private: &Path) -> Result<CopyResult> {
        let entries = self.copied.record.entries.values();
        let newest = entries
            .filter(|entry| entry.base.kind != FileKind::Dir)
            .map(|entry| entry.ctime_ns)
            .max()
            .unwrap_or(i128::MIN);
        let clock = private.join("clock");
        let finish = || {
            self.tree.finish()?;
            let file = offshoot_sys::create_private(&clock)?;
            while fstat(&file)?.ctime_ns <= newest {
                std::thread::sleep(Duration::from_millis(1));
                rustix::fs::fchmod(&file, rustix::fs::Mode::RUSR)?;
            }
            fs::remove_file(&clock)
        };
        finish().map_err(cannot_make)?;
        Ok(self.copied)
    }
}

/// Moves the copy away in one step, then removes it: half of a copy would look as if its user had
/// deleted the rest.
fn cleanup(fork: &ForkDirs) -> Result<()> {
    let cannot_remove = |error| failed("the directory of the workspace cannot be removed", error);
    if fs::symlink_metadata(&fork.target).is_ok() {
        make_private_dir(&fork.private).map_err(cannot_remove)?;
    }
    let lock = fork.private.is_dir().then(|| fork.lock()).transpose()?;
    let removing = removal_dir(fork);
    remove_host_tree(&removing)?;
    match fs::rename(&fork.target, &removing) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot_remove(error)),
        _ => {}
    }
    remove_host_tree(&fork.private)?;
    drop(lock);
    Ok(())
}

/// Fails if a process could still change the copy after the fork has left it: the change would be
/// lost.
fn refuse_if_used(fork: &ForkDirs) -> Result<()> {
    if !fork.target.is_dir() {
        return Ok(());
    }
    let started = std::time::Instant::now();
    while let Some(who) = find_process_using(&fork.target, UseKind::Write)? {
        if started.elapsed() > BUSY_GRACE {
            return Err(busy(&who));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn move_target(fork: &ForkDirs, target: &Path) -> Result<ForkDirs> {
    if !fork.target.is_dir() {
        return Err(missing());
    }
    let _lock = fork.lock()?;
    if fs::symlink_metadata(target).is_ok() {
        return Err(exists());
    }
    fs::rename(&fork.target, target).map_err(cannot_make)?;
    Ok(ForkDirs::new(&fork.private, target))
}

fn changes(
    layers: &[PathBuf],
    fork: &ForkDirs,
    prune: &mut dyn FnMut(&RelPath, &Stat) -> bool,
) -> Result<ForkChanges> {
    let stack = LayerStack::open(layers)?;
    let record = match ForkRecord::read(&record_of(fork)) {
        Some(record) => record,
        None => record_without_times(&stack)?,
    };
    let target = match SafeDir::open(&fork.target) {
        Err(error) if !fork.target.is_dir() => return Err(missing().with_source(error)),
        answer => answer?,
    };
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut dirs = HashSet::from([RelPath::root()]);
    target.walk(&RelPath::root(), |path, stat| {
        if stack.is_own(path) {
            return Ok(Walk::Skip);
        }
        let recorded = record.entries.get(path);
        if recorded.is_some() {
            seen.insert(path.clone());
        }
        if stat.is_dir() {
            dirs.insert(path.clone());
        }
        let compared = recorded.filter(|recorded| !recorded.of_setup);
        let stop = compared.is_none() && stat.is_dir() && prune(path, stat);
        let of_setup = recorded.is_some_and(|recorded| {
            recorded.of_setup && recorded.base.kind == FileKind::Dir && stat.is_dir() && !stop
        });
        if !(of_setup || recorded.is_some_and(|recorded| recorded.untouched(stat))) {
            let base = compared.map(|recorded| recorded.base);
            found.extend(Difference::between(path.clone(), base, *stat, None));
        }
        Ok(if stop { Walk::Skip } else { Walk::Enter })
    })?;
    for (path, recorded) in &record.entries {
        // A deleted directory stands for everything that was below it.
        if !stack.is_own(path)
            && !recorded.of_setup
            && !seen.contains(path)
            && dirs.contains(&path.parent().unwrap_or_default())
        {
            found.push(Difference::gone(path.clone(), recorded.base));
        }
    }
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(ForkChanges {
        differences: found,
        // Looking for staged files costs little beside the walk.
        may_hold_stages: true,
    })
}

/// The record to use for a fork whose own was lost: every file may have changed.
fn record_without_times(stack: &LayerStack) -> Result<ForkRecord> {
    let mut record = ForkRecord::default();
    for entry in stack.flatten() {
        let entry = entry?;
        let mut recorded = RecordedStat::of(&entry.stat);
        recorded.base = BaseEntry {
            perm: entry.stat.perm & KEPT_PERM,
            ..recorded.base
        };
        recorded.ctime_ns = i128::MIN;
        recorded.of_setup = stack.is_of_setup(&entry);
        record.entries.insert(entry.path, recorded);
    }
    Ok(record)
}

fn record_of(fork: &ForkDirs) -> PathBuf {
    fork.private.join("record")
}

fn cannot_make(error: io::Error) -> Error {
    failed("the directory of the workspace cannot be made", error)
}
