//! Which processes still use a directory, so that it is not removed under them.
//!
//! Files are identified by device and inode, not by path: a container shows the same files under
//! other names, and a directory may be renamed while a process works in it. Processes that this
//! user may not inspect are not found.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use offshoot_core::{RelPath, Result};

use crate::provider::failed;
use crate::{SafeDir, Walk};

/// What counts as using a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseKind {
    /// Every open file, and every process that works in it.
    Any,
    /// Only what can still change it: files open for writing, open directories and processes in it.
    Write,
}

/// The files and directories that the other processes of this machine use.
pub struct ProcessUsage {
    /// Files and directories by device and inode, each with a text that names a process and its
    /// use.
    held: HashMap<(u64, u64), String>,
    /// The mount tables of all mount namespaces.
    mounts: Vec<Mount>,
}

/// Describes a process that uses a directory which is no mount; none if there is none. Costs as
/// [`ProcessUsage::collect`] and [`ProcessUsage::process_using`].
pub fn find_process_using(dir: &Path, uses: UseKind) -> Result<Option<String>> {
    ProcessUsage::collect(uses).process_using(dir)
}

impl ProcessUsage {
    /// Inspects every process. Costs a call for every open file of the machine.
    pub fn collect(uses: UseKind) -> ProcessUsage {
        let mut seen = ProcessUsage {
            held: HashMap::new(),
            mounts: Vec::new(),
        };
        let own = std::process::id().to_string();
        let mut namespaces: HashSet<PathBuf> = HashSet::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_process = |name: &&str| name.bytes().all(|byte| byte.is_ascii_digit());
            let Some(pid) = name.to_str().filter(is_process) else {
                continue;
            };
            let process = entry.path();
            // A process that ends meanwhile uses nothing.
            if let Ok(namespace) = fs::read_link(process.join("ns/mnt"))
                && namespaces.insert(namespace)
            {
                seen.mounts.extend(mounts(&process).unwrap_or_default());
            }
            if pid != own {
                seen.add_process(&process, pid, uses);
            }
        }
        seen
    }

    /// Describes a process that uses a directory or anything in it. Costs a walk of the directory.
    pub fn process_using(&self, dir: &Path) -> Result<Option<String>> {
        let cannot_look = |error| failed("the users of the workspace cannot be found", error);
        let dir = fs::canonicalize(dir).map_err(cannot_look)?;
        let top = fs::metadata(&dir).map_err(cannot_look)?;
        let place = Place::of(&dir, top.dev());
        if self.mounts.iter().any(|mount| place.is_shown_by(mount)) {
            return Ok(Some("it is mounted elsewhere, or holds a mount".to_owned()));
        }
        let mut user = self.held.get(&(top.dev(), top.ino()));
        SafeDir::open(&dir)?.walk(&RelPath::root(), |_, stat| {
            user = user.or_else(|| self.held.get(&(stat.dev, stat.ino)));
            Ok(if user.is_some() {
                Walk::Stop
            } else {
                Walk::Enter
            })
        })?;
        Ok(user.cloned())
    }

    /// Adds what one process uses.
    fn add_process(&mut self, process: &Path, pid: &str, uses: UseKind) {
        let mut found: Vec<((u64, u64), &str)> = Vec::new();
        let stat_of = |path: &Path| {
            let stat = fs::metadata(path).ok()?;
            Some(((stat.dev(), stat.ino()), stat.file_type()))
        };
        for place in ["cwd", "root"] {
            let stat = stat_of(&process.join(place));
            found.extend(stat.map(|(inode, _)| (inode, "works in it")));
        }
        for fd in fs::read_dir(process.join("fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            match stat_of(&fd.path()) {
                Some((inode, kind)) if kind.is_dir() => {
                    found.push((inode, "has a directory of it open"));
                }
                Some((inode, kind))
                    if kind.is_file()
                        && (uses == UseKind::Any || is_writable(process, &fd.file_name())) =>
                {
                    found.push((inode, "has a file of it open"));
                }
                _ => {}
            }
        }
        let maps = fs::read(process.join("maps")).unwrap_or_default();
        let lines = maps.split(|&byte| byte == b'\n');
        let mapped = lines.filter_map(|line| mapping(std::str::from_utf8(line).ok()?, uses));
        found.extend(mapped.map(|inode| (inode, "has a file of it in its memory")));
        if found.is_empty() {
            return;
        }
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        for (inode, how) in found {
            let said = || format!("process {pid} (`{}`) {how}", name.trim_end());
            self.held.entry(inode).or_insert_with(said);
        }
    }
}

