//! The holder is killed at any time: nothing that was acknowledged is lost, and no upper is mounted twice.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::time::Duration;

use offshoot_testkit::{Process, Rng, soak};

use super::user::User;

/// A shell that stays in the namespace until it is dropped.
fn stay_inside(user: &User, workspace: &str) -> Process {
    let mut process = Process::spawn(
        user.command(&["--quiet", "shell", workspace, "--", "sh", "-c", "echo; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut first = [0];
    let mut stdout = process.take_stdout().unwrap();
    stdout.read_exact(&mut first).unwrap();
    process
}

/// Writes by one of the ways there are. Only what was acknowledged counts.
fn write(user: &User, rng: &mut Rng, path: &str, text: &str) -> bool {
    if rng.chance(500) {
        let script = format!("printf %s {text} > {path}");
        let args = ["--quiet", "shell", "ada", "--", "sh", "-c", &script];
        return user.run(&args).code == 0;
    }
    let mut child = user
        .command(&["--quiet", "put", "ada", path, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    child.wait().unwrap().success()
}

#[test]
fn kill_of_the_holder_loses_nothing() {
    let Some(user) = User::with_project() else {
        return;
    };
    let rounds = if soak() { 200 } else { 12 };
    let seed = std::process::id().into();
    let mut rng = Rng::new(seed);
    user.overlay_fork("ada");
    let mut written: BTreeMap<String, String> = BTreeMap::new();
    let mut inside: Option<Process> = None;
    for round in 0..rounds {
        if rng.chance(400) {
            inside = match inside.take() {
                Some(process) => {
                    drop(process);
                    None
                }
                None => Some(stay_inside(&user, "ada")),
            };
        }
        let before = rng.chance(300);
        if before {
            user.kill_holder();
        }
        let (path, text) = (format!("f{}", rng.below(5)), format!("{round}"));
        let pause = Duration::from_micros(rng.below(40_000) as u64);
        let acknowledged = std::thread::scope(|scope| {
            // The pause is what is tried: the kill comes at any point of the write.
            let killer = scope.spawn(|| {
                std::thread::sleep(pause);
                user.kill_holder();
            });
            let done = write(&user, &mut rng, &path, &text);
            killer.join().unwrap();
            done
        });
        assert!(user.overlays_at("ada") <= 1, "seed {seed}, round {round}");
        // One that was not acknowledged may have come or not.
        match acknowledged {
            true => drop(written.insert(path, text)),
            false => drop(written.remove(&path)),
        }
        for (path, text) in &written {
            let shown = user.shell("ada", &format!("cat {path}"));
            assert_eq!(&shown, text, "seed {seed}, round {round}, {path}");
            assert_eq!(
                &user.done(&["cat", "ada", path]).stdout,
                text,
                "seed {seed}"
            );
        }
        assert!(user.overlays_at("ada") <= 1, "seed {seed}, round {round}");
    }
    drop(inside);
    user.done(&["check"]);
    user.done(&["complete", "ada"]);
    for (path, text) in &written {
        assert_eq!(&user.done(&["project", "cat", "p", path]).stdout, text);
    }
    println!("soak: {rounds} kills of the holder, seed {seed}, nothing lost");
}
