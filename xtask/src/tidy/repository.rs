//! The text files of the repository, in memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Directories that are never part of the repository, for a copy of it without git.
const NEVER: [&str; 3] = [".git", "target", "node_modules"];

/// Inputs of fuzz targets: bytes, whatever they look like.
const NO_TEXT: &str = "fuzz/corpus/";

/// Every file by its path from the root, with `/` between parts.
#[derive(Debug, Default)]
pub(super) struct Repository {
    /// `None` for what is not text; links may still point to it.
    files: BTreeMap<String, Option<String>>,
}

impl Repository {
    /// Reads what git tracks or would track; without git, everything but build output.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let mut files = BTreeMap::new();
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => found_on_disk(root).map_err(|error| format!("cannot list files: {error}"))?,
        };
        for path in paths {
            let full = root.join(&path);
            // A file that was deleted and not yet committed is listed; a symlink holds no text.
            if fs::symlink_metadata(&full).is_ok_and(|metadata| metadata.is_file()) {
                let bytes = fs::read(&full).map_err(|error| format!("read `{path}`: {error}"))?;
                let is_text = !path.starts_with(NO_TEXT);
                let text = String::from_utf8(bytes).ok().filter(|_| is_text);
                files.insert(path, text);
            }
        }
        Ok(Self { files })
    }

    /// A repository of made-up files.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), Some((*text).to_owned()));
        Self {
            files: files.iter().map(own).collect(),
        }
    }

    /// How many files there are.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// One text file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether a file or a directory with files has this path.
    pub(super) fn exists(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(inside.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&inside))
    }

    /// Every text file.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Every file of Rust code.
    pub(super) fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Every package: its name, which is that of its directory, and the path of its manifest.
    pub(super) fn packages(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.texts().filter_map(|(path, text)| {
            let dir = path.strip_suffix("/Cargo.toml")?;
            let name = dir.strip_prefix("crates/").unwrap_or(dir);
            let is_member = !name.contains('/') && (dir != name || name == "xtask");
            is_member.then_some((name, path, text))
        })
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    if !root.join(".git").exists() {
        return None;
    }
    // `safe.directory`: in a container the checkout often belongs to another user.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .args(["--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let names = output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    Some(
        names
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect(),
    )
}

fn found_on_disk(root: &Path) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(root.join(&dir))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if dir.is_empty() {
                name.clone()
            } else {
                format!("{dir}/{name}")
            };
            if !entry.file_type()?.is_dir() {
                found.push(path);
            } else if !NEVER.contains(&name.as_str()) {
                pending.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_listing_find_the_sources() {
        let root = crate::root();
        let on_disk = found_on_disk(&root).expect("a listing");
        assert!(on_disk.contains(&"xtask/src/main.rs".to_owned()));
        assert!(!on_disk.iter().any(|path| path.starts_with("target/")));
        if let Some(by_git) = listed_by_git(&root) {
            assert!(by_git.contains(&"xtask/src/main.rs".to_owned()));
        }
    }

    #[test]
    fn packages_and_directories_are_recognised() {
        let repository = Repository::of(&[
            ("Cargo.toml", ""),
            ("crates/offshoot-core/Cargo.toml", ""),
            ("crates/offshoot-core/src/lib.rs", ""),
            ("fuzz/Cargo.toml", ""),
            ("xtask/Cargo.toml", ""),
        ]);
        let names: Vec<&str> = repository.packages().map(|(name, ..)| name).collect();
        assert_eq!(names, ["offshoot-core", "xtask"]);
        assert!(repository.exists("crates/offshoot-core"));
        assert!(!repository.exists("crates/offshoot"));
    }
}
