//! The engine: one data directory, opened.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use offshoot_core::{Error, ErrorCode, FaultPlan, Result, Timestamp, WorkspaceId};
use offshoot_fs::{NameLock, PathResolver, ProviderName, Reserve, WorkspaceLocks};
use offshoot_store::{
    BlobStore, DiskBlobs, FaultyBlobs, FaultyMeta, MetaStore, SqliteOptions, SqliteStore,
    StatementLog, Store, WorkspaceKey, WorkspaceRow,
};

use crate::content::content_ids::ContentIds;
use crate::content::index::Index;
use crate::content::rows::open_row_in;
use crate::context::process_marker::RunMark;
use crate::directory::last_use::LastUse;
use crate::directory::layers::Stack;
use crate::directory::providers::Providers;
use crate::sync::changes_cache::Told;
use crate::sync::memos::Memos;
use crate::upkeep::jobs::{LastHandle, Upkeep};

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

/// Our files beside the directories: the database with what SQLite and the store have beside it, the
/// lock of the server and what is set aside for a full disk.
pub(crate) const OWN_FILES: [&str; 7] = [
    "offshoot.db",
    "offshoot.db-wal",
    "offshoot.db-shm",
    "offshoot.db-journal",
    "offshoot.db-write.lock",
    "server.lock",
    "reserve",
];

/// Where things are below the data directory.
#[derive(Clone, Debug)]
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    pub(crate) fn at(path: &Path) -> DataDir {
        DataDir(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }
    /// The directory itself.
    pub(crate) fn place(&self) -> PathBuf {
        self.0.clone()
    }
    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("offshoot.db")
    }
    /// What the store has written and not yet moved into the database.
    fn log(&self) -> PathBuf {
        self.0.join("offshoot.db-wal")
    }
    pub(crate) fn blobs(&self) -> PathBuf {
        self.0.join("blobs")
    }
    pub(crate) fn workspaces(&self) -> PathBuf {
        self.0.join("workspaces")
    }
    pub(crate) fn workspace(&self, id: &WorkspaceId) -> PathBuf {
        self.workspaces().join(id.as_str())
    }
    pub(crate) fn memo(&self, key: WorkspaceKey) -> PathBuf {
        self.cache().join(format!("{}.memo", key.0))
    }
    pub(crate) fn tmp(&self) -> PathBuf {
        self.0.join("tmp")
    }
    pub(crate) fn run(&self) -> PathBuf {
        self.0.join("run")
    }
    pub(crate) fn layers(&self) -> PathBuf {
        self.0.join("layers")
    }
    /// Where the private directories of forks are.
    pub(crate) fn forks(&self) -> PathBuf {
        self.0.join("forks")
    }
    pub(crate) fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }
    pub(crate) fn server_lock(&self) -> PathBuf {
        self.0.join("server.lock")
    }
    pub(crate) fn locks(&self) -> PathBuf {
        self.0.join("locks")
    }
    pub(crate) fn reserve(&self) -> PathBuf {
        self.0.join("reserve")
    }

    pub(crate) fn private_dirs(&self) -> [PathBuf; 7] {
        [
            self.tmp(),
            self.run(),
            self.locks(),
            self.cache(),
            self.layers(),
            self.forks(),
            self.blobs(),
        ]
    }

    /// Takes from others what they could read or write beside the workspaces, if somebody has given
    /// it to them, or an older program has. What belongs to another user is left as it is.
    fn close_to_others(&self, is_own: bool) -> std::io::Result<()> {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let close = |path: &Path, open_to_others: u32| -> std::io::Result<()> {
            let found = match std::fs::symlink_metadata(path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                found => found?,
            };
            let is_ours = found.uid() == offshoot_sys::effective_user() && !found.is_symlink();
            let mode = found.mode() & 0o7777;
            let closed = mode & (!0o077 | open_to_others);
            if is_ours && closed != mode {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(closed))?;
            }
            Ok(())
        };
        for private in self.private_dirs() {
            close(&private, 0)?;
        }
        for entry in std::fs::read_dir(&self.0)? {
            let entry = entry?;
            let is_ours = OWN_FILES.iter().any(|own| entry.file_name() == *own);
            if is_ours && entry.file_type()?.is_file() {
                close(&entry.path(), 0)?;
            }
        }
        // Others may pass through to a workspace whose path they know, and no more. A directory that
        // held something of others before is not ours to close.
        if is_own {
            close(&self.0, 0o011)?;
        }
        Ok(())
    }

    /// A new name in `tmp/` for a directory that is to be removed: whatever happens, it goes.
    pub(crate) fn new_trash(&self) -> PathBuf {
        let name = uuid::Uuid::now_v7().simple();
        self.tmp().join(format!("trash-{name}"))
    }

    fn create(&self) -> Result<()> {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        let make = |path: &Path, mode: u32| {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(mode)
                .create(path)
        };
        let all = || -> std::io::Result<()> {
            let fresh = !self.0.exists();
            make(&self.0, 0o711)?;
            let is_own = self.database().exists() || std::fs::read_dir(&self.0)?.next().is_none();
            if fresh {
                std::fs::set_permissions(&self.0, std::fs::Permissions::from_mode(0o711))?;
            }
            for private in self.private_dirs() {
                make(&private, 0o700)?;
            }
            make(&self.workspaces(), 0o711)?;
            self.close_to_others(is_own)
        };
        all().map_err(|cause| {
            Error::new(
                ErrorCode::StoreUnavailable,
                "the data directory cannot be made",
            )
            .with_hint("choose another one with `--data DIR` or `OFFSHOOT_DATA`")
            .with_source(cause)
        })
    }
}

