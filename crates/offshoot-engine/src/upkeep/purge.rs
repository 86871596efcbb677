//! Erasing content: by name, such as a leaked secret, or sessions of the age at which the owner lets
//! them go. The only thing that loses bytes.
//!
//! Content that a snapshot holds cannot simply be taken out: the snapshot's id is made from it. So
//! the snapshots that hold it are written anew with a placeholder in its stead, and get new ids.

use std::collections::{HashMap, HashSet};

use offshoot_core::{
    Cause, EntryKind, ObjectId, ObjectKind, RelPath, Result, Timestamp, WorkspaceId,
};
use offshoot_git::ObjectReader;
use offshoot_store::{
    Durability, EntryRow, ForkRow, HistoryFilter, HistoryOp, ReadTx, RefRow, SnapshotRow, Via,
    WorkspaceKind, WorkspaceRow, WorkspaceState, WriteTx,
};

use crate::content::counters::CounterDelta;
use crate::content::history_writer::{LineTemplate, changed_row};
use crate::content::index::{Entry, Index};
use crate::content::objects::PendingObjects;
use crate::content::rows::{no_file, no_workspace, open_row_by_key, open_row_in, state_of};
use crate::directory::layers::layers_holding;
use crate::formats;
use crate::merge::fork_commits::forget_kept;
use crate::merge::review_row::details_of;
use crate::project::link::{link_in, put_link};
use crate::project::source::{put_source, source_in};
use crate::upkeep::Upkeep;
use crate::upkeep::retention::ages_in;
use crate::upkeep::tree_rewriter::TreeRewriter;

/// What stands where content was erased.
const PLACEHOLDER: &[u8] = b"This content was purged.\n";

/// What a purge erased.
#[derive(Clone, Debug, Default)]
pub struct Purged {
    /// Contents that are gone for good.
    pub contents: Vec<ObjectId>,
    /// Snapshots that were written anew: the old id and the new one.
    pub snapshots: Vec<(ObjectId, ObjectId)>,
    /// Files that held such content and now hold a placeholder.
    pub files: Vec<(WorkspaceId, RelPath)>,
    /// Workspaces that were erased whole.
    pub workspaces: usize,
    /// Tags that are gone, with the name of their project: what they pointed at is another commit
    /// now, and a tag says that it is the same for ever.
    pub tags: Vec<(String, String)>,
    /// Whether remains of it may still be found in the files of the store: the disk was too full to
    /// write them anew. The next clean-up with enough space does.
    pub remains: bool,
}

impl Upkeep {
    /// Erases a workspace, open or closed, with its snapshots, its history and all content that
    /// nothing else names.
    pub fn purge_workspace(&self, id: &WorkspaceId) -> Result<Purged> {
        self.context.with_reserve(|| self.erase_workspace(id))
    }

    pub(super) fn erase_workspace(&self, id: &WorkspaceId) -> Result<Purged> {
        let _name = self.context.name_lock(id)?;
        let rows: Vec<WorkspaceRow> = self
            .store()
            .read(|tx| tx.all_workspaces())?
            .into_iter()
            .filter(|row| row.id == *id && row.kind != WorkspaceKind::Project)
            .collect();
        if rows.is_empty() {
            return Err(no_workspace(id));
        }
        let mut purged = Purged {
            workspaces: rows.len(),
            ..Purged::default()
        };
        let before = self.reachable()?;
        for row in &rows {
            let lock = self.directories.exclusive(row)?;
            self.shorten_history(row)?;
            self.store().write(Durability::Synced, |tx| {
                if let Some(fork) = tx.fork(row.key)? {
                    forget_kept(tx, fork.project, row.key)?;
                }
                tx.erase_workspace(row.key)
            })?;
            if row.state == WorkspaceState::Open {
                self.directories.discard_dir(row)?;
            }
            drop(lock);
            self.context.forget_locks(row);
        }
        let unnamed = self.unnamed_of(&before)?;
        purged.remains = self.store().erase(&unnamed)?.remains;
        purged.contents = unnamed.into_iter().map(|(id, _)| id).collect();
        Ok(purged)
    }

