//! Git as the oracle: the tree of a snapshot equals that of `git add -A && git write-tree` for the
//! same directory, over a sequence of snapshots with one index.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::fixture::consistency::cases;
use crate::fixture::{TestEngine, chmod, user};
use offshoot_core::{RelPath, WorkspaceId};
use offshoot_engine::{Content, WriteOptions};
use offshoot_testkit::{Rng, TreeSpec, dir_image, git_command, make_tree};

/// Stock git with an index of its own over a directory, which it never changes.
struct Oracle {
    git_dir: PathBuf,
    work_tree: PathBuf,
}

impl Oracle {
    fn new(git_dir: PathBuf, work_tree: PathBuf) -> Self {
        let oracle = Oracle { git_dir, work_tree };
        oracle.git(&["init", "--quiet"]);
        oracle
    }

    fn git(&self, args: &[&str]) -> String {
        let mut command = git_command(self.git_dir.parent().unwrap());
        for setting in [
            "core.fileMode=true",
            "core.symlinks=true",
            // Both settings protect other systems and refuse names that are valid here.
            "core.protectNTFS=false",
            "core.protectHFS=false",
            "core.attributesFile=",
            // The data directory is in memory, and the test calls git within the same tick of the
            // clock.
            "core.trustctime=true",
            "core.fsync=none",
        ] {
            command.args(["-c", setting]);
        }
        let output = command
            .env("GIT_DIR", &self.git_dir)
            .env("GIT_WORK_TREE", &self.work_tree)
            .current_dir(&self.work_tree)
            .args(args)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn tree(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["write-tree"])
    }

    /// Everything that git and the snapshot may disagree about, for the message of a failure.
    fn explain(&self) -> String {
        let files = self.git(&["ls-files", "-s"]);
        format!(
            "git has\n{files}\non disk {:#?}",
            dir_image(&self.work_tree)
        )
    }
}

const NAMES: [&[u8]; 14] = [
    b"a",
    b"b",
    b"a.log",
    b"b.o",
    b"build",
    b"keep.log",
    b"two words",
    b"\xff\xfe",
    b"new\nline",
    b"-rf",
    b"a.",
    b"\\back",
    b"!bang",
    b"Caf\xc3\xa9",
];
const RULES: [&str; 18] = [
    "*.log",
    "!keep.log",
    "build/",
    "/build",
    "*.o",
    "!b.o",
    "a/*",
    "!a/b",
    "**/a.log",
    "a/**",
    "b/**/a",
    "#note",
    "\\!bang",
    "two\\ words",
    "two words ",
    "[ab]",
    "!a/",
    "/*/b",
];

fn random_path(rng: &mut Rng, root: &Path) -> PathBuf {
    let mut path = root.to_owned();
    for _ in 0..rng.between(1, 4) {
        let name = *rng.pick(&NAMES[..]);
        path.push(OsStr::from_bytes(name));
    }
    path
}

fn has_link_above(root: &Path, path: &Path) -> bool {
    let mut at = path.parent();
    while let Some(above) = at.filter(|above| *above != root) {
        if above.is_symlink() {
            return true;
        }
        at = above.parent();
    }
    false
}

fn remove(path: &Path) {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|stat| stat.is_dir());
    let _ = if is_dir {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
}

fn random_rules(rng: &mut Rng) -> String {
    (0..rng.between(0, 4))
        .map(|_| format!("{}\n", rng.pick(&RULES[..])))
        .collect()
}

/// One change of any kind.
fn outside_step(rng: &mut Rng, root: &Path) {
    let path = random_path(rng, root);
    if has_link_above(root, &path) {
        return;
    }
    let parents = |path: &Path| fs::create_dir_all(path.parent().unwrap()).is_ok();
    match rng.below(14) {
        0 => remove(&path),
        1 => {
            let _ = fs::create_dir_all(&path);
        }
        2 if parents(&path) => {
            remove(&path);
            let targets: [&[u8]; 4] = [b"a", b"../b", b"/nowhere-of-offshoot", b"\xff"];
            let _ = symlink(OsStr::from_bytes(rng.pick::<&[u8]>(&targets)), &path);
        }
        3 if path.is_file() && !path.is_symlink() => {
            chmod(
                &path,
                *rng.pick(&[0o644, 0o755, 0o600, 0o700, 0o654, 0o445]),
            );
        }
        4 => {
            let to = random_path(rng, root);
            if !has_link_above(root, &to) && !to.starts_with(&path) && parents(&to) {
                let _ = fs::rename(&path, &to);
            }
        }
        5 | 6 => {
            let dir = if rng.chance(500) {
                root
            } else {
                path.as_path()
            };
            if dir.is_dir() && !dir.is_symlink() {
                let _ = fs::write(dir.join(".gitignore"), random_rules(rng));
            }
        }
        // The remains of a broken repository: git skips the name and takes the rest.
        7 if path.is_dir() && !path.is_symlink() => {
            let _ = fs::create_dir(path.join(".git"));
            let _ = fs::write(path.join(".git/junk"), b"junk");
        }
        _ if parents(&path) && !path.is_dir() && !path.is_symlink() => {
            let mut bytes = vec![0; rng.below(200)];
            rng.fill(&mut bytes);
            let _ = fs::write(&path, bytes);
        }
        _ => {}
    }
}

