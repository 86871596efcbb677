//! The paths below the data directory, and the permissions of what is there.

use std::path::{Path, PathBuf};

use offshoot_core::{Error, ErrorCode, Result, WorkspaceId};
use offshoot_store::WorkspaceKey;

/// The files that Offshoot itself has in the data directory.
pub(crate) const OWN_FILES: [&str; 7] = [
    "offshoot.db",
    "offshoot.db-wal",
    "offshoot.db-shm",
    "offshoot.db-journal",
    "offshoot.db-write.lock",
    "server.lock",
    "reserve",
];

/// The path of a data directory, and of everything below it.
#[derive(Clone, Debug)]
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    pub(crate) fn at(path: &Path) -> DataDir {
        DataDir(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }
    pub(crate) fn root(&self) -> PathBuf {
        self.0.clone()
    }
    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("offshoot.db")
    }
    /// SQLite's write-ahead log.
    pub(crate) fn write_ahead_log(&self) -> PathBuf {
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
    /// The parent of the private directories of forks.
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

    /// The parent of what was fetched from repositories of other machines.
    pub(crate) fn links(&self) -> PathBuf {
        self.0.join("links")
    }

    /// Where the namespace of an ordinary user's mounts is noted.
    pub(crate) fn namespace(&self) -> PathBuf {
        self.0.join("namespace")
    }

    pub(crate) fn private_dirs(&self) -> [PathBuf; 9] {
        [
            self.tmp(),
            self.run(),
            self.namespace(),
            self.locks(),
            self.cache(),
            self.layers(),
            self.forks(),
            self.links(),
            self.blobs(),
        ]
    }

    /// Removes the permissions of group and others from everything beside the workspaces. Files of
    /// another user are not changed.
    fn restrict_permissions(&self, is_own: bool) -> std::io::Result<()> {
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
        // Other users may pass through to a workspace whose path they know, and no more. A directory
        // that held other files before Offshoot came keeps its permissions.
        if is_own {
            close(&self.0, 0o011)?;
        }
        Ok(())
    }

    /// A new path in `tmp/` for a directory that is to be removed. A clean-up removes it if its
    /// process dies first.
    pub(crate) fn new_trash_path(&self) -> PathBuf {
        let name = uuid::Uuid::now_v7().simple();
        self.tmp().join(format!("trash-{name}"))
    }

    pub(crate) fn create(&self) -> Result<()> {
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
            self.restrict_permissions(is_own)
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
