//! Attacks by rename: a directory is swapped with a link to outside while it is read and written.
//!
//! `OFFSHOOT_SOAK=1` runs the full counts. Each run prints one line that begins with `soak: race:`.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use offshoot_core::{ErrorCode, RelPath, Result};
use offshoot_fs::{Memo, NoFilter, PathResolver, SafeDir, Sync, Walk, scan};

const INSIDE: &[u8] = b"inside";
const SECRET: &[u8] = b"secret";

fn rel(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).unwrap()
}

/// `root/d` is a directory at one moment and a link to `outside` at the next.
struct Arena {
    root: PathBuf,
    outside: PathBuf,
    _host: tempfile::TempDir,
}

impl Arena {
    fn new() -> Arena {
        let host = tempfile::tempdir().unwrap();
        let (root, outside) = (host.path().join("root"), host.path().join("outside"));
        for dir in [&root.join("d"), &root.join("p"), &outside] {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(root.join("d/f"), INSIDE).unwrap();
        fs::write(outside.join("f"), SECRET).unwrap();
        // Bait for a removal that goes astray.
        fs::create_dir_all(outside.join("sub/x")).unwrap();
        fs::write(outside.join("sub/x/keep"), SECRET).unwrap();
        symlink("../outside", root.join("evil")).unwrap();
        // A way over `..`, which the kernel must walk again after a rename.
        symlink("../p/../d", root.join("p/over")).unwrap();
        Arena {
            root,
            outside,
            _host: host,
        }
    }

    /// Everything outside that could have been touched, as text.
    fn outside_state(&self) -> Vec<String> {
        let mut state = Vec::new();
        let mut pending = vec![self.outside.clone()];
        while let Some(path) = pending.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            let mode = meta.permissions().mode();
            let ctime = (meta.ctime(), meta.ctime_nsec());
            state.push(format!("{path:?} {mode:o} {ctime:?} {content:?}"));
            if meta.is_dir() {
                pending.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
        }
        state.sort();
        state
    }

    /// Runs `work` while another thread swaps; returns how often it did.
    fn under_attack(&self, work: impl FnOnce()) -> u64 {
        let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let dir = File::open(&self.root).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    offshoot_sys::rename_exchange(&dir, c"d", &dir, c"evil").unwrap();
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            });
            // Also when the work fails, or the swapper would never end.
            struct Stop<'a>(&'a AtomicBool);
            impl Drop for Stop<'_> {
                fn drop(&mut self) {
                    self.0.store(true, Ordering::Relaxed);
                }
            }
            let _stop = Stop(&stop);
            work();
        });
        swaps.into_inner()
    }
}

#[derive(Default)]
struct Tally {
    done: u64,
    refused: u64,
    absent: u64,
    escapes: u64,
}

impl Tally {
    fn count<T>(&mut self, answer: Result<T>) -> Option<T> {
        match answer {
            Ok(value) => {
                self.done += 1;
                Some(value)
            }
            Err(error) => {
                match error.code() {
                    ErrorCode::PathTraversalBlocked => self.refused += 1,
                    // The attacker moved it away, or moved it between two steps of the removal.
                    ErrorCode::FileNotFound
                    | ErrorCode::NotADirectory
                    | ErrorCode::IsADirectory
                    | ErrorCode::AlreadyExists => self.absent += 1,
                    // A storm of renames can outlast every retry of a lookup.
                    ErrorCode::Timeout => self.absent += 1,
                    _ => panic!("unexpected {error:?}"),
                }
                None
            }
        }
    }
}

fn read_all_ways(dir: &SafeDir, reads: u64) -> Tally {
    let mut tally = Tally::default();
    for number in 0..reads {
        match number % 8 {
            0..=3 => {
                let path = if number % 2 == 0 { "d/f" } else { "p/over/f" };
                if let Some(content) = tally.count(dir.read(&rel(path))) {
                    tally.escapes += u64::from(content != INSIDE);
                }
            }
            4 => {
                let names = tally.count(dir.list(&rel("d")));
                let bait = |name: &[u8]| name == b"sub";
                let seen = names.is_some_and(|names| names.iter().any(|e| bait(&e.name)));
                tally.escapes += u64::from(seen);
            }
            5 => {
                let stat = tally.count(dir.stat(&rel("d/sub"))).flatten();
                tally.escapes += u64::from(stat.is_some());
            }
            6 => {
                let mut seen = 0;
                let walked = dir.walk(&RelPath::root(), |path, _| {
                    seen += u64::from(path.name() == b"keep" || path.name() == b"sub");
                    Ok(Walk::Enter)
                });
                tally.count(walked);
                tally.escapes += seen;
            }
            _ => {
                let memo = Memo::empty();
                if let Some(found) = tally.count(scan(dir, &memo, &NoFilter, 1)) {
                    let strange = |path: &RelPath| path.to_text().contains("sub");
                    let seen = found.dirs.iter().any(|dir| strange(&dir.path));
                    tally.escapes += u64::from(seen);
                }
            }
        }
    }
    tally
}

