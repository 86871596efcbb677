//! What an agent commits with git in its fork comes along as history, and merges say who did them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{Cause, ErrorCode, ObjectId, Operator, ProjectId, WorkspaceId};
use offshoot_engine::{
    Author, AuthorSetting, CompleteOptions, Completed, ForkOptions, Landing, MergeSettings,
    Resolution,
};
use offshoot_fs::ProviderName;
use offshoot_testkit::git_command;

/// Runs git in a fork as an agent does.
fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = git_command(dir);
    for role in ["AUTHOR", "COMMITTER"] {
        command.env_remove(format!("GIT_{role}_NAME"));
        command.env_remove(format!("GIT_{role}_EMAIL"));
    }
    let output = command.args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {said}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

fn fork(test: &TestEngine, project: &ProjectId, agent: &str) -> (WorkspaceId, PathBuf) {
    let options = ForkOptions {
        agent: Some(agent.parse().unwrap()),
        git: true,
        ..ForkOptions::default()
    };
    let forks = &test.engine.forks;
    let (fork, path) = forks.fork_out(project, &options, &user()).unwrap();
    (fork.workspace.id, path)
}

fn commit(dir: &Path, path: &str, text: &str, message: &str) -> ObjectId {
    fs::write(dir.join(path), text).unwrap();
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "-m", message]);
    git(dir, &["rev-parse", "HEAD"]).parse().unwrap()
}

fn complete(test: &TestEngine, id: &WorkspaceId) -> Completed {
    let options = CompleteOptions::default();
    test.engine.merges.complete(id, &options, &user()).unwrap()
}

/// A bare repository with what the project has, which git finds nothing wrong with.
fn exported(test: &TestEngine, project: &ProjectId, name: &str) -> PathBuf {
    let place = test.host.path().join(name);
    test.engine
        .workspaces
        .export_project_git(project, &place, None, &mut |_| {})
        .unwrap();
    let fsck = git_command(&place)
        .args(["fsck", "--strict", "--full"])
        .output()
        .unwrap();
    assert!(fsck.status.success(), "{fsck:?}");
    place
}

fn set_author(test: &TestEngine, project: Option<&ProjectId>, agent: Option<&str>, author: &str) {
    let setting = AuthorSetting {
        project: project.cloned(),
        agent: agent.map(|agent| agent.parse().unwrap()),
        author: author.parse().unwrap(),
    };
    test.engine.projects.set_author(&setting).unwrap();
}

#[test]
fn commits_of_an_agent_are_parents_of_the_merge() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = fork(&test, &project, "ada");
        let first = commit(&path, "one", "1\n", "Add one\n\nand say why");
        git(&path, &["mv", "README", "READ"]);
        git(&path, &["config", "user.name", "Ada of the fork"]);
        let second = commit(&path, "two", "2\n", "Add two");
        // What is not committed is merged as well.
        fs::write(path.join("three"), "3\n").unwrap();
        let options = CompleteOptions {
            label: Some("Three files".to_owned()),
            ..CompleteOptions::default()
        };
        let plan = test
            .engine
            .merges
            .plan_completion(&id, &options, &user())
            .unwrap();
        assert_eq!((plan.commits.count, plan.commits.tips), (2, vec![second]));
        let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert_eq!(done.commits.count, 2);
        assert_eq!(done.commits.tips, [second]);
        assert_eq!(done.commits.left_out, []);
        assert_eq!(test.project_text(&project, "three"), "3\n");

        let place = exported(&test, &project, "out.git");
        let log = git(&place, &["log", "-1", "--format=%P|%an <%ae>|%cn|%s"]);
        let base = git(&place, &["rev-parse", "main^1"]);
        assert_eq!(
            log,
            format!("{base} {second}|ada <ada@offshoot.invalid>|Offshoot|Three files")
        );
        assert_eq!(
            git(&place, &["log", "-1", "--format=%(trailers:only,unfold)"]),
            "Offshoot-Agent: ada\nOffshoot-Workspace: ada"
        );
        assert_eq!(
            git(&place, &["log", "--format=%H %an %s", "main^1..main^2"]),
            format!("{second} Ada of the fork Add two\n{first} ada Add one")
        );
        assert_eq!(
            git(&place, &["show", "-s", "--format=%b", &first.to_hex()]),
            "and say why"
        );
        // They are history: no fork begins with one of them, nor does a reader see one as a snapshot.
        for commit in [first, second] {
            let options = ForkOptions {
                at: Some(commit.to_hex()),
                ..ForkOptions::default()
            };
            let refused = test.engine.forks.fork_out(&project, &options, &user());
            assert_eq!(refused.unwrap_err().code(), ErrorCode::SnapshotNotFound);
        }
        test.check();
        // Nothing collects them.
        let upkeep = &test.engine.upkeep;
        upkeep.collect_garbage(std::time::Duration::ZERO).unwrap();
        exported(&test, &project, "again.git");
        // Asking again gives the same answer.
        let again = test.engine.merges.complete(&id, &options, &user()).unwrap();
        assert_eq!(again.commits, done.commits);
        // The next fork has them in its history.
        let (_, path) = fork(&test, &project, "bob");
        assert!(git(&path, &["log", "--format=%s"]).contains("Add one"));
    });
}

