//! `cargo xtask soak fuzz`: fuzzes every parser of untrusted input. The targets are in `fuzz/`.

use std::path::Path;
use std::process::Command;

use crate::{Outcome, shell};

/// What reads the inputs: a file in `fuzz/fuzz_targets` and a directory in `fuzz/corpus` each.
const TARGETS: [&str; 6] = [
    "paths",
    "packs",
    "json_merge",
    "archives",
    "upload_pack",
    "receive_pack",
];

/// How long each is tried, unless the environment says otherwise.
const SECONDS: u64 = 600;
/// The variable that says so.
const SECONDS_NAME: &str = "OFFSHOOT_FUZZ_SECONDS";

/// Tries each target and returns one line for each, or the first that failed.
pub(crate) fn run(root: &Path) -> (Vec<String>, Option<String>) {
    let mut lines = Vec::new();
    let failure = available(root).and_then(|()| {
        let seconds = seconds()?;
        for target in TARGETS {
            shell::run(&mut command(root, target, seconds)?)?;
            lines.push(format!("soak: {target}: {seconds} s without a finding"));
        }
        Ok(())
    });
    (lines, failure.err())
}

/// As one would type it.
pub(crate) const COMMAND: &str = "RUSTC_BOOTSTRAP=1 cargo fuzz run TARGET";

fn available(root: &Path) -> Outcome {
    if shell::succeeds(shell::cargo(root).args(["fuzz", "--version"])) {
        return Ok(());
    }
    Err("cargo-fuzz is missing; run: cargo install cargo-fuzz --locked".to_owned())
}

fn seconds() -> Result<u64, String> {
    match std::env::var(SECONDS_NAME) {
        Err(_) => Ok(SECONDS),
        Ok(text) => text
            .parse()
            .map_err(|_| format!("{SECONDS_NAME} is a number of seconds, not `{text}`")),
    }
}

/// New inputs go below the target directory, so that the committed ones stay few and small.
fn command(root: &Path, target: &str, seconds: u64) -> Result<Command, String> {
    let fresh = root.join("target/fuzz-corpus").join(target);
    std::fs::create_dir_all(&fresh).map_err(|error| format!("target directory: {error}"))?;
    let mut command = shell::cargo(root);
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["fuzz", "run", target])
        .arg(fresh)
        .arg(root.join("fuzz/corpus").join(target))
        .args(["--", &format!("-max_total_time={seconds}")])
        .args(["-timeout=20", "-print_final_stats=1"]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_in_the_table_with_a_corpus() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let mut found: Vec<String> = std::fs::read_dir(root.join("fuzz_targets"))
            .expect("the targets")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| {
                path.file_stem()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        found.sort();
        let mut known = TARGETS.map(str::to_owned).to_vec();
        known.sort();
        assert_eq!(found, known);
        for target in TARGETS {
            let corpus = std::fs::read_dir(root.join("corpus").join(target));
            assert!(
                corpus.is_ok_and(|mut files| files.next().is_some()),
                "{target}"
            );
        }
    }
}
