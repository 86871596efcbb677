//! Files that were replaced, kept to be written over.
//!
//! Every file that replaces another one takes a new inode and frees the old one. ext4 does not use
//! an inode again for a minute after it was freed, and looks at each of those before it finds
//! another: where thousands of files are replaced in a second, that search costs more than all the
//! rest of the writes. So what was replaced is kept for a moment and becomes the next staged file.
//!
//! Nobody may see a file change that they opened before. That is made sure three times over:
//!
//! - A spare has left its place, its only name is ours, and it is written over only if the kernel
//!   says that nobody has it open.
//! - Who looked up the name before the file left and opens it after is too late to be seen so.
//!   [`SafeDir::open_file`] therefore looks again when a file has changed a moment ago.
//! - What is remembered of a file by its times stays true: a spare is left alone for longer than a
//!   tick of the clock.

use std::collections::VecDeque;
use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};

use super::SafeDir;
use super::stage::{Reused, StageName};

/// So many files are kept.
const MOST: usize = 128;
/// Larger files are not kept: the time of their content outweighs that of an inode.
const LARGEST: u64 = 32 << 10;
/// Longer than any tick of the clock, which is ten milliseconds at most.
const SETTLED: Duration = Duration::from_millis(20);

/// Replaced files in a directory of their own, the longest there first.
///
/// The directory must lie on the file system of the files to be replaced. Dropping this removes
/// what is left; what a killed process leaves has names as all staged files have.
#[derive(Debug)]
pub struct Spares {
    dir: SafeDir,
    kept: Mutex<VecDeque<Spare>>,
    /// How long a spare is left alone.
    settled: Duration,
}

#[derive(Debug)]
struct Spare {
    name: CString,
    since: Instant,
}

impl Spares {
    /// No spares yet, in this directory.
    pub fn new(dir: SafeDir) -> Spares {
        Spares {
            dir,
            kept: Mutex::default(),
            settled: SETTLED,
        }
    }

    /// How many files are kept.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn dir(&self) -> &SafeDir {
        &self.dir
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Spare>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file that may be written over.
    pub(super) fn take(&self) -> Option<(StageName, File, Reused)> {
        let name = {
            let mut kept = self.lock();
            kept.front()
                .is_some_and(|spare| spare.since.elapsed() >= self.settled)
                .then(|| kept.pop_front())
                .flatten()?
                .name
        };
        // Dropped if anything is wrong, and the file goes with it.
        let name = StageName {
            dir: self.dir.clone(),
            name,
            renamed: false,
        };
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(self.dir.root(), &name.name, flags, Mode::empty()).ok()?;
        let file = File::from(file);
        let reused = reusable(&file)?;
        Some((name, file, reused))
    }

    /// Keeps what stands at the name of a stage after it was swapped with what it replaced. False
    /// if there is no room for it, or it is no file.
    pub(super) fn keep(&self, stage: &StageName) -> bool {
        let is_file = || {
            let stat = offshoot_sys::lstat_at(self.dir.root(), &stage.name).ok()?;
            (stat.kind == offshoot_sys::FileKind::File && stat.size <= LARGEST).then_some(())
        };
        if self.len() >= MOST || is_file().is_none() {
            return false;
        }
        self.lock().push_back(Spare {
            name: stage.name.clone(),
            since: Instant::now(),
        });
        true
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        for spare in kept.drain(..) {
            let _ = unlinkat(self.dir.root(), &spare.name, AtFlags::empty());
        }
    }
}

