//! The three-way merge of states: the merge crate's trees and contents, over the store.
//!
//! The merge crate knows what git knows: files, links and their executable bit. What only a state
//! knows is decided here: directories of their own, and permission bits that git does not hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use offshoot_core::{EntryKind, GitMode, ObjectId, ObjectKind, RelPath, Result, cancel};
use offshoot_git::ObjectReader;
use offshoot_merge::{
    AutoResolution, Conflict, Contents, Edit, Head, MergeOptions, Merged, PathChange, Pattern,
    TreeEntry, merge_trees,
};
use offshoot_store::{NewObject, Store};

use crate::content::left_out::{LeftOut, MergeFilter};
use crate::content::objects::missing_content;
use crate::content::state::{State, StateChange, StateEdit, StateEntry};
use crate::project::head::Proposal;

/// The three states of a merge.
#[derive(Clone, Copy)]
pub(crate) struct ThreeStates<'a> {
    pub(crate) base: &'a State,
    pub(crate) ours: &'a State,
    pub(crate) theirs: &'a State,
}

/// What a merge comes to. Nothing of it is done yet.
pub(crate) struct ThreeWay {
    /// What ours has to become.
    pub(crate) proposal: Proposal,
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) auto_resolved: Vec<AutoResolution>,
    /// Paths that both sides changed in the same way.
    pub(crate) unchanged: Vec<RelPath>,
    /// What theirs changed and must not get into a project.
    pub(crate) left_out: Vec<LeftOut>,
    /// All that theirs changed since the base, in the order of paths.
    pub(crate) theirs: Vec<StateChange>,
}

/// Merges what theirs changed since the base into ours, which is the head of a project. What must
/// not get from one agent to another is left out.
pub(crate) fn merge_into_project(
    store: &Store,
    objects: &dyn ObjectReader,
    states: ThreeStates<'_>,
    options: &MergeOptions,
) -> Result<ThreeWay> {
    let mut gate = MergeFilter::new(objects, states.base, states.theirs);
    let mut merge = merge_through(store, objects, states, options, Some(&mut gate))?;
    merge.left_out.extend(gate.into_left_out());
    Ok(merge)
}

/// Merges what theirs changed since the base into ours, where the result is the workspace's own:
/// nothing is left out.
pub(crate) fn merge_states(
    store: &Store,
    objects: &dyn ObjectReader,
    states: ThreeStates<'_>,
    options: &MergeOptions,
) -> Result<ThreeWay> {
    merge_through(store, objects, states, options, None)
}

fn merge_through(
    store: &Store,
    objects: &dyn ObjectReader,
    states: ThreeStates<'_>,
    options: &MergeOptions,
    mut gate: Option<&mut MergeFilter<'_>>,
) -> Result<ThreeWay> {
    let all = states.base.diff(objects, states.theirs, &RelPath::root())?;
    let mut theirs = all.clone();
    if let Some(gate) = &mut gate {
        theirs = passed(theirs, |change| gate.allows_change(change))?;
    }
    let changes: Vec<PathChange> = theirs.iter().filter_map(as_path_change).collect();
    let head = StateHead { objects, states };
    let mut options = options.clone();
    // Files of a nested repository make sense only as a whole.
    for pattern in [".git/**", "**/.git/**"] {
        let rule = (Pattern::new(pattern), offshoot_merge::MergeEngine::Binary);
        options.rules.engines.insert(0, rule);
    }
    let mut outcome = merge_trees(&changes, &head, &head, &options)?;
    if let Some(gate) = &mut gate {
        outcome.edits = passed(outcome.edits, |edit| gate.allows_edit(edit))?;
        outcome.conflicts = passed(outcome.conflicts, |one| gate.allows_path(&one.path))?;
    }
    let mut translator = EditTranslator {
        store,
        objects,
        states,
        proposal: Proposal::default(),
    };
    translator.apply(&outcome.edits)?;
    let decided: BTreeSet<&RelPath> = outcome
        .conflicts
        .iter()
        .map(|conflict| &conflict.path)
        .chain(outcome.edits.iter().map(|edit| &edit.path))
        .collect();
    translator.bits(&theirs, &decided)?;
    let left_out = translator.directories(&theirs, &decided)?;
    Ok(ThreeWay {
        proposal: translator.proposal,
        conflicts: outcome.conflicts,
        auto_resolved: outcome.auto_resolved,
        unchanged: outcome.unchanged,
        left_out,
        theirs: all,
    })
}

/// The items that the predicate lets pass.
fn passed<T>(all: Vec<T>, mut passes: impl FnMut(&T) -> Result<bool>) -> Result<Vec<T>> {
    let mut passed = Vec::with_capacity(all.len());
    for one in all {
        if passes(&one)? {
            passed.push(one);
        }
    }
    Ok(passed)
}

