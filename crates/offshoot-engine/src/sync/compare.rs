//! Comparing a walk of a directory with the index: directories, deletions, and paths that the walk did
//! not visit. Files and links that the walk saw were compared when they were hashed (`hash.rs`).

use std::collections::BTreeSet;

use offshoot_core::{EntryKind, RelPath, Result};
use offshoot_fs::{DirState, Memo, SafeDir, Scan};
use offshoot_store::{BulkWriter, HistoryFilter, HistoryRow, ReadTx, WorkspaceRow};

use crate::content::index::Index;
use crate::content::too_large::{TooLarge, largest_file};
use crate::directory::disk_entry::DiskEntry;
use crate::sync::Synchronizer;
use crate::sync::disk::DiskRead;
use crate::sync::ignored::Ignored;
use crate::sync::scan::DiskChanges;

/// A walk that is being compared with the index, and the differences so far.
pub(crate) struct ScanComparison<'a> {
    pub(crate) sync: &'a Synchronizer,
    pub(crate) row: &'a WorkspaceRow,
    pub(crate) dir: &'a SafeDir,
    /// The memo that the walk was made against.
    pub(crate) memo: &'a Memo,
    pub(crate) scan: &'a Scan<'a>,
    /// Every path that the walk saw.
    pub(crate) seen: BTreeSet<&'a RelPath>,
    pub(crate) bulk: &'a BulkWriter,
    pub(crate) found: &'a mut DiskChanges,
    pub(crate) too_large: &'a mut Vec<TooLarge>,
}

/// What a comparison says about the walk itself.
pub(crate) struct ComparedScan {
    /// How many lines of history are newer than the memo.
    pub(crate) lines_since: usize,
    /// Whether the directory was still as the walk had seen it.
    pub(crate) settled: bool,
}

/// What [`ScanComparison::check_unseen`] leaves to its caller.
struct Unseen {
    /// Paths of the index at which the directory has something of another kind.
    replaced: Vec<RelPath>,
    settled: bool,
}

impl ScanComparison<'_> {
    /// Adds every difference that the hashing of files did not find.
    pub(crate) fn run(&mut self) -> Result<ComparedScan> {
        let sync = self.sync;
        sync.store().read(|tx| {
            let index = Index::new(sync.store(), tx, self.row).with_rows()?;
            let lines = self.lines_since_memo(tx)?;
            let lines_since = lines.len();
            let touched: BTreeSet<RelPath> = lines
                .into_iter()
                .flat_map(|line| [Some(line.line.path), line.line.from])
                .flatten()
                .collect();
            self.compare_dirs(&index, &touched)?;
            let candidates = self.paths_that_may_be_gone(&index, touched)?;
            let unseen = self.check_unseen(&index, candidates)?;
            let rows = index
                .plan_snapshot(false)?
                .left_out(&index, &self.scan.ignored)?;
            let ignored = Ignored {
                rows: &rows,
                seen: &|path| self.seen.contains(path),
            };
            sync.compare_ignored_rows(
                &index,
                self.dir,
                self.bulk,
                &ignored,
                self.found,
                self.too_large,
            )?;
            // The walk left out what is there now, such as an ignored directory where a file was.
            for path in unseen.replaced {
                self.found.entry(path).or_insert(None);
            }
            Ok(ComparedScan {
                lines_since,
                settled: unseen.settled,
            })
        })
    }

    /// The lines of history that are newer than the memo. The memo does not know what they changed: a
    /// directory in the memo may have been removed by Offshoot and made again by a program.
    fn lines_since_memo(&self, tx: &dyn ReadTx) -> Result<Vec<HistoryRow>> {
        if self.memo.is_empty() {
            return Ok(Vec::new());
        }
        // By number, which has an index. A search by revision would read every line of the workspace.
        tx.history(&HistoryFilter {
            workspace: Some(self.row.key),
            after_seq: self.memo.tag() as i64,
            ..HistoryFilter::default()
        })
    }

    /// Compares directories that are new, have other permission bits or were changed by Offshoot.
    fn compare_dirs(&mut self, index: &Index<'_>, touched: &BTreeSet<RelPath>) -> Result<()> {
        for seen in &self.scan.dirs {
            if seen.state == DirState::Known && !touched.contains(&seen.path) {
                continue;
            }
            let entry = DiskEntry {
                kind: EntryKind::Dir,
                perm: seen.perm,
                id: None,
                size: 0,
            };
            let known = index.entry(&seen.path)?;
            if known.is_none_or(|known| !entry.equals(&known)) {
                self.found.insert(seen.path.clone(), Some(entry));
            }
        }
        Ok(())
    }

    /// Every path that the index has and the directory may not have.
    fn paths_that_may_be_gone(
        &self,
        index: &Index<'_>,
        touched: BTreeSet<RelPath>,
    ) -> Result<BTreeSet<RelPath>> {
        let mut paths: BTreeSet<RelPath> = self.scan.missing.iter().cloned().collect();
        if self.memo.is_empty() {
            index.walk(&RelPath::root(), &mut |path, _| {
                paths.insert(path.clone());
                Ok(())
            })?;
            return Ok(paths);
        }
        paths.extend(touched);
        // A path that the last walk saw and this one left out has something else there now.
        let refused = self.scan.refused.iter().map(|(path, _)| path);
        let left_out = self.scan.ignored.iter().chain(refused);
        paths.extend(
            left_out
                .filter(|path| self.memo.get(path).is_some())
                .cloned(),
        );
        Ok(paths)
    }

    /// Compares paths that the walk did not see with what is on disk now.
    fn check_unseen(&mut self, index: &Index<'_>, paths: BTreeSet<RelPath>) -> Result<Unseen> {
        let largest = largest_file(&self.sync.contents, self.row);
        let mut unseen = Unseen {
            replaced: Vec::new(),
            settled: true,
        };
        for path in paths {
            if path.is_root() || self.seen.contains(&path) || self.found.contains_key(&path) {
                continue;
            }
            let (known, stat) = (index.entry(&path)?, self.dir.stat(&path)?);
            let left_out = self.is_left_out(&path);
            // Whether the walk has just seen it as the memo says.
            let is_known =
                self.memo.get(&path).is_some() && self.scan.missing.binary_search(&path).is_err();
            match (known, stat) {
                (Some(_), None) => drop(self.found.insert(path, None)),
                (Some(known), Some(stat))
                    if known.is_dir() != stat.is_dir() || stat.entry_kind().is_none() =>
                {
                    unseen.replaced.push(path);
                }
                // The file is as the memo says, but the index has recorded since that it was gone.
                (None, Some(stat)) if is_known && !left_out => {
                    let read = self.sync.read_from_disk(
                        self.dir,
                        &path,
                        Some(stat),
                        None,
                        largest,
                        self.bulk,
                    )?;
                    match read {
                        DiskRead::Entry(entry, _) => drop(self.found.insert(path, Some(entry))),
                        DiskRead::TooLarge(file) => self.too_large.push(file),
                        DiskRead::NoFile(_) | DiskRead::Unsettled => {}
                    }
                }
                // The walk did not see it and now it is there: a program is changing the directory.
                (Some(known), Some(_)) if !left_out && (known.is_dir() || !is_known) => {
                    unseen.settled = false;
                }
                _ => {}
            }
        }
        Ok(unseen)
    }

    /// Whether the walk left a path out, by the ignore rules or because it was refused.
    fn is_left_out(&self, path: &RelPath) -> bool {
        let refused = self.scan.refused.iter().map(|(path, _)| path);
        let mut left_out = self.scan.ignored.iter().chain(refused);
        left_out.any(|above| path.starts_with(above))
    }
}
