//! What the store holds, row by row. These are persisted formats: change them with a migration.

use std::sync::Arc;

use offshoot_core::{
    Cause, EntryKind, Layout, ObjectId, ObjectKind, Operator, ProjectId, RelPath, Timestamp,
    WorkspaceId,
};

use crate::BlobStore;

/// The number of a workspace inside the store. Unlike the id it is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceKey(pub i64);

/// What a row of the workspace table is.
///
/// A project is kept like a workspace that has no directory: it has head, snapshots, history and
/// counters too, so the code for those works on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkspaceKind {
    /// A workspace that began empty.
    Standalone,
    /// A workspace that began as a snapshot of a project; see [`crate::ForkRow`].
    Fork,
    /// A project. It has no entry rows and its names are apart from those of workspaces.
    Project,
}

/// Whether a workspace is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkspaceState {
    /// It can be read and written.
    Open,
    /// It was deleted: its directory is gone, its snapshots and history remain until purged.
    Closed,
}

/// One workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceRow {
    /// Its number.
    pub key: WorkspaceKey,
    /// Its name; at most one open workspace has it, and at most one open project.
    pub id: WorkspaceId,
    /// What it is. Never changes.
    pub kind: WorkspaceKind,
    /// Which places may be written.
    pub layout: Layout,
    /// Whether it is in use.
    pub state: WorkspaceState,
    /// Its newest snapshot.
    pub head: Option<ObjectId>,
    /// The tree below the entry rows: that of `head`, or the empty tree.
    pub tree: ObjectId,
    /// The sidecar tree below the entry rows.
    pub sidecar: ObjectId,
    /// Grows by one with every change of the index; also the version number of what changed.
    pub revision: i64,
    /// The directory on disk is known to be durable up to this revision.
    pub synced_revision: i64,
    /// Whether its directory exists.
    pub materialized: bool,
    /// Whether its path was handed out, so that outside programs may have changed it.
    pub handed_out: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When a file in it last changed.
    pub changed_at: Timestamp,
    /// When it was last used: changed, synced, or its path asked for.
    pub used_at: Timestamp,
    /// When outside changes were last looked for.
    pub last_sync: Option<Timestamp>,
    /// How many files and links it holds.
    pub files: i64,
    /// How many directories it holds, the root not counted.
    pub dirs: i64,
    /// The bytes of all its files.
    pub bytes: i64,
    /// The most bytes it may hold.
    pub quota_bytes: Option<i64>,
    /// The most files, links and directories it may hold.
    pub quota_inodes: Option<i64>,
}

/// One path of a workspace's index that differs from the tree below it.
///
/// The index of a workspace is its tree and sidecar, which are shared and never change, and these
/// rows on top. A row without a kind says that the path is gone, with everything the tree has
/// below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRow {
    /// Where.
    pub path: RelPath,
    /// What stands there; none if it is gone.
    pub kind: Option<EntryKind>,
    /// For a directory: nothing of the tree below shows through.
    pub opaque: bool,
    /// Permission bits.
    pub perm: u32,
    /// The content of a file or link.
    pub id: Option<ObjectId>,
    /// The bytes of the content.
    pub size: i64,
    /// The workspace revision that wrote this row.
    pub revision: i64,
}

/// Where the bytes of an object are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectPlace {
    /// In the row.
    Row(Vec<u8>),
    /// In a blob of their own, whose key is derived from the id.
    Blob,
    /// In a pack.
    Pack {
        /// Which one.
        pack: i64,
        /// The first byte.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRow {
    /// Its id, as git computes it.
    pub id: ObjectId,
    /// What it is.
    pub kind: ObjectKind,
    /// The bytes of its content, uncompressed.
    pub size: u64,
    /// Whether the stored bytes are a zstd frame.
    pub compressed: bool,
    /// Where the stored bytes are.
    pub place: ObjectPlace,
    /// When it was stored, for the age guard.
    pub stored_at: Timestamp,
}

