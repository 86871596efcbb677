//! Real file systems on loop devices, and copies of their images that stand for a power cut.
//!
//! # What a copied image holds
//!
//! Between a program's `write` and the "disk", which is the image file, there are three caches:
//!
//! 1. The page cache of the mounted file system: file content that was written and not synced. It
//!    is not in the image.
//! 2. The page cache of the loop device itself (`/dev/loopN`), where ext4 keeps its metadata
//!    blocks, also those whose transaction has not been committed. A buffered read of the device
//!    would see blocks that no disk has received, and a direct one would flush them first. So the
//!    device is never read.
//! 3. The page cache of the image file. The loop driver writes into it what the file system sends
//!    to its disk, so a read of the image file shows exactly the blocks that were sent.
//!
//! The copy is therefore that of a disk which keeps every block it was sent and nothing else. A
//! disk that loses blocks from its own cache unless it is told to flush is harsher; that is not
//! modelled.
//!
//! A copy also has to be of one instant: blocks that were read early and late belong to different
//! states, which no journal repairs. An image made by [`LoopImage::create_for_power_cut`] lies on
//! a file system of its own (a second, outer loop image), and [`LoopImage::copy_image`] freezes
//! that one. The inner file system, the load on it and even a half-done fsync then wait in the
//! middle of whatever they were doing, are copied as they stand, and run on.
//!
//! A test that is killed with `kill -9` leaves its mount behind; `losetup --list` and `umount` find
//! and end it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::is_root;

/// A kind of file system that a [`LoopImage`] can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4 with a journal: what most servers have.
    Ext4,
    /// btrfs, which can share extents between files.
    Btrfs,
    /// XFS with reflink, which can share extents between files.
    Xfs,
}

impl FileSystem {
    /// The type for `mount -t`.
    fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Btrfs => "btrfs",
            Self::Xfs => "xfs",
        }
    }

    /// Options for `mount -o`.
    fn mount_options(self) -> &'static str {
        match self {
            // Reading must not write: a copy would differ after every walk of the tree.
            Self::Ext4 | Self::Btrfs => "noatime",
            // A copy has the same identity as its original, which XFS would refuse.
            Self::Xfs => "noatime,nouuid",
        }
    }

    /// The program that makes one, and its arguments before the image.
    fn mkfs(self) -> (&'static str, &'static [&'static str]) {
        // Lazy initialisation would let a kernel thread write to the image behind a benchmark.
        const EXT4: [&str; 6] = [
            "-q",
            "-F",
            "-O",
            "has_journal",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0",
        ];
        match self {
            Self::Ext4 => ("mkfs.ext4", &EXT4),
            Self::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
            Self::Xfs => ("mkfs.xfs", &["-q", "-f", "-m", "reflink=1"]),
        }
    }

    /// `f_type` of statfs, from the kernel's `linux/magic.h`.
    fn magic(self) -> i64 {
        match self {
            Self::Ext4 => 0xef53,
            Self::Btrfs => 0x9123_683e,
            Self::Xfs => 0x5846_5342,
        }
    }

    /// Whether `path` lies on a file system of this kind.
    ///
    /// # Panics
    /// If `statfs` of `path` fails.
    #[must_use]
    pub fn holds(self, path: &Path) -> bool {
        let found = rustix::fs::statfs(path)
            .unwrap_or_else(|error| panic!("statfs {}: {error}", path.display()));
        found.f_type == self.magic()
    }
}

/// A file system in an image file, mounted in a temporary directory. Dropping it unmounts it,
/// detaches the loop device and removes the image, also when the test panics.
// The fields are dropped in this order, which is the only one that works.
#[derive(Debug)]
pub struct LoopImage {
    mount: Mount,
    device: LoopDevice,
    image: PathBuf,
    kind: FileSystem,
    /// The file system that the image lies on, if it can be frozen for a copy.
    outer: Option<Box<LoopImage>>,
    _dir: TempDir,
}

impl LoopImage {
    /// Why an image of this kind cannot be made here, for [`skip`](crate::skip); `None` if it can.
    #[must_use]
    pub fn unavailable(kind: FileSystem) -> Option<String> {
        if !is_root() {
            return Some("loop images need root".to_owned());
        }
        if !Path::new("/dev/loop-control").exists() {
            return Some("loop images need `/dev/loop-control`".to_owned());
        }
        let programs = [kind.mkfs().0, "losetup", "mount", "umount", "fsfreeze"];
        let missing = programs.into_iter().find(|program| !has_program(program))?;
        Some(format!(
            "loop images of {} need the program `{missing}`",
            kind.name()
        ))
    }

