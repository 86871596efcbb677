//! `offshoot serve` as a process: one per data directory, bounded memory, a stop that loses nothing.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::served::{OFFSHOOT, Served, command, read_head, run};
use offshoot_testkit::{Process, soak, wait_until};

#[test]
fn one_server_per_data_directory() {
    let data = tempfile::tempdir().unwrap();
    let mut served = Served::start(data.path());
    assert_eq!(served.send("GET", "/healthz", b"").0, 200);
    let began = Instant::now();
    let (code, _, stderr) = run(data.path(), &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains("another server runs on this data directory"),
        "{stderr}"
    );
    // It does not wait for the other one to end.
    assert!(began.elapsed() < Duration::from_secs(30));
    // Other commands work beside it.
    assert_eq!(run(data.path(), &["workspace", "create", "w"]).0, 0);
    assert_eq!(served.send("GET", "/api/v1/workspaces/w", b"").0, 200);
    for content in [b"one", b"two"] {
        let (status, _) = served.send("PUT", "/api/v1/workspaces/w/files/a", content);
        assert!(status < 300, "{status}");
    }
    let idle = served.memory("VmRSS");
    println!("soak: idle memory {idle} KiB");
    assert!(idle < 60_000, "{idle} KiB");
    served.process.terminate();
    let ended = served
        .process
        .wait_at_most(Duration::from_secs(5))
        .expect("it does not stop");
    assert!(ended.success(), "{ended}");
    // It ended well: nothing has to be recovered, and nothing is left of files on their way.
    let names = |dir: &str| -> Vec<_> {
        let entries = std::fs::read_dir(data.path().join(dir)).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    assert!(names("run").is_empty(), "{:?}", names("run"));
    let staged = |name: &std::ffi::OsString| name.to_string_lossy().contains("stage");
    assert!(!names("tmp").iter().any(staged), "{:?}", names("tmp"));
    // The lock ends with the process, also with one that is killed.
    let mut again = Served::start(data.path());
    again.process.kill_hard();
    let served = Served::start(data.path());
    assert_eq!(served.send("GET", "/healthz", b"").0, 200);
}

#[test]
fn addresses_that_others_reach_need_a_word() {
    let data = tempfile::tempdir().unwrap();
    let (code, _, stderr) = run(data.path(), &["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("--allow-plain-http"), "{stderr}");
    // With TLS they need none, but both files.
    let listen = ["serve", "--listen", "0.0.0.0:0", "--tls-cert", "none.pem"];
    let (code, _, stderr) = run(data.path(), &listen);
    assert_eq!(code, 1);
    assert!(stderr.contains("`--tls-key` is not"), "{stderr}");
    let both = [&listen[..], &["--tls-key", "none.key"]].concat();
    let (code, _, stderr) = run(data.path(), &both);
    assert_eq!(code, 1);
    assert!(
        stderr.contains("TLS certificate cannot be read"),
        "{stderr}"
    );
    let (code, stdout, _) = run(data.path(), &["config", "show", "--json"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("OFFSHOOT_MAX_BODY_BYTES"), "{stdout}");
}

#[test]
fn a_stop_under_load_loses_nothing_acknowledged() {
    let data = tempfile::tempdir().unwrap();
    let mut served = Served::start(data.path());
    assert_eq!(
        served
            .send("POST", "/api/v1/workspaces", br#"{"id":"w"}"#)
            .0,
        201
    );
    let stop = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicUsize::new(0));
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (served, stop, count) = (&served, stop.clone(), count.clone());
                scope.spawn(move || {
                    let mut done = Vec::new();
                    for n in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let path = format!("{writer}/{n}");
                        let Ok(mut stream) = TcpStream::connect(&served.address) else {
                            break;
                        };
                        let target = format!("/api/v1/workspaces/w/files/{path}");
                        let head = served.head("PUT", &target, path.len() as u64);
                        if stream
                            .write_all([head.as_bytes(), path.as_bytes()].concat().as_slice())
                            .is_err()
                        {
                            break;
                        }
                        match read_head(stream) {
                            Ok((201, ..)) => done.push(path),
                            _ => break,
                        }
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        wait_until("some writes are acknowledged", || {
            count.load(Ordering::Relaxed) >= 100
        });
        served.process.terminate();
        let done = writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect();
        stop.store(true, Ordering::Relaxed);
        done
    });
    let ended = served
        .process
        .wait_at_most(Duration::from_secs(6))
        .expect("it does not stop");
    assert!(ended.success(), "{ended}");
    assert!(acknowledged.len() >= 100);
    for path in &acknowledged {
        let (code, content, stderr) = run(data.path(), &["cat", "w", path]);
        assert_eq!((code, content.as_str()), (0, path.as_str()), "{stderr}");
    }
}

#[test]
fn large_files_pass_with_little_memory() {
    let size: u64 = if soak() { 2 << 30 } else { 192 << 20 };
    let data = tempfile::tempdir().unwrap();
    let served = Served::start(data.path());
    assert_eq!(
        served
            .send("POST", "/api/v1/workspaces", br#"{"id":"w"}"#)
            .0,
        201
    );
    assert_eq!(served.send("GET", "/api/v1/workspaces/w/list", b"").0, 200);
    let before = served.memory("VmHWM");
    let mut stream = served.connect();
    let target = "/api/v1/workspaces/w/files/large";
    stream
        .write_all(served.head("PUT", target, size).as_bytes())
        .unwrap();
    let block: Vec<u8> = (0..1 << 20)
        .map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    for _ in 0..size >> 20 {
        stream.write_all(&block).unwrap();
    }
    let (status, _, _) = read_head(stream).unwrap();
    assert_eq!(status, 201);
    let written = served.memory("VmHWM");
    let mut stream = served.connect();
    stream
        .write_all(served.head("GET", target, 0).as_bytes())
        .unwrap();
    let (status, length, mut reader) = read_head(stream).unwrap();
    assert_eq!((status, length), (200, size));
    let mut part = vec![0; block.len()];
    for _ in 0..size >> 20 {
        reader.read_exact(&mut part).unwrap();
        assert!(part == block, "the content changed on its way");
    }
    let read = served.memory("VmHWM");
    println!("soak: large file {size} bytes, memory {before} KiB, written {written}, read {read}");
    assert!(read - before < 64 << 10, "{before} {written} {read} KiB");
}

#[test]
fn an_mcp_client_works_over_stdio() {
    let data = tempfile::tempdir().unwrap();
    let (code, _, stderr) = run(data.path(), &["mcp", "--workspace", "none"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("there is no workspace"), "{stderr}");
    assert_eq!(run(data.path(), &["workspace", "create", "a"]).0, 0);
    let mut process = Process::spawn(
        command(data.path())
            .args(["mcp", "--agent", "a", "--tools", "read_file,write_file"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut stdin = process.take_stdin().unwrap();
    let mut stdout = BufReader::new(process.take_stdout().unwrap());
    let mut ask = |message: serde_json::Value| {
        writeln!(stdin, "{message}").unwrap();
        if message.get("id").is_none() {
            return serde_json::Value::Null;
        }
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let hello = ask(
        serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "0" } } }),
    );
    assert_eq!(hello["result"]["serverInfo"]["name"], "offshoot", "{hello}");
    ask(serde_json::json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let tools = ask(serde_json::json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 2);
    let mut call = |name: &str, arguments: serde_json::Value| {
        ask(
            serde_json::json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call",
            "params": { "name": name, "arguments": arguments } }),
        )
    };
    let written = call(
        "write_file",
        serde_json::json!({ "path": "f", "content": "hi" }),
    );
    assert_eq!(
        written["result"]["structuredContent"]["size"], 2,
        "{written}"
    );
    let read = call("read_file", serde_json::json!({ "path": "f" }));
    assert_eq!(read["result"]["structuredContent"]["content"], "hi");
    drop(stdin);
    let ended = process
        .wait_at_most(Duration::from_secs(5))
        .expect("it does not end");
    assert!(ended.success(), "{ended}");
    assert_eq!(run(data.path(), &["cat", "a", "f"]).1, "hi");
    let (code, config, _) = run(data.path(), &["mcp", "config", "claude", "--agent", "a"]);
    assert_eq!(code, 0);
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["mcpServers"]["offshoot"]["args"][2], "mcp");
}

#[test]
fn a_log_that_cannot_be_written_costs_no_answer() {
    let closed = || Stdio::from(std::io::pipe().unwrap().1);
    let full = || {
        Stdio::from(
            std::fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap(),
        )
    };
    // A pipe that nobody reads is full after 64 KiB.
    let (_unread, unread) = std::io::pipe().unwrap();
    for (stderr, requests) in [(closed(), 3), (full(), 3), (unread.into(), 700)] {
        let data = tempfile::tempdir().unwrap();
        let mut served = Served::start_with(data.path(), |command| {
            command.env("OFFSHOOT_LOG", "info").stderr(stderr)
        });
        for _ in 0..requests {
            assert_eq!(served.send("GET", "/api/v1/workspaces", b"").0, 200);
        }
        assert_eq!(served.send("GET", "/api/v1/none", b"").0, 404);
        served.process.terminate();
        let ended = served.process.wait_at_most(Duration::from_secs(10));
        assert!(ended.expect("it does not stop").success());
    }
}

#[test]
fn commands_do_their_work_even_if_nobody_reads_their_output() {
    let data = tempfile::tempdir().unwrap();
    let full = || {
        Stdio::from(
            std::fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap(),
        )
    };
    let code = |args: &[&str], stdout: Stdio, stderr: Stdio| {
        let mut process = Process::spawn(
            command(data.path())
                .args(args)
                .stdin(Stdio::null())
                .stdout(stdout)
                .stderr(stderr),
        );
        process.wait().code()
    };
    assert_eq!(
        code(&["workspace", "create", "w"], Stdio::null(), full()),
        Some(0)
    );
    assert_eq!(code(&["put", "w", "f"], Stdio::null(), full()), Some(0));
    assert_eq!(run(data.path(), &["cat", "w", "f"]).0, 0);
    assert_eq!(code(&["cat", "w", "none"], Stdio::null(), full()), Some(1));
    assert_eq!(code(&["nonsense"], Stdio::null(), full()), Some(2));
    // The reader has seen enough.
    for args in [
        &["ls", "w"][..],
        &["history", "w"],
        &["--json", "ls", "w"],
        &["--help"],
    ] {
        let gone = Stdio::from(std::io::pipe().unwrap().1);
        assert_eq!(code(args, gone, full()), Some(0), "{args:?}");
    }
    // What was asked for and could not be written is a failure.
    assert_eq!(code(&["ls", "w"], full(), Stdio::null()), Some(1));
}

/// What others could read or write below the data directory, beside the workspaces.
fn open_to_others(data: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut dirs = vec![data.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let stat = entry.metadata().unwrap();
            let path = entry.path();
            let inside = path
                .strip_prefix(data)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            if inside == "workspaces" {
                continue;
            }
            if stat.is_dir() {
                dirs.push(path);
            }
            // Layers and what forks changed have the bits that users gave them; nobody gets there.
            let parts: Vec<&str> = inside.split('/').collect();
            let is_content = match parts[..] {
                ["layers", name, ..] => !name.ends_with(".complete"),
                ["forks", _, "upper", ..] => true,
                _ => false,
            };
            if !is_content && !stat.is_symlink() && stat.mode() & 0o077 != 0 {
                found.push(format!("{inside} {:o}", stat.mode() & 0o7777));
            }
        }
    }
    found
}

#[test]
fn everything_beside_the_workspaces_is_private_whatever_the_umask() {
    let host = offshoot_testkit::HostDir::new();
    for (umask, provider) in [("000", "copy"), ("000", ""), ("022", "")] {
        let data = host.path().join(format!("data-{umask}-{provider}"));
        let script = r#"umask "$1"; shift; set -e
            head -c 3000000 /dev/urandom > "$2/large"
            echo 1 | "$0" put w f 2>/dev/null || "$0" workspace create w
            echo 1 | "$0" put w f; "$0" put w large < "$2/large"; "$0" snapshot w
            mkdir -p "$2/from/d"; echo 1 > "$2/from/d/f"
            "$0" project create p --from "$2/from"; "$0" fork p --agent a
            echo 2 | "$0" put a d/f; "$0" status a; "$0" snapshot a; "$0" sync a
            "$0" fork p --agent b; "$0" complete a --keep; "$0" update b; "$0" workspace path w; "$0" sync w
            "$0" token issue --admin
            "$0" serve --listen 127.0.0.1:0 > "$2/url" & server=$!
            while ! [ -s "$2/url" ]; do sleep 0.02; done; kill $server; wait $server"#;
        let work = tempfile::tempdir().unwrap();
        let output = Command::new("sh")
            .args(["-c", script, OFFSHOOT, umask, "-"])
            .arg(work.path())
            .env("OFFSHOOT_DATA", &data)
            .env("OFFSHOOT_PROVIDER", provider)
            .env_remove("OFFSHOOT_CONFIG")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        assert!(data.join("server.lock").exists());
        assert_eq!(open_to_others(&data), Vec::<String>::new(), "umask {umask}");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&data), 0o711);
        // What was open before is put right.
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
        };
        for (name, open) in [
            ("", 0o777),
            ("cache", 0o755),
            ("server.lock", 0o644),
            ("offshoot.db", 0o666),
        ] {
            set(&data.join(name), open).unwrap();
        }
        assert_eq!(run(&data, &["workspace", "list"]).0, 0);
        assert_eq!(open_to_others(&data), Vec::<String>::new());
        assert_eq!(mode(&data), 0o711);
    }
}

#[test]
fn what_is_refused_is_in_the_log_with_its_code_and_path() {
    let data = offshoot_testkit::HostDir::new();
    let log = data.path().join("log");
    let file = std::fs::File::create(&log).unwrap();
    let served = Served::start_with(data.path(), |command| {
        command.env("OFFSHOOT_LOG", "warn").stderr(file)
    });
    let (code, _, stderr) = run(data.path(), &["workspace", "create", "w"]);
    assert_eq!(code, 0, "{stderr}");
    let target = "/api/v1/workspaces/w/files/a%2F..%2F..%2Fsecret";
    assert_eq!(served.send("GET", target, b"").0, 400);
    let lines = || std::fs::read_to_string(&log).unwrap_or_default();
    let told = |line: &&str| {
        line.contains("WARN")
            && line.contains("path_traversal_blocked")
            && line.contains("a%2F..%2F..%2Fsecret")
    };
    // The log is written by a thread of its own.
    wait_until("the refusal is in the log", || {
        lines().lines().any(|line| told(&line))
    });
}
