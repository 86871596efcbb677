//! Rules for the documents: they name what exists, and what exists is named.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::repository::Repository;

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const README: &str = "README.md";
const CI: &str = ".ci/run";

/// The command that decides whether a change is accepted, here and in CI.
const TEST_COMMAND: &str = "cargo xtask test";

/// ARCHITECTURE.md has one heading for each package, and none for one that does not exist.
pub(super) fn architecture_has_a_heading_for_every_crate(repository: &Repository) -> Vec<Finding> {
    let Some(text) = repository.text(ARCHITECTURE) else {
        return vec![Finding::error(ARCHITECTURE, 0, "the file is missing")];
    };
    let mut headings = BTreeMap::new();
    let mut findings = Vec::new();
    for (number, line) in prose(text) {
        let Some(name) = line.strip_prefix("## ").and_then(package_name) else {
            continue;
        };
        if headings.insert(name, number).is_some() {
            let message = format!("a second heading for `{name}`");
            findings.push(Finding::error(ARCHITECTURE, number, message));
        }
    }
    let packages: BTreeSet<&str> = repository.packages().map(|(name, ..)| name).collect();
    for (name, number) in &headings {
        if !packages.contains(name) {
            let message = format!("a heading for `{name}`, which is no package");
            findings.push(Finding::error(ARCHITECTURE, *number, message));
        }
    }
    for name in packages.iter().filter(|name| !headings.contains_key(*name)) {
        findings.push(Finding::error(
            ARCHITECTURE,
            0,
            format!("no heading `## {name}`"),
        ));
    }
    findings
}

/// The package that a heading such as "`offshoot-fs`: safe files" is about.
fn package_name(heading: &str) -> Option<&str> {
    let heading = heading.trim_start_matches(['`', '*']);
    let end = heading
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .unwrap_or(heading.len());
    let name = &heading[..end];
    (name.starts_with("offshoot-") || name == "xtask").then_some(name)
}

/// Code cites only invariants that ARCHITECTURE.md numbers; one that no code cites is a warning.
pub(super) fn invariants_exist_and_are_cited(repository: &Repository) -> Vec<Finding> {
    let declared = declared_invariants(repository.text(ARCHITECTURE).unwrap_or_default());
    let mut cited = BTreeSet::new();
    let mut findings = Vec::new();
    // These chores talk about invariants in general and keep none.
    let sources = repository
        .rust_files()
        .filter(|(path, _)| !path.starts_with("xtask/"));
    for (path, text) in sources {
        for (number, line) in text.lines().enumerate() {
            for invariant in invariants_in(line) {
                cited.insert(invariant);
                if !declared.contains_key(&invariant) {
                    let message = format!("INV-{invariant} is not in {ARCHITECTURE}");
                    findings.push(Finding::error(path, number + 1, message));
                }
            }
        }
    }
    for (invariant, number) in declared
        .iter()
        .filter(|(invariant, _)| !cited.contains(invariant))
    {
        let message = format!("no code cites INV-{invariant}");
        findings.push(Finding::warning(ARCHITECTURE, *number, message));
    }
    findings
}

/// The numbers of the invariants and their lines: items that begin with `INV-1`, or `1.` below a
/// heading that speaks of invariants.
fn declared_invariants(text: &str) -> BTreeMap<u32, usize> {
    let mut declared = BTreeMap::new();
    let mut below_heading = false;
    for (line_number, line) in prose(text) {
        if line.starts_with('#') {
            below_heading = line.to_lowercase().contains("invariants");
        }
        let item = line.trim_start_matches(['#', '-', '*', '|', '`', ' ']);
        let named = item
            .starts_with("INV-")
            .then(|| invariants_in(item).next())
            .flatten();
        let numbered = || {
            item.split_once(". ")
                .and_then(|(number, _)| number.parse().ok())
        };
        if let Some(invariant) = named.or_else(|| numbered().filter(|_| below_heading)) {
            declared.entry(invariant).or_insert(line_number);
        }
    }
    declared
}

