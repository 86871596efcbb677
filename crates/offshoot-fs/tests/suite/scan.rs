//! What a scan finds, and what it must never overlook.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use offshoot_core::{EntryKind, ErrorCode, FaultPlan, RelPath};
use offshoot_fs::{
    DirNames, DirState, Memo, NoFilter, RACY_WINDOW, Refusal, SafeDir, Scan, ScanEntry, ScanFilter,
    Special, Sync, scan,
};

use crate::common::{id_of, rel};

struct Fixture {
    dir: SafeDir,
    root: PathBuf,
    _host: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        let host = tempfile::tempdir().unwrap();
        let root = host.path().join("root");
        fs::create_dir(&root).unwrap();
        Fixture {
            dir: SafeDir::open(&root).unwrap(),
            root,
            _host: host,
        }
    }

    fn put(&self, path: &str, content: &str) {
        self.dir
            .write(&rel(path), content.as_bytes(), 0o644, Sync::None)
            .unwrap();
    }

    /// Scans and hashes what must be hashed, after the files have become old enough.
    fn memo(&self) -> Memo {
        std::thread::sleep(RACY_WINDOW * 2);
        self.scan(&Memo::empty())
            .finish(7, |path| Some(id_of(&self.dir, path)))
    }

    fn scan<'memo>(&self, memo: &'memo Memo) -> Scan<'memo> {
        scan(&self.dir, memo, &NoFilter, 2).unwrap()
    }
}

fn unknown(scan: &Scan<'_>) -> Vec<String> {
    scan.unknown
        .iter()
        .map(|seen| seen.path.to_text())
        .collect()
}

fn missing(scan: &Scan<'_>) -> Vec<String> {
    scan.missing.iter().map(RelPath::to_text).collect()
}

#[test]
fn a_first_scan_finds_everything() {
    let fixture = Fixture::new();
    fixture.put("b", "1");
    fixture.put("a/x", "22");
    fixture.put("a/deep/y", "333");
    fs::create_dir(fixture.root.join("empty")).unwrap();
    symlink("b", fixture.root.join("link")).unwrap();
    let _staged = fixture.dir.stage(0o644).unwrap();
    let memo = Memo::empty();
    let scan = fixture.scan(&memo);
    assert_eq!(unknown(&scan), ["a/deep/y", "a/x", "b", "link"]);
    assert!(scan.missing.is_empty() && !scan.is_unchanged());
    let dirs: Vec<_> = scan
        .dirs
        .iter()
        .map(|d| (d.path.to_text(), d.empty, d.state))
        .collect();
    assert_eq!(
        dirs,
        [
            ("a".to_owned(), false, DirState::New),
            ("a/deep".to_owned(), false, DirState::New),
            ("empty".to_owned(), true, DirState::New),
        ]
    );
    let counts = scan.counts;
    assert_eq!(
        (counts.files, counts.symlinks, counts.dirs, counts.bytes),
        (3, 1, 3, 6)
    );
}

#[test]
fn an_unchanged_directory_needs_no_hash() {
    let fixture = Fixture::new();
    for path in ["a", "b/c", "b/d/e"] {
        fixture.put(path, path);
    }
    symlink("a", fixture.root.join("link")).unwrap();
    let memo = fixture.memo();
    assert_eq!((memo.len(), memo.tag()), (6, 7));
    let again = fixture.scan(&memo);
    assert!(again.is_unchanged(), "{again:?}");
    // Its memo is as good as the first.
    let next = again.finish(8, |path| panic!("`{path}` was known"));
    assert_eq!(
        next.iter().collect::<Vec<_>>(),
        memo.iter().collect::<Vec<_>>()
    );
    assert_eq!(next.tag(), 8);
    assert!(fixture.scan(&next).is_unchanged());
}