/// An object whose bytes are durable (or in the row) and that a transaction may name.
///
/// Only [`crate::Store`] makes these, which is how INV-1 is kept.
#[derive(Clone)]
pub struct NewObject(pub(crate) ObjectRow, pub(crate) PresenceCheck);

/// What a transaction that names a [`NewObject`] checks, to be sure that its bytes still exist.
#[derive(Clone)]
pub(crate) enum PresenceCheck {
    /// Nothing: they are in its row, or in a pack that no row names yet.
    NotNeeded,
    /// The blob, which may have been removed since by an erasure of the same content.
    Blob(Arc<dyn BlobStore>),
    /// The row that an earlier transaction gave it, which may have been removed since.
    Row,
}

impl std::fmt::Debug for NewObject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("NewObject").field(&self.0).finish()
    }
}

impl NewObject {
    /// This object without its bytes, to name it in a transaction after the one that stored it.
    /// That transaction fails if the object was removed meanwhile.
    #[must_use]
    pub fn without_bytes(&self) -> NewObject {
        let row = ObjectRow {
            place: ObjectPlace::Row(Vec::new()),
            ..self.0
        };
        NewObject(row, PresenceCheck::Row)
    }

    /// Its id.
    pub fn id(&self) -> ObjectId {
        self.0.id
    }

    /// The bytes of its content, uncompressed.
    pub fn size(&self) -> u64 {
        self.0.size
    }
}

/// One pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackRow {
    /// Its number.
    pub key: i64,
    /// The key of the blob that holds it.
    pub blob: String,
    /// Its bytes.
    pub size: u64,
    /// When it was written.
    pub stored_at: Timestamp,
}

/// One snapshot of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRow {
    /// The workspace.
    pub workspace: WorkspaceKey,
    /// Its place in the workspace's history, counted from 1.
    pub number: i64,
    /// The commit.
    pub id: ObjectId,
    /// The commit before it.
    pub parent: Option<ObjectId>,
    /// The tree that git sees.
    pub tree: ObjectId,
    /// The tree of what git cannot hold.
    pub sidecar: ObjectId,
    /// What the user called it.
    pub label: Option<String>,
    /// When.
    pub at: Timestamp,
    /// Who and why.
    pub cause: Cause,
    /// Files and links in it.
    pub files: i64,
    /// Directories in it.
    pub dirs: i64,
    /// Bytes in it.
    pub bytes: i64,
}

/// One token. Its secret is never kept, only the hash of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// Its name, which is no secret.
    pub id: String,
    /// The SHA-256 of the secret.
    pub hash: [u8; 32],
    /// What its holder may do, in a format of the engine.
    pub scope: String,
    /// What it is for, as its issuer said.
    pub label: Option<String>,
    /// Who issued it.
    pub issued_by: Operator,
    /// When.
    pub created_at: Timestamp,
    /// When it stops being valid; none means never.
    pub expires_at: Option<Timestamp>,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word in rows, JSON and output.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// The value of a word.
            pub fn from_word(text: &str) -> Option<Self> {
                match text { $($text => Some($name::$variant),)* _ => None }
            }
        }
    };
}

