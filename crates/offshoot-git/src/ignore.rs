//! Ignore rules with git's exact meaning, as a chain that follows a walk down the directories.
//!
//! Lines are read and compared here, step by step as git does it, because its results depend on
//! those steps: `x**/*` ignores `x.o` only because git takes the literal `x` off both sides
//! first. Only the wildcards themselves are left to `gix-glob`.
//!
//! Whether a path is *tracked* is not the matter of these rules: git takes a tracked file
//! whatever they say, and so must the caller.

use std::sync::Arc;

use gix_glob::wildmatch::Mode;
use offshoot_core::{RelPath, Result};

/// The rules of one directory: `.gitignore`, then `.offshootignore`, which has the last word.
#[derive(Debug)]
struct Level {
    dir: RelPath,
    patterns: Vec<Pattern>,
}

/// The rules that hold in one directory: its own and those of all directories above it.
///
/// Made by [`IgnoreRules::root`] and then [`IgnoreRules::child`] on the way down. Cheap to clone;
/// a child without rules of its own shares everything with its parent.
#[derive(Clone, Debug)]
pub struct IgnoreRules {
    levels: Arc<[Arc<Level>]>,
    dir: RelPath,
    /// The directory itself is ignored, so everything below it is, whatever its rules say.
    excluded: bool,
}

impl IgnoreRules {
    /// No rules at all: what holds above the root of a workspace.
    pub fn root() -> Self {
        IgnoreRules {
            levels: Arc::new([]),
            dir: RelPath::root(),
            excluded: false,
        }
    }

    /// The rules inside of `dir`, given the content of the rule files that lie in it.
    ///
    /// For the root of the workspace, `dir` is the root path. When `dir` itself is ignored, so is
    /// everything below it, and its rule files are not even read, as in git.
    #[must_use]
    pub fn child(
        &self,
        dir: &RelPath,
        gitignore: Option<&[u8]>,
        offshootignore: Option<&[u8]>,
    ) -> IgnoreRules {
        let excluded = self.is_ignored(dir, true);
        let mut levels = self.levels.clone();
        let mut patterns = Vec::new();
        if !excluded {
            [gitignore, offshootignore]
                .iter()
                .flatten()
                .for_each(|b| parse(b, &mut patterns));
        }
        if !patterns.is_empty() {
            let level = Arc::new(Level {
                dir: dir.clone(),
                patterns,
            });
            levels = levels.iter().cloned().chain([level]).collect();
        }
        IgnoreRules {
            levels,
            dir: dir.clone(),
            excluded,
        }
    }

    /// Whether there is no rule that could ignore anything here.
    pub fn is_empty(&self) -> bool {
        !self.excluded && self.levels.is_empty()
    }

    /// Whether these rules ignore a path in this directory. For a path further below, the
    /// directories on the way count too, but not rule files that lie in them.
    pub fn is_ignored(&self, path: &RelPath, is_dir: bool) -> bool {
        if self.excluded {
            return true;
        }
        if self.levels.is_empty() {
            return false;
        }
        let bytes = path.as_bytes();
        let known = if self.dir.is_root() {
            0
        } else {
            self.dir.as_bytes().len() + 1
        };
        // A directory on the way that is ignored decides; nothing below it can be taken back.
        let slashes = bytes
            .iter()
            .enumerate()
            .skip(known)
            .filter(|(_, byte)| **byte == b'/');
        slashes
            .map(|(at, _)| at)
            .any(|at| self.verdict(&bytes[..at], true))
            || (bytes.len() > known && self.verdict(bytes, is_dir))
    }

    /// What the last matching pattern says, the innermost rule file first.
    fn verdict(&self, path: &[u8], is_dir: bool) -> bool {
        let name_at = path
            .iter()
            .rposition(|&byte| byte == b'/')
            .map_or(0, |at| at + 1);
        let name = &path[name_at..];
        for level in self.levels.iter().rev() {
            let skip = match level.dir.as_bytes().len() {
                0 => 0,
                length => length + 1,
            };
            let Some(below) = path.get(skip..) else {
                continue;
            };
            let hit = level
                .patterns
                .iter()
                .rev()
                .find(|rule| rule.matches(below, name, is_dir));
            if let Some(pattern) = hit {
                return !pattern.negative;
            }
        }
        false
    }

    /// Whether a single path is ignored, reading the rule files on the way down to it.
    ///
    /// `rules_for_dir` gives the content of `.gitignore` and `.offshootignore` of a directory, or
    /// none when it has neither. It is not asked for anything below an ignored directory.
    pub fn is_ignored_with_parents(
        path: &RelPath,
        is_dir: bool,
        mut rules_for_dir: impl FnMut(&RelPath) -> Result<Option<RuleFiles>>,
    ) -> Result<bool> {
        let mut rules = IgnoreRules::root();
        for dir in path.ancestors() {
            if rules.is_ignored(&dir, true) {
                return Ok(true);
            }
            let (gitignore, offshootignore) = rules_for_dir(&dir)?.unwrap_or_default();
            rules = rules.child(&dir, gitignore.as_deref(), offshootignore.as_deref());
        }
        Ok(rules.is_ignored(path, is_dir))
    }
}

