//! The traits behind which all rows are kept: SQLite on one machine, PostgreSQL on many.

use offshoot_core::{ObjectId, RelPath, Result, Timestamp, WorkspaceId};

use crate::merge_meta::{MergeReads, MergeWrites};
use crate::project_meta::{ProjectReads, ProjectWrites};
use crate::request_meta::{RequestReads, RequestWrites};
use crate::rows::{
    EntryRow, HistoryFilter, HistoryRow, NewHistory, NewObject, ObjectRow, PackRow, SnapshotRow,
    TokenRow, WorkspaceKey, WorkspaceRow,
};

/// How long a caller of [`MetaStore::write`] waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Until the change survives a power cut. The default for everything a user did.
    Synced,
    /// Until other readers see it. For rows that hold no user data, such as a fresh fork's.
    Relaxed,
}

/// Rows, in transactions.
///
/// # Transactions
/// [`MetaStore::read`] gives a consistent view, taken when the first question is asked: nothing
/// that commits after that is seen. Work that asks nothing costs nothing. [`MetaStore::write`] runs
/// `work` as if it were alone: what it reads cannot change before it commits. If `work` fails,
/// nothing of it remains. If the store has to try again (PostgreSQL may refuse to serialise two
/// transactions), `work` is called again from the start, so it must not have side effects outside
/// the transaction that it cannot repeat.
///
/// Writers may share one commit (SQLite: one sync for all that wait), so a transaction must be
/// short: no file is read and nothing is compressed inside.
///
/// # Order
/// History numbers follow commits: when a reader has seen number n, no number below n appears
/// later. A PostgreSQL sequence alone does not keep this; the implementation must.
///
/// # Errors
/// `store_unavailable` when the store cannot be reached or is locked for too long, `quota_exceeded`
/// when its disk is full ([`offshoot_core::Error::disk_full`]); nothing has happened then and a
/// retry is safe. What `work` returns is passed through.
///
/// # Costs (SQLite, warm)
/// A read transaction 3 to 12 µs plus 2 to 8 µs for each look-up. A synced write one fsync, shared
/// by all writers that wait at that time; a relaxed one 0.1 to 0.6 ms, most of it the file lock
/// and the log.
pub trait MetaStore: Send + Sync {
    /// Runs `work` on a consistent view.
    fn read(&self, work: &mut dyn FnMut(&dyn ReadTx) -> Result<()>) -> Result<()>;

    /// Runs `work` in a transaction of its own and commits it.
    fn write(
        &self,
        durability: Durability,
        work: &mut dyn FnMut(&mut dyn WriteTx) -> Result<()>,
    ) -> Result<()>;

    /// Moves what is in side files into the main one and gives freed space back where that is
    /// cheap. Called when idle and on a clean exit.
    fn tidy(&self) -> Result<()>;

    /// Overwrites and gives back the space of deleted rows, so that erased content cannot be found
    /// in the files any more. Slow: it may rewrite the whole database.
    fn scrub(&self) -> Result<()>;

    /// Damage of the database, one text each: torn files, indexes that do not fit their tables,
    /// rows that name missing rows. Reads everything from disk. Writers do not wait, and their
    /// changes are not mistaken for damage.
    fn damage(&self) -> Result<Vec<String>>;

    /// The bytes that the rows take on disk, side files included.
    fn disk_usage(&self) -> Result<u64>;
}

/// What can be asked inside a transaction.
pub trait ReadTx: ProjectReads + MergeReads + RequestReads {
    /// A setting of the store, such as the boot that last used it.
    fn setting(&self, key: &str) -> Result<Option<String>>;

    /// The open workspace of that name, or else the one of that name that was closed last.
    fn workspace(&self, id: &WorkspaceId) -> Result<Option<WorkspaceRow>>;

    /// A workspace by its number.
    fn workspace_by_key(&self, key: WorkspaceKey) -> Result<Option<WorkspaceRow>>;

    /// Open workspaces in the order of their names (bytewise), those after `after` only.
    fn workspaces(&self, after: Option<&WorkspaceId>, limit: usize) -> Result<Vec<WorkspaceRow>>;

