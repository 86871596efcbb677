//! Proving that everything a row names is there, whole, and what it says.

use std::collections::HashSet;
use std::io::Write;

use offshoot_core::{EMPTY_TREE, Error, ObjectId, ObjectKind, RelPath, Result};
use offshoot_fs::Walk;
use offshoot_git::{BlobHasher, Commit, ObjectReader, walk_objects};
use offshoot_store::{HistoryFilter, ObjectRow, SnapshotRow, WorkspaceRow, WorkspaceState};

use crate::engine::Engine;
use crate::index::Index;
use crate::objects::StoredObjects;

/// Objects up to this size are hashed in memory.
const IN_MEMORY: u64 = 8 << 20;
const STEP: usize = 1_000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: `object`, `pack`, `snapshot`, `entry`, `history`, `workspace`, `directory` or `layer`.
    pub what: &'static str,
    /// Which one, and what is wrong with it.
    pub message: String,
}

/// What a check looked at and what it found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Objects that were read and hashed.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Snapshots that were walked.
    pub snapshots: u64,
    /// Workspaces, the closed ones too.
    pub workspaces: u64,
    /// What is wrong; empty is what everyone hopes for.
    pub problems: Vec<Problem>,
}

impl CheckReport {
    fn problem(&mut self, what: &'static str, message: impl Into<String>) {
        self.problems.push(Problem {
            what,
            message: message.into(),
        });
    }
}

