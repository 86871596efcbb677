//! Writing layers: frozen directories in the format of an overlay's lower.
//!
//! A *base layer* holds a whole tree. A *delta layer* holds what differs from the layers below it:
//! files as they are, a **whiteout** for each path that is gone (one hides a whole directory), and
//! **opaque** directories, which hide what lower layers have at their path. Directories exist in
//! both, and what is in them is merged; the newest gives the permission bits.
//!
//! A whiteout is a character device 0:0 or, where devices cannot be made, an empty file with an
//! attribute; both are what the kernel reads. A layer holds no attribute but these, no set-id bit
//! and no special file, so nothing in it can change what the kernel makes of the layers below.
//!
//! A layer is written beside its place, renamed there when it is whole, and marked complete by a
//! file beside it. From then on it never changes (INV-2). Nothing is synced: a layer is a cache,
//! and its mark names the boot in which it was written, so that after a power cut it can be told
//! from one that must be checked again.

use std::ffi::CStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use offshoot_core::{Error, ErrorCode, RelPath, Result};
use offshoot_sys::{OverlayXattrs, get_xattr, make_whiteout, set_xattr};
use rustix::fs::{Timespec, Timestamps, futimens};

use crate::errors::{is, write_error};
use crate::tree_writer::{Owner, TreeWriter};
use crate::{SafeDir, read_error};

/// What a finished layer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerCounts {
    /// Regular files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Symbolic links.
    pub links: u64,
    /// Whiteouts.
    pub whiteouts: u64,
}

/// What is known about a layer on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerState {
    /// Nothing is there, or it was never finished.
    Incomplete,
    /// Finished since the machine was started: the page cache vouches for it.
    Complete,
    /// Finished before the machine was started; parts may never have reached the disk.
    CompleteBeforeBoot,
}

/// Writes one layer. Dropped before [`LayerWriter::finish`], it leaves nothing.
///
/// ```
/// use offshoot_core::RelPath;
/// use offshoot_fs::{LayerState, LayerWriter, layer_state};
///
/// # let host = tempfile::tempdir()?;
/// let place = host.path().join("base");
/// let mut layer = LayerWriter::new(&place)?;
/// layer.file(&RelPath::parse(b"src/main.rs")?, 0o644, &mut &b"fn main() {}"[..])?;
/// layer.finish()?;
/// assert_eq!(layer_state(&place)?, LayerState::Complete);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LayerWriter {
    tree: Option<TreeWriter>,
    building: PathBuf,
    place: PathBuf,
    xattrs: OverlayXattrs,
    counts: LayerCounts,
}

impl LayerWriter {
    /// Begins a layer that will stand at `place`, which must be free. Its parent must exist.
    pub fn new(place: impl Into<PathBuf>) -> Result<LayerWriter> {
        LayerWriter::for_owner(place, None)
    }

    /// Begins a layer whose files belong to `owner`; that needs root.
    pub fn for_owner(place: impl Into<PathBuf>, owner: Option<Owner>) -> Result<LayerWriter> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let place = place.into();
        if fs::symlink_metadata(&place).is_ok() {
            return Err(already_exists());
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let building = with_suffix(
            &place,
            &format!(".building-{}-{number}", std::process::id()),
        );
        let root = fs::create_dir(&building)
            .and_then(|()| fs::File::open(&building))
            .map_err(cannot_write)?;
        Ok(LayerWriter {
            tree: Some(TreeWriter::new(root.into(), owner)),
            building,
            place,
            xattrs: OverlayXattrs::best(),
            counts: LayerCounts::default(),
        })
    }

    /// A directory; the root too, if its bits are not the usual ones. Directories on the way to a
    /// name that were not given get the usual bits, also where a lower layer has others.
    pub fn dir(&mut self, path: &RelPath, perm: u32) -> Result<()> {
        self.tree()?
            .dir(path, perm)
            .map_err(|error| write_error(path, error))
    }

    /// A directory that hides what lower layers have at its path.
    pub fn opaque_dir(&mut self, path: &RelPath, perm: u32) -> Result<()> {
        self.dir(path, perm)?;
        let name = self.xattrs.opaque();
        self.mark(path, name, b"y")
            .map_err(|error| write_error(path, error))
    }

    /// A file with everything that `content` yields. Returns its size.
    pub fn file(&mut self, path: &RelPath, perm: u32, content: &mut dyn Read) -> Result<u64> {
        self.write_file(path, perm, None, content)
    }

    /// A file like [`LayerWriter::file`] that keeps its time of modification, which build tools
    /// compare.
    pub fn file_of_time(
        &mut self,
        path: &RelPath,
        perm: u32,
        mtime_ns: i128,
        content: &mut dyn Read,
    ) -> Result<u64> {
        let mtime = Timespec {
            tv_sec: mtime_ns.div_euclid(1_000_000_000) as _,
            tv_nsec: mtime_ns.rem_euclid(1_000_000_000) as _,
        };
        let times = Timestamps {
            last_access: mtime,
            last_modification: mtime,
        };
        self.write_file(path, perm, Some(times), content)
    }

    fn write_file(
        &mut self,
        path: &RelPath,
        perm: u32,
        times: Option<Timestamps>,
        content: &mut dyn Read,
    ) -> Result<u64> {
        let tree = self.tree()?;
        let bytes = (|| {
            let mut file = tree.file(path)?;
            let bytes = io::copy(content, &mut file)?;
            tree.set_metadata(&file, perm)?;
            if let Some(times) = times {
                futimens(&file, &times)?;
            }
            io::Result::Ok(bytes)
        })()
        .map_err(|error| write_error(path, error))?;
        self.counts.files += 1;
        self.counts.bytes += bytes;
        Ok(bytes)
    }

