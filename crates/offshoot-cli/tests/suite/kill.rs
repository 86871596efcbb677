//! `kill -9` of the real binary at random points of a mixed load: what was acknowledged is there.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use offshoot_testkit::{Process, Rng, soak};

const BINARY: &str = env!("CARGO_BIN_EXE_offshoot");
const WORKERS: usize = 3;

fn offshoot(data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .arg("--data")
        .arg(data)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs to the end and expects success.
fn run(data: &Path, args: &[&str]) -> Vec<u8> {
    let output = offshoot(data, args).output().unwrap();
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// The content of a file, if there is one.
fn read(data: &Path, path: &str) -> Option<Vec<u8>> {
    let output = offshoot(data, &["cat", "w", path]).output().unwrap();
    if output.status.success() {
        return Some(output.stdout);
    }
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.contains("does not exist") || error.contains("there is no file"),
        "{path}: {error}"
    );
    None
}

/// One agent with its own corner of the workspace.
struct Worker<'a> {
    data: &'a Path,
    number: usize,
    rng: Rng,
    /// What every path must hold.
    expected: BTreeMap<String, Vec<u8>>,
    kills: usize,
    acknowledged: usize,
    writes: usize,
}

enum Ended {
    Acknowledged,
    Killed,
}

impl Worker<'_> {
    /// Starts a command and, if it is this one's turn, kills it somewhere on its way.
    fn attempt(&mut self, args: &[&str], input: Option<&[u8]>, kill: bool) -> Ended {
        let mut command = offshoot(self.data, args);
        command.stdin(Stdio::piped());
        let mut process = Process::spawn(&mut command);
        if let Some(mut stdin) = process.take_stdin() {
            let _ = stdin.write_all(input.unwrap_or_default());
        }
        let status = if kill {
            // Opening, writing and closing take a few milliseconds; anywhere in there is right.
            let limit = Duration::from_micros(self.rng.below(25_000) as u64);
            process.wait_at_most(limit).unwrap_or_else(|| {
                self.kills += 1;
                process.kill_hard()
            })
        } else {
            process.wait()
        };
        if status.success() {
            self.acknowledged += 1;
            return Ended::Acknowledged;
        }
        assert!(kill, "{args:?} failed without being killed: {status}");
        Ended::Killed
    }

    fn step(&mut self, kill: bool) {
        let path = format!(
            "d{}/s{}/f{}",
            self.number,
            self.rng.below(3),
            self.rng.below(4)
        );
        let before = self.expected.get(&path).cloned();
        let (after, ended) = match self.rng.below(10) {
            0..=5 => {
                self.writes += 1;
                let mut content = vec![0; self.rng.between(1, 9_000)];
                self.rng.fill(&mut content);
                content.extend(format!("{}:{}", self.number, self.writes).as_bytes());
                let ended = self.attempt(&["put", "w", &path, "-"], Some(&content), kill);
                (Some(content), ended)
            }
            6 if before.is_some() => (None, self.attempt(&["rm", "w", &path], None, kill)),
            7 => {
                self.attempt(&["snapshot", "w", "-m", "load"], None, kill);
                return;
            }
            8 if before.is_some() => return self.moved(&path, kill),
            _ => {
                self.attempt(&["sync", "w"], None, kill);
                return;
            }
        };
        let holds = match ended {
            Ended::Acknowledged => after,
            Ended::Killed => {
                let now = read(self.data, &path);
                assert!(
                    now == before || now == after,
                    "{path} is neither before nor after"
                );
                now
            }
        };
        self.expect(&path, holds);
    }

    fn moved(&mut self, from: &str, kill: bool) {
        let to = format!("d{}/m{}", self.number, self.rng.below(1_000_000));
        if self.expected.contains_key(&to) {
            return;
        }
        let content = self.expected.get(from).cloned();
        let done = match self.attempt(&["mv", "w", from, &to], None, kill) {
            Ended::Acknowledged => true,
            Ended::Killed => {
                let (old, new) = (read(self.data, from), read(self.data, &to));
                assert!(
                    (old == content && new.is_none()) || (old.is_none() && new == content),
                    "{from} was moved by half"
                );
                new.is_some()
            }
        };
        if done {
            self.expect(from, None);
            self.expect(&to, content);
        }
    }

    fn expect(&mut self, path: &str, content: Option<Vec<u8>>) {
        match content {
            Some(content) => self.expected.insert(path.to_owned(), content),
            None => self.expected.remove(path),
        };
    }
}

#[test]
fn kill_at_random_points_of_a_mixed_load() {
    kill_at_random_points(false);
}

/// Where somebody has the path, a write is committed first and put in place after.
#[test]
fn kill_at_random_points_of_a_mixed_load_on_a_directory() {
    kill_at_random_points(true);
}

fn kill_at_random_points(handed_out: bool) {
    let kills_wanted = if soak() { 300 } else { 24 };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    run(&data, &["workspace", "create", "w"]);
    if handed_out {
        run(&data, &["workspace", "path", "w"]);
    }
    let workers: Vec<Worker<'_>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WORKERS)
            .map(|number| {
                let data = &data;
                scope.spawn(move || {
                    let mut worker = Worker {
                        data,
                        number,
                        rng: Rng::new(4711 + number as u64),
                        expected: BTreeMap::new(),
                        kills: 0,
                        acknowledged: 0,
                        writes: 0,
                    };
                    for step in 0.. {
                        if worker.kills * WORKERS >= kills_wanted || step > kills_wanted * 20 {
                            break;
                        }
                        let kill = worker.rng.chance(500);
                        worker.step(kill);
                    }
                    worker
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let kills: usize = workers.iter().map(|worker| worker.kills).sum();
    let acknowledged: usize = workers.iter().map(|worker| worker.acknowledged).sum();
    assert!(
        kills >= kills_wanted,
        "only {kills} processes were caught alive"
    );
    let mut files = 0;
    run(&data, &["workspace", "path", "w"]);
    for worker in &workers {
        for (path, content) in &worker.expected {
            assert_eq!(
                read(&data, path).as_ref(),
                Some(content),
                "{path} through the binary"
            );
            let on_disk = std::fs::read(data.join("workspaces/w").join(path)).unwrap();
            assert_eq!(&on_disk, content, "{path} on disk");
            files += 1;
        }
    }
    let info: serde_json::Value =
        serde_json::from_slice(&run(&data, &["--json", "info", "w"])).unwrap();
    assert_eq!(info["file_count"], files, "no file that nobody wrote");
    let check: serde_json::Value =
        serde_json::from_slice(&run(&data, &["--json", "check"])).unwrap();
    assert_eq!(check["problems"], serde_json::json!([]), "{check}");
    println!(
        "soak: kill: {kills} kills, {acknowledged} acknowledged operations, {files} files at the end, all byte for byte, check clean"
    );
}
