//! Rules for the rooms of the engine: which folder may use which.

use super::Finding;
use super::repository::Repository;
use super::rust_code::without_text;

/// Where the rooms are.
const ENGINE: &str = "crates/offshoot-engine/src/";

/// The rooms from the bottom up. A room uses itself and the rooms before it.
const ROOMS: [&str; 12] = [
    "context",
    "content",
    "directory",
    "sync",
    "history",
    "workspace",
    "project",
    "fork",
    "merge",
    "link",
    "upkeep",
    "access",
];

/// What opens the data directory and hands the rooms out: above all of them.
const ENTRANCE: &str = "engine";

/// A path in the code of a room names only rooms below it.
pub(super) fn rooms_use_what_is_below(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in repository.rust_files() {
        let Some(inside) = path.strip_prefix(ENGINE) else {
            continue;
        };
        let Some((room, _)) = inside.split_once('/') else {
            if !["lib.rs", "engine.rs"].contains(&inside) {
                let message = "a file of the engine belongs into one of its rooms";
                findings.push(Finding::error(path, 0, message));
            }
            continue;
        };
        let Some(own) = ROOMS.iter().position(|name| *name == room) else {
            continue;
        };
        for (number, line) in without_text(text).lines().enumerate() {
            // Tests of a room may open a data directory as everybody does.
            if line.trim() == "#[cfg(test)]" {
                break;
            }
            for used in paths_in_the_crate(line) {
                let used = used.split("::").next().unwrap_or_default();
                if used == ENTRANCE || ROOMS[own + 1..].contains(&used) {
                    let message =
                        format!("the room `{room}` must not use `{used}`, which is above it");
                    findings.push(Finding::error(path, number + 1, message));
                }
            }
        }
    }
    findings
}

/// What follows `crate::` in a line, as far as it is a path.
fn paths_in_the_crate(line: &str) -> impl Iterator<Item = &str> {
    line.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        &rest[..end.unwrap_or(rest.len())]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let path = format!("{ENGINE}{path}");
        rooms_use_what_is_below(&Repository::of(&[(&path, text)]))
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.message))
            .collect()
    }

    #[test]
    fn a_room_may_use_itself_and_what_is_below() {
        let text = "//! A.\nuse crate::content::index::Index;\nuse crate::merge::log::Log;\n";
        assert!(findings("merge/dry_run.rs", text).is_empty());
        assert!(findings("engine.rs", text).is_empty());
        assert!(findings("formats/review.rs", text).is_empty());
        let test = "//! A.\n#[cfg(test)]\nmod tests {\n    use crate::engine::Engine;\n}\n";
        assert!(findings("directory/layers.rs", test).is_empty());
    }

    #[test]
    fn what_is_above_is_found_wherever_it_is_named() {
        let text = "//! A.\nuse crate::merge::Merges;\nfn f(x: &crate::upkeep::check::X) {}\n\
                    use crate::engine::Engine;\n";
        let found = findings("sync/scan.rs", text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("2: the room `sync` must not use `merge`"));
        assert!(found[1].starts_with("3: the room `sync` must not use `upkeep`"));
    }

    #[test]
    fn comments_and_texts_use_nothing() {
        let text = "//! A.\n// crate::merge::Merges\nconst A: &str = \"crate::merge\";\n";
        assert!(findings("sync/scan.rs", text).is_empty());
    }

    #[test]
    fn every_file_has_a_room() {
        assert_eq!(findings("stray.rs", "//! A.\n").len(), 1);
    }
}