    /// Erases a long history piece by piece if the disk is full: at once it could need a longer log
    /// than there is space for.
    pub(super) fn shorten_history(&self, row: &WorkspaceRow) -> Result<()> {
        const PIECE: usize = 500;
        let reserve = &self.context.reserve;
        let erase = || {
            self.store().write(Durability::Relaxed, |tx| {
                tx.erase_oldest_history(row.key, PIECE)
            })
        };
        while reserve.allocated() < reserve.size() && erase()? == PIECE {
            // So that the log begins anew, and what was freed is. A reader may be in the way.
            let _ = self.store().meta().tidy();
        }
        Ok(())
    }

    /// Erases every content that a path ever had, wherever else it is: in other workspaces, in
    /// snapshots, in the history. A placeholder stands in its stead.
    pub fn purge_path(&self, id: &WorkspaceId, path: &RelPath, cause: &Cause) -> Result<Purged> {
        self.context
            .with_reserve(|| self.purge_path_now(id, path, cause))
    }

    fn purge_path_now(&self, id: &WorkspaceId, path: &RelPath, cause: &Cause) -> Result<Purged> {
        self.sync.sync_if_handed_out(id)?;
        let contents = self.store().read(|tx| {
            let row = open_row_in(tx, id)?;
            self.contents_of(tx, &row, path)
        })?;
        if contents.is_empty() {
            return Err(no_file(path));
        }
        self.purge_contents(contents, cause)
    }

    /// Erases one content by its id, wherever it is.
    pub fn purge_content(&self, content: ObjectId, cause: &Cause) -> Result<Purged> {
        // Its bytes are not looked at: what is damaged can be erased too.
        let found = self.store().read(|tx| tx.object(&content))?;
        let is_blob = found.is_some_and(|row| row.kind == ObjectKind::Blob);
        if !is_blob || content == offshoot_core::EMPTY_BLOB {
            return Err(offshoot_core::Error::new(
                offshoot_core::ErrorCode::FileNotFound,
                format!("there is no content `{content}`"),
            ));
        }
        self.context
            .with_reserve(|| self.purge_contents(HashSet::from([content]), cause))
    }

    /// Every content that a path has or had: now, in the history, in snapshots.
    fn contents_of(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        path: &RelPath,
    ) -> Result<HashSet<ObjectId>> {
        let index = Index::new(self.store(), tx, row);
        let mut contents = HashSet::new();
        contents.extend(index.entry(path)?.and_then(|entry| entry.id));
        let filter = HistoryFilter {
            workspace: Some(row.key),
            path: Some(path.clone()),
            ..HistoryFilter::default()
        };
        for line in tx.history(&filter)? {
            if line.line.kind.is_some_and(|kind| kind != EntryKind::Dir) {
                contents.extend([line.line.before, line.line.after].into_iter().flatten());
            }
        }
        for snapshot in tx.snapshots(row.key, 0)? {
            let entry = state_of(&snapshot).entry(&index.objects, path)?;
            contents.extend(entry.and_then(|entry| entry.id));
        }
        contents.remove(&offshoot_core::EMPTY_BLOB);
        Ok(contents)
    }

    fn purge_contents(&self, contents: HashSet<ObjectId>, cause: &Cause) -> Result<Purged> {
        let rows = self.store().read(|tx| tx.all_workspaces())?;
        // Alone everywhere: while snapshots are written anew nobody may build on old ones.
        let locks: Result<Vec<_>> = rows
            .iter()
            .map(|row| self.directories.exclusive(row))
            .collect();
        let _locks = locks?;
        for row in rows.iter().filter(|row| row.state == WorkspaceState::Open) {
            self.sync.sync_locked(row, false)?;
        }
        let placeholder = self
            .contents
            .receive_on_full_disk(crate::content::incoming::Content::Bytes(PLACEHOLDER))?;
        // Layers hold content as plain files: those that do go, and forks get off them first.
        let layers = self.store().read(|tx| {
            let objects = self.contents.objects_in(tx);
            let mut bench = PendingObjects::new(&objects);
            let mut rewrite = TreeRewriter::new(&contents, placeholder.id);
            layers_holding(tx, &mut |tree| Ok(rewrite.tree(&mut bench, tree)? != tree))
        })?;
        let forks = self.leave_layers(&layers)?;
        let done = self.purge_rows(&contents, &placeholder, &forks, cause);
        if done.is_ok() {
            self.directories.drop_layers(&layers)?;
        }
        for row in forks.iter().filter(|row| row.handed_out) {
            let now = self.store().read(|tx| open_row_by_key(tx, row))?;
            self.directories.materialize(&now)?;
        }
        let (mut purged, unnamed) = done?;
        purged.remains = self.store().erase(&unnamed)?.remains;
        Ok(purged)
    }

