//! Whether a fork is mounted at another place too: by a bind mount, or in a container.
//!
//! Such a mount keeps the file system alive after the fork's own mount is gone, and an unmount does
//! not report it. Writes there would go to an upper that the fork no longer uses. So the mount
//! tables of all mount namespaces are read.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// Whether the file system that is mounted at `target` is mounted anywhere else. Costs a few calls
/// per process of the machine.
pub(super) fn is_mounted_elsewhere(target: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let device = fs::metadata(target)?.dev();
    let device = format!("{}:{}", major(device), minor(device));
    // The mount itself is the one here.
    if mounts_of(Path::new("/proc/self"), &device)? > 1 {
        return Ok(true);
    }
    let mut seen: HashSet<PathBuf> = fs::read_link("/proc/self/ns/mnt").into_iter().collect();
    for entry in fs::read_dir("/proc")?.flatten() {
        let process = entry.path();
        // A process that has ended, or that this user may not inspect, is skipped.
        let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else {
            continue;
        };
        if !seen.contains(&namespace)
            && let Ok(count) = mounts_of(&process, &device)
        {
            if count > 0 {
                return Ok(true);
            }
            seen.insert(namespace);
        }
    }
    Ok(false)
}

/// How many mounts of a device a process sees.
fn mounts_of(process: &Path, device: &str) -> io::Result<usize> {
    let table = fs::read(process.join("mountinfo"))?;
    let of_device = |line: &&[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        fields.nth(2) == Some(device.as_bytes())
    };
    Ok(table.split(|&byte| byte == b'\n').filter(of_device).count())
}