/// The edits of ours that a decision about a conflict comes to.
pub(crate) fn state_edits(
    store: &Store,
    objects: &dyn ObjectReader,
    states: ThreeStates<'_>,
    edits: &[Edit],
) -> Result<Proposal> {
    let mut translator = EditTranslator {
        store,
        objects,
        states,
        proposal: Proposal::default(),
    };
    translator.apply(edits)?;
    Ok(translator.proposal)
}

/// Turns edits of git's entries into edits of a state.
struct EditTranslator<'a> {
    store: &'a Store,
    objects: &'a dyn ObjectReader,
    states: ThreeStates<'a>,
    proposal: Proposal,
}

impl EditTranslator<'_> {
    fn apply(&mut self, edits: &[Edit]) -> Result<()> {
        for edit in edits {
            let edit_of_state = match &edit.to {
                None => StateEdit::Remove,
                Some(Merged::Existing(entry)) => {
                    StateEdit::Put(self.with_bits(&edit.path, entry.mode, entry.id)?)
                }
                Some(Merged::New { mode, bytes }) => {
                    let id = offshoot_git::hash(ObjectKind::Blob, bytes)?;
                    let object: NewObject = self.store.prepare(ObjectKind::Blob, id, bytes)?;
                    self.proposal.contents.push(object);
                    StateEdit::Put(self.with_bits(&edit.path, *mode, id)?)
                }
            };
            self.proposal.edits.insert(edit.path.clone(), edit_of_state);
        }
        Ok(())
    }

    /// The entry with the full permission bits of whichever side changed them.
    fn with_bits(&self, path: &RelPath, mode: GitMode, id: ObjectId) -> Result<StateEntry> {
        let kind = mode.kind();
        if kind != EntryKind::File {
            return Ok(StateEntry {
                kind,
                perm: mode.perm(),
                id: Some(id),
            });
        }
        let perm_on = |state: &State| -> Result<Option<u32>> {
            let entry = state.entry(self.objects, path)?;
            Ok(entry
                .filter(|entry| GitMode::of(entry.kind, entry.perm) == mode)
                .map(|entry| entry.perm))
        };
        let base = perm_on(self.states.base)?;
        let (ours, theirs) = (perm_on(self.states.ours)?, perm_on(self.states.theirs)?);
        let perm = match (ours, theirs) {
            (Some(ours), Some(theirs)) if Some(ours) == base => theirs,
            (Some(ours), _) => ours,
            (None, Some(theirs)) => theirs,
            (None, None) => mode.perm(),
        };
        Ok(StateEntry {
            kind,
            perm,
            id: Some(id),
        })
    }

    /// Permission bits that git does not hold, where only theirs changed them.
    fn bits(&mut self, theirs: &[StateChange], decided: &BTreeSet<&RelPath>) -> Result<()> {
        for change in theirs {
            let (Some(before), Some(after)) = (change.before, change.after) else {
                continue;
            };
            let bits_alone = before.kind == after.kind
                && before.id == after.id
                && GitMode::of(before.kind, before.perm) == GitMode::of(after.kind, after.perm);
            if !bits_alone || decided.contains(&change.path) {
                continue;
            }
            let ours = self.states.ours.entry(self.objects, &change.path)?;
            if let Some(mut ours) =
                ours.filter(|ours| ours.kind == before.kind && ours.perm == before.perm)
            {
                ours.perm = after.perm;
                self.proposal
                    .edits
                    .insert(change.path.clone(), StateEdit::Put(ours));
            }
        }
        Ok(())
    }

    /// Directories that theirs made, and those that it removed and nothing is left in. Returns the
    /// empty ones that cannot be made, because a file or link of the project is there.
    fn directories(
        &mut self,
        theirs: &[StateChange],
        decided: &BTreeSet<&RelPath>,
    ) -> Result<Vec<LeftOut>> {
        let mut left_out: Vec<LeftOut> = Vec::new();
        for change in theirs {
            let path = &change.path;
            let is_dir =
                |entry: Option<StateEntry>| entry.filter(|entry| entry.kind == EntryKind::Dir);
            let (before, after) = (is_dir(change.before), is_dir(change.after));
            if let (None, Some(after)) = (before, after) {
                let leaf = self.leaf_at_or_above(path)?;
                let is_told = left_out.iter().any(|one| path.starts_with(&one.path));
                match leaf {
                    None if self.entry_after(path)?.is_none() => {
                        let edit = StateEdit::Put(after);
                        self.proposal.edits.insert(path.clone(), edit);
                    }
                    // What is in the directory conflicts with the leaf, and is told there.
                    Some(leaf)
                        if !is_told && !decided.contains(&leaf) && self.is_empty(path)? =>
                    {
                        left_out.push(LeftOut {
                            path: path.clone(),
                            reason: match leaf == *path {
                                true => "the project has something else there".to_owned(),
                                false => format!("the project has no directory at `{leaf}`"),
                            },
                        });
                    }
                    _ => {}
                }
                continue;
            }
            let ours = self.states.ours.entry(self.objects, path)?;
            let goes = before.is_some() && change.after.is_none() && is_dir(ours).is_some();
            if goes && !self.proposal.edits.contains_key(path) && self.nothing_stays_in(path)? {
                let edit = StateEdit::Remove;
                self.proposal.edits.insert(path.clone(), edit);
            }
        }
        Ok(left_out)
    }

    /// What stands at a path once the edits are done.
    fn entry_after(&self, path: &RelPath) -> Result<Option<StateEntry>> {
        match self.proposal.edits.get(path) {
            Some(StateEdit::Put(entry) | StateEdit::Replace(entry)) => Ok(Some(*entry)),
            Some(StateEdit::Remove) => Ok(None),
            None => self.states.ours.entry(self.objects, path),
        }
    }

    /// The path, or one above it, at which something else than a directory stands once the edits are
    /// done.
    fn leaf_at_or_above(&self, path: &RelPath) -> Result<Option<RelPath>> {
        for place in path.dirs_above().into_iter().chain([path.clone()]) {
            let entry = self.entry_after(&place)?;
            if entry.is_some_and(|entry| entry.kind != EntryKind::Dir) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Whether theirs has no file and no link in a directory.
    fn is_empty(&self, dir: &RelPath) -> Result<bool> {
        let mut is_empty = true;
        self.states
            .theirs
            .walk(self.objects, dir, &mut |_, entry| {
                is_empty &= entry.kind == EntryKind::Dir;
                Ok(())
            })?;
        Ok(is_empty)
    }

    fn nothing_stays_in(&self, dir: &RelPath) -> Result<bool> {
        let mut stays = false;
        self.states
            .ours
            .walk(self.objects, dir, &mut |path, entry| {
                let goes = matches!(self.proposal.edits.get(path), Some(StateEdit::Remove));
                // A directory of ours that theirs removed too goes with what is in it.
                let gone_in_theirs = entry.kind == EntryKind::Dir
                    && self.states.theirs.entry(self.objects, path)?.is_none()
                    && self.states.base.entry(self.objects, path)?.is_some();
                stays |= !goes && !gone_in_theirs;
                Ok(())
            })?;
        let comes = self
            .proposal
            .edits
            .iter()
            .any(|(path, edit)| path.starts_with(dir) && !matches!(edit, StateEdit::Remove));
        Ok(!stays && !comes)
    }
}

/// A state as the merge crate asks for it.
struct StateHead<'a> {
    objects: &'a dyn ObjectReader,
    states: ThreeStates<'a>,
}

