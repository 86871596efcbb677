//! Changes of a state as users see them, and the overlap of two sets of changed paths.

use std::collections::BTreeSet;

use offshoot_core::{Change, ChangeKind, ChangeSet, EntryKind, RelPath};
use offshoot_store::HistoryOp;

use crate::content::state::{StateChange, StateEntry};

pub(crate) fn op_of(change: &StateChange) -> HistoryOp {
    match (&change.before, &change.after) {
        (None, Some(after)) if after.kind == EntryKind::Dir => HistoryOp::Mkdir,
        (None, _) => HistoryOp::Create,
        (Some(_), None) => HistoryOp::Delete,
        (Some(before), Some(after)) if before.id == after.id && before.kind == after.kind => {
            HistoryOp::Mode
        }
        _ => HistoryOp::Write,
    }
}

pub(crate) fn kind_of(change: &StateChange) -> EntryKind {
    change
        .after
        .or(change.before)
        .map_or(EntryKind::File, |entry| entry.kind)
}

/// Changes as users see them.
pub(crate) fn change_set(changes: &[StateChange]) -> ChangeSet {
    let mut set = ChangeSet::default();
    for change in changes {
        let (before, after) = (&change.before, &change.after);
        let kind = kind_of(change);
        let how = match (before, after) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Deleted,
            (Some(before), Some(after)) if before.kind != after.kind => ChangeKind::Type,
            (Some(before), Some(after)) if before.id == after.id => ChangeKind::Mode,
            _ => ChangeKind::Modified,
        };
        set.changes.push(Change {
            path: change.path.clone(),
            change: how,
            kind,
            before: before.and_then(|entry| entry.id),
            after: after.and_then(|entry| entry.id),
        });
    }
    set
}

/// Paths without those that lie below another of them.
pub(crate) fn topmost(paths: impl Iterator<Item = RelPath>) -> Vec<RelPath> {
    let mut kept: Vec<RelPath> = Vec::new();
    for path in paths {
        if !kept
            .iter()
            .rev()
            .take(64)
            .any(|above| path.starts_with(above))
        {
            kept.push(path);
        }
    }
    kept
}

/// The paths at which a file or link is or was. Two sides may add the same directory without conflict.
pub(crate) fn leaf_paths(changes: &[StateChange]) -> BTreeSet<RelPath> {
    let dir = |entry: &Option<StateEntry>| entry.is_none_or(|entry| entry.kind == EntryKind::Dir);
    changes
        .iter()
        .filter(|change| !(dir(&change.before) && dir(&change.after)))
        .map(|change| change.path.clone())
        .collect()
}

/// The paths of `own` that are in `other`, or have an ancestor or descendant there.
pub(crate) fn overlapping_paths(
    own: &BTreeSet<RelPath>,
    other: &BTreeSet<RelPath>,
) -> Vec<RelPath> {
    let meets = |path: &&RelPath| other.contains(*path) || has_relative_in(path, other);
    own.iter().filter(meets).cloned().collect()
}

/// Whether an ancestor or a descendant of a path is in the set.
pub(crate) fn has_relative_in(path: &RelPath, set: &BTreeSet<RelPath>) -> bool {
    let above = std::iter::successors(path.parent(), RelPath::parent);
    above.into_iter().any(|above| set.contains(&above)) || first_below(path, set).is_some()
}

/// The first path of the set below this one. Descendants are adjacent in order, but names such as
/// `a-b` come between `a` and `a/b`.
pub(crate) fn first_below<'a>(path: &RelPath, set: &'a BTreeSet<RelPath>) -> Option<&'a RelPath> {
    let least = path.join_name(b"\x01");
    let found = set.range(least..).next()?;
    found.starts_with(path).then_some(found)
}