#[test]
fn packed_merged_and_moved_commits_come_along() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = fork(&test, &project, "ada");
        commit(&path, "one", "1\n", "one");
        git(&path, &["checkout", "-q", "-b", "side"]);
        let side = commit(&path, "side", "s\n", "side");
        git(&path, &["checkout", "-q", "ada"]);
        commit(&path, "two", "2\n", "two");
        git(&path, &["merge", "-q", "--no-ff", "-m", "joined", "side"]);
        for round in 0..30 {
            commit(&path, "many", &"line\n".repeat(round), "many");
        }
        git(&path, &["gc", "-q", "--prune=now"]);
        let tip = commit(&path, "loose", "l\n", "loose");
        // The project moves on, and the fork moves onto it: the commits are on another branch then.
        test.put(&project, "elsewhere", "new\n");
        test.engine.merges.update(&id, false, &user()).unwrap();
        assert_ne!(git(&path, &["rev-parse", "HEAD"]), tip.to_hex());
        let after = commit(&path, "after", "a\n", "after");
        let done = complete(&test, &id);
        assert_eq!(done.commits.left_out, []);
        assert_eq!(done.commits.count, 36);
        let mut tips = done.commits.tips.clone();
        tips.sort();
        let mut expected = [tip, after];
        expected.sort();
        assert_eq!(tips, expected);
        let place = exported(&test, &project, "out.git");
        git(
            &place,
            &["merge-base", "--is-ancestor", &side.to_hex(), "main"],
        );
        git(
            &place,
            &["merge-base", "--is-ancestor", &tip.to_hex(), "main"],
        );
        test.check();
    });
}

#[test]
fn a_kept_fork_brings_each_commit_once() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (id, path) = fork(&test, &project, "ada");
    commit(&path, "one", "1\n", "one");
    let keep = CompleteOptions {
        keep: true,
        ..CompleteOptions::default()
    };
    let first = test.engine.merges.complete(&id, &keep, &user()).unwrap();
    assert_eq!(first.commits.count, 1);
    let second = commit(&path, "two", "2\n", "two");
    let done = test.engine.merges.complete(&id, &keep, &user()).unwrap();
    assert_eq!(
        (done.commits.count, &done.commits.tips[..]),
        (1, &[second][..])
    );
    fs::write(path.join("three"), "3\n").unwrap();
    let done = test.engine.merges.complete(&id, &keep, &user()).unwrap();
    assert_eq!(done.commits.count, 0);
    let place = exported(&test, &project, "out.git");
    assert_eq!(
        git(&place, &["rev-list", "--count", "--merges", "main"]),
        "2"
    );
}

#[test]
fn a_merge_that_waits_keeps_its_commits_and_its_label() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let atomic = MergeSettings {
        landing: Landing::Atomic,
        ..test.engine.projects.merge_settings(&project).unwrap()
    };
    let projects = &test.engine.projects;
    projects
        .set_merge_settings(&project, &atomic, &user())
        .unwrap();
    let (id, path) = fork(&test, &project, "ada");
    let tip = commit(&path, "README", "by ada\n", "mine");
    test.put(&project, "README", "by me\n");
    let options = CompleteOptions {
        label: Some("The readme".to_owned()),
        ..CompleteOptions::default()
    };
    let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
    assert_eq!((done.snapshot, done.commits.count), (None, 1));
    // What waits is kept, whatever becomes of the fork's own `.git`.
    fs::remove_dir_all(path.join(".git/objects")).unwrap();
    let upkeep = &test.engine.upkeep;
    upkeep.collect_garbage(std::time::Duration::ZERO).unwrap();
    test.check();
    let review = done.conflicts[0].review_id.clone().unwrap();
    let boss = Cause::by(Operator::new("grace"));
    set_author(&test, None, Some("grace"), "Grace <grace@example.com>");
    test.engine
        .merges
        .resolve(&review, Resolution::Theirs, &boss)
        .unwrap();
    let place = exported(&test, &project, "out.git");
    let log = git(&place, &["log", "-1", "--format=%P|%an <%ae>|%s"]);
    assert!(log.contains(&tip.to_hex()), "{log}");
    assert!(
        log.ends_with("|Grace <grace@example.com>|The readme"),
        "{log}"
    );
    test.check();
}

