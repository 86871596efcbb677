//! What never gets from one agent to another, by its name: what git on any platform takes for a
//! `.git` of its own or refuses to have in a tree, and the places that are Offshoot's.
//!
//! A merge leaves such changes out and its receipt says so. The workspace keeps what it has: its
//! own snapshots hold it, and nobody else's begin with it.

use std::collections::BTreeMap;

use offshoot_core::{EntryKind, Error, ErrorCode, RelPath, Result};
use offshoot_git::ObjectReader;
use offshoot_merge::{Edit, Merged};
use offshoot_store::WorkspaceKind;

use crate::content::index::Index;
use crate::content::objects::PendingObjects;
use crate::content::rows::{base_state, fork_row};
use crate::content::state::{
    State, StateChange, StateEdit, StateEdits, StateEntry, refused_by_git,
};
use crate::content::too_large::TooLarge;

/// Directories at the top of a workspace that are Offshoot's, unless its base has them.
const OURS: [&[u8]; 2] = [b".meta", b".logs"];
const IS_OURS: &str = "the place is kept for Offshoot";

/// A change that a merge left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Where; a directory stands for all below it.
    pub path: RelPath,
    /// Why.
    pub reason: String,
}

impl From<&TooLarge> for LeftOut {
    fn from(file: &TooLarge) -> Self {
        LeftOut {
            path: file.path.clone(),
            reason: file.reason(),
        }
    }
}

/// The directory of ours that a path is at or below; none if the base has something of its own
/// there, as a project may that was imported with it.
pub(crate) fn reserved_dir(
    objects: &dyn ObjectReader,
    base: &State,
    path: &RelPath,
) -> Result<Option<RelPath>> {
    let top = path.parts().next().filter(|part| OURS.contains(part));
    let Some(top) = top.map(|part| RelPath::root().join_name(part)) else {
        return Ok(None);
    };
    Ok(base.entry(objects, &top)?.is_none().then_some(top))
}

/// Refuses to write to a place of ours.
pub(crate) fn refuse_reserved_dir(
    objects: &dyn ObjectReader,
    base: &State,
    path: &RelPath,
) -> Result<()> {
    match reserved_dir(objects, base, path)? {
        None => Ok(()),
        Some(top) => Err(Error::new(
            ErrorCode::PermissionDenied,
            format!("`{path}` cannot be written: `{top}` is kept for Offshoot"),
        )
        .with_hint("choose another name")),
    }
}

/// Whether a path of a workspace is at or below a place of ours: one that its base does not have.
/// A workspace that is no fork has the empty tree as its base.
pub(crate) fn is_reserved_in(index: &Index<'_>, path: &RelPath) -> Result<bool> {
    if !path.parts().next().is_some_and(|top| OURS.contains(&top)) {
        return Ok(false);
    }
    let base = match index.row.kind {
        WorkspaceKind::Fork => base_state(&fork_row(index.tx, index.row)?),
        WorkspaceKind::Standalone | WorkspaceKind::Project => State::default(),
    };
    Ok(reserved_dir(&index.objects, &base, path)?.is_some())
}

/// Refuses to write to a place of ours in a workspace.
pub(crate) fn refuse_reserved_in(index: &Index<'_>, path: &RelPath) -> Result<()> {
    if !is_reserved_in(index, path)? {
        return Ok(());
    }
    refuse_reserved_dir(&index.objects, &State::default(), path)
}

/// Refuses what git would refuse in the tree of a project. `content` is what a file would hold.
pub(crate) fn refuse_what_git_refuses(
    path: &RelPath,
    kind: EntryKind,
    content: Option<&[u8]>,
) -> Result<()> {
    let by_name = offshoot_git::refuses_path(path, kind).map(|(_, why)| why);
    let by_content = || offshoot_git::refuses_content(path.name(), content?);
    match by_name.or_else(by_content) {
        None => Ok(()),
        Some(why) => Err(Error::new(
            ErrorCode::PermissionDenied,
            format!("`{path}` cannot be in a project: {why}"),
        )
        .with_hint("a project holds only what git could check out anywhere")),
    }
}

