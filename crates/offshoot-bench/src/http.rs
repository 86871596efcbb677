//! The server under load: reads, durable writes, forks and listings over HTTP, and tools over MCP.
//!
//! The server runs in a process of its own, as users run it; peers run in the same minutes.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use offshoot_core::{Cause, Error, Layout, Operator, ProjectId, RelPath, Result, WorkspaceId};
use offshoot_engine::{
    Content, Engine, EngineOptions, ForkOptions, PrincipalKind, Quota, Reach, Scope, WriteOptions,
};
use offshoot_server::baseline_file_server;
use serde_json::{Value, json};

use super::figures::{Figure, Figures, Goal, median, timed};
use super::http_peers::{McpServer, node_server};
use super::image::{BenchDir, failed};
use super::{forks, load};

/// Connections of the reading load.
const READERS: usize = 16;
/// Clients of the writing load.
const WRITERS: usize = 32;
/// How long one round of load takes.
const ROUND: Duration = Duration::from_millis(1500);
/// Calls of one round over MCP.
const CALLS: usize = 3_000;
/// Calls on the way at once over MCP.
const IN_FLIGHT: usize = 16;
/// Forks that are timed.
const FORKS: usize = 40;
/// Workspaces that are listed.
const MANY: usize = 1_000;
const FILE: &str = "docs/file.txt";

fn cause() -> Cause {
    Cause::by(Operator::new("bench"))
}

/// 4 KiB of text, different for each number.
fn four_kib(number: usize) -> String {
    let line = format!(
        "{number:015} {}\n",
        "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG"
    );
    line.repeat(4096 / line.len() + 1)[..4096].to_owned()
}

/// `offshoot serve` on a data directory.
struct ServerProcess {
    child: Child,
    address: SocketAddr,
    token: String,
}

