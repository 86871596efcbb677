//! Running programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;

/// The cargo that runs this chore, so that a pinned toolchain stays pinned.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(named)
}

/// A command as one would type it.
pub(crate) fn words(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let mut text = program.to_string_lossy().into_owned();
    for arg in command.get_args() {
        let arg = arg.to_string_lossy();
        let plain = arg
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_=./:+@,".contains(c));
        text.push(' ');
        if plain && !arg.is_empty() {
            text.push_str(&arg);
        } else {
            text.push_str(&format!("'{arg}'"));
        }
    }
    text
}

/// Runs a command with the terminal as its output.
pub(crate) fn run(command: &mut Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` failed: {status}", words(command))),
        Err(error) => Err(format!("`{}` does not start: {error}", words(command))),
    }
}

/// Whether a command runs and succeeds; its output is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// What a command prints, trimmed, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Where a program is, looking into the `sbin` directories as well.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_can_be_pasted_into_a_shell() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["nextest", "run", "-E", "test(race_)", ""]);
        assert_eq!(words(&command), "cargo nextest run -E 'test(race_)' ''");
    }

    #[test]
    fn a_failing_program_is_named() {
        let error = run(&mut Command::new("false")).expect_err("it fails");
        assert!(error.starts_with("`false` failed"), "{error}");
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-here").is_none());
    }
}
