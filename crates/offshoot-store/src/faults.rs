//! Stores that fail where a test wants them to. For tests only; see [`FaultPlan`].

use std::io::{Read, Write};
use std::sync::Arc;

use offshoot_core::{
    AgentId, Error, ErrorCode, FaultPlan, ObjectId, ProjectId, RelPath, Result, Timestamp,
    WorkspaceId,
};

use crate::{
    AgentRow, AuthorRow, BlobInfo, BlobStore, CandidateRow, CompletionRow, Durability, EntryRow,
    ForkRow, HistoryFilter, HistoryRow, LayerRow, MadeRow, MergeReads, MergeRow, MergeWrites,
    MetaStore, NewHistory, NewObject, ObjectRow, PackRow, ProjectReads, ProjectRow, ProjectWrites,
    ReadTx, RefRow, RequestReads, RequestRow, RequestWrites, ReviewRow, SnapshotRow, TokenRow,
    WorkspaceKey, WorkspaceRow, WriteTx,
};

/// A [`MetaStore`] for tests whose transactions, calls inside them and commits can fail.
///
/// A failing commit is one that did not happen: the transaction is rolled back.
pub struct FaultyMeta {
    inner: Arc<dyn MetaStore>,
    plan: FaultPlan,
}

/// A [`BlobStore`] for tests whose calls can fail, before they do anything or, for `put`, after
/// the content was written and before it has its name.
pub struct FaultyBlobs {
    inner: Arc<dyn BlobStore>,
    plan: FaultPlan,
}

impl FaultyMeta {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn MetaStore>, plan: FaultPlan) -> Self {
        FaultyMeta { inner, plan }
    }
}

impl FaultyBlobs {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn BlobStore>, plan: FaultPlan) -> Self {
        FaultyBlobs { inner, plan }
    }
}

fn hit(plan: &FaultPlan, call: &'static str) -> Result<()> {
    plan.hit(call).map_err(|error| {
        Error::new(ErrorCode::StoreUnavailable, "the store does not answer").with_source(error)
    })
}

impl MetaStore for FaultyMeta {
    fn read(&self, work: &mut dyn FnMut(&dyn ReadTx) -> Result<()>) -> Result<()> {
        hit(&self.plan, "MetaStore::read")?;
        self.inner.read(&mut |tx| {
            work(&FaultyRead {
                tx,
                plan: &self.plan,
            })
        })
    }

    fn write(
        &self,
        durability: Durability,
        work: &mut dyn FnMut(&mut dyn WriteTx) -> Result<()>,
    ) -> Result<()> {
        hit(&self.plan, "MetaStore::write")?;
        self.inner.write(durability, &mut |tx| {
            work(&mut FaultyWrite {
                tx,
                plan: &self.plan,
            })?;
            hit(&self.plan, "commit")
        })
    }

    fn tidy(&self) -> Result<()> {
        hit(&self.plan, "MetaStore::tidy")?;
        self.inner.tidy()
    }

    fn scrub(&self) -> Result<()> {
        hit(&self.plan, "MetaStore::scrub")?;
        self.inner.scrub()
    }

    fn damage(&self) -> Result<Vec<String>> {
        hit(&self.plan, "MetaStore::damage")?;
        self.inner.damage()
    }

    fn disk_usage(&self) -> Result<u64> {
        hit(&self.plan, "MetaStore::disk_usage")?;
        self.inner.disk_usage()
    }
}

impl BlobStore for FaultyBlobs {
    fn put(&self, key: &str, fill: &mut dyn FnMut(&mut dyn Write) -> Result<()>) -> Result<u64> {
        hit(&self.plan, "BlobStore::put")?;
        self.inner.put(key, &mut |out| {
            fill(out)?;
            hit(&self.plan, "BlobStore::put, after writing")
        })
    }

    fn read(
        &self,
        key: &str,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Option<Box<dyn Read + Send>>> {
        hit(&self.plan, "BlobStore::read")?;
        self.inner.read(key, offset, length)
    }

    fn size(&self, key: &str) -> Result<Option<u64>> {
        hit(&self.plan, "BlobStore::size")?;
        self.inner.size(key)
    }

    fn delete(&self, key: &str) -> Result<()> {
        hit(&self.plan, "BlobStore::delete")?;
        self.inner.delete(key)
    }

    fn delete_older(&self, key: &str, before: Timestamp) -> Result<bool> {
        hit(&self.plan, "BlobStore::delete_older")?;
        self.inner.delete_older(key, before)
    }

    fn list(&self, prefix: &str, visit: &mut dyn FnMut(BlobInfo) -> Result<()>) -> Result<()> {
        hit(&self.plan, "BlobStore::list")?;
        self.inner.list(prefix, visit)
    }

    fn sweep_leftovers(&self, before: Timestamp) -> Result<u64> {
        hit(&self.plan, "BlobStore::sweep_leftovers")?;
        self.inner.sweep_leftovers(before)
    }
}

struct FaultyRead<'a> {
    tx: &'a dyn ReadTx,
    plan: &'a FaultPlan,
}

