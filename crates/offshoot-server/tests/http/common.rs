//! A server on a data directory of its own, and a client that speaks to it byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use offshoot_core::{Cause, Operator};
use offshoot_engine::{Engine, EngineOptions, PrincipalKind, Reach, Scope};
use offshoot_server::{Server, ServerOptions};
use tokio::sync::oneshot;

/// A running server. Dropping it stops it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) admin: String,
    pub(crate) engine: Engine,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How tests run a server: on any free port.
pub(crate) fn options() -> ServerOptions {
    ServerOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        ..ServerOptions::default()
    }
}

pub(crate) fn cause() -> Cause {
    Cause::by(Operator::user())
}

impl Running {
    pub(crate) fn start(data: &Path) -> Running {
        Running::start_with(data, options())
    }

    /// Starts a server, with a link that signs one browser in.
    pub(crate) fn start_with_sign_in(data: &Path) -> (Running, String) {
        Running::launch(data, options())
    }

    pub(crate) fn start_with(data: &Path, options: ServerOptions) -> Running {
        Running::launch(data, options).0
    }

    /// Starts a server with other options, and a link that signs one browser in.
    pub(crate) fn start_with_url(data: &Path, options: ServerOptions) -> (Running, String) {
        Running::launch(data, options)
    }

    fn launch(data: &Path, options: ServerOptions) -> (Running, String) {
        let engine = Engine::open(EngineOptions::new(data)).unwrap();
        let scope = Scope::everything(PrincipalKind::Admin);
        let admin = engine
            .access
            .issue_token(&scope, None, None, &cause())
            .unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let served = engine.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .worker_threads(2)
                .build()
                .unwrap();
            runtime.block_on(async {
                let server = Server::bind(served, options).await.unwrap();
                let told = (server.address(), server.sign_in_url().unwrap());
                tell.send(told).unwrap();
                server
                    .run(async {
                        let _ = stopped.await;
                    })
                    .await;
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
        });
        let (address, url) = told.recv().unwrap();
        let running = Running {
            address,
            admin: admin.secret,
            engine,
            stop: Some(stop),
            thread: Some(thread),
        };
        (running, url)
    }

