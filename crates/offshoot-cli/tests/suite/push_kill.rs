//! `kill -9` of a server while stock git pushes to it: what was acknowledged is there, and a push
//! that was not is there as a whole or not at all.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use offshoot_testkit::{Process, Rng, git, git_command, soak};

use crate::support::served::{OFFSHOOT, Served, run};

/// Commits in a clone; the last one says which round it is of.
fn commits(clone: &Path, rng: &mut Rng, round: usize) -> String {
    for n in 0..rng.between(1, 4) {
        for _ in 0..rng.between(1, 20) {
            let dir = clone.join(format!("d{}", rng.below(4)));
            std::fs::create_dir_all(&dir).unwrap();
            let mut content = vec![0; rng.between(10, 20_000)];
            rng.fill(&mut content);
            std::fs::write(dir.join(format!("f{}", rng.below(30))), content).unwrap();
        }
        std::fs::write(clone.join(format!("round-{round}")), format!("{n}\n")).unwrap();
        git(clone, &["add", "-A"]);
        git(clone, &["commit", "-q", "-m", &format!("{round} {n}")]);
    }
    git(clone, &["rev-parse", "HEAD"])
}

#[test]
fn push_kill_leaves_refs_and_objects_whole_or_as_before() {
    let rounds = if soak() { 1_000 } else { 10 };
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let source = place.path().join("source");
    let clone = place.path().join("clone");
    std::fs::create_dir(&source).unwrap();
    git(&source, &["init", "-q"]);
    std::fs::write(source.join("README"), "hello\n").unwrap();
    git(&source, &["add", "-A"]);
    git(&source, &["commit", "-q", "-m", "first"]);
    let from = source.to_str().unwrap();
    let (code, _, stderr) = run(&data, &["project", "create", "app", "--from", from]);
    assert_eq!(code, 0, "{stderr}");
    git(place.path(), &["clone", "-q", from, "clone"]);
    let mut rng = Rng::new(20_261_117);
    let (mut kills, mut landed, mut merged) = (0, 0, 0);
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..rounds {
        let mut served = Served::start(&data);
        let url = format!("http://x:{}@{}/git/app.git", served.token, served.address);
        git(&clone, &["fetch", "-q", &url, "main"]);
        git(&clone, &["reset", "-q", "--hard", "FETCH_HEAD"]);
        let tip = commits(&clone, &mut rng, round);
        // Sometimes the project moves while the push is on its way, so that it has to be merged.
        let moves = rng.below(2) == 0;
        meanwhile(&clone, moves.then_some(&*data), round);
        let mut push = Process::spawn(
            git_command(&clone)
                .args(["push", &url, "main"])
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        let limit = Duration::from_millis(rng.below(250) as u64);
        let ended = push.wait_at_most(limit);
        if ended.is_none() {
            served.process.kill_hard();
            kills += 1;
        }
        let is_acknowledged = ended.unwrap_or_else(|| push.wait()).success();
        drop(push);
        drop(served);
        let served = Served::start(&data);
        let url = format!("http://x:{}@{}/git/app.git", served.token, served.address);
        git(&clone, &["fetch", "-q", &url, "main"]);
        let is_ancestor = ["merge-base", "--is-ancestor", &tip, "FETCH_HEAD"];
        let is_there = git_command(&clone).args(is_ancestor).status().unwrap();
        let is_there = is_there.success();
        assert!(is_there || !is_acknowledged, "round {round}: {tip} is lost");
        let has_file = ["cat-file", "-e", &format!("FETCH_HEAD:round-{round}")];
        let has_file = git_command(&clone).args(has_file).output().unwrap();
        assert_eq!(has_file.status.success(), is_there, "round {round}");
        acknowledged.extend(is_acknowledged.then_some(tip));
        landed += usize::from(is_there);
        merged += usize::from(is_there && moves);
        if round % 50 == 0 || round + 1 == rounds {
            check_clone(place.path(), &url, &acknowledged);
        }
    }
    let (code, stdout, stderr) = run(&data, &["check"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let (code, forks, _) = run(&data, &["forks", "app", "--json"]);
    assert_eq!(code, 0);
    assert!(!forks.contains("~push"), "{forks}");
    let left = std::fs::read_dir(data.join("tmp")).unwrap().count();
    assert!(left <= 2, "{left} things are left in tmp/");
    println!(
        "soak: push-kill: {rounds} pushes, {kills} killed on their way, {landed} landed, {merged} of \
         them beside another change; each was there as a whole or not at all"
    );
}

/// A file that is larger than what a server may hold of it, sent as a whole and then as a delta.
#[test]
fn a_large_push_needs_little_memory() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let (code, _, stderr) = run(&data, &["project", "create", "app"]);
    assert_eq!(code, 0, "{stderr}");
    let served = Served::start(&data);
    let url = format!("http://x:{}@{}/git/app.git", served.token, served.address);
    let clone = place.path().join("clone");
    git(place.path(), &["clone", "-q", &url, "clone"]);
    let mut content = vec![0; 160 << 20];
    let before = served.memory("VmHWM");
    for round in 1..=2u8 {
        content[usize::from(round) << 20] = round;
        std::fs::write(clone.join("large"), &content).unwrap();
        git(&clone, &["add", "-A"]);
        git(&clone, &["commit", "-q", "-m", &format!("round {round}")]);
    }
    git(&clone, &["push", "-q", "origin", "main"]);
    let grown = served.memory("VmHWM") - before;
    println!("soak: a push of two files of 160 MiB: {grown} KiB more memory");
    assert!(grown < 100_000, "{grown} KiB");
}

/// A fresh clone is whole and has everything that was acknowledged.
fn check_clone(place: &Path, url: &str, acknowledged: &[String]) {
    let fresh = place.join("fresh");
    git(place, &["clone", "-q", url, "fresh"]);
    git(&fresh, &["fsck", "--strict"]);
    for tip in acknowledged {
        git(&fresh, &["merge-base", "--is-ancestor", tip, "HEAD"]);
    }
    std::fs::remove_dir_all(&fresh).unwrap();
}

/// Changes the project between a look at its refs and the push.
fn meanwhile(clone: &Path, data: Option<&Path>, round: usize) {
    use std::os::unix::fs::PermissionsExt as _;
    let hook = clone.join(".git/hooks/pre-push");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let Some(data) = data else {
        let _ = std::fs::remove_file(&hook);
        return;
    };
    let script = format!(
        "#!/bin/sh\necho {round} | {OFFSHOOT} --data {} --quiet project put app moved-{round} -\n",
        data.display()
    );
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}
