//! Rules for files of Rust code.

use super::Finding;
use super::repository::Repository;
use super::rust_code::{has_word, without_text};

/// More lines than this fail.
const MAX_LINES: usize = 1000;

/// More lines than this are a reason to look for a seam.
const WARN_LINES: usize = 600;

/// The only package that may hold unsafe code.
const UNSAFE_OWNER: &str = "crates/offshoot-sys/";

/// The first line of every file says what it is for.
pub(super) fn files_say_what_they_are_for(repository: &Repository) -> Vec<Finding> {
    let silent = repository.rust_files().filter(|(_, text)| {
        let first = text.lines().next().unwrap_or_default();
        first
            .strip_prefix("//!")
            .is_none_or(|purpose| purpose.trim().is_empty())
    });
    let message = "the first line must be a `//!` comment with the purpose of the file";
    silent
        .map(|(path, _)| Finding::error(path, 1, message))
        .collect()
}

/// A file has one responsibility, and its length shows when it has more.
pub(super) fn files_are_short(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.rust_files() {
        let lines = text.lines().count();
        if lines > MAX_LINES {
            let message = format!("{lines} lines, at most {MAX_LINES} are allowed; split it");
            findings.push(Finding::error(path, 0, message));
        } else if lines > WARN_LINES {
            let message = format!("{lines} lines; past {WARN_LINES} look for a seam");
            findings.push(Finding::warning(path, 0, message));
        }
    }
    findings
}

/// Unsafe code lives in one package, where every use is argued for.
pub(super) fn unsafe_stays_in_its_crate(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let others = repository
        .rust_files()
        .filter(|(path, _)| !path.starts_with(UNSAFE_OWNER));
    for (path, text) in others {
        for (number, line) in without_text(text).lines().enumerate() {
            if has_word(line, "unsafe") {
                let message = format!("unsafe code belongs into {UNSAFE_OWNER}");
                findings.push(Finding::error(path, number + 1, message));
            }
        }
    }
    findings
}

/// Nothing is postponed in a comment, left for the debugger or switched off.
pub(super) fn nothing_is_left_undone(repository: &Repository) -> Vec<Finding> {
    // Put together here, so that this file does not find itself.
    let in_comments = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
    ];
    let in_code = ["todo!", "unimplemented!", "dbg!", "#[ignore"];
    let mut findings = Vec::new();
    for (path, text) in repository.rust_files() {
        let code = without_text(text);
        for (number, (line, code)) in text.lines().zip(code.lines()).enumerate() {
            let comment = in_comments.iter().find(|word| has_word(line, word));
            let code = in_code.iter().find(|word| code.contains(**word));
            for word in comment.into_iter().chain(code) {
                let message = format!("`{word}` is left in the code; do it or drop it");
                findings.push(Finding::error(path, number + 1, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_found(check: super::super::Check, path: &str, text: &str) -> Vec<usize> {
        check(&Repository::of(&[(path, text)]))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn a_file_without_a_purpose_is_found() {
        let check = files_say_what_they_are_for;
        assert!(lines_found(check, "a.rs", "//! Reads.\n").is_empty());
        for text in ["", "//!\n", "// Reads.\n", "\n//! Reads.\n"] {
            assert_eq!(lines_found(check, "a.rs", text), [1], "{text:?}");
        }
        assert!(lines_found(check, "a.md", "text").is_empty());
    }

    #[test]
    fn a_long_file_is_found() {
        let found = |lines: usize| {
            let text = "x\n".repeat(lines);
            let findings = files_are_short(&Repository::of(&[("a.rs", &text)]));
            findings.first().map(|finding| finding.severity)
        };
        assert_eq!(found(WARN_LINES), None);
        assert_eq!(found(MAX_LINES), Some(super::super::Severity::Warning));
        assert_eq!(found(MAX_LINES + 1), Some(super::super::Severity::Error));
    }

    #[test]
    fn unsafe_code_is_found_outside_its_crate() {
        let text = "//! unsafe\n#![deny(unsafe_code)]\nlet s = \"unsafe\";\nunsafe { f() }\n";
        let check = unsafe_stays_in_its_crate;
        assert_eq!(
            lines_found(check, "crates/offshoot-fs/src/lib.rs", text),
            [4]
        );
        assert!(lines_found(check, "crates/offshoot-sys/src/lib.rs", text).is_empty());
    }

    #[test]
    fn leftovers_are_found() {
        let text = concat!(
            "//! x\n// TO",
            "DO: later\ntodo!();\n#[ignore = \"slow\"]\nlet text = \"dbg!\";\ndbg!(x);\n// MYTO",
            "DOS\n"
        );
        assert_eq!(
            lines_found(nothing_is_left_undone, "a.rs", text),
            [2, 3, 4, 6]
        );
    }
}
