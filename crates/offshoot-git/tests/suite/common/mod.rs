//! A throw-away git repository as the oracle, and random trees.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program uses its own part of this"
)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use offshoot_core::{ObjectId, RelPath};
use offshoot_git::{Edit, Kind, MemoryObjects, TreeBuilder, hash};
use proptest::prelude::*;

/// What a path holds: raw mode and content id.
pub type Leaves = BTreeMap<RelPath, (u32, ObjectId)>;

/// A git repository in a temporary directory, cut off from the user's settings.
pub struct Git {
    pub dir: tempfile::TempDir,
}

impl Git {
    pub fn init() -> Self {
        let git = Git {
            dir: tempfile::tempdir().unwrap(),
        };
        git.run(&["init", "-q", "-b", "main"], b"");
        git
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn run(&self, args: &[&str], stdin: &[u8]) -> Vec<u8> {
        let (ok, stdout, stderr) = self.try_run(args, stdin);
        assert!(ok, "git {args:?}: {stderr}");
        stdout
    }

    pub fn text(&self, args: &[&str], stdin: &[u8]) -> String {
        String::from_utf8(self.run(args, stdin))
            .unwrap()
            .trim_end()
            .to_owned()
    }

    pub fn try_run(&self, args: &[&str], stdin: &[u8]) -> (bool, Vec<u8>, String) {
        let mut child = Command::new("git")
            .args(args)
            .current_dir(self.dir.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C")
            .envs([
                ("GIT_AUTHOR_NAME", "Ada"),
                ("GIT_AUTHOR_EMAIL", "ada@example.com"),
            ])
            .envs([
                ("GIT_COMMITTER_NAME", "Bob"),
                ("GIT_COMMITTER_EMAIL", "bob@example.com"),
            ])
            .env("GIT_AUTHOR_DATE", "1700000000 +0130")
            .env("GIT_COMMITTER_DATE", "1700000001 -0800")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // git may end before it has read everything; its verdict is what counts.
                let _ = pipe.write_all(stdin);
            });
            child.wait_with_output().unwrap()
        });
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), output.stdout, stderr)
    }

    /// The tree that git makes of these leaves.
    pub fn write_tree(&self, leaves: &Leaves) -> ObjectId {
        let mut lines = Vec::new();
        for (path, (mode, id)) in leaves {
            lines.extend_from_slice(format!("{mode:o} {id}\t").as_bytes());
            lines.extend_from_slice(path.as_bytes());
            lines.push(0);
        }
        self.run(&["read-tree", "--empty"], b"");
        self.run(&["update-index", "-z", "--add", "--index-info"], &lines);
        self.text(&["write-tree", "--missing-ok"], b"")
            .parse()
            .unwrap()
    }
}

/// The tree that we make of these leaves.
pub fn build(leaves: &Leaves, objects: &MemoryObjects) -> ObjectId {
    let mut sink = objects;
    let mut builder = TreeBuilder::new(&mut sink);
    for (path, (mode, id)) in leaves {
        builder.push(path, *mode, *id).unwrap();
    }
    builder.finish().unwrap()
}

/// The plain meaning of edits, one after the other.
pub fn apply(leaves: &mut Leaves, edits: &BTreeMap<RelPath, Edit>) {
    for (path, edit) in edits {
        leaves.retain(|other, _| !other.starts_with(path));
        if let Edit::Put { mode, id } = edit {
            for above in path.ancestors() {
                leaves.remove(&above);
            }
            leaves.insert(path.clone(), (*mode, *id));
        }
    }
}

/// Few names, chosen so that directories and files sort around each other in every way.
pub fn any_path() -> impl Strategy<Value = RelPath> {
    let names = prop::sample::select(vec![
        &b"a"[..],
        b"a-",
        b"a.b",
        b"a0",
        b"ab",
        b"b",
        b"A",
        b"\xfe x",
        "\u{e9}".as_bytes(),
        b"z",
    ]);
    prop::collection::vec(names, 1..5).prop_map(|parts| RelPath::parse(&parts.join(&b'/')).unwrap())
}

pub fn any_leaf() -> impl Strategy<Value = (u32, ObjectId)> {
    let modes = prop::sample::select(vec![0o100_644, 0o100_644, 0o100_755, 0o120_000, 0o160_000]);
    (modes, 0u8..6).prop_map(|(mode, n)| (mode, hash(Kind::Blob, &[n]).unwrap()))
}

pub fn any_leaves(max: usize) -> impl Strategy<Value = Leaves> {
    prop::collection::vec((any_path(), any_leaf()), 0..max).prop_map(|puts| {
        let mut leaves = Leaves::new();
        for (path, (mode, id)) in puts {
            apply(
                &mut leaves,
                &BTreeMap::from([(path, Edit::Put { mode, id })]),
            );
        }
        leaves
    })
}

pub fn any_edits(max: usize) -> impl Strategy<Value = BTreeMap<RelPath, Edit>> {
    let edit = prop_oneof![
        2 => any_leaf().prop_map(|(mode, id)| Edit::Put { mode, id }),
        1 => Just(Edit::Remove),
    ];
    prop::collection::btree_map(any_path(), edit, 0..max)
}

/// More cases when a long run is asked for.
pub fn cases(default: u32) -> ProptestConfig {
    let soak = std::env::var_os("OFFSHOOT_SOAK").is_some();
    let mut config = ProptestConfig::with_cases(if soak { default * 20 } else { default });
    config.failure_persistence = None;
    config
}
