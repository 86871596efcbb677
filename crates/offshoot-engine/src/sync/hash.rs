//! Hashing the files and links that a walk does not know from its memo, on several threads.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use offshoot_core::{ObjectId, RelPath, Result, Timestamp, cancel};
use offshoot_fs::{ChangedFile, SafeDir};
use offshoot_store::{BulkWriter, WorkspaceRow};

use crate::content::index::{Entry, Index};
use crate::content::too_large::{TooLarge, largest_file};
use crate::sync::Synchronizer;
use crate::sync::disk::DiskRead;
use crate::sync::scan::{DiskChanges, THREADS};

/// Up to so many files one thread is enough.
const ONE_THREAD: usize = 64;

/// What the hashing of files found.
#[derive(Default)]
pub(crate) struct HashResults {
    /// Files and links that differ from the index.
    pub(crate) found: DiskChanges,
    /// The content of every file and link that was read.
    pub(crate) hashed: HashMap<RelPath, ObjectId>,
    pub(crate) unsettled: Vec<RelPath>,
    pub(crate) too_large: Vec<TooLarge>,
    /// When the newest of the differing files changed.
    pub(crate) newest: Timestamp,
}

impl Synchronizer {
    /// Hashes files and links, and stores the content of those that the index does not have.
    pub(crate) fn hash_files(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        unknown: &[ChangedFile],
        bulk: &BulkWriter,
    ) -> Result<HashResults> {
        let results = Mutex::default();
        if unknown.len() < ONE_THREAD {
            self.hash_part(row, dir, unknown, bulk, &results)?;
        } else {
            std::thread::scope(|scope| {
                let workers: Vec<_> = unknown
                    .chunks(unknown.len().div_ceil(THREADS))
                    .map(|part| {
                        let results = &results;
                        let cancel = cancel::current().unwrap_or_default();
                        scope.spawn(move || {
                            cancel.run(|| self.hash_part(row, dir, part, bulk, results))
                        })
                    })
                    .collect();
                let outcomes: Vec<Result<()>> = workers
                    .into_iter()
                    .map(|worker| {
                        worker
                            .join()
                            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    })
                    .collect();
                outcomes.into_iter().collect::<Result<()>>()
            })?;
        }
        Ok(results.into_inner().unwrap_or_default())
    }

    fn hash_part(
        &self,
        row: &WorkspaceRow,
        dir: &SafeDir,
        unknown: &[ChangedFile],
        bulk: &BulkWriter,
        results: &Mutex<HashResults>,
    ) -> Result<()> {
        let largest = largest_file(&self.contents, row);
        self.store().read(|tx| {
            let index = Index::new(self.store(), tx, row).with_tree_cache();
            let mut parent: Option<(RelPath, BTreeMap<Vec<u8>, Entry>)> = None;
            for seen in unknown {
                let above = seen.path.parent().unwrap_or_default();
                if parent.as_ref().is_none_or(|(path, _)| *path != above) {
                    parent = Some((above.clone(), index.children(&above)?));
                }
                let known = parent
                    .as_ref()
                    .and_then(|(_, names)| names.get(seen.path.name()));
                let stat = Some(seen.stat);
                let read = self.read_from_disk(dir, &seen.path, stat, known, largest, bulk)?;
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                results.add(&seen.path, read, known);
            }
            Ok(())
        })
    }
}

impl HashResults {
    fn add(&mut self, path: &RelPath, read: DiskRead, known: Option<&Entry>) {
        match read {
            DiskRead::NoFile(_) => drop(self.found.insert(path.clone(), None)),
            DiskRead::Unsettled => self.unsettled.push(path.clone()),
            DiskRead::TooLarge(file) => self.too_large.push(file),
            DiskRead::Entry(entry, stat) => {
                if let Some(id) = entry.id {
                    self.hashed.insert(path.clone(), id);
                }
                if known.is_none_or(|known| !entry.equals(known)) {
                    let changed = Timestamp((stat.ctime_ns / 1_000) as i64);
                    self.newest = self.newest.max(changed);
                    self.found.insert(path.clone(), Some(entry));
                }
            }
        }
    }
}
