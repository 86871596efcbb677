//! `cargo xtask soak`: the torture tests with their full counts, and a dated note of the result.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Outcome, date, fuzz, shell, test};

/// A torture run: the tests of one package whose names contain a word.
struct Soak {
    name: &'static str,
    package: &'static str,
    /// The word that the names of its tests contain.
    filter: &'static str,
    what: &'static str,
}

/// Every torture run. A test of `tests/` joins one by its name; a run that matches no test fails.
///
/// The tests see `OFFSHOOT_SOAK=1` and print their results as lines that start with `soak: `.
#[rustfmt::skip]
const SOAKS: [Soak; 17] = [
    soak("race", "offshoot-fs", "race_", "no escape while directories turn into symlinks"),
    soak("fault", "offshoot-engine", "fault_", "the n-th call fails, for every n"),
    soak("kill", "offshoot-cli", "kill_", "kill -9 of the real binary under load"),
    soak("power", "offshoot-cli", "power_cut_", "power cuts under load"),
    soak("writers", "offshoot-cli", "writers_", "many writers from two processes"),
    soak("properties", "offshoot-engine", "property_", "random cases of every property"),
    soak("oracle", "offshoot-engine", "oracle_", "random trees against stock git"),
    soak("forks", "offshoot-engine", "forks_stay_", "forks stay as their base while the project goes on"),
    soak("fork-kill", "offshoot-engine", "fork_kill_", "kill -9 while forks and layers are made, moved and removed"),
    soak("merge-kill", "offshoot-engine", "merge_kill_", "kill -9 in the middle of large merges"),
    soak("two-completers", "offshoot-engine", "two_completers_", "two processes merge into one project at once"),
    soak("link-race", "offshoot-engine", "link_race_", "pulls and pushes beside merges, commits and other pushes"),
    soak("link-kill", "offshoot-engine", "link_kill_", "kill -9 while a linked project pulls and pushes"),
    soak("push-race", "offshoot-server", "push_race_", "random histories pushed by several people at once"),
    soak("push-kill", "offshoot-cli", "push_kill_", "kill -9 of a server while git pushes to it"),
    soak("histories", "offshoot-merge", "histories_", "random histories through the merge"),
    soak(FUZZ, "fuzz", "", "invented inputs for everything that reads what strangers send"),
];

/// The one that is no test.
const FUZZ: &str = "fuzz";

const fn soak(
    name: &'static str,
    package: &'static str,
    filter: &'static str,
    what: &'static str,
) -> Soak {
    Soak {
        name,
        package,
        filter,
        what,
    }
}

/// What a run gave.
struct Run {
    command: String,
    took: Duration,
    lines: Vec<String>,
    failure: Option<String>,
}

/// Prints the names.
pub(crate) fn list() -> Outcome {
    for soak in &SOAKS {
        println!(
            "{:<15} {:<18} {:<16} {}",
            soak.name, soak.package, soak.filter, soak.what
        );
    }
    Ok(())
}

/// Runs the named ones, or all, and appends each result to the report of the day. All run even if
/// one fails: hours of the others are not thrown away.
pub(crate) fn run(root: &Path, names: &[&str]) -> Outcome {
    let chosen = choose(names)?;
    let mut failed = Vec::new();
    for soak in chosen {
        println!("\n== soak {}: {}", soak.name, soak.what);
        let run = run_one(root, soak);
        append_report(root, &section(soak, &run, &machine(root)))?;
        if let Some(failure) = run.failure {
            println!("== soak {}: FAILED: {failure}", soak.name);
            failed.push(soak.name);
        } else {
            println!(
                "== soak {}: passed in {}",
                soak.name,
                test::seconds(run.took)
            );
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("soak failed: {}", failed.join(", ")))
    }
}

fn choose(names: &[&str]) -> Result<Vec<&'static Soak>, String> {
    if names.is_empty() {
        return Ok(SOAKS.iter().collect());
    }
    let find = |name: &&str| {
        let found = SOAKS.iter().find(|soak| soak.name == *name);
        found.ok_or_else(|| format!("no soak is called `{name}`; see: cargo xtask soak --list"))
    };
    names.iter().map(find).collect()
}

fn run_one(root: &Path, soak: &Soak) -> Run {
    if soak.name == FUZZ {
        return run_fuzz(root);
    }
    let mut command = nextest(root, soak);
    let skipped = root.join("target").join("skipped-soaks.txt");
    command.args(["--no-capture", "-E", &format!("test({})", soak.filter)]);
    command
        .env("OFFSHOOT_SOAK", "1")
        .env("OFFSHOOT_SKIPPED_FILE", &skipped);
    let words = format!("OFFSHOOT_SOAK=1 {}", shell::words(&command));
    // Built first, so that the duration is that of the tests.
    let built = shell::run(nextest(root, soak).arg("--no-run"));
    let emptied = fs::write(&skipped, "").map_err(|error| format!("target directory: {error}"));
    let start = Instant::now();
    let (lines, failure) = match built.and(emptied) {
        Ok(()) => watch(&mut command),
        Err(error) => (Vec::new(), Some(error)),
    };
    let took = start.elapsed();
    let failure = failure.or_else(|| skipped_tests(&skipped));
    Run {
        command: words,
        took,
        lines,
        failure,
    }
}

fn run_fuzz(root: &Path) -> Run {
    let start = Instant::now();
    let (lines, failure) = fuzz::run(root);
    Run {
        command: fuzz::COMMAND.to_owned(),
        took: start.elapsed(),
        lines,
        failure,
    }
}

fn nextest(root: &Path, soak: &Soak) -> Command {
    let mut command = shell::cargo(root);
    command.args([
        "nextest",
        "run",
        "--release",
        "--profile",
        "soak",
        "-p",
        soak.package,
    ]);
    // `fail` is the default of today's nextest; a run without a test must never pass.
    command.args(["--no-tests", "fail"]);
    command
}