/// Whether an open file takes writes.
fn is_writable(process: &Path, fd: &std::ffi::OsStr) -> bool {
    let info = fs::read_to_string(process.join("fdinfo").join(fd)).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    // The two lowest bits are the mode; when in doubt, it does.
    flags.is_none_or(|flags| flags & 0o3 != 0)
}

/// The file that a line like `7f…-7f… rw-s 00000000 08:01 1234 /path` is about, if it counts.
fn mapping(line: &str, uses: UseKind) -> Option<(u64, u64)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (bits, _, device, inode) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    let changes = bits.contains('w') && bits.contains('s');
    let inode: u64 = inode.parse().ok().filter(|inode| *inode != 0)?;
    if !changes && uses != UseKind::Any {
        return None;
    }
    let (major, minor) = device.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some((rustix::fs::makedev(number(major)?, number(minor)?), inode))
}

/// Where a directory is, for the eyes of a mount table.
struct Place {
    /// Here.
    path: PathBuf,
    /// Which file system, and where in it.
    in_file_system: Option<(String, PathBuf)>,
}

impl Place {
    fn of(dir: &Path, device: u64) -> Place {
        let device = format!(
            "{}:{}",
            rustix::fs::major(device),
            rustix::fs::minor(device)
        );
        let around = mounts(Path::new("/proc/self"))
            .unwrap_or_default()
            .into_iter()
            .filter(|mount| mount.device == device && dir.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.as_os_str().len());
        let below = around.and_then(|mount| {
            let rest = dir.strip_prefix(&mount.point).ok()?;
            Some((device, mount.root.join(rest)))
        });
        Place {
            path: dir.to_owned(),
            in_file_system: below,
        }
    }

    /// Whether a mount shows the directory, or a part of it, or stands in it.
    fn is_shown_by(&self, mount: &Mount) -> bool {
        let of_it = self
            .in_file_system
            .as_ref()
            .is_some_and(|(device, path)| mount.device == *device && mount.root.starts_with(path));
        of_it || mount.point.starts_with(&self.path)
    }
}

/// Where something is mounted below a directory, whose path must be absolute and hold no link. The
/// deepest come first, so that they can be unmounted one after the other.
pub fn mounts_below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let is_below = |point: &PathBuf| point != dir && point.starts_with(dir);
    let points = mounts(Path::new("/proc/self"))?.into_iter();
    let mut found: Vec<PathBuf> = points.map(|mount| mount.point).filter(is_below).collect();
    found.sort();
    found.reverse();
    Ok(found)
}

/// One line of a mount table.
struct Mount {
    device: String,
    /// Which part of the file system it shows.
    root: PathBuf,
    /// Where.
    point: PathBuf,
}

fn mounts(process: &Path) -> io::Result<Vec<Mount>> {
    let table = fs::read(process.join("mountinfo"))?;
    let mount = |line: &[u8]| {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        Some(Mount {
            device: String::from_utf8(fields.get(2)?.to_vec()).ok()?,
            root: unescape(fields.get(3)?),
            point: unescape(fields.get(4)?),
        })
    };
    Ok(table
        .split(|&byte| byte == b'\n')
        .filter_map(mount)
        .collect())
}

/// The kernel writes blanks, tabs, line ends and backslashes as `\` and three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let escaped = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match escaped {
            Some(escaped) => {
                plain.push(escaped);
                rest = &after[3..];
            }
            None => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    std::ffi::OsString::from_vec(plain).into()
}
