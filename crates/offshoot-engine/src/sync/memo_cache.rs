//! The memos of plain directories, on disk and in the memory of a long-lived process.
//!
//! Reading and checking a memo of 100,000 files takes a twentieth of the time of the walk that uses
//! it. A memo in memory is valid while its file is the one that it was read from. A process that
//! writes a memo replaces the file.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_core::Result;
use offshoot_fs::Memo;
use offshoot_store::WorkspaceKey;

use crate::sync::Synchronizer;

/// The most bytes of all memos in memory.
const MAX_BYTES: usize = 32 << 20;

/// The memos that this process has read or written, the last used one at the end.
#[derive(Default)]
pub(crate) struct MemoCache(Mutex<VecDeque<CachedMemo>>);

struct CachedMemo {
    key: WorkspaceKey,
    stamp: FileStamp,
    memo: Arc<Memo>,
}

/// What distinguishes a file from another one that replaced it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl FileStamp {
    fn of(path: &Path) -> Option<FileStamp> {
        let meta = std::fs::metadata(path).ok()?;
        Some(FileStamp {
            ino: meta.ino(),
            size: meta.size(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            ctime: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

impl MemoCache {
    fn lock(&self) -> MutexGuard<'_, VecDeque<CachedMemo>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memo of this workspace, if its file has not been replaced since.
    fn get(&self, key: WorkspaceKey, stamp: FileStamp) -> Option<Arc<Memo>> {
        let mut kept = self.lock();
        let at = kept.iter().position(|one| one.key == key)?;
        let one = kept.remove(at)?;
        if one.stamp != stamp {
            return None;
        }
        let memo = one.memo.clone();
        kept.push_back(one);
        Some(memo)
    }

    fn put(&self, key: WorkspaceKey, stamp: FileStamp, memo: &Arc<Memo>) {
        let mut kept = self.lock();
        kept.retain(|one| one.key != key);
        kept.push_back(CachedMemo {
            key,
            stamp,
            memo: memo.clone(),
        });
        let mut bytes: usize = kept.iter().map(|one| one.memo.bytes()).sum();
        while bytes > MAX_BYTES {
            let Some(oldest) = kept.pop_front() else {
                break;
            };
            bytes -= oldest.memo.bytes();
        }
    }
}

impl Synchronizer {
    /// The memo of the last walk of a workspace, or an empty one.
    pub(crate) fn load_memo(&self, key: WorkspaceKey) -> Arc<Memo> {
        let path = self.context.data.memo(key);
        // The stamp is taken before the file is read. If the file is replaced in between, the next call
        // finds another stamp and reads the new file.
        let Some(stamp) = FileStamp::of(&path) else {
            return Arc::new(Memo::empty());
        };
        if let Some(memo) = self.memos.get(key, stamp) {
            return memo;
        }
        let memo = Arc::new(Memo::load(&path));
        self.memos.put(key, stamp, &memo);
        memo
    }

    /// Writes the memo of a walk. The caller holds the exclusive lock, so no other process writes it.
    pub(crate) fn save_memo(&self, key: WorkspaceKey, memo: Memo) -> Result<Arc<Memo>> {
        let path = self.context.data.memo(key);
        memo.save(&path)?;
        let memo = Arc::new(memo);
        if let Some(stamp) = FileStamp::of(&path) {
            self.memos.put(key, stamp, &memo);
        }
        Ok(memo)
    }
}