/// Whether git would refuse what one of these edits puts.
pub(crate) fn git_refuses_any(objects: &dyn ObjectReader, edits: &[Edit]) -> Result<bool> {
    for edit in edits {
        if refused_edit(objects, edit)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Why git refuses what an edit puts, by its path or by what it holds.
fn refused_edit(
    objects: &dyn ObjectReader,
    edit: &Edit,
) -> Result<Option<(RelPath, &'static str)>> {
    match &edit.to {
        None => Ok(None),
        Some(Merged::Existing(entry)) => {
            let entry = StateEntry {
                kind: entry.mode.kind(),
                perm: entry.mode.perm(),
                id: Some(entry.id),
            };
            refused_by_git(objects, &edit.path, &entry)
        }
        Some(Merged::New { mode, bytes }) => {
            let by_content = || {
                let why = offshoot_git::refuses_content(edit.path.name(), bytes)?;
                Some((edit.path.clone(), why))
            };
            let by_path = offshoot_git::refuses_path(&edit.path, mode.kind());
            Ok(by_path.or_else(by_content))
        }
    }
}

/// Sorts out changes on their way from a workspace into its project.
pub(crate) struct MergeFilter<'a> {
    objects: &'a dyn ObjectReader,
    base: &'a State,
    theirs: &'a State,
    left: BTreeMap<RelPath, &'static str>,
}

impl<'a> MergeFilter<'a> {
    pub(crate) fn new(objects: &'a dyn ObjectReader, base: &'a State, theirs: &'a State) -> Self {
        MergeFilter {
            objects,
            base,
            theirs,
            left: BTreeMap::new(),
        }
    }

    /// Whether a change may pass.
    pub(crate) fn allows_change(&mut self, change: &StateChange) -> Result<bool> {
        let stopped = match &change.after {
            Some(after) => self.stops(&change.path, after)?,
            None => self.stops_removal(change)?,
        };
        self.note(stopped)
    }

    /// Whether what a merge made of the changes may pass: a directory that the project renamed
    /// takes along what theirs put into it, and two good halves need not make a good whole.
    pub(crate) fn allows_edit(&mut self, edit: &Edit) -> Result<bool> {
        let stopped = match edit.to {
            None => None,
            Some(_) => match self.reserved_dir(&edit.path)? {
                Some(ours) => Some(ours),
                None => refused_edit(self.objects, edit)?,
            },
        };
        self.note(stopped)
    }

    /// Whether a path may pass whatever it holds.
    pub(crate) fn allows_path(&mut self, path: &RelPath) -> Result<bool> {
        self.note(offshoot_git::refuses_path(path, EntryKind::File))
    }

    /// What was stopped.
    pub(crate) fn into_left_out(self) -> Vec<LeftOut> {
        let told = |(path, why): (RelPath, &str)| LeftOut {
            path,
            reason: why.to_owned(),
        };
        self.left.into_iter().map(told).collect()
    }

    fn note(&mut self, stopped: Option<(RelPath, &'static str)>) -> Result<bool> {
        let passes = stopped.is_none();
        self.left.extend(stopped);
        Ok(passes)
    }

    fn stops(&self, path: &RelPath, after: &StateEntry) -> Result<Option<(RelPath, &'static str)>> {
        match self.reserved_dir(path)? {
            Some(ours) => Ok(Some(ours)),
            None => refused_by_git(self.objects, path, after),
        }
    }

    fn reserved_dir(&self, path: &RelPath) -> Result<Option<(RelPath, &'static str)>> {
        let top = reserved_dir(self.objects, self.base, path)?;
        Ok(top.map(|top| (top, IS_OURS)))
    }

    /// A repository that the owner put into the project stays one while the directory that it is in
    /// stays; it goes with that.
    fn stops_removal(&self, change: &StateChange) -> Result<Option<(RelPath, &'static str)>> {
        let kind = change.before.map_or(EntryKind::File, |entry| entry.kind);
        let Some((top, why)) = offshoot_git::refuses_path(&change.path, kind) else {
            return Ok(None);
        };
        let around = top.parent().unwrap_or_default();
        let stays = offshoot_git::is_dot_git(top.name())
            && self.theirs.entry(self.objects, &around)?.is_some();
        Ok(stays.then_some((top, why)))
    }
}

/// The edits after which `state` differs from `base` in nothing that a gate would stop.
pub(crate) fn edits_without_left_out(
    objects: &dyn ObjectReader,
    base: &State,
    state: &State,
) -> Result<StateEdits> {
    let mut gate = MergeFilter::new(objects, base, state);
    let mut edits = StateEdits::new();
    for change in base.diff(objects, state, &RelPath::root())? {
        if gate.allows_change(&change)? {
            continue;
        }
        edits.insert(change.path, reverting_edit(change.before, change.after));
    }
    Ok(edits)
}

/// The edit that brings back what was there.
pub(crate) fn reverting_edit(then: Option<StateEntry>, now: Option<StateEntry>) -> StateEdit {
    match then {
        None => StateEdit::Remove,
        Some(then) if now.is_some_and(|now| now.kind == then.kind) => StateEdit::Put(then),
        Some(then) => StateEdit::Replace(then),
    }
}

/// `state` with everything that a gate would stop as `base` has it.
pub(crate) fn without_left_out(
    bench: &mut PendingObjects<'_>,
    base: &State,
    state: &State,
) -> Result<State> {
    let edits = edits_without_left_out(bench, base, state)?;
    state.edit(bench, &edits)
}