struct FaultyWrite<'a> {
    tx: &'a mut dyn WriteTx,
    plan: &'a FaultPlan,
}

/// Writes methods that count the call and pass it on.
macro_rules! pass_on {
    (read: $($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $name(&self, $($argument: $type),*) -> Result<$result> {
            hit(self.plan, stringify!($name))?;
            self.tx.$name($($argument),*)
        }
    )*};
    (write: $($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $name(&mut self, $($argument: $type),*) -> Result<$result> {
            hit(self.plan, stringify!($name))?;
            self.tx.$name($($argument),*)
        }
    )*};
}

macro_rules! pass_on_reads {
    () => {
        pass_on! { read:
            setting(key: &str) -> Option<String>;
            workspace(id: &WorkspaceId) -> Option<WorkspaceRow>;
            workspace_by_key(key: WorkspaceKey) -> Option<WorkspaceRow>;
            workspaces(after: Option<&WorkspaceId>, limit: usize) -> Vec<WorkspaceRow>;
            all_workspaces() -> Vec<WorkspaceRow>;
            unsynced_workspaces() -> Vec<WorkspaceRow>;
            entries_on_path(workspace: WorkspaceKey, path: &RelPath) -> Vec<EntryRow>;
            entry_at(workspace: WorkspaceKey, path: &RelPath) -> Option<EntryRow>;
            entries_in(workspace: WorkspaceKey, dir: &RelPath) -> Vec<EntryRow>;
            entries_below(workspace: WorkspaceKey, dir: &RelPath) -> Vec<EntryRow>;
            object(id: &ObjectId) -> Option<ObjectRow>;
            object_size(id: &ObjectId) -> Option<u64>;
            has_objects(ids: &[ObjectId]) -> Vec<bool>;
            objects_after(after: Option<&ObjectId>, limit: usize, with_bytes: bool)
                -> Vec<ObjectRow>;
            pack(key: i64) -> Option<PackRow>;
            packs() -> Vec<PackRow>;
            pack_objects(key: i64) -> Vec<ObjectRow>;
            snapshot(workspace: WorkspaceKey, id: &ObjectId) -> Option<SnapshotRow>;
            snapshots_by_prefix(workspace: WorkspaceKey, prefix: &str) -> Vec<SnapshotRow>;
            snapshots(workspace: WorkspaceKey, limit: usize) -> Vec<SnapshotRow>;
            snapshots_before(workspace: WorkspaceKey, number: i64, limit: usize)
                -> Vec<SnapshotRow>;
            history(filter: &HistoryFilter) -> Vec<HistoryRow>;
            last_write(workspace: WorkspaceKey, path: &RelPath) -> Option<HistoryRow>;
            paths_with_history(workspace: WorkspaceKey, dir: &RelPath, limit: usize)
                -> Vec<RelPath>;
            last_seq() -> i64;
            token_by_hash(hash: &[u8; 32]) -> Option<TokenRow>;
            tokens(after: Option<&str>, limit: usize) -> Vec<TokenRow>;
            visit_roots(visit: &mut dyn FnMut(ObjectId)) -> ();
        }
    };
}

impl ReadTx for FaultyRead<'_> {
    pass_on_reads!();
}

macro_rules! pass_on_project_reads {
    () => {
        pass_on! { read:
            project(id: &ProjectId) -> Option<WorkspaceRow>;
            projects(after: Option<&ProjectId>, limit: usize) -> Vec<WorkspaceRow>;
            project_settings(key: WorkspaceKey) -> Option<ProjectRow>;
            fork(workspace: WorkspaceKey) -> Option<ForkRow>;
            forks_of(project: WorkspaceKey) -> Vec<WorkspaceRow>;
            forks_after(project: WorkspaceKey, after: WorkspaceKey, limit: usize)
                -> Vec<(WorkspaceRow, ForkRow)>;
            layer(key: i64) -> Option<LayerRow>;
            layers_showing(tree: &ObjectId, sidecar: &ObjectId) -> Vec<LayerRow>;
            layers() -> Vec<LayerRow>;
            layers_of_level(project: WorkspaceKey, level: i64) -> Vec<LayerRow>;
            layers_in_use() -> Vec<i64>;
            agent(id: &AgentId) -> Option<AgentRow>;
            agents() -> Vec<AgentRow>;
            author(project: WorkspaceKey, agent: Option<&AgentId>) -> Option<AuthorRow>;
            authors() -> Vec<AuthorRow>;
            refs(project: WorkspaceKey, prefix: &str) -> Vec<RefRow>;
        }
    };
}

impl ProjectReads for FaultyRead<'_> {
    pass_on_project_reads!();
}

impl ProjectReads for FaultyWrite<'_> {
    pass_on_project_reads!();
}

