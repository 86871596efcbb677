//! What MCP is measured against: the filesystem server that most clients start.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use offshoot_core::{Error, ErrorCode, Result};
use serde_json::{Value, json};

use super::image::{failed, run};

/// The package of the MCP server that is the peer.
const PACKAGE: &str = "@modelcontextprotocol/server-filesystem";
/// Names a directory in which `npm install` put the package, for machines without a network.
const PREFIX: &str = "OFFSHOOT_BENCH_NPM_PREFIX";

/// Where the program of the peer is; an error says what is missing.
pub(crate) fn node_server(place: &Path) -> Result<PathBuf> {
    let prefix = match std::env::var_os(PREFIX) {
        Some(given) => PathBuf::from(given),
        None => {
            let prefix = place.join("npm");
            std::fs::create_dir_all(&prefix).map_err(|cause| failed("make a directory", cause))?;
            run(Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"])
                .arg(&prefix)
                .arg(PACKAGE))?;
            prefix
        }
    };
    let program = prefix.join("node_modules/.bin/mcp-server-filesystem");
    match program.exists() {
        true => Ok(program),
        false => Err(Error::new(
            ErrorCode::Unsupported,
            "npm installed no filesystem MCP server",
        )),
    }
}

/// An MCP server that is spoken to over its stdin and stdout.
pub(crate) struct McpServer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl McpServer {
    /// Starts it and shakes hands.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|cause| failed("start an MCP server", cause))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::internal("a child has no pipes"));
        };
        let mut server = McpServer {
            child,
            input,
            output: BufReader::with_capacity(1 << 20, output),
        };
        server.send(
            &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "offshoot bench", "version": "0" } } }),
        )?;
        server.receive()?;
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(server)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let mut line = message.to_string();
        line.push('\n');
        self.input
            .write_all(line.as_bytes())
            .map_err(|cause| failed("speak to an MCP server", cause))
    }

    /// Reads an answer, and whether it is one that we wanted.
    fn receive(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.map_err(|cause| failed("hear an MCP server", cause))?;
        if line.is_empty() || line.contains("\"isError\":true") || line.contains("\"error\":{") {
            return Err(Error::internal("an MCP server refused a call").with_source(line));
        }
        Ok(line)
    }

    /// Calls of a tool in a second, with so many on the way at once.
    pub(crate) fn rate(
        &mut self,
        calls: usize,
        in_flight: usize,
        call: &dyn Fn(usize) -> Value,
    ) -> Result<f64> {
        let began = Instant::now();
        let mut sent = 0;
        for answered in 0..calls {
            while sent < calls && sent < answered + in_flight {
                self.send(&json!({
                    "jsonrpc": "2.0", "id": sent + 1, "method": "tools/call", "params": call(sent),
                }))?;
                sent += 1;
            }
            self.receive()?;
        }
        Ok(calls as f64 / began.elapsed().as_secs_f64())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
