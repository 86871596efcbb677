//! MemoCache of walks, kept in memory by a process that lives on.
//!
//! To read a memo of 100,000 files and to check it takes as long as a twentieth of the walk it
//! serves. What is kept is only a cache: it counts as long as the file is the very one that it was
//! read from, and every process replaces that file by a new one when it writes a memo.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_core::Result;
use offshoot_fs::Memo;
use offshoot_store::WorkspaceKey;

use crate::sync::Synchronizer;

/// The bytes of all memos that are kept.
const MOST_BYTES: usize = 32 << 20;

/// The memos that this process has read or written, the last used at the end.
#[derive(Default)]
pub(crate) struct MemoCache(Mutex<VecDeque<CachedMemo>>);

struct CachedMemo {
    key: WorkspaceKey,
    stamp: FileStamp,
    memo: Arc<Memo>,
}

/// What tells one file from another that took its name.
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

    /// The memo of this workspace, if it is still the one in the file.
    fn take(&self, key: WorkspaceKey, stamp: FileStamp) -> Option<Arc<Memo>> {
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
        while bytes > MOST_BYTES {
            let Some(oldest) = kept.pop_front() else {
                break;
            };
            bytes -= oldest.memo.bytes();
        }
    }
}

impl Synchronizer {
    /// The memo of the last walk of a workspace; an empty one if there is none.
    pub(crate) fn load_memo(&self, key: WorkspaceKey) -> Arc<Memo> {
        let path = self.context.data.memo(key);
        // Looked at before it is read: if another one takes its place meanwhile, the next look
        // finds a stamp that is not the one kept here.
        let Some(stamp) = FileStamp::of(&path) else {
            return Arc::new(Memo::empty());
        };
        if let Some(memo) = self.memos.take(key, stamp) {
            return memo;
        }
        let memo = Arc::new(Memo::load(&path));
        self.memos.put(key, stamp, &memo);
        memo
    }

    /// Writes the memo of a walk. The caller holds the exclusive lock, so nobody else writes one.
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
