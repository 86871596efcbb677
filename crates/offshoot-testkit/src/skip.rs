//! Skipping tests, counted, so that a test that did not run is not taken for one that passed.

use std::fs::OpenOptions;
use std::io::Write;

/// The variable that names the file into which [`skip`] appends; `cargo xtask test` sets it.
pub const SKIPPED_FILE: &str = "OFFSHOOT_SKIPPED_FILE";

/// Says that the calling test does not run here and why, and counts it.
///
/// Prints `skipped: REASON` and appends one line to the file that `OFFSHOOT_SKIPPED_FILE` names.
/// The caller returns afterwards: `return skip("needs root")`.
///
/// # Panics
/// If the line cannot be appended: a skip that is not counted is a failure.
pub fn skip(reason: &str) {
    let mut stderr = std::io::stderr().lock();
    // A closed stderr is no reason to fail; the file below is what is counted.
    let _ = writeln!(stderr, "skipped: {reason}");
    let Some(file) = std::env::var_os(SKIPPED_FILE) else {
        return;
    };
    let line = format!("{}: {}\n", test_name(), reason.replace('\n', " "));
    // One write of one line in append mode: tests of many processes do not tear each other's lines.
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&file)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("cannot note a skipped test in `{SKIPPED_FILE}`: {error}"));
}

/// The running test as nextest or libtest names it.
fn test_name() -> String {
    let from_nextest = std::env::var("NEXTEST_TEST_NAME").ok();
    from_nextest
        .or_else(|| std::thread::current().name().map(str::to_owned))
        .unwrap_or_else(|| "a test".to_owned())
}

/// Whether the process is root, which mounts and loop devices need.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this is a soak run (`OFFSHOOT_SOAK=1`): torture tests then run their full counts.
#[must_use]
pub fn soak() -> bool {
    std::env::var_os("OFFSHOOT_SOAK").is_some_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The environment of a process is shared by its threads, so the variable is set for a child:
    /// this test binary again, running only the test below.
    #[test]
    fn a_skip_is_noted_in_the_file() {
        let dir = tempfile::tempdir().expect("temp dir");
        let file = dir.path().join("skipped");
        for _ in 0..2 {
            let output = Command::new(std::env::current_exe().expect("own path"))
                .args(["--exact", "skip::tests::skips_when_asked", "--nocapture"])
                .env(SKIPPED_FILE, &file)
                .env("TESTKIT_SKIP_NOW", "1")
                .env("NEXTEST_TEST_NAME", "some_test")
                .output()
                .expect("run the test binary");
            assert!(output.status.success());
            assert!(String::from_utf8_lossy(&output.stderr).contains("skipped: asked\n"));
        }
        let noted = std::fs::read_to_string(&file).expect("file of skips");
        assert_eq!(noted, "some_test: asked\nsome_test: asked\n");
    }

    #[test]
    fn skips_when_asked() {
        if std::env::var_os("TESTKIT_SKIP_NOW").is_some() {
            skip("asked");
        }
    }
}