#[test]
fn authors_are_set_for_agents_and_projects() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    set_author(
        &test,
        Some(&project),
        None,
        "{agent} of web <{agent}@web.example>",
    );
    set_author(
        &test,
        None,
        Some("ada"),
        "Ada \"L\" Lovelace <ada@example.com>",
    );
    let (ada, path) = fork(&test, &project, "ada");
    commit(&path, "one", "1\n", "one");
    complete(&test, &ada);
    let (bob, path) = test.fork(&project, "bob~2");
    fs::write(path.join("two"), "2\n").unwrap();
    complete(&test, &bob);
    let place = exported(&test, &project, "out.git");
    assert_eq!(
        git(
            &place,
            &["log", "-2", "--first-parent", "--format=%an <%ae>"]
        ),
        "bob~2 of web <bob-2@web.example>\nAda \"L\" Lovelace <ada@example.com>"
    );
    assert_eq!(
        git(&place, &["log", "-1", "--format=%an <%ae>", "main^^2"]),
        "Ada \"L\" Lovelace <ada@example.com>"
    );
    for bad in [
        "no address",
        "<a@b>",
        "a <b\n@c>",
        "a\u{202e}b <c@d>",
        "a <>",
    ] {
        let refused = bad.parse::<Author>().unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidRequest, "{bad:?}");
    }
    let ada = "ada".parse().unwrap();
    let projects = &test.engine.projects;
    assert!(projects.remove_author(None, Some(&ada)).unwrap());
    assert!(!projects.remove_author(None, Some(&ada)).unwrap());
    assert_eq!(projects.authors().unwrap().len(), 1);
}

/// Only what is checked out comes along: what goes with the fork is told.
#[test]
fn commits_of_other_branches_and_tags_are_named_in_the_receipt() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (id, path) = fork(&test, &project, "ada");
    git(&path, &["checkout", "-q", "-b", "team/side"]);
    let side = commit(&path, "side", "s\n", "side");
    git(&path, &["tag", "-a", "-m", "same", "same-as-side"]);
    git(&path, &["checkout", "-q", "--detach", "main"]);
    let tagged = commit(&path, "tagged", "t\n", "tagged");
    git(&path, &["tag", "-a", "-m", "v1", "v1"]);
    git(&path, &["checkout", "-q", "-b", "joined", "main"]);
    commit(&path, "joined", "j\n", "joined");
    git(&path, &["checkout", "-q", "ada"]);
    let left_out = |keep: bool| {
        let options = CompleteOptions {
            keep,
            ..CompleteOptions::default()
        };
        let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
        let told = done.commits.left_out.into_iter();
        told.map(|one| (one.id.unwrap(), one.reason))
            .collect::<Vec<_>>()
    };
    let rest = ": only the checked-out branch comes along";
    let of_side = (side, format!("on the branch `team/side`{rest}"));
    let of_tag = (tagged, format!("with the tag `v1`{rest}"));
    // Nothing is committed where the agent is.
    fs::write(path.join("plain"), "p\n").unwrap();
    assert_eq!(left_out(true).len(), 3);
    git(&path, &["add", "-A"]);
    git(&path, &["merge", "-q", "--no-ff", "-m", "both", "joined"]);
    git(&path, &["pack-refs", "--all"]);
    assert_eq!(left_out(true), [of_side.clone(), of_tag.clone()]);
    // What an earlier merge brought is not told again.
    commit(&path, "more", "m\n", "more");
    assert_eq!(left_out(false), [of_side, of_tag]);
}

/// What an agent does to its `.git` before it completes.
type Trick = fn(&Path);

/// A loose object of this kind, whatever it holds.
fn forge(git_dir: &Path, kind: &str, content: &[u8]) -> String {
    let work = git_dir.parent().unwrap();
    let args = ["hash-object", "-t", kind, "--literally", "-w", "--stdin"];
    let id = offshoot_testkit::git_with_input(work, &args, content);
    String::from_utf8(id).unwrap().trim().to_owned()
}

fn point_at(git_dir: &Path, commit: &str) {
    let head = fs::read_to_string(git_dir.join("HEAD")).unwrap();
    let branch = head.trim().strip_prefix("ref: ").unwrap();
    fs::write(git_dir.join(branch), format!("{commit}\n")).unwrap();
}

