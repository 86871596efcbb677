//! `cargo xtask ui`: the web UI, built into the one file that the server embeds.
//!
//! The file is committed, so that a machine with Rust alone builds the whole product. `cargo xtask test`
//! builds the UI again, compares, and drives it in a browser.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, requirements, shell};

/// Where the sources are.
fn sources(root: &Path) -> PathBuf {
    root.join("ui")
}

/// The file that the server embeds.
fn bundle(root: &Path) -> PathBuf {
    root.join("crates/offshoot-server/ui.bundle")
}

fn npm(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(sources(root)).args(words);
    command
}

/// Installs what the UI is built with, as the lock file has it.
pub(crate) fn install(root: &Path) -> Outcome {
    shell::run(&mut npm(
        root,
        &["install", "--no-save", "--no-audit", "--no-fund"],
    ))
}

/// Builds the UI into the file that the server embeds.
pub(crate) fn build(root: &Path) -> Outcome {
    install(root)?;
    shell::run(&mut npm(root, &["run", "build"]))?;
    shell::run(&mut pack(root))
}

/// Serves the UI with live reload, in front of an `offshoot serve` that runs already.
pub(crate) fn dev(root: &Path) -> Outcome {
    install(root)?;
    shell::run(&mut npm(root, &["run", "dev"]))
}

/// Checks types, conventions and pure parts, and that the embedded file is what the sources build.
pub(crate) fn check(root: &Path) -> Outcome {
    install(root)?;
    shell::run(&mut npm(root, &["run", "check"]))?;
    shell::run(&mut npm(root, &["test"]))?;
    shell::run(&mut npm(root, &["run", "build"]))?;
    shell::run(pack(root).arg("--check"))
}

/// Builds the server and drives the UI that it serves in a browser.
pub(crate) fn build_and_browse(root: &Path) -> Outcome {
    install(root)?;
    shell::run(shell::cargo(root).args(["build", "--package", "offshoot-cli"]))?;
    let browser = requirements::chromium()
        .ok_or("there is no Chromium; install it, or name it in CHROMIUM")?;
    browse(root, &browser)
}

/// Drives the UI in a browser against the binary that the tests before it ran. Without a browser
/// that is noted among the skipped tests.
pub(crate) fn browse_or_skip(root: &Path, skipped: &Path) -> Outcome {
    let Some(browser) = requirements::chromium() else {
        println!("skipped: there is no Chromium");
        let noted = fs::OpenOptions::new().append(true).open(skipped);
        return noted
            .and_then(|mut file| writeln!(file, "the web UI in a browser: needs Chromium"))
            .map_err(|error| format!("cannot note a skipped test: {error}"));
    };
    // Nothing is compiled, unless only some of the tests were asked for.
    let build = ["test", "--workspace", "--no-run", "--quiet"];
    shell::run(shell::cargo(root).args(build))?;
    browse(root, &browser)
}

/// Drives the UI in a browser against the server that was built last.
fn browse(root: &Path, browser: &Path) -> Outcome {
    let server = shell::target_dir(root).join("debug/offshoot");
    shell::run(
        npm(root, &["run", "e2e"])
            .env("OFFSHOOT_BIN", server)
            .env("CHROMIUM", browser),
    )
}

fn pack(root: &Path) -> Command {
    let mut command = Command::new("node");
    command.current_dir(sources(root));
    command.arg("scripts/pack.mjs").arg(bundle(root));
    command
}
