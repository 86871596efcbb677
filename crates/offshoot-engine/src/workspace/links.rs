//! Making symbolic links inside a workspace.
//!
//! Outside programs may put any link into a directory that they were given, and the resolver
//! refuses to follow those that lead out. A link that is made here is checked first.

use offshoot_core::{
    Cause, EntryKind, Error, ErrorCode, RelPath, Result, WorkspaceId, escape_bytes,
};
use offshoot_store::{Durability, EntryRow, HistoryOp, Via};

use crate::content::draft::Draft;
use crate::content::incoming::{Content, Incoming};
use crate::content::index::{Index, missing_dirs, new_dir_rows};
use crate::content::left_out::refuse_reserved_in;
use crate::content::rows::open_row_by_key;
use crate::directory::git_layer::refuse_own_git;
use crate::sync::guard::LockedWorkspace;
use crate::sync::paths::MAX_DETOURS;
use crate::workspace::Workspaces;
use crate::workspace::files::refuse_unmakeable;

/// The permission bits that every link shows.
pub(crate) const LINK_PERM: u32 = 0o777;
/// What the kernel takes as a target.
const MAX_TARGET: usize = 4095;

/// A link to be made.
pub(crate) struct NewLink<'a> {
    pub(crate) path: &'a RelPath,
    pub(crate) target: &'a [u8],
    /// The target as content.
    pub(crate) incoming: &'a Incoming,
}

impl Workspaces {
    /// Makes a link, in place of a file or a link that is there. Parents are made on the way.
    ///
    /// A target that is absolute, or leads out of the workspace by the links that are there now, is
    /// refused. It need not exist.
    pub fn make_link(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        target: &[u8],
        cause: &Cause,
    ) -> Result<RelPath> {
        refuse_unmakeable(&self.contents.open_row(id)?, path)?;
        check_target(target)?;
        let incoming = self.contents.receive(Content::Bytes(target))?;
        let held = self.sync.lock_for_path(id, path)?;
        self.sync_target(&held, path, target)?;
        let at = self.context.now();
        let changed = self.store().write(Durability::Synced, |tx| {
            let new = NewLink {
                path,
                target,
                incoming: &incoming,
            };
            self.contents
                .change_in_transaction(tx, &held.row, at, |draft| draft_link(draft, &new, cause))
        })?;
        self.sync.project_locked(&held, &changed)?;
        changed
            .last()
            .cloned()
            .ok_or_else(|| Error::internal("a link was made nowhere"))
    }

    /// Records what outside programs put where the link would lead: a link of theirs, that we do not
    /// know of yet, may lead out. A link may be as new to us as what it leads to, so this goes on
    /// until nothing new shows.
    pub(crate) fn sync_target(
        &self,
        held: &LockedWorkspace,
        path: &RelPath,
        target: &[u8],
    ) -> Result<()> {
        let mut known = RelPath::root();
        let Some(dir) = &held.dir else {
            return Ok(());
        };
        for _ in 0..MAX_DETOURS {
            let leads_to = self.store().read(|tx| {
                let row = open_row_by_key(tx, &held.row)?;
                let index = Index::new(self.store(), tx, &row);
                let parent = index.resolve(&path.parent().unwrap_or_default())?;
                index.resolve_link(&parent, target, path)
            })?;
            if leads_to == known {
                break;
            }
            self.sync.sync_steps(&held.row, dir, &leads_to)?;
            known = leads_to;
        }
        Ok(())
    }
}

/// Makes a link. Returns the directories that came into being, and at the end the link.
pub(crate) fn draft_link(
    draft: &mut Draft<'_>,
    new: &NewLink<'_>,
    cause: &Cause,
) -> Result<Vec<RelPath>> {
    let path = plan_link(&draft.index, new.path, new.target)?;
    let missing = missing_dirs(&draft.index, &path)?;
    for dir in new_dir_rows(&draft.index, &missing, draft.next.revision)? {
        draft.make_dir(dir, Via::Call, cause)?;
    }
    let before = draft.entry_with_size(&path)?;
    let op = match before {
        None => HistoryOp::Create,
        Some(_) => HistoryOp::Write,
    };
    let mut made = draft
        .line_for(Via::Call, cause)
        .file(op, &path, EntryKind::Symlink);
    made.before = before.and_then(|(entry, _)| entry.id);
    made.after = Some(new.incoming.id);
    made.size = new.incoming.size;
    draft.add_line(made);
    let row = EntryRow {
        path: path.clone(),
        kind: Some(EntryKind::Symlink),
        opaque: false,
        perm: LINK_PERM,
        id: Some(new.incoming.id),
        size: new.incoming.size,
        revision: draft.next.revision,
    };
    draft.add_object(new.incoming.object.clone());
    draft.replace(before, row)?;
    let mut changed = missing;
    changed.push(path);
    Ok(changed)
}

/// Where a link is made.
pub(crate) fn plan_link(index: &Index<'_>, path: &RelPath, target: &[u8]) -> Result<RelPath> {
    // Links on the way are followed; one at the place itself is replaced.
    let parent = index.resolve(&path.parent().unwrap_or_default())?;
    let path = parent.join_name(path.name());
    refuse_unmakeable(index.row, &path)?;
    refuse_own_git(index.tx, index.row, &path)?;
    refuse_reserved_in(index, &path)?;
    index.resolve_link(&parent, target, &path)?;
    missing_dirs(index, &path)?;
    if index.entry(&path)?.is_some_and(|entry| entry.is_dir()) {
        return Err(Error::new(
            ErrorCode::IsADirectory,
            format!("`{path}` is a directory"),
        ));
    }
    Ok(path)
}

/// Refuses what can be the target of no link.
pub(crate) fn check_target(target: &[u8]) -> Result<()> {
    if target.is_empty() || target.contains(&0) || target.len() > MAX_TARGET {
        return Err(Error::invalid(format!(
            "the target `{}` of a link is not valid",
            escape_bytes(&target[..target.len().min(100)])
        ))
        .with_hint("a target has 1 to 4095 bytes and no NUL byte"));
    }
    // A name longer than the disk takes can never be there, and following it would be our failure.
    let too_long = |part: &[u8]| part.len() > offshoot_core::MAX_NAME;
    if target.split(|&byte| byte == b'/').any(too_long) {
        return Err(Error::invalid("a name in the target of a link is too long"));
    }
    Ok(())
}
