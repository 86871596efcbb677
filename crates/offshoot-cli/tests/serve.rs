//! `offshoot serve` as a process: one per data directory, bounded memory, a stop that loses nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use offshoot_testkit::{Process, soak};

const OFFSHOOT: &str = env!("CARGO_BIN_EXE_offshoot");

fn command(data: &Path) -> Command {
    let mut command = Command::new(OFFSHOOT);
    command
        .arg("--data")
        .arg(data)
        .env_remove("OFFSHOOT_CONFIG");
    command
}

fn run(data: &Path, args: &[&str]) -> (i32, String, String) {
    let output = command(data).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap_or(-1),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A server with a token for it.
struct Served {
    process: Process,
    address: String,
    token: String,
}

impl Served {
    fn start(data: &Path) -> Served {
        let (code, token, _) = run(data, &["token", "issue", "--admin", "--quiet"]);
        assert_eq!(code, 0);
        let mut process = Process::spawn(
            command(data)
                .args(["serve", "--listen", "127.0.0.1:0", "--json"])
                .env("OFFSHOOT_LOG", "warn")
                .stdout(Stdio::piped()),
        );
        let mut stdout = process.take_stdout().unwrap();
        let mut text = String::new();
        let told = loop {
            let mut byte = [0];
            stdout.read_exact(&mut byte).unwrap();
            text.push(char::from(byte[0]));
            if let Ok(told) = serde_json::from_str::<serde_json::Value>(&text) {
                break told;
            }
        };
        Served {
            process,
            address: told["listen"].as_str().unwrap().to_owned(),
            token: token.trim().to_owned(),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    fn head(&self, method: &str, target: &str, length: u64) -> String {
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n\r\n",
            self.address, self.token
        )
    }

    /// One request; the status and the body.
    fn send(&self, method: &str, target: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = self.connect();
        stream
            .write_all(self.head(method, target, body.len() as u64).as_bytes())
            .unwrap();
        stream.write_all(body).unwrap();
        let (status, length, mut reader) = read_head(stream).unwrap();
        let mut body = vec![0; length as usize];
        reader.read_exact(&mut body).unwrap();
        (status, body)
    }

    /// The most memory that the process has had, and has now, in KiB.
    fn memory(&self, field: &str) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

fn read_head(stream: TcpStream) -> std::io::Result<(u16, u64, BufReader<TcpStream>)> {
    let mut reader = BufReader::new(stream);
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            status = rest[..3].parse().unwrap();
        }
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.trim().parse().unwrap();
        }
        if line == "\r\n" {
            return Ok((status, length, reader));
        }
    }
}

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
    assert!(began.elapsed() < Duration::from_secs(5));
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
        while count.load(Ordering::Relaxed) < 100 {
            std::thread::sleep(Duration::from_millis(10));
        }
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