impl Engine {
    /// Reads everything and names what is not whole. Changes nothing.
    pub fn check(&self) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let present = self.check_objects(&mut report)?;
        self.check_packs(&mut report)?;
        let mut seen = HashSet::new();
        for row in self.store().read(|tx| tx.all_workspaces())? {
            report.workspaces += 1;
            self.check_snapshots(&row, &present, &mut seen, &mut report)?;
            self.check_history(&row, &present, &mut report)?;
            if row.state == WorkspaceState::Open {
                // Nobody may be between a commit and its projection.
                let _lock = self.exclusive(&row)?;
                self.check_workspace(&row, &present, &mut report)?;
            }
        }
        self.check_layers(&mut |message| report.problem("layer", message))?;
        self.check_forks(&mut |message| report.problem("directory", message))?;
        Ok(report)
    }

    fn check_objects(&self, report: &mut CheckReport) -> Result<HashSet<ObjectId>> {
        let mut present = HashSet::new();
        let mut after = None;
        loop {
            let rows = self
                .store()
                .read(|tx| tx.objects_after(after.as_ref(), STEP, false))?;
            let Some(last) = rows.last() else {
                return Ok(present);
            };
            after = Some(last.id);
            for row in rows {
                match self.hash_of(&row) {
                    Ok(id) if id == row.id => {
                        report.objects += 1;
                        report.bytes += row.size;
                        present.insert(row.id);
                    }
                    Ok(id) => report.problem(
                        "object",
                        format!(
                            "{} `{}` has content that hashes to `{id}`",
                            row.kind.as_str(),
                            row.id
                        ),
                    ),
                    // It may have been collected since the row was read.
                    Err(_) if !self.store().read(|tx| tx.has_objects(&[row.id]))?[0] => {}
                    Err(error) => report.problem(
                        "object",
                        format!("{} `{}`: {error}", row.kind.as_str(), row.id),
                    ),
                }
            }
        }
    }

    fn hash_of(&self, row: &ObjectRow) -> Result<ObjectId> {
        let missing = || Error::internal("its content is missing");
        if row.kind == ObjectKind::Blob && row.size > IN_MEMORY {
            let mut sink = HashSink(BlobHasher::new(row.size));
            self.store()
                .verify(&row.id, &mut sink)?
                .ok_or_else(missing)?;
            return sink.0.finish();
        }
        let mut bytes = Vec::with_capacity(row.size.min(IN_MEMORY) as usize);
        self.store()
            .verify(&row.id, &mut bytes)?
            .ok_or_else(missing)?;
        offshoot_git::hash(row.kind, &bytes)
    }

    fn check_packs(&self, report: &mut CheckReport) -> Result<()> {
        for pack in self.store().read(|tx| tx.packs())? {
            match self.store().blobs().size(&pack.blob)? {
                Some(size) if size == pack.size => {}
                Some(size) => report.problem(
                    "pack",
                    format!(
                        "pack {} has {size} bytes instead of {}",
                        pack.key, pack.size
                    ),
                ),
                None => report.problem("pack", format!("pack {} is missing", pack.key)),
            }
        }
        Ok(())
    }

    fn check_snapshots(
        &self,
        row: &WorkspaceRow,
        present: &HashSet<ObjectId>,
        seen: &mut HashSet<ObjectId>,
        report: &mut CheckReport,
    ) -> Result<()> {
        let snapshots = self.store().read(|tx| tx.snapshots(row.key, 0))?;
        for snapshot in &snapshots {
            report.snapshots += 1;
            if let Err(error) = self.check_snapshot(snapshot, present, seen, report) {
                let message = format!("`{}` of `{}`: {error}", snapshot.id, row.id);
                report.problem("snapshot", message);
            }
        }
        if row.head != snapshots.first().map(|snapshot| snapshot.id) {
            report.problem(
                "workspace",
                format!("`{}` does not point at its newest snapshot", row.id),
            );
        }
        Ok(())
    }

    fn check_snapshot(
        &self,
        row: &SnapshotRow,
        present: &HashSet<ObjectId>,
        seen: &mut HashSet<ObjectId>,
        report: &mut CheckReport,
    ) -> Result<()> {
        let objects = StoredObjects::new(self.store(), None);
        let Some((_, bytes)) = objects.read(&row.id)? else {
            return Err(Error::internal("its commit is missing"));
        };
        let commit = Commit::parse(&bytes)?;
        // A commit that was imported from git may name a sidecar that did not come along.
        let sidecar_fits =
            row.sidecar == EMPTY_TREE || commit.sidecar().unwrap_or(EMPTY_TREE) == row.sidecar;
        if commit.tree != row.tree || !sidecar_fits {
            return Err(Error::internal(
                "its row and its commit name different trees",
            ));
        }
        if commit.parents.first().copied() != row.parent {
            return Err(Error::internal(
                "its row and its commit name different parents",
            ));
        }
        for tree in [row.tree, row.sidecar] {
            walk_objects(&objects, tree, seen, |kind, id| {
                if !present.contains(&id) && id != EMPTY_TREE && id != offshoot_core::EMPTY_BLOB {
                    report.problem(
                        "snapshot",
                        format!("`{}` lacks the {} `{id}`", row.id, kind.as_str()),
                    );
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn check_history(
        &self,
        row: &WorkspaceRow,
        present: &HashSet<ObjectId>,
        report: &mut CheckReport,
    ) -> Result<()> {
        let mut after_seq = 0;
        loop {
            let lines = self.store().read(|tx| {
                tx.history(&HistoryFilter {
                    workspace: Some(row.key),
                    after_seq,
                    limit: STEP,
                    ..HistoryFilter::default()
                })
            })?;
            let Some(last) = lines.last() else {
                return Ok(());
            };
            after_seq = last.seq;
            for line in &lines {
                for id in [line.line.before, line.line.after].into_iter().flatten() {
                    if !present.contains(&id) {
                        let (seq, path) = (line.seq, &line.line.path);
                        report.problem(
                            "history",
                            format!(
                                "line {seq} of `{}` (`{path}`) names `{id}`, which is missing",
                                row.id
                            ),
                        );
                    }
                }
            }
        }
    }

    /// The index against its counters, its content and, where only we write, its directory.
    fn check_workspace(
        &self,
        row: &WorkspaceRow,
        present: &HashSet<ObjectId>,
        report: &mut CheckReport,
    ) -> Result<()> {
        let mut entries = Vec::new();
        let row = self.store().read(|tx| {
            entries.clear();
            let Some(row) = tx.workspace_by_key(row.key)? else {
                return Ok(row.clone());
            };
            let index = Index::new(self.store(), tx, &row);
            index.walk(&RelPath::root(), &mut |path, entry| {
                entries.push((path.clone(), *entry, index.size(entry)?));
                Ok(())
            })?;
            Ok(row)
        })?;
        let (mut files, mut dirs, mut bytes) = (0, 0, 0);
        for (path, entry, size) in &entries {
            if entry.is_dir() {
                dirs += 1;
            } else {
                files += 1;
                bytes += size;
            }
            if let Some(id) = entry.id
                && !present.contains(&id)
            {
                let what = format!("`{path}` of `{}` names `{id}`, which is missing", row.id);
                report.problem("entry", what);
            }
        }
        if (files, dirs, bytes) != (row.files, row.dirs, row.bytes) {
            report.problem(
                "workspace",
                format!(
                    "`{}` counts {} files, {} directories, {} bytes; its index has {files}, {dirs}, {bytes}",
                    row.id, row.files, row.dirs, row.bytes
                ),
            );
        }
        if !row.materialized || row.handed_out {
            return Ok(());
        }
        let dir = self.dir_of(&row)?;
        let mut expected: std::collections::BTreeMap<_, _> = entries
            .into_iter()
            .map(|(path, entry, _)| (path, entry))
            .collect();
        let mut on_disk = Vec::new();
        let has_git = self.has_git(&row)?;
        dir.walk(&RelPath::root(), |path, _| {
            // The `.git` of a fork is no content.
            if has_git && path.as_bytes() == b".git" {
                return Ok(Walk::Skip);
            }
            on_disk.push(path.clone());
            Ok(Walk::Enter)
        })?;
        for path in on_disk {
            if row.layout == offshoot_core::Layout::Session
                && path.as_bytes() == offshoot_core::SESSION_METADATA.as_bytes()
            {
                continue;
            }
            let there = self.entry_on_disk(&dir, &path)?;
            match (expected.remove(&path), there) {
                (Some(entry), Some(there)) if there.is(&entry) => {}
                (Some(_), _) => report.problem(
                    "directory",
                    format!("`{path}` of `{}` is not what its index says", row.id),
                ),
                (None, _) => report.problem(
                    "directory",
                    format!("`{path}` of `{}` is not in its index", row.id),
                ),
            }
        }
        for path in expected.into_keys() {
            report.problem(
                "directory",
                format!("`{path}` of `{}` is not on disk", row.id),
            );
        }
        Ok(())
    }
}

struct HashSink(BlobHasher);

impl Write for HashSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
