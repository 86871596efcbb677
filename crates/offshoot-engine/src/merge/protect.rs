//! Protected paths: what changes there waits for a person, even where it fits.
//!
//! Tools read some files of a checkout and run what they say: workflows, hooks, settings of editors and
//! of agents. An agent that changes them acts on whoever works with the project next. So a merge holds
//! such a change back and opens a review for it, whatever policy it was completed with, and only the
//! owner or an admin decides that.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use offshoot_core::{
    EMPTY_BLOB, EntryKind, Error, ErrorCode, ObjectId, ProjectId, RelPath, Result, cancel,
};
use offshoot_git::{ObjectReader, folded, may_be_short};
use offshoot_merge::{Conflict, Pattern};
use offshoot_store::{ReadTx, ReviewRow, ReviewState, WorkspaceKey};

use crate::content::rows::{open_project, state_of};
use crate::content::state::{State, StateEdit, StateEdits, StateEntry};
use crate::engine::Engine;
use crate::merge::authors::{Author, Authors};
use crate::merge::decide::Decided;
use crate::merge::review_row::{
    Decision, Details, Finding, KnownReviews, LandsIn, Subject, details_of, find_review,
    open_review,
};
use crate::merge::three_way::{ThreeStates, ThreeWay};
use crate::project::policy::{MergeSettings, Policy};

/// The kind of a review of a change that fits and is held back because its path is protected.
pub(crate) const KIND: &str = "protected";

/// A path that may be spelled in so many ways is taken for a protected one.
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
    guards: Vec<Guard>,
    /// The names in patterns that a file may be called instead of by its short name.
    names: BTreeSet<Vec<u8>>,
}

struct Guard {
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
            guards.push(Guard {
                above: above.collect(),
                pattern: Pattern::new(&text),
            });
        }
        Protection { guards, names }
    }

    pub(crate) fn read(tx: &dyn ReadTx, project: WorkspaceKey) -> Result<Protection> {
        Ok(Protection::new(&MergeSettings::read(tx, project)?.protect))
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
    fn is_above(&self, path: &RelPath) -> bool {
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
            for name in self.names.iter().filter(|name| may_be_short(part, name)) {
                for n in 0..all.len() {
                    let mut parts: Vec<&[u8]> = all[n].split(|&byte| byte == b'/').collect();
                    parts[number] = name;
                    let spelled = parts.join(&b'/');
                    // Nobody needs a path like that.
                    if all.len() >= MOST_SPELLINGS || is_meant(&spelled) {
                        return true;
                    }
                    all.push(spelled);
                }
            }
        }
        false
    }

    /// Whether a path may be changed by whoever may change no protected one.
    pub(crate) fn concerns(&self, path: &RelPath) -> bool {
        self.covers(path) || self.is_above(path)
    }

    /// Whether a decision about a conflict would change a protected path.
    pub(crate) fn concerns_conflict(&self, conflict: &Conflict) -> bool {
        let is_link = [conflict.ours, conflict.theirs]
            .into_iter()
            .flatten()
            .any(|entry| entry.mode.kind() == EntryKind::Symlink);
        let blocking = conflict.in_the_way.values().flatten();
        [&conflict.path]
            .into_iter()
            .chain(&conflict.ours_path)
            .chain(&conflict.related)
            .chain(blocking)
            .any(|path| self.covers(path) || (is_link && self.is_above(path)))
    }

    /// Takes what changes protected paths out of a merge, with everything that makes sense only
    /// together with it: other names of a file, and what stands where a directory stood.
    pub(crate) fn hold(
        &self,
        objects: &dyn ObjectReader,
        states: ThreeStates<'_>,
        merge: &mut ThreeWay,
    ) -> Result<Vec<Held>> {
        if self.guards.is_empty() {
            return Ok(Vec::new());
        }
        let groups = self.groups(objects, states, merge)?;
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let changed: BTreeSet<&RelPath> = merge.theirs.iter().map(|change| &change.path).collect();
        let renamed = merge.auto_resolved.iter();
        let renamed: HashMap<&RelPath, &RelPath> = renamed
            .filter_map(|one| Some((&one.path, one.renamed_from.as_ref()?)))
            .collect();
        let held = groups.into_iter();
        let held = held.map(|group| self.held(group, &changed, &renamed));
        let held: Vec<Held> = held.collect();
        let waits: HashSet<&RelPath> = held.iter().flat_map(|one| &one.edits).collect();
        merge.proposal.edits.retain(|path, _| !waits.contains(path));
        merge.auto_resolved.retain(|one| !waits.contains(&one.path));
        Ok(held)
    }

    /// What waits, each with all that makes sense only together with it.
    fn groups(
        &self,
        objects: &dyn ObjectReader,
        states: ThreeStates<'_>,
        merge: &ThreeWay,
    ) -> Result<Vec<BTreeSet<RelPath>>> {
        let ties = Ties::new(objects, states, merge)?;
        let mut groups = Groups::default();
        for (path, edit) in ties.edits {
            cancel::check()?;
            if !groups.of.contains_key(path) && self.is_concerned(&ties, path, edit)? {
                groups.add(ties.around(path)?);
            }
        }
        Ok(groups.finish())
    }

    fn is_concerned(&self, ties: &Ties<'_>, path: &RelPath, edit: &StateEdit) -> Result<bool> {
        let before = ties.ours(path)?;
        let kinds = [before.map(|entry| entry.kind), edit.kind_after()];
        let protected = self.covers(path) || ties.other_name(path).any(|name| self.covers(name));
        if protected {
            // A directory by itself runs nothing; another mode of one that is there is told.
            let is_leaf =
                |kind: &Option<EntryKind>| kind.is_some_and(|kind| kind != EntryKind::Dir);
            return Ok(kinds.iter().any(is_leaf) || kinds.iter().all(Option::is_some));
        }
        Ok(kinds.contains(&Some(EntryKind::Symlink)) && self.is_above(path))
    }

    fn held(
        &self,
        group: BTreeSet<RelPath>,
        changed: &BTreeSet<&RelPath>,
        renamed: &HashMap<&RelPath, &RelPath>,
    ) -> Held {
        let sources = group.iter().filter_map(|path| renamed.get(path).copied());
        let paths: BTreeSet<&RelPath> = group
            .iter()
            .chain(sources)
            .filter(|path| changed.contains(path))
            .collect();
        let first = group.iter().find(|path| self.covers(path));
        let first = first.or(group.first()).cloned().unwrap_or_default();
        Held {
            paths: paths.into_iter().cloned().collect(),
            path: first,
            edits: group,
        }
    }
}

