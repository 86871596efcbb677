//! Five agents of an ordinary user, each in a fork of that user's own repository.

use std::process::Stdio;

use super::user::User;

const AGENTS: [&str; 5] = ["ada", "bob", "cy", "dee", "eve"];

/// Runs a script in the repository of the user and gives what it wrote.
#[track_caller]
fn in_repository(user: &User, script: &str) -> String {
    let mut command = user.plain("sh", &["-ec", script]);
    command.current_dir(user.path().join("shop"));
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{script}");
    String::from_utf8(output.stdout).unwrap()
}

/// A command of ours in the repository, where no project has to be named.
#[track_caller]
fn offshoot(user: &User, args: &[&str]) -> String {
    let mut command = user.command(args);
    let output = command.current_dir(user.path().join("shop")).output();
    let ran = crate::support::ran(output.unwrap());
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.golden());
    ran.stdout
}

#[test]
fn five_agents_of_an_ordinary_user_commit_and_the_person_has_every_commit_and_author() {
    let Some(user) = User::new() else {
        return;
    };
    std::fs::create_dir(user.path().join("shop")).unwrap();
    std::os::unix::fs::chown(
        user.path().join("shop"),
        Some(super::user::UID),
        Some(super::user::UID),
    )
    .unwrap();
    in_repository(
        &user,
        "git init -q -b trunk
         git config user.name founder; git config user.email founder@example.com
         seq 1 50 > lines; echo hello > README; git add -A; git commit -qm Begin
         git tag -a v1 -m first; echo 'not committed' > README; git status --short",
    );
    let seen = "cat README; git status --porcelain=v2 --branch; git stash list; sha1sum .git/index";
    let before = in_repository(&user, seen);

    offshoot(&user, &["init"]);
    let mut commits = Vec::new();
    for (number, agent) in AGENTS.iter().enumerate() {
        let fork = ["fork", "--agent", agent, "--git", "--provider", "overlay"];
        offshoot(&user, &fork);
        let script = format!(
            "export GIT_AUTHOR_NAME=pair-{agent} GIT_AUTHOR_EMAIL=pair@example.com
             echo {agent} > by-{agent}; git add -A; git commit -qm 'First of {agent}'
             git rev-parse HEAD
             sed -i '{}s/.*/{agent} was here/' lines; git commit -qam 'Second of {agent}'
             git rev-parse HEAD",
            number * 10 + 5
        );
        let shown = user.shell(agent, &script);
        commits.extend(shown.split_whitespace().map(str::to_owned));
    }
    assert_eq!(commits.len(), 10);
    for agent in AGENTS {
        offshoot(
            &user,
            &["complete", agent, "-m", &format!("Work of {agent}")],
        );
    }
    offshoot(&user, &["push"]);

    assert_eq!(
        in_repository(&user, seen),
        before,
        "the work tree was touched"
    );
    assert_eq!(in_repository(&user, "git fsck --strict --no-dangling"), "");
    let log = "git log --graph --format='%H %an|%cn|%s' offshoot/main";
    let graph = in_repository(&user, log);
    for commit in &commits {
        assert!(
            graph.contains(commit.as_str()),
            "{commit} is not in\n{graph}"
        );
    }
    let blame = in_repository(&user, "git blame --line-porcelain offshoot/main -- lines");
    for agent in AGENTS {
        assert!(graph.contains(&format!("pair-{agent}|")), "{graph}");
        assert!(
            graph.contains(&format!("{agent}|Offshoot|Work of {agent}")),
            "{graph}"
        );
        let line = format!("author pair-{agent}");
        assert!(blame.lines().any(|one| one == line), "{blame}");
        assert_eq!(user.overlays_at(agent), 0);
    }
    // What an agent committed is there as it was: `=` is how git marks the same commit.
    let script = "m=$(git log --format=%H --grep='^Work of ada' offshoot/main)
                  git range-diff --no-color trunk..$m^2 trunk..$m^2";
    let range = in_repository(&user, script);
    assert_eq!(range.matches(" = ").count(), 2, "{range}");
}
