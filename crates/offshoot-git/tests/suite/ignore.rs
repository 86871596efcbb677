//! Ignore rules against `git check-ignore` and `git ls-files`, with random rule files.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;

use crate::common::{Git, cases};
use offshoot_core::RelPath;
use offshoot_git::IgnoreRules;
use proptest::prelude::*;

const DIRS: &[&str] = &["", "d", "d/e", "d/e/f", "build", "d/build", "a-b", "x y"];
const NAMES: &[&[u8]] = &[
    b"a",
    b"b",
    b"ab",
    b"abc",
    b"a b",
    b"a ",
    b"!a",
    b"#a",
    b"a[b",
    b"x.txt",
    b"x.o",
    b"a\\",
    b"$a",
    b"\t",
    b"a\r",
    b"\xc3\xa9",
    b"\xff",
    b"-",
    b"]",
    b"*",
    b"A",
    b"a-c",
    b"9",
];

/// All paths of the test directory, and whether each is a directory.
fn paths() -> Vec<(RelPath, bool)> {
    let mut all = Vec::new();
    for dir in DIRS {
        let base = if dir.is_empty() {
            RelPath::root()
        } else {
            path(dir.as_bytes())
        };
        if !base.is_root() {
            all.push((base.clone(), true));
        }
        all.extend(NAMES.iter().map(|name| (base.join_name(name), false)));
    }
    all
}

fn path(bytes: &[u8]) -> RelPath {
    RelPath::parse(bytes).unwrap()
}

fn any_rules() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        &b"a"[..],
        b"b",
        b"c",
        b"*",
        b"?",
        b"**",
        b"**/",
        b"/**",
        b"/",
        b"[ab]",
        b"[!a]",
        b"[^b]",
        b"[a-c]",
        b"[[:alpha:]]",
        b"[[:space:]x]",
        b"[",
        b"]",
        b"[]a]",
        b"[\\]]",
        b"\\",
        b"\\ ",
        b" ",
        b"!",
        b"\\!",
        b"#",
        b"\\#",
        b".txt",
        b"x",
        b"d",
        b"e",
        b"f",
        b"build",
        b"-",
        b"\t",
        b"\r",
        b"\xff",
        b"\xc3\xa9",
        b"$",
        b"\0",
        b"A",
        b"[z-a]",
        b"[a-",
        b"9",
        b"d/",
        b"/a",
    ]);
    let start = prop::sample::select(vec![
        &b""[..],
        b"",
        b"",
        b"!",
        b"!",
        b"/",
        b"#",
        b"!/",
        b"**/",
    ]);
    let ending = prop::sample::select(vec![&b"\n"[..], b"\n", b"\n", b"\r\n", b" \n", b"/\n", b""]);
    let line = (start, prop::collection::vec(token, 0..4), ending)
        .prop_map(|(start, tokens, ending)| [start, &tokens.concat(), ending].concat());
    let mark = prop::sample::select(vec![&b""[..], b"", b"", b"\xef\xbb\xbf", b"\xff\xfe"]);
    (mark, prop::collection::vec(line, 0..8))
        .prop_map(|(mark, lines)| [mark, &lines.concat()].concat())
}

#[test]
fn every_verdict_is_that_of_git() {
    let git = Git::init();
    let all = paths();
    for (path, is_dir) in &all {
        let full = git
            .path()
            .join(std::ffi::OsStr::from_bytes(path.as_bytes()));
        if *is_dir {
            std::fs::create_dir_all(full).unwrap();
        } else {
            std::fs::write(full, b"").unwrap();
        }
    }
    let mut question = Vec::new();
    for (path, _) in &all {
        question.extend_from_slice(path.as_bytes());
        question.push(0);
    }
    let files = prop::collection::btree_map(prop::sample::select(DIRS), any_rules(), 1..4);
    let hits = std::cell::Cell::new(0);
    proptest!(cases(300), |(files in files)| {
        for dir in DIRS {
            let file = git.path().join(dir).join(".gitignore");
            match files.get(dir) {
                Some(rules) => std::fs::write(file, rules).unwrap(),
                None => drop(std::fs::remove_file(file)),
            }
        }
        let (_, out, stderr) = git.try_run(&["check-ignore", "--no-index", "-z", "--stdin"], &question);
        prop_assert_eq!(stderr, "");
        let theirs = lines(&out);
        let ours: BTreeSet<RelPath> = all.iter()
            .filter(|(path, is_dir)| single(&files, path, *is_dir))
            .map(|(path, _)| path.clone())
            .collect();
        prop_assert_eq!(&ours, &theirs);
        hits.set(hits.get() + ours.len());

        // The chain of rules on a walk and git's own walk agree with it.
        let walked = walk(&files, &all);
        prop_assert_eq!(&walked, &theirs);
        let kept = lines(&git.run(&["ls-files", "-z", "--others", "--exclude-standard"], b""));
        for (path, is_dir) in &all {
            prop_assert_eq!(*is_dir || kept.contains(path), *is_dir || !walked.contains(path));
        }
    });
    assert!(
        hits.get() > 1000,
        "the rules must match something to prove anything"
    );
}

fn lines(out: &[u8]) -> BTreeSet<RelPath> {
    out.split(|&byte| byte == 0)
        .filter(|line| !line.is_empty())
        .map(path)
        .collect()
}

fn single(files: &BTreeMap<&str, Vec<u8>>, path: &RelPath, is_dir: bool) -> bool {
    IgnoreRules::is_ignored_with_parents(path, is_dir, |dir| {
        let text = dir.to_text();
        Ok(files
            .get(text.as_str())
            .map(|rules| (Some(rules.clone()), None)))
    })
    .unwrap()
}

fn walk(files: &BTreeMap<&str, Vec<u8>>, all: &[(RelPath, bool)]) -> BTreeSet<RelPath> {
    let mut chains: BTreeMap<RelPath, IgnoreRules> = BTreeMap::new();
    for dir in DIRS {
        let dir_path = if dir.is_empty() {
            RelPath::root()
        } else {
            path(dir.as_bytes())
        };
        let above = dir_path
            .parent()
            .map_or_else(IgnoreRules::root, |above| chains[&above].clone());
        // `.offshootignore` has the same syntax: here it carries the rules in every other
        // directory.
        let rules = files.get(dir).map(|rules| &rules[..]);
        let (git, own) = if dir.len() % 2 == 0 {
            (rules, None)
        } else {
            (None, rules)
        };
        chains.insert(dir_path.clone(), above.child(&dir_path, git, own));
    }
    let ignored = |(path, is_dir): &&(RelPath, bool)| {
        chains[&path.parent().unwrap()].is_ignored(path, *is_dir)
    };
    all.iter()
        .filter(ignored)
        .map(|(path, _)| path.clone())
        .collect()
}