    /// Makes and mounts an empty file system of `bytes` bytes. The image is sparse.
    ///
    /// # Panics
    /// If that fails, or if what is mounted is not what was asked for.
    #[must_use]
    pub fn create(kind: FileSystem, bytes: u64) -> Self {
        let dir = temp_dir();
        let image = dir.path().join("image");
        make_file_system(kind, kind.mkfs().1, &image, bytes);
        Self::mount_image(kind, image, dir, None)
    }

    /// Like [`LoopImage::create`], for [`LoopImage::copy_image`]: the image lies on a file system
    /// of its own. Every sync passes two file systems, so this is not for benchmarks.
    ///
    /// # Panics
    /// If that fails, if what is mounted is not what was asked for, or for btrfs.
    #[must_use]
    pub fn create_for_power_cut(kind: FileSystem, bytes: u64) -> Self {
        // The kernel takes two btrfs with the same identity for two disks of one file system.
        assert_ne!(
            kind,
            FileSystem::Btrfs,
            "a copy of btrfs cannot be mounted beside it"
        );
        let outer_dir = temp_dir();
        let outer_image = outer_dir.path().join("outer");
        // The outer one needs no journal: it is never cut, and its own would only cost time.
        let options = ["-q", "-F", "-O", "^has_journal", "-m", "0"];
        make_file_system(
            FileSystem::Ext4,
            &options,
            &outer_image,
            bytes + bytes / 8 + (16 << 20),
        );
        let device = LoopDevice::attach(&outer_image);
        let mount = Mount::new(FileSystem::Ext4, &device, &outer_dir.path().join("mount"));
        let image = mount.point.join("image");
        let outer = Self {
            mount,
            device,
            image: outer_image,
            kind: FileSystem::Ext4,
            outer: None,
            _dir: outer_dir,
        };
        make_file_system(kind, kind.mkfs().1, &image, bytes);
        Self::mount_image(kind, image, temp_dir(), Some(Box::new(outer)))
    }

    /// Mounts an existing image and makes sure that it is what the test relies on.
    fn mount_image(
        kind: FileSystem,
        image: PathBuf,
        dir: TempDir,
        outer: Option<Box<LoopImage>>,
    ) -> Self {
        let device = LoopDevice::attach(&image);
        let mount = Mount::new(kind, &device, &dir.path().join("mount"));
        assert!(
            kind.holds(&mount.point),
            "what was mounted is not {}",
            kind.name()
        );
        if kind == FileSystem::Ext4 {
            let journal = format!("/proc/fs/jbd2/{}-8", device.name());
            assert!(
                Path::new(&journal).exists(),
                "the mounted ext4 has no journal"
            );
        }
        Self {
            mount,
            device,
            image,
            kind,
            outer,
            _dir: dir,
        }
    }

    /// The directory where the file system is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.mount.point
    }

    /// The block device, such as `/dev/loop0`.
    #[must_use]
    pub fn device(&self) -> &Path {
        &self.device.path
    }

    /// Copies the disk as it stands at one instant, while the file system is in use: what a power
    /// cut at that instant would leave. The load waits meanwhile and then runs on.
    ///
    /// Whatever was acknowledged before the call must be in the copy.
    ///
    /// # Panics
    /// If the image was not made by [`LoopImage::create_for_power_cut`], or if the copy fails.
    #[must_use]
    pub fn copy_image(&self) -> ImageCopy {
        let outer = self
            .outer
            .as_ref()
            .expect("`create_for_power_cut` made this image");
        let dir = temp_dir();
        let target = dir.path().join("image");
        run(Command::new("sh")
            .args(["-c", FREEZE_AND_COPY, "sh"])
            .args([outer.path(), &self.image, &target]));
        ImageCopy {
            image: target,
            kind: self.kind,
            dir,
        }
    }
}

/// Copies a file while its file system is frozen, and only what is not a hole, so that the load is
/// stopped for as short as possible.
///
/// This is a process of its own: a thread of the load that waits in a page fault, such as on the
/// shared memory of SQLite, keeps every thread of its own process from getting memory, so a thread
/// of the test could not end the freeze.
const FREEZE_AND_COPY: &str = r#"
fsfreeze --freeze "$1" || exit
timeout 120 cp --sparse=auto "$2" "$3"
copied=$?
fsfreeze --unfreeze "$1" && exit $copied
"#;

/// The disk after a power cut: a copied image that is not mounted.
#[derive(Debug)]
pub struct ImageCopy {
    image: PathBuf,
    kind: FileSystem,
    dir: TempDir,
}

impl ImageCopy {
    /// The image file.
    #[must_use]
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Turns the power on again: mounts the copy, which replays its journal.
    ///
    /// # Panics
    /// If it cannot be mounted.
    #[must_use]
    pub fn mount(self) -> LoopImage {
        LoopImage::mount_image(self.kind, self.image, self.dir, None)
    }
}

