//! `cargo xtask test`: everything that must hold before a change is accepted.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Outcome, requirements, shell, tidy, ui};

/// The steps that are done, for the closing table.
struct Steps {
    done: Vec<(String, Duration, &'static str)>,
}

/// Runs all steps and stops at the first that fails.
pub(crate) fn run(root: &Path, nextest_args: &[&str]) -> Outcome {
    let skipped = root.join("target").join("skipped-tests.txt");
    let noted = fs::create_dir_all(root.join("target")).and_then(|()| fs::write(&skipped, ""));
    noted.map_err(|error| format!("cannot write to the target directory: {error}"))?;
    let mut steps = Steps { done: Vec::new() };
    let outcome = run_steps(root, nextest_args, &skipped, &mut steps);
    let skipped = fs::read_to_string(&skipped).unwrap_or_default();
    println!("\n{}{}", table(&steps.done), skipped_report(&skipped));
    if outcome.is_ok() {
        println!("all passed");
    }
    outcome
}

fn run_steps(root: &Path, nextest_args: &[&str], skipped: &Path, steps: &mut Steps) -> Outcome {
    steps.step("requirements", || requirements::provide(root))?;
    steps.command(shell::cargo(root).args(["fmt", "--all", "--check"]))?;
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    steps.command(shell::cargo(root).args(clippy))?;
    let mut nextest = shell::cargo(root);
    nextest
        .args(["nextest", "run", "--workspace"])
        .args(nextest_args);
    steps.command(nextest.env("OFFSHOOT_SKIPPED_FILE", skipped))?;
    let mut documents = shell::cargo(root);
    documents.args(["test", "--doc", "--workspace"]);
    steps.command(documents.env("OFFSHOOT_SKIPPED_FILE", skipped))?;
    steps.step("ui", || ui::check(root))?;
    steps.step("ui in a browser", || ui::browse_or_skip(root, skipped))?;
    // Advisories need the network and change without us: they are not a test of this repository.
    if shell::succeeds(shell::cargo(root).args(["deny", "--version"])) {
        steps.command(shell::cargo(root).args(["deny", "check", "bans", "licenses", "sources"]))?;
    }
    steps.step("tidy", || tidy::run(root))
}

impl Steps {
    /// Runs one step, prints its name and time, and notes both.
    fn step(&mut self, name: &str, work: impl FnOnce() -> Outcome) -> Outcome {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = work();
        let took = start.elapsed();
        let word = if outcome.is_ok() { "passed" } else { "FAILED" };
        println!("== {name}: {word} in {}", seconds(took));
        self.done.push((name.to_owned(), took, word));
        outcome.map_err(|error| format!("stopped at `{name}`: {error}"))
    }

    fn command(&mut self, command: &mut Command) -> Outcome {
        let name = shell::words(command);
        self.step(&name, || shell::run(command))
    }
}

/// A duration as a person reads it: `12.3 s`, `4 min 05 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    if whole < 60 {
        return format!("{:.1} s", duration.as_secs_f64());
    }
    format!("{} min {:02} s", whole / 60, whole % 60)
}

fn table(steps: &[(String, Duration, &'static str)]) -> String {
    let width = steps.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, took, word) in steps {
        text.push_str(&format!("{name:width$}  {:>12}  {word}\n", seconds(*took)));
    }
    let total: Duration = steps.iter().map(|(_, took, _)| *took).sum();
    text.push_str(&format!("{:width$}  {:>12}\n", "total", seconds(total)));
    text
}

/// What did not run here, so that a green run on a poor machine does not look like a full one.
fn skipped_report(lines: &str) -> String {
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    let mut text = format!("skipped tests: {}\n", lines.len());
    for line in lines {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_stops_the_run_and_stays_in_the_table() {
        let mut steps = Steps { done: Vec::new() };
        steps.step("one", || Ok(())).expect("passes");
        let error = steps
            .step("two", || Err("why".to_owned()))
            .expect_err("fails");
        assert_eq!(error, "stopped at `two`: why");
        let table = table(&steps.done);
        assert!(table.contains("one         0.0 s  passed\n"), "{table}");
        assert!(table.contains("two         0.0 s  FAILED\n"), "{table}");
    }

    #[test]
    fn skips_are_counted_and_shown() {
        assert_eq!(skipped_report(""), "skipped tests: 0\n");
        let report = skipped_report("b: needs root\na: needs btrfs\n");
        assert_eq!(
            report,
            "skipped tests: 2\n  a: needs btrfs\n  b: needs root\n"
        );
    }

    #[test]
    fn times_are_readable() {
        assert_eq!(seconds(Duration::from_millis(12_340)), "12.3 s");
        assert_eq!(seconds(Duration::from_secs(245)), "4 min 05 s");
    }
}
