//! Which paths of a project are protected: a change there waits for a person.

use std::collections::BTreeSet;

use offshoot_core::{EntryKind, Error, ErrorCode, ProjectId, RelPath, Result};
use offshoot_git::{folded, may_be_short_name};
use offshoot_merge::{Conflict, Pattern};
use offshoot_store::{ReadTx, WorkspaceKey};

use crate::content::rows::open_project;
use crate::project::Projects;
use crate::project::policy::MergeSettings;

/// A path that may be spelled in so many ways is treated as protected.
const MOST_SPELLINGS: usize = 64;

/// What is protected in a project that comes from a git repository.
///
/// Those that tools look for in every directory match at any depth; hosts of repositories read
/// theirs at the top alone. `hooks/` is not among them: as often it holds the hooks of a user
/// interface, and git itself runs none from there.
pub(crate) const FROM_GIT: [&str; 13] = [
    ".github/**",
    ".gitlab-ci.yml",
    ".githooks/**",
    "**/.husky/**",
    ".envrc",
    "**/.vscode/**",
    "**/.idea/**",
    "**/.devcontainer/**",
    "**/.claude/**",
    "**/.cursor/**",
    ".mcp.json",
    "CLAUDE.md",
    "AGENTS.md",
];

/// Which paths of a project are protected.
///
/// A pattern also means what is below the directories that it matches. What some disk takes for the
/// same name is the same: on most, `.GitHub` is `.github`.
pub(crate) struct Protection {
    guards: Vec<ProtectedPattern>,
    /// The names in patterns that a file may be called instead of by its short name.
    names: BTreeSet<Vec<u8>>,
}

struct ProtectedPattern {
    pattern: Pattern,
    /// Directories that what the pattern matches lies below.
    above: Vec<Pattern>,
}

impl Protection {
    pub(crate) fn new(patterns: &[String]) -> Protection {
        let mut names = BTreeSet::new();
        let mut guards = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            let text = folded(pattern.trim_end_matches('/').as_bytes());
            let parts = text.split(|&byte| byte == b'/');
            let is_plain = |part: &&[u8]| !part.iter().any(|byte| matches!(byte, b'*' | b'?'));
            names.extend(parts.filter(is_plain).map(<[u8]>::to_vec));
            let slashes = text.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let above = slashes
                .map(|(at, _)| &text[..at])
                // `a/**/b` also lies below whatever is in `a`.
                .filter(|dir| !matches!(*dir, b"" | b"**" | b"/**"))
                // Without a slash it would match at any depth.
                .map(|dir| Pattern::new([b"/", dir.strip_prefix(b"/").unwrap_or(dir)].concat()));
            guards.push(ProtectedPattern {
                above: above.collect(),
                pattern: Pattern::new(&text),
            });
        }
        Protection { guards, names }
    }

    pub(crate) fn read(tx: &dyn ReadTx, project: WorkspaceKey) -> Result<Protection> {
        Ok(Protection::new(&MergeSettings::read(tx, project)?.protect))
    }

    /// Whether nothing is protected.
    pub(crate) fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Whether a path, or a directory above it, is protected.
    pub(crate) fn covers(&self, path: &RelPath) -> bool {
        if self.guards.is_empty() || path.is_root() {
            return false;
        }
        self.is_spelled(path, |path| {
            let ends = (0..path.len()).filter(|&at| path[at] == b'/');
            let mut with_above = ends.chain([path.len()]);
            let is_meant = |path: &[u8]| self.guards.iter().any(|one| one.pattern.matches(path));
            with_above.any(|end| is_meant(&path[..end]))
        })
    }

    /// Whether protected paths may lie below this one: a link there would lead them elsewhere.
    pub(crate) fn is_above(&self, path: &RelPath) -> bool {
        self.is_spelled(path, |path| {
            let mut above = self.guards.iter().flat_map(|one| &one.above);
            above.any(|dir| dir.matches(path))
        })
    }

    /// Whether a path is meant, spelled as patterns are. If it has short names, which are rare, also
    /// with each name that one of them may stand for.
    fn is_spelled(&self, path: &RelPath, is_meant: impl Fn(&[u8]) -> bool) -> bool {
        // As it is, for patterns that are about the end of a name, and as the most forgiving disk has it.
        if is_meant(path.as_bytes()) {
            return true;
        }
        let path = folded(path.as_bytes());
        if is_meant(&path) {
            return true;
        }
        let mut all = vec![path.clone()];
        let parts = path.split(|&byte| byte == b'/').enumerate();
        for (number, part) in parts.filter(|(_, part)| part.contains(&b'~')) {
            for name in self
                .names
                .iter()
                .filter(|name| may_be_short_name(part, name))
            {
                for n in 0..all.len() {
                    let mut parts: Vec<&[u8]> = all[n].split(|&byte| byte == b'/').collect();
                    parts[number] = name;
                    let spelled = parts.join(&b'/');
                    // No honest path has so many spellings.
                    if all.len() >= MOST_SPELLINGS || is_meant(&spelled) {
                        return true;
                    }
                    all.push(spelled);
                }
            }
        }
        false
    }

    /// Whether a change of a path needs the right to change protected ones: it is protected, or
    /// protected paths may lie below it.
    pub(crate) fn concerns(&self, path: &RelPath) -> bool {
        self.covers(path) || self.is_above(path)
    }

    /// Whether a decision about a conflict would change a protected path.
    pub(crate) fn concerns_conflict(&self, conflict: &Conflict) -> bool {
        let is_link = [conflict.ours, conflict.theirs]
            .into_iter()
            .flatten()
            .any(|entry| entry.mode.kind() == EntryKind::Symlink);
        let blocking = conflict.blockers.values().flatten();
        [&conflict.path]
            .into_iter()
            .chain(&conflict.ours_path)
            .chain(&conflict.related)
            .chain(blocking)
            .any(|path| self.covers(path) || (is_link && self.is_above(path)))
    }
}

