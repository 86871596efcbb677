//! Paths that a merge never brings into a project: those that git on any platform takes for a `.git`
//! of its own or refuses in a tree, and directories that are reserved for Offshoot.
//!
//! A merge leaves such changes out, and its receipt says so. The workspace and its own snapshots keep
//! them.

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

/// Directories at the top of a workspace that are reserved for Offshoot, unless its base has them.
const RESERVED_DIRS: [&[u8]; 2] = [b".meta", b".logs"];
const IS_RESERVED: &str = "the place is kept for Offshoot";

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

/// The reserved directory that a path is at or below; none if the base has something there, as an
/// imported project may.
pub(crate) fn reserved_dir(
    objects: &dyn ObjectReader,
    base: &State,
    path: &RelPath,
) -> Result<Option<RelPath>> {
    let top = path
        .parts()
        .next()
        .filter(|part| RESERVED_DIRS.contains(part));
    let Some(top) = top.map(|part| RelPath::root().join_name(part)) else {
        return Ok(None);
    };
    Ok(base.entry(objects, &top)?.is_none().then_some(top))
}

/// Refuses to write to a reserved directory.
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

/// Whether a path of a workspace is at or below a reserved directory that its base does not have. The
/// base of a workspace that is no fork is empty.
pub(crate) fn is_reserved_in(index: &Index<'_>, path: &RelPath) -> Result<bool> {
    if !path
        .parts()
        .next()
        .is_some_and(|top| RESERVED_DIRS.contains(&top))
    {
        return Ok(false);
    }
    let base = match index.row.kind {
        WorkspaceKind::Fork => base_state(&fork_row(index.tx, index.row)?),
        WorkspaceKind::Standalone | WorkspaceKind::Project => State::default(),
    };
    Ok(reserved_dir(&index.objects, &base, path)?.is_some())
}

/// Refuses to write to a reserved directory of a workspace.
pub(crate) fn refuse_reserved_in(index: &Index<'_>, path: &RelPath) -> Result<()> {
    if !is_reserved_in(index, path)? {
        return Ok(());
    }
    refuse_reserved_dir(&index.objects, &State::default(), path)
}

/// Refuses an entry that git would refuse in a tree. `content` is the content of a file.
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

/// Whether git would refuse an entry that one of these edits puts.
pub(crate) fn git_refuses_any(objects: &dyn ObjectReader, edits: &[Edit]) -> Result<bool> {
    for edit in edits {
        if refused_edit(objects, edit)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Why git refuses the entry that an edit puts, by its path or by its content.
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

/// Leaves changes out that a workspace may not bring into its project.
pub(crate) struct MergeFilter<'a> {
    objects: &'a dyn ObjectReader,
    base: &'a State,
    theirs: &'a State,
    left_out: BTreeMap<RelPath, &'static str>,
}

impl<'a> MergeFilter<'a> {
    pub(crate) fn new(objects: &'a dyn ObjectReader, base: &'a State, theirs: &'a State) -> Self {
        MergeFilter {
            objects,
            base,
            theirs,
            left_out: BTreeMap::new(),
        }
    }

    /// Whether a change may be merged.
    pub(crate) fn allows_change(&mut self, change: &StateChange) -> Result<bool> {
        let reason = match &change.after {
            Some(after) => self.reason_against(&change.path, after)?,
            None => self.reason_against_removal(change)?,
        };
        self.note(reason)
    }

    /// Whether an edit that a merge computed may land. It may differ from the changes that went in: a
    /// directory that the project renamed takes the files of the workspace along, and the merge of two
    /// acceptable files may be unacceptable.
    pub(crate) fn allows_edit(&mut self, edit: &Edit) -> Result<bool> {
        let reason = match edit.to {
            None => None,
            Some(_) => match self.reserved_dir(&edit.path)? {
                Some(ours) => Some(ours),
                None => refused_edit(self.objects, edit)?,
            },
        };
        self.note(reason)
    }

    /// Whether a path may be merged, without regard to its content.
    pub(crate) fn allows_path(&mut self, path: &RelPath) -> Result<bool> {
        self.note(offshoot_git::refuses_path(path, EntryKind::File))
    }

    /// The changes that were left out.
    pub(crate) fn into_left_out(self) -> Vec<LeftOut> {
        let left_out = |(path, why): (RelPath, &str)| LeftOut {
            path,
            reason: why.to_owned(),
        };
        self.left_out.into_iter().map(left_out).collect()
    }

    fn note(&mut self, reason: Option<(RelPath, &'static str)>) -> Result<bool> {
        let allowed = reason.is_none();
        self.left_out.extend(reason);
        Ok(allowed)
    }

    fn reason_against(
        &self,
        path: &RelPath,
        after: &StateEntry,
    ) -> Result<Option<(RelPath, &'static str)>> {
        match self.reserved_dir(path)? {
            Some(ours) => Ok(Some(ours)),
            None => refused_by_git(self.objects, path, after),
        }
    }

    fn reserved_dir(&self, path: &RelPath) -> Result<Option<(RelPath, &'static str)>> {
        let top = reserved_dir(self.objects, self.base, path)?;
        Ok(top.map(|top| (top, IS_RESERVED)))
    }

    /// A nested repository that the owner put into the project is removed only together with the
    /// directory that it is in.
    fn reason_against_removal(
        &self,
        change: &StateChange,
    ) -> Result<Option<(RelPath, &'static str)>> {
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

/// The edits that revert in `state` every difference from `base` that a merge would leave out.
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

/// The edit that restores an earlier entry.
pub(crate) fn reverting_edit(then: Option<StateEntry>, now: Option<StateEntry>) -> StateEdit {
    match then {
        None => StateEdit::Remove,
        Some(then) if now.is_some_and(|now| now.kind == then.kind) => StateEdit::Put(then),
        Some(then) => StateEdit::Replace(then),
    }
}

/// `state`, with everything that a merge would leave out as `base` has it.
pub(crate) fn without_left_out(
    new_objects: &mut PendingObjects<'_>,
    base: &State,
    state: &State,
) -> Result<State> {
    let edits = edits_without_left_out(new_objects, base, state)?;
    state.edit(new_objects, &edits)
}
