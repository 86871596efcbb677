//! Branches and tags: an import keeps them, an export gives them back, and nothing collects them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use offshoot_core::ObjectId;
use offshoot_testkit::{git, git_with_input};

use super::sources::{commit_all, id, write};
use crate::fixture::{TestEngine, user};

/// A repository with branches, and tags of every kind.
fn repository(test: &TestEngine, name: &str) -> PathBuf {
    let source = test.source(name);
    git(&source, &["init", "-q", "-b", "trunk"]);
    write(&source, "a", "one\n");
    commit_all(&source, "first");
    git(&source, &["tag", "light"]);
    git(
        &source,
        &["tag", "-a", "v1", "-m", "annotated\n\nwith a body"],
    );
    git(&source, &["tag", "-a", "of-a-tag", "-m", "of a tag", "v1"]);
    let tagged = git(&source, &["rev-parse", "HEAD"]);
    let signed = format!(
        "object {tagged}\ntype commit\ntag signed\ntagger A <a@b> 1 +0000\n\nsigned\n\
         -----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----\n"
    );
    let made = git_with_input(&source, &["mktag"], signed.as_bytes());
    let made = String::from_utf8(made).unwrap();
    git(&source, &["update-ref", "refs/tags/signed", made.trim()]);
    git(&source, &["tag", "of-a-tree", "HEAD^{tree}"]);
    git(&source, &["tag", "of-a-file", "HEAD:a"]);
    git(&source, &["checkout", "-q", "-b", "side/deep"]);
    write(&source, "secret", "on the side\n");
    commit_all(&source, "side");
    git(&source, &["tag", "-a", "side-1", "-m", "side"]);
    git(&source, &["checkout", "-q", "trunk"]);
    write(&source, "a", "two\n");
    commit_all(&source, "second");
    git(&source, &["pack-refs", "--all"]);
    git(&source, &["branch", "loose"]);
    source
}

/// Every branch and tag with its object and what it leads to.
fn refs(repository: &Path) -> String {
    let format = "%(refname) %(objectname) %(*objectname)";
    let args = [
        "for-each-ref",
        &format!("--format={format}"),
        "refs/heads",
        "refs/tags",
    ];
    git(repository, &args)
}

fn exported(test: &TestEngine, name: &str, to: &str) -> PathBuf {
    let out = test.host.path().join(to);
    test.export(name, None, &out).unwrap();
    git(&out, &["fsck", "--strict", "--full"]);
    out
}

#[test]
fn branches_and_tags_survive_import_and_export_byte_for_byte() {
    let test = TestEngine::best();
    let source = repository(&test, "repository");
    let imported = test.import_git("p", &source).unwrap();
    assert_eq!(imported.refs_left_out, []);
    let counts = test.engine.projects.ref_counts(&id("p")).unwrap();
    assert_eq!(
        (counts.branch.as_str(), counts.other_branches, counts.tags),
        ("trunk", 2, 7)
    );
    let out = exported(&test, "p", "out.git");
    assert_eq!(refs(&out), refs(&source));
    assert_eq!(git(&out, &["symbolic-ref", "HEAD"]), "refs/heads/trunk");
    let signed = |repository: &Path| git(repository, &["cat-file", "tag", "signed"]);
    assert_eq!(signed(&out), signed(&source));
    // Only the branch is what forks begin with; the others are reached by nothing else.
    test.check();
    let upkeep = &test.engine.upkeep;
    upkeep.collect_garbage(Duration::ZERO).unwrap();
    test.check();
    assert_eq!(refs(&exported(&test, "p", "later.git")), refs(&source));
    // A workspace keeps the branch that it always had.
    let (fork, _) = test.fork(&id("p"), "ada");
    let place = test.host.path().join("fork.git");
    test.engine
        .workspaces
        .export_git(&fork, &place, &mut |_| {})
        .unwrap();
    assert_eq!(git(&place, &["symbolic-ref", "HEAD"]), "refs/heads/main");
}

#[test]
fn a_ref_that_cannot_be_read_is_left_out_and_the_import_goes_on() {
    let test = TestEngine::best();
    let source = repository(&test, "repository");
    let lost = git(&source, &["rev-parse", "side/deep"]);
    git(&source, &["gc", "-q"]);
    let place = source
        .join(".git/objects")
        .join(&lost[..2])
        .join(&lost[2..]);
    // Out of the pack, and away.
    let pack = std::fs::read_dir(source.join(".git/objects/pack")).unwrap();
    let pack = pack
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "pack"));
    let bytes = std::fs::read(pack.as_ref().unwrap()).unwrap();
    for end in ["pack", "idx", "rev"] {
        let _ = std::fs::remove_file(pack.as_ref().unwrap().with_extension(end));
    }
    git_with_input(&source, &["unpack-objects", "-q"], &bytes);
    std::fs::remove_file(place).unwrap();
    let imported = test.import_git("p", &source).unwrap();
    let names: Vec<&str> = imported
        .refs_left_out
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["refs/heads/side/deep", "refs/tags/side-1"]);
    exported(&test, "p", "out.git");
    test.check();
}

/// A tag says that what it names is the same for ever, so it goes when that is written anew.
#[test]
fn a_purge_writes_branches_anew_and_drops_the_tags_of_what_it_wrote_anew() {
    let test = TestEngine::best();
    let source = repository(&test, "repository");
    test.import_git("p", &source).unwrap();
    let secret: ObjectId = git(&source, &["rev-parse", "side/deep:secret"])
        .parse()
        .unwrap();
    let purged = test.engine.upkeep.purge_content(secret, &user()).unwrap();
    assert_eq!(
        purged.tags,
        [("p".to_owned(), "refs/tags/side-1".to_owned())]
    );
    let out = exported(&test, "p", "out.git");
    let there = git(&out, &["show", "side/deep:secret"]);
    assert_eq!(there, "This content was purged.");
    let kept = git(&out, &["tag", "--list"]);
    assert_eq!(kept.lines().count(), 6, "{kept}");
    assert_eq!(
        git(&out, &["rev-parse", "trunk"]),
        git(&source, &["rev-parse", "trunk"])
    );
    test.check();
}
