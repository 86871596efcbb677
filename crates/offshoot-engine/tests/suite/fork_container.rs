//! A fork in a container of a real container engine: what is done there is a change of the fork.
//!
//! The engine is Docker's. The test starts it with a directory of its own and without a network,
//! and stops it at the end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::fixture::{TestEngine, user, working};
use offshoot_core::{ChangeKind, ErrorCode};
use offshoot_engine::{CompleteOptions, ForkOptions};
use offshoot_fs::ProviderName;
use offshoot_testkit::{HostDir, Process, is_root, skip, wait_until};

const BUSYBOX: &str = "/bin/busybox";

/// A running engine with one image, `tiny`, that holds a shell.
struct Docker {
    daemon: Process,
    socket: PathBuf,
    host: HostDir,
}

/// Why no container engine can run here, if so.
fn unavailable() -> Option<&'static str> {
    let has = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let more = ["/usr/sbin".into(), "/usr/bin".into()];
        std::env::split_paths(&path)
            .chain(more)
            .any(|dir: PathBuf| dir.join(program).is_file())
    };
    if !is_root() {
        Some("a container engine needs root")
    } else if !has("dockerd") || !has("docker") {
        Some("Docker is not installed (Debian: docker.io)")
    } else if !Path::new(BUSYBOX).is_file() {
        Some("there is no static busybox (Debian: busybox-static)")
    } else {
        None
    }
}

