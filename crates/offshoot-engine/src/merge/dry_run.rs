//! What completing a workspace would do, without doing it.

use std::collections::HashSet;

use offshoot_core::{Cause, EntryKind, RelPath, Result, WorkspaceId};
use offshoot_fs::{Stat, Walk};
use offshoot_store::WorkspaceRow;

use crate::content::index::Index;
use crate::content::left_out::LeftOut;
use crate::content::objects::PendingObjects;
use crate::content::rows::{fork_row, open_row_by_key, state_of_row};
use crate::content::state::StateEntry;
use crate::content::too_large::{TooLarge, largest_file};
use crate::merge::Merges;
use crate::merge::complete::{CompleteOptions, Completed, PendingConflict};
use crate::merge::plan_merge::MergeRequest;
use crate::merge::protect;
use crate::project::policy::MergeSettings;
use crate::project::protection::Protection;
use crate::sync::ignored::IgnoredFiles;

/// An ignored file that a merge would take, as far as can be seen without reading it.
struct UnreadFile {
    path: RelPath,
    /// What is left out of a merge, and why.
    too_large: Option<TooLarge>,
}

impl UnreadFile {
    /// Names it where a merge would, given what the project has at its path.
    fn add_to(&self, plan: &mut Completed, there: Option<StateEntry>, protection: &Protection) {
        let refused = offshoot_git::refuses_path(&self.path, EntryKind::File);
        let reason = match (&self.too_large, refused) {
            (Some(file), _) => Some(file.reason()),
            (None, refused) => refused.map(|(_, why)| why.to_owned()),
        };
        let path = self.path.clone();
        if let Some(reason) = reason {
            plan.left_out.push(LeftOut { path, reason });
            return;
        }
        let kind = match (protection.covers(&path), there) {
            (true, _) => protect::KIND,
            (false, Some(_)) => "both_added",
            (false, None) => return plan.merged.push(path),
        };
        plan.conflicts.push(PendingConflict {
            path,
            parts: Vec::new(),
            kind: kind.to_owned(),
            review_id: None,
        });
    }
}

impl Merges {
    /// What completing a workspace would do now. Nothing is stored but what outside programs did to
    /// files that are not ignored. Ignored files that would be merged too are named and not read:
    /// where the project has something already, they are named as a conflict.
    pub fn plan_completion(
        &self,
        id: &WorkspaceId,
        options: &CompleteOptions,
        cause: &Cause,
    ) -> Result<Completed> {
        let (row, _lock) = self.sync.lock_exclusively(id)?;
        let project = self.project_of_fork(&row)?;
        let settings = self.store().read(|tx| MergeSettings::read(tx, project))?;
        let include_ignored = options.include_ignored || settings.include_ignored;
        let synced = self.sync.sync_locked(&row, false)?;
        let ignored = match options.keep || include_ignored || synced.ignored.is_empty() {
            true => IgnoredFiles::default(),
            false => {
                self.sync
                    .count_ignored(&row, &self.directories.dir_of(&row)?, &synced.ignored)?
            }
        };
        let taken = match include_ignored && !synced.ignored.is_empty() {
            true => self.list_ignored(&row, &synced.ignored)?,
            false => Vec::new(),
        };
        let fork = self.store().read(|tx| fork_row(tx, &row))?;
        let commits = self.fork_commits(&row, &fork, false)?;
        self.store().read(|tx| {
            let row = open_row_by_key(tx, &row)?;
            let fork = fork_row(tx, &row)?;
            let index = Index::new(self.store(), tx, &row).with_rows()?;
            let mut bench = PendingObjects::new(&index.objects);
            let pending = index.plan_snapshot(include_ignored)?;
            let request = MergeRequest {
                row: &row,
                fork: &fork,
                theirs: index.base().edit(&mut bench, &pending.edits)?,
                snapshot: None,
                options,
                commits: &commits,
                id: "",
                cause,
            };
            let plan = self.plan_merge(tx, &bench, &request)?;
            let (project, mut completed) = (plan.project, plan.outcome.completed);
            completed.merge_id = None;
            completed.snapshot = None;
            completed.ignored_removed = ignored;
            let too_large = synced.too_large.iter().map(LeftOut::from);
            completed.left_out.extend(too_large);
            for waiting in &mut completed.conflicts {
                waiting.review_id = None;
            }
            let protection = Protection::read(tx, project.key)?;
            let head = state_of_row(&project);
            for file in &taken {
                let there = head.entry(&index.objects, &file.path)?;
                file.add_to(&mut completed, there, &protection);
            }
            completed.merged.sort();
            if completed.atomic && !completed.conflicts.is_empty() {
                completed.merged.clear();
            }
            Ok(completed)
        })
    }

    /// The files at paths that a sync left out, by one `stat` for each and no read. What came through
    /// us is in the index, and is merged from there.
    fn list_ignored(&self, row: &WorkspaceRow, ignored: &[RelPath]) -> Result<Vec<UnreadFile>> {
        let dir = self.directories.dir_of(row)?;
        let limit = largest_file(&self.contents, row);
        let known: HashSet<RelPath> = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let rows = Index::new(self.store(), tx, &now).with_rows()?.all_rows()?;
            Ok(rows.into_iter().map(|row| row.path).collect())
        })?;
        let mut files = Vec::new();
        for top in ignored {
            let mut add = |path: &RelPath, stat: &Stat| {
                if matches!(stat.entry_kind(), Some(kind) if kind != EntryKind::Dir)
                    && !known.contains(path)
                {
                    let is_file = stat.entry_kind() == Some(EntryKind::File);
                    let too_large = (is_file && stat.size > limit).then(|| TooLarge {
                        path: path.clone(),
                        size: stat.size,
                        limit,
                    });
                    files.push(UnreadFile {
                        path: path.clone(),
                        too_large,
                    });
                }
                Ok(Walk::Enter)
            };
            match dir.stat(top)? {
                Some(stat) if stat.is_dir() => dir.walk(top, add)?,
                Some(stat) => add(top, &stat).map(drop)?,
                None => {}
            }
        }
        Ok(files)
    }
}