fn invariants_in(line: &str) -> impl Iterator<Item = u32> + '_ {
    line.split("INV-").skip(1).filter_map(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

/// The README's commands exist, it names the test command, and CI runs exactly that.
pub(super) fn readme_and_ci_run_what_exists(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    match repository.text(README) {
        None => findings.push(Finding::error(README, 0, "the file is missing")),
        Some(readme) => {
            if !readme.contains(TEST_COMMAND) {
                let message = format!("does not mention `{TEST_COMMAND}`");
                findings.push(Finding::error(README, 0, message));
            }
            for (number, line) in shell_lines(readme) {
                if let Err(message) = cargo_command_exists(repository, line) {
                    findings.push(Finding::error(README, number, message));
                }
            }
        }
    }
    let ci = repository.text(CI).unwrap_or_default();
    let commands: Vec<&str> = ci
        .lines()
        .map(str::trim)
        .filter(|line| is_command(line))
        .collect();
    if commands != [TEST_COMMAND] {
        findings.push(Finding::error(
            CI,
            0,
            format!("must run exactly `{TEST_COMMAND}`"),
        ));
    }
    findings
}

/// A line of a script that does something other than prepare the shell.
fn is_command(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or("#");
    !first.starts_with('#') && first != "set" && first != "cd"
}

/// Whether a line such as `cargo xtask test` or `cargo run --release -- demo` can work.
fn cargo_command_exists(repository: &Repository, line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["cargo", "xtask", name, ..] if !crate::COMMANDS.contains(name) => {
            Err(format!("`cargo xtask {name}` does not exist"))
        }
        ["cargo", "run", rest @ ..] => {
            let name = rest.iter().skip_while(|word| **word != "--").nth(1);
            match name {
                Some(name) if !cli_has_command(repository, name) => {
                    Err(format!("the command line has no `{name}`"))
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Whether a variant of the CLI's commands has this name, as clap derives it: `merge-file` is
/// `MergeFile`.
fn cli_has_command(repository: &Repository, name: &str) -> bool {
    if name.starts_with('-') {
        return true;
    }
    let capitalise = |part: &str| {
        let mut chars = part.chars();
        chars
            .next()
            .map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
    };
    let variant: String = name.split('-').map(capitalise).collect();
    let mut sources = repository
        .rust_files()
        .filter(|(path, _)| path.starts_with("crates/offshoot-cli/src/"));
    sources.any(|(_, text)| super::rust_code::has_word(text, &variant))
}

/// Links to files of the repository lead somewhere.
pub(super) fn links_resolve(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (number, line) in prose(text) {
            for target in links_in(line) {
                let file = target.split('#').next().unwrap_or_default();
                let is_outside = target.contains("://") || target.starts_with("mailto:");
                if is_outside || file.is_empty() {
                    continue;
                }
                let resolved = resolve(path, file);
                if !resolved.is_some_and(|resolved| repository.exists(&resolved)) {
                    let message = format!("the link to `{target}` leads nowhere");
                    findings.push(Finding::error(path, number, message));
                }
            }
        }
    }
    findings
}

/// The targets of `[text](target)` in a line, without those in code.
fn links_in(line: &str) -> Vec<&str> {
    // Every second part between backticks is code.
    let outside_code = line.split('`').step_by(2);
    let after_text = outside_code.flat_map(|part| part.split("](").skip(1));
    let targets = after_text.filter_map(|rest| rest.split([')', ' ']).next());
    // A text in backticks ends its part before the target: [`name`](target).
    targets.filter(|target| !target.is_empty()).collect()
}

/// The path from the root that `target` means in the file `from`; `None` if it leaves the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The numbered lines of a document outside fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    split_fences(text)
        .filter(|(_, fence, _)| fence.is_none())
        .map(|(number, _, line)| (number, line))
}

/// The numbered commands of a document's shell blocks, without the prompt.
fn shell_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let languages = ["", "sh", "bash", "shell", "console"];
    split_fences(text).filter_map(move |(number, fence, line)| {
        let is_shell = fence.is_some_and(|fence| languages.contains(&fence));
        let command = line.trim().trim_start_matches("$ ");
        is_shell.then_some((number, command))
    })
}

/// Every line with its number and, inside a fenced block, the block's language. The fences
/// themselves are left out.
fn split_fences(text: &str) -> impl Iterator<Item = (usize, Option<&str>, &str)> {
    let mut language = None;
    text.lines().enumerate().filter_map(move |(number, line)| {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            language = if language.is_some() {
                None
            } else {
                Some(fence.trim())
            };
            return None;
        }
        Some((number + 1, language, line))
    })
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    fn messages(check: super::super::Check, files: &[(&str, &str)]) -> Vec<String> {
        let findings = check(&Repository::of(files));
        findings
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn headings_and_packages_must_match() {
        let check = architecture_has_a_heading_for_every_crate;
        let packages = [
            ("crates/offshoot-fs/Cargo.toml", ""),
            ("xtask/Cargo.toml", ""),
        ];
        let with = |text| [packages[0], packages[1], (ARCHITECTURE, text)];
        assert!(messages(check, &with("## offshoot-fs\n## xtask: chores\n")).is_empty());
        assert!(messages(check, &with("## `offshoot-fs`\n## `xtask`\n## Words\n")).is_empty());
        assert_eq!(
            messages(check, &with("## xtask\n")),
            ["no heading `## offshoot-fs`"]
        );
        let text = "## offshoot-fs\n## offshoot-s3\n## xtask\n```\n## offshoot-x\n```\n";
        assert_eq!(
            messages(check, &with(text)),
            ["a heading for `offshoot-s3`, which is no package"]
        );
        assert_eq!(
            messages(check, &with("## offshoot-fs\n## offshoot-fs\n## xtask\n")).len(),
            1
        );
        assert_eq!(messages(check, &packages), ["the file is missing"]);
    }

    #[test]
    fn invariants_are_declared_in_either_form() {
        let text = "1. no\n# Invariants\n1. One.\n2. Two.\n- **INV-7** Seven, see INV-9.\n## Next\n3. no\n";
        let numbers: Vec<u32> = declared_invariants(text).into_keys().collect();
        assert_eq!(numbers, [1, 2, 7]);
    }

    #[test]
    fn a_wrong_citation_is_an_error_and_a_missing_one_a_warning() {
        let repository = Repository::of(&[
            (ARCHITECTURE, "## Invariants\n1. One.\n2. Two.\n"),
            ("crates/a/src/lib.rs", "// INV-1, INV-12\n"),
        ]);
        let found: Vec<_> = invariants_exist_and_are_cited(&repository)
            .into_iter()
            .map(|finding| (finding.severity, finding.message))
            .collect();
        let missing = (Severity::Error, format!("INV-12 is not in {ARCHITECTURE}"));
        let uncited = (Severity::Warning, "no code cites INV-2".to_owned());
        assert_eq!(found, [missing, uncited]);
    }

    const CI_TEXT: &str = "#!/usr/bin/env bash\nset -euo pipefail\ncd x\ncargo xtask test\n";

    #[test]
    fn commands_of_the_readme_must_exist() {
        let check = readme_and_ci_run_what_exists;
        let cli = (
            "crates/offshoot-cli/src/main.rs",
            "enum Command { Demo, MergeFile(X) }",
        );
        let with = |readme| [cli, (CI, CI_TEXT), (README, readme)];
        let good = "```sh\ncargo xtask test\n$ cargo run --release -- demo\ncargo run -- merge-file\n```\n";
        assert!(messages(check, &with(good)).is_empty());
        let bad = "cargo xtask test\n```sh\ncargo xtask fly\ncargo run --release -- serve\n```\n";
        assert_eq!(
            messages(check, &with(bad)),
            [
                "`cargo xtask fly` does not exist",
                "the command line has no `serve`"
            ]
        );
        assert_eq!(messages(check, &with("nothing\n")).len(), 1);
    }

    #[test]
    fn ci_runs_the_test_command_and_nothing_else() {
        let check = readme_and_ci_run_what_exists;
        let with = |ci| [(CI, ci), (README, "`cargo xtask test`\n")];
        assert!(messages(check, &with(CI_TEXT)).is_empty());
        for bad in [
            "",
            "cargo xtask test || true\n",
            "cargo test\n",
            "cargo xtask test\nmake\n",
        ] {
            assert_eq!(messages(check, &with(bad)).len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn links_to_nowhere_are_found() {
        let text = "[a](b.md) [c](../LICENSE#x) [d](https://x.y/z) [e](#here) [`f`](src)\n\
                    `[g](h)` [i](missing.md) [`j`](../../up)\n```\n[k](l)\n```\n";
        let files = [
            ("docs/a.md", text),
            ("docs/b.md", ""),
            ("LICENSE", ""),
            ("docs/src/x", ""),
        ];
        assert_eq!(
            messages(links_resolve, &files),
            [
                "the link to `missing.md` leads nowhere",
                "the link to `../../up` leads nowhere"
            ]
        );
    }
}