macro_rules! pass_on_merge_reads {
    () => {
        pass_on! { read:
            completions(project: Option<WorkspaceKey>) -> Vec<CompletionRow>;
            merge(id: &str) -> Option<MergeRow>;
            merge_ids(prefix: &str) -> Vec<String>;
            merges(project: Option<WorkspaceKey>, before: Option<&str>, limit: usize) -> Vec<MergeRow>;
            last_merge(workspace: WorkspaceKey) -> Option<MergeRow>;
            last_landed(workspace: WorkspaceKey, base: &ObjectId, before: Option<&str>)
                -> Option<MergeRow>;
            undone_merges(workspace: WorkspaceKey) -> Vec<MergeRow>;
            review(id: &str) -> Option<ReviewRow>;
            merges_landed_as(project: WorkspaceKey, snapshot: &ObjectId) -> Vec<MergeRow>;
            reviews_landed_as(project: WorkspaceKey, snapshot: &ObjectId) -> Vec<ReviewRow>;
            reviews_of(workspace: WorkspaceKey) -> Vec<ReviewRow>;
            review_ids(prefix: &str) -> Vec<String>;
            reviews(project: Option<WorkspaceKey>, unresolved: bool) -> Vec<ReviewRow>;
            reviews_after(project: Option<WorkspaceKey>, unresolved: bool, after: Option<&str>, limit: usize)
                -> Vec<ReviewRow>;
            candidates(review: &str) -> Vec<CandidateRow>;
            last_candidate(review: &str) -> Option<i64>;
        }
    };
}

impl MergeReads for FaultyRead<'_> {
    pass_on_merge_reads!();
}

impl MergeReads for FaultyWrite<'_> {
    pass_on_merge_reads!();
}

macro_rules! pass_on_request_reads {
    () => {
        pass_on! { read:
            request(key: &[u8; 32]) -> Option<RequestRow>;
        }
    };
}

impl RequestReads for FaultyRead<'_> {
    pass_on_request_reads!();
}

impl RequestReads for FaultyWrite<'_> {
    pass_on_request_reads!();
}

impl RequestWrites for FaultyWrite<'_> {
    pass_on! { write:
        note_made(request: &RequestRow, made: &MadeRow) -> ();
        forget_request(key: &[u8; 32]) -> ();
        forget_requests(before: Timestamp, limit: usize) -> usize;
    }
}

impl MergeWrites for FaultyWrite<'_> {
    pass_on! { write:
        put_completion(row: &CompletionRow) -> ();
        remove_completion(id: &str) -> ();
        put_merge(row: &MergeRow) -> ();
        put_review(row: &ReviewRow) -> ();
        add_candidate(row: &CandidateRow) -> ();
    }
}

impl ProjectWrites for FaultyWrite<'_> {
    pass_on! { write:
        put_project(row: &ProjectRow) -> ();
        put_fork(row: &ForkRow) -> ();
        add_layer(row: &LayerRow) -> i64;
        mark_layer_synced(key: i64) -> ();
        remove_layer(key: i64) -> bool;
        put_agent(row: &AgentRow) -> ();
        put_author(row: &AuthorRow) -> ();
        remove_author(project: Option<WorkspaceKey>, agent: Option<&AgentId>) -> bool;
        put_ref(row: &RefRow) -> ();
        remove_refs(project: WorkspaceKey, prefix: &str) -> usize;
        remove_ref(project: WorkspaceKey, name: &str) -> bool;
    }
}

impl ReadTx for FaultyWrite<'_> {
    pass_on_reads!();
}

impl WriteTx for FaultyWrite<'_> {
    pass_on! { write:
        put_setting(key: &str, value: &str) -> ();
        add_workspace(row: &WorkspaceRow) -> WorkspaceKey;
        update_workspace(row: &WorkspaceRow) -> ();
        erase_workspace(key: WorkspaceKey) -> ();
        erase_oldest_history(workspace: WorkspaceKey, limit: usize) -> usize;
        put_entry(workspace: WorkspaceKey, row: &EntryRow) -> ();
        remove_entry(workspace: WorkspaceKey, path: &RelPath) -> ();
        remove_entries_below(workspace: WorkspaceKey, dir: &RelPath) -> ();
        put_object(object: &NewObject) -> bool;
        renew_object(id: &ObjectId) -> bool;
        remove_object(id: &ObjectId, before: Timestamp) -> bool;
        add_pack(blob: &str, size: u64) -> i64;
        remove_pack(key: i64) -> ();
        move_objects(to_pack: i64, places: &[(ObjectId, u64, u64)]) -> ();
        add_snapshot(row: &SnapshotRow) -> ();
        rewrite_snapshot(row: &SnapshotRow) -> ();
        replace_object_id(old: &ObjectId, new: &ObjectId) -> ();
        add_history(line: &NewHistory) -> i64;
        add_token(row: &TokenRow) -> ();
        revoke_token(id: &str, at: Timestamp) -> bool;
    }
}
