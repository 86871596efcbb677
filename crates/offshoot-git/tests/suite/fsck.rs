//! Objects that are received are judged as git judges them.

use offshoot_git::{Kind, MemoryObjects, VisibleHistory, connected_objects, hash};

use crate::common::Git;
use crate::receive::{BLOB, COMMIT, TAG, TREE, entry, pack, receive};

/// For objects of every kind of wrongness, git's own verdict.
#[test]
fn objects_are_judged_as_fsck_strict_does() {
    let git = Git::init();
    let blob = hash(Kind::Blob, b"content").unwrap();
    let tree = |entries: &[(&str, &[u8])]| {
        let mut bytes = Vec::new();
        for (mode, name) in entries {
            bytes.extend_from_slice(format!("{mode} ").as_bytes());
            bytes.extend_from_slice(name);
            bytes.push(0);
            bytes.extend_from_slice(blob.as_bytes());
        }
        bytes
    };
    let mut cases: Vec<(u8, Vec<u8>)> = Vec::new();
    let long = vec![b'x'; 5000];
    for entries in [
        &[("100644", &b"a"[..])][..],
        &[
            ("100755", b"a"),
            ("40000", b"b"),
            ("120000", b"c"),
            ("160000", b"d"),
        ],
        &[("100664", b"a")],
        &[("100644", b"b"), ("100644", b"a")],
        &[("100644", b"a"), ("100644", b"a")],
        &[("100644", b"a"), ("40000", b"a")],
        &[("100644", b"a"), ("100644", b"a.b"), ("40000", b"a")],
        &[("040000", b"a")],
        &[("0100644", b"a")],
        &[("100644", b"")],
        &[("100644", b".")],
        &[("40000", b"..")],
        &[("100644", b"a/b")],
        &[("100644", b".git")],
        &[("40000", b".GIT")],
        &[("100644", b"git~1")],
        &[("100644", b".g\xe2\x80\x8cit")],
        &[("120000", b".gitmodules")],
        &[("40000", b".gitignore")],
        &[("120000", b".gitignore")],
        &[("120000", b".gitattributes")],
        &[("100644", &long)],
        &[("100644", b"\xff\xfe")],
    ] {
        cases.push((TREE, tree(entries)));
    }
    let mut null = tree(&[("100644", b"a")]);
    let end = null.len();
    null[end - 20..].fill(0);
    cases.push((TREE, null));
    cases.push((TREE, tree(&[("100644", b"a")])[..end - 1].to_vec()));
    let who = "A U Thor <a@b.c> 1700000000 +0100";
    // Neither is there, which is not what is asked.
    let (root, parent) = ("1a".repeat(20), "2b".repeat(20));
    let of = |author: &str, committer: &str| {
        format!("tree {root}\nparent {parent}\nauthor {author}\ncommitter {committer}\n\nmessage\n")
    };
    for line in [
        who,
        "<a@b.c> 1700000000 +0100",
        " <a@b.c> 1700000000 +0100",
        "A <a@b.c> 0 +0000",
        "A <> 1 -1200",
        "A<a@b.c> 1 +0000",
        "A > <a@b.c> 1 +0000",
        "A a@b.c 1 +0000",
        "A <a@b.c 1 +0000",
        "A <a<b> 1 +0000",
        "A <a@b.c>1 +0000",
        "A <a@b.c> x +0000",
        "A <a@b.c> 01 +0000",
        "A <a@b.c> 1",
        "A <a@b.c> 1 0000",
        "A <a@b.c> 1 +00000",
        "A <a@b.c> 1 +00:00",
        "A <a@b.c>  1 +0000",
        "A <a@b.c> 18446744073709551615 +0000",
        "A <a@b.c> 9223372036854775807 +0000",
        "A <a@b.c> 9223372036854775808 +0000",
        "A <a@b.c> -1 +0000",
        "",
    ] {
        cases.push((COMMIT, of(line, who).into_bytes()));
        cases.push((COMMIT, of(who, line).into_bytes()));
        let tag = format!("object {blob}\ntype blob\ntag v1\ntagger {line}\n\nmessage\n");
        cases.push((TAG, tag.into_bytes()));
    }
    let good = of(who, who);
    for changed in [
        good.replace("tree ", "tre "),
        good.replacen(&root, "0123", 1),
        good.replacen(&root, &root.to_uppercase(), 1),
        good.replace("parent ", "parent x"),
        good.replace("author ", "autor "),
        good.replace("committer ", "author "),
        good.replace(
            &format!("author {who}\n"),
            &format!("author {who}\nauthor {who}\n"),
        ),
        good.replace("\nauthor", "\n\nauthor"),
        good.replace("message", "mess\0age"),
        good.replace("Thor", "Th\0r"),
        good.replace("\n\nmessage\n", "\n"),
        good.replace("\n\nmessage\n", ""),
        good.replace("\n\nmessage\n", "\n\n"),
        good.replace("\n\n", "\nencoding latin1\ngpgsig x\n y\n\n"),
    ] {
        cases.push((COMMIT, changed.into_bytes()));
    }
    let good = format!("object {blob}\ntype blob\ntag v1\ntagger {who}\n\nmessage\n");
    for changed in [
        good.replace("object", "objekt"),
        good.replacen(&blob.to_hex(), "0123", 1),
        good.replace("type blob", "type bulb"),
        good.replace("tag v1\n", ""),
        good.replace("tag v1", "tag "),
        good.replace(&format!("tagger {who}\n"), ""),
        good.replace("message", "mess\0age"),
    ] {
        cases.push((TAG, changed.into_bytes()));
    }
    let mut refused = 0;
    for (kind, content) in cases {
        let bytes = pack(&[entry(kind, b"", &content), entry(BLOB, b"", b"content")]);
        let (accepts, _, said) = git.try_run(&["index-pack", "--stdin", "--fsck-objects"], &bytes);
        let ours = receive(&bytes, &MemoryObjects::new(), &[]);
        let text = String::from_utf8_lossy(&content);
        // Where we are stricter: names that no file system takes, tags without one, ids that could
        // not be written again as they are, and commits without an end of their header.
        let is_odd = content.len() > 4096
            || ["tag \n", "1A1A"].iter().any(|part| text.contains(part))
            || kind == COMMIT && !text.contains("\n\n");
        let stricter = accepts && ours.is_err() && is_odd;
        if !stricter {
            assert_eq!(
                ours.is_ok(),
                accepts,
                "{text:?}: git says {said:?}, we say {:?}",
                ours.err()
            );
        }
        refused += usize::from(!accepts);
    }
    assert!(refused > 60, "{refused}");
}