#[test]
fn every_kind_of_change_is_found() {
    let fixture = Fixture::new();
    for path in [
        "content",
        "mode",
        "gone",
        "dir/inner",
        "dir/gone",
        "dir-2/x",
        "file-to-dir",
    ] {
        fixture.put(path, path);
    }
    fixture.put("tree/deep/er/file", "x");
    fixture.put("tree-like/file", "x");
    fixture.put("dir-to-file/a/b", "x");
    symlink("old", fixture.root.join("link")).unwrap();
    let memo = fixture.memo();
    fixture.put("content", "CONTENT");
    fixture.dir.set_perm(&rel("mode"), 0o755).unwrap();
    fs::remove_file(fixture.root.join("gone")).unwrap();
    fs::remove_file(fixture.root.join("dir/gone")).unwrap();
    fixture.put("dir/new", "new");
    fixture.put("new-dir/file", "new");
    fixture.dir.symlink(&rel("link"), b"new").unwrap();
    fixture.dir.remove_tree(&rel("tree")).unwrap();
    fixture.dir.set_perm(&rel("dir-2"), 0o700).unwrap();
    fixture.dir.remove_file(&rel("file-to-dir")).unwrap();
    fixture.put("file-to-dir/now", "x");
    fixture.dir.remove_tree(&rel("dir-to-file")).unwrap();
    fixture.put("dir-to-file", "now");
    let scan = fixture.scan(&memo);
    assert_eq!(
        unknown(&scan),
        [
            "content",
            "dir-to-file",
            "dir/new",
            "file-to-dir/now",
            "link",
            "mode",
            "new-dir/file"
        ]
    );
    assert_eq!(
        missing(&scan),
        [
            "dir-to-file",
            "dir-to-file/a",
            "dir-to-file/a/b",
            "dir/gone",
            "file-to-dir",
            "gone",
            "tree",
            "tree/deep",
            "tree/deep/er",
            "tree/deep/er/file",
        ]
    );
    let state = |path: &str| {
        scan.dirs
            .iter()
            .find(|d| d.path == rel(path))
            .map(|d| d.state)
    };
    assert_eq!(state("dir"), Some(DirState::Known));
    assert_eq!(state("dir-2"), Some(DirState::PermChanged));
    assert_eq!(state("new-dir"), Some(DirState::New));
    assert_eq!(state("file-to-dir"), Some(DirState::New));
    assert_eq!(state("tree"), None);
    std::thread::sleep(RACY_WINDOW * 2);
    let next = scan.finish(0, |path| Some(id_of(&fixture.dir, path)));
    let mut racy: Vec<_> = next
        .iter()
        .filter(|(_, entry)| entry.racy)
        .map(|(path, _)| path.to_text())
        .collect();
    racy.sort();
    let after = fixture.scan(&next);
    assert!(after.missing.is_empty());
    assert_eq!(unknown(&after), racy);
    let settled = after.finish(0, |path| Some(id_of(&fixture.dir, path)));
    assert!(fixture.scan(&settled).is_unchanged());
}

/// The memo always tells the truth about the content, whatever happens in whichever tick.
#[test]
fn a_change_within_the_same_tick_is_found() {
    let fixture = Fixture::new();
    let path = fixture.root.join("f");
    let mut hidden = 0;
    for round in 0..200 {
        // In place, same size, same inode: only the times could tell.
        fs::write(&path, format!("{round:04}a")).unwrap();
        let memo = Memo::empty();
        let before = fixture.dir.stat(&rel("f")).unwrap().unwrap();
        let memo = fixture
            .scan(&memo)
            .finish(0, |path| Some(id_of(&fixture.dir, path)));
        fs::write(&path, format!("{round:04}b")).unwrap();
        let after = fixture.dir.stat(&rel("f")).unwrap().unwrap();
        let same_tick = (before.mtime_ns, before.ctime_ns) == (after.mtime_ns, after.ctime_ns);
        hidden += usize::from(same_tick);
        let found = !fixture.scan(&memo).unknown.is_empty();
        assert!(found, "round {round} (same tick: {same_tick})");
    }
    println!("racy: rounds=200 changes-within-one-tick={hidden} found=200");
}

/// Where the kernel's clock is too fine for the test above to hit a tick, times that lie in the
/// window must be distrusted all the same.
#[test]
fn young_and_future_times_are_never_trusted() {
    let fixture = Fixture::new();
    fixture.put("old", "x");
    fixture.put("future", "x");
    let file = fs::File::options()
        .write(true)
        .open(fixture.root.join("future"))
        .unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(3_600))
        .unwrap();
    std::thread::sleep(RACY_WINDOW * 2);
    fixture.put("young", "x");
    let memo = Memo::empty();
    let memo = fixture
        .scan(&memo)
        .finish(0, |path| Some(id_of(&fixture.dir, path)));
    let racy = |path: &str| memo.get(&rel(path)).unwrap().racy;
    assert!(!racy("old") && racy("young") && racy("future"));
    assert_eq!(unknown(&fixture.scan(&memo)), ["future", "young"]);
}

#[test]
fn what_was_not_hashed_stays_unknown() {
    let fixture = Fixture::new();
    fixture.put("a", "x");
    fixture.put("d/b", "x");
    std::thread::sleep(RACY_WINDOW * 2);
    let empty = Memo::empty();
    let memo = fixture.scan(&empty).finish(0, |path| {
        (path.to_text() == "a").then(|| id_of(&fixture.dir, path))
    });
    assert_eq!(unknown(&fixture.scan(&memo)), ["d/b"]);
}

