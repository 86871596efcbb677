//! The opened data directory: what every room works with.
//!
//! Here are the paths below the data directory, the store, the locks, the clock, the space that is set
//! aside for a full disk, and the queue of background jobs. This room knows nothing of workspaces,
//! projects or merges but the rows that name them.

pub(crate) mod data_dir;
pub(crate) mod idempotency;
pub(crate) mod jobs;
pub(crate) mod prefixes;
pub(crate) mod process_marker;
pub(crate) mod server_lock;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use offshoot_core::{Error, ErrorCode, FaultPlan, Result, Timestamp, WorkspaceId};
use offshoot_fs::{NameLock, PathResolver, ProviderName, Reserve, WorkspaceLock, WorkspaceLocks};
use offshoot_store::{
    BlobStore, DiskBlobs, FaultyBlobs, FaultyMeta, MetaStore, NewHasher, SqliteOptions,
    SqliteStore, StatementLog, Store, WorkspaceRow,
};

use crate::context::data_dir::DataDir;
use crate::context::jobs::{JobKind, JobQueue};
use crate::context::process_marker::RunMark;

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The data directory; made if it does not exist.
    pub data: PathBuf,
    /// How long an operation waits for a workspace that another one holds, or for the store.
    pub lock_timeout: Duration,
    /// Which form of the safe directory is used; none means the best that works here.
    pub form: Option<PathResolver>,
    /// The provider of every fork; none means the best that works here.
    pub provider: Option<ProviderName>,
    /// The most bytes of one file. A larger one in a directory is named and left alone, and one
    /// that comes through us is refused.
    pub max_file_bytes: u64,
    /// Fails chosen calls; for tests.
    pub faults: Option<FaultPlan>,
    /// Notes the statements of one thread; for tests.
    pub statements: Option<StatementLog>,
}

/// As large as the largest request: what can be sent can be kept. To hash so much takes well under a
/// minute, which is about as long as others may have to wait for a workspace.
pub const MAX_FILE_BYTES: u64 = 16 << 30;

impl EngineOptions {
    /// The defaults for a data directory.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        EngineOptions {
            data: data.into(),
            lock_timeout: Duration::from_secs(30),
            form: None,
            provider: None,
            max_file_bytes: MAX_FILE_BYTES,
            faults: None,
            statements: None,
        }
    }
}

/// One data directory, opened.
pub struct Context {
    pub(crate) data: DataDir,
    pub(crate) store: Store,
    pub(crate) locks: WorkspaceLocks,
    pub(crate) options: EngineOptions,
    /// What is set aside for work that frees space on a full disk.
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) jobs: Arc<JobQueue>,
    /// Set when a directory could not be brought in line with the store: the next engine that is
    /// opened has to do it.
    needs_recovery: AtomicBool,
    /// Set when a directory has more changes that may not be on disk than recovery should have to
    /// look at.
    pub(crate) checkpoint_due: AtomicBool,
    /// Set while one thread does that; what is due for the others is the same.
    pub(crate) checkpoint_running: AtomicBool,
    marker: RunMark,
}

impl Drop for Context {
    fn drop(&mut self) {
        // A failure here costs nothing but the recovery at the next start.
        let _ = self.reserve.release_for(|| self.store.meta().tidy());
        if !self.needs_recovery() {
            self.marker.end();
        }
    }
}

impl Context {
    /// Opens a data directory that exists. Returns also the markers of processes that did not end
    /// well.
    pub(crate) fn open(
        data: &DataDir,
        options: &EngineOptions,
        reserve: &Arc<Reserve>,
        hasher: NewHasher,
    ) -> Result<(Arc<Context>, Vec<PathBuf>)> {
        let sqlite = SqliteOptions {
            lock_timeout: options.lock_timeout,
            statements: options.statements.clone(),
            ..SqliteOptions::default()
        };
        let meta = SqliteStore::open(&data.database(), sqlite)?;
        let blobs = DiskBlobs::open(&data.blobs())?;
        let (meta, blobs): (Arc<dyn MetaStore>, Arc<dyn BlobStore>) = match &options.faults {
            None => (Arc::new(meta), Arc::new(blobs)),
            Some(plan) => (
                Arc::new(FaultyMeta::new(Arc::new(meta), plan.clone())),
                Arc::new(FaultyBlobs::new(Arc::new(blobs), plan.clone())),
            ),
        };
        let (marker, dead) = RunMark::begin(&data.run())?;
        offshoot_fs::sweep_probes(&data.tmp());
        let context = Context {
            data: data.clone(),
            store: Store::new(meta, blobs, hasher),
            locks: WorkspaceLocks::new(data.locks())?,
            options: options.clone(),
            reserve: Arc::clone(reserve),
            jobs: Arc::default(),
            needs_recovery: AtomicBool::new(false),
            checkpoint_due: AtomicBool::new(false),
            checkpoint_running: AtomicBool::new(false),
            marker,
        };
        Ok((Arc::new(context), dead))
    }