    /// Every workspace and project, the closed ones too, in the order of their numbers.
    fn all_workspaces(&self) -> Result<Vec<WorkspaceRow>>;

    /// Open workspaces whose directory may not be durable: `revision > synced_revision`. Projects
    /// have none.
    fn unsynced_workspaces(&self) -> Result<Vec<WorkspaceRow>>;

    /// The rows at `path` and at every directory above it, the topmost first. One query.
    fn entries_on_path(&self, workspace: WorkspaceKey, path: &RelPath) -> Result<Vec<EntryRow>>;

    /// The row at `path` itself.
    fn entry_at(&self, workspace: WorkspaceKey, path: &RelPath) -> Result<Option<EntryRow>>;

    /// The rows directly in `dir`, in the order of their names.
    fn entries_in(&self, workspace: WorkspaceKey, dir: &RelPath) -> Result<Vec<EntryRow>>;

    /// The rows somewhere below `dir` (not `dir` itself), in the bytewise order of their paths.
    fn entries_below(&self, workspace: WorkspaceKey, dir: &RelPath) -> Result<Vec<EntryRow>>;

    /// The row of an object.
    fn object(&self, id: &ObjectId) -> Result<Option<ObjectRow>>;

    /// The bytes of an object's content, without reading it.
    fn object_size(&self, id: &ObjectId) -> Result<Option<u64>>;

    /// Which of these objects the store has, in the order given.
    fn has_objects(&self, ids: &[ObjectId]) -> Result<Vec<bool>>;

    /// Rows of objects with an id greater than `after`, in the order of ids; inline bytes are left
    /// out (`ObjectPlace::Row` is empty) unless `with_bytes`.
    fn objects_after(
        &self,
        after: Option<&ObjectId>,
        limit: usize,
        with_bytes: bool,
    ) -> Result<Vec<ObjectRow>>;

    /// A pack by its number.
    fn pack(&self, key: i64) -> Result<Option<PackRow>>;

    /// Every pack, in the order of numbers.
    fn packs(&self) -> Result<Vec<PackRow>>;

    /// Objects of one pack, in the order of their offsets.
    fn pack_objects(&self, key: i64) -> Result<Vec<ObjectRow>>;

    /// A snapshot of a workspace by its id; the newest if it was taken twice.
    fn snapshot(&self, workspace: WorkspaceKey, id: &ObjectId) -> Result<Option<SnapshotRow>>;

    /// Snapshots of a workspace whose id begins with these hex digits, newest first.
    fn snapshots_by_prefix(
        &self,
        workspace: WorkspaceKey,
        prefix: &str,
    ) -> Result<Vec<SnapshotRow>>;

    /// The newest snapshots of a workspace, newest first; 0 means all of them.
    fn snapshots(&self, workspace: WorkspaceKey, limit: usize) -> Result<Vec<SnapshotRow>>;

    /// Snapshots of a workspace before the one of this number, newest first; 0 means all of them.
    fn snapshots_before(
        &self,
        workspace: WorkspaceKey,
        number: i64,
        limit: usize,
    ) -> Result<Vec<SnapshotRow>>;

    /// Lines of the history. Following it is: ask with `after_seq` = the last number seen.
    fn history(&self, filter: &HistoryFilter) -> Result<Vec<HistoryRow>>;

    /// The newest line of one path that has content after it, if any: who wrote it last.
    fn last_write(&self, workspace: WorkspaceKey, path: &RelPath) -> Result<Option<HistoryRow>>;

    /// The paths below a directory that have lines, in the order of paths; at most `limit`. Costs
    /// the lines that are there, however many paths there are without any.
    fn paths_with_history(
        &self,
        workspace: WorkspaceKey,
        dir: &RelPath,
        limit: usize,
    ) -> Result<Vec<RelPath>>;

    /// The last history number given out; 0 in an empty store.
    fn last_seq(&self) -> Result<i64>;

    /// The token whose secret has this SHA-256, revoked and expired ones too.
    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>>;

    /// Tokens in the order of their ids (bytewise), those after `after` only; 0 means all.
    fn tokens(&self, after: Option<&str>, limit: usize) -> Result<Vec<TokenRow>>;