impl Head for StateHead<'_> {
    fn entry(&self, path: &RelPath) -> Result<Option<TreeEntry>> {
        let entry = self.states.ours.entry(self.objects, path)?;
        Ok(entry.map(as_tree_entry))
    }

    fn leaves_below(&self, directory: &RelPath) -> Result<Vec<RelPath>> {
        let mut leaves = Vec::new();
        self.states
            .ours
            .walk(self.objects, directory, &mut |path, entry| {
                if entry.kind != EntryKind::Dir {
                    leaves.push(path.clone());
                }
                Ok(())
            })?;
        Ok(leaves)
    }

    fn changes(&self) -> Result<Vec<PathChange>> {
        let changes = self
            .states
            .base
            .diff(self.objects, self.states.ours, &RelPath::root())?;
        Ok(changes.iter().filter_map(as_path_change).collect())
    }
}

impl Contents for StateHead<'_> {
    fn read(&self, id: &ObjectId) -> Result<Arc<[u8]>> {
        // A request that was cancelled ends here; reading one content is a bounded amount of work.
        cancel::check()?;
        let object = self.objects.read(id)?;
        object.map(|(_, bytes)| bytes).ok_or_else(missing_content)
    }
}

fn as_tree_entry(entry: StateEntry) -> TreeEntry {
    match entry.id {
        Some(id) => TreeEntry {
            mode: GitMode::of(entry.kind, entry.perm),
            id,
        },
        None => TreeEntry {
            mode: GitMode::Dir,
            id: offshoot_core::EMPTY_TREE,
        },
    }
}

/// A change of leaves; none for what concerns directories or bits that git does not hold.
fn as_path_change(change: &StateChange) -> Option<PathChange> {
    let leaf = |entry: Option<StateEntry>| {
        entry
            .filter(|entry| entry.kind != EntryKind::Dir)
            .map(as_tree_entry)
    };
    let (before, after) = (leaf(change.before), leaf(change.after));
    (before != after).then(|| PathChange {
        path: change.path.clone(),
        before,
        after,
    })
}