/// The use cases of Offshoot over one data directory. Cheap to clone, safe to share.
///
/// Any number of engines, in any number of processes, may have the same directory open: what they
/// have to agree on is in the store or guarded by locks on files.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    /// None in the thread that does upkeep, for which the last handle waits.
    _last: Option<Arc<LastHandle>>,
}

pub(crate) struct Inner {
    pub(crate) data: DataDir,
    pub(crate) store: Store,
    pub(crate) locks: WorkspaceLocks,
    pub(crate) options: EngineOptions,
    pub(crate) content_ids: ContentIds,
    /// Set when a directory could not be brought in line with the store: the next engine that is
    /// opened has to do it.
    pub(crate) needs_recovery: AtomicBool,
    /// Set once it is known that no merge of an earlier version is to be looked through.
    pub(crate) merges_looked_through: AtomicBool,
    /// Set when a directory has more changes that may not be on disk than recovery should have
    /// to look at.
    pub(crate) checkpoint_due: AtomicBool,
    /// Stacks of layers that are known to be on disk.
    pub(crate) stacks: Mutex<HashMap<i64, Stack>>,
    pub(crate) providers: Providers,
    pub(crate) upkeep: Arc<Upkeep>,
    /// Set while one thread does that; what is due for the others is the same.
    pub(crate) checkpoint_running: AtomicBool,
    pub(crate) memos: Memos,
    pub(crate) told: Told,
    pub(crate) last_use: LastUse,
    /// What is set aside for work that frees space on a full disk.
    pub(crate) reserve: Arc<Reserve>,
    run: RunMark,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A failure here costs nothing but the recovery at the next start.
        let _ = self.reserve.release_for(|| self.store.meta().tidy());
        if !self.needs_recovery.load(Ordering::Relaxed) {
            self.run.end();
        }
    }
}

impl Engine {
    /// Opens a data directory, makes it if need be, and puts right what an unclean stop left.
    pub fn open(options: EngineOptions) -> Result<Engine> {
        let data = DataDir::at(&options.data);
        data.create()?;
        let reserve = Arc::new(Reserve::open(&data.reserve()));
        // SQLite and the marks of processes need a little, and without them nothing can be freed.
        let engine =
            reserve.release_for(|| Self::open_in(data.clone(), options.clone(), &reserve))?;
        reserve.refill();
        Ok(engine)
    }