#[test]
fn files_that_git_acts_on_are_read() {
    let store = MemoryObjects::new();
    let who = "A <a@b> 1700000000 +0000";
    for (name, content, accepted) in [
        (
            ".gitmodules",
            "[submodule \"x\"]\n\tpath = x\n\turl = https://example.com/x\n",
            true,
        ),
        (
            ".gitmodules",
            "[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n",
            false,
        ),
        (
            ".gitmodules",
            "[submodule \"../x\"]\n\turl = https://example.com/x\n",
            false,
        ),
        (
            ".GitModules",
            "[submodule \"x\"]\n\tupdate = !touch x\n",
            false,
        ),
        (".gitattributes", "* text\n", true),
        ("other", "[submodule \"../x\"]\n", true),
    ] {
        let blob = hash(Kind::Blob, content.as_bytes()).unwrap();
        let tree = [format!("100644 {name}\0").as_bytes(), blob.as_bytes()].concat();
        let tree_id = hash(Kind::Tree, &tree).unwrap();
        let commit = format!("tree {tree_id}\nauthor {who}\ncommitter {who}\n\nx\n");
        let bytes = pack(&[
            entry(COMMIT, b"", commit.as_bytes()),
            entry(TREE, b"", &tree),
            entry(BLOB, b"", content.as_bytes()),
        ]);
        let received = receive(&bytes, &store, &[]).unwrap();
        let tip = hash(Kind::Commit, commit.as_bytes()).unwrap();
        let mut visible = VisibleHistory::new(&store, Vec::new());
        let checked = connected_objects(&received, &mut visible, tip);
        assert_eq!(checked.is_ok(), accepted, "{name} {content}");
        let git = Git::init();
        let (accepts, _, said) = git.try_run(&["index-pack", "--stdin", "--strict"], &bytes);
        assert_eq!(accepts, accepted, "{name} {content}: {said}");
    }
}