impl Projects {
    /// Refuses a change of a protected path of a project.
    pub(crate) fn refuse_protected<'p>(
        &self,
        project: &ProjectId,
        mut paths: impl Iterator<Item = &'p RelPath>,
    ) -> Result<()> {
        let protection = self
            .store()
            .read(|tx| Protection::read(tx, open_project(tx, project)?.key))?;
        match paths.find(|path| protection.concerns(path)) {
            Some(path) => Err(is_protected(path)),
            None => Ok(()),
        }
    }
}

pub(crate) fn is_protected(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::PermissionDenied,
        format!("`{path}` is protected in this project"),
    )
    .with_hint("only the owner or an admin changes it; change it in a fork and complete that, and they decide")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protection(patterns: &[&str]) -> Protection {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        Protection::new(&patterns)
    }

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_comes_from_git_is_protected_where_tools_read_it() {
        let from_git = protection(&FROM_GIT);
        for covered in [
            ".github/workflows/ci.yml",
            ".GitHub/workflows/ci.yml",
            ".gitlab-ci.yml",
            "a/b/.envrc",
            "CLAUDE.md",
            "pkg/claude.MD",
            "pkg/.claude/settings.json",
            ".vscode/tasks.json",
            "web/.husky/pre-commit",
            "AGENTS.md/inside",
            "agent\u{17f}.md",
            ".g\u{200c}ithub/workflows/ci.yml",
            "GITHUB~1/workflows/ci.yml",
            "web/HUSKY~1/pre-commit",
            "pkg/.claude./settings.json",
        ] {
            assert!(from_git.covers(&path(covered)), "{covered}");
        }
        for free in [
            "github/workflows/ci.yml",
            "src/.github/x",
            "hooks/use_state.ts",
            "claude.md.txt",
            ".vscode",
            "src/vscode/x",
        ] {
            assert!(!from_git.covers(&path(free)), "{free}");
        }
    }

    #[test]
    fn a_directory_is_protected_with_what_is_in_it() {
        for pattern in ["ci", "ci/", "/ci", "ci/**"] {
            let ci = protection(&[pattern]);
            assert!(ci.covers(&path("ci/deep/x")), "{pattern}");
        }
        assert!(protection(&["ci"]).covers(&path("a/ci/x")));
        assert!(!protection(&["/ci"]).covers(&path("a/ci/x")));
        assert!(!protection(&[]).covers(&path("ci")));
    }

    #[test]
    fn directories_above_are_known() {
        let some = protection(&[
            "ci/deploy/run.sh",
            "**/.vscode/**",
            "*.key",
            "ops/**/run.sh",
        ]);
        for above in [
            "ci",
            "CI/deploy",
            ".vscode",
            "a/b/.vscode",
            "ops",
            "ops/prod",
            "ops/a/b",
        ] {
            assert!(some.is_above(&path(above)), "{above}");
        }
        for other in ["a", "a/ci", "ci/deploy/run.sh", "x.key"] {
            assert!(!some.is_above(&path(other)), "{other}");
        }
    }
}
