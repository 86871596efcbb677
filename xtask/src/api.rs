//! `cargo xtask api`: Schemathesis against a throw-away server, by the document that it serves.
//!
//! Schemathesis is a Python program that is not installed by itself: it comes from the network, and
//! nothing else of the repository needs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Outcome, shell};

/// Where the server of the run listens.
const ADDRESS: &str = "127.0.0.1:7533";
/// How long a server may take to begin.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const INSTALL: &str = "install it with `python3 -m venv DIR && DIR/bin/pip install schemathesis`, \
                       then run this with `SCHEMATHESIS=DIR/bin/st`";

/// Runs it; `args` go to Schemathesis, for example `--phases fuzzing -n 500`.
pub(crate) fn run(root: &Path, args: &[&str]) -> Outcome {
    let program = std::env::var_os("SCHEMATHESIS").map(PathBuf::from);
    let program = program
        .or_else(|| shell::find_program("st"))
        .map(|program| std::path::absolute(&program).unwrap_or(program))
        .ok_or_else(|| format!("Schemathesis is not here; {INSTALL}"))?;
    shell::run(shell::cargo(root).args(["build", "-p", "offshoot-cli"]))?;
    let place = root.join("target").join("api");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|error| format!("target directory: {error}"))?;
    let offshoot = Offshoot {
        program: root.join("target/debug/offshoot"),
        place,
    };
    let id_and_secret = offshoot.prepare()?;
    let server = offshoot.serve()?;
    let outcome = schemathesis(root, &offshoot.place, &program, &id_and_secret, args);
    drop(server);
    offshoot.clean_up();
    outcome
}

/// The binary and the directory of the run, with data, log and an empty place to stand in.
struct Offshoot {
    program: PathBuf,
    place: PathBuf,
}

/// A server that ends with the run.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Offshoot {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.place)
            .env("OFFSHOOT_DATA", self.place.join("data"))
            // One of its checks sends nothing but bad tokens.
            .env("OFFSHOOT_MAX_BAD_TOKENS", "1000000")
            // Copies need no mounts that a run which was killed would leave behind.
            .env("OFFSHOOT_PROVIDER", "copy")
            .stdin(Stdio::null())
            .args(args);
        command
    }

    /// Something to find, and a token. Returns the token's id and secret.
    fn prepare(&self) -> Result<(String, String), String> {
        for args in [
            &["project", "create", "p"][..],
            &["project", "put", "p", "a.txt"],
            &["workspace", "create", "w"],
            &["fork", "p", "--agent", "a"],
        ] {
            let done = self.command(args).output();
            let done = done.map_err(|error| format!("offshoot does not start: {error}"))?;
            if !done.status.success() {
                return Err(String::from_utf8_lossy(&done.stderr).into_owned());
            }
        }
        let issue = ["--json", "token", "issue", "--admin"];
        let issued = shell::output(&mut self.command(&issue)).ok_or("no token was issued")?;
        let field = |name: &str| {
            let start = issued.find(&format!("\"{name}\""))?;
            issued[start..].split('"').nth(3).map(str::to_owned)
        };
        match (field("id"), field("secret")) {
            (Some(id), Some(secret)) => Ok((id, secret)),
            _ => Err("the answer to `token issue` is not understood".into()),
        }
    }

    fn serve(&self) -> Result<Server, String> {
        let log = fs::File::create(self.place.join("server.log"))
            .map_err(|error| format!("target directory: {error}"))?;
        let child = self
            .command(&["serve", "--listen", ADDRESS])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("offshoot does not start: {error}"))?;
        let mut server = Server(child);
        let began = Instant::now();
        while std::net::TcpStream::connect(ADDRESS).is_err() {
            if began.elapsed() > START_TIMEOUT
                || server.0.try_wait().is_ok_and(|done| done.is_some())
            {
                return Err("the server did not begin; see target/api/server.log".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// What the run made goes; the log stays.
    fn clean_up(&self) {
        let _ = fs::remove_dir_all(self.place.join("data"));
    }
}

fn schemathesis(
    root: &Path,
    place: &Path,
    program: &Path,
    (id, secret): &(String, String),
    args: &[&str],
) -> Outcome {
    let settings = root.join("crates/offshoot-server/tests/schemathesis");
    let mut command = Command::new(program);
    command
        // It keeps notes where it stands.
        .current_dir(place)
        .arg("--config-file")
        .arg(settings.join("schemathesis.toml"))
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", &settings)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("OFFSHOOT_OWN_TOKEN_ID", id)
        .args(["run", &format!("http://{ADDRESS}/openapi.json")])
        .args(["--header", &format!("Authorization: Bearer {secret}")])
        // A stream of events does not end by itself; tests of its own try it.
        .args(["--exclude-path", "/api/v1/events"])
        .args(["--checks", "all", "--continue-on-failure"])
        // The settings say why; on the command line, because `all` outweighs them.
        .args(["--exclude-checks", "ensure_resource_availability"])
        .args(["--request-timeout", "30"])
        .args(args);
    let status = command
        .status()
        .map_err(|error| format!("Schemathesis does not start: {error}; {INSTALL}"))?;
    match status.success() {
        true => Ok(()),
        false => {
            Err("Schemathesis found failures; the server's log is target/api/server.log".into())
        }
    }
}