fn write_all_ways(dir: &SafeDir, writes: u64) -> Tally {
    let mut tally = Tally::default();
    for number in 0..writes {
        let over = if number % 2 == 0 { "d" } else { "p/over" };
        let path = |name: &str| rel(&format!("{over}/{name}"));
        match number % 9 {
            0 => drop(tally.count(dir.write(&path("f"), INSIDE, 0o600, Sync::None))),
            1 => drop(tally.count(dir.write(&path("new"), INSIDE, 0o600, Sync::None))),
            2 => drop(tally.count(dir.symlink(&path("link"), b"f"))),
            3 => drop(tally.count(dir.mkdir_all(&path("made/deep"), 0o755))),
            4 => drop(tally.count(dir.rename(&path("new"), &path("moved"), false))),
            5 => drop(tally.count(dir.set_perm(&path("f"), 0o640))),
            6 => drop(tally.count(dir.remove_file(&path("moved")))),
            7 => drop(tally.count(dir.remove_tree(&path("made")))),
            // The bait: this exists outside and never inside.
            _ => drop(tally.count(dir.remove_tree(&path("sub")))),
        }
    }
    tally
}

/// How most programs would do it: resolve, check the prefix, open.
fn naive_read(root: &Path) -> Option<Vec<u8>> {
    let path = fs::canonicalize(root.join("d/f")).ok()?;
    path.starts_with(root)
        .then(|| fs::read(path).ok())
        .flatten()
}

fn attack(resolver: PathResolver) {
    let soak = std::env::var_os("OFFSHOOT_SOAK").is_some();
    let (reads, writes) = if soak {
        (200_000, 100_000)
    } else {
        (4_000, 2_000)
    };
    let arena = Arena::new();
    let dir = SafeDir::open_with(&arena.root, resolver).unwrap();
    let before = arena.outside_state();
    let (mut read, mut written) = (Tally::default(), Tally::default());
    let swaps = arena.under_attack(|| {
        read = read_all_ways(&dir, reads);
        written = write_all_ways(&dir, writes);
    });
    let touched = u64::from(arena.outside_state() != before);
    let escapes = read.escapes + written.escapes + touched;
    let refused = read.refused + written.refused;
    println!(
        "soak: race: resolver={resolver:?} reads={reads} writes={writes} escapes={escapes} refused={refused} \
         swaps={swaps} done={}",
        read.done + written.done
    );
    assert_eq!(escapes, 0);
    // The attack was real: the link was met, and so was the directory.
    assert!(swaps > 100, "only {swaps} swaps");
    assert!(
        read.refused > 0 && read.done > 0,
        "reads never met the link, or only the link"
    );
    assert!(
        written.refused > 0 && written.done > 0,
        "writes never met the link, or only it"
    );
}

#[test]
fn race_nothing_escapes_the_kernel_form() {
    attack(PathResolver::Kernel);
}

#[test]
fn race_nothing_escapes_the_portable_form() {
    attack(PathResolver::Portable);
}

/// Proves that the arena is dangerous: the usual way of checking does leak in it.
#[test]
fn race_checking_first_and_opening_later_escapes() {
    let arena = Arena::new();
    let root = fs::canonicalize(&arena.root).unwrap();
    let (mut tries, mut escapes) = (0u64, 0u64);
    let started = Instant::now();
    arena.under_attack(|| {
        while escapes == 0 && started.elapsed() < Duration::from_secs(30) {
            tries += 1;
            escapes += u64::from(naive_read(&root).is_some_and(|content| content == SECRET));
        }
    });
    println!("soak: race: resolver=naive tries={tries} escapes={escapes}");
    assert!(escapes > 0, "the harness has become harmless");
}

/// A tree is removed whole while another thread keeps adding to it.
#[test]
fn race_removal_ends_while_others_write() {
    for resolver in [PathResolver::Kernel, PathResolver::Portable] {
        let host = tempfile::tempdir().unwrap();
        let dir = SafeDir::open_with(host.path(), resolver).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let path = host.path().join(format!("t/a{}/b", number % 5));
                    let _ = fs::create_dir_all(&path);
                    let _ = fs::write(path.join("file"), "x");
                }
            });
            for _ in 0..50 {
                let answer = dir.remove_tree(&rel("t"));
                let code = answer.err().map(|error| error.code());
                let fine = [
                    None,
                    Some(ErrorCode::FileNotFound),
                    Some(ErrorCode::AlreadyExists),
                ];
                assert!(fine.contains(&code), "{code:?}");
            }
            stop.store(true, Ordering::Relaxed);
        });
        let _ = dir.remove_tree(&rel("t"));
        assert!(dir.list(&RelPath::root()).unwrap().is_empty());
    }
}
