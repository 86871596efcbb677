//! Files that `.worktreeinclude` names: in each fork, and in nothing else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use offshoot_engine::{CompleteOptions, ForkOptions, Included};

use super::repository::Linked;
use crate::fixture::{p, user};

/// A linked repository with ignored files in its work tree.
fn linked() -> Linked {
    let linked = Linked::unlinked();
    let rules = ".env*\n*.key\nnode_modules/\n/secrets/\n!.env.example\n";
    linked.commit(&[
        (".gitignore", rules),
        (".env.example", "KEY=\n"),
        ("service/code", "code\n"),
    ]);
    linked.link(None);
    linked
}

fn put(linked: &Linked, path: &str, content: &str) {
    let path = linked.repo.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn fork(linked: &Linked, agent: &str) -> (std::path::PathBuf, Included) {
    let options = ForkOptions {
        agent: Some(agent.parse().unwrap()),
        ..ForkOptions::default()
    };
    let forks = &linked.test.engine.forks;
    let (fork, path) = forks.fork_out(&linked.app, &options, &user()).unwrap();
    (path, fork.included)
}

fn text(path: impl AsRef<std::path::Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn each_fork_gets_them_and_no_snapshot_merge_or_project_does() {
    let linked = linked();
    assert_eq!(fork(&linked, "before").1, Included::default());
    let lines = "# comment\n.env*\n/secrets/\n!.env.test\nREADME\nconf.txt\n";
    put(&linked, ".worktreeinclude", lines);
    put(&linked, ".env", "KEY=1\n");
    put(&linked, ".env.test", "KEY=t\n");
    put(&linked, "service/.env.local", "KEY=2\n");
    put(&linked, "secrets/deep/a.pem", "pem\n");
    put(&linked, "other.key", "not named\n");
    put(
        &linked,
        "node_modules/x/.env",
        "not in what is ignored as a whole\n",
    );
    put(&linked, "conf.txt", "named and not ignored\n");
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(linked.repo.join(".env"), mode).unwrap();

    let (path, included) = fork(&linked, "ada");
    let files = [p(".env"), p("secrets/deep/a.pem"), p("service/.env.local")];
    assert_eq!(included.files, files);
    assert_eq!(included.left_out.len(), 1, "{:?}", included.left_out);
    assert_eq!(included.left_out[0].0, p("conf.txt"));
    assert_eq!(text(path.join(".env")), "KEY=1\n");
    assert_eq!(text(path.join("secrets/deep/a.pem")), "pem\n");
    let mode = fs::metadata(path.join(".env"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    for absent in [".env.test", "other.key", "node_modules", "conf.txt"] {
        assert!(!path.join(absent).exists(), "{absent}");
    }
    let test = &linked.test;
    let ada = "ada".parse().unwrap();
    assert!(test.changes(&ada).is_empty());

    // A fork without a directory gets them when the directory is made.
    let options = ForkOptions {
        agent: Some("lazy".parse().unwrap()),
        ..ForkOptions::default()
    };
    let lazy = test
        .engine
        .forks
        .fork(&linked.app, &options, &user())
        .unwrap();
    let lazy = test
        .engine
        .workspaces
        .hand_out_path(&lazy.workspace.id)
        .unwrap();
    assert_eq!(text(lazy.join("service/.env.local")), "KEY=2\n");

    // They follow an update, also what the agent made of them.
    fs::write(path.join(".env"), "KEY=mine\n").unwrap();
    fs::write(path.join("README"), "changed\n").unwrap();
    test.put(&linked.app, "newer", "newer\n");
    test.engine.merges.update(&ada, false, &user()).unwrap();
    assert_eq!(text(path.join(".env")), "KEY=mine\n");
    // Not even a merge that takes ignored files takes them.
    fs::write(path.join("own.key"), "own\n").unwrap();
    let options = CompleteOptions {
        include_ignored: true,
        ..CompleteOptions::default()
    };
    let done = test
        .engine
        .merges
        .complete(&ada, &options, &user())
        .unwrap();
    assert_eq!(done.merged, [p("README"), p("own.key")]);
    let image = format!("{:?}", test.project_image(&linked.app, None).keys());
    assert!(
        !image.contains("secrets") && !image.contains("env.local"),
        "{image}"
    );
    linked.check();
}

#[test]
fn an_agent_that_changes_the_rules_does_not_bring_them_in() {
    let linked = linked();
    put(&linked, ".worktreeinclude", ".env\n/secrets/\n");
    put(&linked, ".env", "KEY=1\n");
    put(&linked, "secrets/a.pem", "pem\n");
    let (path, _) = fork(&linked, "ada");
    let test = &linked.test;
    let ada: offshoot_core::WorkspaceId = "ada".parse().unwrap();
    // The rules go, here and in the project, and the person's own file does as well.
    fs::write(path.join(".gitignore"), "").unwrap();
    fs::write(path.join(".env"), "KEY=1 and more\n").unwrap();
    fs::remove_file(linked.repo.join(".worktreeinclude")).unwrap();
    test.put(&linked.app, "newer", "newer\n");
    test.engine.merges.update(&ada, false, &user()).unwrap();
    assert_eq!(text(path.join(".env")), "KEY=1 and more\n");
    let top = offshoot_core::RelPath::root();
    let archive = test.engine.workspaces.open_archive(&ada, &top).unwrap();
    let held = |name: &str| archive.entries.iter().any(|one| one.path == p(name));
    assert!(held("newer") && !held(".env") && !held("secrets/a.pem"));
    let options = CompleteOptions {
        include_ignored: true,
        ..CompleteOptions::default()
    };
    let done = test.engine.merges.complete(&ada, &options, &user());
    let merged: Vec<String> = (done.unwrap().merged.iter())
        .map(offshoot_core::RelPath::to_text)
        .collect();
    assert!(merged.contains(&".gitignore".to_owned()));
    let secret = |path: &String| path.contains(".env") || path.contains("pem");
    assert!(!merged.iter().any(secret), "{merged:?}");
    let image = format!("{:?}", test.project_image(&linked.app, None));
    assert!(
        !image.contains("pem") && !image.contains("KEY=1"),
        "{image}"
    );
    test.check();
}

#[test]
fn a_hostile_file_names_nothing_outside_and_nothing_special() {
    let linked = linked();
    let outside = linked.test.host.path().join("outside.key");
    fs::write(&outside, "outside\n").unwrap();
    let lines = "../outside.key\n../../../../etc/passwd\n/etc/passwd\n*.key\n.git/config\n\
                 /secrets/\n.env\n\\\n[\n";
    put(&linked, ".worktreeinclude", lines);
    let repo = &linked.repo;
    symlink(&outside, repo.join("link.key")).unwrap();
    symlink("/etc", repo.join("secrets")).unwrap();
    let fifo = Command::new("mkfifo").arg(repo.join("fifo.key")).status();
    assert!(fifo.unwrap().success());
    let huge = fs::File::create(repo.join("huge.key")).unwrap();
    huge.set_len(1 << 40).unwrap();
    put(&linked, "good.key", "good\n");
    let (path, included) = fork(&linked, "ada");
    assert_eq!(included.files, [p("good.key")]);
    let left_out: Vec<_> = included
        .left_out
        .iter()
        .map(|one| one.0.to_text())
        .collect();
    assert_eq!(left_out, ["fifo.key", "huge.key", "link.key"]);
    for absent in ["link.key", "fifo.key", "huge.key", "secrets", "etc", ".git"] {
        assert!(fs::symlink_metadata(path.join(absent)).is_err(), "{absent}");
    }

    // A link of the project where a directory would be is not written through.
    let escape = linked.test.host.path().join("escape");
    fs::create_dir(&escape).unwrap();
    let target = escape.to_str().unwrap();
    symlink(target, repo.join("away")).unwrap();
    linked.git(&["add", "away"]);
    linked.commit(&[("README", "with a link\n")]);
    linked.pull();
    fs::remove_file(repo.join("away")).unwrap();
    put(&linked, "away/.env", "KEY=1\n");
    let (_, included) = fork(&linked, "bob");
    assert_eq!(included.files, [p("good.key")]);
    assert_eq!(fs::read_dir(&escape).unwrap().count(), 0);

    // One that the person links elsewhere is none, and neither is a repository that is gone.
    fs::remove_file(repo.join(".worktreeinclude")).unwrap();
    symlink(&outside, repo.join(".worktreeinclude")).unwrap();
    assert_eq!(fork(&linked, "cyd").1, Included::default());
    fs::rename(repo, repo.with_extension("moved")).unwrap();
    assert_eq!(fork(&linked, "dan").1, Included::default());
    fs::rename(repo.with_extension("moved"), repo).unwrap();
    linked.check();
}