#[test]
fn special_files_are_reported_and_skipped() {
    let fixture = Fixture::new();
    fixture.put("d/file", "x");
    let memo = fixture.memo();
    fixture.dir.remove_file(&rel("d/file")).unwrap();
    let fifo = fixture.root.join("d/file");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(fifo)
            .status()
            .unwrap()
            .success()
    );
    let _socket = std::os::unix::net::UnixListener::bind(fixture.root.join("s")).unwrap();
    let scan = fixture.scan(&memo);
    assert_eq!(
        scan.refused,
        [
            (rel("d/file"), Refusal::Special(Special::Fifo)),
            (rel("s"), Refusal::Special(Special::Socket))
        ]
    );
    assert_eq!(
        (unknown(&scan), missing(&scan)),
        (vec![], vec!["d/file".to_owned()])
    );
    let next = scan.finish(0, |_| None);
    assert_eq!(fixture.scan(&next).refused.len(), 2);
}

/// An agent's `chmod` must not break every later scan, nor make its files look deleted.
#[test]
fn unreadable_directories_are_reported_and_nothing_in_them_is_missing() {
    let fixture = Fixture::new();
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        println!("skipped: root reads everything (skipped=1)");
        return;
    }
    for path in ["closed/a/b", "no-entry/c", "open"] {
        fixture.put(path, "x");
    }
    let memo = fixture.memo();
    fixture.dir.set_perm(&rel("closed"), 0o000).unwrap();
    fixture.dir.set_perm(&rel("no-entry"), 0o444).unwrap();
    let scan = fixture.scan(&memo);
    assert_eq!(
        scan.refused,
        [
            (rel("closed"), Refusal::Unreadable),
            (rel("no-entry/c"), Refusal::Unreadable)
        ]
    );
    assert!(scan.missing.is_empty() && scan.unknown.is_empty());
    for path in ["closed", "no-entry"] {
        fixture.dir.set_perm(&rel(path), 0o755).unwrap();
    }
    assert!(fixture.scan(&memo).is_unchanged());
}

/// Ignores names listed in `.ignore` files, in the directory of the file and below.
struct Rules {
    dir: SafeDir,
    entered: std::sync::Mutex<Vec<String>>,
}

impl ScanFilter for Rules {
    type Context = Vec<Vec<u8>>;

    fn root(&self) -> Self::Context {
        vec![b".ignore".to_vec()]
    }

    fn enter(
        &self,
        context: &Self::Context,
        path: &RelPath,
        names: &DirNames<'_>,
    ) -> Option<Self::Context> {
        self.entered.lock().unwrap().push(path.to_text());
        if !names.contains(b".ignore") {
            return None;
        }
        assert!(names.iter().any(|name| name == b".ignore"));
        let rules = self.dir.read(&path.join_name(b".ignore")).unwrap();
        let own = rules.split(|&byte| byte == b'\n').map(<[u8]>::to_vec);
        Some(context.iter().cloned().chain(own).collect())
    }

    fn skip(&self, context: &Self::Context, entry: &ScanEntry<'_>) -> bool {
        assert!(entry.path.ends_with(entry.name));
        let is_dir = entry.kind == EntryKind::Dir;
        context.iter().any(|rule| match rule.strip_suffix(b"/") {
            Some(rule) => is_dir && rule == entry.name,
            None => rule == entry.name,
        })
    }
}

#[test]
fn filters_prune_and_inherit() {
    let fixture = Fixture::new();
    for path in [
        "keep",
        "node_modules/a/b",
        "sub/node_modules/c",
        "sub/log",
        "sub/x/log",
        "log",
    ] {
        fixture.put(path, "x");
    }
    fixture.put(".ignore", "node_modules/");
    fixture.put("sub/.ignore", "log");
    fixture.put("sub/x/node_modules", "a file of that name is no directory");
    let rules = Rules {
        dir: fixture.dir.clone(),
        entered: std::sync::Mutex::default(),
    };
    std::thread::sleep(RACY_WINDOW * 2);
    let empty = Memo::empty();
    let first = scan(&fixture.dir, &empty, &rules, 2).unwrap();
    assert_eq!(unknown(&first), ["keep", "log", "sub/x/node_modules"]);
    let ignored: Vec<_> = first.ignored.iter().map(RelPath::to_text).collect();
    assert_eq!(
        ignored,
        [
            ".ignore",
            "node_modules",
            "sub/.ignore",
            "sub/log",
            "sub/node_modules",
            "sub/x/log"
        ]
    );
    let mut entered = rules.entered.lock().unwrap().clone();
    entered.sort();
    assert_eq!(
        entered,
        ["", "sub", "sub/x"],
        "ignored directories are not walked"
    );
    let memo = first.finish(0, |path| Some(id_of(&fixture.dir, path)));
    assert!(scan(&fixture.dir, &memo, &rules, 1).unwrap().is_unchanged());
    // A new rule leaves known paths out without calling them missing.
    fixture.put(".ignore", "node_modules/\nlog");
    let after = scan(&fixture.dir, &memo, &rules, 2).unwrap();
    assert!(after.missing.is_empty() && after.unknown.is_empty());
    assert!(after.ignored.contains(&rel("log")) && !after.is_unchanged());
    let next = after.finish(0, |_| None);
    assert_eq!(next.get(&rel("log")), None);
    assert!(next.get(&rel("keep")).is_some());
}