fn head_of(git_dir: &Path) -> String {
    git(git_dir.parent().unwrap(), &["rev-parse", "HEAD"])
}

fn loose(git_dir: &Path, id: &str) -> PathBuf {
    git_dir.join("objects").join(&id[..2]).join(&id[2..])
}

fn raw_commit(git_dir: &Path, tree: &str, person: &str) -> String {
    let parent = head_of(git_dir);
    let text = format!("tree {tree}\nparent {parent}\nauthor {person}\ncommitter {person}\n\nx\n");
    forge(git_dir, "commit", text.as_bytes())
}

const PERSON: &str = "a <a@b> 1 +0000";

fn entry(mode: &str, name: &str, id: &str) -> Vec<u8> {
    let id: ObjectId = id.parse().unwrap();
    [format!("{mode} {name}\0").as_bytes(), id.as_bytes()].concat()
}

/// Each trick, and what the receipt says about it.
const TRICKS: &[(&str, Trick)] = &[
    ("does not come from", |git_dir| {
        // A history of its own.
        let work = git_dir.parent().unwrap();
        git(work, &["checkout", "-q", "--orphan", "alone"]);
        git(work, &["commit", "-q", "-m", "alone"]);
    }),
    ("git would take it for a `.git`", |git_dir| {
        let blob = forge(git_dir, "blob", b"[core]\n\tfsmonitor = evil\n");
        let inner = forge(git_dir, "tree", &entry("100644", "config", &blob));
        let tree = forge(git_dir, "tree", &entry("40000", ".GiT ", &inner));
        let commit = raw_commit(git_dir, &tree, PERSON);
        point_at(git_dir, &commit);
    }),
    ("the date begins with 0", |git_dir| {
        let tree = git(git_dir.parent().unwrap(), &["rev-parse", "HEAD^{tree}"]);
        let commit = raw_commit(git_dir, &tree, "a <a@b> 01 +0000");
        point_at(git_dir, &commit);
    }),
    ("names what only that snapshot has", |git_dir| {
        // A commit that claims to be a snapshot, with a sidecar that is none.
        let id = head_of(git_dir);
        let text = git(git_dir.parent().unwrap(), &["cat-file", "commit", &id]);
        let header = format!("\noffshoot-sidecar {id}\n\n");
        let text = text.replacen("\n\n", &header, 1) + "\n";
        let commit = forge(git_dir, "commit", text.as_bytes());
        point_at(git_dir, &commit);
    }),
    ("has another content", |git_dir| {
        // A commit under the id of another one.
        let work = git_dir.parent().unwrap();
        let id = head_of(git_dir);
        git(work, &["commit", "-q", "--allow-empty", "-m", "forged"]);
        let forged = head_of(git_dir);
        let place = loose(git_dir, &id);
        fs::remove_file(&place).unwrap();
        fs::copy(loose(git_dir, &forged), &place).unwrap();
    }),
    ("is missing", |git_dir| {
        // An object that is behind a link, outside.
        let id = head_of(git_dir);
        let away = git_dir.parent().unwrap().parent().unwrap().join("away");
        fs::copy(loose(git_dir, &id), &away).unwrap();
        fs::remove_file(loose(git_dir, &id)).unwrap();
        std::os::unix::fs::symlink(&away, loose(git_dir, &id)).unwrap();
    }),
    ("is missing", |git_dir| {
        // A pipe that nobody writes to.
        let id = head_of(git_dir);
        fs::remove_file(loose(git_dir, &id)).unwrap();
        let place = loose(git_dir, &id);
        let made = std::process::Command::new("mkfifo").arg(&place).status();
        assert!(made.unwrap().success());
    }),
    ("is missing", |git_dir| {
        // Objects that only another repository has.
        let other = git_dir.join("other");
        fs::create_dir(&other).unwrap();
        let id = head_of(git_dir);
        fs::create_dir_all(other.join(&id[..2])).unwrap();
        fs::rename(loose(git_dir, &id), other.join(&id[..2]).join(&id[2..])).unwrap();
        let info = git_dir.join("objects/info");
        fs::create_dir_all(&info).unwrap();
        fs::write(info.join("alternates"), format!("{}\n", other.display())).unwrap();
    }),
    ("is missing", |git_dir| {
        // A tree that names a file which the store has and the agent does not.
        let tree = entry("100644", "stolen", SECRET);
        let tree = forge(git_dir, "tree", &tree);
        let commit = raw_commit(git_dir, &tree, PERSON);
        point_at(git_dir, &commit);
    }),
    ("is no tree", |git_dir| {
        // A file that is a directory elsewhere, and one that the base has as a file.
        let blob = forge(git_dir, "blob", b"both\n");
        let both = [entry("100644", "a", &blob), entry("40000", "b", &blob)].concat();
        let tree = forge(git_dir, "tree", &both);
        let commit = raw_commit(git_dir, &tree, PERSON);
        point_at(git_dir, &commit);
    }),
    ("is no tree", |git_dir| {
        let blob = git(git_dir.parent().unwrap(), &["rev-parse", "HEAD:README"]);
        let tree = forge(git_dir, "tree", &entry("40000", "README", &blob));
        let commit = raw_commit(git_dir, &tree, PERSON);
        point_at(git_dir, &commit);
    }),
    ("too large", |git_dir| {
        // A file of nothing that takes a lot of memory.
        let work = git_dir.parent().unwrap();
        let big = fs::File::create(work.join("bomb")).unwrap();
        big.set_len(80 << 20).unwrap();
        git(work, &["-c", "core.compression=9", "add", "bomb"]);
        git(work, &["commit", "-q", "-m", "bomb"]);
        git(work, &["rm", "-q", "--cached", "bomb"]);
        fs::remove_file(work.join("bomb")).unwrap();
    }),
    ("", |git_dir| {
        // Nothing that can be read at all.
        fs::write(git_dir.join("HEAD"), vec![b'x'; 1 << 20]).unwrap();
    }),
    ("", |git_dir| {
        fs::write(
            git_dir.join("HEAD"),
            "ref: refs/heads/../../../../etc/passwd\n",
        )
        .unwrap();
    }),
    ("", |git_dir| {
        fs::remove_dir_all(git_dir).unwrap();
        std::os::unix::fs::symlink("/", git_dir).unwrap();
    }),
];