    fn open_in(data: DataDir, options: EngineOptions, reserve: &Arc<Reserve>) -> Result<Engine> {
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
        let store = Store::new(meta, blobs, crate::content::objects::HASHER);
        let locks = WorkspaceLocks::new(data.locks())?;
        let (run, unclean) = RunMark::begin(&data.run())?;
        offshoot_fs::sweep_probes(&data.tmp());
        let upkeep = Arc::new(Upkeep::default());
        let engine = Engine {
            _last: Some(Arc::new(LastHandle(Arc::clone(&upkeep)))),
            inner: Arc::new(Inner {
                data,
                store,
                locks,
                options,
                content_ids: ContentIds::default(),
                needs_recovery: AtomicBool::new(false),
                merges_looked_through: AtomicBool::new(false),
                checkpoint_due: AtomicBool::new(false),
                stacks: Mutex::default(),
                providers: Providers::default(),
                upkeep,
                checkpoint_running: AtomicBool::new(false),
                memos: Memos::default(),
                told: Told::default(),
                last_use: LastUse::default(),
                reserve: Arc::clone(reserve),
                run,
            }),
        };
        engine.recover(unclean)?;
        Ok(engine)
    }

    /// A handle that nobody waits for.
    pub(crate) fn for_upkeep(&self) -> Engine {
        Engine {
            inner: Arc::clone(&self.inner),
            _last: None,
        }
    }

    /// A file without a name on the disk of the data directory, for what is on its way in.
    pub fn temp_file(&self) -> Result<std::fs::File> {
        tempfile::tempfile_in(self.inner.data.tmp()).map_err(|cause| {
            Error::new(ErrorCode::WriteFailed, "the content cannot be received").with_source(cause)
        })
    }

    /// Refuses to store anything on a full disk, before anything is done.
    pub(crate) fn require_space(&self) -> Result<()> {
        self.inner.reserve.require()?;
        if self.has_room_for_log() {
            return Ok(());
        }
        // The log has to fit into the database one day, or not even a deletion could be committed.
        // As long as it does it moves there, and leaves its space to what comes.
        let _ = self.store().meta().tidy();
        match self.has_room_for_log() {
            true => Ok(()),
            false => Err(Error::disk_full("nothing can be stored")),
        }
    }

    /// Whether the disk has room for what the log of the store holds, and for a write beside it.
    fn has_room_for_log(&self) -> bool {
        let reserve = &self.inner.reserve;
        let log = std::fs::metadata(self.inner.data.log()).map_or(0, |log| log.len());
        reserve.has_free(log + reserve.size())
    }

    /// Runs work that frees space; see [`Reserve::release_for`].
    pub(crate) fn freeing<T>(&self, work: impl FnMut() -> Result<T>) -> Result<T> {
        self.inner.reserve.release_for(work)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The open workspace of that name.
    pub(crate) fn open_row(&self, id: &WorkspaceId) -> Result<WorkspaceRow> {
        self.store().read(|tx| open_row_in(tx, id))
    }

    /// Runs `work` with the index of an open workspace.
    pub(crate) fn with_index<T>(
        &self,
        id: &WorkspaceId,
        mut work: impl FnMut(&Index<'_>) -> Result<T>,
    ) -> Result<T> {
        self.store().read(|tx| {
            let row = open_row_in(tx, id)?;
            work(&Index::new(self.store(), tx, &row))
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    pub(crate) fn lock_name(row: &WorkspaceRow) -> String {
        row.key.0.to_string()
    }

    /// The lock on a name, for what makes or ends the workspace that has it.
    pub(crate) fn name_lock(&self, id: &WorkspaceId) -> Result<NameLock> {
        self.name_lock_within(id, self.inner.options.lock_timeout)
    }

    /// The same for who waits less long.
    pub(crate) fn name_lock_within(&self, id: &WorkspaceId, timeout: Duration) -> Result<NameLock> {
        self.inner.locks.lock_name(&format!("name-{id}"), timeout)
    }

    /// Removes the lock files of a workspace that is gone for good.
    pub(crate) fn forget_locks(&self, row: &WorkspaceRow) {
        // Whoever waits for one of them finds out that there is nothing to do. If that takes too
        // long, empty files are left.
        let name = Self::lock_name(row);
        let _ = self.inner.locks.remove_files(&name, Duration::from_secs(1));
    }

    /// The lock under which several callers may change single files at once.
    pub(crate) fn shared(&self, row: &WorkspaceRow) -> Result<offshoot_fs::WorkspaceLock> {
        self.inner
            .locks
            .shared(&Self::lock_name(row), self.inner.options.lock_timeout)
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