    /// A file without a name on the disk of the data directory, for what is on its way in.
    pub fn temp_file(&self) -> Result<std::fs::File> {
        tempfile::tempfile_in(self.data.tmp()).map_err(|cause| {
            Error::new(ErrorCode::WriteFailed, "the content cannot be received").with_source(cause)
        })
    }

    /// Waits until all background jobs are done.
    pub fn wait_for_jobs(&self) {
        self.jobs.wait();
    }

    /// Does something later, in the background. If it fails, the next start puts it right.
    pub(crate) fn later(
        self: &Arc<Self>,
        kind: JobKind,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) {
        let context = Arc::clone(self);
        let work = move || {
            if work().is_err() {
                context.need_recovery();
            }
        };
        self.jobs.push(kind, Box::new(work));
    }

    /// Notes that the next process that opens the data directory has something to put right.
    pub(crate) fn need_recovery(&self) {
        self.needs_recovery.store(true, Ordering::Relaxed);
    }

    /// Whether that was noted.
    pub(crate) fn needs_recovery(&self) -> bool {
        self.needs_recovery.load(Ordering::Relaxed)
    }

    /// Refuses to store anything on a full disk, before anything is done.
    pub(crate) fn require_space(&self) -> Result<()> {
        self.reserve.require()?;
        if self.has_room_for_log() {
            return Ok(());
        }
        // The log has to fit into the database one day, or not even a deletion could be committed.
        // As long as it does it moves there, and leaves its space to what comes.
        let _ = self.store.meta().tidy();
        match self.has_room_for_log() {
            true => Ok(()),
            false => Err(Error::disk_full("nothing can be stored")),
        }
    }

    /// Whether the disk has room for what the log of the store holds, and for a write beside it.
    fn has_room_for_log(&self) -> bool {
        let log = std::fs::metadata(self.data.log()).map_or(0, |log| log.len());
        self.reserve.has_free(log + self.reserve.size())
    }

    /// Runs work that frees space; see [`Reserve::release_for`].
    pub(crate) fn freeing<T>(&self, work: impl FnMut() -> Result<T>) -> Result<T> {
        self.reserve.release_for(work)
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    pub(crate) fn lock_name(row: &WorkspaceRow) -> String {
        row.key.0.to_string()
    }

    /// The lock on a name, for what makes or ends the workspace that has it.
    pub(crate) fn name_lock(&self, id: &WorkspaceId) -> Result<NameLock> {
        self.name_lock_within(id, self.options.lock_timeout)
    }

    /// The lock on a name, for a caller with less patience.
    pub(crate) fn name_lock_within(&self, id: &WorkspaceId, timeout: Duration) -> Result<NameLock> {
        self.locks.lock_name(&format!("name-{id}"), timeout)
    }

    /// Removes the lock files of a workspace that is gone for good.
    pub(crate) fn forget_locks(&self, row: &WorkspaceRow) {
        // A request that waits for one of them finds out that there is nothing to do. If that takes
        // too long, empty files are left.
        let name = Self::lock_name(row);
        let _ = self.locks.remove_files(&name, Duration::from_secs(1));
    }

    /// The lock under which several callers may change single files at once.
    pub(crate) fn shared(&self, row: &WorkspaceRow) -> Result<WorkspaceLock> {
        self.locks
            .shared(&Self::lock_name(row), self.options.lock_timeout)
            .map_err(|error| held_by_another(error, &format!("`{}`", row.id)))
    }
}

/// Says what is held by the name that people know. The name of its lock has only a number.
pub(crate) fn held_by_another(error: Error, what: &str) -> Error {
    match error.code() {
        ErrorCode::WorkspaceBusy => Error::new(
            ErrorCode::WorkspaceBusy,
            format!("{what} is held by another operation"),
        )
        .with_hint("wait until the other operation has ended and try again"),
        _ => error,
    }
}

/// The bytes that a data directory sets aside for a full disk, and how many of them are; none if it
/// was not opened yet. It is not opened.
pub fn reserve_in(dir: &Path) -> (u64, Option<u64>) {
    Reserve::inspect(&DataDir::at(dir).reserve())
}