/// The id of a file that another project has.
const SECRET: &str = "e858a30a4c67f5c78b6de1e8c6e41e9a31ee27df";

#[test]
fn hostile_repositories_bring_nothing_and_the_merge_lands() {
    let test = TestEngine::best();
    let secret = test.project("secret");
    test.put(&secret, "secret", "the secret of somebody else\n");
    for (number, (why, trick)) in TRICKS.iter().enumerate() {
        let project = test.project(&format!("web-{number}"));
        let (id, path) = fork(&test, &project, &format!("ada-{number}"));
        commit(&path, "one", "1\n", "mine");
        let git_dir = path.join(".git");
        // Settings and hooks that must not run.
        let evil = path.parent().unwrap().join("evil");
        let config = format!(
            "{}[core]\n\tfsmonitor = touch {}\n",
            fs::read_to_string(git_dir.join("config")).unwrap(),
            evil.display()
        );
        trick(&git_dir);
        if git_dir.join("config").is_file() {
            fs::write(git_dir.join("config"), config).unwrap();
        }
        let done = complete(&test, &id);
        assert!(done.snapshot.is_some(), "{why}");
        assert_eq!(test.project_text(&project, "one"), "1\n", "{why}");
        let told = format!("{:?}", done.commits.left_out);
        assert!(told.contains(why), "{number}: {why}: {told}");
        assert!(!told.contains(&*path.to_string_lossy()), "{told}");
        assert!(!evil.exists());
        let place = exported(&test, &project, &format!("{number}.git"));
        let merged = git(&place, &["rev-list", "--count", "main"]);
        // The commit before the trick, if it can be read, and nothing of the trick itself.
        assert!(done.commits.count <= 1, "{number}: {done:?}");
        assert!(merged.parse::<usize>().unwrap() <= 8, "{merged}");
    }
    test.check();
}

#[test]
fn a_commit_that_is_refused_takes_those_after_it_along_and_not_those_before() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (id, path) = fork(&test, &project, "ada");
    let good = commit(&path, "one", "1\n", "good");
    let git_dir = path.join(".git");
    let tree = git(&path, &["rev-parse", "HEAD^{tree}"]);
    let bad = raw_commit(&git_dir, &tree, "a <a@b> 1 +00");
    point_at(&git_dir, &bad);
    commit(&path, "two", "2\n", "after");
    let done = complete(&test, &id);
    assert_eq!(
        (done.commits.count, &done.commits.tips[..]),
        (1, &[good][..])
    );
    assert_eq!(done.commits.left_out.len(), 2, "{done:?}");
    exported(&test, &project, "out.git");
    assert_eq!(test.project_text(&project, "two"), "2\n");
    assert_eq!(done.merged, [p("one"), p("two")]);
}