    /// Takes the directories of forks away that stand on one of these layers; what they hold is
    /// in the store then. Refuses, before anything is done, if one of them is in use.
    fn leave_layers(&self, layers: &HashSet<i64>) -> Result<Vec<WorkspaceRow>> {
        let mut forks = Vec::new();
        for row in self.store().read(|tx| tx.workspaces(None, 0))? {
            let fork = self.store().read(|tx| tx.fork(row.key))?;
            let stands_on = |fork: &ForkRow| {
                let mut own = fork.layer.iter().chain(&fork.setup);
                own.any(|layer| layers.contains(layer))
            };
            if let Some(fork) = fork.filter(|fork| row.materialized && stands_on(fork)) {
                self.sync.sync_locked(&row, true)?;
                let dirs = self.directories.fork_dirs(&row, fork.place);
                if let Err(error) = self.directories.provider_by_files(&dirs)?.close(&dirs) {
                    for closed in &forks {
                        self.directories.ensure_mounted(closed)?;
                    }
                    return Err(error);
                }
                forks.push(row);
            }
        }
        Ok(forks)
    }

    /// Puts the placeholder wherever something names the contents. Returns them with the ages that
    /// their rows had then.
    fn purge_rows(
        &self,
        contents: &HashSet<ObjectId>,
        placeholder: &crate::content::incoming::Incoming,
        off_their_layers: &[WorkspaceRow],
        cause: &Cause,
    ) -> Result<(Purged, Vec<(ObjectId, Timestamp)>)> {
        let mut purged = Purged::default();
        let mut unnamed = Vec::new();
        let mut to_project = Vec::new();
        let at = self.context.now();
        self.store().write(Durability::Synced, |tx| {
            purged = Purged {
                contents: contents.iter().copied().collect(),
                ..Purged::default()
            };
            to_project.clear();
            tx.put_object(&placeholder.object)?;
            let mut rewrite = TreeRewriter::new(contents, placeholder.id);
            for row in tx.all_workspaces()? {
                let held = self.replace_in_files(tx, &row, contents, placeholder, cause, at)?;
                purged
                    .files
                    .extend(held.iter().map(|path| (row.id.clone(), path.clone())));
                self.rewrite_snapshots(tx, &row, &mut rewrite)?;
                to_project.push((row, held));
            }
            for row in tx.all_workspaces()? {
                let off = off_their_layers.iter().any(|off| off.key == row.key);
                self.rewrite_fork(tx, &row, off, &mut rewrite)?;
            }
            for row in tx.all_workspaces()? {
                let gone = self.rewrite_refs(tx, &row, contents, &mut rewrite)?;
                let of_project = |name| (row.id.to_string(), name);
                purged.tags.extend(gone.into_iter().map(of_project));
            }
            purged.snapshots = rewrite.renamed();
            for id in contents {
                tx.replace_object_id(id, &placeholder.id)?;
            }
            for (old, new) in &purged.snapshots {
                tx.replace_object_id(old, new)?;
            }
            let mut renamed: HashMap<ObjectId, ObjectId> =
                purged.snapshots.iter().copied().collect();
            renamed.extend(contents.iter().map(|id| (*id, placeholder.id)));
            rewrite_json(tx, &|id| renamed.get(&id).copied().unwrap_or(id))?;
            unnamed = ages_in(tx, contents.iter())?;
            Ok(())
        })?;
        for row in off_their_layers {
            self.directories.discard_fork_dir(row)?;
        }
        for (row, paths) in &to_project {
            let gone = off_their_layers.iter().any(|off| off.key == row.key);
            let there = row.materialized && row.state == WorkspaceState::Open;
            if there && !gone && !paths.is_empty() {
                self.directories.project_paths(row, paths)?;
            }
        }
        Ok((purged, unnamed))
    }

