//! Finds, in a repository's merge commits, the files that both sides changed.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// One file that both parents of a merge commit changed, and what people made of it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) merge: String,
    pub(crate) base: String,
    pub(crate) ours: String,
    pub(crate) theirs: String,
    pub(crate) merged: String,
    pub(crate) path: String,
}

/// The cases of a repository, from at most `limit` merge commits spread over its history.
pub(crate) fn collect(repo: &Path, limit: usize) -> Vec<Case> {
    let merges = merges(repo, limit);
    let diffs = diffs(repo, &merges);
    let mut cases = Vec::new();
    for merge in &merges {
        let of = |commit: &str| diffs.get(&(merge.base.clone(), commit.to_owned()));
        let (Some(ours), Some(theirs), Some(merged)) =
            (of(&merge.ours), of(&merge.theirs), of(&merge.commit))
        else {
            continue;
        };
        for (path, (base, ours)) in ours {
            let Some((_, theirs)) = theirs.get(path) else {
                continue;
            };
            if ours == theirs {
                continue;
            }
            // A file that the merge commit lacks or turned into something else has no result.
            let merged = match merged.get(path) {
                Some((_, merged)) => merged,
                None => continue,
            };
            cases.push(Case {
                merge: merge.commit.clone(),
                base: base.clone(),
                ours: ours.clone(),
                theirs: theirs.clone(),
                merged: merged.clone(),
                path: path.clone(),
            });
        }
    }
    cases.sort_by(|one, two| (&one.merge, &one.path).cmp(&(&two.merge, &two.path)));
    cases
}

struct Merge {
    commit: String,
    base: String,
    ours: String,
    theirs: String,
}

fn git(repo: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("--git-dir").arg(repo).stderr(Stdio::null());
    command
}

fn text_of(command: &mut Command) -> String {
    let output = command.output().expect("git runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn merges(repo: &Path, limit: usize) -> Vec<Merge> {
    let list = text_of(git(repo).args([
        "rev-list",
        "--min-parents=2",
        "--max-parents=2",
        "--parents",
        "HEAD",
    ]));
    let all: Vec<&str> = list.lines().collect();
    let stride = all.len().div_ceil(limit).max(1);
    let mut merges = Vec::new();
    for line in all.iter().step_by(stride) {
        let mut parts = line.split(' ');
        let (Some(commit), Some(ours), Some(theirs)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let bases = text_of(git(repo).args(["merge-base", "--all", ours, theirs]));
        let mut bases = bases.lines();
        let (Some(base), None) = (bases.next(), bases.next()) else {
            continue;
        };
        if base != ours && base != theirs {
            merges.push(Merge {
                commit: commit.to_owned(),
                base: base.to_owned(),
                ours: ours.to_owned(),
                theirs: theirs.to_owned(),
            });
        }
    }
    merges
}

type Modified = HashMap<String, (String, String)>;

/// For each base and commit the regular files that were modified: path to (before, after).
fn diffs(repo: &Path, merges: &[Merge]) -> HashMap<(String, String), Modified> {
    let mut all = HashMap::new();
    for chunk in merges.chunks(200) {
        let mut child = git(repo)
            .args([
                "diff-tree",
                "-r",
                "--stdin",
                "--no-renames",
                "--diff-filter=M",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("git runs");
        let mut input = child.stdin.take().expect("piped");
        let mut lines = String::new();
        for merge in chunk {
            for side in [&merge.ours, &merge.theirs, &merge.commit] {
                lines.push_str(&format!("{}^{{tree}} {}^{{tree}}\n", merge.base, side));
                all.insert((merge.base.clone(), side.clone()), Modified::new());
            }
        }
        // diff-tree wants tree ids, so names are resolved first.
        let trees = resolve(repo, &lines);
        let writer = std::thread::spawn(move || {
            let _ = input.write_all(trees.join("\n").as_bytes());
            let _ = input.write_all(b"\n");
        });
        let output = child.wait_with_output().expect("git runs");
        writer.join().expect("the writer ends");
        let mut keys = chunk.iter().flat_map(|merge| {
            [&merge.ours, &merge.theirs, &merge.commit]
                .map(|side| (merge.base.clone(), side.clone()))
        });
        let mut key = None;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Some(raw) = line.strip_prefix(':') else {
                key = keys.next();
                continue;
            };
            let Some((fields, path)) = raw.split_once('\t') else {
                continue;
            };
            let fields: Vec<&str> = fields.split(' ').collect();
            if fields[0].starts_with("100") && fields[1].starts_with("100") {
                let modified = key.clone().and_then(|key| all.get_mut(&key));
                if let Some(modified) = modified {
                    modified.insert(path.to_owned(), (fields[2].into(), fields[3].into()));
                }
            }
        }
    }
    all
}

/// Resolves a list of lines with two names each.
fn resolve(repo: &Path, lines: &str) -> Vec<String> {
    let mut child = git(repo)
        .args(["cat-file", "--batch-check=%(objectname)"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git runs");
    let names = lines.replace(' ', "\n");
    let mut input = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || {
        let _ = input.write_all(names.as_bytes());
    });
    let output = child.wait_with_output().expect("git runs");
    writer.join().expect("the writer ends");
    let ids: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    ids.chunks(2).map(|pair| pair.join(" ")).collect()
}
