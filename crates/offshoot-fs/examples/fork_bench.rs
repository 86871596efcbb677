//! What a fork and its changes cost, beside the bare system calls, on a journaled ext4 image.
//!
//! Run as root: `cargo run --release -p offshoot-fs --example fork_bench`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops at the first surprise"
)]

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("overlays exist on Linux only");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::os::fd::{AsFd, OwnedFd};
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    use offshoot_core::RelPath;
    use offshoot_fs::{
        CopyUp, ForkDirs, LayerWriter, OverlayProvider, OverlayXattrs, Provider, remove_layer,
    };
    use offshoot_sys::{Overlay, attach_mount, unmount_lazily};
    use offshoot_testkit::{FileSystem, LoopImage};

    const FORKS: usize = 200;
    const SCANS: usize = 300;
    const CHANGED: usize = 10;
    const MANY: usize = 1_000;

    pub(super) fn main() {
        if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
            println!("not possible here: {reason}");
            return;
        }
        let image = LoopImage::create(FileSystem::Ext4, 4 << 30);
        println!("medians in microseconds; ext4 with a journal on a loop device");
        println!(
            "{:>8} {:>10} {:>10} {:>6} {:>10} {:>10} {:>6}",
            "files", "bare fork", "fork", "ratio", "bare walk", "changes", "ratio"
        );
        for files in [1_000, 10_000, 100_000] {
            let layer = image.path().join(format!("layer-{files}"));
            write_base(&layer, files);
            let (bare, fork) = forks(image.path(), &layer);
            let (walk, changes) = scans(image.path(), &layer, files);
            println!(
                "{files:>8} {:>10.0} {:>10.0} {:>6.2} {:>10.0} {:>10.0} {:>6.2}",
                micros(bare),
                micros(fork),
                fork.as_secs_f64() / bare.as_secs_f64(),
                micros(walk),
                micros(changes),
                changes.as_secs_f64() / walk.as_secs_f64(),
            );
            if files == 10_000 {
                many_forks(image.path(), &layer);
            }
            remove_layer(&layer).unwrap();
        }
    }

    /// What each of many live forks takes, and whether the last are as quick as the first.
    fn many_forks(dir: &Path, layer: &Path) {
        let provider = OverlayProvider::new(CopyUp::WholeFile);
        let layers = [layer.to_owned()];
        let at = |what: &str, number: usize| dir.join(format!("{what}-{number}"));
        let (disk, memory) = (free_bytes(dir), slab_bytes());
        let mut times = Vec::new();
        for number in 0..MANY {
            let fork = ForkDirs::new(at("private", number), at("target", number));
            let started = Instant::now();
            provider.create(&layers, &fork).unwrap();
            times.push(started.elapsed());
        }
        let kib_each = |bytes: u64| bytes as f64 / 1024.0 / MANY as f64;
        println!(
            "{MANY} live forks: {:.0} KiB of disk and {:.0} KiB of kernel memory each; \
             the last hundred took {:.0}",
            kib_each(disk.saturating_sub(free_bytes(dir))),
            kib_each(slab_bytes().saturating_sub(memory)),
            micros(median(times.split_off(MANY - 100))),
        );
        for number in 0..MANY {
            let fork = ForkDirs::new(at("private", number), at("target", number));
            provider.cleanup(&fork).unwrap();
        }
    }

    fn free_bytes(dir: &Path) -> u64 {
        let answer = rustix::fs::statvfs(dir).unwrap();
        answer.f_bfree * answer.f_frsize
    }

    fn slab_bytes() -> u64 {
        let text = fs::read_to_string("/proc/meminfo").unwrap();
        let line = text.lines().find(|line| line.starts_with("Slab:")).unwrap();
        let kib = line.split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() * 1024
    }

    fn micros(time: Duration) -> f64 {
        time.as_secs_f64() * 1e6
    }

    fn file_path(number: usize) -> RelPath {
        let path = format!("d{}/e{}/f{number}", number / 1000, number / 20);
        RelPath::parse(path.as_bytes()).unwrap()
    }

    fn write_base(layer: &Path, files: usize) {
        let mut writer = LayerWriter::new(layer).unwrap();
        for number in 0..files {
            let content = format!("file {number}\n");
            writer
                .file(&file_path(number), 0o644, &mut content.as_bytes())
                .unwrap();
        }
        writer.finish().unwrap();
    }

    fn median(mut times: Vec<Duration>) -> Duration {
        times.sort();
        times[times.len() / 2]
    }

    /// Both kinds of fork in turn, so that they meet the same weather.
    fn forks(dir: &Path, layer: &Path) -> (Duration, Duration) {
        let provider = OverlayProvider::new(CopyUp::WholeFile);
        let layers = [layer.to_owned()];
        let (mut bare_times, mut times) = (Vec::new(), Vec::new());
        for number in 0..FORKS {
            let place = dir.join(format!("bare-{number}"));
            let started = Instant::now();
            let target = bare_fork(&place, layer);
            bare_times.push(started.elapsed());
            unmount_lazily(&target).unwrap();
            fs::remove_dir_all(&place).unwrap();

            let at = |what: &str| dir.join(format!("{what}-{number}"));
            let fork = ForkDirs::new(at("private"), at("target"));
            let started = Instant::now();
            provider.create(&layers, &fork).unwrap();
            times.push(started.elapsed());
            provider.cleanup(&fork).unwrap();
        }
        (median(bare_times), median(times))
    }

    /// Four directories and a mount: what no fork can do without.
    fn bare_fork(place: &Path, layer: &Path) -> PathBuf {
        let open = |path: &Path| OwnedFd::from(fs::File::open(path).unwrap());
        let at = |what: &str| place.join(what);
        fs::create_dir(place).unwrap();
        for name in ["upper", "work", "target"] {
            fs::create_dir(at(name)).unwrap();
        }
        let (layer, upper, work) = (open(layer), open(&at("upper")), open(&at("work")));
        let overlay = Overlay {
            lowers: &[layer.as_fd()],
            upper: upper.as_fd(),
            work: work.as_fd(),
            xattrs: OverlayXattrs::Trusted,
            redirect_dir: true,
        };
        let target = at("target");
        attach_mount(overlay.mount().unwrap(), open(&target)).unwrap();
        target
    }

    fn scans(dir: &Path, layer: &Path, files: usize) -> (Duration, Duration) {
        let provider = OverlayProvider::new(CopyUp::WholeFile);
        let layers = [layer.to_owned()];
        let fork = ForkDirs::new(dir.join("private"), dir.join("target"));
        provider.create(&layers, &fork).unwrap();
        for number in 0..CHANGED {
            let path = file_path(number * (files / CHANGED)).to_text();
            fs::write(fork.target.join(path), "changed").unwrap();
        }
        let (mut walks, mut times) = (Vec::new(), Vec::new());
        for _ in 0..SCANS {
            let started = Instant::now();
            let seen = bare_walk(&fork.upper());
            walks.push(started.elapsed());
            assert!(seen > CHANGED);
            let started = Instant::now();
            let found = provider.changes(&layers, &fork).unwrap();
            times.push(started.elapsed());
            assert_eq!(found.len(), CHANGED);
        }
        provider.cleanup(&fork).unwrap();
        (median(walks), median(times))
    }

    /// Reads every directory and looks at every name, as any walk must.
    fn bare_walk(dir: &Path) -> usize {
        let mut seen = 0;
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            seen += 1;
            if entry.metadata().unwrap().is_dir() {
                seen += bare_walk(&entry.path());
            }
        }
        seen
    }
}