    /// Calls `visit` with every object id that a row of history, entries, workspaces, snapshots or
    /// refs names. These, and what can be reached from them, are what garbage collection keeps.
    fn visit_roots(&self, visit: &mut dyn FnMut(ObjectId)) -> Result<()>;
}

/// What can be changed inside a transaction.
pub trait WriteTx: ReadTx + ProjectWrites + MergeWrites + RequestWrites {
    /// Sets a setting.
    fn put_setting(&mut self, key: &str, value: &str) -> Result<()>;

    /// Adds a workspace (the `key` of `row` is ignored) and returns its number.
    /// `already_exists` if an open one has that name.
    fn add_workspace(&mut self, row: &WorkspaceRow) -> Result<WorkspaceKey>;

    /// Replaces every column of a workspace but key and id.
    fn update_workspace(&mut self, row: &WorkspaceRow) -> Result<()>;

    /// Erases a workspace with its entries, snapshots, history and what is noted of requests that
    /// made it.
    fn erase_workspace(&mut self, key: WorkspaceKey) -> Result<()>;

    /// Erases the oldest lines of a workspace's history, at most so many, and returns how many: for
    /// a history that is too long to be erased at once.
    fn erase_oldest_history(&mut self, workspace: WorkspaceKey, limit: usize) -> Result<usize>;

    /// Sets the row at a path.
    fn put_entry(&mut self, workspace: WorkspaceKey, row: &EntryRow) -> Result<()>;

    /// Removes the row at a path, if there is one. The tree shows through again.
    fn remove_entry(&mut self, workspace: WorkspaceKey, path: &RelPath) -> Result<()>;

    /// Removes all rows below a directory, not its own.
    fn remove_entries_below(&mut self, workspace: WorkspaceKey, dir: &RelPath) -> Result<()>;

    /// Names an object whose bytes are durable. Returns false if the store had it.
    ///
    /// If it had it, the age of the row is renewed, so that garbage collection, which checks the
    /// age in the transaction that removes a row, does not remove it. Fails with
    /// `store_unavailable` if its bytes were erased since they were made durable.
    fn put_object(&mut self, object: &NewObject) -> Result<bool>;

    /// Renews the age of an object's row, for a caller that found the object there and therefore
    /// did not store it again. Returns false if it is gone meanwhile. The row is younger afterwards
    /// whatever the clock says, which is how [`crate::Store::erase`] sees that it was renewed.
    fn renew_object(&mut self, id: &ObjectId) -> Result<bool>;

    /// Forgets an object if its row is older than `before`. Returns whether it did.
    fn remove_object(&mut self, id: &ObjectId, before: Timestamp) -> Result<bool>;

    /// Adds a pack whose bytes are durable and returns its number.
    fn add_pack(&mut self, blob: &str, size: u64) -> Result<i64>;

    /// Forgets a pack. Its objects must have been moved or removed before.
    fn remove_pack(&mut self, key: i64) -> Result<()>;

    /// Points the rows of a pack's objects at another place. Used by pack rewriting.
    fn move_objects(&mut self, to_pack: i64, places: &[(ObjectId, u64, u64)]) -> Result<()>;

    /// Adds a snapshot. Its `number` must be one more than the newest.
    fn add_snapshot(&mut self, row: &SnapshotRow) -> Result<()>;

    /// Replaces the id, parent, tree and sidecar of a snapshot, by workspace and number. Only
    /// purging rewrites snapshots.
    fn rewrite_snapshot(&mut self, row: &SnapshotRow) -> Result<()>;

    /// Replaces one object id by another wherever a column of history, entries, forks, merges,
    /// reviews and candidates names it. Ids in their JSON are left to the caller. Only for purging.
    fn replace_object_id(&mut self, old: &ObjectId, new: &ObjectId) -> Result<()>;

    /// Adds a line to the history and returns its number.
    fn add_history(&mut self, line: &NewHistory) -> Result<i64>;

    /// Adds a token. `already_exists` if one has that id or that hash.
    fn add_token(&mut self, row: &TokenRow) -> Result<()>;

    /// Takes a token back. Returns false if there is none of that id that was valid until now.
    fn revoke_token(&mut self, id: &str, at: Timestamp) -> Result<bool>;
}
