//! git as the oracle.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Store, Tree};

pub struct Repository {
    directory: tempfile::TempDir,
    contents: RefCell<HashMap<String, String>>,
}

impl Repository {
    pub fn new() -> Self {
        let repository = Repository {
            directory: tempfile::tempdir().unwrap(),
            contents: RefCell::default(),
        };
        repository.run(&["init", "-q", "--bare", "."], b"");
        repository
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = git(self.directory.path());
        command.args(arguments);
        command
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> (bool, String) {
        let mut command = self.command(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input).unwrap());
            child.wait_with_output().unwrap()
        });
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }

    /// Writes a tree as a commit; its parent is the base of later merges.
    pub fn commit(&self, store: &Store, tree: &Tree, parent: Option<&str>) -> String {
        let mut input = b"commit refs/heads/new\ncommitter a <a> 0 +0000\ndata 0\n".to_vec();
        input.extend_from_slice(b"deleteall\n");
        for (path, entry) in tree {
            let content = store.get(&entry.id);
            let head = format!(
                "M {:o} inline {}\ndata {}\n",
                entry.mode as u32,
                path,
                content.len()
            );
            input.extend_from_slice(head.as_bytes());
            input.extend_from_slice(&content);
            input.push(b'\n');
        }
        self.run(&["fast-import", "--quiet", "--force"], &input);
        let (_, tree) = self.run(&["rev-parse", "refs/heads/new^{tree}"], b"");
        self.run(&["update-ref", "-d", "refs/heads/new"], b"");
        let mut arguments = vec!["commit-tree", "-m", "x", tree.trim()];
        arguments.extend(parent.iter().flat_map(|parent| ["-p", parent]));
        self.run(&arguments, b"").1.trim().to_owned()
    }

    /// `git merge-tree --write-tree` for pairs of commits: the tree of each clean merge.
    pub fn merge_trees(&self, pairs: &[(&str, &str)]) -> Vec<Option<Vec<String>>> {
        let lines: String = pairs
            .iter()
            .map(|(ours, theirs)| format!("{ours} {theirs}\n"))
            .collect();
        let (_, output) = self.run(&["merge-tree", "--write-tree", "--stdin"], lines.as_bytes());
        // Each answer begins with the verdict and the tree; what follows is for people.
        let fields: Vec<&str> = output.split('\0').collect();
        let is_id =
            |text: &str| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut known: HashMap<String, Vec<String>> = HashMap::new();
        let mut merged = Vec::with_capacity(pairs.len());
        for pair in fields.windows(2) {
            match (pair[0].trim(), pair[1]) {
                ("0", tree) if is_id(tree) => merged.push(None),
                ("1", tree) if is_id(tree) => {
                    let listing = known
                        .entry(tree.to_owned())
                        .or_insert_with(|| self.listing(tree));
                    merged.push(Some(listing.clone()));
                }
                _ => {}
            }
        }
        assert_eq!(merged.len(), pairs.len(), "git answered every pair");
        merged
    }

    fn listing(&self, tree: &str) -> Vec<String> {
        let (_, output) = self.run(&["ls-tree", "-r", tree], b"");
        let lines = output.lines().map(|line| {
            let (meta, path) = line.split_once('\t').unwrap();
            let fields: Vec<&str> = meta.split(' ').collect();
            let mut contents = self.contents.borrow_mut();
            let content = contents
                .entry(fields[2].to_owned())
                .or_insert_with(|| self.run(&["cat-file", "blob", fields[2]], b"").1);
            format!("{} {path} {content:?}", fields[0])
        });
        lines.collect()
    }
}

pub fn git(directory: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(directory);
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a"),
    ] {
        command.env(name, value);
    }
    command
}

/// `git merge-file`: whether it is clean, and its output.
pub fn merge_file(
    directory: &Path,
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    diff3: bool,
) -> (bool, Vec<u8>) {
    for (name, bytes) in [("base", base), ("ours", ours), ("theirs", theirs)] {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
    let mut command = git(directory);
    command.args(["merge-file", "-p", "-q", "--diff-algorithm=histogram"]);
    if diff3 {
        command.arg("--diff3");
    }
    let output = command.args(["ours", "base", "theirs"]).output().unwrap();
    (output.status.success(), output.stdout)
}
