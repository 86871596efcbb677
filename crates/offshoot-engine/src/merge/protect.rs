//! Protected paths: what changes there waits for a person, even where it fits.
//!
//! Tools read some files of a checkout and run what they say: workflows, hooks, settings of editors
//! and of agents. An agent that changes them acts on the next person who works with the project. So
//! a merge holds such a change back and opens a review for it, whatever policy it was completed
//! with, and only the owner or an admin decides that.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use offshoot_core::{EMPTY_BLOB, EntryKind, Error, ErrorCode, ObjectId, RelPath, Result, cancel};
use offshoot_git::ObjectReader;
use offshoot_store::{ReadTx, ReviewRow, ReviewState, WorkspaceKey};

use crate::content::rows::state_of;
use crate::content::state::{State, StateEdit, StateEdits, StateEntry};
use crate::merge::Merges;
use crate::merge::authors::{Author, Authors};
use crate::merge::policy_decision::Decided;
use crate::merge::review_row::{
    ConflictContext, Decision, Details, KnownReviews, LandsIn, Subject, details_of, find_review,
    open_review,
};
use crate::merge::three_way::{ThreeStates, ThreeWay};
use crate::project::policy::Policy;
use crate::project::protection::Protection;

/// The kind of a review of a change that fits and is held back because its path is protected.
pub(crate) const KIND: &str = "protected";

impl Protection {
    /// Takes what changes protected paths out of a merge, with everything that makes sense only
    /// together with it: other names of a file, and what stands where a directory stood.
    pub(crate) fn hold(
        &self,
        objects: &dyn ObjectReader,
        states: ThreeStates<'_>,
        merge: &mut ThreeWay,
    ) -> Result<Vec<ProtectedChange>> {
        if self.is_empty() {
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
        let held: Vec<ProtectedChange> = held.collect();
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
        let dependencies = EditDependencies::new(objects, states, merge)?;
        let mut groups = Groups::default();
        for (path, edit) in dependencies.edits {
            cancel::check()?;
            if !groups.of.contains_key(path) && self.is_concerned(&dependencies, path, edit)? {
                groups.add(dependencies.around(path)?);
            }
        }
        Ok(groups.finish())
    }

    fn is_concerned(
        &self,
        dependencies: &EditDependencies<'_>,
        path: &RelPath,
        edit: &StateEdit,
    ) -> Result<bool> {
        let before = dependencies.ours(path)?;
        let kinds = [before.map(|entry| entry.kind), edit.kind_after()];
        let protected =
            self.covers(path) || dependencies.other_name(path).any(|name| self.covers(name));
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
    ) -> ProtectedChange {
        let sources = group.iter().filter_map(|path| renamed.get(path).copied());
        let paths: BTreeSet<&RelPath> = group
            .iter()
            .chain(sources)
            .filter(|path| changed.contains(path))
            .collect();
        let first = group.iter().find(|path| self.covers(path));
        let first = first.or(group.first()).cloned().unwrap_or_default();
        ProtectedChange {
            paths: paths.into_iter().cloned().collect(),
            path: first,
            edits: group,
        }
    }
}

/// Changes of a workspace that wait together because one of them is of a protected path.
pub(crate) struct ProtectedChange {
    /// The protected path.
    pub(crate) path: RelPath,
    /// The paths that the workspace changed.
    pub(crate) paths: Vec<RelPath>,
    /// The paths of the project that would have changed.
    edits: BTreeSet<RelPath>,
}

impl ProtectedChange {
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

/// Finds the edits of a merge that make sense only together, such as both names of a renamed file.
struct EditDependencies<'a> {
    objects: &'a dyn ObjectReader,
    states: ThreeStates<'a>,
    edits: &'a StateEdits,
    /// For a result: where the file stood before a rename that was followed, and the reverse.
    names: BTreeMap<RelPath, Vec<RelPath>>,
    /// Files that go, by their content.
    going: HashMap<ObjectId, Vec<RelPath>>,
}

impl<'a> EditDependencies<'a> {
    fn new(
        objects: &'a dyn ObjectReader,
        states: ThreeStates<'a>,
        merge: &'a ThreeWay,
    ) -> Result<EditDependencies<'a>> {
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
        Ok(EditDependencies {
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

    /// An edit with all that it depends on.
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
        // The largest group absorbs the others, so that no path is moved often.
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

impl Merges {
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
}

/// The review of changes that fit and are held back.
pub(crate) fn held_review(
    authors: &Authors<'_>,
    held: &ProtectedChange,
    context: &ConflictContext<'_>,
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
    open_review(subject, context)
}

/// What a merge tells of changes that somebody has decided before: the project keeps what it has.
pub(crate) fn decided_before(authors: &Authors<'_>, held: &ProtectedChange) -> Result<Decided> {
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

pub(crate) fn needs_owner(review: &str) -> Error {
    Error::new(
        ErrorCode::PermissionDenied,
        format!("the review `{review}` is about a protected path"),
    )
    .with_hint("the owner decides it with `offshoot review resolve`, or an admin token does; propose a resolution instead")
}