/// The content of the `.gitignore` and of the `.offshootignore` of one directory.
pub type RuleFiles = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Reads rules line by line, as git does: a byte order mark is skipped, `\r\n` ends a line too,
/// a NUL ends what git sees of a line.
fn parse(bytes: &[u8], patterns: &mut Vec<Pattern>) {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for line in bytes.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.split(|&byte| byte == 0).next().unwrap_or_default();
        if line.starts_with(b"#") {
            continue;
        }
        let line = without_trailing_spaces(line);
        if !line.is_empty() {
            patterns.push(Pattern::new(line));
        }
    }
}

/// One line of a rule file.
#[derive(Debug)]
struct Pattern {
    /// Without `!` at the beginning and `/` at either end.
    text: Box<[u8]>,
    /// How many bytes come before the first wildcard.
    literal: usize,
    /// Takes back what lines before it ignored.
    negative: bool,
    /// Matches directories only.
    only_dirs: bool,
    /// Without a `/` inside: it is compared with the last part of a path only.
    name_only: bool,
}

impl Pattern {
    fn new(line: &[u8]) -> Self {
        let (negative, text) = match line.strip_prefix(b"!") {
            Some(text) => (true, text),
            None => (false, line),
        };
        let (only_dirs, text) = match text.strip_suffix(b"/") {
            Some(text) => (true, text),
            None => (false, text),
        };
        let name_only = !text.contains(&b'/');
        let text = text.strip_prefix(b"/").unwrap_or(text);
        let literal = first_wildcard(text);
        Pattern {
            text: text.into(),
            literal,
            negative,
            only_dirs,
            name_only,
        }
    }

    /// Whether it matches a path, given relative to the directory of the rule file, and its name.
    fn matches(&self, path: &[u8], name: &[u8], is_dir: bool) -> bool {
        if self.only_dirs && !is_dir {
            return false;
        }
        if self.literal == self.text.len() {
            return *self.text == *if self.name_only { name } else { path };
        }
        if !self.name_only {
            let (literal, wild) = self.text.split_at(self.literal);
            return path.strip_prefix(literal).is_some_and(|rest| {
                gix_glob::wildmatch(wild.into(), rest.into(), Mode::NO_MATCH_SLASH_LITERAL)
            });
        }
        match self.text.strip_prefix(b"*") {
            // The usual `*.o`, without the cost of the general case.
            Some(end) if first_wildcard(end) == end.len() => name.ends_with(end),
            _ => gix_glob::wildmatch((*self.text).into(), name.into(), Mode::empty()),
        }
    }
}

/// Where the first wildcard or backslash stands; the length when there is none.
fn first_wildcard(text: &[u8]) -> usize {
    text.iter()
        .position(|byte| b"*?[\\".contains(byte))
        .unwrap_or(text.len())
}

/// Spaces at the end do not count unless a backslash stands before them.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => at += 1,
            b'\\' => {
                at += 2;
                end = at;
            }
            _ => {
                at += 1;
                end = at;
            }
        }
    }
    // A backslash as the very last byte escapes nothing, and git then keeps the whole line.
    &line[..end.min(line.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        if text == "." {
            RelPath::root()
        } else {
            RelPath::parse(text.as_bytes()).unwrap()
        }
    }

    #[test]
    fn our_rules_come_after_those_of_git_in_the_same_directory() {
        let root = IgnoreRules::root().child(&path("."), Some(b"*.log\n"), Some(b"!keep.log\n"));
        assert!(root.is_ignored(&path("a.log"), false));
        assert!(!root.is_ignored(&path("keep.log"), false));
        let inner = root.child(&path("d"), Some(b"keep.log\n"), None);
        assert!(inner.is_ignored(&path("d/keep.log"), false));
        assert!(!root.is_ignored(&path("keep.log"), false));
    }

    #[test]
    fn below_an_ignored_directory_nothing_comes_back() {
        let root = IgnoreRules::root().child(&path("."), Some(b"out/\n"), None);
        assert!(root.is_ignored(&path("out"), true) && !root.is_ignored(&path("out"), false));
        let out = root.child(&path("out"), Some(b"!*\n"), Some(b"!*\n"));
        let deep = out.child(&path("out/deep"), Some(b"!*\n"), None);
        assert!(
            out.is_ignored(&path("out/a"), false) && deep.is_ignored(&path("out/deep/a"), true)
        );
        let asked = |dir: &RelPath| {
            assert_eq!(dir, &path("."), "an ignored directory needs no rules");
            Ok(Some((Some(b"out/\n".to_vec()), None)))
        };
        assert!(IgnoreRules::is_ignored_with_parents(&path("out/x/y"), false, asked).unwrap());
    }

    /// Found by comparing with git; each line is a verdict of `git check-ignore`.
    #[test]
    fn peculiar_verdicts_of_git() {
        for (rules, text, ignored) in [
            ("x**/*", "x.o", true),
            ("\\x**/*", "x.o", false),
            ("a//", "a", false),
            ("//a", "a", false),
            ("a\\ ", "a ", true),
            ("a ", "a", true),
            ("\t", "\t", true),
            ("a\r", "a", true),
            ("\u{feff}a", "a", true),
            ("\\!a", "!a", true),
            ("\\#a", "#a", true),
            ("a\0b", "a", true),
            ("[a", "[a", false),
        ] {
            let root = IgnoreRules::root().child(&path("."), Some(rules.as_bytes()), None);
            assert_eq!(
                root.is_ignored(&path(text), false),
                ignored,
                "{rules:?} {text:?}"
            );
        }
    }
}