/// A soak that skipped something has not shown what its report would say.
fn skipped_tests(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    (!lines.is_empty()).then(|| format!("skipped: {}", lines.join("; ")))
}

/// Runs a command, passes its output on, and collects the lines that start with `soak: `.
fn watch(command: &mut Command) -> (Vec<String>, Option<String>) {
    let mut lines = Vec::new();
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return (lines, Some(format!("it does not start: {error}"))),
    };
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            // libtest prints `test NAME ... ` without a newline before what the test prints first.
            let result = line
                .find("soak: ")
                .map(|start| (&line[..start], &line[start..]));
            if let Some((before, result)) = result
                && (before.is_empty() || before.starts_with("test "))
            {
                lines.push(result.trim_end().to_owned());
            }
        }
    }
    let failure = match child.wait() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(status.to_string()),
        Err(error) => Some(error.to_string()),
    };
    (lines, failure)
}

/// What the numbers depend on, without a name that leads to the machine.
fn machine(root: &Path) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = release.trim().split('-').next().unwrap_or_default();
    let mut df = Command::new("df");
    df.arg("--output=fstype").arg(std::env::temp_dir());
    let files = shell::output(&mut df).and_then(|text| text.lines().last().map(str::to_owned));
    let mut git = Command::new("git");
    git.current_dir(root)
        .args(["describe", "--always", "--dirty", "--exclude", "*"]);
    format!(
        "{cores} cores, Linux {kernel}, temporary files on {}; commit {}",
        files.unwrap_or_else(|| "an unknown file system".to_owned()),
        shell::output(&mut git).unwrap_or_else(|| "unknown".to_owned()),
    )
}

fn section(soak: &Soak, run: &Run, machine: &str) -> String {
    let (_, time) = date::now();
    let verdict = if run.failure.is_some() {
        "FAILED"
    } else {
        "passed"
    };
    let mut text = format!(
        "\n## {}: {verdict} ({time} UTC)\n\n- What: {}\n",
        soak.name, soak.what
    );
    text.push_str(&format!(
        "- Machine: {machine}\n- Command: `{}`\n",
        run.command
    ));
    text.push_str(&format!("- Duration: {}\n", test::seconds(run.took)));
    if let Some(failure) = &run.failure {
        text.push_str(&format!("- Failure: {failure}\n"));
    }
    text.push_str("\n```text\n");
    for line in &run.lines {
        text.push_str(&format!("{line}\n"));
    }
    if run.lines.is_empty() {
        text.push_str("(no result line)\n");
    }
    text.push_str("```\n");
    text
}

/// Appends to the report of the day, which begins with a title.
fn append_report(root: &Path, section: &str) -> Outcome {
    let (today, _) = date::now();
    let dir = root.join("docs").join("reports");
    let path = dir.join(format!("soak-{today}.md"));
    let write = || {
        fs::create_dir_all(&dir)?;
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        if file.metadata()?.len() == 0 {
            writeln!(file, "# Soak of {today}")?;
        }
        file.write_all(section.as_bytes())
    };
    write().map_err(|error: std::io::Error| format!("cannot write the report: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_chosen_or_refused() {
        assert_eq!(choose(&[]).expect("all").len(), SOAKS.len());
        assert_eq!(choose(&["kill"]).expect("one")[0].filter, "kill_");
        let refused = choose(&["kill", "nothing"])
            .map(|_| ())
            .expect_err("one is unknown");
        assert!(refused.contains("`nothing`"), "{refused}");
    }

    #[test]
    fn result_lines_are_collected_and_failure_is_seen() {
        let script = "echo 'soak: 5 of 5'; echo other; echo 'test a ... soak: 7'; \
                      echo 'no soak: here'; exit 3";
        let (lines, failure) = watch(Command::new("sh").args(["-c", script]));
        assert_eq!(lines, ["soak: 5 of 5", "soak: 7"]);
        assert!(failure.is_some_and(|failure| failure.contains('3')));
        let (lines, failure) = watch(&mut Command::new("true"));
        assert!(lines.is_empty() && failure.is_none());
    }

    #[test]
    fn a_skipped_test_fails_a_soak() {
        let file = std::env::temp_dir().join(format!("offshoot-skips-{}", std::process::id()));
        assert_eq!(skipped_tests(&file), None);
        fs::write(&file, "a: needs root\n").expect("write");
        let failure = skipped_tests(&file);
        fs::remove_file(&file).expect("clean up");
        assert_eq!(failure.as_deref(), Some("skipped: a: needs root"));
    }

    #[test]
    fn reports_are_appended_below_one_title() {
        let root = std::env::temp_dir().join(format!("offshoot-soak-{}", std::process::id()));
        let run = Run {
            command: "cargo nextest run".to_owned(),
            took: Duration::from_secs(61),
            lines: vec!["soak: 300 kills, 0 lost".to_owned()],
            failure: None,
        };
        for soak in &SOAKS[..2] {
            append_report(&root, &section(soak, &run, "2 cores")).expect("report");
        }
        let path = root
            .join("docs/reports")
            .join(format!("soak-{}.md", date::now().0));
        let text = fs::read_to_string(&path).expect("report");
        fs::remove_dir_all(&root).expect("clean up");
        assert_eq!(text.matches("# Soak of ").count(), 1);
        assert!(text.contains("\n## race: passed (") && text.contains("\n## fault: passed ("));
        assert!(text.contains("- Duration: 1 min 01 s\n"));
        assert!(text.contains("\n```text\nsoak: 300 kills, 0 lost\n```\n"));
    }
}
