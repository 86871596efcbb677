//! Rules for every text file.

use super::Finding;
use super::repository::Repository;

/// Content that comes from elsewhere and is kept byte for byte.
fn is_verbatim(path: &str) -> bool {
    path == "LICENSE" || path.contains("/fixtures/") || path.ends_with(".snap")
}

/// No trailing whitespace; a file ends with exactly one newline.
pub(super) fn whitespace_is_clean(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.texts().filter(|(path, _)| !is_verbatim(path)) {
        for (number, line) in text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                findings.push(Finding::error(path, number + 1, "trailing whitespace"));
            }
        }
        if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
            let message = "the file must end with one newline";
            findings.push(Finding::error(path, text.lines().count(), message));
        }
    }
    findings
}

/// The repository names no directory and no user of a developer's machine.
pub(super) fn no_path_of_a_machine(repository: &Repository) -> Vec<Finding> {
    // Put together here, so that this file does not find itself.
    let places = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
    ];
    let mut findings = Vec::new();
    for (path, text) in repository.texts() {
        for (number, line) in text.lines().enumerate() {
            for place in places {
                if line
                    .match_indices(place)
                    .any(|(start, _)| begins_a_path(&line[..start]))
                {
                    let message = format!("`{place}…` is a path of one machine");
                    findings.push(Finding::error(path, number + 1, message));
                }
            }
        }
    }
    findings
}

/// Whether a `/` after this text is the beginning of a path and not in the middle of one.
fn begins_a_path(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || "._-~})]>*$".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_found(check: super::super::Check, text: &str) -> Vec<usize> {
        check(&Repository::of(&[("a.md", text)]))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn bad_whitespace_is_found() {
        let check = whitespace_is_clean;
        assert!(lines_found(check, "").is_empty());
        assert!(lines_found(check, "a\n\nb\n").is_empty());
        assert_eq!(lines_found(check, "a \nb\t\nc\r\n"), [1, 2, 3]);
        assert_eq!(lines_found(check, "a\nb"), [2]);
        assert_eq!(lines_found(check, "a\n\n"), [2]);
    }

    #[test]
    fn verbatim_files_are_left_alone() {
        let repository =
            Repository::of(&[("crates/x/tests/fixtures/a", "a "), ("LICENSE", "b\n\n")]);
        assert!(whitespace_is_clean(&repository).is_empty());
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let check = no_path_of_a_machine;
        let text = concat!("see /wo", "rk/x\n`/ho", "me/me/y`\n\"/ro", "ot/.cargo\"\n");
        assert_eq!(lines_found(check, text), [1, 2, 3]);
        let inside = concat!(
            "forks/WS/wo",
            "rk/x and upper,wo",
            "rk/y and {dir}/wo",
            "rk/z\n"
        );
        assert!(lines_found(check, inside).is_empty());
    }
}
