//! The new directory of a fork that is updated: filled aside, and compared for late changes before it
//! takes the place of the old one. No rows are written here.

use std::collections::HashSet;

use offshoot_core::{Error, ErrorCode, RelPath, Result};
use offshoot_fs::{ForkDirs, Provider, SafeDir, Stat, Walk};
use offshoot_store::{Durability, WorkspaceRow};

use crate::content::change_set::topmost;
use crate::content::index::Index;
use crate::content::rows::{fork_row, open_row_by_key};
use crate::directory::fork_dir::ForkRows;
use crate::directory::layers::Stack;
use crate::directory::replacement::write_note;
use crate::formats::UpdateNote;
use crate::merge::Merges;
use crate::merge::update::{UpdatePlan, ignored_in_the_way};
use crate::sync::fork_ignore::{SkipDir, leaves_out_dirs};

impl Merges {
    /// What differs from the layers of a fork right now, and when each was last touched. Directories
    /// that the ignore rules leave out are not looked into.
    pub(super) fn fingerprints_on_disk(&self, row: &WorkspaceRow) -> Result<Vec<PathFingerprint>> {
        let Ok(dir) = self
            .directories
            .open_dir(&self.context.data.workspace(&row.id))
        else {
            return self.fingerprints_now(row, &mut |_, _| false);
        };
        let dir = dir.following_no_links();
        let mut fingerprints = Vec::new();
        self.store().read(|tx| {
            let index = Index::new(self.store(), tx, row);
            leaves_out_dirs(&index, &dir, |closed| {
                fingerprints = self.fingerprints_now(row, closed)?;
                Ok(())
            })
        })?;
        Ok(fingerprints)
    }

    fn fingerprints_now(
        &self,
        row: &WorkspaceRow,
        closed: SkipDir<'_>,
    ) -> Result<Vec<PathFingerprint>> {
        if !row.materialized {
            return Ok(Vec::new());
        }
        let fork = self.store().read(|tx| fork_row(tx, row))?;
        let stack = self.directories.stack_of_fork(&fork)?;
        let provider = self
            .directories
            .provider_that_made(fork.provider.as_deref().unwrap_or("copy").parse()?)?;
        let dirs = self.directories.fork_dirs(row, fork.place);
        let walked = provider.changes_pruned(&stack.layers, &dirs, closed)?;
        let fingerprint = |one: offshoot_fs::Difference| {
            let now = one.now;
            let stamp = now.map(|now| (now.ino, now.size, now.perm, now.ctime_ns));
            (one.path, stamp)
        };
        Ok(walked.differences.into_iter().map(fingerprint).collect())
    }

    /// Refuses to leave a directory behind that changed after it was synced: nothing would keep
    /// these changes. The directory is closed by now, so it cannot change any more. Ignored files
    /// are moved as they are then, so a build may have gone on writing them.
    pub(super) fn refuse_late_changes(
        &self,
        row: &WorkspaceRow,
        mut fingerprints: Vec<PathFingerprint>,
        ignored: &[RelPath],
    ) -> Result<()> {
        let ignored: HashSet<&RelPath> = ignored.iter().collect();
        let follows = |path: &RelPath| {
            let mut above = std::iter::successors(Some(path.clone()), RelPath::parent);
            above.any(|one| ignored.contains(&one))
        };
        let mut now = self.fingerprints_now(row, &mut |path, _| ignored.contains(path))?;
        fingerprints.retain(|(path, _)| !follows(path));
        now.retain(|(path, _)| !follows(path));
        if now == fingerprints {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::WorkspaceBusy,
            format!("`{}` was changed during the update", row.id),
        )
        .with_hint("nothing was updated; try again when nobody writes to it"))
    }

    /// Makes the new directory aside and writes into it what the fork holds beyond its new base.
    pub(super) fn fill_next(
        &self,
        row: &WorkspaceRow,
        plan: &UpdatePlan,
        provider: &dyn Provider,
        stack: &Stack,
        next: &ForkDirs,
        ignored: &[RelPath],
    ) -> Result<()> {
        self.directories.clear_next(next)?;
        // Merged content has to be readable to be written; garbage collection leaves it alone while
        // it is young.
        self.store().write(Durability::Relaxed, |tx| {
            plan.objects
                .iter()
                .try_for_each(|object| tx.put_object(object).map(drop))
        })?;
        let rows = (row, &plan.fork, ForkRows::InNote);
        self.directories
            .make_fork_dir(provider, stack, next, rows, &plan.project)?;
        if plan.fork.git {
            self.directories
                .write_index_of_copy(provider, stack, next, plan.head.id)?;
        }
        let dir = self
            .directories
            .open_dir(&next.target)?
            .following_no_links();
        self.directories.project_changes(&dir, &plan.beyond)?;
        let known = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let pending = Index::new(self.store(), tx, &now).plan_snapshot(false)?;
            Ok(pending
                .ignored
                .into_iter()
                .map(|row| row.path)
                .collect::<Vec<_>>())
        })?;
        let ignored = self.ignored_beside_setup(row, ignored)?;
        let mut carry: Vec<RelPath> = known.into_iter().chain(ignored).collect();
        carry.sort();
        carry.dedup();
        let carry = topmost(carry.into_iter());
        for path in &carry {
            self.make_way(&dir, stack, path)?;
        }
        let note = UpdateNote {
            target: next.target.clone(),
            carry: carry.iter().map(RelPath::to_text).collect(),
            git_from: plan.fork.git.then(|| plan.fork.base.to_hex()),
        };
        write_note(&next.private, &note)
    }

    /// Ignored paths without what came with the setup: a fork gets that of its new base.
    fn ignored_beside_setup(
        &self,
        row: &WorkspaceRow,
        ignored: &[RelPath],
    ) -> Result<Vec<RelPath>> {
        let Some(setup) = self.directories.setup_of(row)? else {
            return Ok(ignored.to_vec());
        };
        let dir = self
            .directories
            .open_dir(&self.context.data.workspace(&row.id))?
            .following_no_links();
        let mut own = Vec::new();
        for root in ignored {
            let mut look = |path: &RelPath, stat: &Stat| {
                let came = setup.has(path, stat);
                if !came {
                    own.push(path.clone());
                }
                Ok(if came { Walk::Enter } else { Walk::Skip })
            };
            if let Some(stat) = dir.stat(root)?
                && look(root, &stat)? == Walk::Enter
                && stat.is_dir()
            {
                dir.walk(root, look)?;
            }
        }
        Ok(own)
    }

    /// Makes the directory above an ignored path a private one of the new directory. What the setup of
    /// the new base has at the path goes.
    fn make_way(&self, dir: &SafeDir, stack: &Stack, path: &RelPath) -> Result<()> {
        if dir.stat(path)?.is_some() {
            let tracked = self.store().read(|tx| {
                let objects = self.contents.objects_in(tx);
                stack.state.entry(&objects, path)
            })?;
            if stack.setup.is_none() || tracked.is_some() {
                return Err(ignored_in_the_way(path));
            }
            return dir.remove_tree(path);
        }
        let above = path.parent().unwrap_or_default();
        if !above.is_root() {
            dir.mkdir_all(&above, offshoot_core::DEFAULT_DIR_PERM)?;
        }
        // An overlay copies a directory of the layers only when something is made in it.
        dir.write(path, b"", 0o600, offshoot_fs::Sync::None)?;
        dir.remove_file(path)
    }
}

/// A path that differs from the layers with the fingerprint of its file; none if it is gone.
pub(super) type PathFingerprint = (RelPath, Option<(u64, u64, u32, i128)>);