    /// Stops it and waits until it has.
    pub(crate) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        // A watcher may hold the engine a moment longer, so that dropping ours does not wait.
        self.engine.context.wait_for_jobs();
    }

    /// Requests that are being answered, without the one that asks.
    pub(crate) fn in_flight(&self) -> i64 {
        self.metric("requests_in_flight") - 1
    }

    /// What the metrics say of one thing.
    pub(crate) fn metric(&self, name: &str) -> i64 {
        let metrics = Client::new(self.address, "").get("/metrics").text();
        let name = format!("offshoot_{name} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap().parse().unwrap()
    }

    /// How many answers of a kind were given, as the metrics name it.
    pub(crate) fn answered(&self, method: &str, route: &str) -> u64 {
        let metrics = Client::new(self.address, "").get("/metrics").text();
        let of = format!("offshoot_requests_total{{method=\"{method}\",route=\"{route}\"");
        let counts = metrics.lines().filter(|line| line.starts_with(&of));
        counts
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.address, &self.admin)
    }

    /// A client with a token for one workspace, limited by rules.
    pub(crate) fn client_for(&self, workspace: &str, allow: &[&str]) -> Client {
        self.client_with(Scope {
            kind: PrincipalKind::Service,
            reach: Reach::Workspace(workspace.parse().unwrap()),
            allow: allow.iter().map(|rule| rule.parse().unwrap()).collect(),
        })
    }

    /// A client with a token for one project, limited by rules.
    pub(crate) fn client_for_project(&self, project: &str, allow: &[&str]) -> Client {
        self.client_with(Scope {
            kind: PrincipalKind::Service,
            reach: Reach::Project(project.parse().unwrap()),
            allow: allow.iter().map(|rule| rule.parse().unwrap()).collect(),
        })
    }

    /// A client with the token of an agent.
    pub(crate) fn agent(&self, agent: &str) -> Client {
        self.client_with(Scope {
            kind: PrincipalKind::Agent,
            reach: Reach::Agent(agent.parse().unwrap()),
            allow: Vec::new(),
        })
    }

    fn client_with(&self, scope: Scope) -> Client {
        let issued = self.engine.access.issue_token(&scope, None, None, &cause());
        Client::new(self.address, &issued.unwrap().secret)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A client over raw sockets: what it sends is exactly what a test says.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn code(&self) -> String {
        let json: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        json["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// All that two answers to different requests can have in common.
    pub(crate) fn comparable(&self) -> Reply {
        let mut same = self.clone();
        same.headers
            .retain(|(name, _)| name != "x-request-id" && name != "date");
        same
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Client {
        Client {
            address,
            token: token.to_owned(),
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// The head of a request; `target` goes out as it is.
    pub(crate) fn head(&self, method: &str, target: &[u8], headers: &[(&str, &str)]) -> Vec<u8> {
        let mut head = Vec::new();
        head.extend_from_slice(method.as_bytes());
        head.push(b' ');
        head.extend_from_slice(target);
        head.extend_from_slice(b" HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.extend_from_slice(format!("Host: {}\r\n", self.address).as_bytes());
        }
        if !self.token.is_empty() {
            head.extend_from_slice(format!("Authorization: Bearer {}\r\n", self.token).as_bytes());
        }
        for (name, value) in headers {
            head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        head
    }

    /// One request on a connection of its own.
    pub(crate) fn send(
        &self,
        method: &str,
        target: &[u8],
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let mut stream = self.connect();
        self.send_on(&mut stream, method, target, headers, body, true)
    }

    /// One request on a connection that may be used again.
    pub(crate) fn send_on(
        &self,
        stream: &mut TcpStream,
        method: &str,
        target: &[u8],
        headers: &[(&str, &str)],
        body: &[u8],
        close: bool,
    ) -> Reply {
        let mut request = self.head(method, target, headers);
        if close {
            request.extend_from_slice(b"Connection: close\r\n");
        }
        request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        request.extend_from_slice(body);
        // The server may answer and close before it has read all of a body that it refuses.
        let _ = stream.write_all(&request);
        read_reply(stream, method == "HEAD")
    }

    pub(crate) fn get(&self, target: &str) -> Reply {
        self.send("GET", target.as_bytes(), &[], b"")
    }

    pub(crate) fn put(&self, target: &str, body: &[u8]) -> Reply {
        self.send("PUT", target.as_bytes(), &[], body)
    }

    pub(crate) fn post(&self, target: &str, body: &str) -> Reply {
        self.send("POST", target.as_bytes(), &[], body.as_bytes())
    }

    pub(crate) fn delete(&self, target: &str) -> Reply {
        self.send("DELETE", target.as_bytes(), &[], b"")
    }

    /// A project with some files, each by one edit.
    pub(crate) fn create_project(&self, name: &str, files: &[(&str, &str)]) {
        let made = self.post("/api/v1/projects", &format!("{{\"name\":\"{name}\"}}"));
        assert_eq!(made.status, 201, "{}", made.text());
        for (path, content) in files {
            let put = self.put(
                &format!("/api/v1/projects/{name}/files/{path}"),
                content.as_bytes(),
            );
            assert_eq!(put.status, 200, "{}", put.text());
        }
    }

    /// A fork of a project for an agent, as the answer has it.
    pub(crate) fn fork(&self, project: &str, agent: &str) -> serde_json::Value {
        let made = self.post(
            &format!("/api/v1/projects/{project}/workspaces"),
            &format!("{{\"agent_id\":\"{agent}\"}}"),
        );
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()
    }

    /// Posts something that must be answered with 200.
    pub(crate) fn done(&self, target: &str, body: &str) -> serde_json::Value {
        let reply = self.post(target, body);
        assert_eq!(reply.status, 200, "{target} {}", reply.text());
        reply.json()
    }

    pub(crate) fn create(&self, id: &str) {
        let reply = self.post("/api/v1/workspaces", &format!("{{\"id\":\"{id}\"}}"));
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
}

fn read_head(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => break,
        }
    }
    head
}

/// Reads one answer.
pub(crate) fn read_reply(stream: &mut TcpStream, head_only: bool) -> Reply {
    let mut head = read_head(stream);
    if head.starts_with(b"HTTP/1.1 100") {
        head = read_head(stream);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut reply = Reply {
        status,
        headers,
        body: Vec::new(),
    };
    if !head_only {
        read_body(stream, &mut reply);
    }
    reply
}

/// Reads the rest of an answer whose head is known.
pub(crate) fn read_body(stream: &mut TcpStream, reply: &mut Reply) {
    if [0, 204, 304].contains(&reply.status) {
        return;
    }
    if let Some(length) = reply
        .header("content-length")
        .and_then(|text| text.parse().ok())
    {
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        reply.body = body;
    } else if reply.header("transfer-encoding") == Some("chunked") {
        reply.body = read_chunks(stream);
    }
}

fn read_chunks(stream: &mut TcpStream) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            if stream.read(&mut byte).unwrap_or(0) == 0 {
                return body;
            }
            line.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&line);
        let size = usize::from_str_radix(text.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        stream.read_exact(&mut chunk).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

/// Percent-encodes every byte that is no letter or digit.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// A form with one file.
pub(crate) fn form(name: &[u8], content: &[u8]) -> (String, Vec<u8>) {
    let mut body =
        b"--frontier\r\nContent-Disposition: form-data; name=\"file\"; filename=\"".to_vec();
    body.extend_from_slice(name);
    body.extend_from_slice(b"\"\r\nContent-Type: application/octet-stream\r\n\r\n");
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n--frontier--\r\n");
    ("multipart/form-data; boundary=frontier".to_owned(), body)
}

/// An open stream of events.
pub(crate) struct Stream {
    stream: TcpStream,
    pending: Vec<u8>,
    body: Vec<u8>,
}

impl Stream {
    pub(crate) fn open(client: &Client, target: &str, headers: &[(&str, &str)]) -> Stream {
        let mut stream = client.connect();
        let mut request = client.head("GET", target.as_bytes(), headers);
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request).unwrap();
        let head = String::from_utf8_lossy(&read_head(&mut stream)).into_owned();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Stream {
            stream,
            pending: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(crate) fn set_timeout(&self, time: Duration) {
        self.stream.set_read_timeout(Some(time)).unwrap();
    }

    /// The next event as its id, name and data; none when the stream ended or time is up. What has no
    /// id has the id 0.
    pub(crate) fn next(&mut self) -> Option<(i64, String, serde_json::Value)> {
        loop {
            while let Some(end) = find(&self.body, b"\n\n") {
                let block: Vec<u8> = self.body.drain(..end + 2).collect();
                let block = String::from_utf8(block).unwrap();
                let field = |name: &str| {
                    block
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .map(str::to_owned)
                };
                if let Some(event) = field("event: ") {
                    let data = field("data: ").unwrap_or_default();
                    let data = serde_json::from_str(&data).unwrap();
                    let id = field("id: ").map_or(0, |id| id.parse().unwrap());
                    return Some((id, event, data));
                }
            }
            if !self.read_more() {
                return None;
            }
        }
    }

    fn read_more(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(n) if n > 0 => self.pending.extend_from_slice(&buffer[..n]),
            _ => return false,
        }
        // The chunks of the transfer encoding.
        while let Some(line) = find(&self.pending, b"\r\n") {
            let text = String::from_utf8_lossy(&self.pending[..line]).into_owned();
            let size = usize::from_str_radix(text.trim(), 16).unwrap();
            if self.pending.len() < line + 2 + size + 2 {
                break;
            }
            self.body
                .extend_from_slice(&self.pending[line + 2..line + 2 + size]);
            self.pending.drain(..line + 2 + size + 2);
            if size == 0 {
                return false;
            }
        }
        true
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}