    /// A symbolic link.
    pub fn symlink(&mut self, path: &RelPath, target: &[u8]) -> Result<()> {
        self.tree()?
            .symlink(path, target)
            .map_err(|error| write_error(path, error))?;
        self.counts.links += 1;
        Ok(())
    }

    /// Hides what lower layers have at a path, a directory with all that is in it.
    pub fn whiteout(&mut self, path: &RelPath) -> Result<()> {
        self.write_whiteout(path, true)
            .map_err(|error| write_error(path, error))?;
        self.counts.whiteouts += 1;
        Ok(())
    }

    fn write_whiteout(&mut self, path: &RelPath, devices: bool) -> io::Result<()> {
        let (opaque, whiteout) = (self.xattrs.opaque(), self.xattrs.whiteout());
        let tree = self.tree.as_mut().ok_or(rustix::io::Errno::BADF)?;
        let name = tree.enter_parent(path)?;
        match devices.then(|| make_whiteout(tree.here(), &name)) {
            Some(Err(error)) if is(&error, rustix::io::Errno::PERM) => {}
            Some(answer) => return answer,
            None => {}
        }
        set_xattr(tree.file(path)?, whiteout, b"y")?;
        // The kernel looks for the attribute only in directories that say so, and in layers whose
        // root does.
        for dir in [RelPath::root(), path.parent().unwrap_or_default()] {
            self.mark(&dir, opaque, b"x")?;
        }
        Ok(())
    }

    /// Writes the kind of whiteout that needs no device, for tests.
    #[doc(hidden)]
    pub fn whiteout_by_attribute(&mut self, path: &RelPath) -> Result<()> {
        self.write_whiteout(path, false)
            .map_err(|error| write_error(path, error))?;
        self.counts.whiteouts += 1;
        Ok(())
    }

    fn mark(&mut self, dir: &RelPath, name: &CStr, value: &[u8]) -> io::Result<()> {
        let tree = self.tree.as_mut().ok_or(rustix::io::Errno::BADF)?;
        tree.enter(dir)?;
        // An opaque directory hides all there is, so it needs no whiteouts.
        if get_xattr(tree.here(), name)?.as_deref() == Some(b"y") {
            return Ok(());
        }
        set_xattr(tree.here(), name, value)
    }

    /// Freezes the layer at its place and marks it complete.
    pub fn finish(mut self) -> Result<LayerCounts> {
        let tree = self
            .tree
            .take()
            .ok_or_else(|| Error::internal("the layer is gone"))?;
        tree.finish().map_err(cannot_write)?;
        freeze_layer(&self.building, &self.place)?;
        Ok(self.counts)
    }

    fn tree(&mut self) -> Result<&mut TreeWriter> {
        self.tree
            .as_mut()
            .ok_or_else(|| Error::internal("the layer is finished"))
    }
}

impl Drop for LayerWriter {
    fn drop(&mut self) {
        if self.tree.take().is_some() || self.building.exists() {
            let _ = remove_host_tree(&self.building);
        }
    }
}

/// Makes a directory that was written beside `place` by other means the layer there.
pub fn freeze_layer(building: &Path, place: &Path) -> Result<()> {
    // An empty directory at the place would be replaced, but only a finished layer is marked.
    fs::rename(building, place).map_err(|error| match error.kind() {
        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => already_exists(),
        _ => cannot_write(error),
    })?;
    let boot = offshoot_sys::boot_id().unwrap_or_default();
    offshoot_sys::write_private(&marker_path(place), boot.as_bytes()).map_err(cannot_write)
}

/// Whether the layer at `place` is whole.
pub fn layer_state(place: &Path) -> Result<LayerState> {
    let boot = match fs::read(marker_path(place)) {
        Ok(boot) => boot,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(LayerState::Incomplete);
        }
        Err(error) => return Err(read_error(&RelPath::root(), error)),
    };
    if !place.is_dir() {
        return Ok(LayerState::Incomplete);
    }
    // A mark without a boot, or a torn one, equals none.
    let now = offshoot_sys::boot_id().filter(|now| now.as_bytes() == boot);
    Ok(if now.is_some() {
        LayerState::Complete
    } else {
        LayerState::CompleteBeforeBoot
    })
}

/// Removes an unused layer, finished or not: the mark first, so that a half-removed layer is never
/// taken for a whole one.
pub fn remove_layer(place: &Path) -> Result<()> {
    match fs::remove_file(marker_path(place)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot_write(error)),
        _ => remove_host_tree(place),
    }
}

/// Removes a directory of the data directory with all that is in it, if it exists.
pub(crate) fn remove_host_tree(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::internal("a directory to remove has no name"));
    };
    let name = RelPath::parse(name.as_bytes())?;
    SafeDir::open(parent)?.remove_tree(&name)
}

fn marker_path(place: &Path) -> PathBuf {
    with_suffix(place, ".complete")
}

fn with_suffix(place: &Path, ending: &str) -> PathBuf {
    let mut bytes = place.as_os_str().as_bytes().to_vec();
    bytes.extend_from_slice(ending.as_bytes());
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn already_exists() -> Error {
    Error::new(ErrorCode::AlreadyExists, "the layer exists already")
        .with_hint("a layer never changes; write a new one")
}

fn cannot_write(error: io::Error) -> Error {
    crate::provider::failed("a layer could not be written", error)
}
