//! Measures a scan in which nothing changed against a bare walk of the same directory.
//!
//! ```text
//! cargo run --release --example scan_bench -p offshoot-fs -- DIR [--make DIRS FILES_PER_DIR]
//! ```
//! The bare walk does what any scan must: on two threads, open each directory, read its names and
//! call `fstatat` for each. Both run alternately; the medians and their ratio are printed.
#![allow(clippy::print_stdout, reason = "a program for people")]

use std::error::Error;
use std::ffi::CString;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use offshoot_core::{EMPTY_BLOB, RelPath};
use offshoot_fs::{FileKind, Memo, NoFilter, SafeDir, scan};
use offshoot_sys::{DirReader, lstat_at};
use rustix::fs::{CWD, Mode, OFlags, openat};

const ROUNDS: usize = 21;
const THREADS: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = arguments.first() else {
        return Err("usage: scan_bench DIR [--make DIRS FILES_PER_DIR]".into());
    };
    if let [_, flag, dirs, files] = arguments.as_slice()
        && flag == "--make"
    {
        make_tree(Path::new(path), dirs.parse()?, files.parse()?)?;
    }
    let dir = SafeDir::open(path)?;
    // Times must be old enough to be trusted.
    std::thread::sleep(Duration::from_millis(100));
    let empty = Memo::empty();
    let memo = scan(&dir, &empty, &NoFilter, THREADS)?.finish(0, |_| Some(EMPTY_BLOB));
    let file = tempfile::NamedTempFile::new()?;
    let save = time(|| memo.save(file.path()))?;
    let load = time(|| {
        let loaded = Memo::load(file.path());
        if loaded.len() == memo.len() {
            Ok(())
        } else {
            Err("the memo did not survive")
        }
    })?;
    let (mut bare, mut full, mut single) = (Vec::new(), Vec::new(), Vec::new());
    let mut entries = 0;
    for _ in 0..ROUNDS {
        bare.push(time(|| {
            entries = bare_walk(Path::new(path))?;
            Ok::<_, std::io::Error>(())
        })?);
        full.push(time(|| check(&dir, &memo, THREADS))?);
        single.push(time(|| check(&dir, &memo, 1))?);
    }
    let (bare, full, single) = (median(bare), median(full), median(single));
    println!("entries              {entries}");
    println!("bare walk, 2 threads {:8.2} ms", ms(bare));
    println!("scan, 2 threads      {:8.2} ms", ms(full));
    println!("scan, 1 thread       {:8.2} ms", ms(single));
    println!(
        "scan / bare walk     {:8.3}",
        full.as_secs_f64() / bare.as_secs_f64()
    );
    println!("memo load            {:8.2} ms", ms(load));
    println!("memo save            {:8.2} ms", ms(save));
    Ok(())
}

fn check(dir: &SafeDir, memo: &Memo, threads: usize) -> Result<(), Box<dyn Error>> {
    let scan = scan(dir, memo, &NoFilter, threads)?;
    if scan.is_unchanged() {
        Ok(())
    } else {
        Err("the directory changed meanwhile".into())
    }
}

fn make_tree(root: &Path, dirs: usize, files: usize) -> Result<(), Box<dyn Error>> {
    let dir = SafeDir::open(root)?;
    for number in 0..dirs {
        let (group, below) = (number / 32, number % 32);
        let parent = RelPath::parse(format!("group{group:03}/dir{below:02}").as_bytes())?;
        dir.mkdir_all(&parent, 0o755)?;
        for file in 0..files {
            let name = root.join(format!("{}/file_{file:04}.txt", parent.to_text()));
            std::fs::write(name, format!("{number} {file}"))?;
        }
    }
    Ok(())
}

/// The least that any scan must do.
fn bare_walk(root: &Path) -> std::io::Result<usize> {
    let queue = Mutex::new((vec![CString::new(root.as_os_str().as_encoded_bytes())?], 0));
    let seen = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let walkers: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| bare_worker(&queue, &seen)))
            .collect();
        walkers
            .into_iter()
            .try_for_each(|walker| walker.join().expect("no panic"))
    })?;
    Ok(seen.into_inner())
}

fn bare_worker(queue: &Mutex<(Vec<CString>, usize)>, seen: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = DirReader::default();
    loop {
        let next = {
            let mut queue = queue.lock().expect("no panic");
            let next = queue.0.pop();
            if next.is_some() {
                queue.1 += 1;
            } else if queue.1 == 0 {
                return Ok(());
            }
            next
        };
        let Some(path) = next else {
            std::hint::spin_loop();
            continue;
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, &path, flags, Mode::empty())?;
        let mut below = Vec::new();
        let mut count = 0;
        reader.for_each(&fd, |name, _| {
            count += 1;
            if lstat_at(fd.as_fd(), name).is_ok_and(|stat| stat.kind == FileKind::Dir) {
                let full = [path.to_bytes(), b"/", name.to_bytes()].concat();
                below.extend(CString::new(full));
            }
        })?;
        seen.fetch_add(count, Ordering::Relaxed);
        let mut queue = queue.lock().expect("no panic");
        queue.0.append(&mut below);
        queue.1 -= 1;
    }
}

fn time<E>(work: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