words! {
    /// What happened.
    HistoryOp {
        /// A file or link came into being.
        Create = "create",
        /// The content of a file or link changed.
        Write = "write",
        /// A file, link or empty directory was removed.
        Delete = "delete",
        /// A file arrived from another path, which is in `from`.
        Move = "move",
        /// A directory came into being.
        Mkdir = "mkdir",
        /// Only permission bits changed.
        Mode = "mode",
        /// A snapshot was taken; `after` is the commit.
        Snapshot = "snapshot",
        /// The workspace was brought back to `after`; the files follow as entries of their own.
        Restore = "restore",
        /// The workspace was created.
        WorkspaceCreate = "workspace_create",
        /// The workspace was deleted; `after` is its last snapshot.
        WorkspaceDelete = "workspace_delete",
        /// Its directory was removed because it was not used; `after` is its last snapshot.
        WorkspaceClean = "workspace_clean",
        /// Content was erased on request.
        Purge = "purge",
        /// The quota or another setting of the workspace changed.
        WorkspaceUpdate = "workspace_update",
        /// A project was created.
        ProjectCreate = "project_create",
        /// A project was deleted; `after` is its last snapshot.
        ProjectDelete = "project_delete",
        /// Files came from outside as one snapshot, which is `after`.
        Import = "import",
        /// A fork was moved onto the newer base `after`.
        Update = "update",
        /// A workspace was merged into its project; `after` is the snapshot that landed.
        Merge = "merge",
        /// A merge was undone; `after` is the snapshot that undid it.
        MergeUndo = "merge_undo",
        /// A conflict began to wait for a decision.
        ReviewOpen = "review_open",
        /// A conflict was decided.
        ReviewResolve = "review_resolve",
        /// A resolution of a conflict was proposed, and is no version of the path.
        ReviewPropose = "review_propose",
        /// An agent came into being below another one.
        AgentSpawn = "agent_spawn",
        /// An agent was removed from the tree.
        AgentEnd = "agent_end",
    }
}

words! {
    /// The way by which a change came in.
    Via {
        /// A call of the CLI, HTTP or MCP.
        Call = "call",
        /// An upload.
        Upload = "upload",
        /// A program outside changed the directory and a sync found it.
        Sync = "sync",
        /// A restore wrote it.
        Restore = "restore",
        /// Recovery after an unclean stop repaired it or kept what it found.
        Recovery = "recovery",
        /// A merge brought it.
        Merge = "merge",
        /// It came with a newer base of the fork.
        Update = "update",
    }
}

/// One line of the history, before it has a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewHistory {
    /// The workspace.
    pub workspace: WorkspaceKey,
    /// The workspace revision that the change made.
    pub revision: i64,
    /// When.
    pub at: Timestamp,
    /// What happened.
    pub op: HistoryOp,
    /// How it came in.
    pub via: Via,
    /// Where; the root for what concerns the workspace.
    pub path: RelPath,
    /// For a move: where it came from.
    pub from: Option<RelPath>,
    /// Who and why.
    pub cause: Cause,
    /// What stands or stood there.
    pub kind: Option<EntryKind>,
    /// Content before.
    pub before: Option<ObjectId>,
    /// Content after.
    pub after: Option<ObjectId>,
    /// Bytes after.
    pub size: i64,
    /// The MIME type that the caller gave.
    pub mime: Option<String>,
    /// The time of modification that the caller gave for the file.
    pub modified: Option<Timestamp>,
}

/// One line of the history. Its `seq` is also its event number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    /// Grows with every commit over the whole store; see [`crate::ReadTx::history`].
    pub seq: i64,
    /// The rest.
    pub line: NewHistory,
}

/// Which lines of the history are wanted.
#[derive(Clone, Debug, Default)]
pub struct HistoryFilter {
    /// Only of this workspace.
    pub workspace: Option<WorkspaceKey>,
    /// Only of workspaces that have, or had, this name.
    pub workspace_named: Option<WorkspaceId>,
    /// Only of projects that have, or had, this name, and of their forks.
    pub project_named: Option<ProjectId>,
    /// Only of this very path.
    pub path: Option<RelPath>,
    /// Only lines with a greater `seq`.
    pub after_seq: i64,
    /// Only lines with a smaller `seq`; none means no limit.
    pub before_seq: Option<i64>,
    /// Only lines that are not newer than this; none means no limit.
    pub upto: Option<Timestamp>,
    /// Only lines of a greater workspace revision.
    pub after_revision: i64,
    /// Newest first instead of oldest first.
    pub newest_first: bool,
    /// At most so many; 0 means no limit.
    pub limit: usize,
}