fn compare(test: &TestEngine, ws: &WorkspaceId, oracle: &Oracle, what: &str) {
    let taken = test
        .engine
        .workspaces
        .snapshot(ws, None, false, &user())
        .unwrap();
    let expected = oracle.tree();
    assert!(
        taken.snapshot.tree.to_hex() == expected,
        "{what}: {} instead of {expected}; {}",
        taken.snapshot.tree,
        oracle.explain()
    );
}

#[test]
fn oracle_directories_that_outside_programs_made() {
    let test = TestEngine::plain();
    for seed in 0..u64::from(cases(100)) {
        let mut rng = Rng::new(seed);
        let ws = test.create(&format!("w{seed}"));
        let root = test.engine.workspaces.hand_out_path(&ws).unwrap();
        let oracle = Oracle::new(test.host.path().join(format!("g{seed}")), root.clone());
        for round in 0..3 {
            for _ in 0..rng.between(1, 25) {
                outside_step(&mut rng, &root);
            }
            compare(&test, &ws, &oracle, &format!("seed {seed}, round {round}"));
        }
    }
}

#[test]
fn oracle_trees_of_odd_names_and_deep_nesting() {
    let test = TestEngine::plain();
    for seed in 0..u64::from(cases(12)) {
        let ws = test.create(&format!("w{seed}"));
        let root = test.engine.workspaces.hand_out_path(&ws).unwrap();
        make_tree(&root, &TreeSpec::nasty(150), seed);
        let oracle = Oracle::new(test.host.path().join(format!("g{seed}")), root);
        compare(&test, &ws, &oracle, &format!("seed {seed}"));
    }
}

/// Applies a change of a model directory to a workspace by calls.
fn call_step(rng: &mut Rng, test: &TestEngine, ws: &WorkspaceId) {
    let engine = &test.engine;
    let path = {
        let path = random_path(rng, Path::new(""));
        RelPath::parse(path.as_os_str().as_bytes()).unwrap()
    };
    // The call may fail: git is asked about what is there afterwards.
    match rng.below(12) {
        0 => drop(
            engine
                .workspaces
                .delete_file(ws, &path, rng.chance(500), &user()),
        ),
        1 => drop(engine.workspaces.make_dir_in(ws, &path, &user())),
        2 => {
            let to = random_path(rng, Path::new(""));
            let to = RelPath::parse(to.as_os_str().as_bytes()).unwrap();
            drop(engine.workspaces.move_file(ws, &path, &to, &user()));
        }
        choice => {
            let options = WriteOptions {
                executable: *rng.pick(&[None, Some(true), Some(false)]),
                ..WriteOptions::default()
            };
            let (path, bytes) = match choice {
                3 | 4 => {
                    let dir = path.parent().unwrap_or_default();
                    (dir.join_name(b".gitignore"), random_rules(rng).into_bytes())
                }
                5 => (path.join_name(b".git").join_name(b"junk"), b"junk".to_vec()),
                _ => {
                    let mut bytes = vec![0; rng.below(200)];
                    rng.fill(&mut bytes);
                    (path, bytes)
                }
            };
            drop(engine.workspaces.write_file(
                ws,
                &path,
                Content::Bytes(&bytes),
                &options,
                &user(),
            ));
        }
    }
}

#[test]
fn oracle_trees_written_by_calls() {
    let test = TestEngine::plain();
    for seed in 0..u64::from(cases(100)) {
        let mut rng = Rng::new(seed);
        let ws = test.create(&format!("w{seed}"));
        let root = test.path_of(&ws);
        let mut oracle = None;
        for round in 0..3 {
            for _ in 0..rng.between(1, 25) {
                call_step(&mut rng, &test, &ws);
            }
            test.engine.workspaces.hand_out_path(&ws).unwrap();
            let oracle = oracle.get_or_insert_with(|| {
                Oracle::new(test.host.path().join(format!("g{seed}")), root.clone())
            });
            compare(&test, &ws, oracle, &format!("seed {seed}, round {round}"));
        }
    }
}

/// After a restore the snapshot is what is tracked, as in git's index. Both see the same directory,
/// including ignored files that stayed.
#[test]
fn oracle_restored_directories_are_those_of_git() {
    let test = TestEngine::plain();
    for seed in 0..u64::from(cases(60)) {
        let mut rng = Rng::new(1_000 + seed);
        let ws = test.create(&format!("w{seed}"));
        let root = test.engine.workspaces.hand_out_path(&ws).unwrap();
        let oracle = Oracle::new(test.host.path().join(format!("g{seed}")), root.clone());
        for _ in 0..15 {
            outside_step(&mut rng, &root);
        }
        compare(&test, &ws, &oracle, &format!("seed {seed}, at first"));
        let first = test.engine.workspaces.workspace(&ws).unwrap().head.unwrap();
        for _ in 0..15 {
            outside_step(&mut rng, &root);
        }
        // Ignored files may be in the way; then nothing was restored, and git sees that too.
        if let Err(error) = test
            .engine
            .workspaces
            .restore(&ws, &first.to_hex(), None, &user())
        {
            assert_eq!(
                error.code(),
                offshoot_core::ErrorCode::AlreadyExists,
                "{error:?}"
            );
            continue;
        }
        compare(&test, &ws, &oracle, &format!("seed {seed}, restored"));
    }
}
