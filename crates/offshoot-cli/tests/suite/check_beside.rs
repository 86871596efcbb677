//! `offshoot check` as a process of its own beside a server at work: it sees no damage, because there
//! is none.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support::served::{Served, run};
use offshoot_testkit::{HostDir, Rng, soak};

/// What the server acknowledged so far, each kind by itself.
#[derive(Default)]
struct Done {
    writes: AtomicUsize,
    completes: AtomicUsize,
    stop: AtomicBool,
}

impl Done {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    fn completes(&self) -> usize {
        self.completes.load(Ordering::Relaxed)
    }
}

/// Ends the load also when an assertion fails.
struct StopAtEnd<'a>(&'a Done);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

fn sent(served: &Served, method: &str, target: &str, body: &[u8]) -> serde_json::Value {
    let (status, answer) = served.send(method, &format!("/api/v1/{target}"), body);
    let text = String::from_utf8_lossy(&answer);
    assert!(status < 300, "{method} {target}: {status} {text}");
    serde_json::from_slice(&answer).unwrap_or_default()
}

fn noise(rng: &mut Rng) -> Vec<u8> {
    // Rows hold small contents, blobs the larger ones.
    let length = *rng.pick(&[10, 900, 20_000, 90_000]);
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes);
    bytes
}

/// Writes, replaces, deletes and snapshots in a workspace.
fn write_files(served: &Served, writer: usize, done: &Done) {
    let mut rng = Rng::new(writer as u64);
    let ws = format!("w{}", writer % 2);
    for number in 0.. {
        if done.stopped() {
            return;
        }
        let file = format!("workspaces/{ws}/files/d{writer}/{}", rng.below(9));
        sent(served, "PUT", &file, &noise(&mut rng));
        done.writes.fetch_add(1, Ordering::Relaxed);
        if number % 5 == 4 {
            sent(served, "DELETE", &file, b"");
        }
        if number % 11 == 10 {
            let snapshots = format!("workspaces/{ws}/snapshots");
            sent(served, "POST", &snapshots, br#"{"label": "beside"}"#);
        }
    }
}

/// Forks, works in the fork by HTTP and as an outside program, and completes it.
fn fork_and_complete(served: &Served, agent: usize, done: &Done) {
    let mut rng = Rng::new(100 + agent as u64);
    while !done.stopped() {
        let body = format!(r#"{{"agent_id": "agent-{agent}"}}"#);
        let fork = sent(served, "POST", "projects/app/workspaces", body.as_bytes());
        let id = fork["id"].as_str().unwrap();
        let file = format!("workspaces/{id}/files/a{agent}/{}", rng.below(9));
        sent(served, "PUT", &file, &noise(&mut rng));
        let path = std::path::Path::new(fork["path"].as_str().unwrap());
        std::fs::write(path.join(format!("outside-{agent}")), noise(&mut rng)).unwrap();
        sent(served, "POST", &format!("workspaces/{id}/complete"), b"");
        done.completes.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn writers_do_not_make_check_see_damage() {
    let wanted = if soak() { 150 } else { 10 };
    let host = HostDir::new();
    let data = host.path().join("data");
    let served = Served::start(&data);
    for ws in ["w0", "w1"] {
        let body = format!(r#"{{"id": "{ws}"}}"#);
        sent(&served, "POST", "workspaces", body.as_bytes());
    }
    sent(&served, "POST", "projects", br#"{"name": "app"}"#);
    sent(&served, "PUT", "projects/app/files/README", b"begin\n");
    let done = Done::default();
    let (mut beside_writes, mut checks) = (0, 0);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&done);
        for writer in 0..4 {
            let (served, done) = (&served, &done);
            scope.spawn(move || write_files(served, writer, done));
        }
        for agent in 0..2 {
            let (served, done) = (&served, &done);
            scope.spawn(move || fork_and_complete(served, agent, done));
        }
        while beside_writes < wanted || done.completes() < wanted {
            assert!(checks < 20 * wanted, "nobody writes");
            let before = done.writes();
            let (code, stdout, stderr) = run(&data, &["--json", "check"]);
            checks += 1;
            assert_eq!(code, 0, "check {checks}: {stdout}{stderr}");
            let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
            assert_eq!(report["problems"], serde_json::json!([]), "check {checks}");
            beside_writes += usize::from(done.writes() > before);
        }
    });
    println!(
        "soak: check beside a server: {checks} checks, {} writes and {} completes meanwhile, no alarm",
        done.writes(),
        done.completes()
    );
}