    /// Points the branches of a project at the commits that became of theirs. Tags whose commit became
    /// another one, or that hold purged content themselves, go; their names are returned.
    fn rewrite_refs(
        &self,
        tx: &mut dyn WriteTx,
        project: &WorkspaceRow,
        contents: &HashSet<ObjectId>,
        rewrite: &mut TreeRewriter<'_>,
    ) -> Result<Vec<String>> {
        let mut gone = Vec::new();
        if project.kind != WorkspaceKind::Project {
            return Ok(gone);
        }
        for row in tx.refs(project.key, "")? {
            let (new, objects) = {
                let stored = self.contents.objects_in(tx);
                let mut bench = PendingObjects::new(&stored);
                let kind = bench.read(&row.peeled)?.map(|(kind, _)| kind);
                let new = match kind {
                    Some(ObjectKind::Commit) => Some(rewrite.commit(&mut bench, row.peeled)?),
                    Some(ObjectKind::Tree) => Some(rewrite.tree(&mut bench, row.peeled)?),
                    _ => Some(row.peeled).filter(|id| !contents.contains(id)),
                };
                (new, bench.prepare(self.store())?)
            };
            if new == Some(row.peeled) {
                continue;
            }
            match new.filter(|_| !row.name.starts_with("refs/tags/")) {
                Some(new) => {
                    for object in &objects {
                        tx.put_object(object)?;
                    }
                    tx.put_ref(&RefRow {
                        target: new,
                        peeled: new,
                        ..row
                    })?;
                }
                None => {
                    tx.remove_ref(project.key, &row.name)?;
                    gone.push(row.name);
                }
            }
        }
        Ok(gone)
    }

    /// A fork's base is a snapshot that may have been written anew.
    fn rewrite_fork(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        off_its_layers: bool,
        rewrite: &mut TreeRewriter<'_>,
    ) -> Result<()> {
        let Some(mut fork) = tx.fork(row.key)? else {
            return Ok(());
        };
        let before = fork.clone();
        let objects = {
            let stored = self.contents.objects_in(tx);
            let mut bench = PendingObjects::new(&stored);
            fork.base = rewrite.commit(&mut bench, fork.base)?;
            fork.base_tree = rewrite.tree(&mut bench, fork.base_tree)?;
            fork.base_sidecar = rewrite.tree(&mut bench, fork.base_sidecar)?;
            bench.prepare(self.store())?
        };
        for object in &objects {
            tx.put_object(object)?;
        }
        if off_its_layers {
            (fork.layer, fork.setup) = (None, None);
            let mut now = open_row_by_key(tx, row)?;
            now.materialized = false;
            tx.update_workspace(&now)?;
        }
        if fork == before {
            return Ok(());
        }
        tx.put_fork(&fork)
    }

    /// Puts the placeholder into every file of a workspace that holds purged content now.
    fn replace_in_files(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        contents: &HashSet<ObjectId>,
        placeholder: &crate::content::incoming::Incoming,
        cause: &Cause,
        at: offshoot_core::Timestamp,
    ) -> Result<Vec<RelPath>> {
        let mut held: Vec<(RelPath, Entry, i64)> = Vec::new();
        {
            let index = Index::new(self.store(), tx, row);
            index.walk(&RelPath::root(), &mut |path, entry| {
                if entry.id.is_some_and(|id| contents.contains(&id)) {
                    held.push((path.clone(), *entry, index.size(entry)?));
                }
                Ok(())
            })?;
        }
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let mut next = changed_row(row, at);
        let line = LineTemplate {
            row: &next.clone(),
            at,
            via: Via::Call,
            cause,
        };
        let mut tally = CounterDelta::default();
        for (path, entry, size) in &held {
            // A project has no rows on top of its tree, which is written anew.
            if row.kind == WorkspaceKind::Project {
                next.synced_revision = next.revision;
            } else {
                tx.put_entry(
                    row.key,
                    &EntryRow {
                        path: path.clone(),
                        kind: Some(EntryKind::File),
                        opaque: false,
                        perm: if entry.kind == EntryKind::File {
                            entry.perm
                        } else {
                            0o644
                        },
                        id: Some(placeholder.id),
                        size: placeholder.size,
                        revision: next.revision,
                    },
                )?;
            }
            tally.remove(entry.kind, *size);
            tally.add(EntryKind::File, placeholder.size);
            let mut purge = line.file(HistoryOp::Purge, path, EntryKind::File);
            purge.after = Some(placeholder.id);
            purge.size = placeholder.size;
            tx.add_history(&purge)?;
        }
        tally.add_to(&mut next);
        tx.update_workspace(&next)?;
        Ok(held.into_iter().map(|(path, ..)| path).collect())
    }

