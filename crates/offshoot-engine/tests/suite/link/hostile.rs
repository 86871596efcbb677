//! Repositories that hold what an import refuses.

use offshoot_core::ErrorCode;
use offshoot_engine::{PullOptions, PullWay};
use offshoot_testkit::{git, git_with_input};

use super::repository::Linked;

impl Linked {
    /// Points the followed branch at a commit of a tree, on top of what it has.
    fn forge(&self, tree: &str, parent: &str) {
        let commit = self.git(&["commit-tree", tree, "-p", parent, "-m", "forged"]);
        self.git(&["update-ref", "refs/heads/main", &commit]);
    }

    fn object(&self, kind: &str, bytes: &[u8]) -> String {
        let args = ["hash-object", "-t", kind, "-w", "--literally", "--stdin"];
        let id = git_with_input(&self.repo, &args, bytes);
        String::from_utf8(id).unwrap().trim().to_owned()
    }
}

/// A tree with one entry, as bytes.
fn tree(mode: &str, name: &[u8], id: &str) -> Vec<u8> {
    let mut bytes = format!("{mode} ").into_bytes();
    bytes.extend_from_slice(name);
    bytes.push(0);
    bytes.extend((0..20).map(|at| u8::from_str_radix(&id[at * 2..at * 2 + 2], 16).unwrap()));
    bytes
}

#[test]
fn what_an_import_refuses_is_refused_and_nothing_changes() {
    for merges in [false, true] {
        for case in ["dot-git", "mode", "no-blob", "no-parent", "deep"] {
            let linked = Linked::new();
            if merges {
                linked.agent("ada", &[("agent", "work\n")]);
            }
            let head = linked.head();
            let blob = linked.git(&["rev-parse", "HEAD:README"]);
            let parent = linked.git(&["rev-parse", "HEAD"]);
            let forged = match case {
                "dot-git" => linked.object("tree", &tree("100644", b".GIT", &blob)),
                "mode" => linked.object("tree", &tree("170000", b"odd", &blob)),
                "no-blob" => linked.object("tree", &tree("100644", b"x", &"1".repeat(40))),
                "deep" => {
                    let mut at = linked.object("tree", &tree("100644", b"leaf", &blob));
                    for _ in 0..400 {
                        at = linked.object("tree", &tree("40000", b"d", &at));
                    }
                    at
                }
                _ => linked.git(&["rev-parse", "HEAD^{tree}"]),
            };
            if case == "no-parent" {
                let text = format!(
                    "tree {forged}\nparent {parent}\nparent {}\nauthor A <a@b> 1 +0000\n\
                     committer A <a@b> 1 +0000\n\nforged\n",
                    "2".repeat(40)
                );
                let commit = linked.object("commit", text.as_bytes());
                std::fs::write(
                    linked.repo.join(".git/refs/heads/main"),
                    format!("{commit}\n"),
                )
                .unwrap();
            } else {
                linked.forge(&forged, &parent);
            }
            let refused = linked.try_pull(&PullOptions::default()).unwrap_err();
            let code = refused.code();
            assert_eq!(code, ErrorCode::InvalidRequest, "{case}: {refused}");
            assert_eq!(linked.head(), head, "{case}");
            let forks = linked.test.engine.forks.list_forks(&linked.app).unwrap();
            assert!(forks.is_empty(), "{case}");
            linked.test.check();
            // The branch is mended, and the link works again.
            git(&linked.repo, &["update-ref", "refs/heads/main", &parent]);
            git(&linked.repo, &["reset", "-q", "--hard"]);
            linked.commit(&[("README", "mended\n")]);
            assert_ne!(linked.pull().way, PullWay::Nothing);
            linked.test.check();
        }
    }
}

/// A merge would put the old commit of the other repository back.
#[test]
fn submodules_that_moved_are_not_merged() {
    let linked = Linked::new();
    let sub = |id: char| format!("160000,{},sub", id.to_string().repeat(40));
    linked.git(&["update-index", "--add", "--cacheinfo", &sub('1')]);
    linked.git(&["commit", "-q", "-m", "Add a submodule"]);
    // As it is, it comes in.
    assert_eq!(linked.pull().way, PullWay::FastForward);
    linked.git(&["update-index", "--cacheinfo", &sub('2')]);
    linked.git(&["commit", "-q", "-m", "Move it"]);
    linked.agent("ada", &[("agent", "work\n")]);
    let refused = linked.try_pull(&PullOptions::default()).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unsupported, "{refused}");
    // What the hint says works.
    linked.push(None).unwrap();
    linked.git(&["merge", "-q", "--no-edit", "offshoot/main"]);
    assert_eq!(linked.pull().way, PullWay::FastForward);
    let entry = linked.git(&["ls-tree", "HEAD", "sub"]);
    assert!(entry.contains(&"2".repeat(40)), "{entry}");
    assert_eq!(linked.head(), linked.at("HEAD"));
    linked.test.check();
}