/// Changes of a workspace that wait together because one of them is of a protected path.
pub(crate) struct Held {
    /// The protected path.
    pub(crate) path: RelPath,
    /// The paths that the workspace changed.
    pub(crate) paths: Vec<RelPath>,
    /// The paths of the project that would have changed.
    edits: BTreeSet<RelPath>,
}

impl Held {
    /// The paths beside the protected one.
    pub(crate) fn related(&self) -> Vec<RelPath> {
        let others = self.edits.iter().filter(|path| **path != self.path);
        others.cloned().collect()
    }

    /// Whether somebody has decided the very same changes of this workspace before.
    pub(crate) fn is_decided(
        &self,
        tx: &dyn ReadTx,
        objects: &dyn ObjectReader,
        known: &KnownReviews,
        theirs: &State,
    ) -> Result<bool> {
        for (review, details) in known.at(&self.path) {
            let is_about = review.state == ReviewState::Resolved
                && details.protected
                && details.paths == self.paths
                && details.decision.as_ref().is_some_and(Decision::is_chosen);
            let now = |path: &RelPath| theirs.entry(objects, path);
            if is_about && has_same(tx, objects, (review, details), now)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether there is at all paths of a review what its workspace had when it was opened.
pub(crate) fn has_same(
    tx: &dyn ReadTx,
    objects: &dyn ObjectReader,
    (review, details): (&ReviewRow, &Details),
    now: impl Fn(&RelPath) -> Result<Option<StateEntry>>,
) -> Result<bool> {
    let then = match &details.theirs_snapshot {
        Some(then) => tx.snapshot(review.workspace, then)?,
        None => None,
    };
    let Some(then) = then else {
        return Ok(false);
    };
    for path in &details.paths {
        if state_of(&then).entry(objects, path)? != now(path)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What ties the edits of a merge together.
struct Ties<'a> {
    objects: &'a dyn ObjectReader,
    states: ThreeStates<'a>,
    edits: &'a StateEdits,
    /// For a result: where the file stood before a rename that was followed, and the reverse.
    names: BTreeMap<RelPath, Vec<RelPath>>,
    /// Files that go, by their content.
    going: HashMap<ObjectId, Vec<RelPath>>,
}

impl<'a> Ties<'a> {
    fn new(
        objects: &'a dyn ObjectReader,
        states: ThreeStates<'a>,
        merge: &'a ThreeWay,
    ) -> Result<Ties<'a>> {
        let mut names: BTreeMap<RelPath, Vec<RelPath>> = BTreeMap::new();
        for one in &merge.auto_resolved {
            if let Some(from) = &one.renamed_from {
                names
                    .entry(one.path.clone())
                    .or_default()
                    .push(from.clone());
                names
                    .entry(from.clone())
                    .or_default()
                    .push(one.path.clone());
            }
        }
        let edits = &merge.proposal.edits;
        let mut going: HashMap<ObjectId, Vec<RelPath>> = HashMap::new();
        for (path, edit) in edits {
            let before = match edit {
                StateEdit::Remove => states.ours.entry(objects, path)?,
                _ => None,
            };
            // Empty files are all alike.
            let content = before.and_then(|entry| entry.id);
            if let Some(id) = content.filter(|id| *id != EMPTY_BLOB) {
                going.entry(id).or_default().push(path.clone());
            }
        }
        Ok(Ties {
            objects,
            states,
            edits,
            names,
            going,
        })
    }

    fn ours(&self, path: &RelPath) -> Result<Option<StateEntry>> {
        self.states.ours.entry(self.objects, path)
    }

    fn other_name(&self, path: &RelPath) -> impl Iterator<Item = &RelPath> {
        self.names.get(path).into_iter().flatten()
    }

    /// An edit with all that it is tied to.
    fn around(&self, path: &RelPath) -> Result<BTreeSet<RelPath>> {
        let mut group = BTreeSet::new();
        let mut open = vec![path.clone()];
        while let Some(path) = open.pop() {
            let Some(edit) = self.edits.get(&path) else {
                continue;
            };
            if !group.insert(path.clone()) {
                continue;
            }
            open.extend(self.other_name(&path).cloned());
            if let (Some(id), None) = (edit.content_after(), self.ours(&path)?) {
                // A file that goes elsewhere was moved here.
                let gone = self.going.get(&id).filter(|paths| paths.len() == 1);
                open.extend(gone.into_iter().flatten().cloned());
            }
            if self.is_leaf(&path, edit)? {
                let first = path.join_name(b"\x01");
                let below = self.edits.range(first..).map(|(other, _)| other);
                open.extend(below.take_while(|other| other.starts_with(&path)).cloned());
            }
            for above in path.dirs_above() {
                let Some(edit) = self.edits.get(&above) else {
                    continue;
                };
                if self.is_leaf(&above, edit)? {
                    open.push(above);
                } else if edit.hides() || self.ours(&above)?.is_none() {
                    // A directory that comes or goes with it; what else is in it does not wait.
                    group.insert(above);
                }
            }
        }
        Ok(group)
    }

    /// Whether something other than a directory stands there before or after.
    fn is_leaf(&self, path: &RelPath, edit: &StateEdit) -> Result<bool> {
        let is_leaf = |kind: EntryKind| kind != EntryKind::Dir;
        let before = self.ours(path)?.map(|entry| entry.kind);
        Ok(before.is_some_and(is_leaf) || edit.kind_after().is_some_and(is_leaf))
    }
}

/// Groups of paths; those that have a path in common are one.
#[derive(Default)]
struct Groups {
    groups: Vec<BTreeSet<RelPath>>,
    /// Which group a path is in.
    of: HashMap<RelPath, usize>,
}

impl Groups {
    fn add(&mut self, group: BTreeSet<RelPath>) {
        let touched = group.iter().filter_map(|path| self.of.get(path).copied());
        let touched: BTreeSet<usize> = touched.collect();
        // The largest takes the others in, so that no path is moved often.
        let largest = touched.iter().max_by_key(|&&n| self.groups[n].len());
        let into = largest.copied().unwrap_or_else(|| {
            self.groups.push(BTreeSet::new());
            self.groups.len() - 1
        });
        for other in touched.into_iter().filter(|&other| other != into) {
            let moved = std::mem::take(&mut self.groups[other]);
            self.put(moved, into);
        }
        self.put(group, into);
    }

    fn put(&mut self, paths: BTreeSet<RelPath>, into: usize) {
        for path in paths {
            self.of.insert(path.clone(), into);
            self.groups[into].insert(path);
        }
    }

    fn finish(self) -> Vec<BTreeSet<RelPath>> {
        let groups = self.groups.into_iter();
        groups.filter(|group| !group.is_empty()).collect()
    }
}

impl Engine {
    /// Whether deciding a review would change a protected path of its project.
    pub(crate) fn is_protected_review(&self, id: &str) -> Result<bool> {
        self.store().read(|tx| {
            let row = find_review(tx, id)?;
            let details = details_of(&row)?;
            if details.lands_in == LandsIn::Workspace {
                return Ok(false);
            }
            let protection = Protection::read(tx, row.project)?;
            let mut paths = details
                .paths
                .iter()
                .chain(&details.related)
                .chain([&row.path]);
            Ok(details.protected || paths.any(|path| protection.concerns(path)))
        })
    }

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

/// The review of changes that fit and are held back.
pub(crate) fn held_review(
    authors: &Authors<'_>,
    held: &Held,
    finding: &Finding<'_>,
) -> Result<ReviewRow> {
    let ThreeStates { base, ours, theirs } = authors.states;
    let content = |state: &State| -> Result<Option<ObjectId>> {
        Ok(state
            .entry(authors.objects, &held.path)?
            .and_then(|entry| entry.id))
    };
    let by = (
        authors.last_of_ours(&held.path)?,
        authors.last_of_theirs(&held.path)?,
    );
    let subject = Subject {
        path: held.path.clone(),
        contents: [content(base)?, content(ours)?, content(theirs)?],
        kind: KIND.to_owned(),
        parts: Vec::new(),
        related: held.related(),
        paths: held.paths.clone(),
        by: (by.0.map(|ours| ours.who()), by.1.map(|theirs| theirs.who())),
        protected: true,
    };
    open_review(subject, finding)
}

/// What a merge tells of changes that somebody has decided before: the project keeps what it has.
pub(crate) fn decided_before(authors: &Authors<'_>, held: &Held) -> Result<Decided> {
    let theirs = authors.states.theirs.entry(authors.objects, &held.path)?;
    let (ours_by, lost_by) = (
        authors.last_of_ours(&held.path)?,
        authors.last_of_theirs(&held.path)?,
    );
    let message = |author: &Option<Author>| author.as_ref()?.cause.message_id.clone();
    Ok(Decided {
        path: held.path.clone(),
        parts: Vec::new(),
        policy: Policy::Review,
        winner: "ours".to_owned(),
        lost: theirs.and_then(|entry| entry.id),
        lost_message_id: message(&lost_by),
        lost_by: lost_by.map(|author| author.name()),
        ours_message_id: message(&ours_by),
        ours_by: ours_by.map(|author| author.name()),
    })
}

/// The reviews of a merge, and what else of its workspace was decided, by their paths.
pub(crate) fn known_paths(
    tx: &dyn ReadTx,
    workspace: WorkspaceKey,
    merge: &str,
) -> Result<Vec<RelPath>> {
    let mut known = Vec::new();
    for review in tx.reviews_of(workspace)? {
        let decided = |review: &ReviewRow| -> Result<bool> {
            let details = details_of(review)?;
            let is_chosen = details.decision.as_ref().is_some_and(Decision::is_chosen);
            Ok(review.state == ReviewState::Resolved && details.protected && is_chosen)
        };
        if review.merge == merge || decided(&review)? {
            known.push(review.path);
        }
    }
    Ok(known)
}

pub(crate) fn is_protected(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::PermissionDenied,
        format!("`{path}` is protected in this project"),
    )
    .with_hint("only the owner or an admin changes it; change it in a fork and complete that, and they decide")
}

pub(crate) fn needs_owner(review: &str) -> Error {
    Error::new(
        ErrorCode::PermissionDenied,
        format!("the review `{review}` is about a protected path"),
    )
    .with_hint("the owner decides it with `offshoot review resolve`, or an admin token does; propose a resolution instead")
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