#[test]
fn memos_survive_the_disk_and_damage_makes_them_empty() {
    let fixture = Fixture::new();
    for number in 0..50 {
        fixture.put(&format!("d{}/f{number}", number % 7), "x");
    }
    let path = RelPath::parse(b"\xff\n/\xfe").unwrap();
    fixture
        .dir
        .write(&path, b"bytes", 0o600, Sync::None)
        .unwrap();
    let memo = fixture.memo();
    let file = fixture.root.parent().unwrap().join("memo");
    memo.save(&file).unwrap();
    let loaded = Memo::load(&file);
    assert_eq!(
        loaded.iter().collect::<Vec<_>>(),
        memo.iter().collect::<Vec<_>>()
    );
    assert_eq!(
        (loaded.tag(), loaded.scanned_at()),
        (memo.tag(), memo.scanned_at())
    );
    assert!(fixture.scan(&loaded).is_unchanged());
    let entry = loaded.get(&path).unwrap();
    assert_eq!(
        (entry.kind, entry.perm, entry.size),
        (EntryKind::File, 0o600, 5)
    );
    assert_eq!(entry.id, Some(id_of(&fixture.dir, &path)));
    assert_eq!(loaded.get(&rel("d0/none")), None);

    let good = fs::read(&file).unwrap();
    let damaged = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        Memo::load(&file).is_empty()
    };
    assert!(!damaged(&good));
    assert!(damaged(b"") && damaged(&good[..good.len() - 1]) && damaged(&good[..40]));
    for at in (0..good.len()).step_by(13) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(damaged(&bad), "byte {at}");
    }
    fs::remove_file(&file).unwrap();
    assert!(Memo::load(&file).is_empty());
    let left: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing but the workspace is left: {left:?}");
}

#[test]
fn faults_fail_the_scan_and_nothing_hangs() {
    let fixture = Fixture::new();
    for number in 0..20 {
        fixture.put(&format!("d{number}/f"), "x");
    }
    let plan = FaultPlan::default();
    let dir = fixture.dir.clone().with_faults(plan.clone());
    let memo = Memo::empty();
    for n in 1.. {
        plan.arm(n);
        let answer = scan(&dir, &memo, &NoFilter, 2);
        if !plan.disarm() {
            answer.unwrap();
            assert!(n > 40, "two calls for each of 21 directories");
            break;
        }
        assert_eq!(answer.unwrap_err().code(), ErrorCode::ReadFailed);
    }
}

#[test]
fn a_panic_in_a_filter_does_not_hang_the_scan() {
    struct Panics;
    impl ScanFilter for Panics {
        type Context = ();
        fn root(&self) {}
        fn skip(&self, _context: &(), entry: &ScanEntry<'_>) -> bool {
            assert_ne!(entry.name, b"bad", "on purpose");
            false
        }
    }
    let fixture = Fixture::new();
    fixture.put("a/b/bad", "x");
    fixture.put("c/d/good", "x");
    let memo = Memo::empty();
    let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        scan(&fixture.dir, &memo, &Panics, 2).map(drop)
    }));
    assert!(answer.is_err());
}

#[test]
fn paths_beyond_the_limit_are_refused() {
    let fixture = Fixture::new();
    let deep = rel(&vec!["d".repeat(255); 15].join("/"));
    fixture.dir.mkdir_all(&deep, 0o755).unwrap();
    fixture.put("x/y", "moved below");
    fixture
        .dir
        .rename(&rel("x"), &deep.join_name(b"x"), false)
        .unwrap();
    let long = "n".repeat(255);
    fixture.put(&long, "just fits");
    fixture
        .dir
        .rename(&rel(&long), &deep.join_name(long.as_bytes()), false)
        .unwrap();
    // One more level by moving the whole tree down.
    fixture.dir.mkdir_all(&rel("top"), 0o755).unwrap();
    fixture
        .dir
        .rename(&rel(&"d".repeat(255)), &rel("top/d"), false)
        .unwrap();
    let memo = Memo::empty();
    let before = fixture.scan(&memo);
    assert!(before.refused.is_empty() && before.unknown.len() == 2);
    let name = "t".repeat(254);
    fixture.dir.rename(&rel("top"), &rel(&name), false).unwrap();
    let after = fixture.scan(&memo);
    assert_eq!(after.refused.len(), 1);
    assert_eq!(after.refused[0].1, Refusal::TooLong);
    fixture.dir.remove_tree(&rel(&name)).unwrap();
}