    /// Writes the snapshots of a workspace anew from the first that holds purged content on.
    fn rewrite_snapshots(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        rewrite: &mut TreeRewriter<'_>,
    ) -> Result<()> {
        let mut snapshots = tx.snapshots(row.key, 0)?;
        snapshots.reverse();
        let mut changed: Vec<SnapshotRow> = Vec::new();
        let objects = {
            let stored = self.contents.objects_in(tx);
            let mut bench = PendingObjects::new(&stored);
            for snapshot in &snapshots {
                let id = rewrite.commit(&mut bench, snapshot.id)?;
                if id == snapshot.id {
                    continue;
                }
                let parent = match snapshot.parent {
                    Some(parent) => Some(rewrite.commit(&mut bench, parent)?),
                    None => None,
                };
                changed.push(SnapshotRow {
                    id,
                    parent,
                    tree: rewrite.tree(&mut bench, snapshot.tree)?,
                    sidecar: rewrite.tree(&mut bench, snapshot.sidecar)?,
                    ..snapshot.clone()
                });
            }
            bench.prepare(self.store())?
        };
        for object in &objects {
            tx.put_object(object)?;
        }
        for snapshot in &changed {
            tx.rewrite_snapshot(snapshot)?;
        }
        let Some(mut now) = tx.workspace_by_key(row.key)? else {
            return Ok(());
        };
        let objects = {
            let stored = self.contents.objects_in(tx);
            let mut bench = PendingObjects::new(&stored);
            now.tree = rewrite.tree(&mut bench, now.tree)?;
            now.sidecar = rewrite.tree(&mut bench, now.sidecar)?;
            now.head = match now.head {
                Some(head) => Some(rewrite.commit(&mut bench, head)?),
                None => None,
            };
            bench.prepare(self.store())?
        };
        for object in &objects {
            tx.put_object(object)?;
        }
        tx.update_workspace(&now)
    }
}

/// Puts other ids in the place of those that receipts and reviews name in their JSON. One that cannot
/// be read keeps nothing from being erased: it holds names of content and no content.
fn rewrite_json(tx: &mut dyn WriteTx, new: &dyn Fn(ObjectId) -> ObjectId) -> Result<()> {
    for project in tx.all_workspaces()? {
        if project.kind != WorkspaceKind::Project {
            continue;
        }
        if let Ok(Some(mut link)) = link_in(tx, project.key) {
            let before = link.clone();
            link.replace_ids(new);
            if link != before {
                put_link(tx, project.key, &link)?;
            }
        }
        if let Ok(Some(mut source)) = source_in(tx, project.key) {
            let before = source.clone();
            source.replace_ids(new);
            if source != before {
                put_source(tx, project.key, &source)?;
            }
        }
        for mut merge in tx.merges(Some(project.key), None, 0)? {
            let Ok(before) = formats::parse_receipt(&merge.outcome) else {
                tracing::warn!(
                    merge = merge.id,
                    "a receipt cannot be read and stays as it is"
                );
                continue;
            };
            let mut after = before.clone();
            formats::replace_ids_in_receipt(&mut after, new);
            if after != before {
                merge.outcome = formats::receipt_text(&after)?;
                tx.put_merge(&merge)?;
            }
        }
    }
    for mut review in tx.reviews(None, false)? {
        let Ok(before) = details_of(&review) else {
            tracing::warn!(
                review = review.id,
                "a review cannot be read and stays as it is"
            );
            continue;
        };
        let mut after = before.clone();
        after.replace_ids(new);
        if after != before {
            review.details = formats::to_text(&after)?;
            tx.put_review(&review)?;
        }
    }
    Ok(())
}