impl Docker {
    fn start() -> Docker {
        let host = HostDir::new();
        let at = |name: &str| host.path().join(name).to_str().unwrap().to_owned();
        let socket = host.path().join("socket");
        let log_file = at("log");
        let log = File::create(&log_file).unwrap();
        let daemon = Process::spawn(
            Command::new("dockerd")
                .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                .args(["--data-root", &at("root"), "--exec-root", &at("exec")])
                .args(["--pidfile", &at("pid"), "-H"])
                .arg(format!("unix://{}", socket.display()))
                // The engine changes nothing on the machine, and needs nothing of it.
                .args(["--storage-driver", "vfs", "--bridge", "none"])
                .args(["--iptables=false", "--ip6tables=false"])
                .args(["--ip-forward=false", "--ip-masq=false"])
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log),
        );
        let docker = Docker {
            daemon,
            socket,
            host,
        };
        docker.wait_until_ready(&log_file);
        docker.make_image();
        docker
    }

    fn wait_until_ready(&self, log: &str) {
        wait_until(&format!("the container engine answers, see {log}"), || {
            self.docker(&["version"]).status.success()
        });
    }

    fn docker(&self, args: &[&str]) -> Output {
        let mut command = Command::new("docker");
        command
            .env("DOCKER_HOST", format!("unix://{}", self.socket.display()))
            .env("DOCKER_CONFIG", self.host.path().join("config"));
        command.args(args).output().unwrap()
    }

    /// A root directory with one program under all names.
    fn make_image(&self) {
        let root = self.host.path().join("image");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::copy(BUSYBOX, root.join("bin/busybox")).unwrap();
        for name in ["sh", "cat", "mv", "rm", "mkdir", "chmod", "sleep"] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).unwrap();
        }
        let archive = self.host.path().join("image.tar");
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(&archive).arg("-C").arg(&root).arg(".");
        assert!(tar.status().unwrap().success());
        let imported = self.docker(&["import", archive.to_str().unwrap(), "tiny"]);
        assert!(imported.status.success(), "{imported:?}");
    }

    /// Runs a script in a container that has the directory as `/workspace`.
    fn run(&self, workspace: &Path, options: &[&str], script: &str) -> String {
        let volume = format!("{}:/workspace", workspace.display());
        let mut args = vec!["run", "--rm", "--network", "none", "-v", &volume];
        args.extend(["-w", "/workspace"]);
        args.extend(options);
        args.extend(["tiny", "/bin/sh", "-e", "-c", script]);
        let output = self.docker(&args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Stops the engine as an administrator would; nothing stays mounted.
    fn stop(mut self) {
        wait_until("every container is gone", || {
            self.docker(&["ps", "-aq"]).stdout.is_empty()
        });
        self.daemon.terminate();
        let ended = self.daemon.wait_at_most(Duration::from_secs(60));
        assert!(ended.is_some(), "the container engine does not end");
        assert_eq!(self.host.mounts(), Vec::<PathBuf>::new());
    }
}

/// A failed test leaves no container, because containers outlive their engine.
impl Drop for Docker {
    fn drop(&mut self) {
        let running = self.docker(&["ps", "-q"]).stdout;
        let running = String::from_utf8_lossy(&running).into_owned();
        for container in running.split_whitespace() {
            self.docker(&["kill", container]);
        }
    }
}

fn changes_of_a_container_are_changes_of_the_fork(docker: &Docker, test: &TestEngine) {
    let project = test.project("web");
    let options = ForkOptions {
        agent: Some("ada".parse().unwrap()),
        git: true,
        ..ForkOptions::default()
    };
    let (fork, path) = test
        .engine
        .forks
        .fork_out(&project, &options, &user())
        .unwrap();
    let id = fork.workspace.id;
    let said = docker.run(
        &path,
        &[],
        "cat README; cat .git/HEAD; echo changed > README; mkdir made; echo new > made/file; \
         rm src/main.rs; mv docs papers; chmod 755 src/lib.rs; mkdir target; echo x > target/out",
    );
    assert_eq!(said, "read me\nref: refs/heads/ada\n");
    let expected = [
        ("README", ChangeKind::Modified),
        ("docs", ChangeKind::Deleted),
        ("docs/a", ChangeKind::Deleted),
        ("docs/a/b", ChangeKind::Deleted),
        ("made", ChangeKind::Added),
        ("made/file", ChangeKind::Added),
        ("papers", ChangeKind::Added),
        ("papers/a", ChangeKind::Added),
        ("papers/a/b", ChangeKind::Added),
        ("src/lib.rs", ChangeKind::Mode),
        ("src/main.rs", ChangeKind::Deleted),
    ];
    let files = |list: Vec<(String, ChangeKind)>| -> Vec<(String, ChangeKind)> {
        // The test compares directories by name only.
        let dirs = ["docs", "docs/a", "made", "papers", "papers/a"];
        let is_file = |one: &(String, ChangeKind)| !dirs.contains(&one.0.as_str());
        list.into_iter().filter(is_file).collect()
    };
    let expected = expected
        .map(|(path, kind)| (path.to_owned(), kind))
        .to_vec();
    assert_eq!(files(test.changes(&id)), files(expected));
    // The next container sees the changes of the first one, and as another user it cannot write.
    let as_other = ["--user", "12345:12345"];
    let said = docker.run(
        &path,
        &as_other,
        "cat made/file papers/a/b; echo no > README 2>/dev/null && echo written || echo refused",
    );
    assert_eq!(said, "new\ndeep\nrefused\n");
    // A fork cannot move while a container has its overlay mounted.
    test.put(&project, "later", "later\n");
    let volume = format!("{}:/workspace", path.display());
    let mut args = vec!["run", "-d", "--rm", "--network", "none", "-v", &volume];
    args.extend(["tiny", "/bin/sleep", "1000"]);
    let started = docker.docker(&args);
    assert!(started.status.success(), "{started:?}");
    let container = String::from_utf8(started.stdout).unwrap();
    let update = test.engine.merges.update(&id, false, &user());
    if test.provider == ProviderName::Overlay {
        assert_eq!(update.unwrap_err().code(), ErrorCode::WorkspaceBusy);
    }
    let ended = docker.docker(&["kill", container.trim()]);
    assert!(ended.status.success(), "{ended:?}");
    wait_until("nobody holds the fork", || {
        test.engine.merges.update(&id, false, &user()).is_ok()
    });
    let said = docker.run(&path, &[], "cat later made/file");
    assert_eq!(said, "later\nnew\n");
    let done = test
        .engine
        .merges
        .complete(&id, &CompleteOptions::default(), &user())
        .unwrap();
    assert!(done.conflicts.is_empty());
    test.engine.context.wait_for_jobs();
    assert_eq!(test.project_text(&project, "made/file"), "new\n");
    assert!(!path.exists(), "a container that ended keeps no directory");
    test.check();
}

#[test]
fn a_container_works_in_a_fork() {
    if let Some(reason) = unavailable() {
        return skip(reason);
    }
    let docker = Docker::start();
    let place = HostDir::new();
    for provider in working(place.path()) {
        println!("with {provider}");
        changes_of_a_container_are_changes_of_the_fork(&docker, &TestEngine::new(provider));
    }
    docker.stop();
}
