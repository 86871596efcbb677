//! A fork that is a mount becomes a copy, with all of its changes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::fixture::{TestEngine, p, user, working};
use offshoot_core::ErrorCode;
use offshoot_engine::{CompleteOptions, ForkOptions, ProviderName};
use offshoot_testkit::{HostDir, dir_image, skip};

fn with_overlay() -> Option<TestEngine> {
    if !working(HostDir::new().path()).contains(&ProviderName::Overlay) {
        skip("overlays do not work here");
        return None;
    }
    Some(TestEngine::new(ProviderName::Overlay))
}

fn run(program: &str, args: &[&str]) {
    let status = Command::new(program).args(args).status().unwrap();
    assert!(status.success(), "{program} {args:?}");
}

/// Changes of every kind that an overlay represents in its own way.
fn work_in(path: &Path) {
    fs::write(path.join("README"), "changed\n").unwrap();
    fs::rename(path.join("src"), path.join("renamed")).unwrap();
    fs::write(path.join("renamed/lib.rs"), "changed after the move\n").unwrap();
    fs::remove_dir_all(path.join("docs")).unwrap();
    fs::create_dir(path.join("docs")).unwrap();
    fs::write(
        path.join("docs/new"),
        "in a directory that was made again\n",
    )
    .unwrap();
    fs::create_dir_all(path.join("target/debug")).unwrap();
    fs::write(path.join("target/debug/out"), "ignored\n").unwrap();
    fs::create_dir(path.join("empty")).unwrap();
    symlink("README", path.join("link")).unwrap();
    let tool = path.join("tool");
    fs::write(&tool, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let tool = fs::File::options().write(true).open(tool).unwrap();
    tool.set_modified(old).unwrap();
}

/// Without its work directory an overlay cannot be mounted; its upper is whole.
fn break_mounts(test: &TestEngine, fork: &str) {
    let work = test.host.path().join(format!("data/forks/{fork}.1/work"));
    fs::remove_dir_all(&work).unwrap();
    symlink("/proc", &work).unwrap();
}

#[test]
fn a_fork_that_cannot_be_mounted_becomes_a_copy_and_loses_nothing() {
    let Some(mut test) = with_overlay() else {
        return;
    };
    let web = test.project("web");
    let (id, path) = test.fork(&web, "one");
    work_in(&path);
    let before = dir_image(&path);
    let modified = fs::metadata(path.join("tool")).unwrap().modified().unwrap();
    let changes = test.changes(&id);
    // A change that is not recorded when the mount breaks.
    fs::write(path.join("late"), "late\n").unwrap();
    let expected = dir_image(&path);
    assert_eq!(expected.len(), before.len() + 1);

    test.close();
    run("umount", &[path.to_str().unwrap()]);
    break_mounts(&test, "one");
    test.reopen();
    let error = test.engine.sync.changes(&id).unwrap_err();
    assert!(error.message().contains("cannot be mounted"), "{error}");
    let hint = error.hint().unwrap();
    assert!(
        hint.contains("offshoot workspace convert one --provider copy"),
        "{hint}"
    );
    // An overview of forks says so instead of failing.
    let overview = test.engine.merges.overview(Some(&web), true).unwrap();
    assert!(overview[0].not_looked_at.is_some());

    let converted = test
        .engine
        .forks
        .convert_fork(&id, ProviderName::Copy)
        .unwrap();
    assert!(converted.converted && converted.left_out.is_empty());
    let found = dir_image(&path);
    assert_eq!(found, expected);
    assert_eq!(
        fs::metadata(path.join("tool")).unwrap().modified().unwrap(),
        modified
    );
    let mut with_late = changes;
    with_late.push(("late".to_owned(), offshoot_core::ChangeKind::Added));
    with_late.sort();
    assert_eq!(test.changes(&id), with_late);

    // A second conversion does nothing; later operations work as in any fork.
    assert!(
        !test
            .engine
            .forks
            .convert_fork(&id, ProviderName::Copy)
            .unwrap()
            .converted
    );
    test.reopen();
    fs::write(path.join("later"), "later\n").unwrap();
    test.put(&web, "elsewhere", "by the project\n");
    test.engine.merges.update(&id, false, &user()).unwrap();
    assert!(path.join("later").is_file() && path.join("target/debug/out").is_file());
    test.engine
        .merges
        .complete(&id, &CompleteOptions::default(), &user())
        .unwrap();
    assert_eq!(test.project_text(&web, "renamed/main.rs"), "fn main() {}\n");
    assert_eq!(test.project_text(&web, "late"), "late\n");
    test.check();
}

#[test]
fn the_git_of_a_fork_comes_along_when_it_becomes_a_copy() {
    let Some(test) = with_overlay() else {
        return;
    };
    let web = test.project("web");
    let options = ForkOptions {
        agent: Some("one".parse().unwrap()),
        git: true,
        ..ForkOptions::default()
    };
    let (_, path) = test.engine.forks.fork_out(&web, &options, &user()).unwrap();
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .current_dir(&path)
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    fs::write(path.join("README"), "changed\n").unwrap();
    git(&["commit", "-qam", "mine"]);
    let commit = git(&["rev-parse", "HEAD"]);
    // The mount may be intact: it is unmounted, and no program may use it.
    let id = "one".parse().unwrap();
    let open = fs::File::create(path.join("open")).unwrap();
    let error = test
        .engine
        .forks
        .convert_fork(&id, ProviderName::Copy)
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::WorkspaceBusy);
    drop(open);
    test.engine
        .forks
        .convert_fork(&id, ProviderName::Copy)
        .unwrap();
    assert_eq!(git(&["rev-parse", "HEAD"]), commit);
    assert_eq!(git(&["status", "--short"]), "?? open\n");
    git(&["fsck", "--strict"]);
    test.check();
}

#[test]
fn what_cannot_be_converted_is_refused() {
    let Some(test) = with_overlay() else {
        return;
    };
    let web = test.project("web");
    let (one, _) = test.fork(&web, "one");
    let error = test.engine.forks.convert_fork(&one, ProviderName::Overlay);
    assert_eq!(error.unwrap_err().code(), ErrorCode::InvalidRequest);
    let plain = "plain".parse().unwrap();
    test.engine
        .workspaces
        .create_workspace(
            Some(plain),
            offshoot_core::Layout::Plain,
            offshoot_engine::Quota::default(),
            &user(),
        )
        .unwrap();
    let error = test
        .engine
        .forks
        .convert_fork(&"plain".parse().unwrap(), ProviderName::Copy);
    assert_eq!(error.unwrap_err().code(), ErrorCode::InvalidRequest);
    // A fork without a directory has nothing to move; its directory will be a copy.
    let lazy = test
        .engine
        .forks
        .fork(
            &web,
            &ForkOptions {
                agent: Some("lazy".parse().unwrap()),
                provider: Some(ProviderName::Overlay),
                ..ForkOptions::default()
            },
            &user(),
        )
        .unwrap();
    let id = lazy.workspace.id;
    test.engine
        .forks
        .convert_fork(&id, ProviderName::Copy)
        .unwrap();
    test.engine.workspaces.hand_out_path(&id).unwrap();
    let fork = test.engine.forks.fork_of(&id).unwrap().unwrap();
    assert_eq!(fork.provider, Some(ProviderName::Copy));
    assert_eq!(
        test.engine
            .workspaces
            .read_whole(&id, &p("README"))
            .unwrap()
            .0,
        b"read me\n"
    );
}
