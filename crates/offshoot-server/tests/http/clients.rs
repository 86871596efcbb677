//! Clients that generators make from the document of a running server: they are made whole, and
//! programs that use them work.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Running;

/// Where `cargo xtask test` puts the generators.
fn tools() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{text}");
    text
}

/// A running server and its document in a directory.
fn served() -> (offshoot_testkit::HostDir, Running, tempfile::TempDir) {
    let data = offshoot_testkit::HostDir::new();
    let running = Running::start(data.path());
    let place = tempfile::tempdir().unwrap();
    let document = running.client().get("/openapi.json").text();
    std::fs::write(place.path().join("openapi.json"), document).unwrap();
    (data, running, place)
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/clients")
}

#[test]
fn a_generated_python_client_works() {
    let tools = tools().join("python");
    if !tools.join("openapi_python_client").is_dir() {
        return offshoot_testkit::skip(
            "openapi-python-client is missing; `cargo xtask test` installs it",
        );
    }
    let (_data, running, place) = served();
    let python = || {
        let mut python = Command::new("python3");
        let path = std::env::join_paths([place.path().join("out"), tools.clone()]).unwrap();
        python.current_dir(place.path()).env("PYTHONPATH", path);
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        python
    };
    // Warnings are failures; formatting what was generated is none of its work.
    std::fs::write(place.path().join("config.yml"), "post_hooks: []\n").unwrap();
    let told = run(python()
        .args(["-m", "openapi_python_client", "generate"])
        .args([
            "--path",
            "openapi.json",
            "--output-path",
            "out",
            "--config",
            "config.yml",
            "--fail-on-warning",
        ]));
    assert!(!told.contains("WARNING"), "{told}");
    let address = format!("http://{}", running.address);
    run(python()
        .arg(sources().join("walk.py"))
        .args([&address, &running.admin]));
}

#[test]
fn a_generated_typescript_client_works() {
    let tools = tools().join("npm/node_modules");
    if !tools.join("openapi-typescript").is_dir() {
        return offshoot_testkit::skip(
            "openapi-typescript is missing; `cargo xtask test` installs it",
        );
    }
    let (_data, running, place) = served();
    std::os::unix::fs::symlink(
        tools.canonicalize().unwrap(),
        place.path().join("node_modules"),
    )
    .unwrap();
    std::fs::copy(sources().join("walk.mts"), place.path().join("walk.mts")).unwrap();
    let tool = |name: &str| {
        let mut tool = Command::new(place.path().join("node_modules/.bin").join(name));
        tool.current_dir(place.path());
        tool
    };
    run(tool("openapi-typescript").args(["openapi.json", "-o", "schema.d.ts"]));
    run(tool("tsc").args([
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--skipLibCheck",
        "--types",
        "node",
        "walk.mts",
    ]));
    let address = format!("http://{}", running.address);
    let mut node = Command::new("node");
    run(node
        .current_dir(place.path())
        .args(["walk.mjs", &address, &running.admin]));
}
