//! The opened data directory, which every other room uses.
//!
//! This room has the paths below the data directory, the store, the locks, the clock, the space that
//! is reserved for a full disk, and the queue of background jobs. Of workspaces, projects and merges it
//! knows only the rows that name them.

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
#[cfg(target_os = "linux")]
use offshoot_fs::UserNamespace;
use offshoot_fs::{NameLock, PathResolver, ProviderName, Reserve, WorkspaceLocks};
use offshoot_store::{
    BlobStore, DiskBlobs, FaultyBlobs, FaultyMeta, MetaStore, NewHasher, SqliteOptions,
    SqliteStore, StatementLog, Store, WorkspaceKey, WorkspaceRow,
};

use crate::context::data_dir::DataDir;
use crate::context::jobs::{JobKind, JobQueue};
use crate::context::process_marker::ProcessMarker;

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
    /// Whether only programs in the user's own namespace see what this process mounts.
    pub private_mounts: bool,
    /// The number of the mount that the data directory lies on, if not as this process sees it: in a
    /// namespace every mount has another one.
    pub mount: Option<u64>,
    /// The most bytes of one file. A larger file in a directory is reported and not read; a larger
    /// upload is refused.
    pub max_file_bytes: u64,
    /// Fails chosen calls; for tests.
    pub faults: Option<FaultPlan>,
    /// Notes the statements of one thread; for tests.
    pub statements: Option<StatementLog>,
}

/// The default limit of one file, which is also that of one request. Hashing so much takes well under a
/// minute, which is about as long as another caller may have to wait for a workspace.
pub const MAX_FILE_BYTES: u64 = 16 << 30;

impl EngineOptions {
    /// The defaults for a data directory.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        EngineOptions {
            data: data.into(),
            lock_timeout: Duration::from_secs(30),
            form: None,
            provider: None,
            private_mounts: false,
            mount: None,
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
    /// Disk space that is reserved for work that frees space on a full disk.
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) jobs: Arc<JobQueue>,
    /// Set when a directory could not be brought in line with the store. The next process that opens
    /// the data directory then repairs it.
    needs_recovery: AtomicBool,
    /// Set when a directory has more changes that may not be on disk than recovery should have to
    /// compare.
    pub(crate) checkpoint_due: AtomicBool,
    /// Set while one thread runs a checkpoint. Other threads skip theirs.
    pub(crate) checkpoint_running: AtomicBool,
    marker: ProcessMarker,
}

impl Drop for Context {
    fn drop(&mut self) {
        // A failure here costs nothing but the recovery at the next start.
        let _ = self.reserve.release_for(|| self.store.meta().tidy());
        if !self.needs_recovery() {
            self.marker.remove();
        }
    }
}

impl Context {
    /// Opens an existing data directory. Also returns the markers of processes that were killed.
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
        let (marker, dead) = ProcessMarker::create(&data.run(), options.mount)?;
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

    /// An unnamed file on the disk of the data directory, for content that is being received.
    pub fn temp_file(&self) -> Result<std::fs::File> {
        tempfile::tempfile_in(self.data.tmp()).map_err(|cause| {
            Error::new(ErrorCode::WriteFailed, "the content cannot be received").with_source(cause)
        })
    }

    /// Waits until all background jobs are done.
    pub fn wait_for_jobs(&self) {
        self.jobs.wait();
    }

    /// Queues a background job. If it fails, the next start recovers; a layer that was not published is
    /// made by the next fork that needs it.
    pub(crate) fn queue_job(
        self: &Arc<Self>,
        kind: JobKind,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) {
        let context = Arc::clone(self);
        let work = move || {
            let Err(error) = work() else {
                return;
            };
            tracing::warn!(?kind, ?error, "a background job failed");
            if !matches!(kind, JobKind::Publish(_)) {
                context.need_recovery();
            }
        };
        self.jobs.push(kind, Box::new(work));
    }

    /// Makes the next process that opens the data directory run recovery.
    pub(crate) fn need_recovery(&self) {
        self.needs_recovery.store(true, Ordering::Relaxed);
        self.marker.ask_for_full_recovery();
    }

    pub(crate) fn needs_recovery(&self) -> bool {
        self.needs_recovery.load(Ordering::Relaxed)
    }

    /// Fails with `quota_exceeded` if the disk is too full to store anything.
    pub(crate) fn require_space(&self) -> Result<()> {
        self.reserve.require()?;
        if self.has_room_for_log() {
            return Ok(());
        }
        // The content of the log must fit into the database later, or not even a deletion could be
        // committed. A checkpoint of SQLite moves it there and frees the log.
        let _ = self.store.meta().tidy();
        match self.has_room_for_log() {
            true => Ok(()),
            false => Err(Error::disk_full("nothing can be stored")),
        }
    }

    /// Whether the disk has room for the content of the write-ahead log and for one more write.
    fn has_room_for_log(&self) -> bool {
        let log = std::fs::metadata(self.data.write_ahead_log()).map_or(0, |log| log.len());
        self.reserve.has_free(log + self.reserve.size())
    }

    /// Runs work that frees space, and lets it use the reserve; see [`Reserve::release_for`].
    pub(crate) fn with_reserve<T>(&self, work: impl FnMut() -> Result<T>) -> Result<T> {
        self.reserve.release_for(work)
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    pub(crate) fn lock_name(key: WorkspaceKey) -> String {
        key.0.to_string()
    }

    /// The lock on a name, which creating and removing a workspace of that name takes.
    pub(crate) fn name_lock(&self, id: &WorkspaceId) -> Result<NameLock> {
        self.name_lock_within(id, self.options.lock_timeout)
    }

    /// The lock on a name, with a time limit of the caller's.
    pub(crate) fn name_lock_within(&self, id: &WorkspaceId, timeout: Duration) -> Result<NameLock> {
        self.locks.lock_name(&format!("name-{id}"), timeout)
    }

    /// Removes the lock files of a workspace that was removed.
    pub(crate) fn forget_locks(&self, row: &WorkspaceRow) {
        // A request that waits for one of them then finds no workspace. If the lock is not free
        // within a second, empty files stay.
        let name = Self::lock_name(row.key);
        let _ = self.locks.remove_files(&name, Duration::from_secs(1));
    }
}

/// Turns the error of a lock that is taken into one that names what is locked. The name of the lock
/// itself is a number, which means nothing to users.
pub(crate) fn describe_busy(error: Error, what: &str) -> Error {
    match error.code() {
        ErrorCode::WorkspaceBusy => Error::new(
            ErrorCode::WorkspaceBusy,
            format!("{what} is held by another operation"),
        )
        .with_hint("wait until the other operation has ended and try again"),
        _ => error,
    }
}

/// The namespace of an ordinary user's mounts for a data directory. This does not open the directory.
#[cfg(target_os = "linux")]
pub fn user_namespace_of(dir: &Path) -> UserNamespace {
    UserNamespace::at(DataDir::at(dir).namespace())
}

/// Makes a data directory with what is in it before the first use.
pub fn create_data_dir(dir: &Path) -> Result<()> {
    DataDir::at(dir).create()
}

/// The size of the reserve that a data directory should have and the size that it has; none if the
/// directory was never opened. This does not open it.
pub fn reserve_in(dir: &Path) -> (u64, Option<u64>) {
    Reserve::inspect(&DataDir::at(dir).reserve())
}
