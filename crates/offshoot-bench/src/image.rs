//! A journaled ext4 image to measure on, made and removed by the benchmark.

use std::path::{Path, PathBuf};
use std::process::Command;

use offshoot_core::{Error, ErrorCode, Result};

/// The directory in which the benchmark works.
pub(crate) struct BenchDir {
    dir: PathBuf,
    /// The directory that holds image and mount point; none if the caller gave a place.
    own: Option<PathBuf>,
}

impl BenchDir {
    /// Makes an image large enough for trees of so many files, or takes the given directory.
    pub(crate) fn make(dir: Option<&Path>, most_files: Option<usize>) -> Result<BenchDir> {
        if let Some(dir) = dir {
            std::fs::create_dir_all(dir).map_err(|cause| failed("make the directory", cause))?;
            return Ok(BenchDir {
                dir: dir.to_owned(),
                own: None,
            });
        }
        let name = format!("offshoot-bench-{}", std::process::id());
        let own = std::env::temp_dir().join(name);
        let mount = own.join("mnt");
        std::fs::create_dir_all(&mount).map_err(|cause| failed("make a directory", cause))?;
        let mut place = BenchDir {
            dir: mount.clone(),
            own: Some(own.clone()),
        };
        let image = own.join("ext4.img");
        let gib = 6 + 40 * most_files.unwrap_or(0) as u64 / 100_000;
        let made = std::fs::File::create(&image).and_then(|file| file.set_len(gib << 30));
        made.map_err(|cause| failed("make an image", cause))?;
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-O", "has_journal"])
            .arg(&image))?;
        if let Err(error) = run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(&image)
            .arg(&mount))
        {
            place.own = None;
            let _ = std::fs::remove_dir_all(&own);
            return Err(error);
        }
        Ok(place)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// One line on where and on what the figures were measured.
    pub(crate) fn describe(&self) -> String {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let kernel = read("/proc/sys/kernel/osrelease");
        let load = read("/proc/loadavg");
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let place = if self.own.is_some() {
            "a journaled ext4 loop image"
        } else {
            "the given directory"
        };
        format!(
            "Measured on {place}, {cores} cores, Linux {}, load {} at the start.",
            kernel.trim(),
            load.split(' ').next().unwrap_or_default()
        )
    }
}

impl Drop for BenchDir {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            let unmounted = run(Command::new("umount").arg(&self.dir)).is_ok();
            if unmounted {
                let _ = std::fs::remove_dir_all(own);
            }
        }
    }
}

/// An XFS image whose files can share their content; taken away when it is dropped.
pub(crate) struct XfsImage {
    own: PathBuf,
}

impl XfsImage {
    /// Large enough for two trees of so many files.
    pub(crate) fn make(files: usize) -> Result<XfsImage> {
        let name = format!("offshoot-bench-xfs-{}", std::process::id());
        let image = XfsImage {
            own: std::env::temp_dir().join(name),
        };
        std::fs::create_dir_all(image.dir()).map_err(|cause| failed("make a directory", cause))?;
        let file = image.own.join("xfs.img");
        let gib = 1 + 4 * files as u64 / 100_000;
        let made = std::fs::File::create(&file).and_then(|file| file.set_len(gib << 30));
        made.map_err(|cause| failed("make an image", cause))?;
        run(Command::new("mkfs.xfs")
            .args(["-q", "-m", "reflink=1"])
            .arg(&file))?;
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(&file)
            .arg(image.dir()))?;
        Ok(image)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.own.join("mnt")
    }
}

impl Drop for XfsImage {
    fn drop(&mut self) {
        // If nothing is mounted there is nothing to end, and the directory is empty.
        let _ = run(Command::new("umount").arg(self.dir()));
        if std::fs::read_dir(self.dir()).is_ok_and(|mut names| names.next().is_none()) {
            let _ = std::fs::remove_dir_all(&self.own);
        }
    }
}

/// Lets everything that was written before reach the disk, so that no sync later waits for it.
pub(crate) fn sync_disk(dir: &Path) -> Result<()> {
    std::fs::File::open(dir)
        .and_then(offshoot_sys::syncfs)
        .map_err(|cause| failed("sync the file system", cause))
}

/// Runs a command to its end; what it printed becomes the cause of the error.
pub(crate) fn run(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|cause| {
        Error::new(ErrorCode::Unsupported, format!("`{program}` cannot be run"))
            .with_hint("the benchmark needs root, e2fsprogs, mount and git; or give a `--dir`")
            .with_source(cause)
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Error::new(
        ErrorCode::Unsupported,
        format!("`{program}` failed: {}", output.status),
    )
    .with_hint("the benchmark needs root, e2fsprogs, mount and git; or give a `--dir`")
    .with_source(String::from_utf8_lossy(&output.stderr).into_owned()))
}

pub(crate) fn failed(what: &str, cause: std::io::Error) -> Error {
    Error::new(
        ErrorCode::WriteFailed,
        format!("the benchmark could not {what}"),
    )
    .with_source(cause)
}
