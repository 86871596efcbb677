//! Names and contents that git refuses, as `git fsck --strict` and `git update-index` tell them.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::Git;
use offshoot_core::{EntryKind, RelPath};
use offshoot_git::{is_dot_git, refuses_content, refuses_name, refuses_path};

/// What git says in errors about each object, by its id.
fn errors(git: &Git) -> BTreeMap<String, String> {
    let (_, out, err) = git.try_run(&["fsck", "--strict", "--no-dangling", "--no-progress"], b"");
    let told = format!("{}\n{err}", String::from_utf8_lossy(&out));
    let line = |line: &str| {
        let (_, about) = line.strip_prefix("error in ")?.split_once(' ')?;
        let (id, what) = about.split_once(':')?;
        Some((id.to_owned(), what.to_owned()))
    };
    told.lines().filter_map(line).collect()
}

/// Makes trees of one entry each, all by one process.
fn trees(git: &Git, entries: &[(&str, String, Vec<u8>)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (mode, id, name) in entries {
        let kind = if *mode == "040000" { "tree" } else { "blob" };
        lines.extend_from_slice(format!("{mode} {kind} {id}\t").as_bytes());
        lines.extend_from_slice(name);
        lines.extend_from_slice(b"\0\0");
    }
    let made = git.text(&["mktree", "-z", "--batch"], &lines);
    let made: Vec<String> = made.lines().map(str::to_owned).collect();
    assert_eq!(made.len(), entries.len());
    made
}

/// Names that are, or nearly are, what git knows, and many that are put together at random.
fn names() -> BTreeSet<Vec<u8>> {
    let mut names: BTreeSet<Vec<u8>> = [
        &b".git"[..],
        b".GIT",
        b".git ",
        b".git.",
        b".git. .",
        b".gitx",
        b"git",
        b"git~1",
        b"GIT~1",
        b"git~1.",
        b"git~2",
        b"git~11",
        b".git:",
        b".git::$INDEX_ALLOCATION",
        b".git\\config",
        b"a\\.git",
        b"a\\.git ",
        b"a\\git~1\\b",
        b"a\\b",
        b"\\.git",
        b".git\xff",
        b".git\xef\xbf\xbe",
        b".gi\xfft",
        b".\xe2\x80\x8cgit",
        b".git\xe2\x80\x8c",
        b"\xef\xbb\xbf.git",
        b".gitmodules",
        b".GitModules",
        b".gitmodules.",
        b".gitmodules:x",
        b"gitmod~1",
        b"gitmod~4",
        b"gitmod~5",
        b"GITMOD~1 .",
        b"gi7eba~1",
        b"gi7eb~10",
        b"gi7~1234",
        b"~1234567",
        b"~0234567",
        b"~12345678",
        b".gitmodules\xe2\x81\xaf",
        b"a\\.gitmodules",
        b".gitattributes",
        b"gitatt~1",
        b"gi7d29~1",
        b".gitignore",
        b"gitign~1",
        b".mailmap",
        b".github",
        b".gitkeep",
        b"modules",
    ]
    .into_iter()
    .map(<[u8]>::to_vec)
    .collect();
    let pieces: [&[u8]; 27] = [
        b".",
        b".",
        b"g",
        b"G",
        b"i",
        b"t",
        b"git",
        b".git",
        b"git",
        b"~",
        b"~1",
        b"1",
        b" ",
        b":",
        b"\\",
        b"modules",
        b"Mod",
        b"attributes",
        b"gi7eba",
        b"gi7d29",
        b"x",
        b"\xe2\x80\x8d",
        b"\xe2\x80\xac",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xc3\xa9",
        b"\xed\xa0\x80",
    ];
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for _ in 0..1_500 {
        let many = 1 + random(5);
        let name: Vec<u8> = (0..many)
            .flat_map(|_| pieces[random(pieces.len())])
            .copied()
            .collect();
        if name != b"." && name != b".." {
            names.insert(name);
        }
    }
    names
}

#[test]
fn git_refuses_the_same_names() {
    let git = Git::init();
    let names: Vec<Vec<u8>> = names().into_iter().collect();
    let blob = git.text(&["hash-object", "-w", "--stdin"], b"");
    // A directory is blamed itself, so each has one of its own.
    let below: Vec<_> = (0..names.len())
        .map(|number| ("100644", blob.clone(), format!("f{number}").into_bytes()))
        .collect();
    let below = trees(&git, &below);
    let mut entries = Vec::new();
    for (name, below) in names.iter().zip(&below) {
        entries.push(("100644", blob.clone(), name.clone()));
        entries.push(("120000", blob.clone(), name.clone()));
        entries.push(("040000", below.clone(), name.clone()));
    }
    let ids = trees(&git, &entries);
    let errors = errors(&git);
    let mut refused = 0;
    for ((mode, inner, name), id) in entries.iter().zip(&ids) {
        let kind = match *mode {
            "100644" => EntryKind::File,
            "120000" => EntryKind::Symlink,
            _ => EntryKind::Dir,
        };
        let by_git = errors.get(id).or_else(|| errors.get(inner));
        let shown = String::from_utf8_lossy(name);
        assert_eq!(
            refuses_name(name, kind).is_some(),
            by_git.is_some(),
            "{shown:?} as {kind:?}: {by_git:?}"
        );
        refused += usize::from(by_git.is_some());
    }
    assert!(
        refused > 100 && errors.len() < entries.len() / 2,
        "{refused}"
    );
}

#[test]
fn git_takes_the_same_names_into_its_index() {
    let git = Git::init();
    let blob = git.text(&["hash-object", "-w", "--stdin"], b"");
    git.run(&["config", "core.protectHFS", "true"], b"");
    git.run(&["config", "core.protectNTFS", "true"], b"");
    let deep = |name: &[u8]| [b"deep/", name, b"/x"].concat();
    let paths: Vec<Vec<u8>> = names()
        .into_iter()
        .flat_map(|name| [deep(&name), name])
        .collect();
    let mut lines = Vec::new();
    for path in &paths {
        lines.extend_from_slice(format!("100644 {blob}\t").as_bytes());
        lines.extend_from_slice(path);
        lines.push(0);
    }
    git.run(&["update-index", "-z", "--add", "--index-info"], &lines);
    let taken = git.run(&["ls-files", "-z"], b"");
    let taken: BTreeSet<&[u8]> = taken.split(|&byte| byte == 0).collect();
    for path in &paths {
        let rel = RelPath::parse(path).unwrap();
        let is_taken = taken.contains(&path[..]);
        let shown = String::from_utf8_lossy(path);
        let is_dotgit = rel.parts().any(is_dot_git);
        // Here, unlike in `fsck`, git does not look behind a backslash that begins a name.
        if !rel.parts().any(|part| part.starts_with(b"\\")) {
            assert_eq!(is_taken, !is_dotgit, "{shown:?}");
        }
        assert!(is_taken || is_dotgit, "{shown:?}");
        assert!(is_taken || refuses_path(&rel, EntryKind::File).is_some());
    }
}

/// Contents of `.gitmodules` that must be taken.
const GOOD: &[&str] = &[
    "",
    "# nothing\n; at all\n",
    "[submodule \"a\"]\n\tpath = a\n\turl = https://example.com/a.git\n",
    "[submodule \"a/b\"]\n\tpath = a/b\n\turl = ../a.git\n\tupdate = rebase\n",
    "[submodule \"a\"]\r\n\tpath = a\r\n\turl = git@example.com:a/b.git\r\n\tbranch = .\r\n",
    "[submodule \"a..b\"]\npath = \"a b\" ; a comment\nurl = ssh://git@example.com:22/x\nshallow\n",
    "[submodule \"x\"]\n\turl = https://me@example.com:8443/a%20b/c.git\n[core]\n\tx = -y\n",
    "[submodule.dotted]\nurl = /srv/git/x.git\nignore = dirty\n",
    "\u{feff}[submodule \"q\\\"uote\"]\n  path = \"q\\\\x\" \n url = ./q\n",
];

/// Contents that git refuses.
const BAD: &[&str] = &[
    "[submodule \"..\"]\n\tpath = a\n",
    "[submodule \"a/../../x\"]\n\turl = u\n",
    "[submodule \"a\\\\..\\\\x\"]\n\turl = u\n",
    "[submodule \"\"]\n\turl = u\n",
    "[submodule \"a\"]\n\turl = -u./payload\n",
    "[submodule \"a\"] url = \"--upload-pack=x\"\n",
    "[SubModule \"a\"]\n\tURL = -x\n",
    "[submodule.a]\n\turl = -x\n",
    "[submodule \"a\"]\n\tpath = -x\n",
    "[submodule \"a\"]\n\tpath = \\\n  -x\n",
    "[submodule \"a\"]\n\tupdate = !touch /tmp/x\n",
    "[submodule \"a\"]\n\tUpdate = \"!x\"\n",
    "[submodule \"a\"]\n\turl = https://example.com/%0ahost=x\n",
    "[submodule \"a\"]\n\turl = \"https://example.com/a\\nb\"\n",
    "[submodule \"a\"]\n\turl = ../%0ax\n",
    "[submodule \"a\"]\n\turl = git://x/%0ahost=y\n",
    "[submodule \"a\"]\n\turl = ../../../../https:///example.com/x\n\turl = ../:x\n",
    "[submodule \"a\"]\n\turl = http:///example.com/x\n",
    "[submodule \"a\"]\n\turl = https::http://\n",
    "[submodule \"a\"]\n\turl = https::example.com/x\n",
    "[submodule \"a\"]\n\turl = https://example.com:99999/\n",
    "[submodule \"a\"]\n\turl = https://example.com/%zz\n",
    "[submodule \"a\"]\n\turl = https://example.com/../x\n",
    "[submodule \"ok\"]\n\turl = good\n[submodule \"a\"]\n\turl = -x\nbroken line\n",
];

#[test]
fn git_refuses_the_same_modules() {
    let git = Git::init();
    let long = "x".repeat(2048) + " text\n";
    let fits = "x".repeat(2040) + " text\n";
    let modules = GOOD.iter().chain(BAD).map(|text| (".gitmodules", *text));
    let attributes = [(".gitattributes", &*long), ("GITATT~1", &fits)];
    let cases: Vec<(&str, &str)> = modules.chain(attributes).collect();
    let mut entries = Vec::new();
    for (name, text) in &cases {
        let blob = git.text(&["hash-object", "-w", "--stdin"], text.as_bytes());
        entries.push(("100644", blob, name.as_bytes().to_vec()));
    }
    trees(&git, &entries);
    let errors = errors(&git);
    for ((name, text), (_, blob, _)) in cases.iter().zip(&entries) {
        let ours = refuses_content(name.as_bytes(), text.as_bytes());
        let by_git = errors.get(blob);
        assert_eq!(
            ours.is_some(),
            by_git.is_some(),
            "{text:?}: {by_git:?} {ours:?}"
        );
    }
    assert_eq!(errors.len(), BAD.len() + 1);
}

#[test]
fn what_git_cannot_read_is_refused_too() {
    for text in [
        "[submodule \"a\"\nurl = x\n",
        "[submodule \"a\"]\nurl = \"x\n",
        "=x\n",
        "a\0b",
    ] {
        assert!(
            refuses_content(b".gitmodules", text.as_bytes()).is_some(),
            "{text:?}"
        );
    }
    assert!(refuses_content(b"other", b"[submodule \"..\"]\nurl = -x\n").is_none());
}