/// What an open spare has been, if nothing else knows of it and it carries nothing but content.
fn reusable(file: &File) -> Option<Reused> {
    let stat = file.metadata().ok()?;
    // Writing over an empty file by an empty one would leave its times as they were.
    let plain = stat.is_file()
        && stat.nlink() == 1
        && stat.len() > 0
        && stat.uid() == offshoot_sys::effective_user()
        && stat.mode() & 0o7000 == 0;
    // With room for nothing, any attribute is an error.
    let bare = || matches!(rustix::fs::flistxattr(file, &mut [0_u8; 1]), Ok(0));
    (plain && bare() && offshoot_sys::is_open_only_here(file)).then(|| Reused {
        size: stat.len(),
        perm: Some(stat.mode() & 0o777),
    })
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use offshoot_core::RelPath;

    use super::*;
    use crate::Sync;

    struct Bed {
        dir: SafeDir,
        spares: Arc<Spares>,
        host: tempfile::TempDir,
    }

    fn bed() -> Bed {
        let host = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let path = host.path().join(name);
            std::fs::create_dir(&path).unwrap();
            SafeDir::open(path).unwrap()
        };
        let (dir, mut spares) = (open("files"), Spares::new(open("spares")));
        spares.settled = Duration::ZERO;
        Bed {
            dir,
            spares: Arc::new(spares),
            host,
        }
    }

    impl Bed {
        fn write(&self, path: &str, content: &[u8], perm: u32) -> u64 {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            let mut staged = SafeDir::stage_from(&self.spares, perm).unwrap();
            staged.write_all(content).unwrap();
            staged.set_replaces(true);
            let stat = self.dir.commit(staged, &path, true, Sync::None).unwrap();
            assert_eq!((stat.size, stat.perm), (content.len() as u64, perm));
            assert_eq!(self.dir.read(&path).unwrap(), content);
            stat.ino
        }

        fn left(&self) -> usize {
            std::fs::read_dir(self.host.path().join("spares"))
                .unwrap()
                .count()
        }
    }

    #[test]
    fn what_was_replaced_is_written_over_by_the_next() {
        let bed = bed();
        let first = bed.write("d/a", b"the first and longest of all", 0o644);
        let second = bed.write("d/a", b"second", 0o644);
        assert_ne!(first, second, "the old file was still in place");
        assert_eq!(bed.spares.len(), 1);
        assert_eq!(bed.write("b", b"third", 0o755), first);
        assert!(bed.spares.is_empty() && bed.left() == 0);
        assert_eq!(
            bed.dir.read(&RelPath::from_normal("d/a")).unwrap(),
            b"second"
        );
        bed.write("d/a", b"", 0o644);
        bed.write("b", b"longer than what it is written over", 0o644);
    }

    #[test]
    fn a_file_that_somebody_has_open_keeps_its_content() {
        let bed = bed();
        let path = RelPath::from_normal("a");
        let first = bed.write("a", b"first", 0o644);
        let (mut reader, _) = bed.dir.open_file(&path).unwrap();
        bed.write("a", b"second", 0o644);
        assert_ne!(bed.write("b", b"third", 0o644), first);
        let mut seen = String::new();
        reader.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "first");
        assert_eq!(bed.left(), 0, "it is of no use any more");
    }

    #[test]
    fn only_files_with_nothing_but_content_are_written_over() {
        let bed = bed();
        let host = bed.host.path().join("files/a");
        let spoil: [(&str, &dyn Fn()); 4] = [
            ("a second name", &|| {
                std::fs::hard_link(&host, bed.host.path().join("second")).unwrap();
            }),
            ("an attribute", &|| {
                let file = File::open(&host).unwrap();
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::fsetxattr(&file, "user.note", b"x", flags).unwrap();
            }),
            ("set-id bits", &|| {
                use std::os::unix::fs::PermissionsExt;
                let mode = std::fs::Permissions::from_mode(0o4755);
                std::fs::set_permissions(&host, mode).unwrap();
            }),
            ("no content", &|| std::fs::write(&host, "").unwrap()),
        ];
        for (what, spoil) in spoil {
            bed.write("a", b"first", 0o644);
            while bed.spares.take().is_some() {}
            spoil();
            bed.write("a", b"second", 0o644);
            assert_eq!(bed.spares.len(), 1, "{what}");
            assert!(bed.spares.take().is_none(), "{what}");
            assert_eq!((bed.spares.len(), bed.left()), (0, 0), "{what}");
            let _ = std::fs::remove_file(bed.host.path().join("second"));
        }
    }

    #[test]
    fn large_files_and_too_many_are_removed_and_so_is_what_is_left() {
        let bed = bed();
        bed.write("a", &vec![b'x'; LARGEST as usize + 1], 0o644);
        bed.write("a", b"small", 0o644);
        assert!(bed.spares.is_empty() && bed.left() == 0);
        // A directory is not replaced, and a link is removed.
        std::fs::create_dir(bed.host.path().join("files/dir")).unwrap();
        let mut staged = SafeDir::stage_from(&bed.spares, 0o644).unwrap();
        staged.set_replaces(true);
        let dir = RelPath::from_normal("dir");
        assert!(bed.dir.commit(staged, &dir, true, Sync::None).is_err());
        assert!(bed.host.path().join("files/dir").is_dir());
        std::os::unix::fs::symlink("nowhere", bed.host.path().join("files/link")).unwrap();
        bed.write("link", b"a file", 0o644);
        assert!(bed.spares.is_empty() && bed.left() == 0);
        // One that is gone is no harm.
        bed.write("a", b"again", 0o644);
        for entry in std::fs::read_dir(bed.host.path().join("spares")).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        bed.write("b", b"new", 0o644);
        let mut bed = bed;
        Arc::get_mut(&mut bed.spares).unwrap().settled = Duration::from_secs(3_600);
        for n in 0..MOST + 10 {
            bed.write("a", format!("number {n}").as_bytes(), 0o644);
        }
        assert_eq!((bed.spares.len(), bed.left()), (MOST, MOST));
        let Bed { spares, host, .. } = bed;
        drop(spares);
        assert_eq!(
            std::fs::read_dir(host.path().join("spares"))
                .unwrap()
                .count(),
            0
        );
    }

    /// Files say what they are and end with what they began with. Without asking who has a file
    /// open, a reader soon sees another one.
    #[test]
    fn readers_never_see_another_file_or_half_of_one() {
        let bed = bed();
        let (ended, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
        let name = |n: usize| format!("f{n}");
        let content = |n: usize, version: usize| {
            let words = format!("{} ", name(n)).repeat(1 + (version * 7) % 200);
            format!("{}:{version}:{words}:{version}", name(n))
        };
        for n in 0..4 {
            bed.write(&name(n), content(n, 0).as_bytes(), 0o644);
        }
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let (bed, ended, reads, content) = (&bed, &ended, &reads, &content);
                scope.spawn(move || {
                    let mut n = reader;
                    while !ended.load(Ordering::Relaxed) {
                        n = (n + 1) % 4;
                        let path = RelPath::parse(name(n).as_bytes()).unwrap();
                        let seen = String::from_utf8(bed.dir.read(&path).unwrap()).unwrap();
                        let version = seen.split(':').nth(1).unwrap().parse().unwrap();
                        assert_eq!(seen, content(n, version));
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let rounds = if offshoot_testkit::soak() {
                200_000
            } else {
                20_000
            };
            let mut reused = 0;
            let write = |n: usize, version: usize| {
                let path = RelPath::parse(name(n).as_bytes()).unwrap();
                let mut staged = SafeDir::stage_from(&bed.spares, 0o644).unwrap();
                staged.write_all(content(n, version).as_bytes()).unwrap();
                staged.set_replaces(true);
                bed.dir.commit(staged, &path, true, Sync::None).unwrap().ino
            };
            let mut known = std::collections::HashSet::new();
            for round in 1..=rounds {
                reused += usize::from(!known.insert(write(round % 4, round)));
            }
            ended.store(true, Ordering::Relaxed);
            assert!(reused > rounds / 10, "hardly anything was reused: {reused}");
        });
        assert!(reads.into_inner() > 1_000);
    }
}