impl ServerProcess {
    fn start(data: &Path, token: &str) -> Result<Self> {
        let program = std::env::current_exe().map_err(|cause| failed("find itself", cause))?;
        let mut child = Command::new(program)
            .arg("--data")
            .arg(data)
            .args(["--json", "serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|cause| failed("start a server", cause))?;
        let mut told = String::new();
        if let Some(output) = child.stdout.take() {
            let mut output = BufReader::new(output);
            while serde_json::from_str::<Value>(&told).is_err() {
                let read = output.read_line(&mut told);
                if read.map_err(|cause| failed("start a server", cause))? == 0 {
                    break;
                }
            }
        }
        let told: Value = serde_json::from_str(&told).unwrap_or_default();
        let address = told["listen"].as_str().and_then(|text| text.parse().ok());
        let address = address.ok_or_else(|| Error::internal("the server did not start"))?;
        Ok(ServerProcess {
            child,
            address,
            token: token.to_owned(),
        })
    }

    fn request(&self, method: &str, target: &str, body: &str) -> Vec<u8> {
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
        .into_bytes()
    }

    fn tool(&self, name: &str, arguments: &Value) -> Vec<u8> {
        let target = format!("/api/v1/tools/{name}");
        self.request("POST", &target, &arguments.to_string())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The memory that a process has, in MB.
fn resident_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| {
        rest.trim()
            .trim_end_matches(" kB")
            .trim()
            .parse::<f64>()
            .ok()
    });
    kib.map_or(f64::NAN, |kib| kib * 1024.0 / 1e6)
}

/// A data directory with the workspace `bench`, which holds one file, and tokens for it.
struct HttpFixture {
    engine: Engine,
    data: PathBuf,
    ws: WorkspaceId,
    admin: String,
    service: String,
}

fn fixture(root: &Path) -> Result<HttpFixture> {
    let data = root.join("data");
    let engine = Engine::open(EngineOptions::new(&data))?;
    let ws: WorkspaceId = "bench".parse()?;
    engine.workspaces.create_workspace(
        Some(ws.clone()),
        Layout::Plain,
        Quota::default(),
        &cause(),
    )?;
    write(&engine, &ws, FILE, &four_kib(0))?;
    let (admin, service) = tokens(&engine, &ws)?;
    Ok(HttpFixture {
        engine,
        data,
        ws,
        admin,
        service,
    })
}

fn tokens(engine: &Engine, ws: &WorkspaceId) -> Result<(String, String)> {
    let admin = Scope::everything(PrincipalKind::Admin);
    let service = Scope {
        kind: PrincipalKind::Service,
        reach: Reach::Workspace(ws.clone()),
        allow: Vec::new(),
    };
    let issue = |scope: &Scope| engine.access.issue_token(scope, None, None, &cause());
    Ok((issue(&admin)?.secret, issue(&service)?.secret))
}

fn write(engine: &Engine, ws: &WorkspaceId, path: &str, text: &str) -> Result<()> {
    let path = RelPath::parse(path.as_bytes())?;
    let content = Content::Bytes(text.as_bytes());
    engine
        .workspaces
        .write_file(ws, &path, content, &WriteOptions::default(), &cause())
        .map(drop)
}

/// Everything that does not depend on the number of files.
pub(crate) fn run(
    place: &BenchDir,
    repeat: usize,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    let root = place.dir().join("http");
    std::fs::create_dir_all(&root).map_err(|cause| failed("make a directory", cause))?;
    let fixture = fixture(&root)?;
    progress("an idle server");
    let server = ServerProcess::start(&fixture.data, &fixture.service)?;
    std::thread::sleep(Duration::from_secs(1));
    let idle = resident_mb(server.child.id());
    add(
        figures,
        "memory of an idle server",
        "MB",
        idle,
        "limit",
        60.0,
        Goal::AtMost(1.0),
    );
    reads(&root, &server, repeat, progress, figures)?;
    writes(&root, &fixture, &server, repeat, progress, figures)?;
    drop(server);
    over_mcp(&root, &fixture, repeat, progress, figures)?;
    listing(&fixture, progress, figures)?;
    drop(fixture);
    std::fs::remove_dir_all(&root).map_err(|cause| failed("clean up", cause))
}

fn add(
    figures: &mut Figures,
    name: &str,
    unit: &'static str,
    ours: f64,
    peer_name: &str,
    peer: f64,
    goal: Goal,
) {
    figures.add(Figure {
        name: name.to_owned(),
        files: 0,
        ours,
        peer_name: peer_name.to_owned(),
        peer,
        unit,
        goal,
    });
}

fn reads(
    root: &Path,
    server: &ServerProcess,
    repeat: usize,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    progress("reads over HTTP");
    let file = root.join("file.txt");
    std::fs::write(&file, four_kib(0)).map_err(|cause| failed("write a file", cause))?;
    let bare = baseline_file_server(file)?;
    let bare_request = format!("GET /file HTTP/1.1\r\nHost: {bare}\r\n\r\n").into_bytes();
    let target = format!("/api/v1/workspaces/bench/files/{FILE}");
    let raw_request = server.request("GET", &target, "");
    let tool_request = server.tool("read_file", &json!({ "path": FILE }));
    let (mut raw, mut tool, mut peer) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repeat {
        for (address, request, rates) in [
            (bare, &bare_request, &mut peer),
            (server.address, &raw_request, &mut raw),
            (server.address, &tool_request, &mut tool),
        ] {
            rates.push(load::rate(address, READERS, ROUND, &|_, _| {
                request.clone()
            })?);
        }
    }
    let (peer_name, peer) = ("bare axum handler, tokio::fs", median(peer));
    let goal = Goal::AtLeast(0.5);
    let name = format!("read 4 KiB over HTTP, {READERS} connections");
    add(figures, &name, "/s", median(raw), peer_name, peer, goal);
    let name = format!("tool `read_file` 4 KiB over HTTP, {READERS} connections");
    add(figures, &name, "/s", median(tool), peer_name, peer, goal);
    Ok(())
}

fn writes(
    root: &Path,
    fixture: &HttpFixture,
    server: &ServerProcess,
    repeat: usize,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    progress("durable writes over HTTP");
    let store = Engine::open(EngineOptions::new(root.join("store")))?;
    store.workspaces.create_workspace(
        Some(fixture.ws.clone()),
        Layout::Plain,
        Quota::default(),
        &cause(),
    )?;
    let (mut ours, mut engine, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..repeat {
        let number = |client: usize, n: usize| (round * WRITERS + client) * 1_000_000 + n;
        let request = |client: usize, n: usize| {
            let path = format!("w{client}/{}.txt", n % 64);
            let content = four_kib(number(client, n));
            server.tool("write_file", &json!({ "path": path, "content": content }))
        };
        ours.push(load::rate(server.address, WRITERS, ROUND, &request)?);
        commits.push(in_process(round, &|path, text| {
            let path = RelPath::parse(path.as_bytes())?;
            store
                .workspaces
                .baseline_write(&fixture.ws, &path, text.as_bytes(), &cause())
        })?);
        engine.push(in_process(round, &|path, text| {
            write(&fixture.engine, &fixture.ws, path, text)
        })?);
    }
    let name = format!("tool `write_file` 4 KiB over HTTP, durable, {WRITERS} clients");
    let ours = median(ours);
    for (peer_name, peer, goal) in [
        (
            format!("the same rows committed by the store, {WRITERS} threads"),
            commits,
            Goal::AtLeast(0.4),
        ),
        (
            format!("the same in process, {WRITERS} threads"),
            engine,
            Goal::None,
        ),
    ] {
        add(figures, &name, "/s", ours, &peer_name, median(peer), goal);
    }
    Ok(())
}

/// Writes in a second when so many threads of this process write at once and share commits.
fn in_process(round: usize, write: &(dyn Fn(&str, &str) -> Result<()> + Sync)) -> Result<f64> {
    let began = std::time::Instant::now();
    let counts: Vec<Result<usize>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|client| {
                scope.spawn(move || -> Result<usize> {
                    let mut n = 0;
                    while began.elapsed() < ROUND {
                        let path = format!("p{client}/{}.txt", n % 64);
                        let number = (round * WRITERS + client) * 1_000_000 + n;
                        write(&path, &four_kib(number + 500_000))?;
                        n += 1;
                    }
                    Ok(n)
                })
            })
            .collect();
        writers
            .into_iter()
            .map(|writer| {
                writer
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let mut sum = 0;
    for count in counts {
        sum += count?;
    }
    Ok(sum as f64 / began.elapsed().as_secs_f64())
}

/// Reads and writes through MCP over stdio, beside the server that most clients start.
fn over_mcp(
    root: &Path,
    fixture: &HttpFixture,
    repeat: usize,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    progress("tools over MCP");
    let program = match node_server(root) {
        Ok(program) => program,
        Err(error) => {
            figures.note(format!(
                "MCP over stdio was not measured beside the node server: {}.",
                error.message()
            ));
            return Ok(());
        }
    };
    let theirs = root.join("node");
    std::fs::create_dir_all(theirs.join("docs"))
        .map_err(|cause| failed("make a directory", cause))?;
    std::fs::write(theirs.join(FILE), four_kib(0))
        .map_err(|cause| failed("write a file", cause))?;
    let mut node = McpServer::start(Command::new(program).arg(&theirs))?;
    let own = std::env::current_exe().map_err(|cause| failed("find itself", cause))?;
    let mut ours = McpServer::start(Command::new(own).arg("--data").arg(&fixture.data).args([
        "mcp",
        "--workspace",
        "bench",
    ]))?;
    let at = |place: &str| theirs.join(place).to_string_lossy().into_owned();
    let text = |n: usize| four_kib(n + 7_000_000);
    for (in_flight, calls) in [(1, CALLS / 4), (IN_FLIGHT, CALLS)] {
        let mut rates = [const { Vec::new() }; 4];
        for round in 0..repeat {
            let first = round * calls;
            let read =
                |path: String| json!({ "name": "read_text_file", "arguments": { "path": path } });
            let own_read = json!({ "name": "read_file", "arguments": { "path": FILE } });
            let write = |path: String, n: usize| json!({ "name": "write_file", "arguments": { "path": path, "content": text(first + n) } });
            rates[0].push(ours.rate(calls, in_flight, &|_| own_read.clone())?);
            rates[1].push(node.rate(calls, in_flight, &|_| read(at(FILE)))?);
            let name = |n: usize| format!("docs/{}.txt", n % 64);
            rates[2].push(ours.rate(calls / 3, in_flight, &|n| write(name(n), n))?);
            rates[3].push(node.rate(calls / 3, in_flight, &|n| write(at(&name(n)), n))?);
        }
        let [own_reads, node_reads, own_writes, node_writes] = rates.map(median);
        let (reads, writes) = match in_flight {
            1 => (Goal::None, Goal::None),
            _ => (Goal::AtLeast(3.0), Goal::AtLeast(1.0)),
        };
        let peer = "node filesystem MCP server";
        let name = format!("`read_file` 4 KiB over MCP stdio, {in_flight} in flight");
        add(figures, &name, "/s", own_reads, peer, node_reads, reads);
        let name =
            format!("`write_file` 4 KiB over MCP stdio, ours durable, {in_flight} in flight");
        add(figures, &name, "/s", own_writes, peer, node_writes, writes);
    }
    let (own, peer) = (resident_mb(ours.pid()), resident_mb(node.pid()));
    add(
        figures,
        "memory of the MCP server",
        "MB",
        own,
        "node filesystem MCP server",
        peer,
        Goal::None,
    );
    Ok(())
}

fn listing(fixture: &HttpFixture, progress: &dyn Fn(&str), figures: &mut Figures) -> Result<()> {
    progress("1,000 workspaces");
    for n in 1..MANY {
        let id = format!("many-{n}").parse()?;
        fixture.engine.workspaces.create_workspace(
            Some(id),
            Layout::Plain,
            Quota::default(),
            &cause(),
        )?;
    }
    let server = ServerProcess::start(&fixture.data, &fixture.admin)?;
    let request = server.request("GET", "/api/v1/workspaces?limit=1000", "");
    let mut connection = load::Connection::open(server.address)?;
    let mut took = Vec::new();
    for _ in 0..21 {
        let (body, time) = timed(|| connection.ask(&request))?;
        let listed: Value = serde_json::from_slice(&body).unwrap_or_default();
        if listed["workspaces"].as_array().map_or(0, Vec::len) != MANY {
            return Err(Error::internal("not every workspace was listed"));
        }
        took.push(time);
    }
    let name = "1,000 workspaces listed over HTTP";
    add(
        figures,
        name,
        "ms",
        median(took),
        "limit",
        20.0,
        Goal::AtMost(1.0),
    );
    Ok(())
}

/// Forks over HTTP and in process, in turns on the same project.
pub(crate) fn fork(
    place: &BenchDir,
    files: usize,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    progress(&format!("forks of {files} files over HTTP"));
    let root = place.dir().join(format!("http-forks-{files}"));
    let (engine, project): (Engine, ProjectId) = forks::project(&root, files)?;
    let ws: WorkspaceId = "bench".parse()?;
    engine.workspaces.create_workspace(
        Some(ws.clone()),
        Layout::Plain,
        Quota::default(),
        &cause(),
    )?;
    let (admin, _) = tokens(&engine, &ws)?;
    let server = ServerProcess::start(&root.join("data"), &admin)?;
    let mut connection = load::Connection::open(server.address)?;
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    for round in 0..FORKS {
        let body = json!({ "agent_id": format!("http-{round}") }).to_string();
        let target = format!("/api/v1/projects/{project}/workspaces");
        let request = server.request("POST", &target, &body);
        ours.push(timed(|| connection.ask(&request))?.1);
        let options = ForkOptions {
            agent: Some(format!("direct-{round}").parse()?),
            ..ForkOptions::default()
        };
        peer.push(timed(|| engine.forks.fork_out(&project, &options, &cause()))?.1);
    }
    let (ours, peer) = (median(ours), median(peer));
    let mut add = |name: &str, ours, peer_name: &str, peer, goal| {
        figures.add(Figure {
            name: name.to_owned(),
            files,
            ours,
            peer_name: peer_name.to_owned(),
            peer,
            unit: "ms",
            goal,
        });
    };
    add(
        "fork over HTTP, p50",
        ours,
        "the same in process, in turns",
        peer,
        Goal::None,
    );
    add(
        "fork over HTTP, beyond the one in process",
        ours - peer,
        "limit",
        1.0,
        Goal::AtMost(1.0),
    );
    for kind in ["http", "direct"] {
        for round in 0..FORKS {
            engine
                .workspaces
                .delete_workspace(&format!("{kind}-{round}").parse()?, &cause())?;
        }
    }
    drop(server);
    engine.context.wait_for_jobs();
    drop(engine);
    std::fs::remove_dir_all(&root).map_err(|cause| failed("clean up", cause))
}
