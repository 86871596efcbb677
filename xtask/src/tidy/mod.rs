//! `cargo xtask tidy`: checks that the repository is what its documents and rules say.
//!
//! Every check is a function from the files of the repository to findings, so that each is tested
//! on a few made-up files. It also runs as an ordinary test, on the real ones.

mod crates;
mod documents;
mod repository;
mod rooms;
mod rust_code;
mod sources;
mod text;

use std::fmt;
use std::path::Path;

use crate::Outcome;
use repository::Repository;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// Counted from 1; 0 stands for the whole file.
    line: usize,
    message: String,
    severity: Severity,
}

/// Whether a finding fails the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Error,
    Warning,
}

impl Finding {
    fn error(path: &str, line: usize, message: impl Into<String>) -> Self {
        let (path, message) = (path.to_owned(), message.into());
        Self {
            path,
            line,
            message,
            severity: Severity::Error,
        }
    }

    fn warning(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(path, line, message)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        match self.line {
            0 => write!(f, "{kind}: {}: {}", self.path, self.message),
            line => write!(f, "{kind}: {}:{line}: {}", self.path, self.message),
        }
    }
}

/// One rule over all files.
type Check = fn(&Repository) -> Vec<Finding>;

const CHECKS: [Check; 14] = [
    documents::architecture_has_a_heading_for_every_crate,
    documents::invariants_exist_and_are_cited,
    documents::readme_and_ci_run_what_exists,
    documents::links_resolve,
    crates::dependencies_point_downwards,
    crates::outside_libraries_have_one_owner,
    crates::lints_are_inherited,
    rooms::rooms_use_what_is_below,
    sources::files_say_what_they_are_for,
    sources::files_are_short,
    sources::unsafe_stays_in_its_crate,
    sources::nothing_is_left_undone,
    text::whitespace_is_clean,
    text::no_path_of_a_machine,
];

fn check_all(repository: &Repository) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(repository)).collect();
    findings.sort();
    findings
}

/// Checks the repository and prints what it finds; warnings do not fail.
pub(crate) fn run(root: &Path) -> Outcome {
    let repository = Repository::read(root)?;
    let findings = check_all(&repository);
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let warnings = findings.len() - errors;
    println!(
        "tidy: {} files, {errors} errors, {warnings} warnings",
        repository.len()
    );
    if errors == 0 {
        Ok(())
    } else {
        Err(format!("tidy found {errors} errors"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let repository = Repository::read(&crate::root()).expect("the repository can be read");
        let errors: Vec<String> = check_all(&repository)
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .map(ToString::to_string)
            .collect();
        assert!(errors.is_empty(), "\n{}", errors.join("\n"));
    }

    #[test]
    fn findings_read_like_those_of_a_compiler() {
        let finding = Finding::warning("a/b.rs", 3, "too long");
        assert_eq!(finding.to_string(), "warning: a/b.rs:3: too long");
        assert_eq!(
            Finding::error("a", 0, "missing").to_string(),
            "error: a: missing"
        );
    }
}