/// An attached loop device; dropping it detaches it.
#[derive(Debug)]
struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    fn attach(image: &Path) -> Self {
        let path = run(Command::new("losetup")
            .args(["--find", "--show"])
            .arg(image));
        Self {
            path: PathBuf::from(path.trim()),
        }
    }

    /// `loop0` of `/dev/loop0`.
    fn name(&self) -> String {
        let name = self.path.file_name().expect("a device has a name");
        name.to_string_lossy().into_owned()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // If the device is still in use, the kernel detaches it with its last user.
        complain(try_run(
            Command::new("losetup").arg("--detach").arg(&self.path),
        ));
    }
}

/// A mounted file system; dropping it unmounts it.
#[derive(Debug)]
struct Mount {
    point: PathBuf,
}

impl Mount {
    fn new(kind: FileSystem, device: &LoopDevice, point: &Path) -> Self {
        fs::create_dir(point).unwrap_or_else(|error| panic!("mkdir for a mount: {error}"));
        let mut mount = Command::new("mount");
        run(mount
            .args(["-t", kind.name(), "-o", kind.mount_options()])
            .arg(&device.path)
            .arg(point));
        Self {
            point: point.to_owned(),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A process that a test has just killed may hold files for a moment longer.
        for _ in 0..100 {
            if try_run(Command::new("umount").arg(&self.point)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        complain(try_run(
            Command::new("umount").arg("--lazy").arg(&self.point),
        ));
    }
}

fn make_file_system(kind: FileSystem, options: &[&str], image: &Path, bytes: u64) {
    let file = File::create_new(image).and_then(|file| file.set_len(bytes));
    file.unwrap_or_else(|error| panic!("cannot make an image file: {error}"));
    run(Command::new(kind.mkfs().0).args(options).arg(image));
}

fn temp_dir() -> TempDir {
    tempfile::Builder::new()
        .prefix("offshoot-image-")
        .tempdir()
        .unwrap_or_else(|error| panic!("cannot make a temporary directory: {error}"))
}

/// Where system programs are, also for a root whose `PATH` lacks `sbin`.
fn search_path() -> std::ffi::OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}

fn has_program(name: &str) -> bool {
    std::env::split_paths(&search_path()).any(|dir| dir.join(name).is_file())
}

/// Runs a system program and returns its output.
fn try_run(command: &mut Command) -> Result<String, String> {
    let output = command
        .env("PATH", search_path())
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run(command: &mut Command) -> String {
    try_run(command).unwrap_or_else(|error| panic!("{error}"))
}

/// A clean-up that fails fails the test, except during a panic, where a second one would abort.
fn complain(outcome: Result<String, String>) {
    if let Err(error) = outcome {
        assert!(std::thread::panicking(), "{error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip;
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A frozen file system: nothing can be written to it until this is dropped.
    struct Freeze<'a> {
        point: &'a Path,
    }

    impl<'a> Freeze<'a> {
        fn new(point: &'a Path) -> Self {
            run(Command::new("fsfreeze").arg("--freeze").arg(point));
            Self { point }
        }
    }

    impl Drop for Freeze<'_> {
        fn drop(&mut self) {
            complain(try_run(
                Command::new("fsfreeze").arg("--unfreeze").arg(self.point),
            ));
        }
    }

    /// What makes a copy one of an instant. A torn copy only rarely harms a file system, so the
    /// freeze itself is tested.
    #[test]
    fn loop_a_frozen_image_does_not_change_under_load() {
        if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
            return skip(&reason);
        }
        let image = LoopImage::create_for_power_cut(FileSystem::Ext4, 32 << 20);
        let outer = image.outer.as_ref().expect("an outer file system");
        let started = AtomicBool::new(false);
        let stop = AtomicBool::new(false);
        let read_image = || fs::read(&image.image).expect("the image can be read");
        let (before, frozen, frozen_later) = std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let mut file = File::create(image.path().join("busy"))?;
                    io::Write::write_all(&mut file, b"load")?;
                    file.sync_all()?;
                    started.store(true, Ordering::SeqCst);
                }
                io::Result::Ok(())
            });
            while !started.load(Ordering::SeqCst) && !load.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let before = read_image();
            std::thread::sleep(Duration::from_millis(50));
            let freeze = Freeze::new(outer.path());
            let frozen = read_image();
            std::thread::sleep(Duration::from_millis(200));
            let frozen_later = read_image();
            drop(freeze);
            stop.store(true, Ordering::SeqCst);
            load.join()
                .expect("no panic")
                .expect("the load runs on after the freeze");
            (before, frozen, frozen_later)
        });
        assert!(before != frozen, "the load changes the image");
        assert!(frozen == frozen_later, "a frozen image changed");
    }
}
